// What the comparisons need from C: floors, a count of allocations, and libmosquitto.
#ifndef CBENCH_H
#define CBENCH_H

#include <stddef.h>
#include <stdint.h>

// MARK: Floors. What one would write in C for nothing but this: two threads, each with an epoll of its own, edge-triggered
// and registered once. The near side is the calling thread, the far one stays on the core `far_core`, if that is not negative.
// All return -1, or NULL, with errno.

// Ping-pong over loopback: `there` bytes one way, and the last `back` of them the other (at most `there`).
typedef struct cbench_echo cbench_echo;
cbench_echo *cbench_echo_open(int is_datagram, size_t there, size_t back, int far_core);
// Goes on until `end` (ns of CLOCK_MONOTONIC), or until there is no room in `times`; writes what each round trip took, in ns.
// Returns how many there were. EBADMSG if an answer differed.
long cbench_echo_run(cbench_echo *echo, int64_t end, int64_t *times, size_t capacity);
void cbench_echo_close(cbench_echo *echo);

// One way over loopback TCP: messages of `size` bytes (8 at least), each behind its length in 4 bytes, written in batches of
// `batch` bytes and read in blocks as large. With `owns_buffers`, the receiver copies each message into a buffer of its own and
// hands it to a callback, which compares and frees it; otherwise messages are compared where they were read.
typedef struct cbench_flood cbench_flood;
cbench_flood *cbench_flood_open(size_t size, size_t batch, int owns_buffers, int far_core);
// Sends `count` messages, each with its number, and returns the ns until the far side had them all and had compared each byte.
int64_t cbench_flood_run(cbench_flood *flood, int64_t count);
void cbench_flood_close(cbench_flood *flood);

// MARK: Allocations. How often the calling thread has asked for memory: this executable's malloc and its relatives stand in
// front of the C library's.
uint64_t cbench_allocations(void);

// MARK: libmosquitto, found at run time. One client that publishes to a topic and has subscribed to it.
typedef struct cbench_mosquitto cbench_mosquitto;
// Whether the library is there.
int cbench_mosquitto_is_there(void);
// Connects to a broker at 127.0.0.1 and subscribes; NULL with errno.
cbench_mosquitto *cbench_mosquitto_open(int port, const char *topic, int qos, int in_flight);
// Publishes `count` numbered messages of `size` bytes (8 at least) and takes each back, with no more than `window` under way.
// Returns the ns it took; -1 with errno, EBADMSG for a message lost, doubled, out of order or changed.
int64_t cbench_mosquitto_run(cbench_mosquitto *client, int64_t count, int window, size_t size);
void cbench_mosquitto_close(cbench_mosquitto *client);

// MARK: libwebsockets. Built where its headers are, found at run time. A client and a server that sends back what it gets, each
// on a thread and a context of its own, with the library's own loop and without extensions.
typedef struct cbench_websocket_echo cbench_websocket_echo;
// Whether the library is there, and its headers were.
int cbench_websocket_is_there(void);
// Connects the two for messages of `size` bytes (8 at least); NULL with errno.
cbench_websocket_echo *cbench_websocket_open(size_t size, int far_core);
// As cbench_echo_run.
long cbench_websocket_run(cbench_websocket_echo *echo, int64_t end, int64_t *times, size_t capacity);
void cbench_websocket_close(cbench_websocket_echo *echo);

#endif
