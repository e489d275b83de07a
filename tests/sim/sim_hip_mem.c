/* HIP: allocations, copies, fills. Everything is done when the call returns. */
#include "sim_hip.h"

#include <stdlib.h>
#include <string.h>

/* Host memory outside the arena may be anything; inside, it must be within one allocation. */
static int check_span(const void *p, size_t bytes)
{
    if (!p)
        return HIP_INVALID_VALUE;
    if (!sim_mem_is_arena((uint64_t)p))
        return HIP_OK;
    alloc *a = sim_mem_find((uint64_t)p);
    return a && (uint64_t)p + bytes <= a->hi ? HIP_OK : HIP_INVALID_VALUE;
}

int hip_copy(void *dst, const void *src, size_t bytes)
{
    if (!bytes)
        return HIP_OK;
    if (check_span(dst, bytes) || check_span(src, bytes))
        return HIP_INVALID_VALUE;
    memmove(dst, src, bytes);
    if (!sim_mem_is_arena((uint64_t)dst))
        return HIP_OK;
    /* A copy of memory not wholly written leaves its holes unwritten. */
    alloc *a = sim_mem_is_arena((uint64_t)src) ? sim_mem_find((uint64_t)src) : NULL;
    alloc *d = sim_mem_find((uint64_t)dst);
    if (a && !a->all_written && !d->all_written)
        memmove(sim_mem_shadow((uint64_t)dst), sim_mem_shadow((uint64_t)src), bytes);
    else
        sim_mem_mark((uint64_t)dst, bytes, true);
    return HIP_OK;
}

int hip_set(void *dst, int value, size_t bytes)
{
    if (!bytes)
        return HIP_OK;
    if (check_span(dst, bytes) || !sim_mem_is_arena((uint64_t)dst))
        return HIP_INVALID_VALUE;
    memset(dst, value, bytes);
    sim_mem_mark((uint64_t)dst, bytes, true);
    return HIP_OK;
}

static int alloc_call(void **p, size_t bytes, bool host)
{
    if (!p)
        return HIP_INVALID_VALUE;
    *p = NULL;
    if (!bytes)
        return HIP_OK;
    *p = sim_mem_alloc(bytes, host, hip_current_device());
    return *p ? HIP_OK : HIP_OUT_OF_MEMORY;
}

HIP_API int hipMalloc(void **p, size_t bytes)
{
    HIP_BEGIN();
    int e = hip_forbid_in_capture();
    return hip_leave(e ? e : alloc_call(p, bytes, false));
}

HIP_API int hipMallocAsync(void **p, size_t bytes, void *stream)
{
    HIP_BEGIN();
    int e = hip_check_stream(stream);
    return hip_leave(e ? e : alloc_call(p, bytes, false));
}

HIP_API int hipHostMalloc(void **p, size_t bytes, unsigned flags)
{
    (void)flags;
    HIP_BEGIN();
    return hip_leave(alloc_call(p, bytes, true));
}

static int free_call(void *p, bool host)
{
    if (!p)
        return HIP_OK;
    alloc *a = sim_mem_is_arena((uint64_t)p) ? sim_mem_find((uint64_t)p) : NULL;
    if (!a || a->internal || a->host != host || a->lo != (uint64_t)p)
        return HIP_INVALID_VALUE;
    return sim_mem_free(p) ? HIP_INVALID_VALUE : HIP_OK;
}

HIP_API int hipFree(void *p)
{
    HIP_BEGIN();
    int e = hip_forbid_in_capture();
    return hip_leave(e ? e : free_call(p, false));
}

HIP_API int hipFreeAsync(void *p, void *stream)
{
    HIP_BEGIN();
    int e = hip_check_stream(stream);
    return hip_leave(e ? e : free_call(p, false));
}

HIP_API int hipHostFree(void *p)
{
    HIP_BEGIN();
    return hip_leave(free_call(p, true));
}

HIP_API int hipMemcpy(void *dst, const void *src, size_t bytes, int kind)
{
    HIP_BEGIN();
    int e = hip_forbid_in_capture();
    if (!e && (kind < 0 || kind > 4))
        e = HIP_INVALID_VALUE;
    return hip_leave(e ? e : hip_copy(dst, src, bytes));
}

static int copy_async(void *dst, const void *src, size_t bytes, void *stream)
{
    graph_node n = {.kind = NODE_COPY, .dst = dst, .src = src, .bytes = bytes};
    int e = hip_check_stream(stream);
    if (e || hip_capture(stream, &n, &e))
        return e;
    return hip_copy(dst, src, bytes);
}

HIP_API int hipMemcpyAsync(void *dst, const void *src, size_t bytes, int kind, void *stream)
{
    HIP_BEGIN();
    if (kind < 0 || kind > 4)
        return hip_leave(HIP_INVALID_VALUE);
    return hip_leave(copy_async(dst, src, bytes, stream));
}

HIP_API int hipMemcpyHtoD(void *dst, void *src, size_t bytes)
{
    return hipMemcpy(dst, src, bytes, 1);
}

HIP_API int hipMemcpyDtoH(void *dst, void *src, size_t bytes)
{
    return hipMemcpy(dst, src, bytes, 2);
}

HIP_API int hipMemcpyDtoD(void *dst, void *src, size_t bytes)
{
    return hipMemcpy(dst, src, bytes, 3);
}

HIP_API int hipMemcpyHtoDAsync(void *dst, void *src, size_t bytes, void *stream)
{
    return hipMemcpyAsync(dst, src, bytes, 1, stream);
}

HIP_API int hipMemcpyDtoHAsync(void *dst, void *src, size_t bytes, void *stream)
{
    return hipMemcpyAsync(dst, src, bytes, 2, stream);
}

HIP_API int hipMemcpyDtoDAsync(void *dst, void *src, size_t bytes, void *stream)
{
    return hipMemcpyAsync(dst, src, bytes, 3, stream);
}

HIP_API int hipMemset(void *dst, int value, size_t bytes)
{
    HIP_BEGIN();
    int e = hip_forbid_in_capture();
    return hip_leave(e ? e : hip_set(dst, value, bytes));
}

HIP_API int hipMemsetAsync(void *dst, int value, size_t bytes, void *stream)
{
    HIP_BEGIN();
    graph_node n = {.kind = NODE_SET, .dst = dst, .value = value, .bytes = bytes};
    int e = hip_check_stream(stream);
    if (e || hip_capture(stream, &n, &e))
        return hip_leave(e);
    return hip_leave(hip_set(dst, value, bytes));
}

HIP_API int hipMemsetD8(void *dst, unsigned char value, size_t bytes)
{
    return hipMemset(dst, value, bytes);
}

HIP_API int hipMemsetD8Async(void *dst, unsigned char value, size_t bytes, void *stream)
{
    return hipMemsetAsync(dst, value, bytes, stream);
}

HIP_API int hipPointerGetAttributes(void *out, const void *p)
{
    HIP_BEGIN();
    uint8_t *o = out;
    if (!o || !p)
        return hip_leave(HIP_INVALID_VALUE);
    memset(o, 0, 32);
    alloc *a = sim_mem_is_arena((uint64_t)p) ? sim_mem_find((uint64_t)p) : NULL;
    if (!a)
        return hip_leave(HIP_INVALID_VALUE);
    int type = a->host ? 1 : 2;
    memcpy(o, &type, 4);
    memcpy(o + 4, &a->device, 4);
    memcpy(o + 8, &p, 8);
    if (a->host)
        memcpy(o + 16, &p, 8);
    return HIP_OK;
}

/* Context 1, memory type 2, device pointer 3, host pointer 4, device ordinal 9, start 11, size 12.
 */
HIP_API int hipPointerGetAttribute(void *out, int attr, void *p)
{
    HIP_BEGIN();
    alloc *a = p && sim_mem_is_arena((uint64_t)p) ? sim_mem_find((uint64_t)p) : NULL;
    if (!out || !a)
        return hip_leave(HIP_INVALID_VALUE);
    uint64_t size = a->hi - a->lo;
    int type = a->host ? 1 : 2;
    switch (attr) {
    case 2:
        memcpy(out, &type, 4);
        return HIP_OK;
    case 3:
        memcpy(out, &p, 8);
        return HIP_OK;
    case 9:
        memcpy(out, &a->device, 4);
        return HIP_OK;
    case 11:
        memcpy(out, &a->lo, 8);
        return HIP_OK;
    case 12:
        memcpy(out, &size, 8);
        return HIP_OK;
    default:
        return hip_leave(HIP_INVALID_VALUE);
    }
}
