#include "cli/fleet_upgrade.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/macros.h"
#include "base/sign/release.h"
#include "cli/release.h"

#define POLL_NS (KILN_NS_PER_S / 2)
#define HEAD "kiln-board-"
#define TAIL ".tar.zst"

/* ---- Archives ---- */

static kiln_status find_in(const char *folder, const char *version, kiln_arena *arena,
                           const char **out_path, uint32_t max, uint32_t *count) {
    char **name = NULL;
    size_t names = 0;
    const char *head = kiln_arena_printf(arena, HEAD "%s-", version);
    if (!kiln_file_is_folder(folder)) return KILN_OK;
    kiln_status st = kiln_folder_list(folder, arena, &name, &names);
    for (size_t i = 0; !st && i < names; i++) {
        const kiln_str file = kiln_str_from(name[i]);
        if (!kiln_str_starts(file, head) || !kiln_str_ends(file, TAIL)) continue;
        if (*count == max)
            st = KILN_ERROR(RESOURCE_EXHAUSTED, "there are more than %u archives of %s", max,
                            version);
        else
            out_path[(*count)++] = kiln_arena_printf(arena, "%s/%s", folder, name[i]);
    }
    return st;
}

kiln_status kiln_fleet_upgrade_archives(const char *to, kiln_arena *arena, const char **out_path,
                                        uint32_t max, uint32_t *out_count) {
    uint32_t count = *out_count;
    if (!kiln_release_is_version(kiln_str_from(to))) {
        if (count == max)
            return KILN_ERROR(RESOURCE_EXHAUSTED, "an upgrade has at most %u archives", max);
        out_path[count++] = to;
        *out_count = count;
        return KILN_OK;
    }
    const uint32_t before = count;
    kiln_status st = find_in(".", to, arena, out_path, max, &count);
    if (!st && count == before) st = find_in("dist", to, arena, out_path, max, &count);
    if (!st && count == before)
        st = KILN_ERROR(NOT_FOUND,
                        "neither this folder nor dist/ has " HEAD "%s-ARCH" TAIL
                        "; deploy/release.sh makes them",
                        to);
    if (!st) *out_count = count;
    return st;
}

/* Reads statement and archive, compares them, and gives the tracker the archive. The boards check
 * the signature, as they know whom they trust. */
static kiln_status upload(kiln_command_call *c, const char *path, kiln_arena *arena,
                          kiln_msg_release_statement *out_statement) {
    kiln_str archive;
    kiln_release release;
    kiln_digest digest;
    const char *beside = kiln_arena_printf(arena, "%s" KILN_RELEASE_SUFFIX, path);
    kiln_status st = kiln_file_read(beside, KILN_RELEASE_TEXT_MAX, arena, &out_statement->text);
    if (!st) st = kiln_status_note(kiln_release_parse(out_statement->text, &release), "%s", beside);
    if (!st) st = kiln_file_read(path, (size_t)KILN_RELEASE_ARCHIVE_MAX, arena, &archive);
    if (st) return st;
    kiln_digest_of(archive.data, archive.size, &digest);
    if (!kiln_digest_equal(&digest, &release.digest) || archive.size != release.size_bytes)
        return KILN_ERROR(DATA_LOSS, "%s is not the archive that %s is about", path, beside);
    return kiln_client_put(c->tracker.client, archive, &digest);
}

static kiln_status upload_all(kiln_command_call *c, kiln_arena *arena,
                              kiln_msg_upgrade_order *order) {
    const char *path[KILN_MESSAGES_RELEASES];
    uint32_t count = 0;
    kiln_status st = KILN_OK;
    for (size_t i = 0; !st && i < c->upgrade.to.count; i++)
        st = kiln_fleet_upgrade_archives(c->upgrade.to.item[i], arena, path, KILN_MESSAGES_RELEASES,
                                         &count);
    order->releases.item = KILN_ARENA_ARRAY(arena, kiln_msg_release_statement, count);
    order->releases.count = count;
    for (uint32_t i = 0; !st && i < count; i++)
        st = upload(c, path[i], arena, &order->releases.item[i]);
    return st;
}

/* ---- The order ---- */

static kiln_status read_labels(const kiln_command_call *c, kiln_arena *arena,
                               kiln_msg_upgrade_order *order) {
    const kiln_opt_list *given = &c->upgrade.label;
    if (given->count > KILN_MESSAGES_LABELS)
        return KILN_ERROR(INVALID_ARGUMENT, "more than %d labels", KILN_MESSAGES_LABELS);
    order->labels.item = KILN_ARENA_ARRAY(arena, kiln_msg_label, given->count);
    for (size_t i = 0; i < given->count; i++) {
        kiln_str value = kiln_str_from(given->item[i]);
        const kiln_str key = kiln_str_cut(&value, '=');
        if (key.size == 0 || value.size == 0)
            return KILN_ERROR(INVALID_ARGUMENT, "--label %s is not of the form name=value",
                              given->item[i]);
        order->labels.item[order->labels.count++] = (kiln_msg_label){key, value};
    }
    return KILN_OK;
}

static kiln_status read_order(const kiln_command_call *c, kiln_arena *arena,
                              kiln_msg_upgrade_order *order) {
    const kiln_upgrade_options *o = &c->upgrade;
    if (c->count > KILN_MESSAGES_UPGRADED)
        return KILN_ERROR(INVALID_ARGUMENT,
                          "more than %d boards are named: give them a label, and name that",
                          KILN_MESSAGES_UPGRADED);
    if (o->one_by_one && o->percent)
        return KILN_ERROR(INVALID_ARGUMENT, "--one-by-one and --percent contradict each other");
    if (o->percent > 100 || o->wait_s > 3600 || o->canary > UINT32_MAX)
        return KILN_ERROR(OUT_OF_RANGE, "--percent is at most 100, --wait at most 3600");
    *order = (kiln_msg_upgrade_order){.act = KILN_UPGRADE_BEGIN,
                                      .canaries = (uint32_t)o->canary,
                                      .at_once = o->one_by_one,
                                      .percent = (uint32_t)o->percent,
                                      .wait_s = (uint32_t)o->wait_s,
                                      .reason = kiln_str_from(c->why)};
    order->boards.item = KILN_ARENA_ARRAY(arena, kiln_msg_board_name, c->count);
    order->boards.count = (uint32_t)c->count;
    for (size_t i = 0; i < c->count; i++)
        order->boards.item[i].name = kiln_str_from(c->positional[i]);
    return read_labels(c, arena, order);
}

static kiln_status ask(kiln_command_call *c, const kiln_message *question, kiln_arena *arena,
                       kiln_msg_upgrades *out_upgrades) {
    kiln_message answer = {0};
    kiln_status st = kiln_client_ask(c->tracker.client, question, arena, &answer);
    if (!st && answer.type != KILN_MSG_UPGRADES)
        st = KILN_ERROR(DATA_LOSS, "the tracker answered %s", kiln_message_name(answer.type));
    if (!st) *out_upgrades = answer.upgrades;
    return st;
}

/* ---- What is shown ---- */

typedef struct progress {
    uint8_t *stage; /* [count], plus 1; 0: it was not shown yet */
    uint32_t count;
} progress;

static void show_board(const kiln_command_call *c, const kiln_msg_upgrade_board *b,
                       const kiln_msg_upgrade_row *upgrade) {
    if (c->json) {
        kiln_print_record(KILN_RECORD_upgrade_board, b);
        return;
    }
    const kiln_str name = b->key.size ? b->key : kiln_str_slice(b->node, 0, 8);
    printf("%-12.*s %-7s %-11s %-24.*s", KILN_STR_ARG(name),
           b->place < upgrade->canaries ? "canary" : "",
           kiln_upgrade_stage_name((kiln_upgrade_stage)b->stage), KILN_STR_ARG(b->software));
    if (b->text.size) printf(" %.*s", KILN_STR_ARG(b->text));
    putchar('\n');
}

static void show_upgrade(const kiln_command_call *c, const kiln_msg_upgrade_row *u) {
    if (c->json) {
        kiln_print_record(KILN_RECORD_upgrade_row, u);
        return;
    }
    if (u->number == 0) {
        printf("no upgrade was ordered yet\n");
        return;
    }
    printf("upgrade %llu to %.*s, ordered by %.*s, is %s: %u of %u boards done, %u failed, %u "
           "skipped",
           (unsigned long long)u->number, KILN_STR_ARG(u->version), KILN_STR_ARG(u->by),
           kiln_upgrade_state_name((kiln_upgrade_state)u->state), u->done, u->boards, u->failed,
           u->skipped);
    if (u->reason.size) printf(" (%.*s)", KILN_STR_ARG(u->reason));
    if (u->text.size) printf("\n  %.*s", KILN_STR_ARG(u->text));
    putchar('\n');
}

static bool is_news(progress *shown, const kiln_msg_upgrade_board *b) {
    if (b->place >= shown->count) return true;
    const bool news = shown->stage[b->place] != b->stage + 1;
    shown->stage[b->place] = (uint8_t)(b->stage + 1);
    return news;
}

/* Asks for all boards, and shows those whose stage differs from what was shown. */
static kiln_status show_boards(kiln_command_call *c, progress *shown, kiln_msg_upgrade_row *out_row,
                               kiln_arena *arena) {
    kiln_msg_upgrades page = {0};
    kiln_status st = KILN_OK;
    uint32_t offset = 0;
    do {
        kiln_message query = {.type = KILN_MSG_UPGRADE_QUERY, .upgrade_query = {.offset = offset}};
        st = ask(c, &query, arena, &page);
        if (st) return st;
        if (shown->count < page.upgrade.boards) {
            uint8_t *grown = kiln_alloc(page.upgrade.boards);
            if (shown->count) memcpy(grown, shown->stage, shown->count);
            kiln_free(shown->stage);
            shown->stage = grown;
            shown->count = page.upgrade.boards;
        }
        for (uint32_t i = 0; i < page.boards.count; i++)
            if (is_news(shown, &page.boards.item[i]))
                show_board(c, &page.boards.item[i], &page.upgrade);
        offset += page.boards.count;
    } while (page.boards.count && offset < page.upgrade.boards);
    fflush(stdout);
    *out_row = page.upgrade;
    return st;
}

static kiln_status show_status(kiln_command_call *c) {
    progress none = {0};
    kiln_msg_upgrade_row row = {0};
    kiln_status st = show_boards(c, &none, &row, c->tracker.process);
    kiln_free(none.stage);
    if (!st) show_upgrade(c, &row);
    return st;
}

/* Shows each change, until no board is left that restarts. */
static kiln_status follow(kiln_command_call *c) {
    progress shown = {0};
    kiln_msg_upgrade_row row = {.state = KILN_UPGRADE_RUNNING};
    kiln_status st = KILN_OK;
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    while (!st && row.state == KILN_UPGRADE_RUNNING && !c->tracker.stopped) {
        kiln_arena_reset(&arena);
        st = show_boards(c, &shown, &row, &arena);
        if (!st && row.state == KILN_UPGRADE_RUNNING)
            st = kiln_tracker_watch_on(&c->tracker, POLL_NS);
    }
    if (!st) show_upgrade(c, &row);
    if (!st && row.state == KILN_UPGRADE_RUNNING && !c->json)
        printf("it goes on; kiln fleet upgrade --status shows it, --cancel ends it\n");
    if (!st && row.state == KILN_UPGRADE_STOPPED)
        st = KILN_ERROR(ABORTED, "the upgrade stopped: %.*s", KILN_STR_ARG(row.text));
    kiln_free(shown.stage);
    kiln_arena_deinit(&arena);
    return st;
}

static kiln_status cancel(kiln_command_call *c) {
    kiln_msg_upgrades upgrades = {0};
    const kiln_message order = {
        .type = KILN_MSG_UPGRADE_ORDER,
        .upgrade_order = {.act = KILN_UPGRADE_CANCEL, .reason = kiln_str_from(c->why)}};
    kiln_status st = ask(c, &order, c->tracker.process, &upgrades);
    if (!st) show_upgrade(c, &upgrades.upgrade);
    return st;
}

static kiln_status begin(kiln_command_call *c) {
    kiln_message order = {.type = KILN_MSG_UPGRADE_ORDER};
    kiln_msg_upgrades upgrades = {0};
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    kiln_status st = read_order(c, &arena, &order.upgrade_order);
    if (!st) st = upload_all(c, &arena, &order.upgrade_order);
    if (!st) st = ask(c, &order, &arena, &upgrades);
    if (!st && c->upgrade.detach) show_upgrade(c, &upgrades.upgrade);
    kiln_arena_deinit(&arena);
    return st || c->upgrade.detach ? st : follow(c);
}

kiln_status kiln_fleet_upgrade(kiln_command_call *c) {
    const kiln_upgrade_options *o = &c->upgrade;
    const bool begins = o->to.count > 0;
    if (kiln_client_version(c->tracker.client) < kiln_message_since(KILN_MSG_UPGRADE_ORDER))
        return KILN_ERROR(UNIMPLEMENTED, "the tracker is too old to upgrade boards");
    if (begins + o->status + o->cancel != 1)
        return KILN_ERROR(INVALID_ARGUMENT,
                          "give one of --to VERSION|ARCHIVE, --status and --cancel");
    return begins ? begin(c) : o->cancel ? cancel(c) : show_status(c);
}
