/* What a device keeps between trials, over a CUDA driver without a device
 * (tests/support/fake_cuda.h), which counts what is allocated. */
#include "rpc-server/trial_memory.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "base/macros.h"
#include "tests/support/fake_cuda.h"
#include "tests/support/test.h"

#define BYTES ((size_t)16384)
#define COUNT 60

static fake_cuda *fake;
static kiln_device *device;
static kiln_trial_memory *memory;

static int set_up(void **state) {
    expect_ok(kiln_device_open(KILN_DEVICE_CUDA, &(kiln_device_setup){0}, &device));
    memory = kiln_trial_memory_create(device);
    return arena_set_up(state);
}

static int tear_down(void **state) {
    kiln_trial_memory_destroy(memory);
    const int left = fake->allocations;
    kiln_device_close(device);
    return left ? -1 : arena_tear_down(state);
}

static void a_block_serves_the_next_trial(void **state) {
    (void)state;
    kiln_device_memory one, other, again;
    expect_ok(kiln_trial_memory_take(memory, BYTES, &one));
    expect_ok(kiln_trial_memory_take(memory, BYTES, &other));
    assert_ptr_not_equal(one.data, other.data);
    const void *place = one.data;
    kiln_trial_memory_give(memory, &one);
    assert_null(one.data);
    kiln_trial_memory_give(memory, &one); /* there is nothing in it */
    expect_ok(kiln_trial_memory_take(memory, BYTES, &again));
    assert_ptr_equal(again.data, place);
    assert_int_equal(fake->allocations, 2);
    kiln_trial_memory_give(memory, &again);
    kiln_trial_memory_give(memory, &other);
}

static void blocks_of_another_size_go(void **state) {
    (void)state;
    kiln_device_memory one, other;
    expect_ok(kiln_trial_memory_take(memory, BYTES, &one));
    kiln_trial_memory_give(memory, &one);
    expect_ok(kiln_trial_memory_take(memory, 2 * BYTES, &other));
    assert_int_equal(other.size_bytes, 2 * BYTES);
    assert_int_equal(fake->allocations, 2);
    kiln_trial_memory_trim(memory);
    assert_int_equal(fake->allocations, 1);
    kiln_trial_memory_give(memory, &other);
}

/* What is left of an earlier trial may be what this one lacks. */
static void a_device_without_room_gets_back_what_was_left(void **state) {
    (void)state;
    kiln_device_memory one, other;
    expect_ok(kiln_trial_memory_take(memory, BYTES, &one));
    kiln_trial_memory_give(memory, &one);
    fake->fail_symbol = "cuMemAlloc_v2", fake->fail_at = 1, fake->fail_code = 2;
    expect_ok(kiln_trial_memory_take(memory, 2 * BYTES, &other));
    assert_int_equal(fake->allocations, 1);
    kiln_trial_memory_give(memory, &other);
    fake->fail_symbol = "cuMemAlloc_v2", fake->fail_at = 1, fake->fail_code = 2;
    kiln_trial_memory_trim(memory);
    expect_error(kiln_trial_memory_take(memory, BYTES, &one), RESOURCE_EXHAUSTED, "bytes");
}

static kiln_manifest_arg input_of(const char *layout) {
    kiln_manifest_arg arg = {.dtype = KILN_F32,
                             .role = KILN_ROLE_INPUT,
                             .shape = {.rank = 2, .dim = {COUNT / 6, 6}},
                             .fill = KILN_FILL_UNIFORM};
    expect_ok(kiln_layout_parse(kiln_str_from(layout), 2, &arg.layout));
    return arg;
}

/* Whatever was asked for before: the bytes are those of the seed, in the layout. */
static void an_input_is_what_its_argument_says(void **state) {
    (void)state;
    static const struct {
        const char *layout;
        uint64_t seed;
    } row[] = {{"row", 1}, {"row", 1}, {"row", 2}, {"d1,d0", 2}, {"d1,d0", 2}, {"row", 2}};
    const size_t bytes = COUNT * sizeof(float);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        const kiln_manifest_arg arg = input_of(row[i].layout);
        float logical[COUNT], physical[COUNT];
        kiln_manifest_arg_fill(&arg, row[i].seed, logical);
        kiln_layout_pack(&arg.layout, &arg.shape, arg.dtype, logical, physical);
        assert_memory_equal(kiln_trial_memory_input(memory, 0, &arg, row[i].seed, bytes), physical,
                            bytes);
        kiln_trial_memory_end_input(memory, 0);
    }
}

static void an_input_is_made_once(void **state) {
    (void)state;
    const kiln_manifest_arg arg = input_of("row");
    const size_t bytes = COUNT * sizeof(float);
    const char *first = kiln_trial_memory_input(memory, 1, &arg, 7, bytes);
    kiln_trial_memory_end_input(memory, 1);
    assert_ptr_equal(kiln_trial_memory_input(memory, 1, &arg, 7, bytes), first);
    kiln_trial_memory_end_input(memory, 1);
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    (void)setenv("KILN_CUDA_LIBRARY", argv[1], 1);
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    fake = library ? dlsym(library, "fake_cuda_state") : NULL;
    if (!fake) return 2;
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_block_serves_the_next_trial),
        TEST(blocks_of_another_size_go),
        TEST(a_device_without_room_gets_back_what_was_left),
        TEST(an_input_is_what_its_argument_says),
        TEST(an_input_is_made_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
