#include "tracker/blob_files.h"

#include <stdio.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/vec.h"
#include "tracker/shell.h"

#define COLLECT_S INT64_C(86400)                  /* between two collections, also over restarts */
#define CHECK_NS (UINT64_C(3600) * KILN_NS_PER_S) /* between two checks whether one is due */
#define GONE_MAX 1024u /* blobs that are reported to the tracker at once */

/* Files to remove, on a thread of the pool. */
typedef struct cleaning {
    kiln_tracker_blob_files *files;
    KILN_VEC(kiln_digest) drop;
    int64_t before_s; /* also those that were last used before; 0: none */
    KILN_VEC(kiln_blob_use) use;
    kiln_status status;
} cleaning;

struct kiln_tracker_blob_files {
    kiln_loop *loop;
    kiln_tracker *tracker;
    const char *state_folder;
    kiln_depot *depot; /* NULL: none */
    kiln_blob_store *store;
    uint64_t keep_ns;
    cleaning *next; /* gathered for the next cleaning; NULL: nothing */
    bool is_cleaning;
    uint64_t check_ns; /* when it is checked whether a collection is due */
};

/* ---- Access ---- */

static bool may_get(void *context, kiln_conn *conn, const kiln_digest *digest) {
    kiln_tracker_blob_files *files = context;
    return kiln_tracker_may_get(files->tracker, kiln_conn_id(conn), digest);
}

static kiln_status may_put(void *context, kiln_conn *conn, const kiln_digest *digest,
                           uint64_t size) {
    (void)digest;
    kiln_tracker_blob_files *files = context;
    return kiln_tracker_may_put(files->tracker, kiln_conn_id(conn), size);
}

/* Tells the tracker of blobs whose files are no longer there. False: there were none. */
static bool report_gone(kiln_tracker_blob_files *files) {
    kiln_digest gone[GONE_MAX];
    const uint32_t count = kiln_blob_store_gone(files->store, gone, GONE_MAX);
    kiln_tracker_blobs_gone(files->tracker, gone, count);
    return count > 0;
}

static void was_put(void *context, kiln_conn *conn, const kiln_digest *digest, uint64_t size) {
    kiln_tracker_blob_files *files = context;
    while (report_gone(files)) continue; /* this blob may be among them from an earlier time */
    kiln_tracker_was_put(files->tracker, kiln_conn_id(conn), digest, size);
}

static const kiln_blob_guard blob_guard = {may_get, may_put, was_put};

void kiln_tracker_blob_files_attach(kiln_tracker_blob_files *files, kiln_conn *conn) {
    kiln_blobs_set_guard(kiln_blobs_attach(conn, files->store), &blob_guard, files);
}

void kiln_tracker_blob_files_pin(kiln_tracker_blob_files *files, const kiln_tracker_row *row,
                                 uint32_t count) {
    kiln_digest digest[KILN_TRACKER_JOB_BLOBS_MAX];
    for (uint32_t i = 0; i < count; i++)
        if (row[i].kind == KILN_TRACKER_ROW_JOB)
            kiln_blob_store_pin(files->store, row[i].id, digest,
                                kiln_tracker_job_blobs(files->tracker, row[i].id, digest));
}

/* ---- Cleaning ---- */

static cleaning *next_cleaning(kiln_tracker_blob_files *files) {
    if (files->next) return files->next;
    files->next = kiln_alloc(sizeof *files->next);
    files->next->files = files;
    return files->next;
}

static void free_cleaning(cleaning *c) {
    if (!c) return;
    kiln_vec_deinit(&c->drop);
    kiln_vec_deinit(&c->use);
    kiln_free(c);
}

/* Whether no tracker of this state folder has begun a collection for a day; then this one begins
 * one, and the time is written down. */
static kiln_status begin_collection(const kiln_tracker_blob_files *files, bool *out_begins) {
    kiln_strbuf path = {0};
    struct stat info;
    kiln_strbuf_printf(&path, "%s/blobs-collected", files->state_folder);
    const int64_t now_s = (int64_t)(kiln_clock_wall_ns() / KILN_NS_PER_S);
    const bool is_early =
        stat(path.data, &info) == 0 && info.st_mtime <= now_s && now_s - info.st_mtime < COLLECT_S;
    kiln_status st = is_early ? KILN_OK : kiln_file_write(path.data, (kiln_str){0}, 0600);
    kiln_strbuf_deinit(&path);
    *out_begins = !is_early;
    return st;
}

static void run_cleaning(void *context) {
    cleaning *c = context;
    kiln_blob_store *store = c->files->store;
    bool begins = false;
    for (uint32_t i = 0; !c->status && i < c->drop.count; i++)
        c->status = kiln_blob_store_remove(store, &c->drop.data[i]);
    if (!c->status && c->before_s) c->status = begin_collection(c->files, &begins);
    if (!c->status && begins)
        c->status = kiln_blob_store_collect(store, c->before_s, c->use.data, c->use.count);
}

static void on_cleaned(void *context) {
    cleaning *c = context;
    c->files->is_cleaning = false;
    if (c->status) kiln_log(KILN_LOG_WARN, "removing blobs: %s", kiln_status_text(c->status));
    kiln_status_free(c->status); /* a later collection removes what is left */
    free_cleaning(c);
}

void kiln_tracker_blob_files_drop(kiln_tracker_blob_files *files, const kiln_digest *digest) {
    kiln_vec_push(&next_cleaning(files)->drop, *digest);
}

static void add_use(void *context, const kiln_digest *digest, uint64_t used_ms) {
    cleaning *c = context;
    kiln_vec_push(&c->use, ((kiln_blob_use){*digest, (int64_t)(used_ms / 1000)}));
}

void kiln_tracker_blob_files_tick(kiln_tracker_blob_files *files) {
    const uint64_t now_ns = kiln_loop_now_ns(files->loop), keep_ns = files->keep_ns;
    report_gone(files);
    if (keep_ns && keep_ns < kiln_clock_wall_ns() && now_ns >= files->check_ns) {
        cleaning *c = next_cleaning(files);
        files->check_ns = now_ns + CHECK_NS;
        c->before_s = (int64_t)((kiln_clock_wall_ns() - keep_ns) / KILN_NS_PER_S);
        c->use.count = 0;
        kiln_tracker_each_blob(files->tracker, add_use, c);
    }
    if (!files->next || files->is_cleaning) return;
    files->is_cleaning = true;
    kiln_loop_work(files->loop, run_cleaning, on_cleaned, files->next);
    files->next = NULL;
}

/* ---- Life ---- */

kiln_status kiln_tracker_blob_files_open(kiln_loop *loop, const char *state_folder,
                                         const char *where, uint64_t keep_ns,
                                         kiln_tracker_blob_files **out_files) {
    kiln_tracker_blob_files *files = kiln_alloc(sizeof *files);
    *files =
        (kiln_tracker_blob_files){.loop = loop, .state_folder = state_folder, .keep_ns = keep_ns};
    const bool is_depot = where && kiln_depot_is_named(kiln_str_from(where));
    kiln_strbuf usual = {0};
    kiln_strbuf_printf(&usual, "%s/blobs", state_folder);
    kiln_status st = is_depot ? kiln_depot_open(kiln_str_from(where), &files->depot) : KILN_OK;
    const kiln_blob_store_options options = {.folder = where && !is_depot ? where : usual.data,
                                             .bytes_max = KILN_TRACKER_BLOB_BYTES_MAX,
                                             .durable = true,
                                             .depot = files->depot};
    st = st ? kiln_status_note(st, "--blobs") : kiln_blob_store_open(&options, &files->store);
    kiln_strbuf_deinit(&usual);
    if (st) {
        kiln_tracker_blob_files_close(files);
        return st;
    }
    *out_files = files;
    return KILN_OK;
}

void kiln_tracker_blob_files_set_tracker(kiln_tracker_blob_files *files, kiln_tracker *tracker) {
    files->tracker = tracker;
}

void kiln_tracker_blob_files_close(kiln_tracker_blob_files *files) {
    if (!files) return;
    free_cleaning(files->next);
    kiln_blob_store_close(files->store);
    kiln_depot_close(files->depot);
    kiln_free(files);
}
