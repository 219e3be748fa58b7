/* A file that grows by what a client sends, hashed on the way. Writing and hashing run on the
 * loop's pool, at most KILN_SPOOL_BYTES ahead of the disk; the rest on the loop's thread. */
#ifndef KILN_WEB_SPOOL_H
#define KILN_WEB_SPOOL_H

#include "base/hash.h"
#include "base/status.h"
#include "base/str.h"
#include "proto/loop.h"

#define KILN_SPOOL_BYTES ((size_t)1 << 20)

typedef struct kiln_spool kiln_spool;

/* Makes the file, which must not exist yet. `more` is called when there is room again after
 * kiln_spool_add returned false; may be NULL. Errors of files. */
KILN_MUST_USE kiln_status kiln_spool_create(kiln_loop *loop, const char *path,
                                            kiln_spool **out_spool);
/* Continues a file that an earlier server left with kiln_spool_leave, or when it was killed: its
 * bytes count as added, and are hashed again on the pool before the next ones. Errors of files. */
KILN_MUST_USE kiln_status kiln_spool_open(kiln_loop *loop, const char *path,
                                          kiln_spool **out_spool);
void kiln_spool_on_more(kiln_spool *spool, void (*more)(void *context), void *context);
/* Appends; the bytes are copied. False: add no more until `more` is called. */
bool kiln_spool_add(kiln_spool *spool, kiln_str bytes);
bool kiln_spool_is_full(const kiln_spool *spool);  /* what kiln_spool_add returned last, negated */
uint64_t kiln_spool_size(const kiln_spool *spool); /* bytes that were added */
/* Calls `done` once, from the loop and never from inside, when all that was added is written; then
 * more may be added. `st` is owned: RESOURCE_EXHAUSTED: the disk is full; `digest` is that of all
 * bytes so far. */
void kiln_spool_flush(kiln_spool *spool,
                      void (*done)(void *context, const kiln_digest *digest, kiln_status st),
                      void *context);
/* Removes the file unless it was kept (moved) before. A flush that was asked for is forgotten.
 * NULL is fine. */
void kiln_spool_destroy(kiln_spool *spool);
/* As kiln_spool_destroy, but leaves the file, with what has been written of it. NULL is fine. */
void kiln_spool_leave(kiln_spool *spool);
/* Moves the file to `path`; it is no longer removed. Errors of rename. */
KILN_MUST_USE kiln_status kiln_spool_keep(kiln_spool *spool, const char *path);

#endif
