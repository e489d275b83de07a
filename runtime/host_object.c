#include "runtime/host_object.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <mxgen/error.h>

#if defined(__x86_64__)
#define HOST_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define HOST_MACHINE EM_AARCH64
#else
#define HOST_MACHINE EM_NONE
#endif

static mx_status damaged(mx_error *err, const char *what)
{
    return mx_fail(err, MX_ERR_CORRUPT,
                   "a code object for the host is damaged: %s; build the pack again", what);
}

/* offset + size lies inside the file. */
static int inside(uint64_t offset, uint64_t size_bytes, size_t file_bytes)
{
    return offset <= file_bytes && size_bytes <= file_bytes - offset;
}

mx_status mxrt_host_object_check(const void *code, size_t code_bytes, mx_error *err)
{
    const unsigned char *bytes = code;
    int has_dynamic = 0, has_load = 0;
    Elf64_Ehdr header;

    if (code_bytes < sizeof(header))
        return damaged(err, "it is shorter than an ELF header");
    memcpy(&header, bytes, sizeof(header));
    if (memcmp(header.e_ident, ELFMAG, SELFMAG))
        return damaged(err, "it is not an ELF file");
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB)
        return damaged(err, "it is not a 64-bit little-endian ELF file");
    if (header.e_type != ET_DYN)
        return damaged(err, "it is not a shared object");
    if (header.e_machine != HOST_MACHINE)
        return mx_fail(err, MX_ERR_UNSUPPORTED,
                       "a code object for the host is for ELF machine %u, this is machine %u",
                       header.e_machine, HOST_MACHINE);
    if (header.e_phentsize != sizeof(Elf64_Phdr) || !header.e_phnum ||
        !inside(header.e_phoff, (uint64_t)header.e_phnum * sizeof(Elf64_Phdr), code_bytes))
        return damaged(err, "its program headers are not inside the file");
    for (unsigned i = 0; i < header.e_phnum; i++) {
        Elf64_Phdr segment;
        memcpy(&segment, bytes + header.e_phoff + i * sizeof(segment), sizeof(segment));
        if (segment.p_type == PT_NULL || segment.p_type == PT_GNU_STACK)
            continue;
        if (!inside(segment.p_offset, segment.p_filesz, code_bytes))
            return damaged(err, "a segment reaches past the end of the file");
        if (segment.p_type == PT_LOAD && segment.p_filesz > segment.p_memsz)
            return damaged(err, "a segment is larger in the file than in memory");
        has_dynamic |= segment.p_type == PT_DYNAMIC;
        has_load |= segment.p_type == PT_LOAD;
    }
    if (!has_load || !has_dynamic)
        return damaged(err, "it has nothing to load");
    return MX_OK;
}

static mx_status write_all(int fd, const void *data, size_t size_bytes, mx_error *err)
{
    const unsigned char *bytes = data;

    while (size_bytes) {
        ssize_t n = write(fd, bytes, size_bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return mx_fail(err, MX_ERR_IO, "writing a code object to load it: %s",
                           n ? strerror(errno) : "no space");
        bytes += n;
        size_bytes -= (size_t)n;
    }
    return MX_OK;
}

/* The loader knows libraries by name: the file must stay open as long as the object is loaded, lest
 * the next one gets the same number and with it this object. */
static int load_memfd(const void *code, size_t code_bytes, mxrt_host_object *out)
{
    char path[64];
    int fd = memfd_create("mxrt-kernels", MFD_CLOEXEC);

    if (fd < 0)
        return -1;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (!write_all(fd, code, code_bytes, NULL) &&
        (out->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL))) {
        out->fd = fd;
        return 0;
    }
    close(fd);
    return -1;
}

static mx_status load_file(const void *code, size_t code_bytes, mxrt_host_object *out,
                           mx_error *err)
{
    const char *folder = getenv("TMPDIR");
    char path[1024];
    mx_status status;

    if (!folder || !*folder)
        folder = "/tmp";
    if ((size_t)snprintf(path, sizeof(path), "%s/mxrt-XXXXXX", folder) >= sizeof(path))
        return mx_fail(err, MX_ERR_INVALID, "TMPDIR is longer than %zu characters",
                       sizeof(path) - sizeof("/mxrt-XXXXXX"));
    int fd = mkstemp(path);
    if (fd < 0)
        return mx_fail(err, MX_ERR_IO,
                       "a code object needs a temporary file, but %s/ takes none: %s; set TMPDIR",
                       folder, strerror(errno));
    status = write_all(fd, code, code_bytes, err);
    close(fd);
    if (!status && !(out->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL)))
        status = mx_fail(err, MX_ERR_CORRUPT,
                         "the system does not load a code object for the host: %s; if %s/ is "
                         "mounted noexec, set TMPDIR to another folder",
                         dlerror(), folder);
    unlink(path);
    return status;
}

mx_status mxrt_host_object_load(const void *code, size_t code_bytes, mxrt_host_object *out,
                                mx_error *err)
{
    mxrt_host_object object = {.fd = -1};
    mx_status status = mxrt_host_object_check(code, code_bytes, err);

    if (status)
        return status;
    /* No memfd, no /proc, or memfds that may not run: a file serves as well. */
    if (load_memfd(code, code_bytes, &object) &&
        (status = load_file(code, code_bytes, &object, err)))
        return status;
    *out = object;
    return MX_OK;
}

void mxrt_host_object_unload(mxrt_host_object *object)
{
    if (object->handle)
        dlclose(object->handle);
    if (object->fd >= 0)
        close(object->fd);
    *object = (mxrt_host_object){.fd = -1};
}

void *mxrt_host_object_symbol(const mxrt_host_object *object, const char *symbol)
{
    return dlsym(object->handle, symbol);
}
