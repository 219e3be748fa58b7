/* Reductions split among groups: if a result has too few tiles for the units of a GPU, several
 * groups compute parts of each sum, and a second launch adds the parts. There are no atomic
 * additions: the order of a sum depends on the number of parts only. */
#include <math.h>
#include <string.h>

#include "base/macros.h"
#include "compiler-core/rules/gpu.h"
#include "compiler-core/rules/space.h"
#include "compiler-core/sched/prim.h"

#define PARTS_MAX 16
#define STEPS_MIN 16         /* that a part has */
#define GROUPS_ENOUGH 4      /* of each unit: more of them gain nothing */
#define LAUNCH_CYCLES 2000.0 /* of devices without a row that gives it */

const char *const kiln_gpu_tile_option[] = {"split", "other instruction", "matrix"};

double kiln_gpu_launch_cycles(const kiln_target *target) {
    const kiln_gpu *gpu = target->gpu;
    return gpu ? gpu->launch_ns * gpu->clock_hz / 1e9 : LAUNCH_CYCLES;
}

/* Numbers of parts that a reduction may have. */
typedef struct plan {
    uint32_t iter;     /* that is split */
    uint32_t count;    /* the last one is preferred */
    int64_t row[4][2]; /* parts, steps of each */
    double second;     /* cycles of the second launch and of the traffic of parts, expected */
} plan;

/* The iterator that is split: the reduction's longest one that no window slides over. */
static int split_iter(kiln_sched *s, kiln_block block) {
    kiln_gpu_tiling t = {.s = s, .block = block};
    return kiln_gpu_choose_roles(&t) ? t.k : -1;
}

static kiln_str name_of(const kiln_program *p, kiln_block block, uint32_t iter) {
    return kiln_iter_name(p, &p->block.data[block].iter[iter]);
}

/* Parts of one sum lie apart, results of one part are contiguous. */
static kiln_layout layout_of(const kiln_program *p, kiln_buffer parts) {
    const uint32_t last = p->buffer.data[parts].shape.rank - 1;
    kiln_layout layout = {0};
    kiln_sketch_add_piece(&layout, last, 1, 0);
    for (uint32_t d = 0; d < last; d++) kiln_sketch_add_piece(&layout, d, 1, 0);
    return layout;
}

/* Expected cycles of making so many parts and adding them up, on a copy of the program, and how
 * many of these are not the tiles'. */
static double expect_parts(const kiln_sched *s, kiln_block block, uint32_t iter, int64_t parts,
                           const kiln_gpu_splits *splits, double *out_second, double *out_groups) {
    kiln_sched trial = *s;
    trial.program = kiln_program_copy(s->program, s->arena);
    kiln_program *p = trial.program;
    const int64_t all = p->block.data[block].iter[iter].extent;
    kiln_prim_args args = {.block = block,
                           .text = name_of(p, block, iter),
                           .integer = {all / parts},
                           .integer_count = 1};
    kiln_status st = kiln_prim_apply_once(p, KILN_PRIM_DIVIDE, &args);
    args.text = st ? args.text : name_of(p, block, iter);
    args.integer[0] = parts;
    if (!st) st = kiln_prim_apply_once(p, KILN_PRIM_RFACTOR, &args);
    const bool illegal = st != NULL;
    kiln_status_free(st); /* such parts are not offered */
    if (illegal) return INFINITY;
    const kiln_block part = p->block.count - 1;
    kiln_buffer_info *b = &p->buffer.data[p->block.data[part].buffer];
    b->layout = layout_of(p, p->block.data[part].buffer);
    const kiln_gpu_limits l = kiln_gpu_limits_of(s->target);
    const double launch = kiln_gpu_launch_cycles(s->target),
                 bytes = (double)kiln_shape_count(&b->shape) * (double)kiln_dtype_size(b->dtype);
    *out_second = launch + 2 * bytes / (l.copy_rate * (double)l.units); /* written and read */
    return splits->expect(&trial, part, out_groups) + *out_second;
}

/* Why there are no two parts, or no `parts` of them. */
static const char *explain_parts(const kiln_sched *s, int64_t steps, int64_t parts) {
    if (parts > PARTS_MAX)
        return kiln_arena_printf(s->arena, "a sum has at most %d parts", PARTS_MAX);
    return kiln_arena_printf(s->arena, "%lld steps make no %lld equal parts of %d or more",
                             (long long)steps, (long long)parts, STEPS_MIN);
}

static const char *explain_cycles(const kiln_sched *s, int64_t parts, double cycles, double least) {
    if (cycles == INFINITY) return "no tile of the parts is legal";
    return kiln_arena_printf(s->arena,
                             "%lld parts are expected to take %.4g cycles, half of them %.4g",
                             (long long)parts, cycles, least);
}

/* False: there are enough groups without parts, or too few steps. Sets the reason why there are no
 * more parts in any case. */
static bool make_plan(kiln_sched *s, kiln_block block, const kiln_gpu_splits *splits, plan *out,
                      const char **out_limit) {
    const double enough = GROUPS_ENOUGH * (double)kiln_gpu_limits_of(s->target).units;
    const int iter = split_iter(s, block);
    *out = (plan){0};
    *out_limit = s->row_major ? "parts of sums would not lie row-major"
                              : "windows slide over all iterators of the sum";
    if (s->row_major || iter < 0) return false;
    out->iter = (uint32_t)iter;
    const int64_t all = s->program->block.data[block].iter[iter].extent;
    int64_t best = 0;
    double least = INFINITY, second = 0, groups = 0;
    for (int64_t parts = 2;; parts *= 2) {
        *out_limit = explain_parts(s, all, parts);
        if (parts > PARTS_MAX || all % parts != 0 || all / parts < STEPS_MIN) break;
        const double cycles = expect_parts(s, block, out->iter, parts, splits, &second, &groups);
        *out_limit = explain_cycles(s, parts, cycles, least);
        if (cycles >= least) break;
        *out_limit = "each unit has blocks enough without more parts";
        if (groups >= enough * (double)parts) break;
        least = cycles, best = parts;
        out->second = second;
    }
    /* More parts would have blocks of steps that are not full. */
    for (int64_t parts = 2; parts <= best; parts *= 2) {
        out->row[out->count][0] = parts;
        out->row[out->count++][1] = all / parts;
    }
    return best > 0;
}

static kiln_block split(kiln_sched *s, kiln_block block, const plan *parts) {
    const kiln_sched_sample sample =
        kiln_sched_choice(s, 2, parts->row[0], parts->count, parts->count - 1);
    const kiln_sched_int steps = kiln_sched_element(sample, 1);
    if (!kiln_sched_divide(kiln_sched_try(s), block, parts->iter, steps).count) return 0;
    const kiln_block part =
        kiln_sched_rfactor(kiln_sched_try(s), block, parts->iter, kiln_sched_element(sample, 0));
    if (!part) return 0;
    const kiln_buffer made = s->program->block.data[part].buffer;
    const kiln_layout layout = layout_of(s->program, made);
    return kiln_sched_transform_layout(kiln_sched_try(s), made, &layout, NULL, 0) ? part : 0;
}

kiln_block kiln_gpu_split(kiln_sched *s, kiln_block block, kiln_gpu_splits *splits) {
    plan parts;
    if (!(splits->options & KILN_GPU_SPLIT) || !make_plan(s, block, splits, &parts, &splits->limit))
        return block;
    splits->count++;
    splits->cycles += parts.second;
    return split(s, block, &parts);
}

kiln_sketch_result kiln_gpu_end_splits(const kiln_gpu_splits *splits) {
    if ((splits->options & KILN_GPU_SPLIT) && splits->count == 0)
        return (kiln_sketch_result){.end = KILN_SKETCH_SAME, .option = 0, .reason = splits->limit};
    return (kiln_sketch_result){
        .end = KILN_SKETCH_MADE, .reason = splits->limit, .cycles = splits->cycles};
}

/* ---- for people -------------------------------------------------------------------------------
 */

/* Whether two sketches of one rule and algorithm differ in this option alone: `with` has it. */
static bool differs_by_split(const char *with, const char *without, kiln_arena *scratch) {
    const char *name = kiln_gpu_tile_option[0], *at = strstr(with, name);
    if (!at) return false;
    const char *behind = at + strlen(name);
    int before = (int)(at - with);
    if (*behind)
        behind += strlen(", ");
    else if (before > 0)
        before -= (int)strlen(", ");
    return strcmp(kiln_arena_printf(scratch, "%.*s%s", before, with, behind), without) == 0;
}

void kiln_space_explain_split(const kiln_space *space, kiln_arena *scratch, kiln_strbuf *out) {
    const kiln_sketch *own = &space->sketch[space->preferred];
    if (own->limit && strstr(own->options, kiln_gpu_tile_option[0]))
        kiln_strbuf_printf(out, "  its sums are in parts, but in no more of them: %s\n",
                           own->limit);
    for (uint32_t i = 0; i < space->sketch_count; i++)
        if (differs_by_split(space->sketch[i].options, own->options, scratch))
            kiln_strbuf_printf(out,
                               "  its sums are not split among blocks: with parts it is expected "
                               "to take %.4g cycles, as it is %.4g\n",
                               space->sketch[i].cycles, own->cycles);
    for (uint32_t i = 0; i < space->refused_count; i++) {
        const kiln_refused *r = &space->refused[i];
        if (strcmp(r->rule, space->rule) == 0 && !*r->instruction && *r->reason &&
            differs_by_split(r->options, own->options, scratch))
            kiln_strbuf_printf(out, "  its sums are not split among blocks: %s\n", r->reason);
    }
}
