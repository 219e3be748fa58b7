/* kiln fleet: the boards of a tracker, who holds them, and whether they may be used. */
#include <stdio.h>

#include "base/clock.h"
#include "cli/common/json.h"
#include "cli/fleet_ask.h"
#include "cli/fleet_calendar.h"
#include "cli/fleet_doctor.h"
#include "cli/fleet_upgrade.h"
#include "cli/tracker_command.h"

#define ETA_SHOWN_MS 500                                  /* what is due is not "in 0 s" */
#define MAINTENANCE_SHOWN_MS (UINT64_C(24) * 3600 * 1000) /* a window is listed so long before */

/* Of an identity that was drawn the beginning is enough; a name that a person gave is whole. */
static kiln_str short_of(kiln_str id) {
    return id.size == KILN_HASH128_TEXT - 1 ? kiln_str_slice(id, 0, 8) : id;
}

/* Who holds it, since when, and until when at about; or why nobody may. */
static void print_holder(const kiln_msg_board_row *b) {
    if (b->text.size) printf("  - %.*s", KILN_STR_ARG(b->text));
    if (kiln_str_is(b->state, "upgrading")) printf("  - %.*s", KILN_STR_ARG(b->upgrade));
    if (b->reserved_by.size)
        printf("  reserved by %.*s for %.0f min%s%.*s", KILN_STR_ARG(b->reserved_by),
               (double)b->reserved_ms / 60e3, b->reserved_why.size ? ": " : "",
               KILN_STR_ARG(b->reserved_why));
    if (b->maintenance.size && b->maintenance_ms < MAINTENANCE_SHOWN_MS)
        printf("  maintenance%s %.*s", b->maintenance_ms ? "" : " now",
               KILN_STR_ARG(b->maintenance));
    if (!b->job.size) return;
    printf("  %.*s's job %.*s", KILN_STR_ARG(b->user), KILN_STR_ARG(short_of(b->job)));
    if (b->project.size) printf(" of %.*s", KILN_STR_ARG(b->project));
    printf(" for %.0f s", (double)b->held_ms / 1e3);
    if (b->eta_ms >= ETA_SHOWN_MS)
        printf(", free in about %.0f s", (double)b->eta_ms / 1e3);
    else if (b->eta_ms)
        printf(", longer than usual");
}

/* A line for each target that a board offers beside its first, which has the board's own line. */
static void print_further_targets(const kiln_msg_board_row *b) {
    for (uint32_t i = 0; i < b->targets.count; i++) {
        const kiln_msg_board_target *also = &b->targets.item[i];
        const kiln_msg_board_row row = {.node = b->node,
                                        .key = b->key,
                                        .target = also->target,
                                        .state = b->state,
                                        .device = also->device,
                                        .slots = also->slots,
                                        .busy = also->busy,
                                        .silent_ms = b->silent_ms,
                                        .memory_bytes = also->memory_bytes};
        kiln_print_record(KILN_RECORD_board_row, &row);
    }
}

static void print_boards(const kiln_command_call *c, const kiln_msg_answer *answer) {
    for (uint32_t i = 0; i < answer->boards.count; i++) {
        const kiln_msg_board_row *b = &answer->boards.item[i];
        if (c->json) {
            kiln_print_record(KILN_RECORD_board_row, b);
            print_further_targets(b);
            continue;
        }
        printf("%-12.*s %-8.*s %-11.*s %u/%u busy  %6llu trials  noise %4.1f %%  %-24.*s",
               KILN_STR_ARG(b->key), KILN_STR_ARG(short_of(b->node)), KILN_STR_ARG(b->state),
               b->busy, b->slots, (unsigned long long)b->trials, 100 * b->noise,
               KILN_STR_ARG(b->device));
        print_holder(b);
        putchar('\n');
        for (uint32_t k = 0; k < b->targets.count; k++) {
            const kiln_msg_board_target *also = &b->targets.item[k];
            printf("%-12s %-8s %-11s %u/%u busy  %.*s\n", "", "", "and", also->busy, also->slots,
                   KILN_STR_ARG(also->target));
        }
    }
}

/* What is missing is said once, behind the last row. */
static void print_list(void *context, const kiln_msg_answer *answer) {
    const kiln_command_call *c = context;
    print_boards(c, answer);
    bool more = answer->boards.count == KILN_MESSAGES_PAGE && answer->total > KILN_MESSAGES_PAGE;
    if (c->json || more) return;
    if (answer->total == 0) printf("no boards; start one with: kiln-rpc-server --tracker ADDR\n");
    if (answer->tuners == 0) printf("no tuners; start one with: kiln-tuner --tracker ADDR\n");
}

static void print_ago(double seconds) {
    static const struct {
        double seconds;
        const char *name;
    } unit[] = {{86400, "days"}, {3600, "h"}, {60, "min"}, {0, "s"}};
    size_t i = 0;
    while (seconds < 2 * unit[i].seconds) i++;
    printf("  %4.0f %-4s ago", seconds / KILN_MAX(unit[i].seconds, 1), unit[i].name);
}

/* What happened, as "3 h ago  quarantined  by ann: its fan is broken". */
static void print_history(const kiln_msg_board_row *b) {
    double now_ms = (double)kiln_clock_wall_ns() / 1e6;
    for (uint32_t i = 0; i < b->history.count; i++) {
        const kiln_msg_board_event *event = &b->history.item[i];
        print_ago(KILN_MAX(now_ms - (double)event->wall_ms, 0) / 1e3);
        printf("  %-11.*s  %.*s\n", KILN_STR_ARG(event->what), KILN_STR_ARG(event->text));
    }
}

/* What it measured and read of itself; what it cannot know is left out. */
static void print_readings(const kiln_msg_board_row *b) {
    if (b->noise > 0)
        printf("  times are known to %.2f %%", 100 * b->noise);
    else
        printf("  nothing was timed yet");
    if (b->drift > 0) printf(", drift %.3f", b->drift);
    if (b->env.temperature_mc) printf(", %.1f degrees", (double)b->env.temperature_mc / 1e3);
    if (b->env.frequency_khz) printf(", %.2f GHz", (double)b->env.frequency_khz / 1e6);
    if (b->env.memory_khz) printf(", memory %.2f GHz", (double)b->env.memory_khz / 1e6);
    if (b->env.power_mw) printf(", %.0f W", (double)b->env.power_mw / 1e3);
    putchar('\n');
}

static void print_board(void *context, const kiln_msg_answer *answer) {
    const kiln_command_call *c = context;
    print_boards(c, answer);
    if (c->json || answer->boards.count == 0) return;
    const kiln_msg_board_row *b = &answer->boards.item[0];
    printf("  node %.*s, heard %llu ms ago, %.1f GB of memory\n", KILN_STR_ARG(b->node),
           (unsigned long long)b->silent_ms, (double)b->memory_bytes / 1e9);
    for (uint32_t i = 0; i < b->labels.count; i++)
        printf("  %.*s = %.*s\n", KILN_STR_ARG(b->labels.item[i].key),
               KILN_STR_ARG(b->labels.item[i].value));
    kiln_figures figures;
    kiln_strbuf text = {0};
    kiln_status unknown = kiln_figures_decode(b->figures, &figures);
    if (!unknown) kiln_figures_print(&figures, &text);
    kiln_status_free(unknown); /* of a later version */
    for (kiln_str rest = kiln_strbuf_view(&text); rest.size;) {
        const kiln_str line = kiln_str_cut(&rest, '\n');
        printf("  measured  %.*s\n", KILN_STR_ARG(line));
    }
    kiln_strbuf_deinit(&text);
    for (uint32_t i = 0; i < b->facts.count; i++)
        printf("  %-9.*s  %.*s\n", KILN_STR_ARG(b->facts.item[i].key),
               KILN_STR_ARG(b->facts.item[i].value));
    if (b->software.size) printf("  runs %.*s\n", KILN_STR_ARG(b->software));
    if (b->upgrade.size) printf("  upgrade %.*s\n", KILN_STR_ARG(b->upgrade));
    if (b->missing.size) printf("  contains candidates without %.*s\n", KILN_STR_ARG(b->missing));
    printf(
        "  %.*s\n  %llu results, %llu ok, %llu faults of its own, %u of them since the last good "
        "one\n",
        KILN_STR_ARG(b->target), (unsigned long long)b->trials, (unsigned long long)b->ok,
        (unsigned long long)b->faults, b->fault_run);
    print_readings(b);
    print_history(b);
}

static kiln_status fleet_list(kiln_command_call *c) {
    return kiln_tracker_ask_pages(&c->tracker, KILN_TOPIC_FLEET, print_list, c);
}

static void print_advice(const kiln_msg_board_row *board, const kiln_msg_probe_row *probe,
                         bool json) {
    kiln_strbuf advice = {0};
    uint32_t count = kiln_fleet_diagnose(board, probe, &advice);
    if (json)
        kiln_json_line(json_pack("{s:s, s:o, s:i, s:s}", "event", "doctor", "board",
                                 kiln_json_str(board->key), "findings", (int)count, "text",
                                 advice.data));
    else
        fputs(advice.data, stdout);
    kiln_strbuf_deinit(&advice);
}

/* What the tracker knows of it, and how it answers. */
static kiln_status fleet_doctor(kiln_command_call *c) {
    kiln_message question = {.type = KILN_MSG_QUERY,
                             .query = {KILN_TOPIC_BOARD, kiln_str_from(c->tracker.id), 0}};
    kiln_message answer = {0};
    kiln_msg_probe_row row = {0};
    bool asked = false;
    kiln_status st = kiln_client_ask(c->tracker.client, &question, c->tracker.process, &answer);
    if (!st && answer.type != KILN_MSG_ANSWER)
        st = KILN_ERROR(DATA_LOSS, "the tracker answered %s", kiln_message_name(answer.type));
    if (!st) st = kiln_fleet_probe_one(c, &row, &asked);
    for (uint32_t i = 0; !st && i < answer.answer.boards.count; i++)
        print_advice(&answer.answer.boards.item[i], asked ? &row : NULL, c->json);
    return st;
}

static kiln_status fleet_show(kiln_command_call *c) {
    return kiln_tracker_ask_pages(&c->tracker, KILN_TOPIC_BOARD, print_board, c);
}

static void on_change(void *context, const kiln_msg_change *change) {
    kiln_command_call *c = context;
    kiln_msg_answer page = {.boards = {change->boards.item, change->boards.count}};
    print_boards(c, &page);
    fflush(stdout);
}

/* All boards, then each that changes, until Ctrl-C. */
static kiln_status fleet_watch(kiln_command_call *c) {
    if (!kiln_tracker_watch(&c->tracker, KILN_TOPIC_FLEET, on_change, c))
        return KILN_ERROR(UNIMPLEMENTED,
                          "the tracker is too old to report changes: use kiln fleet list");
    kiln_status st = KILN_OK;
    while (!st && !c->tracker.stopped && !ferror(stdout))
        st = kiln_tracker_watch_on(&c->tracker, KILN_NS_PER_S);
    return st;
}

/* A board, where one is named, or all. */
static kiln_status fleet_ping(kiln_command_call *c) {
    c->tracker.id = c->named;
    kiln_status st = c->named ? kiln_tracker_complete_id(&c->tracker, KILN_TOPIC_BOARD) : KILN_OK;
    return st ? st : kiln_fleet_ping(c);
}

/* Puts the board out of service or back; the tracker answers when that is on its disk. */
static kiln_status order(kiln_command_call *c, kiln_board_service service, bool forget) {
    kiln_message message = {.type = KILN_MSG_BOARD_ORDER,
                            .board_order = {.board = kiln_str_from(c->tracker.id),
                                            .service = (uint32_t)service,
                                            .text = kiln_str_from(c->why),
                                            .forget = forget}};
    kiln_message answer = {0};
    kiln_status st = kiln_client_ask(c->tracker.client, &message, c->tracker.process, &answer);
    if (!st && answer.type != KILN_MSG_ANSWER)
        st = KILN_ERROR(DATA_LOSS, "the tracker answered %s", kiln_message_name(answer.type));
    if (!st && forget && !c->json)
        printf("%s is forgotten; it is a board again when it comes back\n", c->tracker.id);
    else if (!st)
        print_boards(c, &answer.answer);
    return st;
}

static kiln_status fleet_drain(kiln_command_call *c) { return order(c, KILN_BOARD_DRAINED, false); }

static kiln_status fleet_quarantine(kiln_command_call *c) {
    return order(c, KILN_BOARD_QUARANTINED, false);
}

static kiln_status fleet_release(kiln_command_call *c) {
    return order(c, KILN_BOARD_IN_SERVICE, false);
}

static kiln_status fleet_reserve(kiln_command_call *c) {
    kiln_message answer = {0};
    kiln_status st = kiln_fleet_reserve(c, &answer);
    if (!st) print_boards(c, &answer.answer);
    return st;
}

static kiln_status fleet_forget(kiln_command_call *c) {
    uint32_t version = kiln_client_version(c->tracker.client);
    if (version && version < KILN_PROTO_FORGETS_BOARDS)
        return KILN_ERROR(UNIMPLEMENTED, "the tracker is too old to forget a board by an order");
    return order(c, KILN_BOARD_IN_SERVICE, true);
}

static kiln_status ask_to_kick(kiln_command_call *c, kiln_message *out_answer) {
    const kiln_message kick = {.type = KILN_MSG_KICK,
                               .kick = {.peer = kiln_str_from(c->tracker.id)}};
    kiln_status st = kiln_client_ask(c->tracker.client, &kick, c->tracker.process, out_answer);
    if (!st && out_answer->type != KILN_MSG_KICKED)
        st = KILN_ERROR(DATA_LOSS, "the tracker answered %s", kiln_message_name(out_answer->type));
    return st;
}

/* Closes the connection of a board, a tuner or a person. Only where no peer is called so, the text
 * may be the beginning of a board's name or identity. */
static kiln_status kick(kiln_command_call *c, kiln_message *out_answer) {
    c->tracker.id = c->named;
    kiln_status st = ask_to_kick(c, out_answer);
    if (kiln_status_code(st) != KILN_NOT_FOUND) return st;
    kiln_status incomplete = kiln_tracker_complete_id(&c->tracker, KILN_TOPIC_BOARD);
    if (incomplete && kiln_status_code(incomplete) == KILN_NOT_FOUND) {
        kiln_status_free(incomplete); /* the tracker's own answer says more */
        return st;
    }
    kiln_status_free(st);
    return incomplete ? incomplete : ask_to_kick(c, out_answer);
}

static kiln_status fleet_kick(kiln_command_call *c) {
    kiln_message answer = {0};
    if (kiln_client_version(c->tracker.client) < kiln_message_since(KILN_MSG_KICK))
        return KILN_ERROR(UNIMPLEMENTED, "the tracker is too old to close connections of others");
    kiln_status st = kick(c, &answer);
    if (st) return st;
    const kiln_msg_kicked *kicked = &answer.kicked;
    const char *role = kiln_peer_role_name((kiln_peer_role)kicked->role);
    if (c->json)
        kiln_json_line(json_pack("{s:s, s:s, s:o, s:o, s:i}", "event", "kicked", "role", role,
                                 "node", kiln_json_str(kicked->node), "name",
                                 kiln_json_str(kicked->name), "connections", (int)kicked->count));
    else
        printf("%s %.*s (%.*s): %u connection%s closed; it may come back\n", role,
               KILN_STR_ARG(kicked->name.size ? kicked->name : short_of(kicked->node)),
               KILN_STR_ARG(short_of(kicked->node)), kicked->count, kicked->count == 1 ? "" : "s");
    return KILN_OK;
}

#define ACTIONS(X)                                                                               \
    X("list", "", fleet_list, false, "list all boards with their holders and state")             \
    X("show", "BOARD", fleet_show, false, "show all facts about a board, and its history")       \
    X("doctor", "BOARD", fleet_doctor, false, "say what is wrong with a board, and what to do")  \
    X("watch", "", fleet_watch, false, "list all boards, then each that changes, until Ctrl-C")  \
    X("ping", "[BOARD]", fleet_ping, false, "measure how fast boards answer, and their clocks")  \
    X("log", "BOARD", kiln_fleet_log, true, "print the last lines of a board's log")             \
    X("drain", "BOARD", fleet_drain, true, "let a board finish its trials, and give it no more") \
    X("quarantine", "BOARD", fleet_quarantine, true, "take all trials from a board at once")     \
    X("release", "BOARD", fleet_release, true, "put a drained or quarantined board back")        \
    X("reserve", "BOARD", fleet_reserve, false,                                                  \
      "give a board to your jobs alone for a time (--for 1h), or give it back (--end)")          \
    X("window", "[BOARD] [WHEN]", kiln_fleet_window, true,                                       \
      "let boards get no work at times: window rpi4 \"Sat 02:00-06:00\" (UTC); --remove NUMBER") \
    X("windows", "", kiln_fleet_windows, false, "list the maintenance windows")                  \
    X("forget", "BOARD", fleet_forget, true,                                                     \
      "remove a lost board and its history, which would stay for a week")                        \
    X("upgrade", "[BOARD...]", kiln_fleet_upgrade, true,                                         \
      "replace the program of boards by a signed release, in turns")                             \
    X("kick", "PEER", fleet_kick, true,                                                          \
      "close the connection of a board, a tuner or a person now; it may come back")

kiln_status kiln_cmd_fleet(kiln_arena *process, int argc, char **argv) {
    static const kiln_action actions[] = {
#define X(name, arguments, run, admin, help) {name, arguments, help},
        ACTIONS(X)
#undef X
    };
    static const kiln_tracker_command commands[] = {
#define X(name, arguments, run, admin, help) {run, admin},
        ACTIONS(X)
#undef X
    };
    static const kiln_tracker_commands table = {
        .actions = {.command = "fleet",
                    .summary = "Lists the boards of a tracker, checks them, and takes them out of "
                               "service. BOARD is "
                               "a board's name, or its node's identity or the beginning of it.",
                    .action = actions,
                    .count = KILN_ARRAY_COUNT(actions),
                    .has_default = true},
        .command = commands,
        .takes_why = true,
        .takes_times = true,
        .takes_follow = true,
        .takes_upgrade = true};
    kiln_command_call call;
    const kiln_tracker_command *command = NULL;
    kiln_status st = kiln_tracker_command_parse(&table, process, argc, argv, &call, &command);
    return st || !command ? st : kiln_tracker_command_run(&call, command);
}
