/* HIP: modules, launches, streams, events, graphs. */
#include "sim_hip.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STREAM_MAGIC 0x5354524du
#define EVENT_MAGIC 0x45564e54u
#define GRAPH_MAGIC 0x47524150u
#define MODULE_MAGIC 0x4d4f4455u

typedef struct stream {
    uint32_t magic;
    int device;
    bool capturing;
    struct graph *graph;
} stream;

typedef struct event {
    uint32_t magic;
    bool recorded;
    struct timespec at;
} event;

typedef struct graph {
    uint32_t magic;
    graph_node *first, **last;
} graph;

typedef struct module {
    uint32_t magic;
    program *prog;
} module;

static mxrt_counters sums;
static pthread_mutex_t sums_lock = PTHREAD_MUTEX_INITIALIZER;
static __thread int captures; /* streams of this thread being captured */

int mxsim_counters(mxrt_counters *out)
{
    if (!out || out->size_bytes != sizeof *out)
        return -1;
    pthread_mutex_lock(&sums_lock);
    *out = sums;
    pthread_mutex_unlock(&sums_lock);
    out->size_bytes = sizeof *out;
    return 0;
}

static void add_sums(const mxrt_counters *c)
{
    uint64_t *d = &sums.waves;
    const uint64_t *s = &c->waves;
    size_t n = (sizeof sums - offsetof(mxrt_counters, waves)) / sizeof(uint64_t);
    pthread_mutex_lock(&sums_lock);
    sums.launches++;
    for (size_t i = 0; i < n; i++)
        d[i] += s[i];
    pthread_mutex_unlock(&sums_lock);
}

static void print_stats(const launch *l, double seconds)
{
    const mxrt_counters *c = &l->sum;
    uint64_t all = c->valu + c->salu + c->smem + c->vmem_load + c->vmem_store + c->lds + c->mfma +
                   c->branch + c->waitcnt + c->other;
    fprintf(stderr,
            "mxsim: %s grid %ux%ux%u block %ux%ux%u waves %" PRIu64 " insts %" PRIu64
            " (valu %" PRIu64 " salu %" PRIu64 " smem %" PRIu64 " load %" PRIu64 " store %" PRIu64
            " lds %" PRIu64 " mfma %" PRIu64 " branch %" PRIu64 " wait %" PRIu64 ") load %" PRIu64
            " B in %" PRIu64 "/%" PRIu64 " store %" PRIu64 " B in %" PRIu64 "/%" PRIu64
            " transactions of 64/128, lds %" PRIu64 " B, %" PRIu64
            " conflicts, %.3f CPU s, %.1f M insts/s\n",
            l->k->name, l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1], l->block[2],
            c->waves, all, c->valu, c->salu, c->smem, c->vmem_load, c->vmem_store, c->lds, c->mfma,
            c->branch, c->waitcnt, c->load_bytes, c->load_trans64, c->load_trans128, c->store_bytes,
            c->store_trans64, c->store_trans128, c->lds_bytes, c->lds_conflicts, seconds,
            seconds > 0 ? (double)all / seconds / 1e6 : 0.0);
}

static int load_module(void **out, const void *image)
{
    char err[256] = "out of memory";
    if (!out || !image)
        return HIP_INVALID_VALUE;
    module *m = calloc(1, sizeof *m);
    if (!m)
        return HIP_OUT_OF_MEMORY;
    m->prog = program_load(image, err, sizeof err);
    if (!m->prog) {
        free(m);
        sim_report_reset();
        sim_report("module: %s", err);
        return strstr(err, "the device is") ? HIP_NO_BINARY : HIP_INVALID_IMAGE;
    }
    m->magic = MODULE_MAGIC;
    hip_live_add(1);
    *out = m;
    return HIP_OK;
}

HIP_API int hipModuleLoadData(void **out, const void *image)
{
    HIP_BEGIN();
    return hip_leave(load_module(out, image));
}

HIP_API int hipModuleLoadDataEx(void **out, const void *image, unsigned n, void *options,
                                void **values)
{
    (void)n;
    (void)options;
    (void)values;
    HIP_BEGIN();
    return hip_leave(load_module(out, image));
}

HIP_API int hipModuleUnload(void *mod)
{
    HIP_BEGIN();
    module *m = mod;
    if (!m || m->magic != MODULE_MAGIC)
        return hip_leave(HIP_INVALID_HANDLE);
    m->magic = 0;
    program_free(m->prog);
    free(m);
    hip_live_add(-1);
    return HIP_OK;
}

HIP_API int hipModuleGetFunction(void **fn, void *mod, const char *name)
{
    HIP_BEGIN();
    module *m = mod;
    if (!fn || !name)
        return hip_leave(HIP_INVALID_VALUE);
    if (!m || m->magic != MODULE_MAGIC)
        return hip_leave(HIP_INVALID_HANDLE);
    for (kernel *k = m->prog->kernels; k; k = k->next)
        if (k->name && !strcmp(k->name, name)) {
            *fn = k;
            return HIP_OK;
        }
    return hip_leave(HIP_NOT_FOUND);
}

static void hidden_u(uint8_t *p, const kernel_arg *a, uint64_t v)
{
    memcpy(p + a->offset, &v, a->size < 8 ? a->size : 8);
}

static void hidden_arg(uint8_t *p, const kernel_arg *a, const launch *l)
{
    const char *k = a->kind + 7; /* after "hidden_" */
    size_t n = strlen(k);
    int dim = n > 2 && k[n - 2] == '_' && k[n - 1] >= 'x' && k[n - 1] <= 'z' ? k[n - 1] - 'x' : -1;
    if (dim >= 0 && !strncmp(k, "block_count_", 12))
        hidden_u(p, a, l->items[dim] / l->block[dim]);
    else if (dim >= 0 && !strncmp(k, "group_size_", 11))
        hidden_u(p, a, l->block[dim]);
    else if (dim >= 0 && !strncmp(k, "remainder_", 10))
        hidden_u(p, a, l->items[dim] % l->block[dim]);
    else if (!strcmp(k, "grid_dims"))
        hidden_u(p, a, l->items[2] > 1 ? 3 : l->items[1] > 1 ? 2 : 1);
    else if (!strcmp(k, "private_base"))
        hidden_u(p, a, 0x20000);
    else if (!strcmp(k, "shared_base"))
        hidden_u(p, a, 0x10000);
    else if (!strcmp(k, "dynamic_lds_size"))
        hidden_u(p, a, l->dynamic_lds);
    else
        hidden_u(p, a, 0);
}

static void put_dispatch(uint8_t *d, const launch *l)
{
    memset(d, 0, 64);
    uint16_t setup = l->items[2] > 1 ? 3 : l->items[1] > 1 ? 2 : 1;
    memcpy(d + 2, &setup, 2);
    for (int i = 0; i < 3; i++) {
        uint16_t b = (uint16_t)l->block[i];
        memcpy(d + 4 + 2 * i, &b, 2);
        memcpy(d + 12 + 4 * i, &l->items[i], 4);
    }
    memcpy(d + 24, &l->k->private_bytes, 4);
    memcpy(d + 28, &l->lds_bytes, 4);
    uint64_t arg = (uint64_t)l->kernarg;
    memcpy(d + 40, &arg, 8);
}

static int check_launch(const kernel *k, const uint32_t *grid, const uint32_t *block, uint32_t lds)
{
    uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
    for (int i = 0; i < 3; i++)
        if (!grid[i] || !block[i] || (uint64_t)grid[i] * block[i] > UINT32_MAX)
            return HIP_INVALID_CONFIGURATION;
    if (threads > 1024 || (k->max_group && threads > k->max_group))
        return HIP_INVALID_CONFIGURATION;
    if ((uint64_t)k->group_bytes + lds > sim_chip()->lds_bytes)
        return HIP_INVALID_VALUE;
    return HIP_OK;
}

enum { KERNARG_LINE = 64 };

int hip_run_node(const graph_node *n)
{
    if (n->kind == NODE_COPY)
        return hip_copy(n->dst, n->src, n->bytes);
    if (n->kind == NODE_SET)
        return hip_set(n->dst, n->value, n->bytes);
    kernel *k = n->k;
    launch l = {.k = k, .dynamic_lds = n->dynamic_lds};
    size_t arg_bytes = k->kernarg_bytes ? k->kernarg_bytes : 8;
    const char *max = getenv("MXSIM_MAX_INST"), *stats = getenv("MXSIM_STATS");
    l.budget = max ? strtoull(max, NULL, 0) : UINT64_C(1000000000);
    l.lds_bytes = k->group_bytes + n->dynamic_lds;
    l.total_groups = 1;
    for (int i = 0; i < 3; i++) {
        l.grid[i] = n->grid[i];
        l.block[i] = n->block[i];
        l.items[i] = n->grid[i] * n->block[i];
        l.total_groups *= n->grid[i];
    }
    /* One allocation holds the arguments, another the dispatch packet. The driver takes argument
     * segments from a pool in whole lines, and compilers widen scalar loads up to a line's end:
     * what follows the arguments there can be read and is nobody's. */
    size_t segment_bytes = (arg_bytes + KERNARG_LINE - 1) / KERNARG_LINE * KERNARG_LINE;
    l.kernarg = sim_mem_alloc(segment_bytes, true, 0);
    uint8_t *packet = sim_mem_alloc(64, true, 0);
    if (!l.kernarg || !packet) {
        sim_mem_free(l.kernarg);
        sim_mem_free(packet);
        return HIP_OUT_OF_MEMORY;
    }
    sim_mem_find((uint64_t)l.kernarg)->readonly = true;
    memset(l.kernarg, 0xa5, segment_bytes);
    memcpy(l.kernarg, n->kernarg, arg_bytes);
    for (int i = 0; i < k->nargs; i++)
        if (!strncmp(k->args[i].kind, "hidden_", 7) &&
            k->args[i].offset + k->args[i].size <= arg_bytes)
            hidden_arg(l.kernarg, &k->args[i], &l);
    l.dispatch_ptr = (uint64_t)packet;
    put_dispatch(packet, &l);
    sim_report_reset();
    struct timespec t0, t1;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t0);
    int failed = launch_run(&l);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t1);
    add_sums(&l.sum);
    if (stats && atoi(stats))
        print_stats(&l, (double)(t1.tv_sec - t0.tv_sec) + (double)(t1.tv_nsec - t0.tv_nsec) * 1e-9);
    sim_mem_free(l.kernarg);
    sim_mem_free(packet);
    return failed ? HIP_LAUNCH_FAILURE : HIP_OK;
}

/* The `extra` form: a buffer with the explicit arguments as the kernel sees them. */
static int extra_args(uint8_t *dst, size_t cap, void **extra)
{
    const void *buf = NULL;
    size_t bytes = 0;
    for (int i = 0; extra[i] && extra[i] != (void *)3; i += 2) {
        if (extra[i] == (void *)1)
            buf = extra[i + 1];
        else if (extra[i] == (void *)2)
            bytes = *(const size_t *)extra[i + 1];
        else
            return HIP_INVALID_VALUE;
    }
    if (!buf && bytes)
        return HIP_INVALID_VALUE;
    if (bytes > cap)
        bytes = cap;
    if (bytes)
        memcpy(dst, buf, bytes);
    return HIP_OK;
}

static int gather_args(const kernel *k, uint8_t *dst, size_t cap, void **params, void **extra)
{
    if (extra)
        return params ? HIP_INVALID_VALUE : extra_args(dst, cap, extra);
    for (int i = 0; i < k->nargs; i++) {
        const kernel_arg *a = &k->args[i];
        if (!strncmp(a->kind, "hidden_", 7))
            continue;
        if (!params || !params[i] || a->offset + a->size > cap)
            return HIP_INVALID_VALUE;
        memcpy(dst + a->offset, params[i], a->size);
    }
    return HIP_OK;
}

HIP_API int hipModuleLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                  unsigned by, unsigned bz, unsigned lds, void *st, void **params,
                                  void **extra)
{
    HIP_BEGIN();
    kernel *k = f;
    if (!k)
        return hip_leave(HIP_INVALID_HANDLE);
    graph_node n = {.kind = NODE_LAUNCH,
                    .k = k,
                    .grid = {gx, gy, gz},
                    .block = {bx, by, bz},
                    .dynamic_lds = lds};
    int e = hip_check_stream(st);
    if (!e)
        e = check_launch(k, n.grid, n.block, lds);
    if (e)
        return hip_leave(e);
    size_t cap = k->kernarg_bytes ? k->kernarg_bytes : 8;
    n.kernarg = calloc(1, cap);
    if (!n.kernarg)
        return hip_leave(HIP_OUT_OF_MEMORY);
    e = gather_args(k, n.kernarg, cap, params, extra);
    if (!e && !hip_capture(st, &n, &e))
        e = hip_run_node(&n);
    free(n.kernarg);
    return hip_leave(e);
}

HIP_API int hipFuncGetAttribute(int *v, int attr, void *f)
{
    HIP_BEGIN();
    const kernel *k = f;
    if (!v || !k)
        return hip_leave(HIP_INVALID_VALUE);
    switch (attr) {
    case 0:
        *v = (int)(k->max_group ? k->max_group : 1024);
        return HIP_OK;
    case 1:
        *v = (int)k->group_bytes;
        return HIP_OK;
    case 3:
        *v = (int)k->private_bytes;
        return HIP_OK;
    case 4:
        *v = (int)k->vgprs;
        return HIP_OK;
    case 8:
        *v = (int)(sim_chip()->lds_bytes - k->group_bytes);
        return HIP_OK;
    case 2:
    case 5:
    case 6:
    case 7:
    case 9:
        *v = 0;
        return HIP_OK;
    default:
        return hip_leave(HIP_INVALID_VALUE);
    }
}

HIP_API int hipFuncSetAttribute(const void *f, int attr, int value)
{
    HIP_BEGIN();
    const kernel *k = f;
    if (!k || (attr != 8 && attr != 9))
        return hip_leave(HIP_INVALID_VALUE);
    if (attr == 8 && (value < 0 || (uint64_t)value + k->group_bytes > sim_chip()->lds_bytes))
        return hip_leave(HIP_INVALID_VALUE);
    return HIP_OK;
}

HIP_API int hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int *n, void *f, int block,
                                                               size_t lds)
{
    HIP_BEGIN();
    const kernel *k = f;
    if (!n || !k || block < 1 || block > 1024)
        return hip_leave(HIP_INVALID_VALUE);
    int waves = (block + k->wave_size - 1) / k->wave_size;
    /* Registers of a SIMD lane, and four SIMDs (two of wave32 chips count double). */
    uint32_t file = sim_chip()->gen == 9 ? 512 : 1536;
    uint32_t per = k->vgpr_limit ? k->vgpr_limit : 8;
    int most = sim_chip()->gen == 9 ? 8 : 16;
    int fit = (int)(file / per);
    fit = fit < most ? fit : most;
    int blocks = fit * 4 / waves;
    uint64_t bytes = k->group_bytes + lds;
    if (bytes && (int)(sim_chip()->lds_bytes / bytes) < blocks)
        blocks = (int)(sim_chip()->lds_bytes / bytes);
    *n = blocks;
    return HIP_OK;
}

/* Streams. NULL, 1 and 2 are the default ones. */
static stream *as_stream(void *s)
{
    stream *t = s;
    return (uintptr_t)s > 2 && t->magic == STREAM_MAGIC ? t : NULL;
}

int hip_check_stream(void *s)
{
    if ((uintptr_t)s <= 2)
        return captures ? HIP_CAPTURE_UNSUPPORTED : HIP_OK;
    return as_stream(s) ? HIP_OK : HIP_INVALID_HANDLE;
}

int hip_forbid_in_capture(void)
{
    return captures ? HIP_CAPTURE_UNSUPPORTED : HIP_OK;
}

HIP_API int hipStreamCreateWithFlags(void **out, unsigned flags)
{
    HIP_BEGIN();
    if (!out || flags > 1)
        return hip_leave(HIP_INVALID_VALUE);
    stream *s = calloc(1, sizeof *s);
    if (!s)
        return hip_leave(HIP_OUT_OF_MEMORY);
    s->magic = STREAM_MAGIC;
    s->device = hip_current_device();
    hip_live_add(1);
    *out = s;
    return HIP_OK;
}

HIP_API int hipStreamCreate(void **out)
{
    return hipStreamCreateWithFlags(out, 0);
}

static void graph_free(graph *g)
{
    for (graph_node *n = g->first, *next; n; n = next) {
        next = n->next;
        free(n->kernarg);
        free(n);
    }
    g->magic = 0;
    free(g);
}

HIP_API int hipStreamDestroy(void *p)
{
    HIP_BEGIN();
    stream *s = as_stream(p);
    if (!s)
        return hip_leave(HIP_INVALID_HANDLE);
    if (s->capturing) {
        captures--;
        graph_free(s->graph);
    }
    s->magic = 0;
    free(s);
    hip_live_add(-1);
    return HIP_OK;
}

static int idle_stream(void *p)
{
    int e = hip_check_stream(p);
    stream *s = e ? NULL : as_stream(p);
    return e ? e : s && s->capturing ? HIP_CAPTURE_UNSUPPORTED : HIP_OK;
}

HIP_API int hipStreamSynchronize(void *p)
{
    HIP_BEGIN();
    return hip_leave(idle_stream(p));
}

HIP_API int hipStreamQuery(void *p)
{
    HIP_BEGIN();
    return hip_leave(idle_stream(p));
}

HIP_API int hipStreamWaitEvent(void *p, void *ev, unsigned flags)
{
    (void)flags;
    HIP_BEGIN();
    event *e = ev;
    if (!e || e->magic != EVENT_MAGIC)
        return hip_leave(HIP_INVALID_HANDLE);
    return hip_leave(hip_check_stream(p));
}

HIP_API int hipStreamGetDevice(void *p, int *dev)
{
    HIP_BEGIN();
    if (!dev)
        return hip_leave(HIP_INVALID_VALUE);
    stream *s = as_stream(p);
    if ((uintptr_t)p > 2 && !s)
        return hip_leave(HIP_INVALID_HANDLE);
    *dev = s ? s->device : hip_current_device();
    return HIP_OK;
}

HIP_API int hipStreamIsCapturing(void *p, int *status)
{
    HIP_BEGIN();
    if (!status)
        return hip_leave(HIP_INVALID_VALUE);
    stream *s = as_stream(p);
    *status = s && s->capturing ? 1 : 0;
    return HIP_OK;
}

static graph *graph_new(void)
{
    graph *g = calloc(1, sizeof *g);
    if (g) {
        g->magic = GRAPH_MAGIC;
        g->last = &g->first;
    }
    return g;
}

static int graph_add(graph *g, const graph_node *n)
{
    graph_node *c = malloc(sizeof *c);
    if (!c)
        return HIP_OUT_OF_MEMORY;
    *c = *n;
    c->next = NULL;
    if (n->kernarg) {
        size_t bytes = n->k->kernarg_bytes ? n->k->kernarg_bytes : 8;
        c->kernarg = malloc(bytes);
        if (!c->kernarg) {
            free(c);
            return HIP_OUT_OF_MEMORY;
        }
        memcpy(c->kernarg, n->kernarg, bytes);
    }
    *g->last = c;
    g->last = &c->next;
    return HIP_OK;
}

bool hip_capture(void *p, const graph_node *node, int *err)
{
    stream *s = as_stream(p);
    if (!s || !s->capturing)
        return false;
    *err = graph_add(s->graph, node);
    return true;
}

HIP_API int hipStreamBeginCapture(void *p, int mode)
{
    HIP_BEGIN();
    stream *s = as_stream(p);
    if (!s || mode < 0 || mode > 2)
        return hip_leave(s ? HIP_INVALID_VALUE : HIP_CAPTURE_UNSUPPORTED);
    if (s->capturing)
        return hip_leave(HIP_CAPTURE_INVALIDATED);
    s->graph = graph_new();
    if (!s->graph)
        return hip_leave(HIP_OUT_OF_MEMORY);
    s->capturing = true;
    captures++;
    return HIP_OK;
}

HIP_API int hipStreamEndCapture(void *p, void **out)
{
    HIP_BEGIN();
    stream *s = as_stream(p);
    if (!s || !out)
        return hip_leave(HIP_INVALID_VALUE);
    if (!s->capturing)
        return hip_leave(HIP_CAPTURE_UNMATCHED);
    *out = s->graph;
    s->graph = NULL;
    s->capturing = false;
    captures--;
    hip_live_add(1);
    return HIP_OK;
}

static graph *as_graph(void *p)
{
    graph *g = p;
    return g && g->magic == GRAPH_MAGIC ? g : NULL;
}

HIP_API int hipGraphInstantiate(void **exec, void *p, void **node, char *log, size_t bytes)
{
    HIP_BEGIN();
    graph *g = as_graph(p);
    if (!exec || !g)
        return hip_leave(HIP_INVALID_VALUE);
    if (node)
        *node = NULL;
    if (log && bytes)
        *log = 0;
    graph *c = graph_new();
    int e = c ? HIP_OK : HIP_OUT_OF_MEMORY;
    for (graph_node *n = g->first; n && !e; n = n->next)
        e = graph_add(c, n);
    if (e) {
        if (c)
            graph_free(c);
        return hip_leave(e);
    }
    hip_live_add(1);
    *exec = c;
    return HIP_OK;
}

HIP_API int hipGraphLaunch(void *exec, void *st)
{
    HIP_BEGIN();
    graph *g = as_graph(exec);
    int e = g ? hip_check_stream(st) : HIP_INVALID_VALUE;
    for (graph_node *n = g ? g->first : NULL; n && !e; n = n->next)
        e = hip_run_node(n);
    return hip_leave(e);
}

static int destroy_graph(void *p)
{
    graph *g = as_graph(p);
    if (!g)
        return HIP_INVALID_VALUE;
    graph_free(g);
    hip_live_add(-1);
    return HIP_OK;
}

HIP_API int hipGraphDestroy(void *p)
{
    HIP_BEGIN();
    return hip_leave(destroy_graph(p));
}

HIP_API int hipGraphExecDestroy(void *p)
{
    HIP_BEGIN();
    return hip_leave(destroy_graph(p));
}

HIP_API int hipEventCreateWithFlags(void **out, unsigned flags)
{
    (void)flags;
    HIP_BEGIN();
    if (!out)
        return hip_leave(HIP_INVALID_VALUE);
    event *e = calloc(1, sizeof *e);
    if (!e)
        return hip_leave(HIP_OUT_OF_MEMORY);
    e->magic = EVENT_MAGIC;
    hip_live_add(1);
    *out = e;
    return HIP_OK;
}

HIP_API int hipEventCreate(void **out)
{
    return hipEventCreateWithFlags(out, 0);
}

static event *as_event(void *p)
{
    event *e = p;
    return e && e->magic == EVENT_MAGIC ? e : NULL;
}

HIP_API int hipEventRecord(void *p, void *st)
{
    HIP_BEGIN();
    event *e = as_event(p);
    int err = e ? hip_check_stream(st) : HIP_INVALID_HANDLE;
    if (!err) {
        e->recorded = true;
        clock_gettime(CLOCK_MONOTONIC, &e->at);
    }
    return hip_leave(err);
}

HIP_API int hipEventSynchronize(void *p)
{
    HIP_BEGIN();
    return hip_leave(as_event(p) ? HIP_OK : HIP_INVALID_HANDLE);
}

HIP_API int hipEventQuery(void *p)
{
    HIP_BEGIN();
    return hip_leave(as_event(p) ? HIP_OK : HIP_INVALID_HANDLE);
}

HIP_API int hipEventElapsedTime(float *ms, void *a, void *b)
{
    HIP_BEGIN();
    event *x = as_event(a), *y = as_event(b);
    if (!ms)
        return hip_leave(HIP_INVALID_VALUE);
    if (!x || !y || !x->recorded || !y->recorded)
        return hip_leave(HIP_INVALID_HANDLE);
    *ms = (float)((double)(y->at.tv_sec - x->at.tv_sec) * 1e3 +
                  (double)(y->at.tv_nsec - x->at.tv_nsec) * 1e-6);
    return HIP_OK;
}

HIP_API int hipEventDestroy(void *p)
{
    HIP_BEGIN();
    event *e = as_event(p);
    if (!e)
        return hip_leave(HIP_INVALID_HANDLE);
    e->magic = 0;
    free(e);
    hip_live_add(-1);
    return HIP_OK;
}
