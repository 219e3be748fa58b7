/* Frames between a tuner and its workers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/rand.h"
#include "base/status.h"
#include "compiler-core/worker/worker.h"

typedef struct fixture {
    kiln_arena arena;
    kiln_strbuf frame;
} fixture;

static fixture the_fixture;

static int set_up(void **state) {
    kiln_arena_init(&the_fixture.arena, 0);
    *state = &the_fixture;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    kiln_arena_deinit(&f->arena);
    kiln_strbuf_deinit(&f->frame);
    return 0;
}

static const kiln_work_request request = {.work = KILN_WORK_BUILD,
                                          .accuracy = {KILN_PRECISION_BF16, true, 0.25},
                                          .id = 7,
                                          .target = {"cpu:x", 5},
                                          .te = {"program p", 9},
                                          .task_key = {"v1:0", 4},
                                          .trace = {"\0\1\2", 3},
                                          .model_form = 1,
                                          .seed = UINT64_MAX};

static kiln_work_reply make_reply(void) {
    return (kiln_work_reply){.id = 9,
                             .code = 13,
                             .text = KILN_STR("gone"),
                             .link_error = true,
                             .elapsed_ns = 12345,
                             .bytes = {"\0\xff", 2},
                             .algorithm = KILN_STR("direct"),
                             .layout_in = KILN_STR("row"),
                             .layout_out = KILN_STR("d0,d1/8,d1%8"),
                             .codegen_version = KILN_STR("1")};
}

static void a_request_comes_back_as_it_was_written(void **state) {
    fixture *f = *state;
    kiln_work_request_write(&request, &f->frame);
    size_t size = 0;
    assert_null(kiln_work_frame_size(kiln_strbuf_view(&f->frame), &size));
    assert_int_equal(size, f->frame.size);
    kiln_work_request got;
    assert_null(kiln_work_request_read(kiln_strbuf_view(&f->frame), &got));
    assert_int_equal(got.work, KILN_WORK_BUILD);
    assert_int_equal(got.id, 7);
    assert_true(got.seed == UINT64_MAX);
    assert_true(kiln_str_equal(got.te, request.te));
    assert_true(kiln_str_equal(got.trace, request.trace));
    assert_int_equal(got.model_path.size, 0);
    assert_int_equal(got.model_form, request.model_form);
    assert_int_equal(got.accuracy.precision, request.accuracy.precision);
    assert_true(got.accuracy.exact == request.accuracy.exact);
    assert_true(got.accuracy.error_max == request.accuracy.error_max);
}

static void a_reply_comes_back_as_it_was_written(void **state) {
    fixture *f = *state;
    kiln_work_reply put = make_reply(), got;
    kiln_work_reply_write(&put, &f->frame);
    assert_null(kiln_work_reply_read(kiln_strbuf_view(&f->frame), &got));
    assert_int_equal(got.code, 13);
    assert_true(got.link_error);
    assert_true(kiln_str_equal(got.bytes, put.bytes));
    assert_true(kiln_str_equal(got.layout_out, put.layout_out));
}

static void a_frame_is_whole_only_with_its_last_byte(void **state) {
    fixture *f = *state;
    kiln_work_request_write(&request, &f->frame);
    for (size_t i = 0; i < f->frame.size; i++) {
        size_t size = 1;
        assert_null(kiln_work_frame_size(kiln_str_slice(kiln_strbuf_view(&f->frame), 0, i), &size));
        assert_int_equal(size, 0);
    }
}

static void a_frame_beyond_the_limit_is_refused(void **state) {
    (void)state;
    size_t size = 0;
    kiln_status st = kiln_work_frame_size((kiln_str){"\xff\xff\xff\xff", 4}, &size);
    assert_int_equal(kiln_status_code(st), KILN_DATA_LOSS);
    kiln_status_free(st);
}

static void damaged_frames_end_in_an_error_or_a_message(void **state) {
    fixture *f = *state;
    kiln_rand rand;
    kiln_rand_init(&rand, 3);
    kiln_work_reply put = make_reply(), reply;
    kiln_work_request got;
    for (unsigned i = 0; i < 5000; i++) {
        kiln_strbuf_reset(&f->frame);
        if (i % 2)
            kiln_work_reply_write(&put, &f->frame);
        else
            kiln_work_request_write(&request, &f->frame);
        f->frame.data[4 + kiln_rand_below(&rand, f->frame.size - 4)] = (char)kiln_rand_u64(&rand);
        kiln_status_free(i % 2 ? kiln_work_reply_read(kiln_strbuf_view(&f->frame), &reply)
                               : kiln_work_request_read(kiln_strbuf_view(&f->frame), &got));
        kiln_arena_reset(&f->arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_request_comes_back_as_it_was_written, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_reply_comes_back_as_it_was_written, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_frame_is_whole_only_with_its_last_byte, set_up,
                                        tear_down),
        cmocka_unit_test(a_frame_beyond_the_limit_is_refused),
        cmocka_unit_test_setup_teardown(damaged_frames_end_in_an_error_or_a_message, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
