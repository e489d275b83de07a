#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <mxgen/error.h>

#include "tests/conform_engine.h"

enum { GUARD_BYTES = 256 };

void conform_memory_init(conform_memory *memory, mxrt_device *device, int is_host)
{
    *memory = (conform_memory){.device = device, .is_host = is_host};
}

void conform_memory_finish(conform_memory *memory)
{
    mxrt_device_free(memory->device, memory->guarded);
    mxrt_device_free(memory->device, memory->exact);
    if (memory->fenced)
        munmap(memory->fenced, memory->fenced_bytes);
    memset(memory, 0, sizeof(*memory));
}

static mx_status place_guarded(conform_memory *memory, size_t bytes, conform_place *out,
                               mx_error *err)
{
    size_t total = bytes + (size_t)2 * GUARD_BYTES;
    if (total > memory->guarded_bytes) {
        mxrt_device_free(memory->device, memory->guarded);
        memory->guarded = NULL;
        memory->guarded_bytes = 0;
        mx_status status = mxrt_device_alloc(memory->device, 2 * total, &memory->guarded, err);
        if (status)
            return status;
        memory->guarded_bytes = 2 * total;
    }
    *out = (conform_place){memory->guarded, GUARD_BYTES, bytes, total};
    return MX_OK;
}

static mx_status grow_fenced(conform_memory *memory, size_t bytes, mx_error *err)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t wanted = (bytes + page - 1) / page * page + 2 * page;
    if (wanted <= memory->fenced_bytes)
        return MX_OK;
    if (memory->fenced)
        munmap(memory->fenced, memory->fenced_bytes);
    memory->fenced = NULL;
    memory->fenced_bytes = 0;
    unsigned char *mapping = mmap(NULL, wanted, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no address space for %zu bytes", wanted);
    memory->fenced = mapping;
    memory->fenced_bytes = wanted;
    if (mprotect(mapping + page, wanted - 2 * page, PROT_READ | PROT_WRITE))
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for %zu bytes", wanted);
    return MX_OK;
}

static mx_status place_fenced(conform_memory *memory, conform_placement placement, size_t bytes,
                              conform_place *out, mx_error *err)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    mx_status status = grow_fenced(memory, bytes, err);
    if (status)
        return status;
    unsigned char *begin = memory->fenced + page;
    if (placement == CONFORM_FENCE_END)
        begin = memory->fenced + memory->fenced_bytes - page - bytes;
    *out = (conform_place){begin, 0, bytes, bytes};
    return MX_OK;
}

mx_status conform_memory_place(conform_memory *memory, conform_placement placement, size_t bytes,
                               conform_place *out, mx_error *err)
{
    if (placement == CONFORM_GUARDED)
        return place_guarded(memory, bytes, out, err);
    if (memory->is_host)
        return place_fenced(memory, placement, bytes, out, err);
    /* Drivers that check addresses, such as simulators, check against allocations. */
    mxrt_device_free(memory->device, memory->exact);
    memory->exact = NULL;
    mx_status status = mxrt_device_alloc(memory->device, bytes ? bytes : 1, &memory->exact, err);
    if (!status)
        *out = (conform_place){memory->exact, 0, bytes, bytes};
    return status;
}
