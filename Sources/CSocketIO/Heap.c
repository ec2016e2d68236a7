#define _GNU_SOURCE
#include "CSocketIO.h"

#if defined(__linux__)
#include <stdlib.h>
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 33)
#include <malloc.h>
long csocketio_heap_in_use(void) {
    struct mallinfo2 info = mallinfo2();
    return (long)(info.uordblks + info.hblkhd);
}
#else
long csocketio_heap_in_use(void) { return -1; }
#endif
#endif
