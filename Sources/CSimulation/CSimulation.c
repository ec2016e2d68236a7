#include "CSimulation.h"

#include <pthread.h>
#include <stddef.h>

// Swift's calling convention; the hooks are declared in the runtime's ConcurrencyHooks.def.
#define SWIFT_CC __attribute__((swiftcall))

typedef SWIFT_CC void (*enqueue)(void *job);
typedef SWIFT_CC void (*enqueue_with_delay)(unsigned long long delay, void *job);
typedef SWIFT_CC void (*enqueue_with_deadline)(long long, long long, long long, long long, int, void *job);

extern SWIFT_CC void (*swift_task_enqueueGlobal_hook)(void *job, enqueue original);
extern SWIFT_CC void (*swift_task_enqueueGlobalWithDelay_hook)(unsigned long long, void *job, enqueue_with_delay original);
extern SWIFT_CC void (*swift_task_enqueueGlobalWithDeadline_hook)(
    long long, long long, long long, long long, int, void *job, enqueue_with_deadline original);
extern SWIFT_CC void (*swift_task_enqueueMainExecutor_hook)(void *job, enqueue original);

static _Thread_local csimulation_catcher catcher;
static _Thread_local void *catcher_context;

static SWIFT_CC void caught(void *job, enqueue original) {
    if (catcher) catcher(catcher_context, job, 0); else original(job);
}

static SWIFT_CC void caught_delay(unsigned long long delay, void *job, enqueue_with_delay original) {
    if (catcher) catcher(catcher_context, job, delay); else original(delay, job);
}

static SWIFT_CC void caught_deadline(
    long long seconds, long long nanoseconds, long long leeway_seconds, long long leeway_nanoseconds, int clock, void *job,
    enqueue_with_deadline original
) {
    // A deadline of a real clock has no meaning in virtual time, so the job is due at once.
    if (catcher) catcher(catcher_context, job, 0);
    else original(seconds, nanoseconds, leeway_seconds, leeway_nanoseconds, clock, job);
}

static void install(void) {
    swift_task_enqueueGlobal_hook = caught;
    swift_task_enqueueGlobalWithDelay_hook = caught_delay;
    swift_task_enqueueGlobalWithDeadline_hook = caught_deadline;
    swift_task_enqueueMainExecutor_hook = caught;
}

void csimulation_catch_jobs(csimulation_catcher function, void *context) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    catcher = function;
    catcher_context = context;
    if (function) pthread_once(&once, install);
}
