/* Watchers are sent changed rows. Each row has the number of its last change. A watcher gets the
 * rows with numbers above the last one that it was sent, as they are now, in pages, the oldest
 * changes first. The next page is sent with a tick after the reader has acknowledged the last page,
 * so that a row that changes often is sent once, and a slow reader costs one page. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "tracker/state.h"

/* A row that changed since. */
typedef struct changed_row {
    uint64_t change;
    const void *item; /* board or job */
} changed_row;

typedef struct changed_rows {
    KILN_VEC(changed_row) row;
} changed_rows;

static int compare(const void *a, const void *b) {
    uint64_t left = ((const changed_row *)a)->change, right = ((const changed_row *)b)->change;
    return (left > right) - (left < right);
}

static bool is_of_boards(const kiln_tracker_watcher *w) {
    return w->topic == KILN_TOPIC_FLEET || w->topic == KILN_TOPIC_BOARD;
}

static void add(changed_rows *rows, uint64_t change, const void *item) {
    changed_row row = {change, item};
    kiln_vec_push(&rows->row, row);
}

static void find_boards(const kiln_tracker *t, const kiln_tracker_watcher *w, changed_rows *rows) {
    kiln_str id = kiln_str_from(w->id);
    kiln_thread_walks(t->boards.all.count);
    for (uint32_t i = 0; i < t->boards.all.count; i++) {
        const kiln_tracker_board *board = t->boards.all.data[i];
        if (!board->known || board->changed <= w->seen) continue;
        if (id.size && !kiln_tracker_is_named(id, kiln_str_from(board->node), board->up.key))
            continue;
        add(rows, board->changed, board);
    }
}

static void find_jobs(kiln_tracker *t, const kiln_tracker_watcher *w, changed_rows *rows) {
    kiln_thread_walks(t->jobs.all.count);
    for (uint32_t i = 0; i < t->jobs.all.count; i++) {
        const kiln_tracker_job *job = t->jobs.all.data[i];
        if (job->changed <= w->seen || (w->id[0] && strcmp(w->id, job->id) != 0)) continue;
        if (!kiln_tracker_sees(t, w->peer, job)) continue;
        add(rows, job->changed, job);
    }
}

/* Sends the next page, if a row has changed. */
static void serve(kiln_tracker *t, kiln_tracker_watcher *w) {
    kiln_msg_board_row board[KILN_MESSAGES_PAGE];
    kiln_msg_job_row job[KILN_MESSAGES_PAGE];
    kiln_sign_public trusted[KILN_MESSAGES_TRUSTED];
    changed_rows rows = {0};
    if (w->seen >= t->effects.change) return;
    if (is_of_boards(w))
        find_boards(t, w, &rows);
    else
        find_jobs(t, w, &rows);
    if (rows.row.count > 0) qsort(rows.row.data, rows.row.count, sizeof *rows.row.data, compare);
    w->more = rows.row.count > KILN_MESSAGES_PAGE;
    uint32_t count = w->more ? KILN_MESSAGES_PAGE : rows.row.count;
    w->seen = w->more ? rows.row.data[count - 1].change : t->effects.change;
    kiln_message message = {
        .type = KILN_MSG_CHANGE, .stream = w->stream, .change = {.seq = w->seen}};
    for (uint32_t i = 0; i < count; i++) {
        if (is_of_boards(w))
            board[message.change.boards.count++] =
                kiln_tracker_board_row(t, rows.row.data[i].item, w->peer);
        else
            job[message.change.jobs.count++] =
                w->topic == KILN_TOPIC_JOB
                    ? kiln_tracker_long_job_row(t, rows.row.data[i].item, trusted)
                    : kiln_tracker_job_row(t, rows.row.data[i].item, false);
    }
    message.change.boards.item = board;
    message.change.jobs.item = job;
    kiln_vec_deinit(&rows.row);
    if (count == 0) return; /* only rows that it does not watch have changed */
    w->waits = true;
    kiln_tracker_send(t, w->peer, &message);
}

void kiln_tracker_watches_tick(kiln_tracker *t) {
    for (uint32_t i = 0; i < t->watchers.all.count; i++)
        if (!t->watchers.all.data[i]->waits) serve(t, t->watchers.all.data[i]);
}

static void remove_watcher(kiln_tracker *t, kiln_tracker_watcher *w) {
    kiln_tracker_remove(&t->watchers.all, w);
    kiln_free(w);
}

void kiln_tracker_watches_peer_gone(kiln_tracker *t, const kiln_tracker_peer *peer) {
    for (uint32_t i = t->watchers.all.count; i-- > 0;)
        if (t->watchers.all.data[i]->peer == peer) remove_watcher(t, t->watchers.all.data[i]);
}

void kiln_tracker_watches_free(kiln_tracker *t) {
    for (uint32_t i = 0; i < t->watchers.all.count; i++) kiln_free(t->watchers.all.data[i]);
    kiln_vec_deinit(&t->watchers.all);
}

static kiln_tracker_watcher *find(const kiln_tracker *t, const kiln_tracker_peer *peer,
                                  uint32_t stream) {
    for (uint32_t i = 0; i < t->watchers.all.count; i++)
        if (t->watchers.all.data[i]->peer == peer && t->watchers.all.data[i]->stream == stream)
            return t->watchers.all.data[i];
    return NULL;
}

static uint32_t count_of_person(const kiln_tracker *t, const kiln_tracker_peer *client) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < t->watchers.all.count; i++)
        count += kiln_tracker_is_same_person(t->watchers.all.data[i]->peer, client);
    return count;
}

/* Watchers of jobs of the same project. */
static uint32_t count_of_project(kiln_tracker *t, const kiln_tracker_job *job) {
    uint32_t count = 0;
    for (uint32_t i = 0; job && i < t->watchers.all.count; i++) {
        const kiln_tracker_watcher *w = t->watchers.all.data[i];
        const kiln_tracker_job *other =
            w->topic == KILN_TOPIC_JOB ? kiln_tracker_job_find(t, kiln_str_from(w->id)) : NULL;
        count += other && kiln_str_equal(other->spec.project, job->spec.project);
    }
    return count;
}

/* Checks whether the peer may watch that. */
static kiln_status refusal(kiln_tracker *t, const kiln_tracker_peer *client,
                           const kiln_msg_watch *watch) {
    bool one = watch->topic == KILN_TOPIC_BOARD || watch->topic == KILN_TOPIC_JOB;
    if (one && watch->id.size == 0)
        return KILN_ERROR(INVALID_ARGUMENT, "a watch of one board or job needs its id");
    const kiln_tracker_job *job = kiln_tracker_job_latest(t, watch->id);
    if (watch->topic == KILN_TOPIC_JOB && !(job && kiln_tracker_sees(t, client, job)))
        return KILN_ERROR(NOT_FOUND, "there is no job %.*s", KILN_STR_ARG(watch->id));
    if (watch->topic == KILN_TOPIC_BOARD && !kiln_tracker_board_named(t, watch->id))
        return KILN_ERROR(NOT_FOUND, "there is no board %.*s", KILN_STR_ARG(watch->id));
    if (watch->since &&
        (watch->since < t->effects.first_change || watch->since > t->effects.change))
        return KILN_ERROR(OUT_OF_RANGE, "this tracker does not know what changed since then");
    if (t->watchers.all.count >= KILN_TRACKER_WATCHERS_MAX)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "%u watches are open already", t->watchers.all.count);
    if (watch->topic != KILN_TOPIC_JOB) job = NULL;
    return kiln_tracker_quota_of_watchers(t, client, count_of_person(t, client), job,
                                          count_of_project(t, job));
}

static kiln_tracker_watcher *make(kiln_tracker *t, kiln_tracker_peer *client,
                                  const kiln_message *message) {
    const kiln_msg_watch *watch = &message->watch;
    kiln_tracker_watcher *w = kiln_alloc(sizeof *w);
    w->peer = client;
    w->stream = message->stream;
    w->topic = (kiln_topic)watch->topic;
    w->seen = watch->since;
    kiln_str id = {0};
    if (watch->topic == KILN_TOPIC_BOARD) id = watch->id;
    if (watch->topic == KILN_TOPIC_JOB)
        id = kiln_str_from(kiln_tracker_job_latest(t, watch->id)->id);
    kiln_tracker_copy_text(w->id, sizeof w->id, id);
    kiln_vec_push(&t->watchers.all, w);
    return w;
}

void kiln_tracker_watch(kiln_tracker *t, kiln_tracker_peer *client, const kiln_message *message) {
    kiln_tracker_watcher *w = find(t, client, message->stream);
    if (message->watch.stop) {
        if (w) remove_watcher(t, w);
        return;
    }
    if (w) {
        bool has_it = message->watch.since >= w->seen;
        w->waits &= !has_it;
        if (has_it && w->more) serve(t, w);
        return;
    }
    kiln_status st = refusal(t, client, &message->watch);
    if (st)
        kiln_tracker_send_status(t, client, message->stream, (kiln_str){0}, 0, st);
    else
        serve(t, make(t, client, message));
}
