/* Places of shared temps: which may have the same bytes, and that no program then computes anything
 * else. */
#include <string.h>

#include "base/macros.h"
#include "compiler-core/ir/ir_text.h"
#include "compiler-core/lower/pass.h"
#include "tests/support/interpreter.h"
#include "tests/unit/compiler-core/lower/support.h"

/* Two temps of four elements, reversed by four threads; what stands inside the nest follows. */
#define HEAD(a, b)                                                                                 \
    "program p\ninput x: f32[2,4]\noutput y: f32[2,4]\n"                                           \
    "temp a: " a " scope(shared)\ntemp b: " b " scope(shared)\nloops:\n  alloc a:\n    alloc b:\n" \
    "      bind(thread.x) t in 4:\n"
#define FILL_A "        a[t] = x[0, t]\n"
#define READ_A "        y[0, t] = a[3 - t]\n"
#define FILL_B "        b[t] = x[1, t]\n"
#define READ_B "        y[1, t] = b[3 - t]\n"
#define BARRIER "        barrier\n"
#define TWO HEAD("f32[4]", "f32[4]")
#define LOOP "        for k in 3:\n"
#define IN_LOOP_A "          a[t] = x[0, t]\n          barrier\n          y[0, t] = a[3 - t]\n"
#define IN_LOOP_B "          b[t] = x[1, t]\n          barrier\n          y[1, t] = b[3 - t]\n"
#define BARRIER_IN "          barrier\n"

static kiln_program *placed(kiln_arena *arena, const char *text) {
    kiln_target target = x86_target(arena, 3, 1);
    kiln_lowering l = {
        .target = &target, .arena = arena, .run = parse_in(arena, text), .list = KILN_LOWER_GRID};
    expect_ok(kiln_lower_shared(&l));
    return l.run;
}

static uint64_t offset_of(const kiln_program *p, const char *name) {
    const kiln_buffer_info *b = &p->buffer.data[kiln_program_find_buffer(p, kiln_str_from(name))];
    assert_true(b->is_placed);
    return b->offset;
}

/* In the interpreter, which knows both temps of a byte. */
static kiln_status run(kiln_program *p) {
    float x[8], y[8];
    for (uint32_t i = 0; i < 8; i++) x[i] = (float)i;
    kiln_tensor arg[2] = {
        {.dtype = KILN_F32, .shape = {2, {2, 4}}, .data = x},
        {.dtype = KILN_F32, .shape = {2, {2, 4}}, .data = y},
    };
    kiln_status st = kiln_loop_eval(p, arg, 2);
    for (uint32_t i = 0; !st && i < 8; i++) assert_true(y[i] == (float)(i < 4 ? 3 - i : 11 - i));
    return st;
}

static void temps_share_bytes_where_a_barrier_parts_them(void **state) {
    static const struct {
        const char *name, *text;
        bool shares;
    } row[] = {
        {"one after the other", TWO FILL_A BARRIER READ_A BARRIER FILL_B BARRIER READ_B, true},
        {"no barrier behind the last reader", TWO FILL_A BARRIER READ_A FILL_B BARRIER READ_B,
         false},
        {"both are read at the end", TWO FILL_A FILL_B BARRIER READ_A READ_B, false},
        {"each in a loop of its own", TWO LOOP IN_LOOP_A BARRIER_IN LOOP IN_LOOP_B BARRIER_IN,
         true},
        {"in one loop, parted in both directions",
         TWO LOOP IN_LOOP_A BARRIER_IN IN_LOOP_B BARRIER_IN, true},
        {"in one loop, with a barrier at its beginning",
         TWO LOOP BARRIER_IN IN_LOOP_A BARRIER_IN IN_LOOP_B, true},
        {"in one loop, not parted from the next iteration",
         TWO "        for k in 1:\n" IN_LOOP_A BARRIER_IN IN_LOOP_B, false},
        {"a barrier that is met in one iteration only",
         TWO FILL_A BARRIER READ_A LOOP
         "          if k < 0:\n            barrier\n" FILL_B BARRIER READ_B,
         false},
        {"one is alive over the loop of the other",
         TWO FILL_A BARRIER LOOP IN_LOOP_B BARRIER_IN READ_A, false},
        {"a loop that reads what was there before it",
         TWO FILL_A BARRIER LOOP "          y[0, t] = a[3 - t]\n" BARRIER_IN IN_LOOP_B BARRIER_IN,
         false},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_program *p = placed(*state, row[i].text);
        const bool shares = offset_of(p, "a") == offset_of(p, "b");
        if (shares != row[i].shares)
            fail_msg("%s: a at %u, b at %u", row[i].name, (uint32_t)offset_of(p, "a"),
                     (uint32_t)offset_of(p, "b"));
        kiln_status st = run(p);
        if (st) fail_msg("%s: %s", row[i].name, kiln_status_text(st));
    }
}

/* What shares none must not: the interpreter names both. */
static void temps_that_live_together_on_the_same_bytes_are_found(void **state) {
    static const struct {
        const char *body, *finding;
    } row[] = {
        {FILL_A FILL_B BARRIER READ_A READ_B, "a[3] is read and b was written on its bytes"},
        {FILL_A BARRIER READ_A FILL_B BARRIER READ_B,
         "b[0] lies on bytes of a, and one of them is written and touched by several threads"},
        {FILL_A BARRIER FILL_B BARRIER READ_B READ_A,
         "a[3] is read and b was written on its bytes, the store to y"},
        {LOOP IN_LOOP_A BARRIER_IN IN_LOOP_B, "lies on bytes of"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        const char *text = kiln_arena_printf(*state, "%s%s", TWO, row[i].body);
        kiln_program *p = placed(*state, text);
        p->buffer.data[kiln_program_find_buffer(p, KILN_STR("a"))].offset = 0;
        p->buffer.data[kiln_program_find_buffer(p, KILN_STR("b"))].offset = 0;
        expect_error(run(p), FAILED_PRECONDITION, row[i].finding);
    }
}

/* A copy that nothing behind it waits for keeps its temp; one that was waited for does not. */
static void copies_keep_their_temp_until_they_are_waited_for(void **state) {
    static const char copy[] = TWO "        copy(0) a[t] = x[0, t]\n        commit(0)\n";
    static const char waited[] = "        wait(0, 0)\n" BARRIER READ_A BARRIER;
    static const char late[] = "        if x[0, 0] < -1.0:\n          y[0, t] = a[3 - t]\n" BARRIER;
    static const char rest[] = FILL_B BARRIER READ_B "        wait(0, 0)\n";
    kiln_program *p = placed(*state, kiln_arena_printf(*state, "%s%s%s", copy, waited, rest));
    assert_int_equal(offset_of(p, "a"), offset_of(p, "b"));
    expect_ok(run(p));
    p = placed(*state, kiln_arena_printf(*state, "%s%s%s", copy, late, rest));
    assert_int_not_equal(offset_of(p, "a"), offset_of(p, "b"));
    /* On the same bytes the copy would land in b. */
    p->buffer.data[kiln_program_find_buffer(p, KILN_STR("b"))].offset = offset_of(p, "a");
    expect_error(run(p), FAILED_PRECONDITION,
                 "b[0] is written while a copy of it is in flight, the store to b, t=0; the other "
                 "access: the copy to a of thread 0");
}

/* The largest temp lies first, each at a multiple of its alignment. */
static void places_are_aligned(void **state) {
    kiln_program *p = placed(
        *state,
        HEAD("f16[5]", "f32[16,64] layout(d0,d1/8^d0%8,d1%8)") "        a[t] = f16(x[0, t])\n"
                                                               "        b[t, 0] = x[1, t]\n" BARRIER
                                                               "        y[0, t] = f32(a[3 - t])\n"
                                                               "        y[1, t] = b[3 - t, 0]\n");
    assert_int_equal(offset_of(p, "b"), 0);
    assert_int_equal(offset_of(p, "a"), 16 * 64 * sizeof(float));
    expect_ok(run(p));
    p = placed(*state, HEAD("f16[5]", "f32[6]") "        a[t] = f16(x[0, t])\n" FILL_B BARRIER
                                                "        y[0, t] = f32(a[3 - t])\n" READ_B);
    assert_int_equal(offset_of(p, "b"), 0);
    assert_int_equal(offset_of(p, "a"), 32);
    expect_ok(run(p));
}

/* Temps on their way through a group: the third one lies where the first one was. */
#define CHAIN                                                \
    "program p\ninput x: f32[3,8]\noutput y: f32[3,8]\n"     \
    "temp a: f32[3,8]\ntemp b: f32[3,8]\ntemp c: f32[3,8]\n" \
    "block a(i:3, j:8): a[i, j] = x[i, 7 - j]*2.0\n"         \
    "block b(i:3, j:8): b[i, j] = a[i, 7 - j] + a[i, j]\n"   \
    "block c(i:3, j:8): c[i, j] = b[i, 7 - j] + b[i, j]\n"   \
    "block y(i:3, j:8): y[i, j] = c[i, 7 - j] + c[i, j]\n"
#define CHAINED                                                                            \
    "bind(y.i, \"block.x\")\ncompute_at(c, y.i)\ncompute_at(b, y.i)\ncompute_at(a, y.i)\n" \
    "bind(y.j, \"thread.x\")\nbind(c.j, \"thread.x\")\nbind(b.j, \"thread.x\")\n"          \
    "bind(a.j, \"thread.x\")\n"

static void launches_take_the_bytes_of_what_lives_together(void **state) {
    kiln_program *te = parse_in(*state, CHAIN);
    kiln_lowered lowered;
    expect_ok(grid_equals(te, replay_text(te, CHAINED), 1, &lowered));
    const kiln_launch *launch = &lowered.run_launches.launch[0];
    assert_int_equal(launch->shared_count, 3);
    assert_int_equal(launch->shared_bytes, 2 * 8 * sizeof(float));
    assert_int_equal(launch->shared[0].offset, launch->shared[2].offset);
    expect_meaning_behind_every_pass(*state, te, CHAINED);
}

/* A target with memory for two of three temps takes the launch. */
static void limits_count_bytes_once(void **state) {
    kiln_program *te = parse_in(*state, CHAIN);
    kiln_lowered lowered;
    kiln_target target;
    expect_ok(kiln_target_parse(KILN_STR("null,shared=64"), *state, &target));
    expect_ok(kiln_lower(replay_text(te, CHAINED), &target, *state, &lowered));
    expect_ok(kiln_target_parse(KILN_STR("null,shared=63"), *state, &target));
    expect_error(kiln_lower(replay_text(te, CHAINED), &target, *state, &lowered), ILLEGAL_SCHEDULE,
                 "its groups share 64 bytes, 32 of them a; the target has 63");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(temps_share_bytes_where_a_barrier_parts_them),
        test_with_arena(temps_that_live_together_on_the_same_bytes_are_found),
        test_with_arena(copies_keep_their_temp_until_they_are_waited_for),
        test_with_arena(places_are_aligned),
        test_with_arena(launches_take_the_bytes_of_what_lives_together),
        test_with_arena(limits_count_bytes_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
