/* Missing kernels by mxgen, kept in the user's folder for every later process. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <xxhash.h>

#include <mxgen/error.h>
#include <mxgen/pack.h>

#include "runtime/child.h"
#include "runtime/compile.h"
#include "runtime/pack_reader.h"

#define FOLDER_ENV "MXRT_USER_PACK"
#define SECONDS_ENV "MXRT_COMPILE_SECONDS"

/* Of each layout, or mode: alignments and strides differ, but the last ones differ in speed alone.
 */
#define MAX_RANK "16"

enum { NAME_BYTES = 200, DEFAULT_SECONDS = 60 };

typedef struct job {
    const mxrt_context *context;
    const mxrt_compile_request *request;
    mxrt_compile_names names; /* of the request */
    double limit_seconds;
    char program[PATH_MAX];
    char name[NAME_BYTES]; /* of the pack, without its ending */
    char folder[PATH_MAX]; /* "": nothing is kept */
} job;

/* ---- Settings ---- */

static int is_program(const char *path)
{
    struct stat info;
    return !stat(path, &info) && S_ISREG(info.st_mode) && !access(path, X_OK);
}

static mx_status find_program(job *j, mx_error *err)
{
    const char *named = j->context->compiler.program;
    const char *at = secure_getenv("PATH");

    if (!named)
        named = secure_getenv(MXRT_COMPILER_ENV);
    if (named && *named) {
        if (is_program(named) && realpath(named, j->program))
            return MX_OK;
        return mx_fail(err, MX_ERR_NOT_FOUND, "the compiler \"%.300s\" is no program", named);
    }
    while (at && *at) {
        char path[PATH_MAX];
        int length = (int)strcspn(at, ":");
        int n = snprintf(path, sizeof(path), "%.*s/mxgen", length, at);
        /* Never what lies in whatever folder is the current one. */
        if (*at == '/' && (size_t)n < sizeof(path) && is_program(path) &&
            realpath(path, j->program))
            return MX_OK;
        at += length + (at[length] == ':');
    }
    return mx_fail(err, MX_ERR_NOT_FOUND,
                   "no mxgen is in PATH; " MXRT_COMPILER_ENV " can name it, or say off");
}

static mx_status find_limit(job *j, mx_error *err)
{
    const char *text = secure_getenv(SECONDS_ENV);
    char *end = NULL;

    j->limit_seconds = j->context->compiler.limit_seconds;
    if (j->limit_seconds > 0)
        return MX_OK;
    j->limit_seconds = DEFAULT_SECONDS;
    if (!text || !*text)
        return MX_OK;
    double seconds = strtod(text, &end);
    if (*end || !(seconds > 0 && seconds <= 86400))
        return mx_fail(err, MX_ERR_INVALID,
                       SECONDS_ENV " is \"%.40s\"; it must be a number up to 86400", text);
    j->limit_seconds = seconds;
    return MX_OK;
}

/* The program's identity is in the name: another mxgen makes other packs. */
static mx_status make_name(job *j, mx_error *err)
{
    const mxrt_compile_names *names = &j->names;
    struct stat info;
    char identity[PATH_MAX + 160];

    if (stat(j->program, &info))
        return mx_fail(err, MX_ERR_IO, "%s: %s", j->program, strerror(errno));
    int n = snprintf(identity, sizeof(identity),
                     "%s %lld %lld.%09ld %d " MX_VERSION_STRING " " MAX_RANK, j->program,
                     (long long)info.st_size, (long long)info.st_mtim.tv_sec, info.st_mtim.tv_nsec,
                     MXPACK_VERSION);
    snprintf(j->name, sizeof(j->name), "%.80s-%s-%s-%s%s%s-%016" PRIx64, j->request->target,
             names->op, names->format, names->dtype, *names->profile ? "-" : "", names->profile,
             (uint64_t)XXH3_64bits(identity, (size_t)n));
    for (char *at = j->name; *at; at++) {
        if (!isalnum((unsigned char)*at) && !strchr("._-", *at))
            *at = '_';
    }
    return MX_OK;
}

/* ---- The user's folder ---- */

/* NULL where there is none; else `path`. */
static const char *folder_path(const job *j, char path[PATH_MAX])
{
    const char *named = j->context->compiler.folder;
    const char *base = secure_getenv("XDG_CACHE_HOME"), *tail = "mxgen/kernels";

    if (!named)
        named = secure_getenv(FOLDER_ENV);
    if (named && *named)
        return snprintf(path, PATH_MAX, "%s", named) < PATH_MAX ? path : NULL;
    if (!base || *base != '/') { /* as the XDG specification has it */
        base = secure_getenv("HOME");
        tail = ".cache/mxgen/kernels";
    }
    if (!base || *base != '/')
        return NULL;
    return snprintf(path, PATH_MAX, "%s/%s", base, tail) < PATH_MAX ? path : NULL;
}

/* With the folders above it. */
static int make_folder(char *path)
{
    for (char *slash = path; (slash = strchr(slash + 1, '/'));) {
        *slash = 0;
        int failed = mkdir(path, 0700) && errno != EEXIST;
        *slash = '/';
        if (failed && access(path, F_OK))
            return -1;
    }
    return mkdir(path, 0700) && errno != EEXIST ? -1 : 0;
}

/* Leaves the folder empty, with a line in the log, where it is not to be used. */
static void find_folder(job *j)
{
    char path[PATH_MAX];
    struct stat info;

    j->folder[0] = 0;
    if (!folder_path(j, path)) {
        mxrt_context_log(j->context,
                         "compiled kernels are not kept: no folder for them; set " FOLDER_ENV);
        return;
    }
    if (make_folder(path) || stat(path, &info)) {
        mxrt_context_log(j->context, "compiled kernels are not kept: %s: %s", path,
                         strerror(errno));
        return;
    }
    if (!S_ISDIR(info.st_mode) || info.st_uid != geteuid() ||
        (info.st_mode & (S_IWGRP | S_IWOTH))) {
        mxrt_context_log(
            j->context,
            "compiled kernels are not kept: %s is not a folder that this user alone can write",
            path);
        return;
    }
    strcpy(j->folder, path);
}

static int file_path(const job *j, const char *ending, char path[PATH_MAX])
{
    return snprintf(path, PATH_MAX, "%s/%s%s", j->folder, j->name, ending) < PATH_MAX ? 0 : -1;
}

/* ---- Running mxgen ---- */

static mx_status run_mxgen(const job *j, const char *output, mx_error *err)
{
    const mxrt_compile_names *names = &j->names;
    const char *argv[20] = {j->program, "build",     "--target", j->request->target,
                            "--op",     names->op,   "--format", names->format,
                            "--dtype",  names->dtype};
    const char *const rest[] = {"--max-rank", MAX_RANK, "-o", output};
    size_t n = 10;
    if (*names->profile) {
        argv[n++] = "--profile";
        argv[n++] = names->profile;
    }
    memcpy(argv + n, rest, sizeof(rest));
    mxrt_context_log(j->context, "no pack has %s %s %s%s%s%s for %s: %s compiles it", names->op,
                     names->format, names->dtype, *names->profile ? " (" : "", names->profile,
                     *names->profile ? ")" : "", j->request->target, j->program);
    return mxrt_child_run(argv, j->limit_seconds, err);
}

/* Packs that were kept. Damage is a miss. */
static int open_kept(const job *j, const char *path, mxrt_pack **out)
{
    mx_error reason = {MX_OK, ""};
    mx_status status = mxrt_compile_open(path, j->request, out, &reason);

    if (!status)
        return 1;
    if (status != MX_ERR_NOT_FOUND || !access(path, F_OK))
        mxrt_context_log(j->context, "made again: %s", reason.message);
    return 0;
}

/* ---- One process at a time ---- */

static struct timespec coarse_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now); /* that of file times */
    return now;
}

/* Another process held the lock and failed while we waited: its message, 1; else 0. */
static int read_failure(int fd, struct timespec since, char *text, size_t text_bytes)
{
    struct stat info;

    if (fstat(fd, &info) || info.st_size == 0 || info.st_mtim.tv_sec < since.tv_sec ||
        (info.st_mtim.tv_sec == since.tv_sec && info.st_mtim.tv_nsec < since.tv_nsec))
        return 0;
    ssize_t n = pread(fd, text, text_bytes - 1, 0);
    text[n > 0 ? n : 0] = 0;
    return n > 0;
}

/* Waits at most as long as a compilation may take, and a little. *waited: somebody else had it. */
static mx_status take_lock(const job *j, int fd, const char *path, int *waited, mx_error *err)
{
    const struct timespec pause = {0, 10000000};
    struct timespec begin, now;

    *waited = 0;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    while (flock(fd, LOCK_EX | LOCK_NB)) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return mx_fail(err, MX_ERR_IO, "%s: %s", path, strerror(errno));
        *waited = 1;
        clock_gettime(CLOCK_MONOTONIC, &now);
        if ((double)(now.tv_sec - begin.tv_sec) > j->limit_seconds + 2)
            return mx_fail(err, MX_ERR_UNSUPPORTED,
                           "another process compiles it and has not finished in %g s (%s)",
                           j->limit_seconds, path);
        nanosleep(&pause, NULL);
    }
    return MX_OK;
}

static mx_status compile_locked(const job *j, int fd, const char *lock_path, const char *path,
                                mxrt_pack **out, mx_error *err)
{
    struct timespec since = coarse_now();
    mx_error reason = {MX_OK, ""};
    char text[sizeof(reason.message)];
    int waited;
    mx_status status = take_lock(j, fd, lock_path, &waited, err);

    if (status)
        return status;
    if (open_kept(j, path, out))
        return MX_OK;
    if (waited && read_failure(fd, since, text, sizeof(text)))
        return mx_fail(err, MX_ERR_UNSUPPORTED, "%s", text);
    status = run_mxgen(j, path, &reason);
    if (!status)
        status = mxrt_compile_open(path, j->request, out, &reason);
    /* For those who wait. If it cannot be written, they try for themselves. */
    if (ftruncate(fd, 0) || (status && pwrite(fd, reason.message, strlen(reason.message), 0) < 0))
        mxrt_context_log(j->context, "%s: %s", lock_path, strerror(errno));
    return status ? mx_fail(err, status, "%s", reason.message) : MX_OK;
}

/* ---- For this process alone ---- */

static void remove_folder(const char *folder)
{
    DIR *handle = opendir(folder);
    const struct dirent *entry;

    while (handle && (entry = readdir(handle)))
        unlinkat(dirfd(handle), entry->d_name, 0);
    if (handle)
        closedir(handle);
    rmdir(folder);
}

static mx_status open_copy(const char *path, const mxrt_compile_request *request, mxrt_pack **out,
                           mx_error *err)
{
    mxrt_pack *whole;
    struct stat info;
    mx_status status = mxrt_compile_open(path, request, &whole, err);

    if (status)
        return status;
    mxrt_pack_close(whole);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    void *data = fd >= 0 && !fstat(fd, &info) ? malloc((size_t)info.st_size + 1) : NULL;
    if (data && read(fd, data, (size_t)info.st_size) == info.st_size)
        status = mxrt_pack_open_memory(data, (size_t)info.st_size, out, err);
    else
        status = mx_fail(err, MX_ERR_IO, "%s: cannot read it", path);
    free(data);
    if (fd >= 0)
        close(fd);
    return status;
}

static mx_status compile_unkept(const job *j, mxrt_pack **out, mx_error *err)
{
    char folder[PATH_MAX], path[PATH_MAX + 16];
    const char *base = secure_getenv("TMPDIR");

    if (!base || *base != '/' ||
        snprintf(folder, sizeof(folder), "%s/mxrt-XXXXXX", base) >= PATH_MAX)
        strcpy(folder, "/tmp/mxrt-XXXXXX");
    if (!mkdtemp(folder))
        return mx_fail(err, MX_ERR_IO, "cannot make a folder like %.300s: %s; set TMPDIR", folder,
                       strerror(errno));
    snprintf(path, sizeof(path), "%s/kernels.mxdb", folder);
    mx_status status = run_mxgen(j, path, err);
    if (!status)
        status = open_copy(path, j->request, out, err);
    remove_folder(folder);
    return status;
}

/* ---- All of it ---- */

static mx_status compile_kept(const job *j, mxrt_pack **out, mx_error *err)
{
    char path[PATH_MAX], lock_path[PATH_MAX];

    if (file_path(j, ".mxdb", path) || file_path(j, ".lock", lock_path))
        return compile_unkept(j, out, err);
    if (open_kept(j, path, out))
        return MX_OK;
    int fd = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        mxrt_context_log(j->context, "compiled kernels are not kept: %s: %s", lock_path,
                         strerror(errno));
        return compile_unkept(j, out, err);
    }
    mx_status status = compile_locked(j, fd, lock_path, path, out, err);
    /* Said in words: a process forked meanwhile shares the open file. */
    flock(fd, LOCK_UN);
    close(fd);
    return status;
}

mx_status mxrt_compile_by_mxgen(const mxrt_context *context, const mxrt_compile_request *request,
                                mxrt_pack **out, mx_error *err)
{
    job *j = calloc(1, sizeof(*j));
    mx_status status;

    if (!j)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory to compile");
    j->context = context;
    j->request = request;
    mxrt_compile_names_init(request, &j->names);
    if (!(status = find_program(j, err)) && !(status = find_limit(j, err)) &&
        !(status = make_name(j, err))) {
        find_folder(j);
        status = j->folder[0] ? compile_kept(j, out, err) : compile_unkept(j, out, err);
    }
    free(j);
    return status;
}
