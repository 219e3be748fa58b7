/* What a board says about itself. */
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "base/target.h"
#include "rpc-server/board.h"
#include "rpc-server/discover.h"
#include "rpc-server/slots.h"
#include "tests/support/test.h"

static kiln_status describe(kiln_arena *arena, const char *labels, kiln_msg_board_up *out_board) {
    kiln_board_options options = {.key = "desk", .labels = labels, .peak_flops = 123.4e9};
    return kiln_board_describe(&options, arena, out_board);
}

static const char *label(kiln_arena *arena, const kiln_msg_board_up *board, const char *key) {
    for (uint32_t i = 0; i < board->labels.count; i++)
        if (kiln_str_is(board->labels.item[i].key, key))
            return kiln_str_dup(arena, board->labels.item[i].value);
    return NULL;
}

static void a_board_says_what_it_is(void **state) {
    (void)state;
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    kiln_msg_board_up board;
    assert_null(describe(&arena, "room=2,owner=me", &board));
    assert_true(kiln_str_is(board.key, "desk") && board.slots == 1 &&
                kiln_str_is(board.executors, "cpu,null,vta"));
    assert_true(kiln_str_starts(board.target, "cpu:"));
    assert_true(board.memory_bytes > (UINT64_C(1) << 26));
    assert_true(kiln_str_starts(board.firmware, "Linux "));
    assert_string_equal(label(&arena, &board, "room"), "2");
    assert_string_equal(label(&arena, &board, "owner"), "me");
    assert_string_equal(label(&arena, &board, "peak_gflops"), "123.4");

    /* It fits into a message. */
    kiln_strbuf body = {0};
    kiln_message message = {.type = KILN_MSG_BOARD_UP, .board_up = board};
    assert_null(kiln_message_encode(&message, &body));
    kiln_strbuf_deinit(&body);
    kiln_arena_deinit(&arena);
}

static void a_board_that_builds_says_with_what(void **state) {
    kiln_board_options options = {.key = "desk", .labels = "room=2"};
    kiln_msg_board_up board;
    expect_ok(kiln_board_describe(&options, *state, &board));
    assert_null(label(*state, &board, KILN_LABEL_BUILDS));
    options.builds = "1-llvm0";
    expect_ok(kiln_board_describe(&options, *state, &board));
    assert_string_equal(label(*state, &board, KILN_LABEL_BUILDS), "1-llvm0");
    assert_string_equal(label(*state, &board, "room"), "2");
}

static void other_targets_are_offered_beside_its_own(void **state) {
    static const char *const also[] = {"null", "null,group=8", "vta:pynq"},
                             *const many[] = {"null", "null", "null", "null"},
                             *const wrong[][2] = {{"rpi4", "already offers a target of that kind"},
                                                  {"opencl:pocl,emulated", "--executor opencl"},
                                                  {"nonsense", "unknown target"}};
    kiln_board_options options = {.key = "desk", .also = also, .also_count = 3};
    kiln_msg_board_up board;
    expect_ok(kiln_board_describe(&options, *state, &board));
    assert_int_equal(board.targets.count, 3);
    expect_str(board.targets.item[0].target, "null");
    expect_str(board.targets.item[1].target, "null,group=8");
    assert_int_equal(board.targets.item[1].slots, 1);
    expect_contains(kiln_str_dup(*state, board.targets.item[2].target), "vta:b1i16o16");
    for (size_t i = 0; i < KILN_ARRAY_COUNT(wrong); i++) {
        options = (kiln_board_options){.key = "desk", .also = wrong[i], .also_count = 1};
        expect_error_at(kiln_board_describe(&options, *state, &board), KILN_INVALID_ARGUMENT,
                        wrong[i][1], wrong[i][0], (int)i);
    }
    options = (kiln_board_options){.key = "desk", .also = many, .also_count = 4};
    expect_error(kiln_board_describe(&options, *state, &board), INVALID_ARGUMENT,
                 "at most 3 targets beside its own");
}

static void an_emulated_board_never_looks_like_a_real_one(void **state) {
    kiln_board_options options = {.key = "desk", .emulator = "/usr/bin/qemu-aarch64"};
    kiln_msg_board_up board;
    expect_ok(kiln_board_describe(&options, *state, &board));
    assert_true(kiln_str_starts(board.device, "emulated "));
    kiln_target target;
    expect_ok(kiln_target_parse(board.target, *state, &target));
    assert_true(target.emulated);
    options.emulator = NULL;
    expect_ok(kiln_board_describe(&options, *state, &board));
    assert_false(kiln_str_starts(board.device, "emulated"));
    expect_ok(kiln_target_parse(board.target, *state, &target));
    assert_false(target.emulated);
}

static bool is_in(const kiln_cluster *cluster, uint32_t core) {
    for (uint32_t i = 0; i < cluster->core_count; i++)
        if (cluster->core[i] == core) return true;
    return false;
}

static void measurements_stay_on_a_named_cluster(void **state) {
    cpu_set_t before, inside;
    sched_getaffinity(0, sizeof before, &before);
    expect_error(kiln_board_enter_cluster("cortex-m0", *state), INVALID_ARGUMENT,
                 "no cluster is named cortex-m0");
    kiln_status st = kiln_board_enter_cluster("big", *state);
    sched_getaffinity(0, sizeof inside, &inside);
    sched_setaffinity(0, sizeof before, &before);
    if (kiln_status_code(st) == KILN_PERMISSION_DENIED) {
        kiln_status_free(st);
        skip_because("this process may not run on cores of the cluster");
    }
    expect_ok(st);
    kiln_machine machine;
    kiln_machine_discover("", *state, &machine);
    const kiln_cluster *big = &machine.cluster[machine.cluster_count - 1];
    for (uint32_t i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &inside)) assert_true(is_in(big, i));
}

static void slots_share_the_cores_of_a_named_cluster(void **state) {
    cpu_set_t before;
    uint32_t core[KILN_EXECUTOR_CORES_MAX];
    sched_getaffinity(0, sizeof before, &before);
    kiln_status st = kiln_board_enter_cluster("big", *state);
    uint32_t count = kiln_board_cores(core, KILN_EXECUTOR_CORES_MAX);
    sched_setaffinity(0, sizeof before, &before);
    if (kiln_status_code(st) == KILN_PERMISSION_DENIED) {
        kiln_status_free(st);
        skip_because("this process may not run on cores of the cluster");
    }
    expect_ok(st);
    kiln_machine machine;
    kiln_slots slots;
    kiln_machine_discover("", *state, &machine);
    const kiln_cluster *big = &machine.cluster[machine.cluster_count - 1];
    const uint32_t most = KILN_MIN(count, KILN_SERVER_SLOTS_MAX);
    expect_ok(kiln_slots_share(core, count, most, "/sys/devices/system", &slots));
    for (uint32_t slot = 0; slot < most; slot++)
        for (uint32_t i = 0; i < slots.slot[slot].core_count; i++)
            assert_true(is_in(big, slots.slot[slot].core[i]));
    expect_error(kiln_slots_share(core, count, count + 1, "/sys/devices/system", &slots),
                 INVALID_ARGUMENT, "slots");
}

static void bad_labels_are_refused(void **state) {
    (void)state;
    static const char *const bad[] = {"x", "=1", "x=", "a=1,,b=2"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(bad); i++) {
        kiln_arena arena;
        kiln_arena_init(&arena, 0);
        kiln_msg_board_up board;
        kiln_status st = describe(&arena, bad[i], &board);
        assert_int_equal(kiln_status_code(st), KILN_INVALID_ARGUMENT);
        kiln_status_free(st);
        kiln_arena_deinit(&arena);
    }
}

static void the_measuring_core_is_the_highest_of_ours(void **state) {
    (void)state;
    uint32_t core[KILN_EXECUTOR_CORES_MAX];
    uint32_t count = kiln_board_cores(core, KILN_EXECUTOR_CORES_MAX);
    assert_true(count >= 1);
    for (uint32_t i = 1; i < count; i++) assert_true(core[i] < core[i - 1]);
    assert_int_equal(kiln_board_cores(core, 1), 1);
}

static void every_executor_has_a_name_and_all_functions(void **state) {
    (void)state;
    for (uint32_t i = 0; i < kiln_executor_count(); i++) {
        const kiln_executor *executor = kiln_executor_at(i);
        assert_ptr_equal(kiln_executor_find(kiln_str_from(executor->name)), executor);
        const kiln_executor_vtable *v = executor->vtable;
        assert_true(v->open && v->load && v->fill && v->prepare && v->run && v->check &&
                    v->unload && v->close);
    }
    const kiln_executor *cpu = kiln_executor_find(KILN_STR("cpu"));
    assert_ptr_equal(kiln_executor_for(kiln_payload_of(KILN_TARGET_CPU)), cpu);
    assert_true(kiln_executor_is_of_kind(cpu));
    assert_null(kiln_executor_find(KILN_STR("abacus")));
    assert_null(kiln_executor_for(KILN_PAYLOAD_C));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_board_says_what_it_is),
        test_with_arena(a_board_that_builds_says_with_what),
        test_with_arena(other_targets_are_offered_beside_its_own),
        test_with_arena(an_emulated_board_never_looks_like_a_real_one),
        test_with_arena(measurements_stay_on_a_named_cluster),
        test_with_arena(slots_share_the_cores_of_a_named_cluster),
        cmocka_unit_test(bad_labels_are_refused),
        cmocka_unit_test(the_measuring_core_is_the_highest_of_ours),
        cmocka_unit_test(every_executor_has_a_name_and_all_functions),
    };
    return cmocka_run_group_tests_name("rpc-server/board", tests, NULL, NULL);
}
