/* Module files: every byte counts, and nothing in one is believed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rand.h"
#include "deploy/pack/module_write.h"
#include "deploy/runtime/kernel.h"
#include "deploy/runtime/module_read.h"
#include "tests/support/module_seal.h"
#include "tests/unit/deploy/fixture.h"

typedef struct world {
    kiln_arena arena, scratch;
    kiln_module_plan plan;
    kiln_strbuf good;
    uint8_t *copy; /* aligned, of the same size */
} world;

static int set_up(void **state) {
    world *w = kiln_alloc(sizeof *w);
    w->plan = fixture_plan(&w->arena, "kernel_static.o");
    assert_null(kiln_module_encode(&w->plan, &w->good));
    w->copy = kiln_alloc_aligned(KILN_MODULE_CONSTANT_ALIGNMENT, w->good.size);
    memcpy(w->copy, w->good.data, w->good.size);
    *state = w;
    return 0;
}

static int tear_down(void **state) {
    world *w = *state;
    kiln_free(w->copy);
    kiln_strbuf_deinit(&w->good);
    kiln_arena_deinit(&w->arena);
    kiln_arena_deinit(&w->scratch);
    kiln_free(w);
    return 0;
}

static kiln_status decode(world *w, size_t size, kiln_module_plan *out_plan) {
    size_t constant_bytes;
    kiln_arena_reset(&w->scratch);
    return kiln_module_decode((kiln_str){(const char *)w->copy, size}, &w->scratch, out_plan, &constant_bytes);
}

static void refused(world *w, size_t size, kiln_code code, const char *text) {
    kiln_module_plan plan = {0};
    kiln_status st = decode(w, size, &plan);
    assert_int_equal(kiln_status_code(st), code);
    if (!strstr(kiln_status_text(st), text)) fail_msg("'%s' does not say '%s'", kiln_status_text(st), text);
    kiln_status_free(st);
    assert_int_equal(plan.step_count, 0);
}

static void assert_same_ports(const kiln_plan_port *a, const kiln_plan_port *b, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        assert_true(kiln_str_equal(a[i].name, b[i].name));
        assert_int_equal(a[i].dtype, b[i].dtype);
        assert_true(kiln_shape_equal(&a[i].shape, &b[i].shape));
        assert_int_equal(a[i].buffer, b[i].buffer);
    }
}

static void plan_survives_the_file(void **state) {
    world *w = *state;
    const kiln_module_plan *a = &w->plan;
    kiln_module_plan b;
    kiln_status st = decode(w, w->good.size, &b);
    if (st) fail_msg("%s", kiln_status_text(st));
    assert_int_equal(a->threads, b.threads);
    assert_int_equal(a->arena_bytes, b.arena_bytes);
    assert_int_equal(a->metadata_count, b.metadata_count);
    for (uint32_t i = 0; i < a->metadata_count; i++) {
        assert_true(kiln_str_equal(a->metadata[i].key, b.metadata[i].key));
        assert_true(kiln_str_equal(a->metadata[i].value, b.metadata[i].value));
    }
    assert_int_equal(a->input_count, b.input_count);
    assert_int_equal(a->output_count, b.output_count);
    assert_same_ports(a->input, b.input, a->input_count);
    assert_same_ports(a->output, b.output, a->output_count);
    assert_int_equal(b.kernel_count, 1);
    assert_true(kiln_str_equal(a->kernel[0], b.kernel[0]));
    assert_int_equal(a->buffer_count, b.buffer_count);
    for (uint32_t i = 0; i < a->buffer_count; i++) {
        assert_int_equal(a->buffer[i].storage, b.buffer[i].storage);
        assert_int_equal(a->buffer[i].size_bytes, b.buffer[i].size_bytes);
        assert_int_equal(a->buffer[i].source, b.buffer[i].source);
        if (a->buffer[i].storage != KILN_STORAGE_CONSTANT) continue;
        assert_memory_equal(a->buffer[i].data, b.buffer[i].data, a->buffer[i].size_bytes);
        assert_int_equal((uintptr_t)b.buffer[i].data % 64, 0);
    }
    assert_ptr_equal(b.buffer[FIXTURE_W0].data, b.buffer[FIXTURE_W0_AGAIN].data); /* stored once */
    assert_int_equal(a->step_count, b.step_count);
    for (uint32_t i = 0; i < a->step_count; i++) {
        const kiln_plan_step *x = &a->step[i], *y = &b.step[i];
        assert_int_equal(x->action, y->action);
        assert_true(kiln_str_equal(x->name, y->name) && kiln_str_equal(x->op, y->op) && kiln_str_equal(x->task, y->task));
        assert_int_equal(x->kernel, y->kernel);
        assert_int_equal(x->output_count, y->output_count);
        assert_int_equal(x->arg_count, y->arg_count);
        assert_memory_equal(x->arg, y->arg, x->arg_count * sizeof *x->arg);
    }
}

static void change_of_any_byte_is_seen(void **state) {
    world *w = *state;
    for (size_t i = 0; i < w->good.size; i++) {
        kiln_module_plan plan;
        w->copy[i] ^= (uint8_t)(1u << i % 8);
        kiln_status st = decode(w, w->good.size, &plan);
        if (kiln_status_code(st) != KILN_DATA_LOSS) fail_msg("byte %zu: %s", i, kiln_status_text(st));
        kiln_status_free(st);
        w->copy[i] ^= (uint8_t)(1u << i % 8);
    }
}

static void cut_at_any_byte_is_seen(void **state) {
    world *w = *state;
    for (size_t size = 0; size < w->good.size; size++) refused(w, size, KILN_DATA_LOSS, "");
}

static void put(world *w, size_t at, uint64_t value, size_t bytes) {
    memcpy(w->copy + at, &value, bytes);
    module_seal(w->copy, w->good.size);
}

static size_t entry(uint32_t index, size_t field) {
    return KILN_MODULE_HEADER_BYTES + index * KILN_MODULE_ENTRY_BYTES + field;
}

static void lying_header_is_refused(void **state) {
    world *w = *state;
    const uint32_t plan = KILN_MODULE_INDEX_PLAN, constants = KILN_MODULE_INDEX_CONSTANTS;
    const struct {
        size_t at;
        uint64_t value;
        size_t bytes;
        kiln_code code;
        const char *text;
    } row[] = {
        {KILN_MODULE_AT_VERSION, 2, 4, KILN_UNIMPLEMENTED, "version 2"},
        {KILN_MODULE_AT_SECTION_COUNT, 4, 4, KILN_DATA_LOSS, "does not fit"},
        {KILN_MODULE_AT_FILE_BYTES, w->good.size + 1, 8, KILN_DATA_LOSS, "does not fit"},
        {40, 1, 1, KILN_DATA_LOSS, "does not fit"},
        {entry(plan, KILN_MODULE_ENTRY_AT_KIND), 9, 4, KILN_DATA_LOSS, "section plan is malformed"},
        {entry(plan, KILN_MODULE_ENTRY_AT_ALIGNMENT), 1, 4, KILN_DATA_LOSS, "malformed"},
        {entry(plan, 40), 1, 1, KILN_DATA_LOSS, "malformed"},
        {entry(plan, KILN_MODULE_ENTRY_AT_OFFSET), 0, 8, KILN_DATA_LOSS, "misplaced"},
        {entry(plan, KILN_MODULE_ENTRY_AT_OFFSET), UINT64_MAX - 63, 8, KILN_DATA_LOSS, "misplaced"},
        {entry(plan, KILN_MODULE_ENTRY_AT_SIZE), UINT64_MAX, 8, KILN_DATA_LOSS, "misplaced"},
        {entry(plan, KILN_MODULE_ENTRY_AT_SIZE), 0, 8, KILN_DATA_LOSS, "section"},
        {entry(constants, KILN_MODULE_ENTRY_AT_SIZE), 64, 8, KILN_DATA_LOSS, "after the last section"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        put(w, row[i].at, row[i].value, row[i].bytes);
        refused(w, w->good.size, row[i].code, row[i].text);
        memcpy(w->copy, w->good.data, w->good.size);
    }
}

static void plan_with_broken_rules_is_damage(void **state) {
    world *w = *state;
    /* The encoder refuses such a plan, so it is spoilt in the file: the copy's result becomes its source. */
    size_t offset;
    memcpy(&offset, w->copy + entry(KILN_MODULE_INDEX_PLAN, KILN_MODULE_ENTRY_AT_OFFSET), sizeof offset);
    size_t size;
    memcpy(&size, w->copy + entry(KILN_MODULE_INDEX_PLAN, KILN_MODULE_ENTRY_AT_SIZE), sizeof size);
    assert_int_equal(w->copy[offset + size - 1], FIXTURE_OUT1); /* the last argument of the last step */
    put(w, offset + size - 1, FIXTURE_A1, 1);
    refused(w, w->good.size, KILN_DATA_LOSS, "cannot be copied");
}

/* Random damage behind right checksums: no promise about the answer, only that there is one. */
static void random_damage_is_survived(void **state) {
    world *w = *state;
    kiln_rand r;
    kiln_rand_init(&r, 11);
    size_t end;
    memcpy(&end, w->copy + entry(KILN_MODULE_INDEX_CONSTANTS, KILN_MODULE_ENTRY_AT_OFFSET), sizeof end);
    uint32_t refused_count = 0;
    for (uint32_t round = 0; round < 5000; round++) {
        memcpy(w->copy, w->good.data, w->good.size);
        uint64_t changes = 1 + kiln_rand_below(&r, 3);
        for (uint64_t i = 0; i < changes; i++) w->copy[kiln_rand_below(&r, end)] = (uint8_t)kiln_rand_u64(&r);
        module_seal(w->copy, w->good.size);
        kiln_module_plan plan;
        kiln_status st = decode(w, w->good.size, &plan);
        for (uint32_t i = 0; !st && i < plan.kernel_count; i++) st = kiln_kernel_check(plan.kernel[i]);
        refused_count += st != NULL;
        kiln_status_free(st);
    }
    assert_true(refused_count > 1000);
}

#define ROW(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int argc, char **argv) {
    fixture_init(argc, argv);
    const struct CMUnitTest tests[] = {
        ROW(plan_survives_the_file),  ROW(change_of_any_byte_is_seen),       ROW(cut_at_any_byte_is_seen),
        ROW(lying_header_is_refused), ROW(plan_with_broken_rules_is_damage), ROW(random_damage_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
