/* Branches, waits, barriers, hardware registers, and the instructions that do nothing here. */
#include "sim.h"
#include "sim_bits.h"

#include <string.h>

void exec_nop(wave *w, const inst *in)
{
    (void)w;
    (void)in;
}

static void x_endpgm(wave *w, const inst *in)
{
    (void)in;
    w->state = WS_DONE;
}

/* There is no handler; a kernel that traps gave up. */
static void x_trap(wave *w, const inst *in)
{
    sim_fault(w, in, -1, "the kernel trapped");
}

static void take(wave *w, const inst *in)
{
    if (in->target) {
        w->pc = in->target;
        return;
    }
    char err[128];
    uint64_t to = in->addr + 4 + (uint64_t)((int64_t)in->simm16 * 4);
    w->pc = decode_at((program *)in->prog, to, w->n, err, sizeof err);
    if (!w->pc)
        sim_fault(w, in, -1, "branch to %s", err);
}

static void x_branch(wave *w, const inst *in)
{
    take(w, in);
}

static void x_scc0(wave *w, const inst *in)
{
    if (!w->scc)
        take(w, in);
}

static void x_scc1(wave *w, const inst *in)
{
    if (w->scc)
        take(w, in);
}

static void x_vccz(wave *w, const inst *in)
{
    if (!wave_mask64(w, S_VCC))
        take(w, in);
}

static void x_vccnz(wave *w, const inst *in)
{
    if (wave_mask64(w, S_VCC))
        take(w, in);
}

static void x_execz(wave *w, const inst *in)
{
    if (!wave_mask64(w, S_EXEC))
        take(w, in);
}

static void x_execnz(wave *w, const inst *in)
{
    if (wave_mask64(w, S_EXEC))
        take(w, in);
}

static void jump(wave *w, const inst *in, uint64_t to)
{
    char err[128];
    w->pc = decode_at((program *)in->prog, to, w->n, err, sizeof err);
    if (!w->pc)
        sim_fault(w, in, -1, "jump: %s", err);
}

static void x_getpc(wave *w, const inst *in)
{
    write_scalar(w, &in->dst[0], in->addr + 4, 2);
}

static void x_setpc(wave *w, const inst *in)
{
    jump(w, in, read_scalar(w, &in->src[0]));
}

static void x_swappc(wave *w, const inst *in)
{
    uint64_t to = read_scalar(w, &in->src[0]);
    write_scalar(w, &in->dst[0], in->addr + 4, 2);
    jump(w, in, to);
}

static void x_call(wave *w, const inst *in)
{
    uint32_t reg = in->raw[0] >> 16 & 0x7f;
    uint64_t ret = in->addr + 4;
    w->s[reg] = (uint32_t)ret;
    w->s[reg + 1] = (uint32_t)(ret >> 32);
    take(w, in);
}

/* Waits. A field with all bits set waits for nothing. */
static void x_waitcnt(wave *w, const inst *in)
{
    uint32_t x = (uint32_t)in->simm16;
    int vm, lgkm;
    if (sim_chip()->gen == 9) {
        vm = (int)((x & 15) | (x >> 14 & 3) << 4);
        lgkm = (int)(x >> 8 & 15);
        lgkm = lgkm == 15 ? 1000 : lgkm;
    } else {
        vm = (int)(x >> 10 & 63);
        lgkm = (int)(x >> 4 & 63);
        lgkm = lgkm == 63 ? 1000 : lgkm;
    }
    wait_until(w, CT_VM, vm == 63 ? 1000 : vm);
    wait_until(w, CT_LGKM, lgkm);
}

static void x_wait_vscnt(wave *w, const inst *in)
{
    wait_until(w, CT_VS, in->simm16 & 63);
}

static void x_wait_vmcnt(wave *w, const inst *in)
{
    wait_until(w, CT_VM, in->simm16 & 63);
}

static void x_wait_lgkmcnt(wave *w, const inst *in)
{
    wait_until(w, CT_LGKM, in->simm16 & 63);
}

static void x_wait_loadcnt(wave *w, const inst *in)
{
    wait_until(w, CT_VM, in->simm16 & 63);
}

static void x_wait_storecnt(wave *w, const inst *in)
{
    wait_until(w, CT_VS, in->simm16 & 63);
}

static void x_wait_dscnt(wave *w, const inst *in)
{
    wait_until(w, CT_LGKM, in->simm16 & 63);
}

static void x_wait_kmcnt(wave *w, const inst *in)
{
    wait_until(w, CT_EXP, in->simm16 & 31); /* gfx12 keeps scalar loads apart */
}

static void x_wait_load_ds(wave *w, const inst *in)
{
    wait_until(w, CT_VM, in->simm16 >> 8 & 63);
    wait_until(w, CT_LGKM, in->simm16 & 63);
}

static void x_wait_store_ds(wave *w, const inst *in)
{
    wait_until(w, CT_VS, in->simm16 >> 8 & 63);
    wait_until(w, CT_LGKM, in->simm16 & 63);
}

/* Barriers: the group's scheduler releases the waves when all have come. */
static void x_barrier(wave *w, const inst *in)
{
    (void)in;
    w->state = WS_BARRIER;
}

static void x_barrier_signal(wave *w, const inst *in)
{
    (void)in;
    w->signalled = true;
}

/* scc: whether this wave is the first of the group to come. */
static void x_barrier_isfirst(wave *w, const inst *in)
{
    (void)in;
    w->scc = 1;
    for (int i = 0; i < w->g->nwaves; i++)
        if (w->g->waves[i].signalled)
            w->scc = 0;
    w->signalled = true;
}

static void x_barrier_wait(wave *w, const inst *in)
{
    if (!w->signalled)
        sim_fault(w, in, -1, "barrier wait without a signal");
    w->state = WS_BARRIER;
}

static uint32_t hwreg_read(wave *w, uint32_t id)
{
    switch (id) {
    case 1:
        return w->mode;
    case 15: /* apertures: private, shared */
        return 0x00010002;
    case 20: /* flat scratch base */
        return (uint32_t)w->scratch_base;
    case 21:
        return (uint32_t)(w->scratch_base >> 32);
    default:
        return 0;
    }
}

static uint32_t field_mask(uint32_t simm)
{
    uint32_t bits = (simm >> 11 & 31) + 1;
    return bits == 32 ? ~0u : (1u << bits) - 1;
}

static void x_getreg(wave *w, const inst *in)
{
    uint32_t x = (uint32_t)in->simm16;
    w->s[in->raw[0] >> 16 & 0x7f] = hwreg_read(w, x & 63) >> (x >> 6 & 31) & field_mask(x);
}

static void mode_set(wave *w, uint32_t simm, uint32_t value)
{
    if ((simm & 63) != 1)
        return;
    uint32_t off = simm >> 6 & 31, m = field_mask(simm) << off;
    w->mode = (w->mode & ~m) | (value << off & m);
    w->flush = (w->mode >> 4 & 3) != 3;
}

static void x_setreg(wave *w, const inst *in)
{
    mode_set(w, (uint32_t)in->simm16, w->s[in->raw[0] >> 16 & 0x7f]);
}

static void x_setreg_imm(wave *w, const inst *in)
{
    mode_set(w, (uint32_t)in->simm16, in->raw[1]);
}

static void x_round_mode(wave *w, const inst *in)
{
    w->mode = (w->mode & ~15u) | ((uint32_t)in->simm16 & 15);
}

static void x_denorm_mode(wave *w, const inst *in)
{
    w->mode = (w->mode & ~0xf0u) | ((uint32_t)in->simm16 & 15) << 4;
    w->flush = (w->mode >> 4 & 3) != 3;
}

static void x_memtime(wave *w, const inst *in)
{
    write_scalar(w, &in->dst[0], w->executed, 2);
}

static void x_sendmsg_rtn(wave *w, const inst *in)
{
    write_scalar(w, &in->dst[0], 0, in->dst[0].n);
}

/* Relative register indices of gfx9: bits 15:12 of M0 hold the mode, 7:0 the index. */
static void x_gpr_idx_on(wave *w, const inst *in)
{
    uint32_t ssrc = in->raw[0] & 0xff, imm = in->raw[0] >> 8 & 0xff;
    uint32_t index = ssrc < 128 ? w->s[ssrc] : ssrc - 128;
    w->s[S_M0] = (w->s[S_M0] & 0xffff0f00) | (index & 0xff) | (imm & 15) << 12;
    w->gpr_idx = imm & 15;
}

static void x_gpr_idx_off(wave *w, const inst *in)
{
    (void)in;
    w->gpr_idx = 0;
}

static void x_gpr_idx_mode(wave *w, const inst *in)
{
    w->gpr_idx = (uint8_t)(in->simm16 & 15);
}

static void x_gpr_idx_idx(wave *w, const inst *in)
{
    uint32_t ssrc = in->raw[0] & 0xff;
    w->s[S_M0] = (w->s[S_M0] & ~0xffu) | ((ssrc < 128 ? w->s[ssrc] : ssrc - 128) & 0xff);
}

/* Scalar registers relative to M0. */
static uint32_t *relative_sgpr(wave *w, const inst *in, const operand *o)
{
    uint32_t r = o->reg + w->s[S_M0];
    if (o->kind != OK_SGPR || r + 1 >= S_VCC)
        sim_fault(w, in, -1, "relative index %u is past the scalar registers", w->s[S_M0]);
    return &w->s[r];
}

static void x_movrels32(wave *w, const inst *in)
{
    write_scalar(w, &in->dst[0], *relative_sgpr(w, in, &in->src[0]), 1);
}

static void x_movrels64(wave *w, const inst *in)
{
    const uint32_t *s = relative_sgpr(w, in, &in->src[0]);
    write_scalar(w, &in->dst[0], s[0] | (uint64_t)s[1] << 32, 2);
}

static void x_movreld32(wave *w, const inst *in)
{
    *relative_sgpr(w, in, &in->dst[0]) = (uint32_t)read_scalar(w, &in->src[0]);
}

static void x_movreld64(wave *w, const inst *in)
{
    uint32_t *d = relative_sgpr(w, in, &in->dst[0]);
    uint64_t x = read_scalar(w, &in->src[0]);
    d[0] = (uint32_t)x;
    d[1] = (uint32_t)(x >> 32);
}

/* Scalar multiply-add, whose accumulator is the destination. */
static void x_s_fmac_f32(wave *w, const inst *in)
{
    float a = u2f((uint32_t)read_scalar(w, &in->src[0])),
          b = u2f((uint32_t)read_scalar(w, &in->src[1]));
    w->s[in->dst[0].reg] = f2u(fmaf(a, b, u2f(w->s[in->dst[0].reg])));
}

static void x_s_fmaak_f32(wave *w, const inst *in)
{
    float a = u2f((uint32_t)read_scalar(w, &in->src[0])),
          b = u2f((uint32_t)read_scalar(w, &in->src[1]));
    w->s[in->dst[0].reg] = f2u(fmaf(a, b, u2f((uint32_t)read_scalar(w, &in->src[2]))));
}

const special_op special_ops[] = {
    {"s_endpgm", "*", x_endpgm, CLS_BRANCH},
    {"s_endpgm_saved", "*", x_endpgm, CLS_BRANCH},
    {"s_branch", "*", x_branch, CLS_BRANCH},
    {"s_cbranch_scc0", "*", x_scc0, CLS_BRANCH},
    {"s_cbranch_scc1", "*", x_scc1, CLS_BRANCH},
    {"s_cbranch_vccz", "*", x_vccz, CLS_BRANCH},
    {"s_cbranch_vccnz", "*", x_vccnz, CLS_BRANCH},
    {"s_cbranch_execz", "*", x_execz, CLS_BRANCH},
    {"s_cbranch_execnz", "*", x_execnz, CLS_BRANCH},
    {"s_getpc_b64", "q:", x_getpc, CLS_SALU},
    {"s_setpc_b64", ":q", x_setpc, CLS_BRANCH},
    {"s_swappc_b64", "q:q", x_swappc, CLS_BRANCH},
    {"s_call_b64", "*", x_call, CLS_BRANCH},
    {"s_waitcnt", "*", x_waitcnt, CLS_WAIT},
    {"s_waitcnt_vscnt", "*", x_wait_vscnt, CLS_WAIT},
    {"s_waitcnt_vmcnt", "*", x_wait_vmcnt, CLS_WAIT},
    {"s_waitcnt_lgkmcnt", "*", x_wait_lgkmcnt, CLS_WAIT},
    {"s_waitcnt_expcnt", "*", exec_nop, CLS_WAIT},
    {"s_waitcnt_depctr", "*", exec_nop, CLS_WAIT},
    {"s_wait_loadcnt", "*", x_wait_loadcnt, CLS_WAIT},
    {"s_wait_storecnt", "*", x_wait_storecnt, CLS_WAIT},
    {"s_wait_dscnt", "*", x_wait_dscnt, CLS_WAIT},
    {"s_wait_kmcnt", "*", x_wait_kmcnt, CLS_WAIT},
    {"s_wait_expcnt", "*", exec_nop, CLS_WAIT},
    {"s_wait_samplecnt", "*", exec_nop, CLS_WAIT},
    {"s_wait_bvhcnt", "*", exec_nop, CLS_WAIT},
    {"s_wait_loadcnt_dscnt", "*", x_wait_load_ds, CLS_WAIT},
    {"s_wait_storecnt_dscnt", "*", x_wait_store_ds, CLS_WAIT},
    {"s_wait_alu", "*", exec_nop, CLS_WAIT},
    {"s_wait_idle", "*", exec_nop, CLS_WAIT},
    {"s_wait_event", "*", exec_nop, CLS_WAIT},
    {"s_barrier", "*", x_barrier, CLS_OTHER},
    {"s_barrier_signal", "*", x_barrier_signal, CLS_OTHER},
    {"s_barrier_signal_isfirst", "*", x_barrier_isfirst, CLS_OTHER},
    {"s_barrier_wait", "*", x_barrier_wait, CLS_OTHER},
    {"s_getreg_b32", "*", x_getreg, CLS_SALU},
    {"s_setreg_b32", "*", x_setreg, CLS_SALU},
    {"s_setreg_imm32_b32", "*", x_setreg_imm, CLS_SALU},
    {"s_round_mode", "*", x_round_mode, CLS_OTHER},
    {"s_denorm_mode", "*", x_denorm_mode, CLS_OTHER},
    {"s_memtime", "q:", x_memtime, CLS_SMEM},
    {"s_memrealtime", "q:", x_memtime, CLS_SMEM},
    {"s_sendmsg_rtn_b32", "*", exec_nop, CLS_OTHER},
    {"s_sendmsg_rtn_b64", "x:", x_sendmsg_rtn, CLS_OTHER},
    {"s_fmac_f32", "f:ff", x_s_fmac_f32, CLS_SALU},
    {"s_fmaak_f32", "f:fff", x_s_fmaak_f32, CLS_SALU},
    {"s_fmamk_f32", "f:fff", x_s_fmaak_f32, CLS_SALU},
    {"s_nop", "*", exec_nop, CLS_OTHER},
    {"s_sleep", "*", exec_nop, CLS_OTHER},
    {"s_sleep_var", "*", exec_nop, CLS_OTHER},
    {"s_sethalt", "*", exec_nop, CLS_OTHER},
    {"s_setkill", "*", exec_nop, CLS_OTHER},
    {"s_setprio", "*", exec_nop, CLS_OTHER},
    {"s_sendmsg", "*", exec_nop, CLS_OTHER},
    {"s_delay_alu", "*", exec_nop, CLS_OTHER},
    {"s_clause", "*", exec_nop, CLS_OTHER},
    {"s_inst_prefetch", "*", exec_nop, CLS_OTHER},
    {"s_set_inst_prefetch_distance", "*", exec_nop, CLS_OTHER},
    {"s_prefetch_inst", "*", exec_nop, CLS_OTHER},
    {"s_prefetch_data", "*", exec_nop, CLS_OTHER},
    {"s_prefetch_inst_pc_rel", "*", exec_nop, CLS_OTHER},
    {"s_prefetch_data_pc_rel", "*", exec_nop, CLS_OTHER},
    {"s_buffer_prefetch_data", "*", exec_nop, CLS_OTHER},
    {"s_version", "*", exec_nop, CLS_OTHER},
    {"s_sendmsghalt", "*", exec_nop, CLS_OTHER},
    {"s_ttracedata_imm", "*", exec_nop, CLS_OTHER},
    {"s_icache_inv", "*", exec_nop, CLS_OTHER},
    {"s_dcache_inv", "*", exec_nop, CLS_OTHER},
    {"s_dcache_wb", "*", exec_nop, CLS_OTHER},
    {"s_gl1_inv", "*", exec_nop, CLS_OTHER},
    {"s_ttracedata", "*", exec_nop, CLS_OTHER},
    {"s_incperflevel", "*", exec_nop, CLS_OTHER},
    {"s_decperflevel", "*", exec_nop, CLS_OTHER},
    {"s_trap", "*", x_trap, CLS_OTHER},
    {"s_code_end", "*", exec_invalid, CLS_OTHER},
    {"s_set_gpr_idx_on", "*", x_gpr_idx_on, CLS_SALU},
    {"s_set_gpr_idx_off", "*", x_gpr_idx_off, CLS_SALU},
    {"s_set_gpr_idx_mode", "*", x_gpr_idx_mode, CLS_SALU},
    {"s_set_gpr_idx_idx", "*", x_gpr_idx_idx, CLS_SALU},
    {"s_movrels_b32", "i:i", x_movrels32, CLS_SALU},
    {"s_movrels_b64", "q:q", x_movrels64, CLS_SALU},
    {"s_movreld_b32", "i:i", x_movreld32, CLS_SALU},
    {"s_movreld_b64", "q:q", x_movreld64, CLS_SALU},
    {"s_setprio_inc_wg", "*", exec_nop, CLS_OTHER},
    {"buffer_wbl2", "*", exec_nop, CLS_OTHER},
    {"buffer_inv", "*", exec_nop, CLS_OTHER},
    {"buffer_invl2", "*", exec_nop, CLS_OTHER},
    {"buffer_wbinvl1", "*", exec_nop, CLS_OTHER},
    {"buffer_wbinvl1_vol", "*", exec_nop, CLS_OTHER},
    {"buffer_gl0_inv", "*", exec_nop, CLS_OTHER},
    {"buffer_gl1_inv", "*", exec_nop, CLS_OTHER},
    {"global_inv", "*", exec_nop, CLS_OTHER},
    {"global_wb", "*", exec_nop, CLS_OTHER},
    {"global_wbinv", "*", exec_nop, CLS_OTHER},
    {"v_nop", "*", exec_nop, CLS_VALU},
};
const size_t special_count = ARRAY_LEN(special_ops);
