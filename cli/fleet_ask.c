#include "cli/fleet_ask.h"

#include <stdio.h>

#include "base/clock.h"

#define WAIT_MS 5000u   /* that a board has to answer */
#define GRACE_MS 10000u /* that the tracker has beyond it */

/* ---- Pings ---- */

typedef struct probing {
    const kiln_command_call *call;
    kiln_msg_probe_row row; /* the last one */
    uint32_t boards, silent;
    kiln_strbuf names; /* of silent ones */
    bool shows, last, lost;
} probing;

static void show_row(const kiln_command_call *c, const kiln_msg_probe_row *row) {
    if (c->json) {
        kiln_print_record(KILN_RECORD_probe_row, row);
        return;
    }
    printf("%-12.*s %-8.*s ", KILN_STR_ARG(row->key),
           KILN_STR_ARG(kiln_str_slice(row->node, 0, 8)));
    if (!row->answered) {
        printf("   no answer: %.*s\n", KILN_STR_ARG(row->text));
        return;
    }
    printf("%9.2f ms  ", (double)row->round_trip_ns / 1e6);
    if (row->clock)
        printf("%+12.1f ms", row->ahead_ms);
    else
        printf("%15s", "unknown");
    printf("  %u  %.*s\n", row->version, KILN_STR_ARG(row->software));
}

static void on_probed(void *context, const kiln_message *message) {
    probing *p = context;
    const kiln_command_call *c = p->call;
    if (!message) p->lost = true;
    if (!message || message->type != KILN_MSG_PROBED) return;
    for (uint32_t i = 0; i < message->probed.boards.count; i++) {
        const kiln_msg_probe_row *row = &message->probed.boards.item[i];
        p->boards++;
        if (!row->answered)
            kiln_strbuf_printf(&p->names, "%s%.*s", p->silent++ ? ", " : "",
                               KILN_STR_ARG(row->key));
        p->row = *row;
        kiln_record_copy(KILN_RECORD_probe_row, &p->row, c->tracker.process);
        if (p->shows) show_row(c, row);
    }
    p->last |= message->probed.last;
}

/* Until all have answered or will not. */
static kiln_status probe(kiln_command_call *c, probing *p) {
    kiln_message question = {.type = KILN_MSG_PROBE,
                             .probe = {.board = kiln_str_from(c->tracker.id), .wait_ms = WAIT_MS}};
    const uint64_t until_ns = kiln_clock_ns() + (WAIT_MS + GRACE_MS) * KILN_NS_PER_MS;
    kiln_status st = KILN_OK;
    kiln_tracker_listen(&c->tracker, on_probed, p);
    question.stream = c->tracker.stream;
    kiln_client_send(c->tracker.client, &question);
    while (!st && !p->last && !p->lost && !c->tracker.stopped && kiln_clock_ns() < until_ns)
        st = kiln_tracker_watch_on(&c->tracker, KILN_NS_PER_S);
    if (!st && c->tracker.stopped) return KILN_ERROR(CANCELLED, "stopped");
    if (!st && !p->last)
        st = KILN_ERROR(UNAVAILABLE, "the tracker did not report the answers of the boards");
    return st;
}

static bool knows_probes(const kiln_command_call *c) {
    return kiln_client_version(c->tracker.client) >= kiln_message_since(KILN_MSG_PROBE);
}

/* One round trip to the tracker. */
static kiln_status ping_tracker(kiln_command_call *c) {
    kiln_message answer = {0}, ping = {.type = KILN_MSG_PING};
    const uint64_t start_ns = kiln_clock_ns();
    kiln_status st = kiln_client_ask(c->tracker.client, &ping, c->tracker.process, &answer);
    const double ms = (double)(kiln_clock_ns() - start_ns) / 1e6;
    if (st) return st;
    if (c->json)
        kiln_json_line(json_pack("{s:s, s:f}", "event", "ping", "tracker_ms", ms));
    else
        printf("tracker answers in %.3f ms\n", ms);
    return KILN_OK;
}

kiln_status kiln_fleet_ping(kiln_command_call *c) {
    probing p = {.call = c, .shows = true};
    kiln_status st = ping_tracker(c);
    if (st) return st;
    if (!knows_probes(c)) return KILN_ERROR(UNIMPLEMENTED, "the tracker is too old to ping boards");
    if (!c->json)
        printf("%-12s %-8s %9s %17s  %s\n", "board", "node", "round trip", "clock ahead",
               "protocol, program");
    st = probe(c, &p);
    if (!st && p.silent)
        st = KILN_ERROR(UNAVAILABLE, "%u of %u boards did not answer: %s", p.silent, p.boards,
                        p.names.data);
    kiln_strbuf_deinit(&p.names);
    return st;
}

kiln_status kiln_fleet_probe_one(kiln_command_call *c, kiln_msg_probe_row *out_row,
                                 bool *out_asked) {
    probing p = {.call = c};
    *out_asked = knows_probes(c);
    if (!*out_asked) return KILN_OK;
    kiln_status st = probe(c, &p);
    kiln_strbuf_deinit(&p.names);
    *out_row = p.row;
    return st;
}

/* ---- Logs ---- */

typedef struct reading {
    const kiln_command_call *call;
    uint64_t since;
    bool done;
} reading;

static void ask_on(const reading *r) {
    const kiln_command_call *c = r->call;
    kiln_message tail = {
        .type = KILN_MSG_TAIL,
        .stream = c->tracker.stream,
        .tail = {.board = kiln_str_from(c->tracker.id), .since = r->since, .follow = c->follow}};
    kiln_client_send(c->tracker.client, &tail);
}

static void show_line(const kiln_command_call *c, const kiln_msg_log_line *line) {
    if (c->json)
        kiln_print_record(KILN_RECORD_log_line, line);
    else
        printf("%.*s\n", KILN_STR_ARG(line->text));
}

static void on_lines(void *context, const kiln_message *message) {
    reading *r = context;
    const kiln_command_call *c = r->call;
    if (!message) { /* another connection */
        ask_on(r);
        return;
    }
    if (message->type != KILN_MSG_LINES) return;
    const kiln_msg_lines *page = &message->lines;
    for (uint32_t i = 0; i < page->lines.count; i++) {
        const kiln_msg_log_line *line = &page->lines.item[i];
        if (!c->json && r->since && line->seq > r->since + 1)
            printf("... %llu lines are gone\n", (unsigned long long)(line->seq - r->since - 1));
        show_line(c, line);
        r->since = line->seq;
    }
    fflush(stdout);
    r->done = !c->follow && (page->lines.count == 0 || r->since >= page->newest);
    if (!r->done) ask_on(r);
}

kiln_status kiln_fleet_log(kiln_command_call *c) {
    reading r = {.call = c};
    kiln_status st = KILN_OK;
    if (!knows_probes(c))
        return KILN_ERROR(UNIMPLEMENTED, "the tracker is too old to ask boards for their logs");
    kiln_tracker_listen(&c->tracker, on_lines, &r);
    ask_on(&r);
    while (!st && !r.done && !c->tracker.stopped && !ferror(stdout))
        st = kiln_tracker_watch_on(&c->tracker, KILN_NS_PER_S);
    return st;
}
