/* Points of the whole space of a task. */
#include "base/alloc.h"
#include "tuner/search/points.h"

typedef struct space_points {
    kiln_points base;
    kiln_arena memory, scratch;
    kiln_space space;
    const kiln_target *target;
    kiln_model_kind model;
} space_points;

/* The point of a replayed trace. */
static kiln_status point_of(space_points *s, const kiln_trace *trace, const kiln_program *program,
                            kiln_arena *arena, kiln_point *out) {
    kiln_strbuf bytes = {0};
    kiln_encoding encoding;
    kiln_status st = kiln_model_encode(s->model, program, s->target, &s->scratch, arena, &encoding);
    if (st) return st;
    if (!encoding.fits) return KILN_ERROR(RESOURCE_EXHAUSTED, "more registers than the target has");
    kiln_trace_encode(trace, &bytes);
    *out = (kiln_point){.trace = {kiln_arena_copy(arena, bytes.data, bytes.size), bytes.size},
                        .encoding = encoding};
    kiln_hash128_print(kiln_hash128_of(bytes.data, bytes.size), out->hash);
    kiln_strbuf_deinit(&bytes);
    return KILN_OK;
}

static space_points *begin(kiln_points *points) {
    space_points *s = (space_points *)(void *)points;
    kiln_arena_reset(&s->scratch);
    return s;
}

/* The index-th sketch with the preferred one, whose trace is the default, in front. */
static const kiln_sketch *sketch_at(const kiln_space *space, uint32_t index) {
    if (index == 0) return &space->sketch[space->preferred];
    return &space->sketch[index <= space->preferred ? index - 1 : index];
}

static kiln_status space_first(kiln_points *points, uint32_t index, kiln_arena *arena,
                               kiln_point *out) {
    space_points *s = begin(points);
    kiln_program *program = NULL;
    if (index >= s->space.sketch_count) return KILN_ERROR(OUT_OF_RANGE, "no further sketch");
    const kiln_trace *trace = &sketch_at(&s->space, index)->preferred;
    kiln_status st = kiln_trace_replay(trace, s->space.te, NULL, &s->scratch, &program, NULL);
    return st ? st : point_of(s, trace, program, arena, out);
}

static kiln_status space_draw(kiln_points *points, kiln_rand *rand, kiln_arena *arena,
                              kiln_point *out) {
    space_points *s = begin(points);
    kiln_program *program = NULL;
    kiln_trace trace;
    const kiln_trace *sketch = &s->space.sketch[kiln_rand_below(rand, s->space.sketch_count)].open;
    kiln_status st = kiln_trace_replay(sketch, s->space.te, rand, &s->scratch, &program, &trace);
    return st ? st : point_of(s, &trace, program, arena, out);
}

static kiln_status space_at(kiln_points *points, uint64_t index, kiln_arena *arena,
                            kiln_point *out) {
    space_points *s = begin(points);
    kiln_program *program = NULL;
    kiln_trace trace;
    kiln_status st = kiln_space_at(&s->space, index, &s->scratch, &trace, &program);
    return st ? st : point_of(s, &trace, program, arena, out);
}

static double space_size(kiln_points *points) { return kiln_space_size(&begin(points)->space); }

static kiln_status space_mutate(kiln_points *points, const kiln_point *parent, kiln_rand *rand,
                                kiln_arena *arena, kiln_point *out) {
    space_points *s = begin(points);
    kiln_program *program = NULL;
    kiln_trace from, to;
    kiln_status st = kiln_trace_decode(parent->trace, &s->scratch, &from);
    if (!st) st = kiln_space_mutate(&s->space, &from, rand, &s->scratch, &to, &program);
    return st ? st : point_of(s, &to, program, arena, out);
}

static kiln_status space_cross(kiln_points *points, const kiln_point *a, const kiln_point *b,
                               kiln_rand *rand, kiln_arena *arena, kiln_point *out) {
    space_points *s = begin(points);
    kiln_program *program = NULL;
    kiln_trace first, second, to;
    kiln_status st = kiln_trace_decode(a->trace, &s->scratch, &first);
    if (!st) st = kiln_trace_decode(b->trace, &s->scratch, &second);
    if (!st) st = kiln_space_cross(&s->space, &first, &second, rand, &s->scratch, &to, &program);
    return st ? st : point_of(s, &to, program, arena, out);
}

static double space_distance(kiln_points *points, const kiln_point *a, const kiln_point *b) {
    space_points *s = begin(points);
    kiln_trace first, second;
    kiln_status st = kiln_trace_decode(a->trace, &s->scratch, &first);
    if (!st) st = kiln_trace_decode(b->trace, &s->scratch, &second);
    double distance = st ? 0 : kiln_trace_distance(&first, &second);
    kiln_status_free(st); /* our own bytes: they decode */
    return distance;
}

static kiln_status space_find(kiln_points *points, kiln_str bytes, kiln_arena *arena,
                              kiln_point *out) {
    space_points *s = begin(points);
    kiln_program *program = NULL;
    kiln_trace trace;
    kiln_status st = kiln_trace_decode(bytes, &s->scratch, &trace);
    if (!st) st = kiln_trace_replay(&trace, s->space.te, NULL, &s->scratch, &program, NULL);
    if (!st) st = point_of(s, &trace, program, arena, out);
    if (!st && !kiln_space_holds(&s->space, &trace))
        st = KILN_ERROR(NOT_FOUND, "the trace closes no sketch of this space");
    return st;
}

static kiln_status space_adopt(kiln_points *points, kiln_str bytes, kiln_arena *arena,
                               kiln_point *out) {
    space_points *s = begin(points);
    kiln_program *program = NULL;
    kiln_trace foreign, trace;
    kiln_status st = kiln_trace_decode(bytes, &s->scratch, &foreign);
    if (!st) st = kiln_space_adopt(&s->space, &foreign, &s->scratch, &trace, &program);
    return st ? st : point_of(s, &trace, program, arena, out);
}

static kiln_status space_check(kiln_points *points, const kiln_point *point) {
    space_points *s = begin(points);
    kiln_program *program = NULL;
    kiln_trace trace;
    kiln_lowered lowered;
    kiln_status st = kiln_trace_decode(point->trace, &s->scratch, &trace);
    if (!st) st = kiln_trace_replay(&trace, s->space.te, NULL, &s->scratch, &program, NULL);
    if (!st) st = kiln_lower(program, s->target, &s->scratch, &lowered);
    return st;
}

static void space_destroy(kiln_points *points) {
    space_points *s = begin(points);
    kiln_arena_deinit(&s->memory);
    kiln_arena_deinit(&s->scratch);
    kiln_free(s);
}

kiln_status kiln_points_of_space(const kiln_program *te, const kiln_target *target,
                                 const kiln_space_options *options, kiln_model_kind model,
                                 kiln_points **out_points) {
    static const kiln_points table = {space_first,  space_draw,  space_at,       space_size,
                                      space_mutate, space_cross, space_distance, space_find,
                                      space_adopt,  space_check, space_destroy};
    space_points *s = kiln_alloc(sizeof *s);
    s->base = table;
    s->target = target;
    s->model = model;
    kiln_arena_init(&s->memory, 0);
    kiln_arena_init(&s->scratch, (size_t)1 << 20);
    kiln_status st = kiln_space_create_with(te, target, options, &s->memory, &s->space);
    if (st)
        space_destroy(&s->base);
    else
        *out_points = &s->base;
    return st;
}

kiln_point kiln_point_copy(const kiln_point *point, kiln_arena *arena) {
    kiln_point copy = *point;
    copy.trace.data = kiln_arena_copy(arena, point->trace.data, point->trace.size);
    copy.encoding.data = kiln_arena_copy(arena, point->encoding.data, point->encoding.size_bytes);
    return copy;
}
