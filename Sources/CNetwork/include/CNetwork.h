// The system calls of a network between two namespaces of this process (namespaces(7), veth(4), packet(7)). Linux only.
//
// Each function returns -1 with errno on failure.
#ifndef CNETWORK_H
#define CNETWORK_H

#if defined(__linux__)
#include <stdint.h>

// Moves the calling thread, which must be the only one, into a new network namespace. With `with_user`, it also gets a
// new user namespace, in which its user is root (user_namespaces(7)); this needs no privilege where the system allows it.
int cnetwork_isolate(int with_user);

// Moves the calling thread into a new network namespace, and returns a descriptor of that namespace.
int cnetwork_new_namespace(void);

// Moves the calling thread into the namespace of a descriptor.
int cnetwork_enter(int space);

// Creates two connected interfaces: `outer` in the namespace of the calling thread, `inner` in the namespace `space`.
int cnetwork_add_pair(const char *outer, const char *inner, int space);

// Switches an interface on. It gets the IPv4 address `address` (host byte order) of a network of 24 bits, unless it is 0.
int cnetwork_set_up(const char *name, uint32_t address);

// Switches the offloads of an interface off, so that each packet is as on a wire: whole checksums, and at most one MTU.
int cnetwork_disable_offloads(const char *name);

// Opens a non-blocking socket that receives all packets which arrive at an interface, with their Ethernet headers.
int cnetwork_open_packets(const char *name);

// Returns how many packets the kernel has dropped since the last call, because the socket of cnetwork_open_packets was full.
unsigned int cnetwork_missed_packets(int descriptor);

// Waits until one of three descriptors can be read, or for this time in nanoseconds; without end if it is negative.
int cnetwork_wait(int first, int second, int third, int64_t nanoseconds);

// Lets the timers of the calling thread fire as exactly as the kernel can.
void cnetwork_use_exact_timers(void);
#endif

#endif
