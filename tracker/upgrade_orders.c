#include "tracker/upgrade_orders.h"

#include <string.h>

#include "base/check.h"
#include "base/sign/release.h"
#include "tracker/state.h"

#define DEFAULT_PERCENT 10u

/* ---- Answers ---- */

static void answer(kiln_tracker *t, const kiln_tracker_peer *client, uint32_t stream,
                   uint32_t offset) {
    const kiln_tracker_upgrades *upgrades = &t->upgrades;
    kiln_msg_upgrade_board row[KILN_MESSAGES_PAGE];
    uint32_t count = 0;
    for (uint32_t i = offset; i < upgrades->all.count && count < KILN_MESSAGES_PAGE; i++) {
        const kiln_tracker_upgrading *u = upgrades->all.data[i];
        const kiln_tracker_board *board = kiln_tracker_board_find(t, kiln_str_from(u->node));
        kiln_msg_upgrade_board *out = &row[count++];
        *out = (kiln_msg_upgrade_board){.node = kiln_str_from(u->node),
                                        .stage = u->stage,
                                        .key = board->up.key,
                                        .text = kiln_str_from(u->text),
                                        .place = u->place};
        if (board->peer) out->software = kiln_str_from(board->peer->software);
    }
    const kiln_message message = {
        .type = KILN_MSG_UPGRADES,
        .stream = stream,
        .upgrades = {.upgrade = kiln_tracker_upgrades_row(t), .boards = {row, count}}};
    kiln_tracker_send(t, client, &message);
}

void kiln_tracker_upgrade_query(kiln_tracker *t, kiln_tracker_peer *client,
                                const kiln_message *message) {
    answer(t, client, message->stream, message->upgrade_query.offset);
}

/* ---- Orders ---- */

/* Checks that the statements are of one version and of different processors; the boards check the
 * signatures. `out_version` has KILN_RELEASE_WORD_MAX bytes. */
static kiln_status check_releases(const kiln_msg_upgrade_order *order, char *out_version) {
    kiln_release release[KILN_MESSAGES_RELEASES];
    if (order->releases.count == 0)
        return KILN_ERROR(INVALID_ARGUMENT, "an upgrade needs at least one release");
    for (uint32_t i = 0; i < order->releases.count; i++) {
        kiln_status st = kiln_release_parse(order->releases.item[i].text, &release[i]);
        if (st) return st;
        if (strcmp(release[i].name, "kiln-board") != 0)
            return KILN_ERROR(INVALID_ARGUMENT, "'%s' is no release for boards (kiln-board)",
                              release[i].name);
        if (strcmp(release[i].version, release[0].version) != 0)
            return KILN_ERROR(INVALID_ARGUMENT, "the releases are of different versions: %s, %s",
                              release[0].version, release[i].version);
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(release[i].arch, release[k].arch) == 0)
                return KILN_ERROR(INVALID_ARGUMENT, "there are two releases for %s",
                                  release[i].arch);
    }
    memcpy(out_version, release[0].version, sizeof release[0].version);
    return KILN_OK;
}

static bool has_labels(const kiln_tracker_board *board, const kiln_msg_upgrade_order *order) {
    return kiln_tracker_board_has_labels(board, order->labels.item, order->labels.count);
}

/* The boards that the order is about, in its order. NOT_FOUND: a name, or all of them. */
typedef KILN_VEC(const kiln_tracker_board *) board_list;
static kiln_status select_boards(kiln_tracker *t, const kiln_msg_upgrade_order *order,
                                 board_list *out) {
    for (uint32_t i = 0; i < order->boards.count; i++) {
        const kiln_str name = order->boards.item[i].name;
        const kiln_tracker_board *board = kiln_tracker_board_named(t, name);
        if (!board)
            return KILN_ERROR(NOT_FOUND,
                              "there is no board %.*s, or several have this name: kiln fleet list "
                              "shows them",
                              KILN_STR_ARG(name));
        if (has_labels(board, order)) kiln_vec_push(out, board);
    }
    for (uint32_t i = 0; order->boards.count == 0 && i < t->boards.all.count; i++) {
        const kiln_tracker_board *board = t->boards.all.data[i];
        if (board->known && has_labels(board, order)) kiln_vec_push(out, board);
    }
    if (out->count) return KILN_OK;
    return KILN_ERROR(NOT_FOUND, "no board is of this name and has these labels");
}

static uint32_t at_once(const kiln_msg_upgrade_order *order, uint32_t boards) {
    if (order->at_once) return order->at_once;
    const uint64_t percent = order->percent ? order->percent : DEFAULT_PERCENT;
    return (uint32_t)KILN_MAX(percent * boards / 100, 1);
}

static kiln_status begin(kiln_tracker *t, const kiln_tracker_peer *client,
                         const kiln_msg_upgrade_order *order, uint64_t *out_persist) {
    char version[KILN_RELEASE_WORD_MAX] = "";
    board_list boards = {0};
    kiln_status st = check_releases(order, version);
    if (!st && t->upgrades.row.state == KILN_UPGRADE_RUNNING)
        st = KILN_ERROR(FAILED_PRECONDITION,
                        "the upgrade to %.*s is under way: wait, or kiln fleet upgrade --cancel",
                        KILN_STR_ARG(t->upgrades.row.version));
    if (!st && t->upgrades.active)
        st = KILN_ERROR(FAILED_PRECONDITION,
                        "%u boards still restart for the last upgrade: wait for them",
                        t->upgrades.active);
    if (!st) st = select_boards(t, order, &boards);
    if (!st) {
        const kiln_msg_upgrade_row row = {
            .version = kiln_str_from(version),
            .canaries = KILN_MIN(order->canaries, boards.count),
            .at_once = at_once(order, boards.count),
            .wait_s = order->wait_s ? order->wait_s : KILN_TRACKER_UPGRADE_WAIT_S,
            .by = kiln_str_from(client->person[0] ? client->person : client->node),
            .reason = order->reason};
        *out_persist =
            kiln_tracker_upgrades_begin(t, &row, order->releases.item, order->releases.count);
        for (uint32_t i = 0; i < boards.count; i++) kiln_tracker_upgrades_add(t, boards.data[i]);
    }
    kiln_vec_deinit(&boards);
    return st;
}

static kiln_status cancel(kiln_tracker *t, const kiln_msg_upgrade_order *order,
                          uint64_t *out_persist) {
    char why[KILN_MESSAGES_NAME + 1];
    if (t->upgrades.row.state != KILN_UPGRADE_RUNNING)
        return KILN_ERROR(FAILED_PRECONDITION, "no upgrade is under way");
    kiln_tracker_copy_text(why, sizeof why, order->reason);
    *out_persist = kiln_tracker_upgrades_end(t, KILN_UPGRADE_CANCELLED, why);
    return KILN_OK;
}

void kiln_tracker_upgrade_order(kiln_tracker *t, kiln_tracker_peer *client,
                                const kiln_message *message) {
    const kiln_msg_upgrade_order *order = &message->upgrade_order;
    kiln_tracker_upgrade_orders *own = &t->upgrade_orders;
    uint64_t persist = 0;
    kiln_status st = own->persist ? KILN_ERROR(ABORTED, "another order for an upgrade is under way")
                     : order->act == KILN_UPGRADE_CANCEL ? cancel(t, order, &persist)
                                                         : begin(t, client, order, &persist);
    if (st) {
        kiln_tracker_send_status(t, client, message->stream, (kiln_str){0}, 0, st);
        return;
    }
    *own = (kiln_tracker_upgrade_orders){persist, client->id, message->stream};
}

void kiln_tracker_upgrade_order_persisted(kiln_tracker *t, uint64_t persist, const char *failure) {
    kiln_tracker_upgrade_orders *own = &t->upgrade_orders;
    if (own->persist != persist) return;
    const kiln_tracker_peer *client = kiln_tracker_peer_find(t, own->peer);
    own->persist = 0;
    if (failure)
        kiln_tracker_send_error(
            t, client, own->stream, KILN_RESOURCE_EXHAUSTED, (kiln_str){0}, 0,
            "the order holds until the tracker is started anew, as it cannot be kept: %s", failure);
    else
        answer(t, client, own->stream, 0);
}
