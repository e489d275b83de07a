/* What the drivers of GPUs have in common: device URIs, launch limits, error texts, and the records
 * of loaded modules and kernels. */
#ifndef MXRT_GPU_H
#define MXRT_GPU_H

#include <pthread.h>

#include "runtime/backend.h"

#define MXRT_GPU_PATH_BYTES 512

/* "N", "N?library=PATH", "?library=PATH" or "": the part of a URI after its scheme. */
typedef struct mxrt_gpu_uri {
    int ordinal;
    const char *library; /* NULL or path_storage */
    char path_storage[MXRT_GPU_PATH_BYTES];
} mxrt_gpu_uri;

mx_status mxrt_gpu_parse_uri(const char *scheme, const char *rest, mxrt_gpu_uri *out,
                             mx_error *err);

/* Limits of a device; products in work items. */
typedef struct mxrt_gpu_limits {
    uint32_t grid[3], block[3];
    uint32_t block_items;
    uint32_t lds_bytes;
    uint64_t grid_items; /* grid times block, in each dimension */
} mxrt_gpu_limits;

/* One entry of a module: found once, then only read. */
struct mxrt_backend_kernel {
    struct mxrt_backend_kernel *next;
    void *function;
    uint32_t static_lds_bytes;
    uint32_t lds_bytes; /* what launches may ask for, static included */
    uint32_t block_items;
    char *symbol;
};

struct mxrt_backend_module {
    struct mxrt_backend_module *next, *previous;
    void *handle;
    void *code; /* a copy, zero-terminated: drivers may read it as long as the module lives */
    size_t code_bytes;
    struct mxrt_backend_kernel *kernels;
};

/* The modules of one device. */
typedef struct mxrt_gpu_modules {
    pthread_mutex_t lock;
    mxrt_backend_module *first;
} mxrt_gpu_modules;

/* Allocates the record and copies the code; the handle is still NULL. */
mx_status mxrt_gpu_module_create(const void *code, size_t code_bytes, mxrt_backend_module **out,
                                 mx_error *err);
/* Frees the record and its kernels, not the driver's handle. Takes NULL. */
void mxrt_gpu_module_destroy(mxrt_backend_module *module);
void mxrt_gpu_modules_add(mxrt_gpu_modules *modules, mxrt_backend_module *module);
void mxrt_gpu_modules_remove(mxrt_gpu_modules *modules, mxrt_backend_module *module);

/* The kernel record for (symbol, lds_bytes) if there is one, else NULL. Under modules->lock. */
const mxrt_backend_kernel *mxrt_gpu_kernel_find(const mxrt_backend_module *module,
                                                const char *symbol, uint32_t lds_bytes);
/* Adds a copy of `kernel` with a copy of `symbol`. Under modules->lock. */
mx_status mxrt_gpu_kernel_add(mxrt_backend_module *module, const char *symbol,
                              const mxrt_backend_kernel *kernel, const mxrt_backend_kernel **out,
                              mx_error *err);

/* Refuses sizes that the device or the kernel does not have, before the driver sees them. */
mx_status mxrt_gpu_check_launch(const mxrt_gpu_limits *limits, const mxrt_launch *launch,
                                mx_error *err);

/* Checks that an ELF file's headers stay inside it and that it is for `machine` (e_machine),
 * because drivers take no size and would read past the end of a damaged one. */
mx_status mxrt_gpu_check_elf(const void *code, size_t code_bytes, unsigned machine, mx_error *err);

/* A driver call that failed. `code` is the number that CUresult and hipError_t share. */
typedef struct mxrt_gpu_failure {
    const char *call;
    int code;
    const char *name, *text; /* the driver's; may be NULL */
    const char *device;      /* "hip:0" */
    const char *detail;      /* more to say, may be NULL */
} mxrt_gpu_failure;

mx_status mxrt_gpu_fail(const mxrt_gpu_failure *failure, mx_error *err);

/* The driver's version number as text; "" if the driver cannot be asked (NULL) or does not say. */
void mxrt_gpu_driver_text(int (*get_version)(int *version), char *text, size_t text_bytes);

#endif
