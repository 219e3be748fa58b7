#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "deploy/runtime/kernel.h"
#include "tests/support/elf_make.h"
#include "tests/unit/deploy/fixture.h"

typedef struct world {
    kiln_arena arena;
    kiln_manifest manifest;
} world;

static int set_up(void **state) {
    world *w = kiln_alloc(sizeof *w);
    w->manifest = fixture_manifest(&w->arena);
    *state = w;
    return 0;
}

static int tear_down(void **state) {
    world *w = *state;
    kiln_arena_deinit(&w->arena);
    kiln_free(w);
    return 0;
}

/* The manifest of a kernel that has nothing to prepare. */
static void without_packing(world *w) {
    w->manifest.has_prepare = false;
    w->manifest.arg_count = 3;
    w->manifest.arg[1].read_by_run = true;
}

static kiln_kernel *load(world *w) {
    kiln_kernel *kernel = NULL;
    kiln_status st = kiln_kernel_load(fixture_artefact(&w->arena, &w->manifest, "kernel_static.o"),
                                      NULL, &kernel);
    if (st) fail_msg("%s", kiln_status_text(st));
    return kernel;
}

static void refused(world *w, const char *object, kiln_code code, const char *text) {
    kiln_kernel *kernel = NULL;
    kiln_status st =
        kiln_kernel_load(fixture_artefact(&w->arena, &w->manifest, object), NULL, &kernel);
    assert_int_equal(kiln_status_code(st), code);
    if (!strstr(kiln_status_text(st), text))
        fail_msg("'%s' does not say '%s'", kiln_status_text(st), text);
    kiln_status_free(st);
    assert_null(kernel);
}

/* One call in guarded memory: every argument, packed buffer and scratch. */
static void run_guarded(world *w, kiln_guard guard) {
    kiln_kernel *kernel = load(w);
    kiln_call *call = NULL;
    assert_null(kiln_call_create(kernel, guard, &call));
    kiln_pages pages[3], scratch;
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(kiln_kernel_arg_bytes(kernel, i), FIXTURE_BYTES);
        assert_null(kiln_pages_create(FIXTURE_BYTES, guard, &pages[i]));
        assert_null(kiln_call_bind(call, i, pages[i].data, FIXTURE_BYTES));
    }
    assert_null(kiln_pages_create(kiln_services_scratch_bytes(&w->manifest, 1), guard, &scratch));
    kiln_services services;
    kiln_services_init(&services, NULL, 1, scratch.data);
    float *x = pages[0].data, *weight = pages[1].data, *y = pages[2].data;
    for (int i = 0; i < FIXTURE_COUNT; i++) {
        x[i] = 0.0f;
        weight[i] = (float)i;
    }
    assert_null(kiln_call_prepare(call, &services));
    for (int i = 0; i < FIXTURE_COUNT; i++) weight[i] = NAN; /* run does not read what was packed */
    kiln_pages_poison(&pages[2], KILN_POISON_FIRST);
    assert_int_equal(kiln_call_run(call, &services), KILN_KERNEL_OK);
    for (int i = 0; i < FIXTURE_COUNT; i++)
        assert_true(y[i] == (float)(i % 4 + 1) + 2.0f * (float)i);
    for (uint32_t i = 0; i < 3; i++) assert_true(kiln_pages_intact(&pages[i]));
    assert_true(kiln_pages_intact(&kiln_call_memory_of(call, 3)->pages));
    assert_true(kiln_pages_intact(&scratch));
    kiln_call_destroy(call);
    kiln_kernel_unload(kernel);
    for (uint32_t i = 0; i < 3; i++) kiln_pages_destroy(&pages[i]);
    kiln_pages_destroy(&scratch);
}

static void kernel_runs_between_guard_pages(void **state) {
    run_guarded(*state, KILN_GUARD_AFTER);
    run_guarded(*state, KILN_GUARD_BEFORE);
    run_guarded(*state, KILN_GUARD_NONE);
}

static void rebinding_changes_where_results_go(void **state) {
    world *w = *state;
    kiln_kernel *kernel = load(w);
    kiln_call *call = NULL;
    assert_null(kiln_call_create(kernel, KILN_GUARD_NONE, &call));
    kiln_pages memory;
    assert_null(kiln_pages_create(5 * 4096, KILN_GUARD_NONE, &memory));
    uint8_t *at = memory.data;
    for (uint32_t i = 0; i < 3; i++)
        assert_null(kiln_call_bind(call, i, at + i * 4096, FIXTURE_BYTES));
    kiln_services services;
    kiln_services_init(&services, NULL, 1, at + 4 * 4096);
    assert_null(kiln_call_prepare(call, &services));
    kiln_call_rebind(call, 2, kiln_host_place(at + 3 * 4096));
    uint64_t before = kiln_alloc_count();
    assert_int_equal(kiln_call_run(call, &services), KILN_KERNEL_OK);
    assert_int_equal(kiln_alloc_count(), before);
    assert_true(((float *)(void *)(at + 3 * 4096))[1] == 2.0f);
    assert_true(((float *)(void *)(at + 2 * 4096))[1] == 0.0f);
    kiln_call_destroy(call);
    kiln_kernel_unload(kernel);
    kiln_pages_destroy(&memory);
}

static void calls_over_the_same_memory_are_prepared_once(void **state) {
    world *w = *state;
    kiln_kernel *kernel = load(w);
    kiln_call *call[2];
    kiln_pages memory;
    kiln_services services;
    assert_int_equal(kiln_kernel_packed_bytes(kernel), 4032); /* 4000 to the next multiple of 64 */
    assert_null(kiln_pages_create(6 * 4096, KILN_GUARD_NONE, &memory));
    uint8_t *at = memory.data;
    const kiln_device_memory packed = {
        .space = KILN_MEMORY_HOST, .size_bytes = 64 + 4032, .data = at};
    kiln_services_init(&services, NULL, 1, at + 5 * 4096);
    for (uint32_t c = 0; c < 2; c++) {
        assert_null(kiln_call_create_over(
            kernel, &(kiln_call_memory){.packed = &packed, .packed_offset = 64}, &call[c]));
        assert_null(kiln_call_memory_of(call[c], 3));
        for (uint32_t i = 0; i < 3; i++)
            assert_null(
                kiln_call_bind(call[c], i, at + (1 + i + (i == 2 ? c : 0)) * 4096, FIXTURE_BYTES));
    }
    ((float *)(void *)(at + 2 * 4096))[1] = 5;
    assert_null(kiln_call_prepare(call[0], &services));
    for (uint32_t c = 0; c < 2; c++) {
        assert_int_equal(kiln_call_run(call[c], &services), KILN_KERNEL_OK);
        assert_true(((float *)(void *)(at + (3 + c) * 4096))[1] == 12.0f);
        kiln_call_destroy(call[c]);
    }
    const kiln_call_memory wrong[] = {
        {&packed, 4, NULL, 0}, {&packed, 128, NULL, 0}, {&packed, UINT64_MAX - 63, NULL, 0}, {0}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(wrong); i++) {
        kiln_status st = kiln_call_create_over(kernel, &wrong[i], &call[0]);
        assert_int_equal(kiln_status_code(st), KILN_INVALID_ARGUMENT);
        kiln_status_free(st);
    }
    kiln_kernel_unload(kernel);
    kiln_pages_destroy(&memory);
}

/* (x * table + 2 w)^2 with x = 1, w = i. */
static void check_launches(const float *y) {
    static const float table[] = {0.5f, 1.0f, 2.0f, 4.0f};
    for (int i = 0; i < FIXTURE_COUNT; i++) {
        float t = table[i % 4] + 2.0f * (float)i;
        assert_true(y[i] == t * t);
    }
}

static void fill_launches(float *x, float *w) {
    for (int i = 0; i < FIXTURE_COUNT; i++) {
        x[i] = 1.0f;
        w[i] = (float)i;
    }
}

/* Between guard pages, from two payloads, with a temp of the call and a table of the kernel. */
static void launches_of_a_run_pass_on_what_is_between_them(void **state) {
    world *w = *state;
    kiln_str artefact = fixture_launches(&w->arena);
    kiln_kernel *kernel = NULL;
    kiln_call *call = NULL;
    assert_null(kiln_kernel_check(artefact));
    kiln_status st = kiln_kernel_load(artefact, NULL, &kernel);
    if (st) fail_msg("%s", kiln_status_text(st));
    assert_null(kiln_call_create(kernel, KILN_GUARD_AFTER, &call));
    assert_int_equal(kiln_kernel_temp_bytes(kernel), 4032);
    kiln_pages pages[3];
    for (uint32_t i = 0; i < 3; i++) {
        assert_null(kiln_pages_create(FIXTURE_BYTES, KILN_GUARD_AFTER, &pages[i]));
        assert_null(kiln_call_bind(call, i, pages[i].data, FIXTURE_BYTES));
    }
    fill_launches(pages[0].data, pages[1].data);
    kiln_services services;
    kiln_services_init(&services, NULL, 1, NULL);
    assert_null(kiln_call_prepare(call, &services));
    uint64_t before = kiln_alloc_count();
    assert_int_equal(kiln_call_run(call, &services), KILN_KERNEL_OK);
    assert_int_equal(kiln_alloc_count(), before);
    check_launches(pages[2].data);
    assert_int_equal(kiln_call_memory_of(call, 4)->size_bytes, FIXTURE_BYTES);
    assert_true(kiln_pages_intact(&kiln_call_memory_of(call, 4)->pages));
    assert_null(kiln_call_memory_of(call, 5)); /* the table is the kernel's */
    for (uint32_t i = 3; i < 6; i++) {
        st = kiln_call_bind(call, i, pages[0].data, kiln_kernel_arg_bytes(kernel, i));
        assert_int_equal(kiln_status_code(st), KILN_INVALID_ARGUMENT);
        kiln_status_free(st);
    }
    kiln_call_destroy(call);
    kiln_kernel_unload(kernel);
    for (uint32_t i = 0; i < 3; i++) kiln_pages_destroy(&pages[i]);
}

static void calls_may_share_temps_that_the_caller_has(void **state) {
    world *w = *state;
    kiln_device *device = NULL;
    kiln_kernel *kernel = NULL;
    kiln_call *call[2];
    kiln_device_memory packed, temps, data[4];
    assert_null(kiln_device_open(KILN_DEVICE_CPU, NULL, &device));
    assert_null(kiln_kernel_load(fixture_launches(&w->arena), device, &kernel));
    assert_ptr_equal(kiln_kernel_device(kernel), device);
    assert_null(
        kiln_device_allocate(device, kiln_kernel_packed_bytes(kernel), KILN_GUARD_NONE, &packed));
    assert_null(
        kiln_device_allocate(device, kiln_kernel_temp_bytes(kernel), KILN_GUARD_NONE, &temps));
    for (size_t i = 0; i < KILN_ARRAY_COUNT(data); i++)
        assert_null(kiln_device_allocate(device, FIXTURE_BYTES, KILN_GUARD_NONE, &data[i]));
    fill_launches(data[0].data, data[1].data);
    kiln_services services;
    kiln_services_init(&services, NULL, 1, NULL);
    for (uint32_t c = 0; c < 2; c++) {
        assert_null(
            kiln_call_create_over(kernel, &(kiln_call_memory){&packed, 0, &temps, 0}, &call[c]));
        for (uint32_t i = 0; i < 3; i++)
            assert_null(kiln_call_bind_place(
                call[c], i, kiln_device_place_at(device, &data[i == 2 ? 2 + c : i], 0),
                FIXTURE_BYTES));
    }
    assert_null(kiln_call_prepare(call[0], &services));
    for (uint32_t c = 0; c < 2; c++) {
        assert_int_equal(kiln_call_run(call[c], &services), KILN_KERNEL_OK);
        check_launches(data[2 + c].data);
        kiln_call_destroy(call[c]);
    }
    kiln_status st =
        kiln_call_create_over(kernel, &(kiln_call_memory){.packed = &packed}, &call[0]);
    assert_int_equal(kiln_status_code(st), KILN_INVALID_ARGUMENT);
    assert_non_null(strstr(kiln_status_text(st), "temps"));
    kiln_status_free(st);
    kiln_kernel_unload(kernel);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(data); i++) kiln_device_release(device, &data[i]);
    kiln_device_release(device, &packed);
    kiln_device_release(device, &temps);
    kiln_device_close(device);
}

static void wrong_argument_is_refused(void **state) {
    kiln_kernel *kernel = load(*state);
    kiln_call *call = NULL;
    assert_null(kiln_call_create(kernel, KILN_GUARD_NONE, &call));
    kiln_pages memory;
    assert_null(kiln_pages_create(FIXTURE_BYTES + 64, KILN_GUARD_NONE, &memory));
    const struct {
        uint32_t arg;
        void *data;
        size_t size;
        const char *text;
    } wrong[] = {
        {0, (uint8_t *)memory.data + 32, FIXTURE_BYTES, "x is not aligned"},
        {0, NULL, FIXTURE_BYTES, "aligned"},
        {2, memory.data, FIXTURE_BYTES - 4, "y has 4000 bytes, not 3996"},
        {1, memory.data, FIXTURE_BYTES + 64, "w has"},
        {3, memory.data, FIXTURE_BYTES, "p is packed"},
        {4, memory.data, FIXTURE_BYTES, "argument 4 of 4"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(wrong); i++) {
        kiln_status st = kiln_call_bind(call, wrong[i].arg, wrong[i].data, wrong[i].size);
        assert_int_equal(kiln_status_code(st), KILN_INVALID_ARGUMENT);
        assert_non_null(strstr(kiln_status_text(st), wrong[i].text));
        kiln_status_free(st);
    }
    kiln_services services;
    kiln_services_init(&services, NULL, 1, NULL);
    kiln_status st = kiln_call_prepare(call, &services);
    assert_int_equal(kiln_status_code(st), KILN_FAILED_PRECONDITION);
    assert_non_null(strstr(kiln_status_text(st), "w is not bound"));
    kiln_status_free(st);
    assert_null(kiln_call_memory_of(call, 0));
    assert_null(kiln_call_memory_of(call, 9));
    kiln_call_destroy(call);
    kiln_kernel_unload(kernel);
    kiln_pages_destroy(&memory);
}

static void descriptors_show_physical_extents(void **state) {
    world *w = *state;
    /* 1000 elements in blocks of 16: 63 blocks, 8 elements of padding. */
    assert_null(kiln_layout_parse(KILN_STR("d0/16,d0%16"), 1, &w->manifest.arg[0].layout));
    size_t bytes = 0;
    assert_null(kiln_manifest_arg_bytes(&w->manifest.arg[0], &bytes));
    assert_int_equal(bytes, 63 * 16 * sizeof(float));
    kiln_kernel *kernel = load(w);
    assert_int_equal(kiln_kernel_arg_bytes(kernel, 0), bytes);
    assert_int_equal(kiln_kernel_manifest(kernel)->arg_count, 4);
    size_t code_bytes;
    assert_non_null(kiln_kernel_code(kernel, &code_bytes));
    assert_true(code_bytes > 0);
    kiln_kernel_unload(kernel);
}

static void code_of_another_machine_is_refused(void **state) {
    world *w = *state;
    w->manifest.target = KILN_STR("cpu:aarch64-unknown-linux-gnu");
    refused(w, "kernel_static.o", KILN_FAILED_PRECONDITION, "does not run on this machine");
}

static void missing_entry_is_refused(void **state) {
    world *w = *state; /* the manifest promises kiln_prepare */
    refused(w, "failing.o", KILN_NOT_FOUND, KILN_ENTRY_PREPARE);
    kiln_status st = kiln_kernel_check(fixture_artefact(&w->arena, &w->manifest, "failing.o"));
    assert_int_equal(kiln_status_code(st), KILN_NOT_FOUND);
    kiln_status_free(st);
    without_packing(w);
    assert_null(kiln_kernel_check(fixture_artefact(&w->arena, &w->manifest, "failing.o")));
}

/* mov eax, 9; ret: an object of one function, of that name or of both entries' names. */
static kiln_str nine(world *w, const char *name, const char *other_name) {
    static const uint8_t code[] = {0xb8, 9, 0, 0, 0, 0xc3};
    elf_make e = {0};
    (void)elf_make_add_text(&e, code, sizeof code);
    (void)elf_make_add_function(&e, name, 1, 0);
    if (other_name) (void)elf_make_add_function(&e, other_name, 1, 0);
    kiln_strbuf object = {0};
    elf_make_finish(&e, &object);
    kiln_str artefact = fixture_artefact_of(&w->arena, &w->manifest, kiln_strbuf_view(&object));
    kiln_strbuf_deinit(&object);
    return artefact;
}

static void object_without_run_is_refused(void **state) {
    kiln_kernel *kernel = NULL;
    kiln_status st = kiln_kernel_load(nine(*state, KILN_ENTRY_PREPARE, NULL), NULL, &kernel);
    assert_int_equal(kiln_status_code(st), KILN_NOT_FOUND);
    assert_non_null(strstr(kiln_status_text(st), KILN_ENTRY_RUN));
    kiln_status_free(st);
    assert_null(kernel);
}

static void failing_prepare_is_an_error(void **state) {
    kiln_kernel *kernel = NULL;
    kiln_call *call = NULL;
    assert_null(kiln_kernel_load(nine(*state, KILN_ENTRY_PREPARE, KILN_ENTRY_RUN), NULL, &kernel));
    assert_null(kiln_call_create(kernel, KILN_GUARD_NONE, &call));
    kiln_pages memory;
    assert_null(kiln_pages_create(FIXTURE_BYTES, KILN_GUARD_NONE, &memory));
    assert_null(kiln_call_bind(call, 1, memory.data, FIXTURE_BYTES));
    kiln_services services;
    kiln_services_init(&services, NULL, 1, NULL);
    kiln_status st = kiln_call_prepare(call, &services);
    assert_int_equal(kiln_status_code(st), KILN_INTERNAL);
    assert_non_null(strstr(kiln_status_text(st), "returned 9"));
    kiln_status_free(st);
    kiln_call_destroy(call);
    kiln_kernel_unload(kernel);
    kiln_pages_destroy(&memory);
}

static void link_error_is_found_without_loading(void **state) {
    world *w = *state;
    kiln_status st = kiln_kernel_check(fixture_artefact(&w->arena, &w->manifest, "elsewhere.o"));
    assert_int_equal(kiln_status_code(st), KILN_NOT_FOUND);
    kiln_status_free(st);
    assert_null(kiln_kernel_check(fixture_artefact(&w->arena, &w->manifest, "kernel_pie.o")));
}

static void foreign_payload_or_version_is_refused(void **state) {
    world *w = *state;
    kiln_manifest good = w->manifest;
    w->manifest.payload_kind = KILN_PAYLOAD_C;
    refused(w, "kernel_static.o", KILN_UNIMPLEMENTED, "no device for payloads of kind 6");
    w->manifest.payload_kind = KILN_PAYLOAD_PTX;
    refused(w, "kernel_static.o", KILN_DATA_LOSS, "a payload ptx does not run on");
    w->manifest = good;
    w->manifest.abi_version = KILN_MANIFEST_ABI_MAPS + 1;
    refused(w, "kernel_static.o", KILN_UNIMPLEMENTED, "kernel ABI 4");
}

/* Artefacts of every kind of device, with a cluster, a tensor map, or both, are refused before
 * their code is looked at by all that cannot run them. */
static void clusters_and_maps_are_for_devices_that_run_them(void **state) {
    world *w = *state;
    static const uint32_t arg[] = {0, 1, 2};
    static const kiln_manifest_map map = {
        .dtype = KILN_F32, .rank = 1, .size = {16}, .stride_bytes = {4}, .box = {16}};
    static const char *const target[] = {
        [KILN_DEVICE_CPU] = NULL, /* this machine */
        [KILN_DEVICE_NULL] = "null",    [KILN_DEVICE_OPENCL] = "opencl",
        [KILN_DEVICE_CUDA] = "h200",    [KILN_DEVICE_LINE] = "cpu:thumbv7em-none-eabihf",
        [KILN_DEVICE_VTA] = "vta:pynq",
    };
    kiln_manifest_launch launch = {.phase = KILN_LAUNCH_RUN,
                                   .entry = KILN_STR(KILN_ENTRY_RUN),
                                   .grid = {2, 1, 1},
                                   .group = {1, 1, 1},
                                   .arg_count = 3,
                                   .arg = arg,
                                   .map = &map};
    without_packing(w);
    w->manifest.launch_count = 1;
    w->manifest.launch = &launch;
    for (uint32_t i = 0; i < kiln_device_row_count(); i++) {
        const kiln_device_row *row = kiln_device_row_at(i);
        char text[64];
        if (row->vtable->runs_clusters) continue;
        (void)snprintf(text, sizeof text, "a device %s runs neither", row->name);
        w->manifest.payload_kind = row->payload;
        if (target[row->kind]) w->manifest.target = kiln_str_from(target[row->kind]);
        for (uint32_t k = 1; k < 4; k++) {
            launch.cluster = k & 1 ? 2 : 0;
            launch.map_count = k >> 1;
            refused(w, "kernel_static.o", KILN_UNIMPLEMENTED, text);
            kiln_status st =
                kiln_kernel_check(fixture_artefact(&w->arena, &w->manifest, "kernel_static.o"));
            assert_int_equal(kiln_status_code(st), KILN_UNIMPLEMENTED);
            assert_non_null(strstr(kiln_status_text(st), text));
            kiln_status_free(st);
        }
    }
}

static void damaged_artefact_is_refused(void **state) {
    world *w = *state;
    kiln_str bytes = fixture_artefact(&w->arena, &w->manifest, "kernel_static.o");
    for (size_t size = 0; size < bytes.size; size += 7) {
        kiln_status st = kiln_kernel_check((kiln_str){bytes.data, size});
        assert_int_equal(kiln_status_code(st), KILN_DATA_LOSS);
        kiln_status_free(st);
    }
    kiln_kernel_unload(NULL);
    kiln_call_destroy(NULL);
}

static void status_of_the_kernel_is_returned(void **state) {
    world *w = *state;
    without_packing(w);
    kiln_kernel *kernel = NULL;
    kiln_call *call = NULL;
    assert_null(
        kiln_kernel_load(fixture_artefact(&w->arena, &w->manifest, "failing.o"), NULL, &kernel));
    assert_null(kiln_call_create(kernel, KILN_GUARD_NONE, &call));
    kiln_services services;
    kiln_services_init(&services, NULL, 1, NULL);
    assert_int_equal(kiln_call_run(call, &services), 7);
    kiln_call_destroy(call);
    kiln_kernel_unload(kernel);
}

int main(int argc, char **argv) {
    fixture_init(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(kernel_runs_between_guard_pages, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rebinding_changes_where_results_go, set_up, tear_down),
        cmocka_unit_test_setup_teardown(calls_over_the_same_memory_are_prepared_once, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(launches_of_a_run_pass_on_what_is_between_them, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(calls_may_share_temps_that_the_caller_has, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(wrong_argument_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(descriptors_show_physical_extents, set_up, tear_down),
        cmocka_unit_test_setup_teardown(code_of_another_machine_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(missing_entry_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(object_without_run_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(failing_prepare_is_an_error, set_up, tear_down),
        cmocka_unit_test_setup_teardown(link_error_is_found_without_loading, set_up, tear_down),
        cmocka_unit_test_setup_teardown(foreign_payload_or_version_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(clusters_and_maps_are_for_devices_that_run_them, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(damaged_artefact_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(status_of_the_kernel_is_returned, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
