// The hooks of the Swift runtime that a simulation needs.
#ifndef CSIMULATION_H
#define CSIMULATION_H

// Receives a job that the runtime would have given to its global or its main executor. It is due after `delay`
// nanoseconds.
typedef void (*csimulation_catcher)(void *context, void *job, unsigned long long delay);

// Passes such jobs of the calling thread to `catcher` from now on; null ends that. Jobs of other threads are not
// affected.
void csimulation_catch_jobs(csimulation_catcher catcher, void *context);

#endif
