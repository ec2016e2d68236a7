#include <stdlib.h>

// Swift Testing starts all tests at once unless it is told otherwise. On a slow machine hundreds of handshakes, each with its
// patience, would then wait for each other. So few run at a time, unless whoever starts them says how many.
__attribute__((constructor)) static void bound_width(void) {
    setenv("SWT_EXPERIMENTAL_MAXIMUM_PARALLELIZATION_WIDTH", "8", 0);
}
