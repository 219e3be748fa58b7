#include "rpc-server/slots.h"

#include <sched.h>

#include "base/file.h"
#include "base/macros.h"
#include "tests/support/test.h"

static const uint32_t eight[] = {7, 6, 5, 4, 3, 2, 1, 0};

typedef struct machine {
    kiln_arena arena;
    char *folder;
} machine;

/* A machine whose core N is at memory of[N], as /sys/devices/system tells it. */
static void make_machine(machine *m, const uint32_t *of, uint32_t count) {
    kiln_arena_init(&m->arena, 0);
    expect_ok(kiln_folder_create_temp("kiln-slots-test", &m->arena, &m->folder));
    for (uint32_t core = 0; core < count; core++) {
        const char *path = kiln_arena_printf(&m->arena, "%s/cpu/cpu%u", m->folder, core);
        expect_ok(kiln_folder_create(path, 0700));
        expect_ok(
            kiln_folder_create(kiln_arena_printf(&m->arena, "%s/node%u", path, of[core]), 0700));
    }
}

static void drop_machine(machine *m) {
    expect_ok(kiln_folder_remove(m->folder));
    kiln_arena_deinit(&m->arena);
}

static void every_slot_has_cores_of_its_own(void **state) {
    (void)state;
    kiln_slots slots;
    expect_ok(kiln_slots_share(eight, 8, 3, "/nowhere", &slots));
    assert_int_equal(slots.count, 3);
    uint32_t taken = 0;
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(slots.slot[i].core_count, 2);
        for (uint32_t k = 0; k < 2; k++) {
            assert_false(taken & 1U << slots.slot[i].core[k]);
            taken |= 1U << slots.slot[i].core[k];
        }
    }
    assert_int_equal(slots.slot[0].core[0], 7); /* as they were given */
    expect_ok(kiln_slots_share(eight, 8, 1, "/nowhere", &slots));
    assert_int_equal(slots.slot[0].core_count, 8);
    assert_int_equal(slots.disturbs[0], 0);
}

static void a_device_gets_the_last_core_and_takes_turns_where_it_shares_a_memory(void **state) {
    (void)state;
    static const uint32_t of[] = {0, 0, 0, 0, 1, 1, 1, 1};
    machine m;
    kiln_slots slots, alone;
    uint32_t core[KILN_EXECUTOR_CORES_MAX];
    make_machine(&m, of, 8);
    expect_ok(kiln_slots_share(eight, 8, 2, m.folder, &slots));
    alone = slots;
    expect_ok(kiln_slots_add(&slots, KILN_TARGET_NULL, m.folder));
    assert_int_equal(slots.count, 3);
    assert_int_equal(slots.slot[2].kind, KILN_TARGET_NULL);
    assert_int_equal(slots.disturbs[0], 0); /* cores 7 to 4, at the other memory */
    assert_int_equal(slots.disturbs[1], 1U << 2);
    assert_int_equal(slots.disturbs[2], 1U << 1);
    assert_int_equal(kiln_slots_cores(&slots, 2, 8, core), 1); /* it has its one core alone */
    assert_int_equal(core[0], 0);
    assert_int_equal(kiln_slots_cores(&slots, 1, 8, core), 8); /* the others have what they had */
    for (uint32_t i = 0; i < 2; i++)
        assert_memory_equal(&slots.slot[i], &alone.slot[i], sizeof slots.slot[i]);
    while (slots.count < KILN_SERVER_SLOTS_MAX)
        expect_ok(kiln_slots_add(&slots, KILN_TARGET_NULL, m.folder));
    expect_error(kiln_slots_add(&slots, KILN_TARGET_NULL, m.folder), RESOURCE_EXHAUSTED,
                 "at most 16 slots");
    drop_machine(&m);
}

static void cores_that_are_timed_on_are_nobody_elses(void **state) {
    (void)state;
    kiln_slots slots = {0};
    cpu_set_t own;
    assert_int_equal(sched_getaffinity(0, sizeof own, &own), 0);
    const uint32_t all = (uint32_t)CPU_COUNT(&own);
    assert_int_equal(kiln_slots_spare_cores(&slots), all);
    uint32_t core = 0;
    while (!CPU_ISSET(core, &own)) core++;
    expect_ok(kiln_slots_share(&core, 1, 1, "/nowhere", &slots));
    assert_int_equal(kiln_slots_spare_cores(&slots), all - 1);
}

static void slots_at_one_memory_disturb_each_other(void **state) {
    (void)state;
    machine m;
    kiln_slots slots;
    make_machine(&m, (const uint32_t[]){0, 0, 0, 0, 1, 1, 1, 1}, 8);
    expect_ok(kiln_slots_share(eight, 8, 4, m.folder, &slots));
    assert_int_equal(slots.disturbs[0], 1U << 1);
    assert_int_equal(slots.disturbs[1], 1U << 0);
    assert_int_equal(slots.disturbs[2], 1U << 3);
    assert_int_equal(slots.disturbs[3], 1U << 2);
    expect_ok(kiln_slots_share(eight, 8, 2, m.folder, &slots));
    assert_int_equal(slots.disturbs[0] | slots.disturbs[1], 0);
    drop_machine(&m);
    make_machine(&m, (const uint32_t[]){0, 1, 0, 1, 0, 1, 0, 1}, 8); /* each slot is at both */
    expect_ok(kiln_slots_share(eight, 8, 2, m.folder, &slots));
    assert_int_equal(slots.disturbs[0], 1U << 1);
    drop_machine(&m);
}

static void where_nothing_is_said_all_disturb_each_other(void **state) {
    (void)state;
    kiln_slots slots;
    expect_ok(kiln_slots_share(eight, 8, 4, "/nowhere", &slots));
    for (uint32_t i = 0; i < 4; i++) assert_int_equal(slots.disturbs[i], 0xfU & ~(1U << i));
}

static void more_slots_than_cores_are_refused(void **state) {
    (void)state;
    kiln_slots slots;
    expect_error(kiln_slots_share(eight, 2, 3, "/nowhere", &slots), INVALID_ARGUMENT, "3 slots");
    expect_error(kiln_slots_share(eight, 8, 0, "/nowhere", &slots), INVALID_ARGUMENT, "0");
    expect_error(kiln_slots_share(eight, 8, KILN_SERVER_SLOTS_MAX + 1, "/nowhere", &slots),
                 INVALID_ARGUMENT, "17");
}

static void a_kernel_with_more_threads_than_its_slot_has_cores_takes_those_of_all(void **state) {
    (void)state;
    kiln_slots slots;
    uint32_t core[KILN_EXECUTOR_CORES_MAX];
    expect_ok(kiln_slots_share(eight, 8, 4, "/nowhere", &slots));
    assert_int_equal(kiln_slots_cores(&slots, 1, 1, core), 1);
    assert_int_equal(core[0], 5);
    assert_int_equal(kiln_slots_cores(&slots, 1, 2, core), 2);
    assert_int_equal(core[1], 4);
    assert_int_equal(kiln_slots_cores(&slots, 1, 3, core), 3);
    assert_int_equal(core[0], 5);
    assert_int_equal(core[2], 3);
    assert_int_equal(kiln_slots_cores(&slots, 3, 100, core), 8);
    assert_int_equal(core[2], 7);
    assert_int_equal(kiln_slots_cores(&slots, 0, 0, core), 1); /* nobody said how many */
}

static void the_server_leaves_the_cores_that_are_timed_on(void **state) {
    (void)state;
    cpu_set_t ours, left;
    assert_int_equal(sched_getaffinity(0, sizeof ours, &ours), 0);
    kiln_slots slots = {.count = 1, .shared_count = 1, .slot[0] = {.core_count = 1}};
    while (!CPU_ISSET(slots.slot[0].core[0], &ours)) slots.slot[0].core[0]++;
    kiln_slots_leave(&slots);
    assert_int_equal(sched_getaffinity(0, sizeof left, &left), 0);
    const bool alone = CPU_COUNT(&ours) == 1;
    assert_int_equal(CPU_COUNT(&left), alone ? 1 : CPU_COUNT(&ours) - 1);
    assert_true(alone || !CPU_ISSET(slots.slot[0].core[0], &left));
    assert_int_equal(sched_setaffinity(0, sizeof ours, &ours), 0);
}

static void devices_have_a_slot_each_with_all_cores(void **state) {
    (void)state;
    const kiln_target target[2] = {{.kind = KILN_TARGET_OPENCL}, {.kind = KILN_TARGET_OPENCL}};
    const uint32_t device[2] = {3, 0}, core[2] = {7, 6};
    uint32_t got[KILN_EXECUTOR_CORES_MAX];
    kiln_slots slots;
    const kiln_slot_devices one = {target, device, 2, 1};
    expect_ok(kiln_slots_of_devices(&one, core, 2, &slots));
    assert_int_equal(slots.count, 2);
    assert_int_equal(slots.slot[0].device, 3);
    assert_ptr_equal(slots.slot[1].target, &target[1]);
    assert_true(slots.disturbs[0] == 2 && slots.disturbs[1] == 1);
    for (uint32_t slot = 0; slot < 2; slot++) {
        assert_int_equal(kiln_slots_cores(&slots, slot, 1, got), 2);
        assert_true(got[0] == 7 && got[1] == 6);
    }
}

static void a_device_with_several_slots_times_in_turns(void **state) {
    (void)state;
    const kiln_target target[2] = {{.kind = KILN_TARGET_OPENCL}, {.kind = KILN_TARGET_OPENCL}};
    const uint32_t device[2] = {3, 0}, core[1] = {7};
    kiln_slots slots;
    kiln_slot_devices devices = {target, device, 2, 3};
    expect_ok(kiln_slots_of_devices(&devices, core, 1, &slots));
    assert_int_equal(slots.count, 6);
    for (uint32_t slot = 0; slot < 6; slot++) {
        assert_int_equal(slots.slot[slot].device, device[slot / 3]);
        assert_ptr_equal(slots.slot[slot].target, &target[slot / 3]);
        assert_int_equal(slots.disturbs[slot], 63U & ~(1U << slot));
    }
    devices.slots = KILN_SERVER_SLOTS_MAX / 2 + 1;
    expect_error(kiln_slots_of_devices(&devices, core, 1, &slots), RESOURCE_EXHAUSTED, "slots");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_slot_has_cores_of_its_own),
        cmocka_unit_test(a_device_gets_the_last_core_and_takes_turns_where_it_shares_a_memory),
        cmocka_unit_test(cores_that_are_timed_on_are_nobody_elses),
        cmocka_unit_test(slots_at_one_memory_disturb_each_other),
        cmocka_unit_test(where_nothing_is_said_all_disturb_each_other),
        cmocka_unit_test(more_slots_than_cores_are_refused),
        cmocka_unit_test(a_kernel_with_more_threads_than_its_slot_has_cores_takes_those_of_all),
        cmocka_unit_test(the_server_leaves_the_cores_that_are_timed_on),
        cmocka_unit_test(devices_have_a_slot_each_with_all_cores),
        cmocka_unit_test(a_device_with_several_slots_times_in_turns),
    };
    return cmocka_run_group_tests_name("rpc-server/slots", tests, NULL, NULL);
}
