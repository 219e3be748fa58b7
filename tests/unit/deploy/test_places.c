/* Lives of buffers, parts of them included, and whose place a result may take. */
#include "deploy/pack/places.h"

#include "tests/unit/compiler-core/graph/support.h"

#define BYTES 256u

enum { A, B, C, PART, BUFFERS };

/* kernel -> A; kernel(A) -> B; kernel(B) -> C, every result where its first argument may stand. */
typedef struct fixture {
    kiln_plan_buffer buffer[BUFFERS];
    kiln_plan_step step[3];
    uint32_t arg[3][2], *in_place[1], over[2];
    kiln_places places;
} fixture;

static void set_up(fixture *f) {
    *f = (fixture){.arg = {{A, A}, {A, B}, {B, C}}, .over = {0, 1}};
    for (uint32_t i = A; i <= C; i++)
        f->buffer[i] = (kiln_plan_buffer){.storage = KILN_STORAGE_ARENA, .size_bytes = BYTES};
    f->buffer[PART] = (kiln_plan_buffer){
        .storage = KILN_STORAGE_ALIAS, .size_bytes = BYTES / 2, .source = A, .offset = BYTES / 2};
    for (uint32_t s = 0; s < 3; s++)
        f->step[s] = (kiln_plan_step){
            .action = KILN_ACTION_KERNEL, .arg_count = 2, .output_count = 1, .arg = f->arg[s]};
    f->step[0].arg_count = 1; /* it reads nothing */
    f->in_place[0] = f->over;
    f->places = (kiln_places){f->buffer, BUFFERS, 3, f->step, f->in_place, true, true, 0, 0};
}

static void results_stand_where_their_inputs_stood(void **state) {
    fixture f;
    set_up(&f);
    kiln_memory_peak peak = kiln_places_find(&f.places, *state);
    assert_int_equal(peak.arena_bytes, BYTES);
    assert_int_equal(peak.value_bytes, 3 * BYTES);
}

static void without_that_they_stand_where_nobody_lives(void **state) {
    fixture f;
    set_up(&f);
    f.places.overwrite = false;
    assert_int_equal(kiln_places_find(&f.places, *state).arena_bytes, 2 * BYTES);
    assert_int_equal(f.buffer[A].offset, f.buffer[C].offset);
    f.places.reuse = false;
    assert_int_equal(kiln_places_find(&f.places, *state).arena_bytes, 3 * BYTES);
}

/* The last kernel reads a part of A, which so outlives the step that could have overwritten it. */
static void a_part_that_is_read_keeps_the_whole_alive(void **state) {
    fixture f;
    set_up(&f);
    f.arg[2][0] = PART;
    assert_int_equal(kiln_places_find(&f.places, *state).arena_bytes, 2 * BYTES);
    assert_true(f.buffer[A].offset != f.buffer[B].offset);
    assert_int_equal(f.buffer[PART].offset, BYTES / 2); /* stays relative */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(results_stand_where_their_inputs_stood),
        test_with_arena(without_that_they_stand_where_nobody_lives),
        test_with_arena(a_part_that_is_read_keeps_the_whole_alive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
