// Headers that Swift's Glibc module leaves out. Nothing here has behaviour of its own.
#ifndef CSYSTEM_H
#define CSYSTEM_H

#if defined(__linux__)
#include <linux/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

// Clang does not import a macro that is not a plain literal, and EPOLLET is 1u << 31.
static const unsigned int CSYSTEM_EPOLLIN = EPOLLIN;
static const unsigned int CSYSTEM_EPOLLOUT = EPOLLOUT;
static const unsigned int CSYSTEM_EPOLLRDHUP = EPOLLRDHUP;
static const unsigned int CSYSTEM_EPOLLERR = EPOLLERR;
static const unsigned int CSYSTEM_EPOLLHUP = EPOLLHUP;
static const unsigned int CSYSTEM_EPOLLET = EPOLLET;

// sched.h declares these only with _GNU_SOURCE. The mask has one bit a core, in words of unsigned long; the thread is the
// calling one.
#include <stddef.h>
int csystem_get_affinity(unsigned long *mask, size_t bytes);
int csystem_set_affinity(const unsigned long *mask, size_t bytes);
int csystem_set_idle_priority(void);
#endif

#endif
