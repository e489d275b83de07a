#include "safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <jansson.h>

#include <mxgen/error.h>

typedef struct st_slot {
    int64_t size_bytes;
    int64_t offset_bytes; /* in the file, set by begin */
    int64_t written_bytes;
    int bits;
    size_t order;  /* declared as number */
    json_t *entry; /* borrowed from root */
} st_slot;

struct st_writer {
    char *target;    /* links resolved */
    char *temporary; /* NULL: the file has no name yet, and goes with its descriptor */
    int fd;
    int cleanup_slot;
    int begun;
    json_t *root;
    json_t *metadata; /* borrowed from root; NULL if there is none */
    st_slot *slots;
    size_t n_slots, capacity;
};

/* ---- Temporary files and signals ---- */

/* What the signal handler removes. Slots are claimed and released with atomic exchanges, so that
 * a signal at any moment finds either a whole path or none. */
#define ST_CLEANUP_SLOTS 16
static _Atomic(char *) cleanup_paths[ST_CLEANUP_SLOTS];

static int cleanup_claim(char *path)
{
    for (int i = 0; i < ST_CLEANUP_SLOTS; i++) {
        char *expected = NULL;
        if (atomic_compare_exchange_strong(&cleanup_paths[i], &expected, path))
            return i;
    }
    return -1;
}

static void cleanup_release(int slot)
{
    if (slot >= 0)
        atomic_store(&cleanup_paths[slot], NULL);
}

static void on_signal(int number)
{
    for (int i = 0; i < ST_CLEANUP_SLOTS; i++) {
        char *path = atomic_load(&cleanup_paths[i]);
        if (path)
            unlink(path);
    }
    /* SA_RESETHAND: the default action ends the process as the sender expects. */
    raise(number);
}

void st_writer_clean_on_signals(void)
{
    static const int numbers[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESETHAND}, before;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(numbers[i], &action, NULL);
    }
}

/* ---- Create, declare ---- */

static mx_status resolve_target(const char *path, char **target, mx_error *err)
{
    struct stat st;
    size_t length = strlen(path);
    if (length == 0 || path[length - 1] == '/')
        return mx_fail(err, MX_ERR_INVALID, "output \"%s\" names no file", path);
    if (stat(path, &st) == 0) {
        if (S_ISDIR(st.st_mode))
            return mx_fail(err, MX_ERR_INVALID, "%s: is a directory; name the output file", path);
        if (!S_ISREG(st.st_mode))
            return mx_fail(err, MX_ERR_INVALID, "%s: not a regular file; it would be replaced",
                           path);
        /* Renaming onto a link would replace the link, not what it points to. */
        *target = realpath(path, NULL);
    } else if (errno == ENOENT && lstat(path, &st) == 0) {
        return mx_fail(err, MX_ERR_INVALID, "%s: is a link to a file that is not there", path);
    } else if (errno == ENOENT) {
        *target = strdup(path);
    } else {
        return mx_fail(err, MX_ERR_IO, "%s: cannot stat: %s", path, strerror(errno));
    }
    if (!*target)
        return mx_fail(err, MX_ERR_IO, "%s: cannot resolve: %s", path, strerror(errno));
    return MX_OK;
}

mx_status st_writer_create(const char *path, st_writer **out, mx_error *err)
{
    st_writer *writer = calloc(1, sizeof(*writer));
    mx_status status = MX_ERR_NO_MEMORY;
    if (writer) {
        writer->fd = -1;
        writer->cleanup_slot = -1;
        writer->root = json_object();
    }
    if (!writer || !writer->root)
        mx_fail(err, status, "no memory for a writer");
    else
        status = resolve_target(path, &writer->target, err);
    if (status != MX_OK) {
        st_writer_destroy(writer);
        return status;
    }
    *out = writer;
    return MX_OK;
}

void st_writer_destroy(st_writer *writer)
{
    if (!writer)
        return;
    if (writer->fd >= 0) {
        close(writer->fd);
        if (writer->temporary)
            unlink(writer->temporary);
    }
    cleanup_release(writer->cleanup_slot);
    json_decref(writer->root);
    free(writer->slots);
    free(writer->temporary);
    free(writer->target);
    free(writer);
}

mx_status st_writer_metadata(st_writer *writer, const char *key, const char *value, mx_error *err)
{
    char label[ST_PRINTABLE_BYTES];
    if (writer->begun)
        return mx_fail(err, MX_ERR_INVALID, "metadata must be given before the data");
    if (!writer->metadata) {
        json_t *metadata = json_object();
        if (!metadata || json_object_set_new(writer->root, "__metadata__", metadata) != 0)
            return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for the metadata");
        writer->metadata = metadata;
    }
    if (json_object_get(writer->metadata, key))
        return mx_fail(err, MX_ERR_INVALID, "metadata key \"%s\" is given twice",
                       st_printable(key, label));
    if (json_object_set_new(writer->metadata, key, json_string(value)) != 0)
        return mx_fail(err, MX_ERR_INVALID, "metadata entry \"%s\" is not valid UTF-8",
                       st_printable(key, label));
    return MX_OK;
}

static mx_status reserve_slot(st_writer *writer, mx_error *err)
{
    if (writer->n_slots < writer->capacity)
        return MX_OK;
    size_t capacity = writer->capacity ? 2 * writer->capacity : 64;
    st_slot *slots = reallocarray(writer->slots, capacity, sizeof(*slots));
    if (!slots)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for %zu tensors", capacity);
    writer->slots = slots;
    writer->capacity = capacity;
    return MX_OK;
}

mx_status st_writer_declare(st_writer *writer, const char *name, st_dtype dtype, size_t ndim,
                            const int64_t *shape, size_t *index, mx_error *err)
{
    char label[ST_PRINTABLE_BYTES];
    int64_t size_bytes = 0;
    mx_error why;
    st_printable(name, label);
    if (writer->begun)
        return mx_fail(err, MX_ERR_INVALID, "tensor \"%s\" is declared after the data began",
                       label);
    if (!strcmp(name, "__metadata__") || json_object_get(writer->root, name))
        return mx_fail(err, MX_ERR_INVALID, "tensor name \"%s\" is taken", label);
    if (st_tensor_bytes(dtype, ndim, shape, &size_bytes, &why) != MX_OK)
        return mx_fail(err, MX_ERR_INVALID, "tensor \"%s\": %s", label, why.message);
    mx_status status = reserve_slot(writer, err);
    if (status != MX_OK)
        return status;
    json_t *entry = json_object(), *dims = json_array();
    int failed = json_object_set_new(entry, "dtype", json_string(st_dtype_name(dtype))) != 0;
    for (size_t i = 0; i < ndim; i++)
        failed |= json_array_append_new(dims, json_integer(shape[i])) != 0;
    failed |= json_object_set_new(entry, "shape", dims) != 0;
    if (failed) {
        json_decref(entry);
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for tensor \"%s\"", label);
    }
    if (json_object_set_new(writer->root, name, entry) != 0)
        return mx_fail(err, MX_ERR_INVALID, "tensor name \"%s\" is not valid UTF-8", label);
    writer->slots[writer->n_slots] = (st_slot){.size_bytes = size_bytes,
                                               .bits = st_dtype_bits(dtype),
                                               .order = writer->n_slots,
                                               .entry = entry};
    *index = writer->n_slots++;
    return MX_OK;
}

/* ---- Begin ---- */

static int compare_alignment(const void *a, const void *b)
{
    const st_slot *x = *(st_slot *const *)a, *y = *(st_slot *const *)b;
    if (x->bits != y->bits)
        return x->bits > y->bits ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* Gives every slot its offset from the start of the data. */
static mx_status lay_out(st_writer *writer, int64_t *data_bytes, mx_error *err)
{
    int64_t end = 0;
    mx_status status = MX_OK;
    st_slot **sorted = calloc(writer->n_slots + 1, sizeof(*sorted));
    if (!sorted)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for %zu tensors", writer->n_slots);
    for (size_t i = 0; i < writer->n_slots; i++)
        sorted[i] = &writer->slots[i];
    qsort(sorted, writer->n_slots, sizeof(*sorted), compare_alignment);
    for (size_t i = 0; i < writer->n_slots && status == MX_OK; i++) {
        int64_t begin = end;
        sorted[i]->offset_bytes = begin;
        if (__builtin_add_overflow(begin, sorted[i]->size_bytes, &end) || end > INT64_MAX / 2)
            status = mx_fail(err, MX_ERR_INVALID, "the tensors together overflow 2^62 bytes");
        else if (json_object_set_new(sorted[i]->entry, "data_offsets",
                                     json_pack("[I, I]", (json_int_t)begin, (json_int_t)end)) != 0)
            status = mx_fail(err, MX_ERR_NO_MEMORY, "no memory for the header");
    }
    free(sorted);
    *data_bytes = end;
    return status;
}

/* The length field, the JSON, and spaces to a multiple of 8. */
static mx_status make_header(const st_writer *writer, char **header, size_t *header_bytes,
                             mx_error *err)
{
    size_t length = json_dumpb(writer->root, NULL, 0, JSON_COMPACT);
    size_t padded = (length + 7) / 8 * 8;
    if (padded > ST_MAX_HEADER_BYTES)
        return mx_fail(err, MX_ERR_INVALID, "a header of %zu bytes is above the format's limit %d",
                       padded, ST_MAX_HEADER_BYTES);
    char *text = length > 0 ? malloc(padded + 8) : NULL;
    if (!text || json_dumpb(writer->root, text + 8, length, JSON_COMPACT) != length) {
        free(text);
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for a header of %zu bytes", padded);
    }
    memset(text + 8 + length, ' ', padded - length);
    for (int i = 0; i < 8; i++)
        text[i] = (char)((uint64_t)padded >> (8 * i));
    *header = text;
    *header_bytes = padded + 8;
    return MX_OK;
}

/* The path of something in the target's folder; NULL without memory. */
static char *beside_target(const st_writer *writer, const char *name)
{
    const char *slash = strrchr(writer->target, '/');
    int dir_length = slash ? (int)(slash - writer->target) + 1 : 0;
    char *path = NULL;
    return asprintf(&path, "%.*s%s", dir_length, writer->target, name) < 0 ? NULL : path;
}

/* A short name of its own, so that it fits wherever the target's name does. Calls `make` with one
 * after the other until it does not find the name taken; what it returns then, and the name, which
 * the signal handler knows. */
static int with_temporary(st_writer *writer, int (*make)(st_writer *writer, const char *path))
{
    static atomic_uint counter;
    char name[64];
    for (int attempt = 0; attempt < 100; attempt++) {
        snprintf(name, sizeof(name), ".mxgen-%ld-%u.tmp", (long)getpid(),
                 atomic_fetch_add(&counter, 1));
        char *path = beside_target(writer, name);
        if (!path)
            return errno = ENOMEM, -1;
        /* Claimed first: a signal between the two must find the name. */
        int slot = cleanup_claim(path);
        int made = make(writer, path);
        if (made >= 0) {
            writer->temporary = path;
            writer->cleanup_slot = slot;
            return made;
        }
        int why = errno;
        cleanup_release(slot);
        free(path);
        errno = why;
        if (why != EEXIST)
            return -1;
    }
    return -1;
}

static int make_file(st_writer *writer, const char *path)
{
    (void)writer;
    return open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
}

/* The name under which a descriptor's file can be linked. */
static void descriptor_path(int fd, char path[64])
{
    snprintf(path, 64, "/proc/self/fd/%d", fd);
}

/* A file without a name, which nothing of the process outlives; -1 where there are none. */
static int open_unnamed(const st_writer *writer)
{
    char path[64];
    char *folder = beside_target(writer, ".");
    int fd = folder ? open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666) : -1;
    free(folder);
    if (fd < 0)
        return -1;
    descriptor_path(fd, path);
    if (access(path, F_OK) == 0)
        return fd;
    close(fd); /* it could never get a name */
    return -1;
}

static mx_status open_temporary(st_writer *writer, mx_error *err)
{
    if ((writer->fd = open_unnamed(writer)) >= 0 ||
        (writer->fd = with_temporary(writer, make_file)) >= 0)
        return MX_OK;
    if (errno == EEXIST)
        return mx_fail(err, MX_ERR_IO, "%s: its folder is full of old temporary files .mxgen-*.tmp",
                       writer->target);
    return mx_fail(err, errno == ENOENT ? MX_ERR_NOT_FOUND : MX_ERR_IO,
                   "%s: cannot create a file in its folder: %s", writer->target, strerror(errno));
}

static int link_file(st_writer *writer, const char *path)
{
    char from[64];
    descriptor_path(writer->fd, from);
    return linkat(AT_FDCWD, from, AT_FDCWD, path, AT_SYMLINK_FOLLOW);
}

/* A link cannot replace a file, so that one without a name gets a temporary one first if the target
 * is there. */
static int move_into_place(st_writer *writer)
{
    if (!writer->temporary && link_file(writer, writer->target) == 0)
        return 0;
    if (!writer->temporary && (errno != EEXIST || with_temporary(writer, link_file) < 0))
        return -1;
    return rename(writer->temporary, writer->target);
}

/* Reserves the whole file, so that a full disk is found before the work and not after it. */
static mx_status reserve_space(const st_writer *writer, int64_t file_bytes, mx_error *err)
{
    struct statvfs fs;
    if (fallocate(writer->fd, 0, 0, file_bytes) == 0 || errno == EOPNOTSUPP || errno == ENOSYS)
        return MX_OK;
    int why = errno;
    if (why == ENOSPC && fstatvfs(writer->fd, &fs) == 0)
        return mx_fail(err, MX_ERR_IO, "%s: the disk is full: %lld bytes needed, %llu available",
                       writer->target, (long long)file_bytes,
                       (unsigned long long)fs.f_bavail * fs.f_frsize);
    return mx_fail(err, MX_ERR_IO, "%s: cannot reserve %lld bytes: %s", writer->target,
                   (long long)file_bytes, strerror(why));
}

static mx_status write_at(const st_writer *writer, int64_t offset, const void *src,
                          size_t size_bytes, mx_error *err)
{
    const char *at = src;
    while (size_bytes > 0) {
        ssize_t put = pwrite(writer->fd, at, size_bytes, offset);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return mx_fail(err, MX_ERR_IO, "%s: writing %zu bytes at %lld failed: %s",
                           writer->target, size_bytes, (long long)offset,
                           put < 0 ? strerror(errno) : "nothing was written");
        at += put;
        offset += put;
        size_bytes -= (size_t)put;
    }
    return MX_OK;
}

mx_status st_writer_begin(st_writer *writer, mx_error *err)
{
    char *header = NULL;
    size_t header_bytes = 0;
    int64_t data_bytes = 0;
    if (writer->begun)
        return mx_fail(err, MX_ERR_INVALID, "the data already began");
    mx_status status = lay_out(writer, &data_bytes, err);
    if (status == MX_OK)
        status = make_header(writer, &header, &header_bytes, err);
    if (status == MX_OK)
        status = open_temporary(writer, err);
    if (status == MX_OK)
        status = reserve_space(writer, (int64_t)header_bytes + data_bytes, err);
    if (status == MX_OK)
        status = write_at(writer, 0, header, header_bytes, err);
    for (size_t i = 0; i < writer->n_slots && status == MX_OK; i++)
        writer->slots[i].offset_bytes += (int64_t)header_bytes;
    writer->begun = status == MX_OK;
    free(header);
    return status;
}

/* ---- Data, commit ---- */

mx_status st_writer_write(st_writer *writer, size_t index, int64_t offset_bytes, const void *src,
                          size_t size_bytes, mx_error *err)
{
    if (!writer->begun || index >= writer->n_slots)
        return mx_fail(err, MX_ERR_INVALID, "tensor number %zu cannot be written: %s", index,
                       writer->begun ? "it is not declared" : "the data has not begun");
    st_slot *slot = &writer->slots[index];
    if (offset_bytes < 0 || offset_bytes > slot->size_bytes ||
        size_bytes > (uint64_t)(slot->size_bytes - offset_bytes))
        return mx_fail(err, MX_ERR_INVALID,
                       "tensor number %zu has %lld bytes; %zu bytes at %lld reach past them", index,
                       (long long)slot->size_bytes, size_bytes, (long long)offset_bytes);
    mx_status status = write_at(writer, slot->offset_bytes + offset_bytes, src, size_bytes, err);
    if (status == MX_OK)
        slot->written_bytes += (int64_t)size_bytes;
    return status;
}

/* The rename itself must be on the disk, too; not every file system can do it, so best effort. */
static void sync_folder(const char *target)
{
    const char *slash = strrchr(target, '/');
    char *folder = slash ? strndup(target, (size_t)(slash - target) + 1) : strdup(".");
    int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    free(folder);
}

mx_status st_writer_commit(st_writer *writer, mx_error *err)
{
    if (!writer->begun || writer->fd < 0)
        return mx_fail(err, MX_ERR_INVALID, "nothing to commit: the data has not begun");
    for (size_t i = 0; i < writer->n_slots; i++) {
        const st_slot *slot = &writer->slots[i];
        if (slot->written_bytes != slot->size_bytes)
            return mx_fail(err, MX_ERR_INVALID,
                           "tensor number %zu has %lld bytes, but %lld were written", i,
                           (long long)slot->size_bytes, (long long)slot->written_bytes);
    }
    if (fsync(writer->fd) != 0)
        return mx_fail(err, MX_ERR_IO, "%s: cannot write the data out: %s", writer->target,
                       strerror(errno));
    if (move_into_place(writer) != 0)
        return mx_fail(err, MX_ERR_IO, "%s: cannot move the new file into place: %s",
                       writer->target, strerror(errno));
    cleanup_release(writer->cleanup_slot);
    writer->cleanup_slot = -1;
    close(writer->fd);
    writer->fd = -1;
    sync_folder(writer->target);
    return MX_OK;
}
