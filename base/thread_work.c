#include "base/thread_work.h"

#include "base/macros.h"

/* Per thread on purpose: who works need not know who counts. */
static _Thread_local kiln_thread_work here;

kiln_thread_work *kiln_thread_work_here(void) { return &here; }

kiln_thread_work kiln_thread_work_since(const kiln_thread_work *before) {
    return (kiln_thread_work){.hashed_bytes = here.hashed_bytes - before->hashed_bytes,
                              .compressed_bytes = here.compressed_bytes - before->compressed_bytes,
                              .rows = here.rows - before->rows,
                              .processes = here.processes - before->processes};
}

void kiln_thread_work_max(kiln_thread_work *most, const kiln_thread_work *work) {
    most->hashed_bytes = KILN_MAX(most->hashed_bytes, work->hashed_bytes);
    most->compressed_bytes = KILN_MAX(most->compressed_bytes, work->compressed_bytes);
    most->rows = KILN_MAX(most->rows, work->rows);
    most->processes = KILN_MAX(most->processes, work->processes);
}

void kiln_thread_walks(uint64_t rows) { here.rows += rows; }
