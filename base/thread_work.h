/* How much a thread has done of what takes long: bytes hashed and compressed, rows and table
 * entries walked, processes started. A loop's watchdog (proto/loop.h) and tests compare two
 * readings, so that work which grows with the fleet is found out whatever the speed of the machine.
 */
#ifndef KILN_BASE_THREAD_WORK_H
#define KILN_BASE_THREAD_WORK_H

#include <stdint.h>

typedef struct kiln_thread_work {
    uint64_t hashed_bytes;     /* by SHA-256 */
    uint64_t compressed_bytes; /* bytes that were compressed */
    uint64_t rows;             /* of databases, folders, tables of boards, leases, ... */
    uint64_t processes;        /* started: the thread waits until the new program runs */
} kiln_thread_work;

/* Of the calling thread, since it started. Add to it where such work is done. */
kiln_thread_work *kiln_thread_work_here(void);
/* What the calling thread did since that reading. */
kiln_thread_work kiln_thread_work_since(const kiln_thread_work *before);
/* Each counter of `most` becomes at least that of `work`. */
void kiln_thread_work_max(kiln_thread_work *most, const kiln_thread_work *work);
/* So many rows are gone through next. */
void kiln_thread_walks(uint64_t rows);

#endif
