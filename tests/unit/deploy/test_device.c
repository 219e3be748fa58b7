#include "deploy/runtime/device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "tests/unit/deploy/fixture.h"

static void every_row_is_found_by_kind_and_payload(void **state) {
    (void)state;
    for (uint32_t i = 0; i < kiln_device_row_count(); i++) {
        const kiln_device_row *row = kiln_device_row_at(i);
        assert_ptr_equal(kiln_device_row_of(row->kind), row);
        assert_ptr_equal(kiln_device_row_for(row->payload), row);
        assert_non_null(kiln_memory_row_of(row->memory));
        assert_int_equal(kiln_memory_row_of(row->memory)->allocator, KILN_ALLOCATOR_OWNER);
        for (uint32_t k = 0; k < i; k++)
            assert_int_not_equal(kiln_device_row_at(k)->kind, row->kind);
    }
    assert_null(kiln_device_row_of((kiln_device_kind)0));
    assert_null(kiln_device_row_for((kiln_payload_kind)99));
}

static void required_functions_are_there(void **state) {
    (void)state;
    for (uint32_t i = 0; i < kiln_device_row_count(); i++) {
        const kiln_device_vtable *v = kiln_device_row_at(i)->vtable;
        assert_true(v->list && v->open && v->close && v->allocate && v->release && v->place);
        assert_true(v->check && v->load && v->unload && v->launch && v->copy);
        assert_true(v->record && v->wait && v->elapsed_ns);
    }
}

/* What holds for every kind: bytes that go in come out again, wherever they lay in between. */
static void bytes_survive_the_way_through_a_device(void **state) {
    (void)state;
    for (uint32_t i = 0; i < kiln_device_row_count(); i++) {
        const kiln_device_row *row = kiln_device_row_at(i);
        kiln_device *device = NULL;
        kiln_status st = kiln_device_open(row->kind, NULL, &device);
        if (kiln_status_code(st) == KILN_NOT_FOUND) { /* a driver: main has hidden those */
            kiln_status_free(st);
            continue;
        }
        assert_null(st);
        const size_t step = kiln_memory_row_of(row->memory)->alignment;
        uint8_t sent[1000], got[1000] = {0};
        const size_t apart = (sizeof sent + step - 1) / step * step;
        for (size_t k = 0; k < sizeof sent; k++) sent[k] = (uint8_t)(k * 7 + 1);
        kiln_device_memory memory;
        assert_null(kiln_device_allocate(device, apart + sizeof sent, KILN_GUARD_NONE, &memory));
        assert_int_equal(memory.space, row->memory);
        kiln_device_place first = kiln_device_place_at(device, &memory, 0),
                          second = kiln_device_place_at(device, &memory, apart);
        assert_int_equal(kiln_device_record(device, 3), 0);
        assert_int_equal(kiln_device_copy(device, KILN_COPY_TO_DEVICE, first, kiln_host_place(sent),
                                          sizeof sent),
                         0);
        assert_int_equal(kiln_device_copy(device, KILN_COPY_WITHIN, second, first, sizeof sent), 0);
        assert_int_equal(kiln_device_copy(device, KILN_COPY_FROM_DEVICE, kiln_host_place(got),
                                          second, sizeof sent),
                         0);
        assert_int_equal(kiln_device_record(device, 4), 0);
        assert_int_equal(kiln_device_wait(device, 4), 0);
        assert_memory_equal(sent, got, sizeof sent);
        assert_true(kiln_device_elapsed_ns(device, 3, 4) < UINT64_C(60000000000));
        assert_non_null(kiln_device_error(device));
        kiln_device_release(device, &memory);
        kiln_device_release(device, &memory); /* empty memory is fine */
        kiln_device_close(device);
    }
    kiln_device_close(NULL);
}

/* The setup's index counts what runs the code that is wanted. */
static void a_device_is_chosen_by_number_among_those_that_fit(void **state) {
    (void)state;
    kiln_arena arena;
    kiln_target wanted;
    kiln_device_facts facts[3] = {{0}};
    uint32_t index = 99;
    kiln_arena_init(&arena, 0);
    assert_null(kiln_target_parse(KILN_STR("null"), &arena, &facts[0].target));
    assert_null(kiln_target_parse(KILN_STR("null,shared=64"), &arena, &facts[1].target));
    assert_null(kiln_target_parse(KILN_STR("null"), &arena, &facts[2].target));
    assert_null(kiln_target_parse(KILN_STR("null,shared=128"), &arena, &wanted));
    kiln_device_setup setup = {.index = 1};
    assert_null(kiln_device_choose(&setup, facts, 3, &index));
    assert_int_equal(index, 1);
    setup.wanted = &wanted;
    assert_null(kiln_device_choose(&setup, facts, 3, &index));
    assert_int_equal(index, 2);
    setup.index = 2;
    kiln_status st = kiln_device_choose(&setup, facts, 3, &index);
    assert_int_equal(kiln_status_code(st), KILN_NOT_FOUND);
    assert_non_null(strstr(kiln_status_text(st), "there are 2 that run the code"));
    kiln_status_free(st);
    st = kiln_device_choose(&setup, facts + 1, 1, &index);
    assert_non_null(strstr(kiln_status_text(st), "128"));
    kiln_status_free(st);
    kiln_arena_deinit(&arena);
}

static void a_device_that_is_not_there_is_refused(void **state) {
    (void)state;
    kiln_device *device = NULL;
    kiln_status st = kiln_device_open((kiln_device_kind)77, NULL, &device);
    assert_int_equal(kiln_status_code(st), KILN_UNIMPLEMENTED);
    kiln_status_free(st);
    st = kiln_device_open(KILN_DEVICE_CPU, &(kiln_device_setup){.index = 1}, &device);
    assert_int_equal(kiln_status_code(st), KILN_NOT_FOUND);
    assert_non_null(strstr(kiln_status_text(st), "device cpu 1"));
    kiln_status_free(st);
    assert_null(device);
}

int main(int argc, char **argv) {
    fixture_init(argc, argv);
    /* Drivers have tests of their own, which sanitizers do not run. */
    (void)setenv("KILN_OPENCL_LIBRARY", "libno-such-library.so", 1);
    (void)setenv("KILN_CUDA_LIBRARY", "libno-such-library.so", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_found_by_kind_and_payload),
        cmocka_unit_test(required_functions_are_there),
        cmocka_unit_test(bytes_survive_the_way_through_a_device),
        cmocka_unit_test(a_device_is_chosen_by_number_among_those_that_fit),
        cmocka_unit_test(a_device_that_is_not_there_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
