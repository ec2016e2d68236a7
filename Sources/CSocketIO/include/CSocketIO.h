// Headers and calls that Swift's Glibc module leaves out. As thin as possible.
#ifndef CSOCKETIO_H
#define CSOCKETIO_H

#include "SystemCalls.h"

// Lets the other thread of this core have it for a moment.
static inline void csocketio_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
    __asm__ volatile("yield");
#endif
}

// The event loop that the calling thread runs now, as a name that nothing is read through; null for none.
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

// Clang does not import a macro that is not a plain literal, and EPOLLET is 1u << 31.
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

// What the kernel counted for a TCP connection (struct tcp_info of linux/tcp.h, which clashes with netinet/tcp.h).
struct csocketio_tcp_counts {
    unsigned int segments_out, segments_in;
    unsigned long long bytes_retransmitted;
    unsigned char has_timestamps;
};
// 0, or -1 where the kernel does not tell.
int csocketio_read_tcp_counts(int descriptor, struct csocketio_tcp_counts *counts);

// How many bytes written to a TCP socket its peer has not acknowledged, FIN included (SIOCOUTQ, tcp(7)); 0 if that is unknown.
int csocketio_unacknowledged(int descriptor);

// accept4, non-blocking and close-on-exec, with the far side's address.
struct sockaddr;
int csocketio_accept(int descriptor, struct sockaddr *address, unsigned int *length);

// recvmmsg: takes up to `count` (at most 16) waiting datagrams, one to each `slot` bytes of `buffer`, and tells their lengths
// and senders (`senders` may be null for a connected socket). A datagram longer than its slot gets the length 0. Returns how
// many there were, or -1 with errno.
struct sockaddr_storage;
int csocketio_receive_many(int descriptor, void *buffer, size_t slot, unsigned int count, unsigned int *lengths,
                         struct sockaddr_storage *senders, unsigned int *sender_lengths);

// A non-blocking, close-on-exec rtnetlink socket (RFC 3549) that hears of `groups` (RTMGRP_...). -1 with errno.
int csocketio_netlink_open(unsigned int groups);
// Asks for a dump: RTM_GETLINK, RTM_GETADDR or RTM_GETROUTE, of all families. 0, or -1 with errno.
int csocketio_netlink_request(int descriptor, unsigned short type, unsigned int sequence);
// Takes one datagram of the kernel's, others are dropped. Its length; -1 with errno, which is EMSGSIZE for one that is longer
// than the buffer, and ENOBUFS where the kernel had to drop some.
long csocketio_netlink_receive(int descriptor, void *buffer, size_t size);

// sched.h declares these only with _GNU_SOURCE. The mask has one bit a core, in words of unsigned long; the thread is the
// calling one.
int csocketio_get_affinity(unsigned long *mask, size_t bytes);
int csocketio_set_affinity(const unsigned long *mask, size_t bytes);
int csocketio_set_idle_priority(void);
int csocketio_set_first_priority(void);
// As much more of the core than others as nice(2) gives.
int csocketio_set_favoured(void);

// The environment of this process (environ(7)), which Swift sees as shared mutable state.
char **csocketio_environment(void);

// How many bytes of the heap are in use, in all arenas together (glibc's mallinfo2); -1 where the C library does not tell.
long csocketio_heap_in_use(void);
#endif

#endif
