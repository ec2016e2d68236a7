// Headers and calls that Swift's Glibc module leaves out.
#ifndef CSOCKETIO_H
#define CSOCKETIO_H

#include "OpenSSL.h"
#include "SystemCalls.h"

// Yields the core to its other hardware thread for a moment.
static inline void csocketio_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
    __asm__ volatile("yield");
#endif
}

// The event loop that the calling thread runs now; null for none. The pointer is an identity and is never dereferenced.
extern _Thread_local void *csocketio_current_loop_of_thread;
static inline void *csocketio_current_loop(void) {
    return csocketio_current_loop_of_thread;
}
static inline void csocketio_set_current_loop(void *loop) {
    csocketio_current_loop_of_thread = loop;
}

#if defined(__linux__)
#include <linux/rtnetlink.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>

// Swift does not import a macro that is not a plain literal, and EPOLLET is 1u << 31.
static const unsigned int CSOCKETIO_EPOLLIN = EPOLLIN;
static const unsigned int CSOCKETIO_EPOLLOUT = EPOLLOUT;
static const unsigned int CSOCKETIO_EPOLLRDHUP = EPOLLRDHUP;
static const unsigned int CSOCKETIO_EPOLLERR = EPOLLERR;
static const unsigned int CSOCKETIO_EPOLLHUP = EPOLLHUP;
static const unsigned int CSOCKETIO_EPOLLET = EPOLLET;

// Names the calling thread, for debuggers and top.
static inline void csocketio_name_thread(const char *name) {
    prctl(PR_SET_NAME, name);
}

// The kernel's counts of a TCP connection (struct tcp_info of linux/tcp.h, which conflicts with netinet/tcp.h).
struct csocketio_tcp_counts {
    unsigned int segments_out, segments_in;
    unsigned long long bytes_retransmitted;
    unsigned char has_timestamps;
};
// Returns 0, or -1 if the kernel does not have these counts.
int csocketio_read_tcp_counts(int descriptor, struct csocketio_tcp_counts *counts);

// The number of written bytes that the peer of a TCP socket has not acknowledged, FIN included (SIOCOUTQ, tcp(7)); 0 if
// unknown.
int csocketio_unacknowledged(int descriptor);

// Gives new TCP sockets of this process a congestion control in place of the system's (TCP_CONGESTION, tcp(7)), at most 15
// characters. Call it before any other thread starts.
void csocketio_set_congestion_control(const char *name);
// Applies it to a TCP socket, if it was set. A system that does not have it keeps its own.
void csocketio_apply_congestion_control(int descriptor);
// Stores the congestion control that a new TCP socket has, at most 15 characters and a 0. Returns 0, or -1 with errno.
int csocketio_congestion_control(char *name);

// accept4, non-blocking and close-on-exec. Stores the peer's address.
struct sockaddr;
int csocketio_accept(int descriptor, struct sockaddr *address, unsigned int *length);

// recvmmsg: receives up to `count` (at most 16) waiting datagrams, one into each `slot` bytes of `buffer`, and stores
// their lengths and senders (`senders` may be null for a connected socket). A datagram longer than its slot gets the
// length 0. Returns the number of datagrams, or -1 with errno.
struct sockaddr_storage;
int csocketio_receive_many(int descriptor, void *buffer, size_t slot, unsigned int count, unsigned int *lengths,
                         struct sockaddr_storage *senders, unsigned int *sender_lengths);

// Opens a non-blocking, close-on-exec rtnetlink socket (RFC 3549) that receives the events of `groups` (RTMGRP_...).
// Returns its descriptor, or -1 with errno.
int csocketio_netlink_open(unsigned int groups);
// Requests a dump (RTM_GETLINK, RTM_GETADDR or RTM_GETROUTE) of all families. Returns 0, or -1 with errno.
int csocketio_netlink_request(int descriptor, unsigned short type, unsigned int sequence);
// Receives one datagram from the kernel and drops those from other senders. Returns its length, or -1 with errno.
// EMSGSIZE means that it is longer than the buffer, ENOBUFS that the kernel had to drop some.
long csocketio_netlink_receive(int descriptor, void *buffer, size_t size);

// sched.h declares these only with _GNU_SOURCE. They apply to the calling thread. The mask has one bit per core, in
// words of unsigned long.
int csocketio_get_affinity(unsigned long *mask, size_t bytes);
int csocketio_set_affinity(const unsigned long *mask, size_t bytes);
int csocketio_set_idle_priority(void);
int csocketio_set_first_priority(void);
// Gives the calling thread the largest share of its core that nice(2) can give.
int csocketio_set_favoured(void);

// The environment of this process (environ(7)), which Swift sees as shared mutable state.
char **csocketio_environment(void);

// The number of bytes in use on the heap, in all arenas together (glibc's mallinfo2); -1 if the C library has no such
// count.
long csocketio_heap_in_use(void);
#endif

#endif
