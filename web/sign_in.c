/* Asks the tracker whose token it is. */
#include <string.h>

#include "base/alloc.h"
#include "proto/keys.h"
#include "web/people.h"

typedef struct sign_in {
    kiln_person_found found;
    void *context;
} sign_in;

static kiln_status read_signed_in(const kiln_message *message, kiln_identity_of_person *out) {
    if (message->type != KILN_MSG_SIGNED_IN)
        return KILN_ERROR(DATA_LOSS, "the tracker answered %s", kiln_message_name(message->type));
    const kiln_msg_signed_in *answer = &message->signed_in;
    if (answer->person.size >= sizeof out->name || answer->token.size >= sizeof out->token)
        return KILN_ERROR(DATA_LOSS, "the tracker sent a name that is too long");
    memcpy(out->name, answer->person.data, answer->person.size);
    memcpy(out->token, answer->token.data, answer->token.size);
    out->is_admin = answer->admin;
    return KILN_OK;
}

static void on_signed_in(void *context, const kiln_message *message, kiln_status st) {
    const sign_in asked = *(sign_in *)context;
    kiln_identity_of_person who = {0};
    kiln_free(context);
    if (!st) st = read_signed_in(message, &who);
    asked.found(asked.context, st ? NULL : &who, st);
}

void kiln_people_sign_in(kiln_people *people, kiln_str token, kiln_person_found found,
                         void *context) {
    char name[KILN_MESSAGES_TEXT + 1];
    uint8_t secret[KILN_KEY_BYTES];
    kiln_person *server = NULL;
    kiln_status st = KILN_OK;
    if (!kiln_web_token_parse(token, name, secret))
        st = KILN_ERROR(UNAUTHENTICATED, "the token is wrong");
    if (!st) st = kiln_people_server(people, &server);
    if (st) {
        found(context, NULL, st);
        return;
    }
    sign_in *asked = kiln_alloc(sizeof *asked);
    *asked = (sign_in){found, context};
    const kiln_message question = {.type = KILN_MSG_SIGN_IN,
                                   .sign_in = {.person = kiln_str_from(name),
                                               .secret = {(const char *)secret, sizeof secret}}};
    kiln_person_ask(server, &question, on_signed_in, asked);
    kiln_wipe(secret, sizeof secret);
}
