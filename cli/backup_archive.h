/* A backup as one file: a tar archive (POSIX ustar) of its folder, which any tar unpacks. */
#ifndef KILN_CLI_BACKUP_ARCHIVE_H
#define KILN_CLI_BACKUP_ARCHIVE_H

#include "cli/backup.h"

/* Whether a name that does not exist yet asks for an archive: it ends in ".tar". */
bool kiln_backup_archive_is_name(const char *path);
/* Writes the files of a backup's folder, the manifest last. The archive gets its name when it is
 * whole and on disk. ALREADY_EXISTS, RESOURCE_EXHAUSTED. */
KILN_MUST_USE kiln_status kiln_backup_archive_write(const kiln_backup *backup, const char *path);
/* Unpacks an archive that anybody may have written into the new folder `folder`: plain files with
 * the names of a backup and nothing else. DATA_LOSS: it is damaged, or no archive of a backup. What
 * was unpacked stays, for the caller to remove. */
KILN_MUST_USE kiln_status kiln_backup_archive_read(const char *path, const char *folder,
                                                   kiln_arena *arena);

#endif
