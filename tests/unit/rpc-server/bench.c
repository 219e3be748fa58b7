#include "tests/unit/rpc-server/bench.h"

#include "base/alloc.h"
#include "rpc-server/health.h"

void bench_step(bench *b, const kiln_server_event *event) {
    kiln_server_actions_reset(&b->actions);
    kiln_server_step(b->server, b->now_ns, event, &b->actions);
    for (uint32_t i = 0; i < b->actions.list.count; i++)
        if (b->actions.list.data[i].kind == KILN_SERVER_START) b->run = b->actions.list.data[i].run;
}

void bench_tick_after(bench *b, uint64_t ns) {
    b->now_ns += ns;
    bench_step(b, &(kiln_server_event){.kind = KILN_SERVER_TICK});
}

void bench_tick_heard(bench *b, uint64_t ns) {
    bench_step(b, &(kiln_server_event){.kind = KILN_SERVER_MESSAGE,
                                       .message = &(kiln_message){.type = KILN_MSG_PONG}});
    bench_tick_after(b, ns);
}

void bench_say(bench *b, const kiln_message *message) {
    bench_step(b, &(kiln_server_event){.kind = KILN_SERVER_MESSAGE, .message = message});
}

const kiln_server_action *bench_find(const bench *b, kiln_server_action_kind kind) {
    for (uint32_t i = 0; i < b->actions.list.count; i++)
        if (b->actions.list.data[i].kind == kind) return &b->actions.list.data[i];
    return NULL;
}

const kiln_message *bench_find_sent(const bench *b, kiln_message_type type) {
    for (uint32_t i = 0; i < b->actions.list.count; i++) {
        const kiln_server_action *action = &b->actions.list.data[i];
        if (action->kind == KILN_SERVER_SEND && action->message.type == type)
            return &action->message;
    }
    return NULL;
}

int bench_set_up(void **state) {
    static const kiln_msg_board_up up = {
        .key = {"b", 1}, .target = {"cpu:x", 5}, .slots = 2, .memory_bytes = BENCH_MEMORY_BYTES};
    bench *b = kiln_alloc(sizeof *b);
    b->now_ns = 50 * BENCH_S;
    b->server = kiln_server_create(&(kiln_server_options){.board = &up, .seed = 1}, b->now_ns);
    *state = b;
    return 0;
}

int bench_tear_down(void **state) {
    bench *b = *state;
    kiln_server_destroy(b->server);
    kiln_server_actions_deinit(&b->actions);
    kiln_free(b);
    return 0;
}

void bench_connect_to_tracker(bench *b) {
    bench_step(b, &(kiln_server_event){.kind = KILN_SERVER_OPENED});
}

void bench_check_itself(bench *b) {
    static const kiln_msg_board_up up = {.key = {"b", 1}, .target = {"cpu:x", 5}, .slots = 2};
    kiln_server_destroy(b->server);
    b->server = kiln_server_create(
        &(kiln_server_options){.board = &up, .seed = 1, .check_ns = KILN_HEALTH_CHECK_NS},
        b->now_ns);
    bench_connect_to_tracker(b);
}

void bench_checked(bench *b, uint64_t run, const char *failure) {
    bench_step(b,
               &(kiln_server_event){.kind = KILN_SERVER_CHECKED, .run = run, .failure = failure});
}

kiln_digest bench_digest(uint8_t first) { return (kiln_digest){{first}}; }

kiln_message bench_trial(const char *id, uint64_t lease, uint32_t slot) {
    return (kiln_message){
        .type = KILN_MSG_TRIAL,
        .trial = {.trial = kiln_str_from(id),
                  .attempt = 1,
                  .lease = lease,
                  .slot = slot,
                  .job = KILN_STR("j"),
                  .artefact = {bench_digest((uint8_t)id[0]), 10},
                  .reference = {bench_digest(1), 10},
                  .deadlines_ms = {
                      .fetch = 1000, .load = 2000, .warm = 3000, .run = 4000, .check = 5000}}};
}

void bench_fetched(bench *b, uint8_t first, const char *failure) {
    bench_step(b, &(kiln_server_event){.kind = KILN_SERVER_FETCHED,
                                       .digest = bench_digest(first),
                                       .failure = failure});
}

void bench_send_trial(bench *b, const char *id, uint64_t lease, uint32_t slot) {
    kiln_message message = bench_trial(id, lease, slot);
    bench_say(b, &message);
    bench_fetched(b, (uint8_t)id[0], NULL);
    bench_fetched(b, 1, NULL);
}

void bench_finish(bench *b, uint32_t slot) {
    uint64_t samples[] = {5, 6, 7};
    kiln_msg_trial_result result = {
        .outcome = KILN_OUTCOME_OK, .samples_ns = {samples, 3}, .checked = true};
    bench_step(b,
               &(kiln_server_event){
                   .kind = KILN_SERVER_FINISHED, .slot = slot, .run = b->run, .result = &result});
}

void bench_die(bench *b, uint32_t slot, const char *text) {
    bench_step(b, &(kiln_server_event){
                      .kind = KILN_SERVER_DIED, .slot = slot, .run = b->run, .text = text});
}
