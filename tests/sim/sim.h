/* Internal structures of the simulator. */
#ifndef SIM_H
#define SIM_H

#include "mxsim.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LANES 64
#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

typedef struct chip {
    const char *name;      /* gfx942 */
    const char *full_name; /* with features, as hipDeviceProp reports it */
    const char *marketing;
    int gen;            /* 9, 11 or 12 */
    int wave_size;      /* native wave */
    uint32_t lds_bytes; /* a workgroup's limit */
    int compute_units;
    int major, minor, stepping;
    int mach;       /* as the flags of its code objects say it */
    bool agpr;      /* has accumulation registers */
    bool flat_arch; /* architected flat scratch */
    bool fnuz;      /* fp8 is FNUZ */
    bool is950, is90a;
} chip;

const chip *sim_chip(void);

/* Scalar register numbers in wave.s; those with a fixed place in the encoding keep it. */
enum {
    S_VCC = 106,
    S_TTMP0 = 108,
    S_M0 = 124,
    S_EXEC = 126,
    S_FLAT = 128,
    S_XNACK = 130,
    S_COUNT = 132
};

enum op_kind {
    OK_NONE, /* absent, "off", or a null destination */
    OK_SGPR,
    OK_VGPR, /* accumulation registers follow at 256 */
    OK_IMM,
    OK_SCC,
    OK_VCCZ,
    OK_EXECZ,
    OK_OTHER /* text that only some instructions understand */
};

enum { MOD_ABS = 1, MOD_NEG = 2, MOD_SEXT = 4 };

typedef struct operand {
    uint8_t kind;
    uint8_t n;    /* registers written in the text */
    uint8_t mods; /* MOD_ */
    uint8_t half; /* 0: none, 1: .l, 2: .h */
    uint8_t fp;   /* immediate given as a float: `f` holds it */
    uint8_t hex;  /* immediate given in hexadecimal: a literal */
    char type;    /* letter of the format string */
    uint8_t sel;  /* take the high half of a 16-bit source */
    uint16_t reg;
    uint64_t imm;
    double f;
    uint32_t *bcast; /* immediates of vector sources, all lanes */
} operand;

typedef struct wave wave;
typedef struct inst inst;
typedef void (*exec_fn)(wave *w, const inst *in);

/* Registers that an operand of a format letter takes; 'x' says it in the text. */
static inline int operand_dwords(char type)
{
    return type == 'q' || type == 'd' || type == 'l' || type == 'F' || type == 'Q' ? 2 : 1;
}

/* What a lane function sees besides its operands. */
typedef struct vctx {
    wave *w;
    const inst *in;
    int n; /* lanes: 32 or 64 */
} vctx;

/* d: results, s: sources; register k of lane i is at [k * LANES + i]. */
typedef void (*valu_fn)(const vctx *c, uint32_t *restrict d, const uint32_t *const *s);
typedef uint64_t (*salu_fn)(wave *w, uint64_t a, uint64_t b);
typedef void (*any_fn)(void);

enum {
    VF_CLAMP_INT = 1, /* clamp saturates; the lane function looks at in->clamp */
    VF_NODENORM = 2,  /* flushes denormals whatever the mode */
    VF_RAW = 4,       /* no handling of modifiers: the function does it */
    VF_NOFLUSH = 8    /* moves bits: never flushes */
};

typedef struct valu_op {
    const char *name;
    const char *fmt; /* results ':' sources, one letter each; see sim_valu.c */
    valu_fn fn;
    int flags;
} valu_op;

typedef struct salu_op {
    const char *name;
    const char *fmt;
    salu_fn fn;
} salu_op;

typedef struct special_op {
    const char *name;
    const char *fmt; /* result count and source letters as above, "*" for any */
    exec_fn fn;
    int cls;
} special_op;

enum inst_class {
    CLS_VALU,
    CLS_SALU,
    CLS_SMEM,
    CLS_VMEM_LOAD,
    CLS_VMEM_STORE,
    CLS_LDS,
    CLS_MFMA,
    CLS_BRANCH,
    CLS_WAIT,
    CLS_OTHER,
    CLS_COUNT
};

/* Memory instructions, decoded from the mnemonic. */
enum mem_space { SP_GLOBAL, SP_FLAT, SP_SCRATCH, SP_BUFFER, SP_LDS };
enum mem_kind { MK_LOAD, MK_STORE, MK_ATOMIC, MK_LDS_LOAD };

typedef struct mem_info {
    uint8_t space, kind;
    uint8_t bytes; /* per lane and element */
    uint8_t count; /* 2 for read2/write2 */
    uint8_t sext;  /* sign extend a short load */
    uint8_t d16;   /* 1: low half, 2: high half of the register */
    uint8_t ret;   /* atomic returns the old value */
    uint8_t atom;  /* enum atom_op */
    uint8_t tr;    /* transposing load */
    uint8_t offen, idxen, lds;
    int64_t offset;
    uint32_t stride; /* read2st64 */
    uint32_t offset0, offset1;
    operand data, data2, vaddr, saddr, soffset, dst;
} mem_info;

typedef struct reg_range {
    uint8_t vgpr;
    uint8_t n;
    uint16_t reg;
} reg_range;

enum sdwa_sel { SEL_BYTE0, SEL_BYTE1, SEL_BYTE2, SEL_BYTE3, SEL_WORD0, SEL_WORD1, SEL_DWORD };

typedef struct dpp_info {
    int32_t src[LANES];   /* source lane; 0 where it is out of range */
    uint32_t keep[LANES]; /* ~0: in range */
    uint64_t valid;
    uint64_t write; /* row and bank masks */
    bool bound_ctrl, fi;
} dpp_info;

typedef struct matrix_info {
    int m, n, k, blocks;
    char a_type, b_type, d_type; /* letters of sim_matrix.c */
    int cbsz, abid, blgp;
    bool scaled;
} matrix_info;

struct inst {
    exec_fn exec;
    union {
        valu_fn v;
        salu_fn s;
        exec_fn x;
    } fn;
    inst *succ, *target;
    operand dst[2], src[6];
    uint8_t ndst, nsrc;
    uint8_t cls, size;
    uint8_t flags;
    bool clamp, plain;
    uint8_t omod;
    uint8_t op_sel, op_sel_hi, neg_lo, neg_hi;
    uint8_t op_sel_n;
    const struct valu_op *op;
    bool vop3_only; /* no e32/e64 suffix: one encoding only */
    bool sdwa;
    uint8_t dst_sel, dst_unused, src_sel[2];
    int8_t byte_sel; /* -1: none */
    uint8_t cmp_x;   /* v_cmpx */
    bool is_cmp;
    uint8_t nread, nwrite;
    reg_range read[10], write[4];
    dpp_info *dpp;
    mem_info *mem;
    matrix_info *mat;
    inst *pair; /* second half of a dual-issue instruction */
    int32_t simm16;
    uint32_t raw[4];
    uint64_t addr;
    const struct program *prog;
    char *text;
};

typedef struct kernel_arg {
    uint32_t offset, size;
    char kind[32];
} kernel_arg;

typedef struct kernel {
    char *name;
    uint64_t kd_offset; /* in the image */
    uint32_t group_bytes, private_bytes, kernarg_bytes;
    uint64_t entry; /* host address of the first instruction */
    uint32_t rsrc1, rsrc2, rsrc3;
    uint16_t properties, preload;
    int nargs, nexplicit;
    kernel_arg *args;
    int wave_size;
    uint32_t max_group;
    uint32_t vgprs, sgprs; /* register counts from the metadata */
    uint32_t spills;
    uint32_t vgpr_limit, agpr_base;
    bool checked; /* its registers lie within these */
    struct program *prog;
    struct kernel *next;
} kernel;

typedef struct symbol {
    uint64_t addr, size;
    char *name;
} symbol;

typedef struct program {
    uint8_t *image;
    size_t image_bytes;
    uint64_t text, text_end; /* host addresses */
    inst **map;              /* by (address - text) / 4 */
    void *dis[2];            /* wave32, wave64 */
    pthread_mutex_t lock;
    kernel *kernels;
    symbol *symbols;
    size_t nsymbols;
    int wave_size; /* of the kernel decoded first */
} program;

/* Memory counters of the waits. */
enum { CT_VM, CT_LGKM, CT_VS, CT_EXP, CT_COUNT };
enum pend_class { PC_VMEM, PC_LDS, PC_SMEM, PC_FLAT, PC_STORE };

#define MAX_PEND 192

typedef struct pending {
    uint8_t counters; /* bit per CT_ still outstanding */
    uint8_t cls;
    uint8_t lds_write[2]; /* index + 1 into lds_writes */
    reg_range regs;
    const inst *in;
} pending;

typedef struct lds_write {
    uint64_t mask;
    uint8_t bytes;
    bool used, dma;
    uint32_t addr[LANES];
} lds_write;

enum wave_state { WS_RUN, WS_BARRIER, WS_DONE };

typedef struct group group;

struct wave {
    uint32_t (*v)[LANES];
    union {
        uint32_t s[S_COUNT];
        uint64_t s64[S_COUNT / 2];
    };
    uint32_t scc, mode;
    int n; /* lanes */
    uint64_t full;
    const inst *pc;
    group *g;
    int index; /* in the group */
    int state;
    bool signalled;
    uint8_t gpr_idx; /* operands that s_set_gpr_idx makes relative to M0 */
    bool flush;      /* fp32 denormals are not kept both ways */
    uint8_t *scratch;
    uint32_t scratch_bytes; /* per lane */
    uint64_t scratch_base;  /* device address of this wave's part */
    int npend;
    pending pend[MAX_PEND];
    uint64_t pend_v[8];
    uint64_t pend_s[3];
    int nlds_writes;
    lds_write lds_writes[32];
    uint64_t executed;
};

typedef struct launch {
    kernel *k;
    uint32_t grid[3];  /* in workgroups */
    uint32_t block[3]; /* in work items */
    uint32_t items[3]; /* grid in work items (uneven grids) */
    uint32_t dynamic_lds, lds_bytes;
    uint8_t *kernarg;
    uint64_t dispatch_ptr;
    uint64_t next_group, total_groups;
    int failed;
    uint64_t budget;
    mxrt_counters sum;
    pthread_mutex_t lock;
} launch;

/* One workgroup being run by one thread. */
struct group {
    launch *l;
    uint32_t id[3];
    uint32_t size[3];
    int nwaves;
    wave *waves;
    uint8_t *lds;
    uint32_t lds_bytes;
    uint8_t *lds_init;         /* bytes written: 1 */
    uint8_t *lds_dma;          /* bytes with a direct load under way */
    int dma_live;              /* direct loads under way */
    uint16_t *lds_wr, *lds_rd; /* race records */
    uint16_t epoch;
    bool uniform_fail;
    jmp_buf escape;
    mxrt_counters cnt;
    uint64_t cls[CLS_COUNT];
    uint32_t seen[1024];
    uint64_t seen_line[1024];
    uint32_t seen_tag;
    struct alloc *recent[4]; /* allocations used last */
    unsigned recent_next;
    struct kernel *k;
    uint32_t *vgpr_store;
    uint8_t *scratch_store;
    uint64_t scratch_dev;
};

typedef struct checks {
    bool uninit, race, wait;
} checks;
extern checks sim_checks;
extern bool sim_trace;

/* sim_fault.c */
void sim_fault(wave *w, const inst *in, int lane, const char *fmt, ...)
    __attribute__((noreturn, format(printf, 4, 5)));
void sim_report(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void sim_report_reset(void);

/* sim_mem.c */
typedef struct alloc {
    uint64_t lo, hi;
    bool all_written, host, readonly, internal;
    int device;
} alloc;
int sim_mem_init(void);
void *sim_mem_alloc(size_t bytes, bool host, int device);
int sim_mem_free(void *p);
alloc *sim_mem_find(uint64_t addr);
/* The nearest one within a gap of the address. */
alloc *sim_mem_near(uint64_t addr);
bool sim_mem_is_arena(uint64_t addr);
uint8_t *sim_mem_shadow(uint64_t addr);
void sim_mem_mark(uint64_t addr, size_t bytes, bool written);
size_t sim_mem_used(void);
uint64_t sim_mem_live(void);

/* sim_code.c, sim_msgpack.c */
program *program_load(const void *data, char *err, size_t err_bytes);
void program_free(program *p);
int metadata_read(program *p, const uint8_t *data, size_t bytes);
int metadata_target(const uint8_t *data, size_t bytes, char *out, size_t out_bytes);
const char *program_symbol(const program *p, uint64_t addr, uint64_t *off);

/* sim_decode.c */
void decode_note_read(inst *in, const operand *o, int dwords);
void decode_note_write(inst *in, const operand *o, int dwords);
inst *decode_at(program *p, uint64_t addr, int wave_size, char *err, size_t err_bytes);
/* sim_parse.c */
typedef struct parsed {
    char mnem[64];
    char ops[8][96];
    int nops;
    char mods[24][64];
    int nmods;
} parsed;
void parse_text(const char *text, parsed *out);
bool parse_operand(const char *text, operand *o);
const char *parsed_mod(const parsed *p, const char *name);

/* Execution. */
void exec_invalid(wave *w, const inst *in);
void exec_valu(wave *w, const inst *in);
void exec_cmp(wave *w, const inst *in);
void exec_pk16(wave *w, const inst *in);
void exec_pk32(wave *w, const inst *in);
void exec_dual(wave *w, const inst *in);
void exec_salu(wave *w, const inst *in);
void exec_mem(wave *w, const inst *in);
void exec_lds(wave *w, const inst *in);
void exec_smem(wave *w, const inst *in);
void exec_mfma(wave *w, const inst *in);
void exec_wmma(wave *w, const inst *in);
void exec_nop(wave *w, const inst *in);
bool decode_mem(inst *in, const parsed *p, const char *m);
bool decode_matrix(inst *in, const parsed *p, const char *m);
valu_fn cmp_lookup(const char *m, char *type);

uint64_t read_scalar(wave *w, const operand *o);
void write_scalar(wave *w, const operand *o, uint64_t value, int dwords);
void commit_reg(wave *w, uint32_t *dst, const uint32_t *d, uint64_t mask);
uint64_t pack_mask(const uint32_t *d, int n);
void expand_mask(uint32_t *d, uint64_t m);

void wait_add(wave *w, const inst *in, int counters, int cls, int vgpr, int reg, int n);
void wait_until(wave *w, int counter, int n);
void wait_check(wave *w, const inst *in);
void wait_recheck_barrier(wave *w);
int lds_write_slot(wave *w, uint64_t mask, const uint32_t *addr, int bytes, bool dma);
void lds_race_write(wave *w, const inst *in, int lane, uint32_t addr, uint32_t n);
void lds_race_read(wave *w, const inst *in, int lane, uint32_t addr, uint32_t n);
void lds_flat_lane(wave *w, const inst *in, int lane, uint32_t addr);
void transpose_result(wave *w, const inst *in);
void lds_remark(wave *w, const lds_write *lw);

int launch_run(launch *l);
void group_run(group *g);
void group_barrier_release(group *g);

extern const valu_op valu_int_ops[], valu_float_ops[], valu_half_ops[], valu_cvt_ops[],
    valu_double_ops[], valu_scale_ops[];
extern const size_t valu_int_count, valu_float_count, valu_half_count, valu_cvt_count,
    valu_double_count, valu_scale_count;
extern const salu_op salu_ops[];
extern const size_t salu_count;
extern const special_op special_ops[], lane_ops[];
extern const size_t special_count, lane_count;

static inline uint64_t wave_mask64(const wave *w, int reg)
{
    return w->n == 64 ? (uint64_t)w->s[reg] | (uint64_t)w->s[reg + 1] << 32 : w->s[reg];
}

#endif
