#define _GNU_SOURCE
#include "SystemCalls.h"

#include <unistd.h>
#if defined(__APPLE__)
#include <sys/random.h>
#endif

_Thread_local const struct csocketio_kernel *csocketio_thread_kernel;

void csocketio_simulate(const struct csocketio_kernel *kernel) {
    csocketio_thread_kernel = kernel;
}

int csocketio_random(void *bytes, size_t count) {
    if (!csocketio_thread_kernel) return getentropy(bytes, count);
    csocketio_thread_kernel->random(csocketio_thread_kernel->context, bytes, count);
    return 0;
}
