/* Files: whole reads, atomic replacement, temporary folders, mapping. Every error names the path.
 */
#ifndef KILN_BASE_FILE_H
#define KILN_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"

/* Reads a whole file of at most `max_bytes` into `arena` (a NUL follows the last byte).
 * NOT_FOUND, PERMISSION_DENIED, OUT_OF_RANGE (larger than max_bytes), DATA_LOSS (read error),
 * INVALID_ARGUMENT (a folder, a pipe, a device). */
KILN_MUST_USE kiln_status kiln_file_read(const char *path, size_t max_bytes, kiln_arena *arena,
                                         kiln_str *out_content);
/* Opens a regular file below `folder` for reading; the caller closes `*out_fd`. `path` is relative
 * and may follow no link, so that nothing outside of the folder is read. INVALID_ARGUMENT: an
 * absolute path, "..", a link on the way, or no regular file; NOT_FOUND, PERMISSION_DENIED. */
KILN_MUST_USE kiln_status kiln_file_open_inside(const char *folder, const char *path, int *out_fd,
                                                size_t *out_size);
/* Reads a file of /proc or /sys, whose size is not known before, up to 1 MiB. Errors as above. */
KILN_MUST_USE kiln_status kiln_file_read_system(const char *path, kiln_arena *arena,
                                                kiln_str *out_content);
/* Makes a rename to `path` durable; file systems that cannot sync a folder do not need it. */
void kiln_file_sync_folder(const char *path);
/* Writes beside `path`, syncs and renames: readers see the old or the new content, never a part.
 * RESOURCE_EXHAUSTED when the disk is full; nothing is left behind then. `mode` is narrowed by the
 * umask, except modes without access for others (0600), which are set exactly. A device or a pipe
 * is written in place. INVALID_ARGUMENT: a folder or a socket. */
KILN_MUST_USE kiln_status kiln_file_write(const char *path, kiln_str content, unsigned mode);
/* Writes all of it to an open file; false: `errno` has the cause. */
bool kiln_file_write_fully(int fd, kiln_str content);
/* Copies an open file from where it is read next to its end into the new file `to`, which gets
 * `mode` exactly. Not synced. Nothing is left behind after an error: ALREADY_EXISTS: there is
 * something at `to`, also a link; RESOURCE_EXHAUSTED: the disk is full; as kiln_file_write. */
KILN_MUST_USE kiln_status kiln_file_copy(int fd, const char *to, unsigned mode, uint64_t *out_size);
/* Whether kiln_file_write could write `path` now: makes and removes a file beside it. Same errors;
 * for outputs of long work. */
KILN_MUST_USE kiln_status kiln_file_check_writable(const char *path);
/* False: there is no such file. True also if that cannot be determined, so that opening it gives
 * the error. */
bool kiln_file_exists(const char *path);
bool kiln_file_is_folder(const char *path);
/* Creates missing parents; existing folders are fine. */
KILN_MUST_USE kiln_status kiln_folder_create(const char *path, unsigned mode);
/* A new private (0700) folder under $TMPDIR or /tmp; path in `arena`. */
KILN_MUST_USE kiln_status kiln_folder_create_temp(const char *prefix, kiln_arena *arena,
                                                  char **out_path);
/* The same for a folder that is locked until `*out_fd` is closed or the process ends (also by kill
 * -9). Removes unlocked folders of the same prefix first. If the path would have more than
 * `path_max` characters the folder is in /tmp, because paths of sockets must be short. */
KILN_MUST_USE kiln_status kiln_folder_hold_temp(const char *prefix, size_t path_max,
                                                kiln_arena *arena, char **out_path, int *out_fd);
/* Removes a folder and everything in it; does not follow links. */
KILN_MUST_USE kiln_status kiln_folder_remove(const char *path);
/* Locks a folder for this process until `*out_fd` is closed or the process ends (also by kill -9).
 * FAILED_PRECONDITION: another process has locked it; the text names it, from the file `lock`. */
KILN_MUST_USE kiln_status kiln_folder_lock(const char *path, int *out_fd);
/* Raises the limit of descriptors to what the system allows (RLIMIT_NOFILE: the soft limit becomes
 * the hard one). Returns the limit. */
uint64_t kiln_descriptors_raise(void);
/* Waits for the lock of `path` and holds it until `*out_fd` is closed or the process ends, so that
 * a file can be read and replaced. The lock is the file PATH.lock, which stays. */
KILN_MUST_USE kiln_status kiln_file_lock(const char *path, int *out_fd);
/* Names (not paths) in a folder, sorted, without "." and "..". */
KILN_MUST_USE kiln_status kiln_folder_list(const char *path, kiln_arena *arena, char ***out_names,
                                           size_t *out_count);

/* Closes `*fd` unless it is negative, and makes it -1. */
void kiln_fd_close(int *fd);

/* A read-only mapping of a whole file. */
typedef struct kiln_mapping {
    const void *data;
    size_t size;
} kiln_mapping;
KILN_MUST_USE kiln_status kiln_file_map(const char *path, kiln_mapping *out_mapping);
/* The same for an open regular file, which stays open; `name` is for messages. */
KILN_MUST_USE kiln_status kiln_file_map_fd(int fd, const char *name, kiln_mapping *out_mapping);
/* Maps a copy of the bytes, in a file without a name under $TMPDIR or /tmp: the system can move it
 * out of memory, unlike allocated bytes. For copies of whole models. RESOURCE_EXHAUSTED: the disk
 * is full; errors of kiln_folder_create_temp. */
KILN_MUST_USE kiln_status kiln_file_map_copy(kiln_str bytes, kiln_mapping *out_mapping);
void kiln_file_unmap(kiln_mapping *mapping); /* accepts a zeroed one */

#endif
