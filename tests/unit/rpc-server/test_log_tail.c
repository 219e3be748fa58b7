/* Who reads the log gets what there is, a page at a time, and holds nobody up. */
#include "rpc-server/log_tail.h"

#include <string.h>

#include "tests/support/test.h"

typedef struct world {
    kiln_arena arena;
    kiln_loop *loop;
    kiln_timer *never; /* a loop that has nothing to wait for would end */
    kiln_log_tail *tail;
    uint32_t sent;
    kiln_msg_lines last; /* in the arena */
} world;

static void take(void *context, const kiln_message *message) {
    world *w = context;
    assert_int_equal(message->type, KILN_MSG_LINES);
    w->last = kiln_message_copy(message, &w->arena).lines;
    w->sent++;
}

static void wake_up(void *context) { (void)context; }

static int set_up(void **state) {
    static world w;
    w = (world){0};
    kiln_arena_init(&w.arena, 0);
    expect_ok(kiln_loop_create(&w.loop));
    w.never = kiln_timer_create(w.loop, wake_up, NULL);
    kiln_timer_start(w.never, UINT64_C(3600) * 1000000000);
    w.tail = kiln_log_tail_create(w.loop, take, &w);
    *state = &w;
    return 0;
}

static int tear_down(void **state) {
    world *w = *state;
    kiln_timer_destroy(w->never);
    kiln_loop_destroy(w->loop);
    kiln_log_tail_destroy(w->tail);
    kiln_arena_deinit(&w->arena);
    return 0;
}

static void put(world *w, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) kiln_log_tail_put(w->tail, KILN_STR("info a line"));
}

static void ask(world *w, uint64_t reader, uint64_t since, bool follow) {
    kiln_log_tail_ask(w->tail,
                      &(kiln_msg_tail){.reader = reader, .since = since, .follow = follow});
}

/* Until as many answers came. */
static void wait_for(world *w, uint32_t sent) {
    while (w->sent < sent) kiln_loop_run_once(w->loop);
    assert_int_equal(w->sent, sent);
}

static void pages_follow_each_other_to_the_newest_line(void **state) {
    world *w = *state;
    put(w, KILN_MESSAGES_PAGE + 3);
    ask(w, 5, 0, false);
    assert_int_equal(w->last.lines.count, KILN_MESSAGES_PAGE);
    assert_int_equal(w->last.lines.item[0].seq, 1);
    assert_int_equal(w->last.newest, KILN_MESSAGES_PAGE + 3);
    assert_int_equal(w->last.reader, 5);
    ask(w, 5, KILN_MESSAGES_PAGE, false);
    assert_int_equal(w->last.lines.count, 3);
    expect_str(w->last.lines.item[2].text, "info a line");
    ask(w, 5, KILN_MESSAGES_PAGE + 3, false);
    assert_int_equal(w->last.lines.count, 0);
    assert_int_equal(w->sent, 3);
}

static void only_the_last_lines_are_kept(void **state) {
    world *w = *state;
    put(w, KILN_LOG_TAIL_LINES + 10);
    ask(w, 1, 4, false);
    assert_int_equal(w->last.lines.item[0].seq, 11);
    ask(w, 1, KILN_LOG_TAIL_LINES + 999, false); /* it read a former run */
    assert_int_equal(w->last.lines.item[0].seq, 11);
}

static void long_lines_are_cut_and_what_is_not_ascii_cannot_break_the_message(void **state) {
    world *w = *state;
    char line[KILN_LOG_TAIL_LINE_BYTES + 100];
    memset(line, 'x', sizeof line);
    line[0] = '\xff';
    kiln_log_tail_put(w->tail, (kiln_str){line, sizeof line});
    ask(w, 1, 0, false);
    assert_int_equal(w->last.lines.item[0].text.size, KILN_LOG_TAIL_LINE_BYTES);
    assert_int_equal(w->last.lines.item[0].text.data[0], '?');
}

static void who_follows_is_told_once_per_question(void **state) {
    world *w = *state;
    ask(w, 1, 0, true);
    assert_int_equal(w->sent, 0);
    put(w, 1);
    wait_for(w, 1);
    assert_int_equal(w->last.lines.count, 1);
    put(w, 5); /* a slow reader: nothing is sent until it asks */
    ask(w, 2, 6, true);
    put(w, 1);
    wait_for(w, 2);
    assert_int_equal(w->last.reader, 2);
    ask(w, 1, 1, true);
    assert_int_equal(w->last.reader, 1);
    assert_int_equal(w->last.lines.count, 6);
}

static void who_stops_or_is_cut_off_hears_no_more(void **state) {
    world *w = *state;
    ask(w, 1, 0, true);
    ask(w, 2, 0, true);
    ask(w, 3, 0, true);
    kiln_log_tail_ask(w->tail, &(kiln_msg_tail){.reader = 2, .stop = true});
    put(w, 1);
    wait_for(w, 2);
    ask(w, 1, 1, true);
    kiln_log_tail_forget(w->tail);
    put(w, 1);
    kiln_loop_run_once(w->loop); /* it was woken, and nobody waits */
    assert_int_equal(w->sent, 2);
}

static void no_more_wait_than_there_is_room_for(void **state) {
    world *w = *state;
    for (uint64_t reader = 1; reader <= KILN_LOG_TAIL_READERS_MAX; reader++)
        ask(w, reader, 0, true);
    assert_int_equal(w->sent, 0);
    ask(w, 1000, 0, true);
    assert_int_equal(w->sent, 1); /* there is nothing now */
    assert_int_equal(w->last.lines.count, 0);
    ask(w, 1, 0, true); /* one that waits may say so again */
    assert_int_equal(w->sent, 1);
}

#define ROW(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        ROW(pages_follow_each_other_to_the_newest_line),
        ROW(only_the_last_lines_are_kept),
        ROW(long_lines_are_cut_and_what_is_not_ascii_cannot_break_the_message),
        ROW(who_follows_is_told_once_per_question),
        ROW(who_stops_or_is_cut_off_hears_no_more),
        ROW(no_more_wait_than_there_is_room_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
