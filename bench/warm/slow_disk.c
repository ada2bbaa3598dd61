// Slow disk for `cargo xtask bench warm`. Preloaded into a server, this library delays each read of a page or more, as
// a cloud volume does. Other reads and all writes are not delayed: the server reads relay logs with read(2), and pages
// with pread(2).
//
//   SLOW_DISK_US     delay of a read, in microseconds
//   SLOW_DISK_DEPTH  maximum number of delayed reads at once
#define _GNU_SOURCE
#include <dlfcn.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <time.h>

enum { PAGE_SIZE = 16384 };

typedef ssize_t (*Pread)(int, void *, size_t, off64_t);

static Pread next_pread;
static struct timespec latency;
static sem_t slots;
static __thread int is_exact;

static long number(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text ? atol(text) : otherwise;
}

__attribute__((constructor)) static void begin(void) {
    long us = number("SLOW_DISK_US", 0);
    latency.tv_sec = us / 1000000;
    latency.tv_nsec = us % 1000000 * 1000;
    sem_init(&slots, 0, (unsigned)number("SLOW_DISK_DEPTH", 32));
    next_pread = (Pread)dlsym(RTLD_NEXT, "pread64");
}

ssize_t pread64(int file, void *buffer, size_t size, off64_t offset) {
    if (size < PAGE_SIZE || (latency.tv_sec == 0 && latency.tv_nsec == 0))
        return next_pread(file, buffer, size, offset);
    if (!is_exact) { // By default, a thread wakes up to 50 microseconds late: PR_SET_TIMERSLACK in prctl(2).
        prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
        is_exact = 1;
    }
    sem_wait(&slots);
    nanosleep(&latency, NULL);
    ssize_t result = next_pread(file, buffer, size, offset);
    sem_post(&slots);
    return result;
}

ssize_t pread(int file, void *buffer, size_t size, off_t offset) { return pread64(file, buffer, size, offset); }
