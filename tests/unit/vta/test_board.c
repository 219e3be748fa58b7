#include "vta/board.h"

#include <string.h>

#include "tests/support/test.h"
#include "tests/support/vta_board_fake.h"
#include "vta/builder.h"
#include "vta/check.h"

#define ADDRESS 0x30000u
#define MEMORY_BYTES (16u * KILN_VTA_PAGE_BYTES)
#define TILES 8u

enum { BUFFER_IN = 1, BUFFER_MIDDLE, BUFFER_OUT };

/* One is added to bytes, twice over: two programs, between which a scratch buffer lies. */
static kiln_vta_stream add_twice(const kiln_vta_config *config, kiln_arena *arena) {
    static const struct {
        const char *name;
        kiln_vta_role role;
    } row[] = {{"in", KILN_VTA_ROLE_ARGUMENT},
               {"middle", KILN_VTA_ROLE_SCRATCH},
               {"out", KILN_VTA_ROLE_ARGUMENT}};
    kiln_vta_builder *b = kiln_vta_builder_create(config, arena);
    uint32_t buffer;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++)
        expect_ok(kiln_vta_builder_buffer(b, kiln_str_from(row[i].name), row[i].role,
                                          TILES * kiln_vta_tile_bytes(config, KILN_VTA_OUT),
                                          (kiln_str){0}, &buffer));
    for (uint32_t i = BUFFER_IN; i < BUFFER_OUT; i++) {
        const kiln_vta_operation add = {KILN_VTA_ALU_ADD, true, 1};
        const kiln_vta_nest nest = {.loop_count = 1, .loop = {{TILES, {1, 0, 0}}}};
        kiln_vta_copy copy = {
            .memory = KILN_VTA_ACC_BYTES, .buffer = i, .dim_count = 1, .dim = {{TILES, 1, 0, 0}}};
        expect_ok(kiln_vta_builder_copy(b, &copy));
        expect_ok(kiln_vta_builder_alu(b, &nest, &add, 1));
        kiln_vta_builder_signal(b, KILN_VTA_ENGINE_COMPUTE, KILN_VTA_ENGINE_STORE);
        expect_ok(kiln_vta_builder_wait(b, KILN_VTA_ENGINE_STORE, KILN_VTA_ENGINE_COMPUTE));
        copy.memory = KILN_VTA_OUT;
        copy.buffer = i + 1;
        expect_ok(kiln_vta_builder_copy(b, &copy));
        if (i + 1 < BUFFER_OUT) kiln_vta_builder_sync(b);
    }
    kiln_vta_stream stream;
    expect_ok(kiln_vta_builder_finish(b, &(kiln_vta_limits){.instructions = 6}, &stream));
    kiln_vta_builder_destroy(b);
    assert_int_equal(stream.program_count, 2);
    return stream;
}

typedef struct world {
    vta_board_fake fake;
    kiln_vta_board board;
    kiln_vta_stream stream;
    kiln_vta_loaded loaded[2];
} world;

static world *new_world(kiln_arena *arena) {
    world *w = KILN_ARENA_NEW(arena, world);
    kiln_vta_config config;
    expect_ok(kiln_vta_config_parse(
        KILN_STR("b1i2o2,i8w8a32,uop8,inp8,wgt8,acc8,bus32,clk100,alu2,pipe3,v1+bytes"), &config));
    vta_board_fake_init(&w->fake, &config, ADDRESS, MEMORY_BYTES, arena);
    expect_ok(kiln_vta_board_init(&w->board, &w->fake.io));
    w->stream = add_twice(&config, arena);
    expect_ok(kiln_vta_board_load(&w->board, w->stream.program, 2, arena, w->loaded));
    return w;
}

static void programs_run_one_after_the_other(void **state) {
    world *w = new_world(*state);
    uint8_t *in = kiln_vta_board_at(&w->board, w->loaded[0].place[BUFFER_IN]);
    const uint8_t *out = kiln_vta_board_at(&w->board, w->loaded[0].place[BUFFER_OUT]);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(w->loaded[i].place[BUFFER_MIDDLE], w->loaded[0].place[BUFFER_MIDDLE]);
    for (uint32_t round = 0; round < 2; round++) { /* and again */
        uint64_t cycles = 0;
        for (uint32_t i = 0; i < 2 * TILES; i++) in[i] = (uint8_t)(17 * i + round);
        for (uint32_t i = 0; i < 2; i++) {
            expect_ok(kiln_vta_board_run(&w->board, &w->loaded[i], 1000000, &cycles));
            assert_true(cycles ==
                        (UINT64_C(1) << 32) + 10u * w->stream.program[i].instruction_count);
        }
        for (uint32_t i = 0; i < 2 * TILES; i++) assert_int_equal(out[i], (uint8_t)(in[i] + 2));
    }
}

static void a_board_that_is_broken_is_told_how(void **state) {
    static const struct {
        vta_fake_fault fault;
        kiln_code code;
        const char *words;
    } row[] = {
        {VTA_FAKE_DEAD, KILN_UNAVAILABLE, "do not answer"},
        {VTA_FAKE_KEEPS_NOTHING, KILN_UNAVAILABLE, "do not keep written values"},
        {VTA_FAKE_IS_BUSY, KILN_FAILED_PRECONDITION, "runs another program"},
        {VTA_FAKE_DOES_NOT_START, KILN_UNAVAILABLE, "did not start"},
        {VTA_FAKE_STANDS, KILN_UNAVAILABLE, "clock stopped"},
        {VTA_FAKE_HANGS, KILN_DEADLINE_EXCEEDED,
         "did not finish in 3 ms; compute has ended 3 of 4, instruction 2 last, and is at 4: "
         "finish pop_next; store has ended 0 of 1, and is at 3: store pop_prev push_prev"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        world *w = new_world(*state);
        uint64_t cycles = 0;
        w->fake.fault = row[i].fault;
        w->fake.hangs_behind = 3;
        kiln_status st = kiln_vta_board_run(&w->board, &w->loaded[0], 3000000, &cycles);
        assert_int_equal(kiln_status_code(st), row[i].code);
        expect_contains(kiln_status_text(st), row[i].words);
        assert_in_range(w->fake.now_ns, 0, 3100000);
        assert_int_equal(cycles, 0);
        kiln_status_free(st);
        kiln_arena_reset(*state);
    }
}

static void memory_is_given_in_pages_that_lie_together(void **state) {
    world *w = new_world(*state);
    const uint64_t before = w->board.used_bytes;
    uint64_t a, b;
    expect_ok(kiln_vta_board_alloc(&w->board, 1, &a));
    expect_ok(kiln_vta_board_alloc(&w->board, KILN_VTA_PAGE_BYTES + 1, &b));
    assert_int_equal(a, ADDRESS + before);
    assert_int_equal(b, a + KILN_VTA_PAGE_BYTES);
    assert_int_equal(w->board.used_bytes, before + 3 * KILN_VTA_PAGE_BYTES);
    expect_error(kiln_vta_board_alloc(&w->board, MEMORY_BYTES, &a), RESOURCE_EXHAUSTED, "are left");
    /* What is too much leaves nothing behind. */
    const uint64_t used = w->board.used_bytes;
    expect_ok(kiln_vta_board_alloc(&w->board, 3 * KILN_VTA_PAGE_BYTES, &a));
    expect_error(kiln_vta_board_load(&w->board, w->stream.program, 2, *state, w->loaded),
                 RESOURCE_EXHAUSTED, "loading program 1 of 2");
    assert_int_equal(w->board.used_bytes, used + 3 * KILN_VTA_PAGE_BYTES);
    kiln_vta_board_reset(&w->board);
    expect_ok(kiln_vta_board_alloc(&w->board, MEMORY_BYTES, &a));
    assert_int_equal(a, ADDRESS);

    kiln_vta_board_io io = w->fake.io;
    io.address += 1;
    expect_error(kiln_vta_board_init(&w->board, &io), FAILED_PRECONDITION, "0x30001");
    io.address = UINT64_C(0xffff0000);
    io.memory_bytes = 17 * KILN_VTA_PAGE_BYTES;
    expect_error(kiln_vta_board_init(&w->board, &io), FAILED_PRECONDITION, "below 4 GiB");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(programs_run_one_after_the_other),
        test_with_arena(a_board_that_is_broken_is_told_how),
        test_with_arena(memory_is_given_in_pages_that_lie_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
