// Records the output of a program: preloaded into bintide, this library copies its standard error, the start of its
// standard output, the text files that it writes, and its answers to clients, to files of a directory.
//
//   OUTPUT_RECORDER_DIRECTORY  the directory: PROCESS.command with the name of the command, .errors, .output, .files
//                              and .answers
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

// Bytes of each kind that are recorded of one process.
struct stream {
    const char *name;
    long size_max;
    atomic_long size;
};
static struct stream errors = {"errors", 1 << 20, 0}, output = {"output", 1 << 16, 0};
static struct stream files = {"files", 1 << 19, 0}, answers = {"answers", 1 << 22, 0};

static const char *directory;
static int is_mysqlbinlog;
// One bit for each port on which a client was accepted.
static atomic_uchar accepted[8192];

static void record(struct stream *stream, const char *bytes, size_t size) {
    char path[PATH_MAX];
    if (atomic_fetch_add(&stream->size, size) > stream->size_max)
        return;
    snprintf(path, sizeof path, "%s/%d.%s", directory, getpid(), stream->name);
    int file = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (file < 0)
        return;
    syscall(SYS_write, file, bytes, size);
    syscall(SYS_close, file);
}

// Records the first argument that is not an option.
static void record_command(void) {
    static struct stream commands = {"command", 1 << 10, 0};
    char arguments[4096];
    int file = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t size = file < 0 ? 0 : syscall(SYS_read, file, arguments, sizeof arguments - 1);
    syscall(SYS_close, file);
    arguments[size < 0 ? 0 : size] = 0;
    for (const char *at = arguments + strlen(arguments) + 1; at < arguments + size; at += strlen(at) + 1)
        if (*at != '-') {
            record(&commands, at, strlen(at));
            return;
        }
}

__attribute__((constructor)) static void begin(void) {
    is_mysqlbinlog = strcmp(program_invocation_short_name, "mysqlbinlog") == 0;
    // Ignore the programs that bintide starts.
    if (is_mysqlbinlog || strcmp(program_invocation_short_name, "bintide") == 0)
        directory = getenv("OUTPUT_RECORDER_DIRECTORY");
    if (directory && !is_mysqlbinlog)
        record_command();
}

static int is_text(const char *bytes, size_t size) {
    for (size_t at = 0; at < size && at < 256; at++)
        if ((unsigned char)bytes[at] < 32 && !strchr("\t\n\r\33", bytes[at]))
            return 0;
    return 1;
}

static unsigned port_of(int file) {
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    if (getsockname(file, (struct sockaddr *)&address, &size) < 0)
        return 0;
    if (address.ss_family == AF_INET)
        return ntohs(((struct sockaddr_in *)&address)->sin_port);
    return address.ss_family == AF_INET6 ? ntohs(((struct sockaddr_in6 *)&address)->sin6_port) : 0;
}

// Records the readable parts of an answer: of HTTP, or of MySQL's protocol. Events, which begin with an OK byte, are
// left out.
static void record_answer(int file, const char *bytes, size_t size) {
    unsigned port = port_of(file);
    if (size < 5 || !(atomic_load(&accepted[port / 8]) & (1 << port % 8)) || (bytes[4] == 0 && size > 200))
        return;
    if (is_text(bytes, size)) {
        record(&answers, bytes, size);
        return;
    }
    for (size_t start = 0, at = 0; at <= size; at++)
        if (at == size || (unsigned char)bytes[at] < 32 || (unsigned char)bytes[at] > 254) {
            if (at - start > 5) {
                record(&answers, bytes + start, at - start);
                record(&answers, "\n", 1);
            }
            start = at + 1;
        }
}

static void record_write(int file, const void *bytes, size_t size) {
    int error = errno;
    struct stat found;
    if (!directory || size == 0)
        return;
    if (file == 2)
        record(&errors, bytes, size);
    else if (file == 1 && !is_mysqlbinlog)
        record(&output, bytes, size);
    else if (file > 2 && fstat(file, &found) == 0) {
        if (S_ISSOCK(found.st_mode))
            record_answer(file, bytes, size);
        else if (S_ISREG(found.st_mode) && is_text(bytes, size))
            record(&files, bytes, size);
    }
    errno = error;
}

#define NEXT(type, name) \
    static type next; \
    if (!next) \
        next = (type)dlsym(RTLD_NEXT, name)

typedef ssize_t (*Write)(int, const void *, size_t);
ssize_t write(int file, const void *bytes, size_t size) {
    NEXT(Write, "write");
    ssize_t written = next(file, bytes, size);
    record_write(file, bytes, written < 0 ? 0 : (size_t)written);
    return written;
}

typedef ssize_t (*WriteV)(int, const struct iovec *, int);
ssize_t writev(int file, const struct iovec *parts, int count) {
    NEXT(WriteV, "writev");
    ssize_t written = next(file, parts, count);
    ssize_t rest = written < 0 ? 0 : written;
    for (int part = 0; part < count && rest > 0; part++) {
        size_t size = (size_t)rest < parts[part].iov_len ? (size_t)rest : parts[part].iov_len;
        record_write(file, parts[part].iov_base, size);
        rest -= (ssize_t)size;
    }
    return written;
}

typedef ssize_t (*Send)(int, const void *, size_t, int);
ssize_t send(int file, const void *bytes, size_t size, int flags) {
    NEXT(Send, "send");
    ssize_t sent = next(file, bytes, size, flags);
    record_write(file, bytes, sent < 0 ? 0 : (size_t)sent);
    return sent;
}

typedef int (*Accept4)(int, struct sockaddr *, socklen_t *, int);
int accept4(int file, struct sockaddr *address, socklen_t *size, int flags) {
    NEXT(Accept4, "accept4");
    int client = next(file, address, size, flags);
    int error = errno;
    unsigned port = client < 0 ? 0 : port_of(client);
    if (port)
        atomic_fetch_or(&accepted[port / 8], 1 << port % 8);
    errno = error;
    return client;
}
