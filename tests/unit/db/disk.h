/* A disk in memory under SQLite, for tests of durability. It loses power at any operation: what was
 * not synced is then there, not there, or there in part, sector by sector, in any order; files that
 * were made or removed without a sync of their folder come and go. And single operations fail as on
 * a full or broken disk; a sync that fails has thrown away what it should have written.
 *
 * A write that power interrupts harms nothing beside its own bytes; that much SQLite takes for
 * granted on Linux (SQLITE_IOCAP_POWERSAFE_OVERWRITE), and without it no log could be appended to.
 *
 * One disk per process, used by one connection at a time. */
#ifndef KILN_TESTS_UNIT_DB_DISK_H
#define KILN_TESTS_UNIT_DB_DISK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rand.h"

/* What happens at an operation. */
typedef enum disk_fault {
    DISK_FINE,
    DISK_FULL,   /* a write finds no space left; a sync or a new file does not either */
    DISK_BROKEN, /* an I/O error, whatever it is */
    DISK_CUT,    /* power is lost: this and all that follow fail until disk_reboot */
} disk_fault;

/* Becomes SQLite's default disk. Before any database is opened. */
void disk_install(void);
void disk_format(void); /* empty */
/* The `nth` operation from now (1: the next) meets `fault`; `lasting`: all after it too, until the
 * next call. 0: none. */
void disk_fail(uint64_t nth, disk_fault fault, bool lasting);
/* Whether the fault happened. */
bool disk_failed(void);
/* Power is back. What survived is drawn from `rand`. */
void disk_reboot(kiln_rand *rand);
/* Operations since disk_format. */
uint64_t disk_operations(void);

/* The disk as it is, with nothing waiting to be synced, for disk_restore: to begin many runs at one
 * state. */
void disk_save(void);
void disk_restore(void);

#endif
