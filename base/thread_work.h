/* How much a thread has done of what takes long: bytes hashed, rows and table entries walked. A
 * loop's watchdog (proto/loop.h) and tests compare two readings, so that work which grows with the
 * fleet is found out whatever the speed of the machine. */
#ifndef KILN_BASE_THREAD_WORK_H
#define KILN_BASE_THREAD_WORK_H

#include <stdint.h>

typedef struct kiln_thread_work {
    uint64_t hashed_bytes; /* by SHA-256 */
    uint64_t rows;         /* of databases, folders, tables of boards, leases, ... */
} kiln_thread_work;

/* Of the calling thread, since it started. Add to it where such work is done. */
kiln_thread_work *kiln_thread_work_here(void);
/* So many rows are gone through next. */
void kiln_thread_walks(uint64_t rows);

#endif
