#include "base/thread_work.h"

/* Per thread on purpose: who works need not know who counts. */
static _Thread_local kiln_thread_work here;

kiln_thread_work *kiln_thread_work_here(void) { return &here; }

void kiln_thread_walks(uint64_t rows) { here.rows += rows; }
