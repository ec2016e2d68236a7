// The C part of the comparisons: floors, a count of allocations, libmosquitto and libwebsockets.
#ifndef CBENCH_H
#define CBENCH_H

#include <stddef.h>
#include <stdint.h>

// MARK: Floors. Plain C for nothing but the measured task: two threads, each with its own epoll, edge-triggered and
// registered once. The near side is the calling thread. The other one is pinned to the core `far_core`, unless that is
// negative. After an error all return -1, or NULL, with errno.

// Ping-pong over loopback: `there` bytes in one direction, and the last `back` of them (at most `there`) in the other.
typedef struct cbench_echo cbench_echo;
cbench_echo *cbench_echo_open(int is_datagram, size_t there, size_t back, int far_core);
// Runs until `end` (ns of CLOCK_MONOTONIC), or until `times` is full. Writes the duration of each round trip in ns to
// `times`. Returns the number of round trips. EBADMSG means that an answer differed.
long cbench_echo_run(cbench_echo *echo, int64_t end, int64_t *times, size_t capacity);
void cbench_echo_close(cbench_echo *echo);

// One direction over loopback TCP: messages of `size` bytes (at least 8), each after its length in 4 bytes. They are
// written in batches of `batch` bytes and read in blocks of the same size. With `owns_buffers`, the receiver copies
// each message into its own buffer and passes it to a callback, which compares and frees it. Otherwise messages are
// compared in the block.
typedef struct cbench_flood cbench_flood;
cbench_flood *cbench_flood_open(size_t size, size_t batch, int owns_buffers, int far_core);
// Sends `count` numbered messages. Returns the ns until the receiver has received all of them and compared each byte.
int64_t cbench_flood_run(cbench_flood *flood, int64_t count);
void cbench_flood_close(cbench_flood *flood);

// MARK: Allocations. The number of allocations of the calling thread. This executable's malloc and its relatives wrap
// those of the C library.
uint64_t cbench_allocations(void);

// MARK: libmosquitto, found at run time. One client publishes to a topic and has subscribed to it.
typedef struct cbench_mosquitto cbench_mosquitto;
// Whether the library is installed.
int cbench_mosquitto_is_there(void);
// Connects to a broker at 127.0.0.1 and subscribes; NULL with errno.
cbench_mosquitto *cbench_mosquitto_open(int port, const char *topic, int qos, int in_flight);
// Publishes `count` numbered messages of `size` bytes (at least 8) and receives each again, with at most `window` in
// flight. Returns the duration in ns, or -1 with errno. EBADMSG means that a message was lost, duplicated, reordered or
// changed.
int64_t cbench_mosquitto_run(cbench_mosquitto *client, int64_t count, int window, size_t size);
void cbench_mosquitto_close(cbench_mosquitto *client);

// MARK: libwebsockets. It is used if its headers are installed, and found at run time. A client and an echo server,
// each with its own thread and context, run the library's own loop without extensions.
typedef struct cbench_websocket_echo cbench_websocket_echo;
// Whether the library is installed, and its headers were at build time.
int cbench_websocket_is_there(void);
// Connects the two for messages of `size` bytes (at least 8). Returns NULL with errno after an error.
cbench_websocket_echo *cbench_websocket_open(size_t size, int far_core);
// Like cbench_echo_run.
long cbench_websocket_run(cbench_websocket_echo *echo, int64_t end, int64_t *times, size_t capacity);
void cbench_websocket_close(cbench_websocket_echo *echo);

#endif
