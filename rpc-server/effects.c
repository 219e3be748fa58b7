/* The actions of a step, which the shell carries out in order. */
#include "rpc-server/state.h"

kiln_server_action *kiln_server_act(kiln_server *s, kiln_server_action_kind kind) {
    kiln_server_action action = {.kind = kind};
    kiln_vec_push(&s->actions->list, action);
    return &kiln_vec_last(&s->actions->list);
}

void kiln_server_send(kiln_server *s, const kiln_message *message) {
    if (s->link.state != KILN_LINK_UP) return;
    kiln_server_act(s, KILN_SERVER_SEND)->message = kiln_message_copy(message, &s->actions->arena);
}

void kiln_server_actions_reset(kiln_server_actions *actions) {
    kiln_arena_reset(&actions->arena);
    actions->list.count = 0;
}

void kiln_server_actions_deinit(kiln_server_actions *actions) {
    kiln_arena_deinit(&actions->arena);
    kiln_vec_deinit(&actions->list);
}
