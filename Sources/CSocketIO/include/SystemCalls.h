// The system calls that the libraries make for sockets, the clock and random numbers. A call with a descriptor of a
// simulated kernel goes to that kernel. A call that opens a descriptor, reads the clock or draws random bytes goes to
// the simulated kernel of the calling thread, if it has one. All others go to libc.
#ifndef CSOCKETIO_SYSTEM_CALLS_H
#define CSOCKETIO_SYSTEM_CALLS_H

#include <errno.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

// Descriptors of a simulated kernel start here, above the descriptors of any real system.
#define CSOCKETIO_SIMULATED 0x1000000

// A simulated kernel. Each function takes `context` first and returns the result of the system call, or -errno.
struct csocketio_kernel {
    void *context;
    int (*open)(void *context, int family, int type);
    int (*close)(void *context, int descriptor);
    int (*bind)(void *context, int descriptor, const struct sockaddr *address, socklen_t length);
    int (*connect)(void *context, int descriptor, const struct sockaddr *address, socklen_t length);
    int (*listen)(void *context, int descriptor, int backlog);
    int (*accept)(void *context, int descriptor, struct sockaddr *address, socklen_t *length);
    int (*local)(void *context, int descriptor, struct sockaddr *address, socklen_t *length);
    int (*peer)(void *context, int descriptor, struct sockaddr *address, socklen_t *length);
    ssize_t (*receive)(void *context, int descriptor, void *buffer, size_t size, struct sockaddr *sender, socklen_t *length);
    ssize_t (*send)(void *context, int descriptor, const void *bytes, size_t count, const struct sockaddr *to, socklen_t length);
    int (*shutdown)(void *context, int descriptor, int how);
    int (*get_option)(void *context, int descriptor, int level, int name, void *value, socklen_t *length);
    int (*set_option)(void *context, int descriptor, int level, int name, const void *value, socklen_t length);
    // The number of sent bytes that have not arrived, plus one for an end that has not arrived.
    int (*unacknowledged)(void *context, int descriptor);
    long long (*now)(void *context);
    void (*random)(void *context, void *bytes, size_t count);
};

// The simulated kernel of the calling thread; null for almost every thread.
extern _Thread_local const struct csocketio_kernel *csocketio_thread_kernel;
// Sets the simulated kernel of the calling thread; null removes it.
void csocketio_simulate(const struct csocketio_kernel *kernel);

static inline int csocketio_is_simulated(int descriptor) {
    return __builtin_expect(descriptor >= CSOCKETIO_SIMULATED, 0);
}

// Converts a simulated kernel's answer into the result of libc, with errno.
static inline ssize_t csocketio_result(ssize_t answer) {
    if (answer >= 0) return answer;
    errno = (int)-answer;
    return -1;
}

// Calls `function` of the simulated kernel. A descriptor that outlives its kernel is invalid (EBADF).
#define CSOCKETIO_CALL(function, ...) \
    csocketio_result(csocketio_thread_kernel \
        ? csocketio_thread_kernel->function(csocketio_thread_kernel->context, __VA_ARGS__) : -EBADF)

static inline int csocketio_socket(int family, int type, int protocol) {
    if (__builtin_expect(csocketio_thread_kernel != NULL, 0)) return (int)CSOCKETIO_CALL(open, family, type);
    return socket(family, type, protocol);
}

static inline int csocketio_close(int descriptor) {
    if (csocketio_is_simulated(descriptor)) return (int)CSOCKETIO_CALL(close, descriptor);
    return close(descriptor);
}

static inline int csocketio_bind(int descriptor, const struct sockaddr *address, socklen_t length) {
    if (csocketio_is_simulated(descriptor)) return (int)CSOCKETIO_CALL(bind, descriptor, address, length);
    return bind(descriptor, address, length);
}

static inline int csocketio_connect(int descriptor, const struct sockaddr *address, socklen_t length) {
    if (csocketio_is_simulated(descriptor)) return (int)CSOCKETIO_CALL(connect, descriptor, address, length);
    return connect(descriptor, address, length);
}

static inline int csocketio_listen(int descriptor, int backlog) {
    if (csocketio_is_simulated(descriptor)) return (int)CSOCKETIO_CALL(listen, descriptor, backlog);
    return listen(descriptor, backlog);
}

static inline int csocketio_getsockname(int descriptor, struct sockaddr *address, socklen_t *length) {
    if (csocketio_is_simulated(descriptor)) return (int)CSOCKETIO_CALL(local, descriptor, address, length);
    return getsockname(descriptor, address, length);
}

static inline int csocketio_getpeername(int descriptor, struct sockaddr *address, socklen_t *length) {
    if (csocketio_is_simulated(descriptor)) return (int)CSOCKETIO_CALL(peer, descriptor, address, length);
    return getpeername(descriptor, address, length);
}

static inline ssize_t csocketio_recv(int descriptor, void *buffer, size_t size) {
    if (csocketio_is_simulated(descriptor)) return CSOCKETIO_CALL(receive, descriptor, buffer, size, NULL, NULL);
    return recv(descriptor, buffer, size, 0);
}

static inline ssize_t csocketio_recvfrom(int descriptor, void *buffer, size_t size, struct sockaddr *sender, socklen_t *length) {
    if (csocketio_is_simulated(descriptor)) return CSOCKETIO_CALL(receive, descriptor, buffer, size, sender, length);
    return recvfrom(descriptor, buffer, size, 0, sender, length);
}

static inline ssize_t csocketio_send(int descriptor, const void *bytes, size_t count, int flags) {
    if (csocketio_is_simulated(descriptor)) return CSOCKETIO_CALL(send, descriptor, bytes, count, NULL, 0);
    return send(descriptor, bytes, count, flags);
}

static inline ssize_t csocketio_sendto(
    int descriptor, const void *bytes, size_t count, int flags, const struct sockaddr *to, socklen_t length
) {
    if (csocketio_is_simulated(descriptor)) return CSOCKETIO_CALL(send, descriptor, bytes, count, to, length);
    return sendto(descriptor, bytes, count, flags, to, length);
}

static inline int csocketio_shutdown(int descriptor, int how) {
    if (csocketio_is_simulated(descriptor)) return (int)CSOCKETIO_CALL(shutdown, descriptor, how);
    return shutdown(descriptor, how);
}

static inline int csocketio_getsockopt(int descriptor, int level, int name, void *value, socklen_t *length) {
    if (csocketio_is_simulated(descriptor)) return (int)CSOCKETIO_CALL(get_option, descriptor, level, name, value, length);
    return getsockopt(descriptor, level, name, value, length);
}

static inline int csocketio_setsockopt(int descriptor, int level, int name, const void *value, socklen_t length) {
    if (csocketio_is_simulated(descriptor)) return (int)CSOCKETIO_CALL(set_option, descriptor, level, name, value, length);
    return setsockopt(descriptor, level, name, value, length);
}

// The clock of timers and time limits. It never goes back, and it also runs while the machine is suspended. On Linux that is
// CLOCK_BOOTTIME, on macOS CLOCK_MONOTONIC.
#ifdef __linux__
#define CSOCKETIO_CLOCK CLOCK_BOOTTIME
#else
#define CSOCKETIO_CLOCK CLOCK_MONOTONIC
#endif

// Nanoseconds of CSOCKETIO_CLOCK.
static inline long long csocketio_now(void) {
    if (__builtin_expect(csocketio_thread_kernel != NULL, 0)) {
        return csocketio_thread_kernel->now(csocketio_thread_kernel->context);
    }
    struct timespec time;
    clock_gettime(CSOCKETIO_CLOCK, &time);
    return (long long)time.tv_sec * 1000000000 + time.tv_nsec;
}

// getentropy(3): draws at most 256 bytes. Returns 0, or -1 with errno.
int csocketio_random(void *bytes, size_t count);

#endif
