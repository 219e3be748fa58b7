/* Building on a board. This program is its own builder (`--worker`), one that does what a request's
 * task key tells it. */
#include "rpc-server/board_builder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "compiler-core/core.h"
#include "compiler-core/worker/worker.h"
#include "tests/support/test.h"

#define SECOND KILN_NS_PER_S
#define PATIENCE (300 * SECOND) /* only what is broken reaches it */

/* ---- The builder ---- */

static bool read_exactly(char *bytes, size_t size) {
    for (size_t done = 0; done < size;) {
        ssize_t n = read(STDIN_FILENO, bytes + done, size - done);
        if (n <= 0) return false;
        done += (size_t)n;
    }
    return true;
}

static void reply_to(const kiln_work_request *request) {
    kiln_strbuf bytes = {0}, frame = {0};
    kiln_strbuf_printf(&bytes, "%.*s|%.*s|%.*s", KILN_STR_ARG(request->te),
                       KILN_STR_ARG(request->trace), KILN_STR_ARG(request->target));
    kiln_work_reply reply = {.id = request->id,
                             .bytes = kiln_strbuf_view(&bytes),
                             .elapsed_ns = 5,
                             .algorithm = KILN_STR("direct"),
                             .assembled = {96, 0, 4, 8192},
                             .layout_out = KILN_STR("NCHW8c")};
    if (kiln_str_is(request->task_key, "refuse")) {
        reply = (kiln_work_reply){.id = request->id,
                                  .code = KILN_ILLEGAL_SCHEDULE,
                                  .assembled = {255, 160, 8, 8192},
                                  .text = KILN_STR("it does not apply")};
    }
    kiln_work_reply_write(&reply, &frame);
    if (write(STDOUT_FILENO, frame.data, frame.size) != (ssize_t)frame.size) exit(1);
    kiln_strbuf_deinit(&bytes);
    kiln_strbuf_deinit(&frame);
}

static int builder_main(void) {
    static char bytes[1 << 16];
    for (;;) {
        kiln_arena arena;
        kiln_work_request request;
        size_t size = 4;
        kiln_arena_init(&arena, 0);
        if (!read_exactly(bytes, 4)) return 0;
        for (unsigned i = 0; i < 4; i++) size += (size_t)(uint8_t)bytes[i] << (8 * i);
        if (size > sizeof bytes || !read_exactly(bytes + 4, size - 4)) return 1;
        if (kiln_work_request_read((kiln_str){bytes, size}, &request)) return 1;
        if (kiln_str_is(request.task_key, "die")) abort();
        if (kiln_str_is(request.task_key, "hang"))
            for (;;) pause();
        reply_to(&request);
        kiln_arena_deinit(&arena);
    }
}

/* ---- The builder ---- */

typedef struct fixture {
    kiln_arena arena;
    kiln_loop *loop;
    kiln_timer *deadline;
    char *folder;
    kiln_blob_store *store;
    kiln_digest program;
    kiln_board_builder *shop;
    bool late;
    uint32_t count;        /* of events */
    kiln_server_event got; /* the last; what it points to: */
    kiln_msg_built built;
    char text[256];
} fixture;

static const char *own_path;

static void on_event(void *context, const kiln_server_event *event) {
    fixture *f = context;
    assert_int_equal(event->kind, KILN_SERVER_BUILT);
    f->count++;
    f->got = *event;
    snprintf(f->text, sizeof f->text, "%s", event->text ? event->text : "");
    if (event->built) {
        const kiln_message told = {.type = KILN_MSG_TRIAL_RESULT,
                                   .trial_result.built = *event->built};
        f->built = kiln_message_copy(&told, &f->arena).trial_result.built;
    }
    kiln_loop_stop(f->loop);
}

static void on_late(void *context) {
    ((fixture *)context)->late = true;
    kiln_loop_stop(((fixture *)context)->loop);
}

static int set_up(void **state) {
    static fixture the_fixture;
    fixture *f = *state = &the_fixture;
    *f = (fixture){0};
    kiln_arena_init(&f->arena, 0);
    expect_ok(kiln_loop_create(&f->loop));
    f->deadline = kiln_timer_create(f->loop, on_late, f);
    kiln_timer_start(f->deadline, PATIENCE);
    expect_ok(kiln_folder_create_temp("kiln-builder-test", &f->arena, &f->folder));
    const kiln_blob_store_options blobs = {.folder = f->folder, .bytes_max = 1 << 20};
    expect_ok(kiln_blob_store_open(&blobs, &f->store));
    expect_ok(kiln_blob_store_put(f->store, KILN_STR("the program"), &f->program));
    const kiln_board_builder_options options = {.loop = f->loop,
                                                .program = own_path,
                                                .builders = 1,
                                                .store = f->store,
                                                .post = on_event,
                                                .context = f};
    f->shop = kiln_board_builder_create(&options);
    assert_non_null(f->shop);
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    kiln_board_builder_destroy(f->shop);
    kiln_blob_store_close(f->store);
    kiln_timer_destroy(f->deadline);
    kiln_loop_destroy(f->loop);
    expect_ok(kiln_folder_remove(f->folder));
    kiln_arena_deinit(&f->arena);
    return 0;
}

static void build(fixture *f, uint64_t run, const char *task, uint64_t deadline_ns) {
    const kiln_msg_trial trial = {.recipe = {.program = {f->program, 11},
                                             .task = kiln_str_from(task),
                                             .target = KILN_STR("cpu:x"),
                                             .trace = KILN_STR("trace"),
                                             .codegen = kiln_str_from(kiln_codegen_version())}};
    const kiln_server_action action = {
        .kind = KILN_SERVER_BUILD, .run = run, .trial = &trial, .deadline_ns = deadline_ns};
    kiln_board_builder_build(f->shop, &action);
}

static void run_until(fixture *f, uint32_t count) {
    while (f->count < count && !f->late) kiln_loop_run_once(f->loop);
    assert_int_equal(f->count, count);
}

static void expect_built(fixture *f, uint64_t run) {
    assert_int_equal(f->got.run, run);
    assert_int_equal(f->got.outcome, KILN_OUTCOME_OK);
    assert_string_equal(f->text, "");
}

static void what_was_built_is_in_the_store(void **state) {
    fixture *f = *state;
    build(f, 3, "t", PATIENCE);
    run_until(f, 1);
    expect_built(f, 3);
    assert_int_equal(f->got.spent_ns, 5);
    expect_str(f->built.algorithm, "direct");
    expect_str(f->built.layout_out, "NCHW8c");
    assert_int_equal(f->got.assembled.registers, 96);
    assert_int_equal(f->got.assembled.stack_bytes, 4);
    assert_int_equal(f->got.assembled.shared_bytes, 8192);
    kiln_str bytes;
    expect_ok(kiln_blob_store_get(f->store, &f->built.artefact.digest, &f->arena, &bytes));
    expect_str(bytes, "the program|trace|cpu:x");
    assert_int_equal(f->built.artefact.size, bytes.size);
}

/* The one is told so, and the next is built by another process. */
static void expect_named(fixture *f, const char *task, uint64_t deadline_ns, kiln_outcome outcome,
                         const char *why) {
    build(f, 1, task, deadline_ns);
    build(f, 2, "t", PATIENCE);
    run_until(f, 1);
    assert_int_equal(f->got.run, 1);
    assert_int_equal(f->got.outcome, outcome);
    expect_contains(f->text, why);
    run_until(f, 2);
    expect_built(f, 2);
}

static void a_candidate_that_is_refused_is_a_build_error(void **state) {
    fixture *f = *state;
    expect_named(f, "refuse", PATIENCE, KILN_OUTCOME_BUILD_ERROR, "it does not apply");
    build(f, 3, "refuse", PATIENCE);
    run_until(f, 3);
    assert_int_equal(f->got.assembled.registers, 255);
    assert_int_equal(f->got.assembled.spill_bytes, 160);
}

static void a_candidate_that_the_compiler_dies_of_is_a_build_error(void **state) {
    expect_named(*state, "die", PATIENCE, KILN_OUTCOME_BUILD_ERROR, "died");
}

static void a_builder_that_hangs_is_killed_at_the_deadline_and_replaced(void **state) {
    expect_named(*state, "hang", SECOND / 50, KILN_OUTCOME_TIMEOUT, "deadline");
}

static void a_recipe_for_another_compiler_is_nobodys_fault(void **state) {
    fixture *f = *state;
    const kiln_msg_trial trial = {
        .recipe = {.program = {f->program, 11}, .codegen = KILN_STR("0-llvm0")}};
    kiln_board_builder_build(f->shop, &(kiln_server_action){.run = 4, .trial = &trial});
    run_until(f, 1);
    assert_int_equal(f->got.outcome, KILN_OUTCOME_INFRA);
    expect_contains(f->text, "0-llvm0");
    expect_contains(f->text, kiln_codegen_version());
}

static void a_program_that_is_not_there_is_nobodys_fault(void **state) {
    fixture *f = *state;
    f->program.byte[0] ^= 1;
    build(f, 5, "t", PATIENCE);
    run_until(f, 1);
    assert_int_equal(f->got.run, 5);
    assert_int_equal(f->got.outcome, KILN_OUTCOME_INFRA);
}

static void closing_it_ends_what_is_under_way_and_calls_nobody(void **state) {
    fixture *f = *state;
    build(f, 1, "t", PATIENCE);
    run_until(f, 1);
    build(f, 2, "hang", PATIENCE);
    build(f, 3, "t", PATIENCE);
    kiln_board_builder_destroy(f->shop);
    f->shop = NULL;
    assert_int_equal(f->count, 1);
}

static void without_builders_there_is_none(void **state) {
    (void)state;
    assert_null(kiln_board_builder_create(&(kiln_board_builder_options){.builders = 0}));
    assert_string_equal(kiln_board_builder_codegen(), kiln_codegen_version());
}

#define SHOP_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int argc, char **argv) {
    own_path = argv[0];
    if (argc > 1 && strcmp(argv[1], "--worker") == 0) return builder_main();
    const struct CMUnitTest tests[] = {
        SHOP_TEST(what_was_built_is_in_the_store),
        SHOP_TEST(a_candidate_that_is_refused_is_a_build_error),
        SHOP_TEST(a_candidate_that_the_compiler_dies_of_is_a_build_error),
        SHOP_TEST(a_builder_that_hangs_is_killed_at_the_deadline_and_replaced),
        SHOP_TEST(a_recipe_for_another_compiler_is_nobodys_fault),
        SHOP_TEST(a_program_that_is_not_there_is_nobodys_fault),
        SHOP_TEST(closing_it_ends_what_is_under_way_and_calls_nobody),
        cmocka_unit_test(without_builders_there_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
