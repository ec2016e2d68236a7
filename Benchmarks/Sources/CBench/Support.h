// Functions that the floors share.
#ifndef CBENCH_SUPPORT_H
#define CBENCH_SUPPORT_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "CBench.h"
#include <pthread.h>
#include <time.h>

struct side {
    int socket, epoll;
};

// Connects two sockets with each other over 127.0.0.1: non-blocking, TCP without Nagle's delay, each in its own epoll.
int cbench_connect_pair(int is_datagram, struct side *near, struct side *far);
void cbench_close_side(struct side *side);
// Waits for an edge. Returns 0, or -1 with errno.
int cbench_wait(const struct side *side);
// Send or receive exactly `size` bytes, and wait if they must. Receiving waits first, because an edge is sure to come.
// They return 0, 1 at the end of the stream, or -1 with errno.
int cbench_send_all(const struct side *side, const void *bytes, size_t size);
int cbench_receive_all(const struct side *side, void *bytes, size_t size);
// Starts a thread, pinned to `core` unless that is negative. Returns an error number, or 0.
int cbench_start_thread(pthread_t *thread, int core, void *(*body)(void *), void *argument);
// Fills a message with bytes that differ from each other.
void cbench_fill(unsigned char *message, size_t size);

static inline int64_t cbench_now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

#endif
