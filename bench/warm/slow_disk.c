// A disk that answers late, for `cargo xtask bench warm`: preloaded into a server, it has every read of a page or more
// wait as long as SLOW_DISK_US says (microseconds), at most SLOW_DISK_DEPTH of them at once, as a volume in a cloud
// does. Smaller reads, and writes, are as fast as they were: relay logs are read with read(2), pages with pread(2).
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
    if (!is_exact) { // By default a thread wakes up to 50 microseconds late.
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
