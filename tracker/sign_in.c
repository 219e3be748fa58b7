#include "base/check.h"
#include "base/clock.h"
#include "tracker/state.h"

void kiln_tracker_know_tokens(kiln_tracker *t, kiln_tracker_find_token find_token, void *context) {
    t->sign_ins.find_token = find_token;
    t->sign_ins.context = context;
}

/* The entry of a person; `*out_spare`: the one that a new person takes. NULL: it has none. */
static kiln_tracker_wrong *find_wrong(kiln_tracker *t, kiln_str person,
                                      kiln_tracker_wrong **out_spare) {
    kiln_tracker_wrong *oldest = &t->sign_ins.wrong[0];
    for (uint32_t i = 0; i < KILN_TRACKER_WRONG_NAMES; i++) {
        kiln_tracker_wrong *wrong = &t->sign_ins.wrong[i];
        if (kiln_str_is(person, wrong->person)) return wrong;
        if (wrong->since_ns < oldest->since_ns) oldest = wrong;
    }
    *out_spare = oldest;
    return NULL;
}

/* Ms until tokens of the person are looked at again; 0: now. */
static uint32_t wait_ms(kiln_tracker *t, kiln_str person) {
    kiln_tracker_wrong *spare = NULL;
    const kiln_tracker_wrong *wrong = find_wrong(t, person, &spare);
    const uint64_t age_ns = wrong ? t->effects.now_ns - wrong->since_ns : 0;
    if (!wrong || wrong->count < KILN_TRACKER_WRONG_MAX || age_ns >= KILN_TRACKER_WRONG_NS)
        return 0;
    return (uint32_t)((KILN_TRACKER_WRONG_NS - age_ns) / KILN_NS_PER_MS) + 1;
}

static void count_wrong(kiln_tracker *t, kiln_str person) {
    kiln_tracker_wrong *spare = NULL, *wrong = find_wrong(t, person, &spare);
    if (!wrong) {
        wrong = spare;
        kiln_tracker_set_text(wrong->person, person);
        wrong->since_ns = 0;
    }
    if (wrong->since_ns == 0 || t->effects.now_ns - wrong->since_ns >= KILN_TRACKER_WRONG_NS) {
        wrong->since_ns = t->effects.now_ns;
        wrong->count = 0;
    }
    wrong->count++;
}

static void note(kiln_tracker *t, const kiln_tracker_peer *web, kiln_tracker_happening what,
                 kiln_str person) {
    const kiln_tracker_note said = {.what = what, .peer = web->id, .text = person};
    kiln_tracker_log(t, &said);
}

/* A person that does not exist gets the same answer as a wrong token. */
static void refuse(kiln_tracker *t, kiln_tracker_peer *web, const kiln_message *message) {
    count_wrong(t, message->sign_in.person);
    note(t, web, KILN_TRACKER_SIGN_IN_REFUSED, message->sign_in.person);
    kiln_tracker_send_error(
        t, web, message->stream, KILN_UNAUTHENTICATED, (kiln_str){0}, 0,
        "this is no token of %.*s: it may be revoked or have expired; `kiln key "
        "new client/NAME --web` makes one",
        KILN_STR_ARG(message->sign_in.person));
}

void kiln_tracker_sign_in(kiln_tracker *t, kiln_tracker_peer *web, const kiln_message *message) {
    const kiln_str person = message->sign_in.person;
    kiln_tracker_token token;
    const uint32_t later_ms = wait_ms(t, person);
    if (later_ms) {
        kiln_message error =
            kiln_message_error(KILN_RESOURCE_EXHAUSTED, message->stream,
                               "too many wrong tokens for this person: try again in a minute");
        error.error.retry_after_ms = later_ms;
        kiln_tracker_send(t, web, &error);
    } else if (!t->sign_ins.find_token ||
               !t->sign_ins.find_token(t->sign_ins.context, person, message->sign_in.secret,
                                       &token)) {
        refuse(t, web, message);
    } else {
        const kiln_message answer = {.type = KILN_MSG_SIGNED_IN,
                                     .stream = message->stream,
                                     .signed_in = {.person = person,
                                                   .admin = token.is_admin,
                                                   .token = kiln_str_from(token.name)}};
        note(t, web, KILN_TRACKER_SIGNED_IN, person);
        kiln_tracker_send(t, web, &answer);
    }
}

void kiln_tracker_sign_ins_check(const kiln_tracker *t) {
    for (uint32_t i = 0; i < KILN_TRACKER_WRONG_NAMES; i++) {
        const kiln_tracker_wrong *wrong = &t->sign_ins.wrong[i];
        KILN_CHECK((wrong->since_ns == 0) == (wrong->count == 0));
        KILN_CHECK(wrong->count <= KILN_TRACKER_WRONG_MAX);
    }
}
