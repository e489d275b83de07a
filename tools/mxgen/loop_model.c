#include "loop_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mxgen/error.h>

enum {
    TURN = 4, /* cycles between instructions of a wave */
    SIMDS = 4,
    LDS_BYTES = 128,
    LDS_LATENCY = 128,
    CACHE_BYTES = 64,
    LOAD_LATENCY = 800,
    CONSTANT_LATENCY = 200,
    BARRIER_LATENCY = 16,
    SLOW_VECTOR = 16, /* cycles of what goes at a quarter of the rate */
    READ_PASSES = 4,  /* until others than a sum's next addition may read it */
    LANES = 64,
    REGISTERS = 1024, /* v0.., a0.. from 512 */
    MAX_WAVES = 8,
    IN_FLIGHT = 64,
    ROUNDS_BEFORE = 8,
    ROUNDS = 24
};

typedef enum port {
    PORT_VECTOR = 0,
    PORT_SCALAR,
    PORT_LDS,
    PORT_MEMORY,
    PORT_OTHER,
    PORT_COUNT
} port;

typedef enum counter { COUNT_NONE = 0, COUNT_VM, COUNT_LGKM, COUNTER_COUNT } counter;

typedef struct range {
    int first, count;
} range;

typedef struct step {
    port port;
    counter counter;    /* what the instruction raises until it is done */
    int service;        /* cycles of the LDS or the cache, all SIMDs' together; of a vector unit */
    int latency;        /* after that */
    int product_cycles; /* matrix instructions */
    bool barrier, wait;
    int at_most[COUNTER_COUNT]; /* wait */
    range writes;               /* matrix instructions */
    range reads[4];
    int n_reads;
} step;

/* ---- What an instruction is ---- */

static bool starts(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

typedef struct product_row {
    const char *start;
    int cycles[2]; /* of CDNA2, and of CDNA3 and 4 */
    int narrow;    /* with 4- and 6-bit elements on both sides; 0: none */
} product_row;

/* Passes of the documents, times 4 cycles. */
static const product_row product_rows[] = {
    {"v_mfma_scale_f32_32x32x64_f8f6f4", {0, 64}, 32},
    {"v_mfma_scale_f32_16x16x128_f8f6f4", {0, 32}, 16},
    {"v_mfma_f32_32x32x16_bf16", {0, 32}, 0},
    {"v_mfma_f32_16x16x32_bf16", {0, 16}, 0},
    {"v_mfma_f32_32x32x8_bf16", {64, 32}, 0},
    {"v_mfma_f32_32x32x8bf16_1k", {64, 32}, 0},
    {"v_mfma_f32_16x16x16_bf16", {32, 16}, 0},
    {"v_mfma_f32_16x16x16bf16_1k", {32, 16}, 0},
};

static int product_cycles(const char *text, const char *chip)
{
    bool old = !strcmp(chip, "gfx90a");
    bool narrow = strstr(text, "cbsz:4") && strstr(text, "blgp:4");
    for (size_t i = 0; i < sizeof(product_rows) / sizeof(product_rows[0]); i++) {
        if (starts(text, product_rows[i].start))
            return narrow && product_rows[i].narrow ? product_rows[i].narrow
                                                    : product_rows[i].cycles[!old];
    }
    return 0;
}

/* Bytes that a lane moves, by the end of the name. */
static int access_bytes(const char *text)
{
    static const struct {
        const char *part;
        int bytes;
    } sizes[] = {{"_b128", 16},     {"x4", 16},   {"_b96", 12}, {"x3", 12},  {"read2_b64", 16},
                 {"2_b32", 8},      {"_b64", 8},  {"x2", 8},    {"_b32", 4}, {"dword", 4},
                 {"2st64_b64", 16}, {"short", 2}, {"16", 2},    {"byte", 1}, {"8", 1}};
    char name[MXGEN_DISASM_TEXT_BYTES];
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(text, " "), text);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        if (strstr(name, sizes[i].part))
            return sizes[i].bytes;
    }
    return 4;
}

/* "v[4:7]" or "a12" at `text`. */
static bool read_range(const char *text, range *out)
{
    int first, last;
    char bank;
    if (sscanf(text, "%c[%d:%d]", &bank, &first, &last) == 3 && (bank == 'v' || bank == 'a'))
        *out = (range){first + (bank == 'a' ? REGISTERS / 2 : 0), last - first + 1};
    else if (sscanf(text, "%c%d", &bank, &first) == 2 && (bank == 'v' || bank == 'a'))
        *out = (range){first + (bank == 'a' ? REGISTERS / 2 : 0), 1};
    else
        return false;
    return out->first >= 0 && out->count > 0 && out->first + out->count <= REGISTERS;
}

static void read_operands(const char *text, step *s)
{
    range r;
    const char *at = strchr(text, ' ');
    for (int i = 0; at && i < 5; i++) {
        at += strspn(at, " ,");
        if (read_range(at, &r)) {
            if (i == 0 && s->product_cycles)
                s->writes = r;
            else if (s->n_reads < 4)
                s->reads[s->n_reads++] = r;
        }
        at = strchr(at, ',');
    }
}

static void read_wait(const char *text, step *s)
{
    static const char *const names[COUNTER_COUNT] = {NULL, "vmcnt(", "lgkmcnt("};
    for (int c = COUNT_VM; c < COUNTER_COUNT; c++) {
        const char *at = strstr(text, names[c]);
        s->at_most[c] = at ? atoi(at + strlen(names[c])) : IN_FLIGHT;
    }
    s->wait = true;
}

static void read_access(const char *text, step *s, loop_figures *f)
{
    int bytes = access_bytes(text);
    bool lds = starts(text, "ds_");
    s->port = lds ? PORT_LDS : PORT_MEMORY;
    s->counter = lds ? COUNT_LGKM : COUNT_VM;
    s->latency = lds ? LDS_LATENCY : LOAD_LATENCY;
    s->service = LANES * bytes / (lds ? LDS_BYTES : CACHE_BYTES);
    if (!lds && bytes < 16)
        s->service = LANES;
    if (s->service < 1)
        s->service = 1;
    s->service *= SIMDS;
    bool writes = strstr(text, "write") || strstr(text, "store");
    f->lds_reads += lds && !writes;
    f->lds_writes += lds && writes;
    f->loads += !lds && !writes;
    f->stores += !lds && writes;
    f->narrow_lds += lds && bytes < 16;
    f->narrow_loads += !lds && bytes < 16;
    f->scratch += starts(text, "scratch_") || starts(text, "buffer_");
}

static bool is_slow(const char *text)
{
    static const char *const names[] = {"v_mul_lo_u32",  "v_mul_hi_",  "v_mad_u64_u32",
                                        "v_mad_i64_i32", "v_rcp_",     "v_exp_",
                                        "v_log_",        "v_ldexp_f64"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (starts(text, names[i]))
            return true;
    }
    return false;
}

static mx_status classify(const mxgen_instruction *line, const char *chip, step *s, loop_figures *f,
                          mx_error *err)
{
    const char *text = line->text;
    *s = (step){.port = PORT_OTHER};
    if (starts(text, "v_mfma_") || starts(text, "v_smfmac_")) {
        s->port = PORT_VECTOR;
        s->product_cycles = product_cycles(text, chip);
        if (!s->product_cycles)
            return mx_fail(err, MX_ERR_UNSUPPORTED, "the cycles of \"%s\" on %s are not known here",
                           text, chip);
        f->products++;
        f->product_cycles += s->product_cycles;
    } else if (starts(text, "v_")) {
        s->port = PORT_VECTOR;
        s->service = is_slow(text) ? SLOW_VECTOR : TURN;
        f->vector++;
        f->spilled += starts(text, "v_readlane") || starts(text, "v_writelane");
    } else if (starts(text, "ds_") || starts(text, "global_") || starts(text, "flat_") ||
               starts(text, "scratch_") || starts(text, "buffer_")) {
        read_access(text, s, f);
    } else if (starts(text, "s_load")) {
        s->port = PORT_SCALAR;
        s->counter = COUNT_LGKM;
        s->latency = CONSTANT_LATENCY;
        f->loads++;
    } else if (starts(text, "s_barrier")) {
        s->barrier = true;
        f->barriers++;
    } else if (starts(text, "s_waitcnt")) {
        read_wait(text, s);
    } else if (starts(text, "s_nop")) {
        s->service = TURN * (1 + atoi(text + strlen("s_nop ")));
        f->nops++;
    } else if (!starts(text, "s_cbranch") && !starts(text, "s_setprio")) {
        s->port = PORT_SCALAR;
        f->scalar++;
    }
    read_operands(text, s);
    return MX_OK;
}

/* ---- The SIMD ---- */

typedef struct wave {
    size_t next;
    int round;
    bool at_barrier;
    int64_t ready;                          /* for its next instruction */
    int64_t done[COUNTER_COUNT][IN_FLIGHT]; /* when what was last issued is: a ring */
    int64_t issued[COUNTER_COUNT];
    int64_t summed[REGISTERS]; /* when others than sums may read it */
    int64_t begun[ROUNDS + 1];
} wave;

typedef struct simd {
    const step *steps;
    size_t n;
    wave waves[MAX_WAVES];
    int n_waves;
    int64_t now, lds_free, cache_free, matrix_free, vector_free;
} simd;

static int64_t last_done(const wave *w, counter c, int at_most)
{
    int64_t which = w->issued[c] - at_most - 1;
    return which < 0 || at_most >= IN_FLIGHT ? 0 : w->done[c][which % IN_FLIGHT];
}

static bool same(range a, range b)
{
    return a.first == b.first && a.count == b.count;
}

static bool can_issue(const simd *u, const wave *w, const step *s)
{
    if (w->ready > u->now || w->at_barrier)
        return false;
    if (s->wait)
        return last_done(w, COUNT_VM, s->at_most[COUNT_VM]) <= u->now &&
               last_done(w, COUNT_LGKM, s->at_most[COUNT_LGKM]) <= u->now;
    if (s->port == PORT_VECTOR && u->vector_free > u->now)
        return false;
    if (s->product_cycles && u->matrix_free > u->now)
        return false;
    for (int i = 0; i < s->n_reads; i++) {
        if (s->product_cycles && same(s->reads[i], s->writes))
            continue;
        for (int r = 0; r < s->reads[i].count; r++) {
            if (w->summed[s->reads[i].first + r] > u->now)
                return false;
        }
    }
    return true;
}

static void take_unit(simd *u, wave *w, const step *s)
{
    int64_t *is_free = s->port == PORT_LDS ? &u->lds_free : &u->cache_free;
    int64_t done = u->now + s->latency;
    if (s->port == PORT_LDS || s->port == PORT_MEMORY) {
        *is_free = (*is_free > u->now ? *is_free : u->now) + s->service;
        done = *is_free + s->latency;
    }
    int64_t before = last_done(w, s->counter, 0);
    w->done[s->counter][w->issued[s->counter] % IN_FLIGHT] = done > before ? done : before;
    w->issued[s->counter]++;
}

static void issue(simd *u, wave *w, const step *s)
{
    w->ready = u->now + TURN;
    w->at_barrier = s->barrier;
    if (s->counter != COUNT_NONE) {
        take_unit(u, w, s);
    } else if (s->product_cycles) {
        u->matrix_free = u->now + s->product_cycles;
        u->vector_free = u->now + TURN;
        for (int r = 0; r < s->writes.count; r++)
            w->summed[s->writes.first + r] = u->matrix_free + TURN * READ_PASSES;
    } else if (s->port == PORT_VECTOR) {
        u->vector_free = u->now + s->service;
    } else if (s->service > TURN) {
        w->ready = u->now + s->service;
    }
    if (++w->next == u->n) {
        w->next = 0;
        w->begun[++w->round] = u->now;
    }
}

static void pass_barrier(simd *u)
{
    for (int i = 0; i < u->n_waves; i++) {
        if (!u->waves[i].at_barrier)
            return;
    }
    for (int i = 0; i < u->n_waves; i++) {
        u->waves[i].at_barrier = false;
        u->waves[i].ready = u->now + BARRIER_LATENCY;
    }
}

/* One turn: the wave that is behind first. */
static void issue_turn(simd *u)
{
    bool used[PORT_COUNT] = {false}, had[MAX_WAVES] = {false};
    for (int k = 0; k < u->n_waves; k++) {
        int best = -1;
        for (int i = 0; i < u->n_waves; i++) {
            const wave *w = &u->waves[i];
            if (had[i] || w->round == ROUNDS)
                continue;
            if (best < 0 || w->round < u->waves[best].round ||
                (w->round == u->waves[best].round && w->next < u->waves[best].next))
                best = i;
        }
        if (best < 0)
            return;
        had[best] = true;
        wave *w = &u->waves[best];
        const step *s = &u->steps[w->next];
        bool is_free = s->wait || s->port == PORT_OTHER || !used[s->port];
        if (!is_free || !can_issue(u, w, s))
            continue;
        used[s->port] = true;
        issue(u, w, s);
    }
    pass_barrier(u);
}

static double cycles_of_round(const step *steps, size_t n, int n_waves)
{
    simd *u = calloc(1, sizeof(*u));
    if (!u)
        return 0.0;
    *u = (simd){.steps = steps, .n = n, .n_waves = n_waves};
    int done = 0;
    /* A round is far below this many turns whatever its instructions wait for. */
    int64_t most = (int64_t)(n + 64) * ROUNDS * n_waves * LOAD_LATENCY;
    while (done < n_waves && u->now < most) {
        issue_turn(u);
        u->now += TURN;
        done = 0;
        for (int i = 0; i < n_waves; i++)
            done += u->waves[i].round == ROUNDS;
    }
    int64_t begin = 0, end = 0;
    for (int i = 0; i < n_waves && done == n_waves; i++) {
        const wave *w = &u->waves[i];
        begin = w->begun[ROUNDS_BEFORE] > begin ? w->begun[ROUNDS_BEFORE] : begin;
        end = w->begun[ROUNDS] > end ? w->begun[ROUNDS] : end;
    }
    free(u);
    return (double)(end - begin) / (ROUNDS - ROUNDS_BEFORE);
}

/* ---- The loop ---- */

static bool branch_target(const mxgen_instruction *line, uint64_t *out)
{
    if (!starts(line->text, "s_cbranch") && !starts(line->text, "s_branch"))
        return false;
    *out = line->at + 4 + (uint64_t)((int64_t)(int16_t)(line->word & 0xffff) * 4);
    return true;
}

static size_t index_at(const mxgen_instruction *code, size_t n, uint64_t at)
{
    size_t i = 0;
    while (i < n && code[i].at < at)
        i++;
    return i;
}

size_t loop_model_after(const mxgen_instruction *code, size_t i, size_t end)
{
    uint64_t target;
    bool jumps = starts(code[i].text, "s_branch") || starts(code[i].text, "s_cbranch_execnz");
    if (!jumps || !branch_target(&code[i], &target) || target <= code[i].at)
        return i + 1;
    size_t at = i + 1;
    while (at < end && code[at].at < target)
        at++;
    return at < end ? at : i + 1;
}

static bool is_product(const char *text)
{
    return starts(text, "v_mfma") || starts(text, "v_wmma");
}

static void find_loop(const mxgen_instruction *code, size_t n, loop_figures *out)
{
    int most = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t target;
        int products = 0;
        bool inner = true;
        if (!branch_target(&code[i], &target) || target > code[i].at)
            continue;
        size_t begin = index_at(code, n, target);
        for (size_t k = begin; k < i && inner; k++) {
            uint64_t other;
            products += is_product(code[k].text);
            inner = !branch_target(&code[k], &other) || other > code[k].at;
        }
        if (inner && products > most) {
            most = products;
            out->begin = begin;
            out->end = i + 1;
        }
    }
}

bool loop_model_knows(const mxgen_target *target)
{
    static const char *const names[] = {"gfx90a", "gfx942", "gfx950"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (!strcmp(mxgen_target_name(target), names[i]))
            return true;
    }
    return false;
}

mx_status loop_model_find(const mxgen_instruction *code, size_t n, loop_figures *out, mx_error *err)
{
    loop_figures f = {0};
    find_loop(code, n, &f);
    if (f.end == 0)
        return mx_fail(err, MX_ERR_UNSUPPORTED, "the kernel has no loop with matrix instructions");
    *out = f;
    return MX_OK;
}

mx_status loop_model_run(const mxgen_target *target, const mxgen_instruction *code, int waves,
                         loop_figures *figures, mx_error *err)
{
    const char *chip = mxgen_target_name(target);
    loop_figures f = *figures;
    if (!loop_model_knows(target))
        return mx_fail(err, MX_ERR_UNSUPPORTED,
                       "%s: the model knows gfx90a, gfx942 and gfx950 only", chip);
    step *steps = calloc(f.end - f.begin, sizeof(*steps));
    if (!steps)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for %zu instructions", f.end - f.begin);
    mx_status status = MX_OK;
    size_t n_steps = 0;
    for (size_t i = f.begin; i < f.end && status == MX_OK; i = loop_model_after(code, i, f.end))
        status = classify(&code[i], chip, &steps[n_steps++], &f, err);
    int n_waves = (waves + SIMDS - 1) / SIMDS;
    if (status == MX_OK && n_waves > MAX_WAVES)
        status = mx_fail(err, MX_ERR_INVALID, "%d waves a SIMD, at most %d", n_waves, MAX_WAVES);
    if (status == MX_OK) {
        f.cycles = cycles_of_round(steps, n_steps, n_waves);
        if (f.cycles <= 0.0)
            status = mx_fail(err, MX_ERR_INTERNAL, "the modelled loop comes to no end");
        else
            f.busy = f.product_cycles * n_waves / f.cycles;
    }
    free(steps);
    if (status == MX_OK)
        *figures = f;
    return status;
}
