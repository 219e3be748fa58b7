/* kiln admin: backup, verify and restore of what a tracker and a tuner keep on this machine. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "cli/action.h"
#include "cli/backup.h"
#include "cli/backup_archive.h"

typedef struct admin_call {
    kiln_backup_options from;
    const char *without, *folder;
    bool replace, json;
    kiln_backup_place place;
    kiln_arena *process;
} admin_call;

/* --without: names of parts. */
static kiln_status leave_out(admin_call *c) {
    kiln_str rest = kiln_str_from(c->without);
    while (rest.size) {
        const kiln_str name = kiln_str_trim(kiln_str_cut(&rest, ','));
        kiln_backup_part part;
        if (!kiln_backup_part_find(name, &part))
            return KILN_ERROR(INVALID_ARGUMENT,
                              "--without %.*s: the parts are tracker, records, blobs and keys",
                              KILN_STR_ARG(name));
        c->place.without[part] = true;
    }
    return KILN_OK;
}

static void report(const admin_call *c, const char *what, const kiln_backup *backup,
                   uint32_t file_count, uint64_t begin_ns) {
    const double seconds = (double)(kiln_clock_ns() - begin_ns) / 1e9;
    if (c->json)
        kiln_json_line(json_pack("{s:s, s:s, s:I, s:I, s:f, s:s, s:s}", "event", what, "folder",
                                 c->folder, "files", (json_int_t)file_count, "bytes",
                                 (json_int_t)backup->size_bytes, "seconds", seconds, "made",
                                 backup->made, "kiln", backup->program));
    else
        printf("%s: %u files, %.1f MB, made %s by Kiln %s (%.1f s)\n", c->folder, file_count,
               (double)backup->size_bytes / 1e6, backup->made, backup->program, seconds);
}

/* A name FILE.tar gets an archive of the folder that is made first. */
static kiln_status make(admin_call *c) {
    const uint64_t begin_ns = kiln_clock_ns();
    const bool is_archive = kiln_backup_archive_is_name(c->folder);
    const char *folder =
        is_archive ? kiln_arena_printf(c->process, "%s.folder", c->folder) : c->folder;
    kiln_backup backup = {0};
    if (is_archive && kiln_file_exists(c->folder))
        return KILN_ERROR(ALREADY_EXISTS, "%s exists already; name another file", c->folder);
    kiln_status st = is_archive && kiln_file_exists(folder) /* of one that was interrupted */
                         ? kiln_folder_remove(folder)
                         : KILN_OK;
    if (!st) st = kiln_backup_make(&c->place, folder, c->process, &backup);
    if (!st && is_archive) {
        st = kiln_backup_archive_write(&backup, c->folder);
        kiln_status removed = kiln_folder_remove(folder);
        if (st)
            kiln_status_free(removed); /* the first error is the one to show */
        else
            st = removed;
    }
    if (!st) report(c, "backup", &backup, backup.files.count, begin_ns);
    return st;
}

/* Verifies a folder or an archive, and restores it with `restores`. An archive is unpacked beside
 * itself, and what was unpacked is removed. */
static kiln_status open_backup(admin_call *c, bool restores, const char *what) {
    const uint64_t begin_ns = kiln_clock_ns();
    const bool is_archive = kiln_file_exists(c->folder) && !kiln_file_is_folder(c->folder);
    const char *folder = c->folder;
    kiln_backup backup = {0};
    kiln_status st = KILN_OK;
    if (is_archive) {
        folder = kiln_arena_printf(c->process, "%s.unpacked", c->folder);
        if (kiln_file_exists(folder)) st = kiln_folder_remove(folder); /* of an interrupted one */
        if (!st) st = kiln_backup_archive_read(c->folder, folder, c->process);
    }
    if (!st) st = kiln_backup_verify(folder, c->process, &backup);
    uint32_t count = backup.files.count;
    if (!st && restores) st = kiln_backup_restore(&backup, &c->place, c->replace, &count);
    if (is_archive && kiln_file_exists(folder))
        kiln_status_free(kiln_folder_remove(folder)); /* it was only a copy */
    if (!st) report(c, what, &backup, count, begin_ns);
    return st;
}

static kiln_status verify(admin_call *c) { return open_backup(c, false, "verified"); }
static kiln_status restore(admin_call *c) { return open_backup(c, true, "restored"); }

#define ACTIONS(X)                                                                  \
    X("backup", "PLACE", make,                                                      \
      "copy everything to a new folder, or FILE.tar, while the programs go on")     \
    X("verify", "PLACE", verify, "compare the files of a backup with its manifest") \
    X("restore", "PLACE", restore, "verify a backup and put it in place; stop the programs first")

kiln_status kiln_cmd_admin(kiln_arena *process, int argc, char **argv) {
    static const kiln_action actions[] = {
#define X(name, arguments, run, help) {name, arguments, help},
        ACTIONS(X)
#undef X
    };
    static kiln_status (*const run[])(admin_call *c) = {
#define X(name, arguments, run, help) run,
        ACTIONS(X)
#undef X
    };
    admin_call c = {.process = process};
    const kiln_opt option[] = {
        {"state", KILN_OPT_TEXT, &c.from.state, "DIR",
         "the tracker's folder (default $KILN_HOME/tracker)"},
        {"tracker-db", KILN_OPT_TEXT, &c.from.tracker_db, "PATH",
         "the tracker's database, if its --db names one (default tracker.db in --state)"},
        {"blobs", KILN_OPT_TEXT, &c.from.blobs, "DIR",
         "the tracker's blobs, if its --blobs names a folder (default blobs in --state)"},
        {"db", KILN_OPT_TEXT, &c.from.records_db, "PATH",
         "records database (default $KILN_HOME/kiln.db)"},
        {"keys", KILN_OPT_TEXT, &c.from.keys, "F",
         "the tracker's key file (default $KILN_HOME/keys)"},
        {"without", KILN_OPT_TEXT, &c.without, "PART,...",
         "leave out tracker, records, blobs or keys"},
        {"replace", KILN_OPT_FLAG, &c.replace, NULL, "restore: overwrite what is there"},
        {"json", KILN_OPT_FLAG, &c.json, NULL, "print one object"},
    };
    static const kiln_actions table = {
        .command = "admin",
        .summary = "Backs up what a tracker and a tuner keep on this machine (databases, blobs, "
                   "keys), verifies backups, and restores them.",
        .action = actions,
        .count = KILN_ARRAY_COUNT(actions)};
    kiln_args args;
    size_t index = 0;
    kiln_status st = kiln_action_parse(&table, option, KILN_ARRAY_COUNT(option), argc, argv,
                                       process, &args, &index);
    if (st || args.help) return st;
    c.folder = args.positional[0];
    st = kiln_backup_place_find(&c.from, process, &c.place);
    if (!st) st = leave_out(&c);
    return st ? st : run[index](&c);
}
