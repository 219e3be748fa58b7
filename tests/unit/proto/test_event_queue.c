#include "proto/event_queue.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "tests/support/test.h"

#define EVENTS_MAX 8u

typedef struct test_event {
    uint32_t number;
    const char *text;
    const kiln_message *message;
} test_event;

typedef struct bench {
    kiln_loop *loop;
    kiln_event_queue *queue;
    uint32_t decided[EVENTS_MAX], decided_count;
    char text[EVENTS_MAX][8];
    uint64_t turn[EVENTS_MAX]; /* of the loop, in which each was decided */
    uint32_t posts;            /* how many more events a decision posts */
    bool takes_long;           /* each decision takes until the turn is late */
    bool is_empty[EVENTS_MAX]; /* as end_turn was told */
    uint32_t ended_count;
    uint64_t next_ns, ticked_ns;
    uint32_t asked, ticked; /* calls of next_ns and tick */
    char reason[16];        /* of the last message */
} bench;

static void keep(void *event, kiln_arena *arena) {
    test_event *e = event;
    e->text = kiln_event_keep_text(e->text, arena);
    e->message = kiln_event_keep_message(e->message, arena);
}

static void post(bench *b, uint32_t number) {
    kiln_event_queue_post(b->queue, &(test_event){.number = number});
}

static void decide(void *context, const void *event) {
    bench *b = context;
    const test_event *e = event;
    assert_true(b->decided_count < EVENTS_MAX);
    b->turn[b->decided_count] = kiln_loop_times_get(b->loop)->wall.count;
    if (e->text) snprintf(b->text[b->decided_count], sizeof b->text[0], "%s", e->text);
    if (e->message)
        snprintf(b->reason, sizeof b->reason, "%.*s", KILN_STR_ARG(e->message->goaway.reason));
    b->decided[b->decided_count++] = e->number;
    const uint32_t before = b->decided_count;
    if (b->posts > 0) {
        b->posts--;
        post(b, e->number + 10);
    }
    assert_int_equal(b->decided_count, before); /* not from inside */
    while (b->takes_long && !kiln_loop_is_late(b->loop)) continue;
}

static void end_turn(void *context, bool is_empty) {
    bench *b = context;
    assert_true(b->ended_count < EVENTS_MAX);
    b->is_empty[b->ended_count++] = is_empty;
}

static uint64_t next_ns(void *context) {
    bench *b = context;
    b->asked++;
    return b->next_ns;
}

static void tick(void *context) {
    bench *b = context;
    b->ticked++;
    b->ticked_ns = kiln_loop_now_ns(b->loop);
}

static void open_bench(bench *b) {
    *b = (bench){.next_ns = UINT64_MAX};
    expect_ok(kiln_loop_create(&b->loop));
    b->queue =
        kiln_event_queue_create(&(kiln_event_queue_options){.loop = b->loop,
                                                            .event_bytes = sizeof(test_event),
                                                            .keep = keep,
                                                            .decide = decide,
                                                            .end_turn = end_turn,
                                                            .next_ns = next_ns,
                                                            .tick = tick,
                                                            .context = b});
}

static void close_bench(bench *b) {
    kiln_event_queue_destroy(b->queue);
    kiln_loop_destroy(b->loop);
}

static void events_are_decided_in_order_and_later(void **state) {
    (void)state;
    bench b;
    open_bench(&b);
    for (uint32_t i = 0; i < 3; i++) post(&b, i);
    assert_int_equal(b.decided_count, 0);
    kiln_loop_run(b.loop); /* ends by itself: nothing is left to wait for */
    assert_int_equal(b.decided_count, 3);
    for (uint32_t i = 0; i < 3; i++) assert_int_equal(b.decided[i], i);
    post(&b, 7); /* the queue was emptied, and takes more */
    kiln_loop_run(b.loop);
    assert_int_equal(b.decided_count, 4);
    assert_int_equal(b.decided[3], 7);
    close_bench(&b);
}

static void what_a_decision_posts_is_decided_after_what_waits(void **state) {
    (void)state;
    bench b;
    open_bench(&b);
    b.posts = 3; /* the last of them when nothing waits */
    post(&b, 0);
    post(&b, 1);
    kiln_loop_run(b.loop);
    const uint32_t expected[] = {0, 1, 10, 11, 20};
    assert_int_equal(b.decided_count, KILN_ARRAY_COUNT(expected));
    assert_memory_equal(b.decided, expected, sizeof expected);
    assert_true(b.is_empty[b.ended_count - 1]);
    close_bench(&b);
}

static void what_an_event_points_to_is_copied(void **state) {
    (void)state;
    bench b;
    char text[] = "first", reason[] = "a reason";
    kiln_message goaway = {.type = KILN_MSG_GOAWAY, .goaway = {.reason = kiln_str_from(reason)}};
    open_bench(&b);
    kiln_event_queue_post(b.queue, &(test_event){.text = text, .message = &goaway});
    memset(text, 'x', sizeof text - 1);
    memset(reason, 'x', sizeof reason - 1);
    goaway.goaway.reason = (kiln_str){0};
    kiln_loop_run(b.loop);
    assert_string_equal(b.text[0], "first");
    assert_string_equal(b.reason, "a reason");
    close_bench(&b);
}

static void a_late_turn_leaves_events_to_the_next(void **state) {
    (void)state;
    bench b;
    open_bench(&b);
    b.takes_long = true;
    for (uint32_t i = 0; i < 3; i++) post(&b, i);
    kiln_loop_run(b.loop);
    assert_int_equal(b.decided_count, 3);
    assert_true(b.turn[0] < b.turn[1]);
    assert_true(b.turn[1] < b.turn[2]);
    const bool expected[] = {false, false, true};
    assert_int_equal(b.ended_count, KILN_ARRAY_COUNT(expected));
    assert_memory_equal(b.is_empty, expected, sizeof expected);
    assert_int_equal(b.asked, 1); /* the timer of the tick is set when the queue is empty */
    close_bench(&b);
}

static void the_tick_comes_when_it_is_due(void **state) {
    (void)state;
    bench b;
    open_bench(&b);
    b.next_ns = kiln_loop_now_ns(b.loop) + KILN_NS_PER_MS;
    post(&b, 0);
    kiln_loop_run(b.loop);
    assert_int_equal(b.ticked, 1);
    assert_true(b.ticked_ns >= b.next_ns);
    kiln_event_queue_set_tick(b.queue); /* it is overdue by now */
    kiln_loop_run(b.loop);
    assert_int_equal(b.ticked, 2);
    b.next_ns = UINT64_MAX;
    kiln_event_queue_set_tick(b.queue);
    kiln_loop_run(b.loop);
    assert_int_equal(b.ticked, 2);
    close_bench(&b);
}

static void what_is_posted_to_no_queue_is_dropped(void **state) {
    (void)state;
    bench b;
    open_bench(&b);
    post(&b, 0);
    kiln_event_queue_destroy(b.queue); /* with an event that is not decided */
    b.queue = NULL;
    post(&b, 1);
    kiln_loop_run(b.loop);
    assert_int_equal(b.decided_count, 0);
    close_bench(&b);
}

static void nothing_is_kept_of_nothing(void **state) {
    (void)state;
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    assert_null(kiln_event_keep_text(NULL, &arena));
    assert_null(kiln_event_keep_message(NULL, &arena));
    kiln_arena_deinit(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_are_decided_in_order_and_later),
        cmocka_unit_test(what_a_decision_posts_is_decided_after_what_waits),
        cmocka_unit_test(what_an_event_points_to_is_copied),
        cmocka_unit_test(a_late_turn_leaves_events_to_the_next),
        cmocka_unit_test(the_tick_comes_when_it_is_due),
        cmocka_unit_test(what_is_posted_to_no_queue_is_dropped),
        cmocka_unit_test(nothing_is_kept_of_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
