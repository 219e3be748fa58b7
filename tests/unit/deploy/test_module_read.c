/* Module files: every byte counts, and nothing in one is believed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/mpack.h"
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
    kiln_module_sizes sizes;
    kiln_arena_reset(&w->scratch);
    kiln_status st = kiln_module_decode((kiln_str){(const char *)w->copy, size}, &w->scratch,
                                        &sizes, &constant_bytes);
    if (!st) *out_plan = sizes.bucket->plan;
    return st;
}

static void refused(world *w, size_t size, kiln_code code, const char *text) {
    kiln_module_plan plan = {0};
    kiln_status st = decode(w, size, &plan);
    assert_int_equal(kiln_status_code(st), code);
    if (!strstr(kiln_status_text(st), text))
        fail_msg("'%s' does not say '%s'", kiln_status_text(st), text);
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
        assert_true(kiln_str_equal(x->name, y->name) && kiln_str_equal(x->op, y->op) &&
                    kiln_str_equal(x->task, y->task));
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
        if (kiln_status_code(st) != KILN_DATA_LOSS)
            fail_msg("byte %zu: %s", i, kiln_status_text(st));
        kiln_status_free(st);
        w->copy[i] ^= (uint8_t)(1u << i % 8);
    }
}

static void cut_at_any_byte_is_seen(void **state) {
    world *w = *state;
    for (size_t size = 0; size < w->good.size; size++) refused(w, size, KILN_DATA_LOSS, "");
}

/* A file with a signature block, whose signature nobody here looks at. */
static void block_of_a_signature_is_known_and_checked(void **state) {
    world *w = *state;
    const size_t size = w->good.size + KILN_MODULE_SIGNED_BYTES;
    uint8_t *file = kiln_alloc_aligned(KILN_MODULE_CONSTANT_ALIGNMENT, size),
            *block = file + w->good.size;
    memcpy(file, w->good.data, w->good.size);
    memcpy(block, KILN_MODULE_SIGNED_MAGIC, 8);
    memset(block + 8, 'k', KILN_MODULE_SIGNED_AT_CHECKSUM - 8);
    const uint64_t checksum = kiln_hash64(block, KILN_MODULE_SIGNED_AT_CHECKSUM, 0);
    memcpy(block + KILN_MODULE_SIGNED_AT_CHECKSUM, &checksum, sizeof checksum);
    kiln_free(w->copy);
    w->copy = file;

    kiln_module_plan plan;
    kiln_str module, found;
    assert_null(decode(w, size, &plan));
    assert_int_equal(plan.step_count, w->plan.step_count);
    assert_null(kiln_module_split((kiln_str){(char *)file, size}, &module, &found));
    assert_int_equal(module.size, w->good.size);
    assert_ptr_equal(found.data, block);
    for (size_t i = 0; i < KILN_MODULE_SIGNED_BYTES; i++) {
        block[i] ^= 1u;
        refused(w, size, KILN_DATA_LOSS, "signature block is damaged");
        if (i > 0) refused(w, w->good.size + i, KILN_DATA_LOSS, "does not fit a file");
        block[i] ^= 1u;
    }
}

static void put(world *w, size_t at, uint64_t value, size_t bytes) {
    memcpy(w->copy + at, &value, bytes);
    module_seal(w->copy, w->good.size);
}

static size_t entry(uint32_t index, size_t field) {
    return KILN_MODULE_HEADER_BYTES + index * KILN_MODULE_ENTRY_BYTES + field;
}

/* Plans with loops and devices are of version 2; others stay of version 1, which older programs
 * read. */
static void version_says_what_the_plan_needs(void **state) {
    world *w = *state;
    const kiln_module_plan plans[] = {w->plan, fixture_loop_plan(&w->arena),
                                      fixture_device_plan(&w->arena)};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(plans); i++) {
        kiln_strbuf once = {0}, twice = {0};
        kiln_module_sizes sizes;
        size_t constant_bytes;
        uint32_t version;
        assert_null(kiln_module_encode(&plans[i], &once));
        memcpy(&version, once.data + KILN_MODULE_AT_VERSION, sizeof version);
        assert_int_equal(version, i == 0 ? KILN_MODULE_VERSION_PLAIN : KILN_MODULE_VERSION_FULL);
        void *aligned = kiln_alloc_aligned(KILN_MODULE_CONSTANT_ALIGNMENT, once.size);
        memcpy(aligned, once.data, once.size);
        kiln_status st = kiln_module_decode((kiln_str){aligned, once.size}, &w->scratch, &sizes,
                                            &constant_bytes);
        if (st) fail_msg("%s", kiln_status_text(st));
        assert_null(kiln_module_encode(&sizes.bucket->plan, &twice));
        assert_int_equal(once.size, twice.size);
        assert_memory_equal(once.data, twice.data, once.size);
        kiln_free(aligned);
        kiln_strbuf_deinit(&once);
        kiln_strbuf_deinit(&twice);
    }
}

/* Sizes 1, 2 and 5, which all compute the same: what they share is in the file once. */
static kiln_module_sizes three_sizes(world *w) {
    kiln_module_bucket *bucket = KILN_ARENA_ARRAY(&w->arena, kiln_module_bucket, 3);
    for (uint32_t i = 0; i < 3; i++)
        bucket[i] = (kiln_module_bucket){(int64_t[]){1, 2, 5}[i], 100 + i, w->plan};
    return (kiln_module_sizes){KILN_STR("batch"), false, 3, bucket};
}

/* Puts the file of those in place of the world's. */
static void take_three_sizes(world *w) {
    const kiln_module_sizes sizes = three_sizes(w);
    kiln_strbuf_deinit(&w->good);
    w->good = (kiln_strbuf){0};
    assert_null(kiln_module_encode_sizes(&sizes, &w->good));
    kiln_free(w->copy);
    w->copy = kiln_alloc_aligned(KILN_MODULE_CONSTANT_ALIGNMENT, w->good.size);
    memcpy(w->copy, w->good.data, w->good.size);
}

static void several_sizes_survive_the_file(void **state) {
    world *w = *state;
    const size_t one = w->good.size;
    kiln_strbuf again = {0};
    kiln_module_sizes read;
    size_t constant_bytes;
    take_three_sizes(w);
    assert_true(w->good.size < one + 4096); /* two more plans */
    assert_null(kiln_module_decode((kiln_str){(const char *)w->copy, w->good.size}, &w->scratch,
                                   &read, &constant_bytes));
    assert_true(kiln_str_is(read.dim, "batch"));
    assert_false(read.by_rows);
    assert_int_equal(read.bucket_count, 3);
    assert_int_equal(read.bucket[2].size, 5);
    assert_int_equal(read.bucket[2].median_ns, 102);
    assert_ptr_equal(read.bucket[0].plan.kernel[0].data, read.bucket[2].plan.kernel[0].data);
    assert_ptr_equal(read.bucket[0].plan.buffer[FIXTURE_W0].data,
                     read.bucket[2].plan.buffer[FIXTURE_W0].data);
    assert_null(kiln_module_encode_sizes(&read, &again));
    assert_int_equal(again.size, w->good.size);
    assert_memory_equal(again.data, w->good.data, again.size);
    kiln_strbuf_deinit(&again);
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
        {KILN_MODULE_AT_MAGIC, 'k', 1, KILN_DATA_LOSS, "not a module file"},
        {KILN_MODULE_AT_VERSION, 0, 4, KILN_UNIMPLEMENTED, "format 0"},
        {KILN_MODULE_AT_VERSION, 2, 4, KILN_DATA_LOSS, "section plan: an array of 4 items, not 5"},
        {KILN_MODULE_AT_VERSION, 9, 4, KILN_UNIMPLEMENTED, "format 9, of a newer version of Kiln"},
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
        {entry(constants, KILN_MODULE_ENTRY_AT_SIZE), 64, 8, KILN_DATA_LOSS,
         "after the last section"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        put(w, row[i].at, row[i].value, row[i].bytes);
        refused(w, w->good.size, row[i].code, row[i].text);
        memcpy(w->copy, w->good.data, w->good.size);
    }
}

static kiln_str section_of(const kiln_strbuf *file, uint32_t index) {
    uint64_t offset, size;
    memcpy(&offset, file->data + entry(index, KILN_MODULE_ENTRY_AT_OFFSET), sizeof offset);
    memcpy(&size, file->data + entry(index, KILN_MODULE_ENTRY_AT_SIZE), sizeof size);
    return (kiln_str){file->data + offset, (size_t)size};
}

/* The good file with one section replaced, in `w->copy`; returns its size. */
static size_t replace_section(world *w, uint32_t replaced, kiln_str content) {
    size_t size = entry(KILN_MODULE_SECTION_COUNT, 0);
    size_t room = w->good.size + content.size + KILN_MODULE_CONSTANT_ALIGNMENT;
    kiln_free(w->copy);
    w->copy = kiln_alloc_aligned(KILN_MODULE_CONSTANT_ALIGNMENT, room);
    memcpy(w->copy, w->good.data, size);
    for (uint32_t i = 0; i < KILN_MODULE_SECTION_COUNT; i++) {
        kiln_str section = i == replaced ? content : section_of(&w->good, i);
        uint32_t alignment;
        memcpy(&alignment, w->copy + entry(i, KILN_MODULE_ENTRY_AT_ALIGNMENT), sizeof alignment);
        size = (size + alignment - 1) / alignment * alignment;
        memcpy(w->copy + size, section.data, section.size);
        memcpy(w->copy + entry(i, KILN_MODULE_ENTRY_AT_OFFSET), &size, sizeof size);
        memcpy(w->copy + entry(i, KILN_MODULE_ENTRY_AT_SIZE), &section.size, sizeof section.size);
        size += section.size;
    }
    memcpy(w->copy + KILN_MODULE_AT_FILE_BYTES, &size, sizeof size);
    module_seal(w->copy, size);
    return size;
}

/* Each writes a section up to the point where it goes wrong. */
static void many_entries(kiln_strbuf *b) {
    kiln_mpack_write_map(b, KILN_MODULE_METADATA_MAX + 1);
    for (uint32_t i = 0; i < 2 * (KILN_MODULE_METADATA_MAX + 1); i++)
        kiln_mpack_write_str(b, KILN_STR("k"));
}
static void number_as_key(kiln_strbuf *b) {
    kiln_mpack_write_map(b, 1);
    kiln_mpack_write_u64(b, 1);
    kiln_mpack_write_u64(b, 1);
}
static void bytes_left(kiln_strbuf *b) {
    kiln_mpack_write_map(b, 0);
    kiln_mpack_write_nil(b);
}
static void three_lists(kiln_strbuf *b) {
    kiln_mpack_write_array(b, 3);
    for (int i = 0; i < 3; i++) kiln_mpack_write_array(b, 0);
}
static void write_port(kiln_strbuf *b, uint64_t dtype, uint32_t rank, int64_t dim) {
    kiln_mpack_write_array(b, 2);
    kiln_mpack_write_array(b, 1);
    kiln_mpack_write_array(b, 4);
    kiln_mpack_write_str(b, KILN_STR("x"));
    kiln_mpack_write_u64(b, dtype);
    kiln_mpack_write_array(b, rank);
    for (uint32_t i = 0; i < rank; i++) kiln_mpack_write_i64(b, dim);
    kiln_mpack_write_u64(b, FIXTURE_X);
    kiln_mpack_write_array(b, 0);
}
static void dtype_none(kiln_strbuf *b) { write_port(b, KILN_DTYPE_NONE, 1, 1); }
static void dtype_unknown(kiln_strbuf *b) { write_port(b, KILN_DTYPE_COUNT, 1, 1); }
static void dtype_huge(kiln_strbuf *b) { write_port(b, (UINT64_C(1) << 32) + 1, 1, 1); }
static void rank_too_large(kiln_strbuf *b) { write_port(b, KILN_F32, KILN_RANK_MAX + 1, 1); }
static void dimension_negative(kiln_strbuf *b) { write_port(b, KILN_F32, 1, -1); }
static void write_buffer(kiln_strbuf *b, uint64_t storage) {
    kiln_mpack_write_array(b, 4);
    kiln_mpack_write_u64(b, 1);
    kiln_mpack_write_u64(b, 64);
    kiln_mpack_write_array(b, 1);
    kiln_mpack_write_array(b, 4);
    kiln_mpack_write_u64(b, storage);
    kiln_mpack_write_u64(b, 64);
    kiln_mpack_write_u64(b, 0);
    kiln_mpack_write_u64(b, 0);
}
static void storage_zero(kiln_strbuf *b) { write_buffer(b, 0); }
static void storage_unknown(kiln_strbuf *b) { write_buffer(b, KILN_STORAGE_ALIAS + 1); }
static void write_step(kiln_strbuf *b, uint64_t action) {
    write_buffer(b, KILN_STORAGE_ARENA);
    kiln_mpack_write_array(b, 1);
    kiln_mpack_write_array(b, 7);
    kiln_mpack_write_u64(b, action);
    for (int i = 0; i < 3; i++) kiln_mpack_write_str(b, KILN_STR(""));
    kiln_mpack_write_u64(b, 0);
    kiln_mpack_write_u64(b, 0);
    kiln_mpack_write_array(b, 0);
}
static void action_zero(kiln_strbuf *b) { write_step(b, 0); }
static void action_unknown(kiln_strbuf *b) { write_step(b, KILN_ACTION_COPY + 1); }

static void malformed_section_is_refused(void **state) {
    world *w = *state;
    char unknown[16];
    snprintf(unknown, sizeof unknown, "dtype %d", KILN_DTYPE_COUNT);
    const struct {
        uint32_t section;
        void (*write)(kiln_strbuf *b);
        const char *text;
    } row[] = {
        {KILN_MODULE_INDEX_METADATA, many_entries, "section metadata: 257 entries"},
        {KILN_MODULE_INDEX_METADATA, number_as_key, "section metadata"},
        {KILN_MODULE_INDEX_METADATA, bytes_left, "more bytes than expected"},
        {KILN_MODULE_INDEX_SIGNATURE, three_lists, "3 items, not 2"},
        {KILN_MODULE_INDEX_SIGNATURE, dtype_none, "dtype 0"},
        {KILN_MODULE_INDEX_SIGNATURE, dtype_unknown, unknown},
        {KILN_MODULE_INDEX_SIGNATURE, dtype_huge, "too large"},
        {KILN_MODULE_INDEX_SIGNATURE, rank_too_large, "9 items"},
        {KILN_MODULE_INDEX_SIGNATURE, dimension_negative, "negative dimension"},
        {KILN_MODULE_INDEX_PLAN, storage_zero, "storage 0"},
        {KILN_MODULE_INDEX_PLAN, storage_unknown, "storage 6"},
        {KILN_MODULE_INDEX_PLAN, action_zero, "action 0"},
        {KILN_MODULE_INDEX_PLAN, action_unknown, "action 4"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_strbuf content = {0};
        row[i].write(&content);
        size_t size = replace_section(w, row[i].section, kiln_strbuf_view(&content));
        refused(w, size, KILN_DATA_LOSS, row[i].text);
        kiln_strbuf_deinit(&content);
    }
    kiln_module_plan plan;
    kiln_str constants = section_of(&w->good, KILN_MODULE_INDEX_CONSTANTS);
    assert_null(decode(w, replace_section(w, KILN_MODULE_INDEX_CONSTANTS, constants),
                       &plan)); /* unchanged */
    constants.size--;
    refused(w, replace_section(w, KILN_MODULE_INDEX_CONSTANTS, constants), KILN_DATA_LOSS,
            "buffer 2 lies outside");
}

static void plan_with_broken_rules_is_damage(void **state) {
    world *w = *state;
    /* The encoder refuses such a plan, so it is spoilt in the file: the copy's result becomes its
     * source. */
    size_t offset;
    memcpy(&offset, w->copy + entry(KILN_MODULE_INDEX_PLAN, KILN_MODULE_ENTRY_AT_OFFSET),
           sizeof offset);
    size_t size;
    memcpy(&size, w->copy + entry(KILN_MODULE_INDEX_PLAN, KILN_MODULE_ENTRY_AT_SIZE), sizeof size);
    assert_int_equal(w->copy[offset + size - 1],
                     FIXTURE_OUT1); /* the last argument of the last step */
    put(w, offset + size - 1, FIXTURE_A1, 1);
    refused(w, w->good.size, KILN_DATA_LOSS, "may not be written twice");
}

/* Random damage behind right checksums: no promise about the answer, only that there is one. */
static void survive_damage(world *w) {
    kiln_rand r;
    kiln_rand_init(&r, 11);
    size_t end;
    memcpy(&end, w->copy + entry(KILN_MODULE_INDEX_CONSTANTS, KILN_MODULE_ENTRY_AT_OFFSET),
           sizeof end);
    uint32_t refused_count = 0;
    for (uint32_t round = 0; round < 5000; round++) {
        memcpy(w->copy, w->good.data, w->good.size);
        uint64_t changes = 1 + kiln_rand_below(&r, 3);
        for (uint64_t i = 0; i < changes; i++)
            w->copy[kiln_rand_below(&r, end)] = (uint8_t)kiln_rand_u64(&r);
        module_seal(w->copy, w->good.size);
        kiln_module_plan plan;
        kiln_status st = decode(w, w->good.size, &plan);
        for (uint32_t i = 0; !st && i < plan.kernel_count; i++)
            st = kiln_kernel_check(plan.kernel[i]);
        refused_count += st != NULL;
        kiln_status_free(st);
    }
    assert_true(refused_count > 1000);
}

static void random_damage_is_survived(void **state) { survive_damage(*state); }

static void random_damage_of_several_sizes_is_survived(void **state) {
    take_three_sizes(*state);
    survive_damage(*state);
}

#define ROW(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int argc, char **argv) {
    fixture_init(argc, argv);
    const struct CMUnitTest tests[] = {
        ROW(plan_survives_the_file),
        ROW(change_of_any_byte_is_seen),
        ROW(cut_at_any_byte_is_seen),
        ROW(version_says_what_the_plan_needs),
        ROW(lying_header_is_refused),
        ROW(malformed_section_is_refused),
        ROW(plan_with_broken_rules_is_damage),
        ROW(random_damage_is_survived),
        ROW(block_of_a_signature_is_known_and_checked),
        ROW(several_sizes_survive_the_file),
        ROW(random_damage_of_several_sizes_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
