#define _GNU_SOURCE
#include "CSocketIO.h"

#if defined(__linux__)
#include <sched.h>
#include <sys/resource.h>

int csocketio_get_affinity(unsigned long *mask, size_t bytes) {
    return sched_getaffinity(0, bytes, (cpu_set_t *)mask);
}

int csocketio_set_affinity(const unsigned long *mask, size_t bytes) {
    return sched_setaffinity(0, bytes, (const cpu_set_t *)mask);
}

int csocketio_set_idle_priority(void) {
    struct sched_param none = {0};
    return sched_setscheduler(0, SCHED_IDLE, &none);
}

int csocketio_set_first_priority(void) {
    struct sched_param lowest = {.sched_priority = 1};
    return sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &lowest);
}

int csocketio_set_favoured(void) {
    // Threads that this thread starts do not inherit the priority.
    struct sched_param none = {0};
    if (sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK, &none) != 0) return -1;
    return setpriority(PRIO_PROCESS, 0, -20);
}
#endif
