/* The metadata note: MessagePack, of which only what kernels need is kept. */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct reader {
    const uint8_t *p, *end;
    bool bad;
    int depth;
} reader;

enum mp_type { MP_NIL, MP_BOOL, MP_INT, MP_STR, MP_ARRAY, MP_MAP, MP_OTHER };

typedef struct item {
    int type;
    uint64_t n; /* value, or number of elements */
    const char *s;
    size_t len;
} item;

static uint64_t big_endian(reader *r, int bytes)
{
    uint64_t x = 0;
    if (r->end - r->p < bytes) {
        r->bad = true;
        return 0;
    }
    for (int i = 0; i < bytes; i++)
        x = x << 8 | *r->p++;
    return x;
}

static item str_item(reader *r, uint64_t len)
{
    item it = {MP_STR, len, (const char *)r->p, (size_t)len};
    if ((uint64_t)(r->end - r->p) < len) {
        r->bad = true;
        return (item){MP_NIL, 0, NULL, 0};
    }
    r->p += len;
    return it;
}

static item next_long(reader *r, uint8_t c)
{
    switch (c) {
    case 0xc2:
    case 0xc3:
        return (item){MP_BOOL, c & 1, NULL, 0};
    case 0xc4:
    case 0xc5:
    case 0xc6:
        return str_item(r, big_endian(r, 1 << (c - 0xc4)));
    case 0xca:
        return (item){MP_OTHER, big_endian(r, 4), NULL, 0};
    case 0xcb:
        return (item){MP_OTHER, big_endian(r, 8), NULL, 0};
    case 0xcc:
    case 0xcd:
    case 0xce:
    case 0xcf:
        return (item){MP_INT, big_endian(r, 1 << (c - 0xcc)), NULL, 0};
    case 0xd0:
        return (item){MP_INT, (uint64_t)(int64_t)(int8_t)big_endian(r, 1), NULL, 0};
    case 0xd1:
        return (item){MP_INT, (uint64_t)(int64_t)(int16_t)big_endian(r, 2), NULL, 0};
    case 0xd2:
        return (item){MP_INT, (uint64_t)(int64_t)(int32_t)big_endian(r, 4), NULL, 0};
    case 0xd3:
        return (item){MP_INT, big_endian(r, 8), NULL, 0};
    case 0xd9:
    case 0xda:
    case 0xdb:
        return str_item(r, big_endian(r, 1 << (c - 0xd9)));
    case 0xdc:
    case 0xdd:
        return (item){MP_ARRAY, big_endian(r, c == 0xdc ? 2 : 4), NULL, 0};
    case 0xde:
    case 0xdf:
        return (item){MP_MAP, big_endian(r, c == 0xde ? 2 : 4), NULL, 0};
    default:
        return (item){MP_NIL, 0, NULL, 0};
    }
}

static item next(reader *r)
{
    uint8_t c = (uint8_t)big_endian(r, 1);
    if (r->bad)
        return (item){MP_NIL, 0, NULL, 0};
    if (c < 0x80)
        return (item){MP_INT, c, NULL, 0};
    if (c < 0x90)
        return (item){MP_MAP, c & 15, NULL, 0};
    if (c < 0xa0)
        return (item){MP_ARRAY, c & 15, NULL, 0};
    if (c < 0xc0)
        return str_item(r, c & 31);
    if (c >= 0xe0)
        return (item){MP_INT, (uint64_t)(int64_t)(int8_t)c, NULL, 0};
    return next_long(r, c);
}

static void skip_item(reader *r, item it)
{
    uint64_t n = it.type == MP_ARRAY ? it.n : it.type == MP_MAP ? 2 * it.n : 0;
    if (++r->depth > 32)
        r->bad = true;
    for (uint64_t i = 0; i < n && !r->bad; i++)
        skip_item(r, next(r));
    r->depth--;
}

static bool is(const item *k, const char *name)
{
    return k->type == MP_STR && k->len == strlen(name) && !memcmp(k->s, name, k->len);
}

static void read_arg(reader *r, uint64_t pairs, kernel_arg *a)
{
    for (uint64_t i = 0; i < pairs && !r->bad; i++) {
        item k = next(r), v = next(r);
        if (is(&k, ".offset"))
            a->offset = (uint32_t)v.n;
        else if (is(&k, ".size"))
            a->size = (uint32_t)v.n;
        else if (is(&k, ".value_kind") && v.type == MP_STR)
            snprintf(a->kind, sizeof a->kind, "%.*s", (int)v.len, v.s);
        else
            skip_item(r, v);
    }
}

static void read_args(reader *r, uint64_t n, kernel *k)
{
    if (n > 4096) {
        r->bad = true;
        return;
    }
    k->args = calloc(n ? n : 1, sizeof *k->args);
    for (uint64_t i = 0; i < n && k->args && !r->bad; i++) {
        item m = next(r);
        if (m.type != MP_MAP) {
            r->bad = true;
            return;
        }
        read_arg(r, m.n, &k->args[i]);
        k->nargs++;
        if (strncmp(k->args[i].kind, "hidden_", 7))
            k->nexplicit++;
    }
}

static void read_kernel(reader *r, uint64_t pairs, kernel *k)
{
    for (uint64_t i = 0; i < pairs && !r->bad; i++) {
        item key = next(r), v = next(r);
        if (is(&key, ".args") && v.type == MP_ARRAY)
            read_args(r, v.n, k);
        else if (is(&key, ".name") && v.type == MP_STR)
            k->name = strndup(v.s, v.len);
        else if (is(&key, ".kernarg_segment_size"))
            k->kernarg_bytes = (uint32_t)v.n;
        else if (is(&key, ".wavefront_size"))
            k->wave_size = (int)v.n;
        else if (is(&key, ".max_flat_workgroup_size"))
            k->max_group = (uint32_t)v.n;
        else if (is(&key, ".vgpr_count"))
            k->vgprs = (uint32_t)v.n;
        else if (is(&key, ".sgpr_count"))
            k->sgprs = (uint32_t)v.n;
        else if (is(&key, ".vgpr_spill_count"))
            k->spills = (uint32_t)v.n;
        else
            skip_item(r, v);
    }
}

/* Adds a kernel to p for each entry. Returns -1 for damaged data. */
int metadata_read(program *p, const uint8_t *data, size_t bytes)
{
    reader r = {data, data + bytes, false, 0};
    item top = next(&r);
    if (top.type != MP_MAP)
        return -1;
    for (uint64_t i = 0; i < top.n && !r.bad; i++) {
        item key = next(&r), v = next(&r);
        if (!is(&key, "amdhsa.kernels") || v.type != MP_ARRAY) {
            skip_item(&r, v);
            continue;
        }
        for (uint64_t k = 0; k < v.n && !r.bad; k++) {
            item m = next(&r);
            kernel *kn = calloc(1, sizeof *kn);
            if (!kn || m.type != MP_MAP) {
                free(kn);
                return -1;
            }
            kn->prog = p;
            kn->next = p->kernels;
            p->kernels = kn;
            read_kernel(&r, m.n, kn);
        }
    }
    return r.bad ? -1 : 0;
}

/* The target the note names, e.g. "amdgcn-amd-amdhsa--gfx942:sramecc+". */
int metadata_target(const uint8_t *data, size_t bytes, char *out, size_t out_bytes)
{
    reader r = {data, data + bytes, false, 0};
    item top = next(&r);
    for (uint64_t i = 0; top.type == MP_MAP && i < top.n && !r.bad; i++) {
        item key = next(&r), v = next(&r);
        if (is(&key, "amdhsa.target") && v.type == MP_STR) {
            snprintf(out, out_bytes, "%.*s", (int)v.len, v.s);
            return 0;
        }
        skip_item(&r, v);
    }
    return -1;
}
