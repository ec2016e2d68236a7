#include <stdlib.h>

// Swift Testing runs all tests at once by default. On a slow machine, hundreds of handshakes would then delay each other until
// they time out. So at most eight tests run at a time, unless the environment sets another number.
__attribute__((constructor)) static void bound_width(void) {
    setenv("SWT_EXPERIMENTAL_MAXIMUM_PARALLELIZATION_WIDTH", "8", 0);
}
