// Makes servers start faster: at its start, a server measures the ticks of times(2), for which it waits some twenty
// times until the next tick, of 10 ms. This library counts each call as a tick. The server uses ticks for nothing else.
#include <stdatomic.h>
#include <sys/times.h>

clock_t times(struct tms *buffer) {
    static atomic_long ticks;
    (void)buffer;
    return atomic_fetch_add(&ticks, 1) + 1;
}
