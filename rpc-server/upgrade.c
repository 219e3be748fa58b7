#include "rpc-server/upgrade.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "rpc-server/state.h"

#define NAME "kiln-board" /* of releases that a board takes */

/* ---- Reports ---- */

static void report(kiln_server *s, uint64_t number, kiln_upgrade_report what, const char *text) {
    const kiln_message message = {
        .type = KILN_MSG_UPGRADED,
        .upgraded = {.number = number, .report = what, .text = kiln_str_from(text)}};
    kiln_server_send(s, &message);
}

static void report_state(kiln_server *s) {
    const kiln_server_upgrade *u = &s->upgrade;
    switch (u->state) {
    case KILN_SERVER_UPGRADE_NONE:
    case KILN_SERVER_UPGRADE_FETCHING: break;
    case KILN_SERVER_UPGRADE_READY: report(s, u->number, KILN_UPGRADE_IS_READY, ""); break;
    case KILN_SERVER_UPGRADE_ENDING:
    case KILN_SERVER_UPGRADE_ENDED:
    case KILN_SERVER_UPGRADE_ON_TRIAL:
    case KILN_SERVER_UPGRADE_CONFIRMED: report(s, u->number, KILN_UPGRADE_IS_RESTARTING, ""); break;
    case KILN_SERVER_UPGRADE_DONE: report(s, u->number, KILN_UPGRADE_IS_DONE, ""); break;
    case KILN_SERVER_UPGRADE_FAILED: report(s, u->number, KILN_UPGRADE_IS_FAILED, u->text); break;
    case KILN_SERVER_UPGRADE_REFUSED: report(s, u->number, KILN_UPGRADE_IS_REFUSED, u->text); break;
    }
}

static void enter(kiln_server *s, kiln_server_upgrade_state state) {
    s->upgrade.state = state;
    report_state(s);
}

static void end(kiln_server *s, kiln_server_upgrade_state state, const char *text) {
    snprintf(s->upgrade.text, sizeof s->upgrade.text, "%s", text);
    enter(s, state);
}

/* ---- Orders ---- */

/* The statement about an archive for this board's processor; NULL: there is none. */
static const kiln_msg_release_statement *for_this_board(const kiln_msg_upgrade *order) {
    kiln_release read = {0};
    for (uint32_t i = 0; i < order->releases.count; i++) {
        kiln_status st = kiln_release_parse(order->releases.item[i].text, &read);
        const bool fits = !st && strcmp(read.arch, kiln_release_arch()) == 0;
        kiln_status_free(st); /* of another processor, perhaps in a later form */
        if (fits) return &order->releases.item[i];
    }
    return NULL;
}

static void check(kiln_server *s, kiln_str statement) {
    kiln_server_upgrade *u = &s->upgrade;
    kiln_release release = {0};
    kiln_status st = kiln_release_check(statement, &u->keys, &release);
    if (!st && strcmp(release.name, NAME) != 0)
        st = KILN_ERROR(INVALID_ARGUMENT, "%s %s is no release for boards (" NAME ")", release.name,
                        release.version);
    if (st) {
        end(s, KILN_SERVER_UPGRADE_FAILED, kiln_status_text(st));
        kiln_status_free(st);
        return;
    }
    if (strcmp(release.version, u->version) == 0) {
        enter(s, KILN_SERVER_UPGRADE_DONE);
        return;
    }
    u->statement = (kiln_str){kiln_str_dup(&u->arena, statement), statement.size};
    u->archive = release.digest;
    u->state = KILN_SERVER_UPGRADE_FETCHING;
    u->fetch_again_ns = s->now_ns; /* this step's tick begins it */
}

static void prepare(kiln_server *s, const kiln_msg_upgrade *order) {
    kiln_server_upgrade *u = &s->upgrade;
    const kiln_msg_release_statement *release = for_this_board(order);
    char text[64];
    kiln_arena_reset(&u->arena);
    u->number = order->number;
    u->wait_s = order->wait_s;
    u->fetch_failures = 0;
    if (u->keys.count == 0) {
        end(s, KILN_SERVER_UPGRADE_REFUSED, "this board takes no releases");
    } else if (!release) {
        snprintf(text, sizeof text, "there is no archive for %s", kiln_release_arch());
        end(s, KILN_SERVER_UPGRADE_REFUSED, text);
    } else {
        check(s, release->text);
    }
}

/* Nothing can be called back once the launcher has been told. */
static bool is_committed(const kiln_server_upgrade *u) {
    return u->state == KILN_SERVER_UPGRADE_ENDED || u->state == KILN_SERVER_UPGRADE_ON_TRIAL ||
           u->state == KILN_SERVER_UPGRADE_CONFIRMED;
}

void kiln_server_upgrade_ordered(kiln_server *s, const kiln_msg_upgrade *order) {
    kiln_server_upgrade *u = &s->upgrade;
    if (is_committed(u)) {
        report_state(s);
    } else if (order->step == KILN_UPGRADE_FORGET) {
        if (order->number == u->number) u->state = KILN_SERVER_UPGRADE_NONE;
    } else if (order->number != u->number || u->state == KILN_SERVER_UPGRADE_NONE) {
        prepare(s, order);
    } else if (order->step == KILN_UPGRADE_RESTART && u->state == KILN_SERVER_UPGRADE_READY) {
        enter(s, KILN_SERVER_UPGRADE_ENDING);
    } else {
        report_state(s);
    }
}

/* ---- Events ---- */

void kiln_server_upgrade_fetched(kiln_server *s, const kiln_server_event *event) {
    kiln_server_upgrade *u = &s->upgrade;
    if (u->state != KILN_SERVER_UPGRADE_FETCHING || !u->is_fetching ||
        !kiln_digest_equal(&event->digest, &u->archive))
        return;
    u->is_fetching = false;
    if (event->failure) {
        snprintf(u->text, sizeof u->text, "%s", event->failure);
        u->fetch_failures++;
        u->fetch_again_ns = s->now_ns + KILN_SERVER_UPGRADE_RETRY_NS;
    } else {
        enter(s, KILN_SERVER_UPGRADE_READY);
    }
}

/* Decided once the wait is over, as a fetch that fails with its connection is no fault and its
 * failure is heard before the connection's end. */
static void fetch_or_fail(kiln_server *s) {
    kiln_server_upgrade *u = &s->upgrade;
    if (u->fetch_failures >= KILN_SERVER_UPGRADE_FETCHES) {
        enter(s, KILN_SERVER_UPGRADE_FAILED);
        return;
    }
    u->is_fetching = true;
    u->fetch_again_ns = UINT64_MAX;
    kiln_server_act(s, KILN_SERVER_FETCH)->digest = u->archive;
}

void kiln_server_upgrade_answered(kiln_server *s, const char *failure) {
    const kiln_server_upgrade_state state = s->upgrade.state;
    if (state == KILN_SERVER_UPGRADE_ENDED && failure)
        end(s, KILN_SERVER_UPGRADE_FAILED, failure);
    else if (state == KILN_SERVER_UPGRADE_CONFIRMED && !failure)
        enter(s, KILN_SERVER_UPGRADE_DONE);
}

void kiln_server_upgrade_opened(kiln_server *s) {
    kiln_server_upgrade *u = &s->upgrade;
    u->fetch_failures = 0;
    report_state(s);
}

static void tick_trial(kiln_server *s) {
    const char *why = kiln_health_text(&s->health);
    if (why) {
        s->upgrade.state = KILN_SERVER_UPGRADE_CONFIRMED; /* until the launcher ends this process */
        kiln_server_act(s, KILN_SERVER_GIVE_UP)->text =
            kiln_str_dup(&s->actions->arena, kiln_str_from(why));
    } else if (s->link.state == KILN_LINK_UP && kiln_health_may_start(&s->health)) {
        s->upgrade.state = KILN_SERVER_UPGRADE_CONFIRMED;
        kiln_server_act(s, KILN_SERVER_CONFIRM);
    }
}

static void restart(kiln_server *s) {
    kiln_server_upgrade *u = &s->upgrade;
    u->state = KILN_SERVER_UPGRADE_ENDED;
    kiln_server_action *action = kiln_server_act(s, KILN_SERVER_RESTART);
    action->text = kiln_str_dup(&s->actions->arena, u->statement);
    action->digest = u->archive;
    action->run = u->number;
    action->deadline_ns = u->wait_s * KILN_NS_PER_S;
}

bool kiln_server_upgrade_is_ending(const kiln_server *s) {
    return s->upgrade.state == KILN_SERVER_UPGRADE_ENDED;
}

void kiln_server_upgrade_tick(kiln_server *s) {
    kiln_server_upgrade *u = &s->upgrade;
    if (u->state == KILN_SERVER_UPGRADE_ON_TRIAL) tick_trial(s);
    if (u->state == KILN_SERVER_UPGRADE_FETCHING && s->now_ns >= u->fetch_again_ns &&
        s->link.state == KILN_LINK_UP)
        fetch_or_fail(s);
    if (u->state == KILN_SERVER_UPGRADE_ENDING && s->entry.count == 0 && !s->health.checking)
        restart(s);
}

uint64_t kiln_server_upgrade_next_ns(const kiln_server *s) {
    const kiln_server_upgrade *u = &s->upgrade;
    const bool is_due = u->state == KILN_SERVER_UPGRADE_FETCHING && s->link.state == KILN_LINK_UP;
    return is_due ? u->fetch_again_ns : UINT64_MAX;
}

/* ---- Life ---- */

void kiln_server_upgrade_init(kiln_server_upgrade *u, const kiln_server_options *options) {
    kiln_arena_init(&u->arena, KILN_RELEASE_TEXT_MAX);
    u->number = options->launch.number;
    if (options->release_keys) u->keys = *options->release_keys;
    if (options->version) snprintf(u->version, sizeof u->version, "%s", options->version);
    if (options->launch.failure) {
        u->state = KILN_SERVER_UPGRADE_FAILED;
        snprintf(u->text, sizeof u->text, "%s", options->launch.failure);
    } else if (options->launch.is_trial) {
        u->state = KILN_SERVER_UPGRADE_ON_TRIAL;
    }
}

void kiln_server_upgrade_deinit(kiln_server_upgrade *u) { kiln_arena_deinit(&u->arena); }
