/* The tracker's counts, boards and jobs as text for Prometheus and as JSON. */
#include <math.h>

#include "base/alloc.h"
#include "base/text.h"
#include "tracker/state.h"

kiln_tracker_counts kiln_tracker_counts_of(const kiln_tracker *t) {
    kiln_tracker_counts counts = {
        .boards = t->boards.all.count,
        .leases = t->leases.all.count,
        .requests = t->queue.count,
        .jobs_open = t->jobs.open,
        .tuners = t->peers.tuners.count,
        .grants = t->leases.grants,
        .expired = t->leases.expired,
        .results = t->relay.results,
        .stale_refused = t->relay.stale_refused,
        .rights_refused = t->access.refused,
        .quota_refused = t->projects.quota_refused,
        .quarantines = t->board_service.quarantines,
        .abandoned = t->assign.abandoned,
    };
    kiln_thread_walks(t->boards.all.count);
    for (uint32_t i = 0; i < t->boards.all.count; i++) {
        const kiln_tracker_board *board = t->boards.all.data[i];
        counts.boards_connected += board->peer != NULL;
        counts.boards_available += board->available;
        counts.boards_off_duty += board->service != KILN_BOARD_IN_SERVICE;
        counts.slots += board->available ? kiln_tracker_board_slots(board) : 0;
    }
    kiln_thread_walks(t->peers.all.count);
    for (uint32_t i = 0; i < t->peers.all.count; i++)
        counts.clients += kiln_tracker_is_person(t->peers.all.data[i]);
    return counts;
}

/* ---- Prometheus: text exposition format 0.0.4 ---- */

static void print_waits(const kiln_tracker *t, kiln_strbuf *out) {
    uint64_t count = 0;
    kiln_strbuf_text(out, "# HELP kiln_lease_wait_seconds from request to grant\n"
                          "# TYPE kiln_lease_wait_seconds histogram\n");
    for (uint32_t i = 0; i < KILN_TRACKER_WAIT_BUCKETS; i++) {
        count += t->leases.waits[i];
        kiln_strbuf_text(out, "kiln_lease_wait_seconds_bucket{le=\"");
        if (i < KILN_ARRAY_COUNT(kiln_tracker_wait_bound_s))
            kiln_strbuf_printf(out, "%.9g", kiln_tracker_wait_bound_s[i]);
        else
            kiln_strbuf_text(out, "+Inf");
        kiln_strbuf_printf(out, "\"} %llu\n", (unsigned long long)count);
    }
    kiln_strbuf_printf(out,
                       "kiln_lease_wait_seconds_sum %.9g\nkiln_lease_wait_seconds_count %llu\n",
                       (double)t->leases.waited_ns / 1e9, (unsigned long long)count);
}

/* How long the oldest of them wait. */
static void print_oldest(const kiln_tracker *t, kiln_strbuf *out) {
    uint64_t request_ns = t->effects.now_ns, job_ns = t->effects.now_ns;
    kiln_thread_walks(t->jobs.all.count);
    for (uint32_t i = 0; i < t->jobs.all.count; i++) {
        const kiln_tracker_job *job = t->jobs.all.data[i];
        if (job->state == KILN_JOB_WAITING) job_ns = KILN_MIN(job_ns, job->opened_ns);
        for (uint32_t k = 0; k < job->queue.requests.count; k++)
            request_ns = KILN_MIN(request_ns, job->queue.requests.data[k]->since_ns);
    }
    kiln_strbuf_printf(out,
                       "# HELP kiln_request_oldest_seconds age of the lease request that waits "
                       "longest; 0: none waits\n# TYPE kiln_request_oldest_seconds gauge\n"
                       "kiln_request_oldest_seconds %.9g\n"
                       "# HELP kiln_job_waiting_oldest_seconds age of the oldest job that no tuner "
                       "has; 0: there is none\n# TYPE kiln_job_waiting_oldest_seconds gauge\n"
                       "kiln_job_waiting_oldest_seconds %.9g\n",
                       (double)(t->effects.now_ns - request_ns) / 1e9,
                       (double)(t->effects.now_ns - job_ns) / 1e9);
}

/* A label's value: printable; quotes and backslashes are escaped. */
static void print_label(kiln_strbuf *out, const char *name, kiln_str value) {
    kiln_strbuf_printf(out, "%s=\"", name);
    while (value.size) {
        char piece[KILN_TEXT_PIECE_MAX];
        const size_t size = kiln_text_step(&value, KILN_TEXT_LINE, piece);
        if (*piece == '\\' || *piece == '"') kiln_strbuf_char(out, '\\');
        kiln_strbuf_append(out, piece, size);
    }
    kiln_strbuf_char(out, '"');
}

/* X(name, kind, doc, value of board `b`) */
#define BOARD_METRICS(X)                                                                       \
    X(available, "gauge", "1: it may be leased", b->available)                                 \
    X(quarantined, "gauge", "1: out of service for its faults",                                \
      b->service == KILN_BOARD_QUARANTINED)                                                    \
    X(busy_slots, "gauge", "slots that are leased", b->busy)                                   \
    X(results_total, "counter", "results it ever gave", b->results)                            \
    X(faults_total, "counter", "results blamed on it, and losses under trials", b->faults)     \
    X(noise_ratio, "gauge", "half the interval of a trial's figure over it, lately", b->noise) \
    X(drift_ratio, "gauge", "its reference kernel's time over the usual one", b->drift)        \
    X(temperature_celsius, "gauge", "last reading", (double)b->env.temperature_mc / 1e3)       \
    X(silence_seconds, "gauge", "since it was heard",                                          \
      (double)(t->effects.now_ns - (b->peer ? b->peer->heard_ns : b->lost_ns)) / 1e9)

/* Prints like "%.9g", but faster for whole numbers, which nearly all values are. */
static void print_value(double value, kiln_strbuf *out) {
    char digits[16];
    size_t at = sizeof digits;
    if (!(value >= 0 && value < 1e9) || value != (double)(uint32_t)value || signbit(value)) {
        kiln_strbuf_printf(out, "%.9g", value);
        return;
    }
    uint32_t left = (uint32_t)value;
    do digits[--at] = (char)('0' + left % 10);
    while (left /= 10);
    kiln_strbuf_append(out, digits + at, sizeof digits - at);
}

/* X(name, kind, doc, value of a device): only for boards with several devices */
#define DEVICE_METRICS(X)                                                    \
    X(slots, "gauge", "slots that a target of a board has", reported->slots) \
    X(busy, "gauge", "of these, slots that are leased", reported->busy)

/* X(name, kind, doc, value of project `p`) */
#define PROJECT_METRICS(X)                                                              \
    X(leases, "gauge", "leases that a project holds", p->held)                          \
    X(slots, "gauge", "slots of boards that a project holds", p->slots)                 \
    X(board_seconds_today, "gauge", "time of slots that a project had since 00:00 UTC", \
      kiln_tracker_project_day_ns(t, p) / 1e9)                                          \
    X(refused_total, "counter", "requests that a project's quotas refused", p->refused)

/* ---- Pages, a slice at a time ---- */

/* Prometheus requires that all lines of a metric stand together. So each project, board and device
 * adds a line to the list of each metric, and the lists are joined at the end. */
enum {
#define X(name, kind, doc, value) LIST_PROJECT_##name,
    PROJECT_METRICS(X)
#undef X
#define X(name, kind, doc, value) LIST_BOARD_##name,
        BOARD_METRICS(X)
#undef X
#define X(name, kind, doc, value) LIST_TARGET_##name,
            DEVICE_METRICS(X)
#undef X
                LIST_COUNT
};

typedef enum stage {
    STAGE_HEAD,
    STAGE_PROJECTS,
    STAGE_LISTED_BOARDS,
    STAGE_LISTS,
    STAGE_BOARDS,
    STAGE_JOBS,
    STAGE_END
} stage;

struct kiln_tracker_page {
    kiln_tracker *t;
    kiln_tracker_page_kind kind;
    stage stage;
    uint64_t last, until; /* number of the last row that was printed, and of the newest of all */
    uint32_t at;          /* behind that row, when it was printed */
    bool has_rows;        /* of this stage */
    kiln_strbuf list[LIST_COUNT];
    uint32_t lists_done;
    kiln_strbuf label; /* of the row under way */
};

/* The next row up to `until`; NULL: there are no more. Removed rows shift the later ones to the
 * front; new rows come last. */
#define NEXT_ROW(kind, list)                                                                \
    static kiln_tracker_##kind *next_##kind(kiln_tracker_page *page) {                      \
        const kiln_tracker *t = page->t;                                                    \
        page->at = KILN_MIN(page->at, t->list.count);                                       \
        while (page->at > 0 && t->list.data[page->at - 1]->number > page->last) page->at--; \
        if (page->at == t->list.count || t->list.data[page->at]->number > page->until)      \
            return NULL;                                                                    \
        kiln_thread_walks(1);                                                               \
        page->last = t->list.data[page->at]->number;                                        \
        return t->list.data[page->at++];                                                    \
    }
NEXT_ROW(project, projects.all)
NEXT_ROW(board, boards.all)
NEXT_ROW(job, jobs.all)
#undef NEXT_ROW

static void enter(kiln_tracker_page *page, stage next) {
    page->stage = next;
    page->last = 0;
    page->at = 0;
    page->has_rows = false;
}

/* ---- Metrics ---- */

static void print_sample(kiln_strbuf *list, kiln_str name, const kiln_strbuf *label, double value) {
    kiln_strbuf_str(list, name);
    kiln_strbuf_str(list, kiln_strbuf_view(label));
    print_value(value, list);
    kiln_strbuf_char(list, '\n');
}

static void introduce(kiln_strbuf *list, const char *name, const char *doc, const char *kind) {
    kiln_strbuf_printf(list, "# HELP %s %s\n# TYPE %s %s\n", name, doc, name, kind);
}

static void begin_metrics(kiln_tracker_page *page, kiln_strbuf *out) {
    const kiln_tracker_counts counts = kiln_tracker_counts_of(page->t);
#define SUFFIX_GAUGE ""
#define SUFFIX_COUNTER "_total"
#define KIND_GAUGE "gauge"
#define KIND_COUNTER "counter"
#define X(type, name, kind, doc)                                                    \
    kiln_strbuf_printf(out,                                                         \
                       "# HELP kiln_" #name SUFFIX_##kind                           \
                       " " doc "\n# TYPE kiln_" #name SUFFIX_##kind " " KIND_##kind \
                       "\nkiln_" #name SUFFIX_##kind " %llu\n",                     \
                       (unsigned long long)counts.name);
#include "tracker/counts.def"
#undef X
    print_waits(page->t, out);
    print_oldest(page->t, out);
#define X(name, kind, doc, value) \
    introduce(&page->list[LIST_PROJECT_##name], "kiln_project_" #name, doc, kind);
    PROJECT_METRICS(X)
#undef X
#define X(name, kind, doc, value) \
    introduce(&page->list[LIST_BOARD_##name], "kiln_board_" #name, doc, kind);
    BOARD_METRICS(X)
#undef X
#define X(name, kind, doc, value) \
    introduce(&page->list[LIST_TARGET_##name], "kiln_target_" #name, doc, kind);
    DEVICE_METRICS(X)
#undef X
    enter(page, STAGE_PROJECTS);
}

static void list_project(kiln_tracker_page *page) {
    kiln_tracker *t = page->t;
    const kiln_tracker_project *p = next_project(page);
    if (!p) {
        enter(page, STAGE_LISTED_BOARDS);
        return;
    }
    kiln_strbuf_reset(&page->label);
    print_label(&page->label, "project", kiln_str_from(p->name));
    kiln_strbuf_text(&page->label, "} ");
#define X(name, kind, doc, value)                                                       \
    print_sample(&page->list[LIST_PROJECT_##name], KILN_STR("kiln_project_" #name "{"), \
                 &page->label, (double)(value));
    PROJECT_METRICS(X)
#undef X
}

static void list_devices(kiln_tracker_page *page, const kiln_tracker_board *b) {
    for (uint32_t d = 0; b->device_count > 1 && d < b->device_count; d++) {
        const kiln_msg_board_target *reported = b->device[d].reported;
        kiln_strbuf_reset(&page->label);
        print_label(&page->label, "node", kiln_str_from(b->node));
        kiln_strbuf_char(&page->label, ',');
        print_label(&page->label, "target", reported->target);
        kiln_strbuf_text(&page->label, "} ");
#define X(name, kind, doc, value)                                                     \
    print_sample(&page->list[LIST_TARGET_##name], KILN_STR("kiln_target_" #name "{"), \
                 &page->label, (double)(value));
        DEVICE_METRICS(X)
#undef X
    }
}

static void list_board(kiln_tracker_page *page) {
    const kiln_tracker *t = page->t;
    const kiln_tracker_board *b = next_board(page);
    if (!b) {
        enter(page, STAGE_LISTS);
        return;
    }
    if (!b->known) return;
    kiln_strbuf_reset(&page->label);
    print_label(&page->label, "node", kiln_str_from(b->node));
    kiln_strbuf_char(&page->label, ',');
    print_label(&page->label, "key", b->up.key);
    kiln_strbuf_text(&page->label, "} ");
#define X(name, kind, doc, value)                                                                 \
    print_sample(&page->list[LIST_BOARD_##name], KILN_STR("kiln_board_" #name "{"), &page->label, \
                 (double)(value));
    BOARD_METRICS(X)
#undef X
    list_devices(page, b);
}

static void join_list(kiln_tracker_page *page, kiln_strbuf *out) {
    kiln_strbuf *list = &page->list[page->lists_done++];
    kiln_strbuf_str(out, kiln_strbuf_view(list));
    kiln_strbuf_deinit(list);
    if (page->lists_done == LIST_COUNT) enter(page, STAGE_END);
}

/* ---- JSON ---- */

static void begin_state(kiln_tracker_page *page, kiln_strbuf *out) {
    const kiln_tracker_counts counts = kiln_tracker_counts_of(page->t);
    kiln_strbuf_text(out, "{\"counts\":{");
    const char *comma = "";
#define X(type, name, kind, doc)                                                             \
    kiln_strbuf_printf(out, "%s\"" #name "\":%llu", comma, (unsigned long long)counts.name); \
    comma = ",";
#include "tracker/counts.def"
#undef X
    kiln_strbuf_text(out, "},\"boards\":[");
    enter(page, STAGE_BOARDS);
}

static void print_record(kiln_tracker_page *page, kiln_record_type record, const void *row,
                         kiln_strbuf *out) {
    if (page->has_rows) kiln_strbuf_char(out, ',');
    page->has_rows = true;
    kiln_record_print_json(record, row, out);
}

static void print_board(kiln_tracker_page *page, kiln_strbuf *out) {
    const kiln_tracker_board *board = next_board(page);
    if (!board) {
        kiln_strbuf_text(out, "],\"jobs\":[");
        enter(page, STAGE_JOBS);
    } else if (board->known) {
        const kiln_msg_board_row row = kiln_tracker_board_row(page->t, board, NULL);
        print_record(page, KILN_RECORD_board_row, &row, out);
    }
}

static void print_job(kiln_tracker_page *page, kiln_strbuf *out) {
    const kiln_tracker_job *job = next_job(page);
    if (!job) {
        kiln_strbuf_text(out, "]}\n");
        enter(page, STAGE_END);
    } else {
        const kiln_msg_job_row row = kiln_tracker_job_row(page->t, job, true);
        print_record(page, KILN_RECORD_job_row, &row, out);
    }
}

/* ---- Both ---- */

kiln_tracker_page *kiln_tracker_page_create(kiln_tracker *t, kiln_tracker_page_kind kind) {
    kiln_tracker_page *page = kiln_alloc(sizeof *page);
    page->t = t;
    page->kind = kind;
    page->until = t->effects.last_row;
    return page;
}

static void print_next(kiln_tracker_page *page, kiln_strbuf *out) {
    switch (page->stage) {
    case STAGE_HEAD:
        if (page->kind == KILN_TRACKER_PAGE_METRICS)
            begin_metrics(page, out);
        else
            begin_state(page, out);
        break;
    case STAGE_PROJECTS: list_project(page); break;
    case STAGE_LISTED_BOARDS: list_board(page); break;
    case STAGE_LISTS: join_list(page, out); break;
    case STAGE_BOARDS: print_board(page, out); break;
    case STAGE_JOBS: print_job(page, out); break;
    case STAGE_END: break;
    }
}

static size_t size_of(const kiln_tracker_page *page, const kiln_strbuf *out) {
    size_t size = out->size;
    for (uint32_t i = 0; i < LIST_COUNT; i++) size += page->list[i].size;
    return size;
}

bool kiln_tracker_page_step(kiln_tracker_page *page, kiln_strbuf *out) {
    const size_t begin = size_of(page, out);
    for (uint32_t i = 0; i < KILN_TRACKER_SLICE_ROWS && page->stage != STAGE_END; i++) {
        const stage before = page->stage;
        print_next(page, out);
        if (before == STAGE_LISTS || size_of(page, out) - begin >= KILN_TRACKER_SLICE_BYTES) break;
    }
    return page->stage != STAGE_END;
}

void kiln_tracker_page_destroy(kiln_tracker_page *page) {
    if (!page) return;
    for (uint32_t i = 0; i < LIST_COUNT; i++) kiln_strbuf_deinit(&page->list[i]);
    kiln_strbuf_deinit(&page->label);
    kiln_free(page);
}
