/* Schedules written by hand: read, and checked before anything is measured. */
#include "cli/worker/schedules.h"

#include "tests/support/test.h"

/* A compilation of one task, "key": sums of rows. */
typedef struct fixture {
    kiln_target target;
    kiln_task task;
    const kiln_layout **agreed;
    kiln_compilation c;
} fixture;

static void sums(kiln_arena *arena, fixture *f) {
    *f = (fixture){.task = {.key = KILN_STR("key")}};
    expect_ok(kiln_target_parse(KILN_STR("x86-64-v3"), arena, &f->target));
    expect_ok(
        kiln_program_parse(KILN_STR("program sums\ninput x0: f32[64,4096]\noutput y1: f32[64]\n"
                                    "block s(i:64 | k:4096): y1[i] sum= x0[i, k] init 0.0\n"),
                           arena, &f->task.te));
    f->c.searched.task = &f->task;
    f->c.searched.count = 1;
    f->c.agreed = &f->agreed;
}

static kiln_status check(kiln_arena *arena, const char *text, kiln_msg_hand_schedules *out) {
    const kiln_schedules schedules = {"s.txt", kiln_str_from(text)};
    fixture f;
    sums(arena, &f);
    return kiln_schedules_check(&schedules, &f.c, &f.target, &(kiln_accuracy){0}, arena, out);
}

static void each_task_has_its_lines(void **state) {
    const kiln_schedules schedules = {
        "s.txt", KILN_STR("# two\ntask a\nunroll(s.k)\nparallel(s.i)\n\ntask b\nunroll(s.k)\n")};
    const kiln_pack_given *given = NULL;
    uint32_t count = 0;
    expect_ok(kiln_schedules_parse(&schedules, *state, &given, &count));
    assert_int_equal(count, 2);
    assert_true(kiln_str_is(given[0].task_key, "a") && kiln_str_is(given[1].task_key, "b"));
    assert_int_equal(given[0].trace.count, 2);
    assert_int_equal(given[1].trace.count, 1);
}

/* Whether the space holds it or not. */
static void a_legal_one_is_taken_as_it_is(void **state) {
    kiln_msg_hand_schedules list = {0};
    kiln_trace trace;
    kiln_strbuf text = {0};
    expect_ok(check(*state, "task key\nsplit(s.k, -1, 8)\nunroll(s.k.1)\n", &list));
    assert_int_equal(list.items.count, 1);
    assert_true(kiln_str_is(list.items.item[0].task, "key"));
    expect_ok(kiln_trace_decode(list.items.item[0].trace, *state, &trace));
    kiln_trace_print(&trace, &text);
    assert_string_equal(text.data, "split(s.k, -1, 8)\nunroll(s.k.1)\n");
    kiln_strbuf_deinit(&text);
}

static void what_is_wrong_names_file_and_task(void **state) {
    static const struct {
        const char *text, *says;
        kiln_code code;
    } row[] = {
        {"unroll(s.k)\n", "s.txt: expected \"task KEY\"", KILN_INVALID_ARGUMENT},
        {"task key\nunrol(s.k)\n", "s.txt, task key: trace text 1:1", KILN_INVALID_ARGUMENT},
        {"task other\nunroll(s.k)\n", "s.txt, task other: the model has no such task",
         KILN_NOT_FOUND},
        {"task key\nunroll(s.z)\n", "s.txt, task key: instruction 1 (unroll): there is no loop s.z",
         KILN_ILLEGAL_SCHEDULE},
        {"task key\nparallel(s.k)\n", "s.txt, task key", KILN_ILLEGAL_SCHEDULE},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_msg_hand_schedules list = {0};
        kiln_status st = check(*state, row[i].text, &list);
        assert_int_equal(kiln_status_code(st), row[i].code);
        expect_contains(kiln_status_text(st), row[i].says);
        kiln_status_free(st);
    }
}

static void more_than_a_job_takes_are_refused(void **state) {
    kiln_strbuf text = {0};
    kiln_msg_hand_schedules list = {0};
    for (uint32_t i = 0; i <= KILN_MESSAGES_BY_HAND; i++)
        kiln_strbuf_text(&text, "task key\nunroll(s.k)\n");
    kiln_status st = check(*state, text.data, &list);
    assert_int_equal(kiln_status_code(st), KILN_RESOURCE_EXHAUSTED);
    kiln_status_free(st);
    kiln_strbuf_deinit(&text);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(each_task_has_its_lines),
        test_with_arena(a_legal_one_is_taken_as_it_is),
        test_with_arena(what_is_wrong_names_file_and_task),
        test_with_arena(more_than_a_job_takes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
