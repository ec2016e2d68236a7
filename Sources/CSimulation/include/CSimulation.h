// The hooks of the Swift runtime that a simulation needs.
#ifndef CSIMULATION_H
#define CSIMULATION_H

// Gets a job that the runtime would have given to its global or its main executor, and after how many nanoseconds it is due.
typedef void (*csimulation_catcher)(void *context, void *job, unsigned long long delay);

// From now on `catcher` gets such jobs of the calling thread; null ends that. Jobs of other threads take their usual way.
void csimulation_catch_jobs(csimulation_catcher catcher, void *context);

#endif
