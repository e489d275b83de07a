#include "runtime/gpu.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include <mxgen/error.h>

/* ---- URIs ---- */

static const char library_option[] = "library=";

mx_status mxrt_gpu_parse_uri(const char *scheme, const char *rest, mxrt_gpu_uri *out, mx_error *err)
{
    const char *cursor = rest;
    int ordinal = 0;
    for (; *cursor >= '0' && *cursor <= '9'; cursor++) {
        if (ordinal > 9999)
            return mx_fail(err, MX_ERR_INVALID, "%s:%s: no machine has that many devices", scheme,
                           rest);
        ordinal = ordinal * 10 + (*cursor - '0');
    }
    if (*cursor == '?')
        cursor++;
    mxrt_gpu_uri uri = {.ordinal = ordinal};
    size_t option_length = strlen(library_option);
    if (*cursor && !strncmp(cursor, library_option, option_length)) {
        const char *path = cursor + option_length;
        if (!*path || strlen(path) >= sizeof(uri.path_storage))
            return mx_fail(err, MX_ERR_INVALID,
                           "%s:%s: the library option needs a path of 1 to %zu characters", scheme,
                           rest, sizeof(uri.path_storage) - 1);
        strcpy(uri.path_storage, path);
    } else if (*cursor) {
        return mx_fail(err, MX_ERR_INVALID,
                       "%s:%s is not a device: write %s:N or %s:N?library=PATH with N from 0",
                       scheme, rest, scheme, scheme);
    }
    *out = uri;
    out->library = out->path_storage[0] ? out->path_storage : NULL;
    return MX_OK;
}

/* ---- Modules and kernels ---- */

mx_status mxrt_gpu_module_create(const void *code, size_t code_bytes, mxrt_backend_module **out,
                                 mx_error *err)
{
    mxrt_backend_module *module = calloc(1, sizeof(*module));
    char *copy = malloc(code_bytes + 1);
    if (!module || !copy) {
        free(copy);
        free(module);
        return mx_fail(err, MX_ERR_NO_MEMORY, "no host memory for a code object of %zu bytes",
                       code_bytes);
    }
    memcpy(copy, code, code_bytes);
    copy[code_bytes] = 0;
    module->code = copy;
    module->code_bytes = code_bytes;
    *out = module;
    return MX_OK;
}

void mxrt_gpu_module_destroy(mxrt_backend_module *module)
{
    if (!module)
        return;
    while (module->kernels) {
        struct mxrt_backend_kernel *kernel = module->kernels;
        module->kernels = kernel->next;
        free(kernel->symbol);
        free(kernel);
    }
    free(module->code);
    free(module);
}

void mxrt_gpu_modules_add(mxrt_gpu_modules *modules, mxrt_backend_module *module)
{
    pthread_mutex_lock(&modules->lock);
    module->previous = NULL;
    module->next = modules->first;
    if (module->next)
        module->next->previous = module;
    modules->first = module;
    pthread_mutex_unlock(&modules->lock);
}

void mxrt_gpu_modules_remove(mxrt_gpu_modules *modules, mxrt_backend_module *module)
{
    pthread_mutex_lock(&modules->lock);
    if (module->previous)
        module->previous->next = module->next;
    else
        modules->first = module->next;
    if (module->next)
        module->next->previous = module->previous;
    pthread_mutex_unlock(&modules->lock);
}

const mxrt_backend_kernel *mxrt_gpu_kernel_find(const mxrt_backend_module *module,
                                                const char *symbol, uint32_t lds_bytes)
{
    for (const mxrt_backend_kernel *kernel = module->kernels; kernel; kernel = kernel->next) {
        if (kernel->lds_bytes >= lds_bytes && !strcmp(kernel->symbol, symbol))
            return kernel;
    }
    return NULL;
}

mx_status mxrt_gpu_kernel_add(mxrt_backend_module *module, const char *symbol,
                              const mxrt_backend_kernel *kernel, const mxrt_backend_kernel **out,
                              mx_error *err)
{
    struct mxrt_backend_kernel *added = malloc(sizeof(*added));
    char *name = strdup(symbol);
    if (!added || !name) {
        free(name);
        free(added);
        return mx_fail(err, MX_ERR_NO_MEMORY, "no host memory for the record of kernel %s", symbol);
    }
    *added = *kernel;
    added->symbol = name;
    added->next = module->kernels;
    module->kernels = added;
    *out = added;
    return MX_OK;
}

/* ---- Launches ---- */

mx_status mxrt_gpu_check_launch(const mxrt_gpu_limits *limits, const mxrt_launch *launch,
                                mx_error *err)
{
    static const char axes[] = "xyz";
    const mxrt_backend_kernel *kernel = launch->kernel;
    uint64_t block_items = 1;
    for (int i = 0; i < 3; i++) {
        uint32_t grid = launch->grid[i], block = launch->block[i];
        if (grid == 0 || grid > limits->grid[i])
            return mx_fail(
                err, MX_ERR_INVALID,
                "kernel %s: grid %c is %u workgroups, the device takes 1 to %u: split the "
                "tensor into several calls",
                kernel->symbol, axes[i], grid, limits->grid[i]);
        if (block == 0 || block > limits->block[i])
            return mx_fail(err, MX_ERR_INVALID,
                           "kernel %s: block %c is %u work items, the device takes 1 to %u",
                           kernel->symbol, axes[i], block, limits->block[i]);
        if ((uint64_t)grid * block > limits->grid_items)
            return mx_fail(err, MX_ERR_INVALID,
                           "kernel %s: %u workgroups of %u along %c are more than %llu work items: "
                           "split the tensor into several calls",
                           kernel->symbol, grid, block, axes[i],
                           (unsigned long long)limits->grid_items);
        block_items *= block;
        if (block_items > limits->block_items || block_items > kernel->block_items)
            return mx_fail(err, MX_ERR_INVALID,
                           "kernel %s: a block of %ux%ux%u is more than the %u work items that the "
                           "device and the kernel take",
                           kernel->symbol, launch->block[0], launch->block[1], launch->block[2],
                           limits->block_items < kernel->block_items ? limits->block_items
                                                                     : kernel->block_items);
    }
    if (launch->lds_bytes > kernel->lds_bytes)
        return mx_fail(
            err, MX_ERR_INVALID,
            "kernel %s: %u bytes of LDS asked for, it was readied for %u: prepare it with "
            "the larger size",
            kernel->symbol, launch->lds_bytes, kernel->lds_bytes);
    return MX_OK;
}

/* ---- Code objects ---- */

static int inside(uint64_t offset, uint64_t size, size_t total)
{
    return offset <= total && size <= total - offset;
}

static int sections_inside(const unsigned char *code, const Elf64_Ehdr *header, size_t code_bytes)
{
    for (size_t i = 0; i < header->e_shnum; i++) {
        Elf64_Shdr section;
        memcpy(&section, code + header->e_shoff + i * sizeof(section), sizeof(section));
        if (section.sh_type != SHT_NOBITS &&
            !inside(section.sh_offset, section.sh_size, code_bytes))
            return 0;
    }
    for (size_t i = 0; i < header->e_phnum; i++) {
        Elf64_Phdr segment;
        memcpy(&segment, code + header->e_phoff + i * sizeof(segment), sizeof(segment));
        if (!inside(segment.p_offset, segment.p_filesz, code_bytes))
            return 0;
    }
    return 1;
}

mx_status mxrt_gpu_check_elf(const void *code, size_t code_bytes, unsigned machine, mx_error *err)
{
    Elf64_Ehdr header;
    if (code_bytes < sizeof(header) || memcmp(code, ELFMAG, SELFMAG) != 0)
        return mx_fail(err, MX_ERR_CORRUPT,
                       "the code object (%zu bytes) is not an ELF file: build the pack again",
                       code_bytes);
    memcpy(&header, code, sizeof(header));
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != machine)
        return mx_fail(
            err, MX_ERR_CORRUPT,
            "the code object is for ELF machine %u, this device runs machine %u: build the "
            "pack for it",
            header.e_machine, machine);
    uint64_t sections_bytes = (uint64_t)header.e_shnum * sizeof(Elf64_Shdr);
    uint64_t segments_bytes = (uint64_t)header.e_phnum * sizeof(Elf64_Phdr);
    if ((header.e_shnum && header.e_shentsize != sizeof(Elf64_Shdr)) ||
        (header.e_phnum && header.e_phentsize != sizeof(Elf64_Phdr)) ||
        !inside(header.e_shoff, sections_bytes, code_bytes) ||
        !inside(header.e_phoff, segments_bytes, code_bytes) ||
        !sections_inside(code, &header, code_bytes))
        return mx_fail(
            err, MX_ERR_CORRUPT,
            "the code object is damaged: its headers point past its %zu bytes; build the "
            "pack again",
            code_bytes);
    return MX_OK;
}

/* ---- Errors ---- */

static const char no_device_advice[] = "no such device is visible: check the card, its driver, the "
                                       "permissions on its device files and "
                                       "the *_VISIBLE_DEVICES variables";

/* CUDA and HIP number these alike. */
static const struct {
    int code;
    mx_status status;
    const char *advice;
} failures[] = {
    {1, MX_ERR_DEVICE, "check that the pointers, sizes and stream belong to this device"},
    {2, MX_ERR_NO_MEMORY, "free device memory, or use a smaller tensor"},
    {3, MX_ERR_DEVICE, "the driver is not ready: check that its kernel module is loaded"},
    {35, MX_ERR_DEVICE, "the driver is older than its library: update the driver"},
    {98, MX_ERR_DEVICE, "the object lacks this kernel for this chip: build the pack again"},
    {100, MX_ERR_NOT_FOUND, no_device_advice},
    {101, MX_ERR_NOT_FOUND, no_device_advice},
    {200, MX_ERR_DEVICE, "the object is damaged or for another chip: build the pack for this one"},
    {201, MX_ERR_DEVICE, "the context was destroyed: open the device again"},
    {209, MX_ERR_DEVICE, "the object is for another chip: build the pack for this one"},
    {218, MX_ERR_DEVICE, "the object is damaged or newer than the driver: update the driver"},
    {222, MX_ERR_DEVICE,
     "the PTX is newer than the driver: update it, or build the pack with ptxas"},
    {300, MX_ERR_DEVICE, "the object is damaged: build the pack again"},
    {303, MX_ERR_DEVICE, "the object is for another chip: build the pack for this one"},
    {400, MX_ERR_DEVICE, "a stream of another device or context cannot be used here"},
    {500, MX_ERR_NOT_FOUND, "the object lacks it: build the pack again"},
    {700, MX_ERR_DEVICE,
     "a kernel touched memory outside an allocation: the tensors must live until the stream has "
     "passed them; restart the process"},
    {701, MX_ERR_DEVICE, "the kernel needs more registers or LDS than the device has"},
    {709, MX_ERR_DEVICE, "the context was destroyed: open the device again"},
    {719, MX_ERR_DEVICE, "a kernel failed on the device: restart the process"},
};

mx_status mxrt_gpu_fail(const mxrt_gpu_failure *failure, mx_error *err)
{
    mx_status status = MX_ERR_DEVICE;
    const char *advice = "look up the error in the driver's manual and log";
    for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++) {
        if (failures[i].code == failure->code) {
            status = failures[i].status;
            advice = failures[i].advice;
        }
    }
    return mx_fail(err, status, "%s: %s failed with %s (%d%s%s)%s%s: %s", failure->device,
                   failure->call, failure->name ? failure->name : "an unknown error", failure->code,
                   failure->text ? ", " : "", failure->text ? failure->text : "",
                   failure->detail ? "; " : "", failure->detail ? failure->detail : "", advice);
}

void mxrt_gpu_driver_text(int (*get_version)(int *version), char *text, size_t text_bytes)
{
    int version = 0;

    *text = 0;
    if (get_version && !get_version(&version))
        snprintf(text, text_bytes, "%d", version);
}
