/* Routes that ask the database for records: best, top, history, stats, compare, tasks. */
#include <string.h>

#include "base/target.h"
#include "web/record_rows.h"
#include "web/records.h"

#define LIST_DEFAULT 100u
#define TOP_DEFAULT 10u
#define TOP_PIECE 16u /* records of a pair that are read at a time */
#define TOP_OFFSET_MAX 10000u
#define NS_PER_S INT64_C(1000000000)
#define NS_PER_MS INT64_C(1000000)

/* ---- filters --------------------------------------------------------------------------------- */

/* A target in any form becomes the text as which it is stored. Whether there are records of it is
 * not checked: other projects' targets are no business of the person. */
static kiln_status resolve_target(kiln_question *q, kiln_str text, kiln_str *out) {
    kiln_target target;
    kiln_strbuf canonical = {0};
    *out = (kiln_str){0};
    if (!text.size) return KILN_OK;
    kiln_status st = kiln_target_parse(text, &q->arena, &target);
    if (st) return st;
    kiln_target_print(&target, &canonical);
    *out = kiln_strbuf_end(&canonical, &q->arena);
    return KILN_OK;
}

static kiln_status filter_of(kiln_db *db, kiln_question *q, kiln_db_order order, uint32_t limit,
                             kiln_db_filter *out) {
    const kiln_call *call = q->call;
    *out = (kiln_db_filter){.task_key = kiln_call_text(call, "task"),
                            .job_id = kiln_call_text(call, "job"),
                            .order = order,
                            .limit = (uint32_t)kiln_call_u64(call, "limit", limit),
                            .offset = (uint32_t)kiln_call_u64(call, "offset", 0),
                            .projects = q->projects};
    kiln_status st = resolve_target(q, kiln_call_text(call, "target"), &out->target);
    if (!st && out->job_id.size) st = kiln_db_newest_run(db, out->job_id, &q->arena, &out->job_id);
    return st;
}

/* ---- lists ----------------------------------------------------------------------------------- */

static kiln_status print_items(kiln_db *db, kiln_question *q, const kiln_db_record *record,
                               uint32_t count) {
    kiln_record_describer describer = {
        .db = db, .arena = &q->arena, .is_brief = !kiln_call_u64(q->call, "full", 0)};
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; !st && i < count; i++) {
        if (i) kiln_strbuf_char(&q->out, ',');
        st = kiln_record_print(&describer, &record[i], &q->out);
    }
    kiln_strbuf_text(&q->out, "]}");
    return st;
}

/* One more than asked for says whether there are others: counting them all would read them all. */
static kiln_status print_records(kiln_db *db, kiln_question *q, kiln_db_filter filter) {
    const uint32_t limit = filter.limit;
    kiln_db_record *record = NULL;
    uint32_t count = 0;
    filter.limit++;
    kiln_status st = kiln_db_records(db, &filter, &q->arena, &record, &count);
    if (st) return st;
    kiln_strbuf_printf(&q->out, "{\"total\":%u,\"more\":%s,\"items\":[", filter.offset + count,
                       count > limit ? "true" : "false");
    return print_items(db, q, record, KILN_MIN(count, limit));
}

static kiln_status answer_best(kiln_db *db, kiln_question *q) {
    kiln_db_filter filter;
    kiln_db_record *record = NULL;
    uint32_t count = 0;
    kiln_status st = filter_of(db, q, KILN_DB_FASTEST, LIST_DEFAULT, &filter);
    if (!st) st = kiln_db_best(db, &filter, &q->arena, &record, &count);
    if (st) return st;
    const uint32_t first = KILN_MIN(filter.offset, count);
    const uint32_t shown = KILN_MIN(filter.limit, count - first);
    kiln_strbuf_printf(&q->out, "{\"total\":%u,\"more\":%s,\"items\":[", count,
                       first + shown < count ? "true" : "false");
    return print_items(db, q, record + first, shown);
}

/* The fastest records of one task on one target, a piece at a time. */
typedef struct ranking {
    kiln_db_filter filter; /* its offset is behind what was read */
    kiln_db_record *record;
    uint32_t count, at;
    bool has_more;
} ranking;

static kiln_status read_ahead(kiln_db *db, kiln_question *q, ranking *r) {
    if (r->at < r->count || !r->has_more) return KILN_OK;
    kiln_status st = kiln_db_records(db, &r->filter, &q->arena, &r->record, &r->count);
    r->at = 0;
    r->has_more = r->count == r->filter.limit;
    r->filter.offset += r->filter.limit;
    if (st) r->count = 0;
    return st;
}

static bool is_before(const kiln_db_record *a, const kiln_db_record *b) {
    return a->final != b->final ? a->final > b->final : a->median_ns < b->median_ns;
}

/* The index of the fastest has a place for each task and target, so that their rankings are merged;
 * a statement over all would read and sort every record. `best` has one record of each pair. */
static kiln_status merge(kiln_db *db, kiln_question *q, const kiln_db_filter *filter,
                         const kiln_db_record *best, uint32_t pair_count, kiln_db_record *out,
                         uint32_t *out_count) {
    const uint32_t wanted = filter->offset + filter->limit + 1;
    ranking *all = KILN_ARENA_ARRAY(&q->arena, ranking, pair_count + 1);
    kiln_status st = KILN_OK;
    uint32_t count = 0;
    for (uint32_t i = 0; i < pair_count; i++) {
        all[i] = (ranking){.filter = *filter, .has_more = true};
        all[i].filter.task_key = best[i].task_key;
        all[i].filter.target = best[i].target;
        all[i].filter.offset = 0;
        all[i].filter.limit = pair_count > 1 ? KILN_MIN(wanted, TOP_PIECE) : wanted;
    }
    while (!st && count < wanted) {
        ranking *first = NULL;
        for (uint32_t i = 0; !st && i < pair_count; i++) {
            ranking *r = &all[i];
            /* The first of a pair is known before its ranking is read. */
            const kiln_db_record *one = r->filter.offset ? NULL : &best[i];
            if (!one) st = read_ahead(db, q, r);
            if (!one && !st && r->at < r->count) one = &r->record[r->at];
            if (!one || st) continue;
            const kiln_db_record *leader = !first                 ? NULL
                                           : first->filter.offset ? &first->record[first->at]
                                                                  : &best[first - all];
            if (!leader || is_before(one, leader)) first = r;
        }
        if (st || !first) break;
        if (!first->filter.offset) st = read_ahead(db, q, first);
        if (!st && first->at < first->count) out[count++] = first->record[first->at++];
    }
    *out_count = count;
    return st;
}

static kiln_status answer_top(kiln_db *db, kiln_question *q) {
    kiln_db_filter filter;
    kiln_db_record *best = NULL;
    uint32_t pair_count = 0, count = 0;
    kiln_status st = filter_of(db, q, KILN_DB_FASTEST, TOP_DEFAULT, &filter);
    if (!st && filter.offset > TOP_OFFSET_MAX)
        st = KILN_ERROR(INVALID_ARGUMENT, "offset is at most %u here", TOP_OFFSET_MAX);
    if (!st) st = kiln_db_best(db, &filter, &q->arena, &best, &pair_count);
    if (st) return st;
    kiln_db_record *record =
        KILN_ARENA_ARRAY(&q->arena, kiln_db_record, filter.offset + filter.limit + 1);
    st = merge(db, q, &filter, best, pair_count, record, &count);
    if (st) return st;
    const uint32_t first = KILN_MIN(filter.offset, count);
    const uint32_t shown = KILN_MIN(filter.limit, count - first);
    kiln_strbuf_printf(&q->out, "{\"total\":%u,\"more\":%s,\"items\":[", count,
                       first + shown < count ? "true" : "false");
    return print_items(db, q, record + first, shown);
}

static kiln_status answer_history(kiln_db *db, kiln_question *q) {
    kiln_db_filter filter;
    kiln_status st = filter_of(db, q, KILN_DB_OLDEST, LIST_DEFAULT, &filter);
    filter.whose = KILN_DB_ANY;
    if (kiln_call_u64(q->call, "newest", 0)) filter.order = KILN_DB_NEWEST;
    return st ? st : print_records(db, q, filter);
}

void kiln_web_records_best(kiln_call *call) { kiln_records_ask(call, answer_best); }
void kiln_web_records_top(kiln_call *call) { kiln_records_ask(call, answer_top); }
void kiln_web_records_history(kiln_call *call) { kiln_records_ask(call, answer_history); }

/* ---- counts ---------------------------------------------------------------------------------- */

static void print_outcomes(const kiln_db_stat *stat, kiln_strbuf *out) {
    const char *before = "";
    kiln_strbuf_text(out, ",\"outcomes\":{");
    for (unsigned i = 0; i < KILN_OUTCOME_COUNT; i++) {
        if (!stat->outcome_count[i]) continue;
        kiln_strbuf_printf(out, "%s\"%s\":%lld", before, kiln_outcome_name((kiln_outcome)i),
                           (long long)stat->outcome_count[i]);
        before = ",";
    }
    before = "";
    kiln_strbuf_text(out, "},\"origins\":{");
    for (unsigned i = 0; i < KILN_DB_ORIGIN_COUNT; i++) {
        if (!stat->origin_count[i]) continue;
        kiln_strbuf_printf(out, "%s\"%s\":%lld", before, kiln_db_origin_name((kiln_db_origin)i),
                           (long long)stat->origin_count[i]);
        before = ",";
    }
    kiln_strbuf_char(out, '}');
}

static kiln_status print_stat(kiln_db *db, kiln_question *q, const kiln_db_stat *stat) {
    kiln_db_task task = {0};
    bool found = false;
    kiln_strbuf *out = &q->out;
    kiln_status st = kiln_db_find_task(db, stat->task_key, &q->arena, &task, &found);
    if (st) return st;
    kiln_strbuf_text(out, "{\"task\":");
    kiln_db_text_print_json(stat->task_key, out);
    kiln_json_add_text(out, "op", stat->op);
    kiln_json_add_text(out, "label", kiln_record_label(stat->op, task.canonical, &q->arena));
    kiln_json_add_text(out, "target", stat->target);
    kiln_json_add_int(out, "records", stat->record_count);
    kiln_json_add_int(out, "ok", stat->outcome_count[KILN_OUTCOME_OK]);
    kiln_json_add_int(out, "raced", stat->raced_count);
    kiln_json_add_int(out, "finals", stat->final_count);
    kiln_json_add_real(out, "best_ns", stat->best_ns);
    kiln_json_add_real(out, "best_ms", stat->best_ns / 1e6);
    kiln_json_add_real(out, "flops", task.flops);
    kiln_json_add_real(out, "sampled_ns", stat->sampled_ns);
    kiln_json_add_int(out, "first_wall_ns", stat->first_wall_ns);
    kiln_json_add_int(out, "last_wall_ns", stat->last_wall_ns);
    print_outcomes(stat, out);
    kiln_strbuf_char(out, '}');
    return KILN_OK;
}

/* Whether the text of the search is in one of those. */
static bool contains(kiln_str text, kiln_str part) {
    for (size_t i = 0; i + part.size <= text.size; i++)
        if (kiln_str_equal(kiln_str_slice(text, i, i + part.size), part)) return true;
    return false;
}

static bool is_asked(const kiln_db_stat *stat, kiln_str task, kiln_str target, kiln_str search) {
    if (task.size && !kiln_str_equal(stat->task_key, task)) return false;
    if (target.size && !kiln_str_equal(stat->target, target)) return false;
    return contains(stat->op, search) || contains(stat->task_key, search);
}

static kiln_status answer_stats(kiln_db *db, kiln_question *q) {
    const kiln_str task = kiln_call_text(q->call, "task"), search = kiln_call_text(q->call, "q");
    const uint64_t offset = kiln_call_u64(q->call, "offset", 0);
    const uint64_t limit = kiln_call_u64(q->call, "limit", LIST_DEFAULT);
    kiln_str target;
    kiln_db_stat *stat = NULL;
    uint32_t count = 0, total = 0, shown = 0;
    kiln_status st = resolve_target(q, kiln_call_text(q->call, "target"), &target);
    if (!st) st = kiln_db_stats_of(db, q->projects, &q->arena, &stat, &count);
    if (st) return st;
    kiln_strbuf_text(&q->out, "{\"items\":[");
    for (uint32_t i = 0; !st && i < count; i++) {
        if (!is_asked(&stat[i], task, target, search) || total++ < offset || shown == limit)
            continue;
        if (shown++) kiln_strbuf_char(&q->out, ',');
        st = print_stat(db, q, &stat[i]);
    }
    kiln_strbuf_printf(&q->out, "],\"total\":%u}", total);
    return st;
}

void kiln_web_records_stats(kiln_call *call) { kiln_records_ask(call, answer_stats); }
void kiln_web_tasks(kiln_call *call) { kiln_records_ask(call, answer_stats); }

/* ---- comparing ------------------------------------------------------------------------------- */

/* Two digits or four. */
static bool read_digits(kiln_str text, size_t at, size_t count, int *out) {
    uint64_t value = 0;
    if (at + count > text.size) return false;
    const kiln_str digits = kiln_str_slice(text, at, at + count);
    for (size_t i = 0; i < count; i++)
        if (digits.data[i] < '0' || digits.data[i] > '9') return false;
    if (!kiln_str_to_u64(digits, &value)) return false;
    *out = (int)value;
    return true;
}

/* Days from 1970-01-01 to a day of the Gregorian calendar. */
static int64_t days_of(int year, int month, int day) {
    const int before_march = month <= 2;
    const int64_t y = (int64_t)year - before_march, era = y / 400, of_era = y % 400;
    const int64_t of_year = (153 * (month + (before_march ? 9 : -3)) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

bool kiln_web_date_parse(kiln_str text, int64_t *out_wall_ns) {
    int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0;
    const bool has_time = text.size == 20;
    if (text.size != 10 && !has_time) return false;
    if (!read_digits(text, 0, 4, &year) || !read_digits(text, 5, 2, &month) ||
        !read_digits(text, 8, 2, &day) || text.data[4] != '-' || text.data[7] != '-')
        return false;
    if (has_time && (!read_digits(text, 11, 2, &hour) || !read_digits(text, 14, 2, &minute) ||
                     !read_digits(text, 17, 2, &second) || text.data[10] != 'T' ||
                     text.data[13] != ':' || text.data[16] != ':' || text.data[19] != 'Z'))
        return false;
    if (year < 1970 || year > 2200 || month < 1 || month > 12 || day < 1 || day > 31) return false;
    if (hour > 23 || minute > 59 || second > 59) return false;
    *out_wall_ns =
        (((days_of(year, month, day) * 24 + hour) * 60 + minute) * 60 + second) * NS_PER_S;
    return true;
}

/* A day, a time, or milliseconds since 1970. */
static kiln_status read_time(kiln_str text, int64_t *out_wall_ns) {
    uint64_t ms = 0;
    if (kiln_web_date_parse(text, out_wall_ns)) return KILN_OK;
    if (!kiln_str_to_u64(text, &ms) || ms > INT64_MAX / NS_PER_MS || !ms)
        return KILN_ERROR(INVALID_ARGUMENT, "from and to are days or times, such as 2026-01-31 or "
                                            "2026-01-31T12:00:00Z, or milliseconds since 1970");
    *out_wall_ns = (int64_t)ms * NS_PER_MS;
    return KILN_OK;
}

/* The two sides of a comparison. */
static kiln_status sides_of(kiln_question *q, kiln_db_filter side[2]) {
    static const char *const targets[] = {"a", "b"}, *const times[] = {"from", "to"};
    const kiln_call *call = q->call;
    const bool by_target = kiln_call_text(call, "a").size && kiln_call_text(call, "b").size;
    const bool by_time = kiln_call_text(call, "from").size && kiln_call_text(call, "to").size;
    kiln_status st = KILN_OK;
    if (by_target == by_time)
        return KILN_ERROR(INVALID_ARGUMENT, "name two targets, a and b, or two times, from and to");
    for (int i = 0; !st && i < 2; i++) {
        side[i] =
            (kiln_db_filter){.task_key = kiln_call_text(call, "task"), .projects = q->projects};
        st = resolve_target(q, kiln_call_text(call, by_target ? targets[i] : "target"),
                            &side[i].target);
        if (!st && by_time) st = read_time(kiln_call_text(call, times[i]), &side[i].before_wall_ns);
    }
    return st;
}

static void print_side(const char *name, const kiln_db_record *r, kiln_strbuf *out) {
    kiln_strbuf_printf(out, ",\"%s\":", name);
    if (!r) {
        kiln_strbuf_text(out, "null");
        return;
    }
    kiln_strbuf_text(out, "{\"trial_id\":");
    kiln_db_text_print_json(r->trial_id, out);
    kiln_json_add_text(out, "target", r->target);
    kiln_json_add_text(out, "job_id", r->job_id);
    kiln_json_add_text(out, "trace_hash", r->trace_hash);
    kiln_json_add_real(out, "median_ns", r->median_ns);
    kiln_json_add_int(out, "stored_wall_ns", r->stored_wall_ns);
    kiln_strbuf_char(out, '}');
}

static int compare_keys(const kiln_db_record *a, const kiln_db_record *b, bool by_target) {
    const size_t size = KILN_MIN(a->task_key.size, b->task_key.size);
    int order = memcmp(a->task_key.data, b->task_key.data, size);
    if (!order)
        order = (a->task_key.size > b->task_key.size) - (a->task_key.size < b->task_key.size);
    if (order || !by_target) return order;
    const size_t common = KILN_MIN(a->target.size, b->target.size);
    order = memcmp(a->target.data, b->target.data, common);
    return order ? order : (a->target.size > b->target.size) - (a->target.size < b->target.size);
}

static kiln_status print_pair(kiln_db *db, kiln_question *q, const kiln_db_record *a,
                              const kiln_db_record *b) {
    const kiln_str key = a ? a->task_key : b->task_key;
    kiln_db_task task = {0};
    bool found = false;
    kiln_status st = kiln_db_find_task(db, key, &q->arena, &task, &found);
    if (st) return st;
    kiln_strbuf_text(&q->out, "{\"task\":");
    kiln_db_text_print_json(key, &q->out);
    kiln_json_add_text(&q->out, "label", kiln_record_label(task.op, task.canonical, &q->arena));
    print_side("a", a, &q->out);
    print_side("b", b, &q->out);
    kiln_json_add_real(&q->out, "ratio", a && b ? b->median_ns / a->median_ns : 0);
    kiln_strbuf_char(&q->out, '}');
    return KILN_OK;
}

/* Both lists are in the order of tasks, and targets. */
static kiln_status answer_compare(kiln_db *db, kiln_question *q) {
    const uint64_t offset = kiln_call_u64(q->call, "offset", 0);
    const uint64_t limit = kiln_call_u64(q->call, "limit", LIST_DEFAULT);
    kiln_db_filter side[2];
    kiln_db_record *record[2] = {NULL};
    uint32_t count[2] = {0}, at[2] = {0}, total = 0;
    kiln_status st = sides_of(q, side);
    for (int i = 0; !st && i < 2; i++)
        st = kiln_db_best(db, &side[i], &q->arena, &record[i], &count[i]);
    if (st) return st;
    const bool by_target = side[0].before_wall_ns != 0;
    kiln_strbuf_text(&q->out, "{\"items\":[");
    for (uint32_t shown = 0; !st && (at[0] < count[0] || at[1] < count[1]);) {
        const kiln_db_record *a = at[0] < count[0] ? &record[0][at[0]] : NULL;
        const kiln_db_record *b = at[1] < count[1] ? &record[1][at[1]] : NULL;
        const int order = !a ? 1 : !b ? -1 : compare_keys(a, b, by_target);
        at[0] += order <= 0;
        at[1] += order >= 0;
        if (total++ < offset || shown == limit) continue;
        if (shown++) kiln_strbuf_char(&q->out, ',');
        st = print_pair(db, q, order <= 0 ? a : NULL, order >= 0 ? b : NULL);
    }
    kiln_strbuf_printf(&q->out, "],\"total\":%u}", total);
    return st;
}

void kiln_web_records_compare(kiln_call *call) { kiln_records_ask(call, answer_compare); }

/* ---- one task -------------------------------------------------------------------------------- */

static kiln_status answer_task(kiln_db *db, kiln_question *q) {
    const kiln_str key = kiln_call_text(q->call, "key");
    kiln_db_task task = {0};
    kiln_db_stat *stat = NULL;
    uint32_t count = 0, shown = 0;
    bool found = false;
    kiln_status st = kiln_db_find_task(db, key, &q->arena, &task, &found);
    if (!st) st = kiln_db_stats_of(db, q->projects, &q->arena, &stat, &count);
    if (st) return st;
    kiln_strbuf_text(&q->out, "{\"task\":");
    kiln_db_text_print_json(key, &q->out);
    kiln_json_add_text(&q->out, "op", task.op);
    kiln_json_add_text(&q->out, "label", kiln_record_label(task.op, task.canonical, &q->arena));
    kiln_json_add_real(&q->out, "flops", task.flops);
    kiln_json_add_real(&q->out, "bytes", kiln_record_bytes(task.canonical));
    kiln_json_add_text(&q->out, "program", task.canonical);
    kiln_strbuf_text(&q->out, ",\"targets\":[");
    for (uint32_t i = 0; !st && i < count; i++) {
        if (!kiln_str_equal(stat[i].task_key, key)) continue;
        if (shown++) kiln_strbuf_char(&q->out, ',');
        st = print_stat(db, q, &stat[i]);
    }
    kiln_strbuf_text(&q->out, "]}");
    return !st && !shown ? KILN_ERROR(NOT_FOUND, "there is no record of this task") : st;
}

void kiln_web_task(kiln_call *call) { kiln_records_ask(call, answer_task); }
