#include "cli/fleet_calendar.h"

#include <stdio.h>

#include "base/clock.h"
#include "cli/common/boards.h"
#include "cli/common/json.h"

#define MINUTE_MS 60000u

kiln_status kiln_duration_parse(const char *text, uint32_t *out_seconds) {
    static const struct {
        char unit;
        uint32_t seconds;
    } unit[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
    const kiln_str all = kiln_str_from(text);
    uint64_t count = 0;
    for (size_t i = 0; all.size > 1 && i < KILN_ARRAY_COUNT(unit); i++) {
        if (all.data[all.size - 1] != unit[i].unit ||
            !kiln_str_to_u64(kiln_str_slice(all, 0, all.size - 1), &count) || count == 0 ||
            count > KILN_RESERVE_S_MAX / unit[i].seconds)
            continue;
        *out_seconds = (uint32_t)(count * unit[i].seconds);
        return KILN_OK;
    }
    return KILN_ERROR(INVALID_ARGUMENT, "--for %s: write 90s, 30m, 2h or 1d, at most 7d", text);
}

/* Asks, and checks the type of the answer. UNIMPLEMENTED: the tracker is too old. */
static kiln_status ask(kiln_command_call *c, const kiln_message *message, kiln_message_type type,
                       kiln_message *out_answer) {
    if (kiln_client_version(c->tracker.client) < kiln_message_since(message->type))
        return KILN_ERROR(UNIMPLEMENTED,
                          "the tracker is too old for reservations and maintenance windows");
    kiln_status st = kiln_client_ask(c->tracker.client, message, c->tracker.process, out_answer);
    if (!st && out_answer->type != type)
        st = KILN_ERROR(DATA_LOSS, "the tracker answered %s", kiln_message_name(out_answer->type));
    return st;
}

kiln_status kiln_fleet_reserve(kiln_command_call *c, kiln_message *out_answer) {
    uint32_t seconds = 0;
    if ((c->duration != NULL) == c->end)
        return KILN_ERROR(INVALID_ARGUMENT,
                          "kiln fleet reserve takes --for TIME (1h, 30m), or --end");
    kiln_status st = c->end ? KILN_OK : kiln_duration_parse(c->duration, &seconds);
    if (st) return st;
    const kiln_message order = {.type = KILN_MSG_RESERVE,
                                .reserve = {.board = kiln_str_from(c->tracker.id),
                                            .seconds = seconds,
                                            .text = kiln_str_from(c->why)}};
    return ask(c, &order, KILN_MSG_ANSWER, out_answer);
}

/* ---- Maintenance windows ---- */

static void print_time(uint64_t wall_ms) {
    char day[KILN_DAY_TEXT];
    const uint64_t minute = wall_ms / MINUTE_MS % 1440;
    kiln_day_print((uint32_t)(wall_ms / MINUTE_MS / 1440), day);
    printf("%s %02u:%02u", day, (unsigned)(minute / 60), (unsigned)(minute % 60));
}

static void print_window(const kiln_command_call *c, const kiln_msg_maintenance_row *row) {
    const uint64_t now_ms = kiln_clock_wall_ns() / KILN_NS_PER_MS;
    if (c->json) {
        kiln_print_record(KILN_RECORD_maintenance_row, row);
        return;
    }
    printf("%4llu  ", (unsigned long long)row->number);
    if (row->board.size) printf("%.*s ", KILN_STR_ARG(row->board));
    for (uint32_t i = 0; i < row->labels.count; i++)
        printf("%.*s=%.*s ", KILN_STR_ARG(row->labels.item[i].key),
               KILN_STR_ARG(row->labels.item[i].value));
    printf(" %.*s", KILN_STR_ARG(row->when));
    if (row->text.size) printf("  - %.*s", KILN_STR_ARG(row->text));
    if (!row->begin_ms) {
        printf("  over\n");
        return;
    }
    printf(row->begin_ms <= now_ms ? "  now, until " : "  next ");
    print_time(row->begin_ms <= now_ms ? row->end_ms : row->begin_ms);
    printf(" UTC\n");
}

kiln_status kiln_fleet_windows(kiln_command_call *c) {
    uint32_t offset = 0;
    for (bool more = true; more;) {
        const kiln_message question = {.type = KILN_MSG_MAINTENANCE_QUERY,
                                       .maintenance_query = {.offset = offset}};
        kiln_message answer = {0};
        kiln_status st = ask(c, &question, KILN_MSG_MAINTENANCE, &answer);
        if (st) return st;
        const kiln_msg_maintenance *page = &answer.maintenance;
        for (uint32_t i = 0; i < page->windows.count; i++) print_window(c, &page->windows.item[i]);
        if (page->total == 0 && !c->json) printf("no maintenance windows\n");
        offset += page->windows.count;
        more = page->windows.count > 0 && offset < page->total;
    }
    return KILN_OK;
}

static kiln_status remove_window(kiln_command_call *c) {
    const kiln_message order = {.type = KILN_MSG_MAINTENANCE_ORDER,
                                .maintenance_order = {.remove = c->remove}};
    kiln_message answer = {0};
    kiln_status st = ask(c, &order, KILN_MSG_MAINTENANCE, &answer);
    if (st) return st;
    if (c->json)
        kiln_json_line(
            json_pack("{s:s, s:I}", "event", "removed", "number", (json_int_t)c->remove));
    else
        printf("maintenance window %llu is removed\n", (unsigned long long)c->remove);
    return KILN_OK;
}

/* Boards as with --on: a name, labels, or both. With --label the first argument is the time. */
static kiln_status parse_window(kiln_command_call *c, kiln_msg_maintenance_row *out_row) {
    kiln_msg_job_spec spec = {0};
    kiln_strbuf where = {0};
    const char *when = c->upgrade.label.count ? c->named : c->second;
    if (!c->upgrade.label.count && c->named) kiln_strbuf_text(&where, c->named);
    for (size_t i = 0; i < c->upgrade.label.count; i++)
        kiln_strbuf_printf(&where, "%s%s", i ? "," : "", c->upgrade.label.item[i]);
    kiln_status st = KILN_OK;
    if (!when || (c->upgrade.label.count && c->second))
        st = KILN_ERROR(INVALID_ARGUMENT,
                        "usage: kiln fleet window BOARD|K=V \"Sat 02:00-06:00\", kiln fleet window "
                        "--label K=V \"Sat 02:00-06:00\", or kiln fleet window --remove NUMBER");
    if (!st)
        st = kiln_boards_parse_on(kiln_str_dup(c->tracker.process, kiln_strbuf_view(&where)),
                                  c->tracker.process, &spec);
    kiln_strbuf_deinit(&where);
    if (st) return st;
    *out_row = (kiln_msg_maintenance_row){.board = spec.key,
                                          .labels = {spec.labels.item, spec.labels.count},
                                          .when = kiln_str_from(when),
                                          .text = kiln_str_from(c->why)};
    return KILN_OK;
}

kiln_status kiln_fleet_window(kiln_command_call *c) {
    kiln_message order = {.type = KILN_MSG_MAINTENANCE_ORDER}, answer = {0};
    if (c->remove) return remove_window(c);
    kiln_status st = parse_window(c, &order.maintenance_order.window);
    if (!st) st = ask(c, &order, KILN_MSG_MAINTENANCE, &answer);
    for (uint32_t i = 0; !st && i < answer.maintenance.windows.count; i++)
        print_window(c, &answer.maintenance.windows.item[i]);
    return st;
}
