/* What a tracker counts, as text for Prometheus and as JSON. */
#include <math.h>

#include "base/text.h"
#include "tracker/state.h"

kiln_tracker_counts kiln_tracker_counts_of(const kiln_tracker *t) {
    kiln_tracker_counts counts = {
        .boards = t->board.count,
        .leases = t->lease.count,
        .requests = t->request_count,
        .jobs_open = t->jobs_open,
        .tuners = t->tuner.count,
        .grants = t->grants,
        .expired = t->expired,
        .results = t->results,
        .stale_refused = t->stale_refused,
        .rights_refused = t->rights_refused,
        .quota_refused = t->quota_refused,
        .quarantines = t->quarantines,
        .abandoned = t->abandoned,
    };
    kiln_thread_walks(t->board.count);
    for (uint32_t i = 0; i < t->board.count; i++) {
        const kiln_tracker_board *board = t->board.data[i];
        counts.boards_connected += board->peer != NULL;
        counts.boards_available += board->available;
        counts.boards_off_duty += board->duty != KILN_DUTY_IN_SERVICE;
        counts.slots += board->available ? kiln_tracker_board_slots(board) : 0;
    }
    kiln_thread_walks(t->peer.count);
    for (uint32_t i = 0; i < t->peer.count; i++)
        counts.clients += kiln_tracker_is_person(t->peer.data[i]);
    return counts;
}

/* ---- Prometheus: text exposition format 0.0.4 ---- */

static const double wait_bound_s[] = {0.001, 0.01, 0.1, 1, 10, 60, 600, 3600};
_Static_assert(KILN_ARRAY_COUNT(wait_bound_s) + 1 == KILN_TRACKER_WAIT_BUCKETS, "and one above");

uint32_t kiln_tracker_wait_bucket(uint64_t wait_ns) {
    uint32_t bucket = 0;
    while (bucket < KILN_ARRAY_COUNT(wait_bound_s) && (double)wait_ns / 1e9 > wait_bound_s[bucket])
        bucket++;
    return bucket;
}

static void print_waits(const kiln_tracker *t, kiln_strbuf *out) {
    uint64_t count = 0;
    kiln_strbuf_text(out, "# HELP kiln_lease_wait_seconds from request to grant\n"
                          "# TYPE kiln_lease_wait_seconds histogram\n");
    for (uint32_t i = 0; i < KILN_TRACKER_WAIT_BUCKETS; i++) {
        count += t->waits[i];
        kiln_strbuf_text(out, "kiln_lease_wait_seconds_bucket{le=\"");
        if (i < KILN_ARRAY_COUNT(wait_bound_s))
            kiln_strbuf_printf(out, "%.9g", wait_bound_s[i]);
        else
            kiln_strbuf_text(out, "+Inf");
        kiln_strbuf_printf(out, "\"} %llu\n", (unsigned long long)count);
    }
    kiln_strbuf_printf(out,
                       "kiln_lease_wait_seconds_sum %.9g\nkiln_lease_wait_seconds_count %llu\n",
                       (double)t->waited_ns / 1e9, (unsigned long long)count);
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
    X(busy_slots, "gauge", "slots that are leased", b->busy)                                   \
    X(results_total, "counter", "results it ever gave", b->results)                            \
    X(faults_total, "counter", "results blamed on it, and losses under trials", b->faults)     \
    X(noise_ratio, "gauge", "half the interval of a trial's figure over it, lately", b->noise) \
    X(drift_ratio, "gauge", "its reference kernel's time over the usual one", b->drift)        \
    X(temperature_celsius, "gauge", "last reading", (double)b->env.temperature_mc / 1e3)       \
    X(silence_seconds, "gauge", "since it was heard",                                          \
      (double)(t->now_ns - (b->peer ? b->peer->heard_ns : b->lost_ns)) / 1e9)

/* As "%.9g" prints it; whole numbers, which nearly all are, without its cost. */
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

static void print_board_value(kiln_str name, kiln_str labels, double value, kiln_strbuf *out) {
    kiln_strbuf_append(out, name.data, name.size);
    kiln_strbuf_append(out, labels.data, labels.size);
    print_value(value, out);
    kiln_strbuf_char(out, '\n');
}

/* `label`: of each board, as it stands in each of its lines. */
static void print_board_metrics(const kiln_tracker *t, const kiln_str *label, kiln_strbuf *out) {
#define X(name, kind, doc, value)                                                                  \
    kiln_strbuf_text(out, "# HELP kiln_board_" #name " " doc "\n# TYPE kiln_board_" #name " " kind \
                          "\n");                                                                   \
    kiln_thread_walks(t->board.count);                                                             \
    for (uint32_t i = 0; i < t->board.count; i++) {                                                \
        const kiln_tracker_board *b = t->board.data[i];                                            \
        if (!b->known) continue;                                                                   \
        print_board_value(KILN_STR("kiln_board_" #name "{"), label[i], (double)(value), out);      \
    }
    BOARD_METRICS(X)
#undef X
}

static void print_boards(const kiln_tracker *t, kiln_strbuf *out) {
    kiln_arena scratch;
    kiln_strbuf text = {0};
    kiln_arena_init(&scratch, 0);
    kiln_str *label = KILN_ARENA_ARRAY(&scratch, kiln_str, t->board.count);
    kiln_thread_walks(t->board.count);
    for (uint32_t i = 0; i < t->board.count; i++) {
        const kiln_tracker_board *board = t->board.data[i];
        kiln_strbuf_reset(&text);
        print_label(&text, "node", kiln_str_from(board->node));
        kiln_strbuf_char(&text, ',');
        print_label(&text, "key", board->up.key);
        kiln_strbuf_text(&text, "} ");
        label[i] = (kiln_str){kiln_arena_copy(&scratch, text.data, text.size), text.size};
    }
    print_board_metrics(t, label, out);
    kiln_strbuf_deinit(&text);
    kiln_arena_deinit(&scratch);
}

/* Slots of each target, of boards that have several. */
static void print_devices(const kiln_tracker *t, kiln_strbuf *out) {
    static const char *const name[] = {"slots", "busy"};
    static const char *const doc[] = {"slots that a target of a board has",
                                      "of these, slots that are leased"};
    for (uint32_t which = 0; which < KILN_ARRAY_COUNT(name); which++) {
        kiln_strbuf_printf(out, "# HELP kiln_target_%s %s\n# TYPE kiln_target_%s gauge\n",
                           name[which], doc[which], name[which]);
        kiln_thread_walks(t->board.count);
        for (uint32_t i = 0; i < t->board.count; i++) {
            const kiln_tracker_board *board = t->board.data[i];
            for (uint32_t d = 0; board->device_count > 1 && d < board->device_count; d++) {
                const kiln_msg_board_target *said = board->device[d].said;
                kiln_strbuf_printf(out, "kiln_target_%s{", name[which]);
                print_label(out, "node", kiln_str_from(board->node));
                kiln_strbuf_char(out, ',');
                print_label(out, "target", said->target);
                kiln_strbuf_printf(out, "} %u\n", which == 0 ? said->slots : said->busy);
            }
        }
    }
}

/* X(name, kind, doc, value of project `p`) */
#define PROJECT_METRICS(X)                                                              \
    X(leases, "gauge", "leases that a project holds", p->held)                          \
    X(slots, "gauge", "slots of boards that a project holds", p->slots)                 \
    X(board_seconds_today, "gauge", "time of slots that a project had since 00:00 UTC", \
      kiln_tracker_project_day_ns(t, p) / 1e9)                                          \
    X(refused_total, "counter", "requests that a project's quotas refused", p->refused)

static void print_projects(const kiln_tracker *t, kiln_strbuf *out) {
#define X(metric, kind, doc, value)                                                               \
    kiln_strbuf_text(out, "# HELP kiln_project_" #metric " " doc "\n# TYPE kiln_project_" #metric \
                          " " kind "\n");                                                         \
    for (uint32_t i = 0; i < t->project.count; i++) {                                             \
        const kiln_tracker_project *p = t->project.data[i];                                       \
        kiln_strbuf_text(out, "kiln_project_" #metric "{");                                       \
        print_label(out, "project", kiln_str_from(p->name));                                      \
        kiln_strbuf_text(out, "} ");                                                              \
        print_value((double)(value), out);                                                        \
        kiln_strbuf_char(out, '\n');                                                              \
    }
    PROJECT_METRICS(X)
#undef X
}

void kiln_tracker_print_metrics(const kiln_tracker *t, kiln_strbuf *out) {
    const kiln_tracker_counts counts = kiln_tracker_counts_of(t);
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
    print_waits(t, out);
    print_projects(t, out);
    print_boards(t, out);
    print_devices(t, out);
}

/* ---- JSON ---- */

void kiln_tracker_print_state(kiln_tracker *t, kiln_strbuf *out) {
    const kiln_tracker_counts counts = kiln_tracker_counts_of(t);
    kiln_strbuf_text(out, "{\"counts\":{");
    const char *comma = "";
#define X(type, name, kind, doc)                                                             \
    kiln_strbuf_printf(out, "%s\"" #name "\":%llu", comma, (unsigned long long)counts.name); \
    comma = ",";
#include "tracker/counts.def"
#undef X
    kiln_strbuf_text(out, "},\"boards\":[");
    kiln_tracker_print_boards(t, out);
    kiln_strbuf_text(out, "],\"jobs\":[");
    kiln_tracker_print_jobs(t, out);
    kiln_strbuf_text(out, "]}\n");
}
