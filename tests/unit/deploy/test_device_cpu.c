#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/check.h"
#include "deploy/runtime/device.h"
#include "tests/support/targets.h"
#include "tests/unit/deploy/fixture.h"

static int set_up(void **state) {
    kiln_device *device = NULL;
    *state = NULL;
    kiln_status st = kiln_device_open(KILN_DEVICE_CPU, NULL, &device);
    *state = device;
    return st != NULL;
}

static int tear_down(void **state) {
    kiln_device_close(*state);
    return 0;
}

static void memory_is_the_process_s_own_with_its_guards(void **state) {
    kiln_device *device = *state;
    kiln_device_memory memory;
    assert_null(kiln_device_allocate(device, 1000, KILN_GUARD_AFTER, &memory));
    assert_ptr_equal(memory.data, memory.pages.data);
    kiln_device_place place = kiln_device_place_at(device, &memory, 64);
    assert_ptr_equal(place.data, (uint8_t *)memory.data + 64);
    assert_int_equal(place.byte_offset, 0);
    assert_true(kiln_pages_intact(&memory.pages));
    memset(memory.data, 1, 1001); /* into what alignment leaves before the guard */
    assert_false(kiln_pages_intact(&memory.pages));
    kiln_device_release(device, &memory);
    assert_null(memory.data);
}

static void the_device_is_this_machine_or_what_the_setup_says(void **state) {
    kiln_arena arena = {0};
    kiln_target native, plain = plain_target(&arena);
    assert_null(kiln_target_native(&arena, &native));
    assert_true(kiln_target_runs_on(&native, kiln_device_target(*state), NULL));
    kiln_device *held = NULL;
    assert_null(kiln_device_open(KILN_DEVICE_CPU, &(kiln_device_setup){.target = &plain}, &held));
    assert_true(kiln_str_equal(kiln_device_target(held)->features, plain.features));
    assert_true(kiln_str_equal(kiln_device_target(held)->mcpu, plain.mcpu));
    kiln_device_close(held);
    kiln_arena_deinit(&arena);
}

static kiln_artefact decoded(kiln_str bytes, kiln_arena *arena) {
    kiln_artefact artefact;
    kiln_status st = kiln_artefact_decode(bytes, arena, &artefact);
    KILN_CHECK(st == NULL);
    return artefact;
}

/* What is no CPU code is refused by the check, which has no device, and by loading. */
static void refused(kiln_device *device, const kiln_artefact *artefact, const char *text) {
    const kiln_device_vtable *vtable = kiln_device_row_in(device)->vtable;
    void *program = NULL;
    for (int loads = 0; loads < 2; loads++) {
        kiln_status st = loads ? vtable->load(kiln_device_state(device), artefact, &program)
                               : vtable->check(artefact, kiln_device_target(device));
        assert_int_equal(kiln_status_code(st), KILN_UNIMPLEMENTED);
        if (!strstr(kiln_status_text(st), text))
            fail_msg("'%s' does not say '%s'", kiln_status_text(st), text);
        kiln_status_free(st);
    }
    assert_null(program);
}

static void grids_scratch_and_other_payloads_are_refused(void **state) {
    kiln_arena arena = {0};
    kiln_str bytes = fixture_launches(&arena);
    kiln_artefact artefact = decoded(bytes, &arena);
    kiln_manifest_launch launch[3];
    memcpy(launch, artefact.manifest.launch, sizeof launch);
    artefact.manifest.launch = launch;
    launch[1].grid[2] = 2;
    refused(*state, &artefact, "launch 1 has a grid");
    launch[1].grid[2] = 1;
    launch[2].group[0] = 32;
    refused(*state, &artefact, "launch 2 has a grid");
    launch[2].group[0] = 1;
    launch[0].scratch_bytes[KILN_MEMORY_SHARED] = 64;
    refused(*state, &artefact, "launch 0 needs memory of space shared");
    launch[0].scratch_bytes[KILN_MEMORY_SHARED] = 0;
    const kiln_manifest_payload payload[] = {
        artefact.manifest.payload[0], {KILN_PAYLOAD_PTX, artefact.manifest.payload[1].size_bytes}};
    artefact.manifest.payload = payload;
    refused(*state, &artefact, "payload 1 is ptx, not elf");
    kiln_arena_deinit(&arena);
}

static void an_entry_is_looked_for_in_its_own_payload(void **state) {
    kiln_arena arena = {0};
    kiln_artefact artefact = decoded(fixture_launches(&arena), &arena);
    kiln_manifest_launch launch[3];
    memcpy(launch, artefact.manifest.launch, sizeof launch);
    artefact.manifest.launch = launch;
    launch[2].entry = KILN_STR("cube");
    const kiln_device_vtable *vtable = kiln_device_row_in(*state)->vtable;
    void *program = NULL;
    for (int loads = 0; loads < 2; loads++) {
        kiln_status st = loads ? vtable->load(kiln_device_state(*state), &artefact, &program)
                               : vtable->check(&artefact, kiln_device_target(*state));
        assert_int_equal(kiln_status_code(st), KILN_NOT_FOUND);
        assert_non_null(strstr(kiln_status_text(st), "cube"));
        kiln_status_free(st);
    }
    kiln_arena_deinit(&arena);
}

int main(int argc, char **argv) {
    fixture_init(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(memory_is_the_process_s_own_with_its_guards, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_device_is_this_machine_or_what_the_setup_says, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(grids_scratch_and_other_payloads_are_refused, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(an_entry_is_looked_for_in_its_own_payload, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
