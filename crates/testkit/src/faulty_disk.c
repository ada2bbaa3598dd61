// A failing disk for tests: preloaded into a program, this library counts the calls that change files below a
// directory, and makes some of them fail.
//
//   FAULTY_DISK_UNDER  the directory; calls on the directory itself count, too
//   FAULTY_DISK_LOG    a file elsewhere that gets a line for each call: its name and its path
//   FAULTY_DISK_AT     number of the call that fails, from 1; 0 for none
//   FAULTY_DISK_ERROR  errno of the failing call; 0 kills the program there, a write after half of its bytes
//   FAULTY_DISK_LASTS  1: all later calls fail, too
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static const char *under;
static size_t under_size;
static int log_file = -1;
static long fail_at, fail_error, lasts;
static atomic_long calls;

static long number(const char *name) {
    const char *text = getenv(name);
    return text ? atol(text) : 0;
}

__attribute__((constructor)) static void begin(void) {
    const char *log_path = getenv("FAULTY_DISK_LOG");
    under = getenv("FAULTY_DISK_UNDER");
    if (!under || !log_path)
        return;
    under_size = strlen(under);
    fail_at = number("FAULTY_DISK_AT");
    fail_error = number("FAULTY_DISK_ERROR");
    lasts = number("FAULTY_DISK_LASTS");
    log_file = (int)syscall(SYS_openat, AT_FDCWD, log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static int is_under(const char *path) {
    return under && strncmp(path, under, under_size) == 0 && (path[under_size] == 0 || path[under_size] == '/');
}

// Paths must be absolute, as in the tests: relative ones are not resolved.
static int is_path_counted(const char *name, const char *path) {
    if (log_file < 0 || !path || !is_under(path))
        return 0;
    char line[PATH_MAX + 32];
    int size = snprintf(line, sizeof line, "%s %s\n", name, path);
    syscall(SYS_write, log_file, line, size);
    return 1;
}

static int is_file_counted(const char *name, int file) {
    char link[64], path[PATH_MAX];
    if (log_file < 0)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size <= 0)
        return 0;
    path[size] = 0;
    return is_path_counted(name, path);
}

// Counts a call; true if it fails.
static int fails(int is_counted) {
    if (!is_counted)
        return 0;
    long call = atomic_fetch_add(&calls, 1) + 1;
    return call == fail_at || (lasts && fail_at && call > fail_at);
}

static int failed(void) {
    if (fail_error == 0) {
        syscall(SYS_kill, getpid(), SIGKILL);
        for (;;)
            pause();
    }
    errno = (int)fail_error;
    return -1;
}

#define NEXT(type, name) \
    static type next; \
    if (!next) \
        next = (type)dlsym(RTLD_NEXT, name)

typedef int (*Open)(const char *, int, ...);
typedef int (*OpenAt)(int, const char *, int, ...);

static mode_t mode_of(int flags, va_list rest) {
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
}

#define OPEN(symbol) \
    int symbol(const char *path, int flags, ...) { \
        NEXT(Open, #symbol); \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = mode_of(flags, rest); \
        va_end(rest); \
        if ((flags & O_ACCMODE) != O_RDONLY && fails(is_path_counted("open", path))) \
            return failed(); \
        return next(path, flags, mode); \
    }
OPEN(open)
OPEN(open64)

#define OPEN_AT(symbol) \
    int symbol(int directory, const char *path, int flags, ...) { \
        NEXT(OpenAt, #symbol); \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = mode_of(flags, rest); \
        va_end(rest); \
        if ((flags & O_ACCMODE) != O_RDONLY && fails(is_path_counted("open", path))) \
            return failed(); \
        return next(directory, path, flags, mode); \
    }
OPEN_AT(openat)
OPEN_AT(openat64)

typedef ssize_t (*Write)(int, const void *, size_t);
ssize_t write(int file, const void *bytes, size_t size) {
    NEXT(Write, "write");
    if (fails(is_file_counted("write", file))) {
        if (fail_error == 0)
            next(file, bytes, size / 2);
        return failed();
    }
    return next(file, bytes, size);
}

typedef ssize_t (*WriteV)(int, const struct iovec *, int);
ssize_t writev(int file, const struct iovec *parts, int count) {
    NEXT(WriteV, "writev");
    return fails(is_file_counted("writev", file)) ? failed() : next(file, parts, count);
}

typedef ssize_t (*PWrite)(int, const void *, size_t, off64_t);
#define PWRITE(symbol) \
    ssize_t symbol(int file, const void *bytes, size_t size, off64_t offset) { \
        NEXT(PWrite, #symbol); \
        if (fails(is_file_counted("pwrite", file))) { \
            if (fail_error == 0) \
                next(file, bytes, size / 2, offset); \
            return failed(); \
        } \
        return next(file, bytes, size, offset); \
    }
PWRITE(pwrite)
PWRITE(pwrite64)

typedef int (*Sync)(int);
#define SYNC(symbol) \
    int symbol(int file) { \
        NEXT(Sync, #symbol); \
        return fails(is_file_counted(#symbol, file)) ? failed() : next(file); \
    }
SYNC(fsync)
SYNC(fdatasync)

typedef int (*Truncate)(int, off64_t);
#define TRUNCATE(symbol) \
    int symbol(int file, off64_t size) { \
        NEXT(Truncate, #symbol); \
        return fails(is_file_counted("ftruncate", file)) ? failed() : next(file, size); \
    }
TRUNCATE(ftruncate)
TRUNCATE(ftruncate64)

typedef int (*Rename)(const char *, const char *);
int rename(const char *from, const char *to) {
    NEXT(Rename, "rename");
    return fails(is_path_counted("rename", to)) ? failed() : next(from, to);
}

typedef int (*MakeDirectory)(const char *, mode_t);
int mkdir(const char *path, mode_t mode) {
    NEXT(MakeDirectory, "mkdir");
    return fails(is_path_counted("mkdir", path)) ? failed() : next(path, mode);
}

typedef int (*Unlink)(const char *);
int unlink(const char *path) {
    NEXT(Unlink, "unlink");
    return fails(is_path_counted("unlink", path)) ? failed() : next(path);
}
