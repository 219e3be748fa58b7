#include "tests/support/schedule_fuzz.h"

#include <math.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/macros.h"
#include "compiler-core/ir/device.h"
#include "compiler-core/ir/eval.h"
#include "compiler-core/ir/intrinsic.h"
#include "compiler-core/ir/ir_text.h"
#include "compiler-core/lower/lower.h"
#include "compiler-core/rules/space.h"
#include "compiler-core/sched/nest.h"
#include "compiler-core/sched/prim.h"
#include "compiler-core/sched/replay.h"
#include "tests/support/fill.h"
#include "tests/support/interpreter.h"
#include "tests/support/program_generate.h"

#define STEPS_MAX 14
#define BINDS_MAX 12
#define TILED 8             /* one program in so many is a product in tiles of threads, one rows */
#define WARPS 64            /* one in so many is a product by instructions of warps, */
#define WARPS_FROM 4        /* from this one on */
#define TARGET "cuda:sm_80" /* takes copies that land later, and instructions of warps */
#define TARGET_OF_CLUSTERS "cuda:sm_90"
#define PRODUCTS 8 /* one program in so many is a product of bytes */
#define ARGS_MAX KILN_MANIFEST_ARGS_MAX

/* What a program must compute, on data drawn from the seed. */
typedef struct truth {
    const kiln_program *te;
    uint32_t arg_count;
    kiln_tensor input[ARGS_MAX], wanted[ARGS_MAX], bound[ARGS_MAX];
} truth;

static void draw_args(const kiln_program *p, uint64_t seed, kiln_arena *arena, kiln_tensor *out) {
    kiln_arg_buffers arg = kiln_program_args(p);
    for (uint32_t i = 0; i < arg.count; i++) {
        const kiln_buffer_info *b = &p->buffer.data[arg.buffer[i]];
        out[i] = kiln_tensor_create(arena, b->dtype, &b->shape);
        if (b->role != KILN_ROLE_OUTPUT) fill_buffer(b, seed + i, out[i].data);
    }
}

static kiln_status find_truth(const kiln_program *te, uint64_t seed, kiln_arena *arena,
                              truth *out) {
    out->te = te;
    kiln_arg_buffers arg = kiln_program_args(te);
    out->arg_count = arg.count;
    draw_args(te, seed, arena, out->input);
    draw_args(te, seed, arena, out->wanted);
    kiln_status st = kiln_te_eval_bounds(te, out->wanted, out->arg_count, arena, out->bound);
    /* Expected is what the unscheduled loops give, in the dtypes of the program: halves overflow
     * there as they do in any schedule. */
    kiln_program *loops = kiln_program_copy(te, arena);
    kiln_program_make_loops(loops);
    return st ? st : kiln_loop_eval(loops, out->wanted, out->arg_count);
}

/* The bound is between one order of summation and the exact value; two orders are twice as far
 * apart. */
static bool close_enough(double a, double b, double bound) {
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
    return a == b || fabs(a - b) <= 2 * bound || !isfinite(bound);
}

static kiln_status compare_output(const truth *t, uint32_t i, uint32_t output,
                                  const kiln_tensor *got) {
    int64_t elements = kiln_shape_count(&got->shape);
    for (int64_t k = 0; k < elements; k++) {
        double a = kiln_dtype_load_f64(got->dtype, got->data, (size_t)k);
        double b = kiln_dtype_load_f64(got->dtype, t->wanted[i].data, (size_t)k);
        double bound = kiln_dtype_is_float(got->dtype)
                           ? kiln_dtype_load_f64(KILN_F32, t->bound[output].data, (size_t)k)
                           : 0;
        if (!close_enough(a, b, bound))
            return KILN_ERROR(INTERNAL,
                              "output %u, element %lld is %.9g instead of %.9g (bound %.3g)",
                              output, (long long)k, a, b, bound);
    }
    return NULL;
}

/* Valid, and still computes the same. */
static kiln_status check_program(const truth *t, kiln_program *p) {
    kiln_tensor got[ARGS_MAX];
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    kiln_status st = kiln_program_verify(p);
    kiln_arg_buffers arg = kiln_program_args(p);
    if (!st && arg.count != t->arg_count) st = KILN_ERROR(INTERNAL, "the arguments have changed");
    for (uint32_t i = 0; i < t->arg_count && !st; i++) {
        got[i] = t->input[i];
        if (p->buffer.data[arg.buffer[i]].role == KILN_ROLE_OUTPUT)
            got[i] = kiln_tensor_create(&scratch, t->input[i].dtype, &t->input[i].shape);
    }
    if (!st) st = kiln_loop_eval(p, got, t->arg_count);
    for (uint32_t i = 0, output = 0; i < t->arg_count && !st; i++)
        if (p->buffer.data[arg.buffer[i]].role == KILN_ROLE_OUTPUT)
            st = compare_output(t, i, output++, &got[i]);
    kiln_arena_deinit(&scratch);
    return st;
}

/* ---- launches ---- */

/* Tensors of the arguments of a lowered program: the expression's, or packed ones by name. */
typedef struct bindings {
    const truth *t;
    kiln_tensor arg[ARGS_MAX];
    uint32_t packed_count;
    kiln_str packed_name[ARGS_MAX];
    kiln_tensor packed[ARGS_MAX];
} bindings;

static kiln_tensor tensor_of(bindings *b, const kiln_buffer_info *info, kiln_arena *arena) {
    kiln_arg_buffers arg = kiln_program_args(b->t->te);
    for (uint32_t i = 0; i < arg.count; i++)
        if (kiln_str_equal(b->t->te->buffer.data[arg.buffer[i]].name, info->name)) return b->arg[i];
    for (uint32_t i = 0; i < b->packed_count; i++)
        if (kiln_str_equal(b->packed_name[i], info->name)) return b->packed[i];
    KILN_CHECK(b->packed_count < ARGS_MAX);
    b->packed_name[b->packed_count] = info->name;
    return b->packed[b->packed_count++] = kiln_tensor_create(arena, info->dtype, &info->shape);
}

static kiln_status run_lowered(bindings *b, const kiln_program *p, kiln_arena *arena) {
    kiln_tensor tensor[ARGS_MAX];
    if (!p) return NULL;
    kiln_arg_buffers arg = kiln_program_args(p);
    for (uint32_t i = 0; i < arg.count; i++)
        tensor[i] = tensor_of(b, &p->buffer.data[arg.buffer[i]], arena);
    kiln_status st = kiln_program_verify(p);
    return st ? st : kiln_loop_eval(p, tensor, arg.count);
}

static bool has_exchange(const kiln_program *p, kiln_stmt stmt) {
    bool found = kiln_stmt_attribute(p, stmt, KILN_ATTRIBUTE_EXCHANGE) != NULL;
    for (uint32_t i = 0; i < p->stmt.data[stmt].child.count && !found; i++)
        found = has_exchange(p, p->stmt.data[stmt].child.data[i]);
    return found;
}

static bool has_overlap(const kiln_launch *l) {
    for (uint32_t i = 0; i < l->shared_count; i++)
        for (uint32_t k = 0; k < i; k++)
            if (l->shared[i].offset < l->shared[k].offset + l->shared[k].size_bytes &&
                l->shared[k].offset < l->shared[i].offset + l->shared[i].size_bytes)
                return true;
    return false;
}

static void count_launches(const kiln_lowered *lowered, schedule_fuzz_counts *counts) {
    const kiln_launches *launches = &lowered->run_launches;
    bool grid = false, cluster = false, group = false, barrier = false, shared = false,
         overlap = false;
    for (uint32_t i = 0; i < launches->count; i++) overlap |= has_overlap(&launches->launch[i]);
    for (uint32_t i = 0; i < launches->count; i++)
        for (uint32_t d = 0; d < KILN_LAUNCH_DIMS; d++) {
            cluster |= launches->launch[i].cluster > 1;
            grid |= launches->launch[i].grid_size[d] > 1;
            group |= launches->launch[i].group_size[d] > 1;
            barrier |= launches->launch[i].barrier_count > 0;
            shared |= launches->launch[i].shared_count > 0;
        }
    counts->lowered++;
    counts->grids += grid;
    counts->clusters += cluster;
    counts->groups += group;
    counts->barriers += barrier;
    counts->shared += shared;
    counts->overlaps += overlap;
    counts->exchanges += lowered->run->root && has_exchange(lowered->run, lowered->run->root);
}

/* Whether instructions of several threads make a part of it. */
static bool has_warps(const kiln_program *p) {
    for (kiln_stmt s = 1; s < p->stmt.count; s++) {
        const kiln_intrinsic *in =
            kiln_stmt_is_inside(p, s, p->root) ? kiln_intrinsic_of_loop(p, s) : NULL;
        if (in && kiln_intrinsic_of_threads(in)) return true;
    }
    return false;
}

static uint32_t count_blocks(const kiln_program *p, kiln_stmt stmt) {
    const kiln_stmt_info *s = &p->stmt.data[stmt];
    uint32_t count = s->kind == KILN_STMT_BLOCK;
    for (uint32_t i = 0; i < s->child.count; i++) count += count_blocks(p, s->child.data[i]);
    return count;
}

/* Temps made in lanes are allocated around them; lanes then write what does not depend on the lane
 * at once, all the same value, which counts as a race in a lowered program. */
static bool has_temps_in_lanes(const kiln_program *p) {
    for (kiln_stmt s = 1; s < p->stmt.count; s++)
        if (p->stmt.data[s].kind == KILN_STMT_FOR &&
            p->stmt.data[s].loop_kind == KILN_LOOP_VECTORIZE &&
            kiln_stmt_is_inside(p, s, p->root) && count_blocks(p, s) > 1)
            return true;
    return false;
}

static bool is_refusal(kiln_status st) {
    return st && (kiln_status_code(st) == KILN_ILLEGAL_SCHEDULE ||
                  kiln_status_code(st) == KILN_RESOURCE_EXHAUSTED);
}

/* The arguments, with outputs of their own. */
static void make_args(const truth *t, kiln_arena *arena, kiln_tensor *out) {
    kiln_arg_buffers arg = kiln_program_args(t->te);
    for (uint32_t i = 0; i < t->arg_count; i++) {
        out[i] = t->input[i];
        if (t->te->buffer.data[arg.buffer[i]].role == KILN_ROLE_OUTPUT)
            out[i] = kiln_tensor_create(arena, t->input[i].dtype, &t->input[i].shape);
    }
}

static kiln_status compare_outputs(const truth *t, const kiln_tensor *got) {
    kiln_arg_buffers arg = kiln_program_args(t->te);
    kiln_status st = NULL;
    for (uint32_t i = 0, output = 0; i < t->arg_count && !st; i++)
        if (t->te->buffer.data[arg.buffer[i]].role == KILN_ROLE_OUTPUT)
            st = compare_output(t, i, output++, &got[i]);
    return st;
}

/* A target that has what the program uses. */
static const char *target_of_launches(const kiln_program *p) {
    for (kiln_stmt s = 1; s < p->stmt.count; s++)
        if (kiln_stmt_level(p, s) == KILN_LEVEL_GRID && p->stmt.data[s].axis == KILN_AXIS_CLUSTER &&
            kiln_stmt_is_inside(p, s, p->root))
            return TARGET_OF_CLUSTERS;
    return TARGET;
}

/* Launches compute what the expression says, or lowering refuses the schedule. */
static kiln_status check_launches(const truth *t, const kiln_program *scheduled,
                                  const char *target_text, schedule_fuzz_counts *counts) {
    kiln_arena scratch;
    kiln_target target;
    kiln_lowered lowered = {0};
    bindings b = {.t = t};
    if (has_temps_in_lanes(scheduled)) return NULL;
    kiln_arena_init(&scratch, 0);
    kiln_status st = kiln_target_parse(kiln_str_from(target_text), &scratch, &target);
    if (!st) st = kiln_lower_by(scheduled, &target, KILN_LOWER_GRID, &scratch, &lowered);
    bool refused = is_refusal(st);
    if (!st) count_launches(&lowered, counts);
    if (!st) counts->warps += has_warps(lowered.run);
    make_args(t, &scratch, b.arg);
    if (!st) st = run_lowered(&b, lowered.prepare, &scratch);
    if (!st) st = run_lowered(&b, lowered.run, &scratch);
    if (!st) st = compare_outputs(t, b.arg);
    if (refused) {
        counts->unlowered++;
        kiln_status_free(st);
        st = NULL;
    }
    kiln_arena_deinit(&scratch);
    return kiln_status_note(st, "lowered to launches");
}

static kiln_status check_device(const truth *t, const kiln_program *scheduled,
                                schedule_fuzz_device device, schedule_fuzz_counts *counts) {
    kiln_arena scratch;
    kiln_tensor args[ARGS_MAX];
    kiln_arena_init(&scratch, 0);
    make_args(t, &scratch, args);
    kiln_status st = device(t->te, scheduled, args);
    counts->ran += !st;
    if (is_refusal(st)) {
        kiln_status_free(st);
        st = NULL;
    } else if (!st) {
        st = compare_outputs(t, args);
    }
    kiln_arena_deinit(&scratch);
    return kiln_status_note(st, "on the device");
}

bool schedule_fuzz_candidate(const kiln_program *te, const kiln_program *scheduled,
                             const char *target_text, uint64_t seed, schedule_fuzz_device device,
                             schedule_fuzz_counts *counts, kiln_strbuf *out_report) {
    kiln_arena arena;
    truth t = {0};
    kiln_arena_init(&arena, (size_t)1 << 20);
    kiln_program *p = kiln_program_copy(scheduled, &arena);
    kiln_status st = find_truth(te, seed, &arena, &t);
    counts->pairs++;
    if (!st) st = check_program(&t, p);
    if (!st) st = check_launches(&t, p, target_text, counts);
    if (!st && device) st = check_device(&t, p, device, counts);
    if (st) kiln_strbuf_text(out_report, kiln_status_text(st));
    const bool same = !st;
    kiln_status_free(st);
    kiln_arena_deinit(&arena);
    return same;
}

/* ---- drawing instructions ---- */

typedef struct drawing {
    kiln_rand *r;
    kiln_arena *arena;
    const kiln_program *p;
    const kiln_trace *trace;
    kiln_operand operand[24];
    uint32_t count;
} drawing;

static void give(drawing *d, kiln_operand operand) {
    if (d->count < KILN_ARRAY_COUNT(d->operand)) d->operand[d->count++] = operand;
}

static void give_name(drawing *d, kiln_str name) {
    give(d, (kiln_operand){.text = {kiln_str_dup(d->arena, name), name.size}});
}
static void give_loop(drawing *d, kiln_stmt loop) {
    give_name(d, d->p->var.data[d->p->stmt.data[loop].var].name);
}
static void give_int(drawing *d, int64_t value) { give(d, kiln_operand_int(value)); }
static int64_t one_of(drawing *d, const int64_t *value, uint32_t count) {
    return value[kiln_rand_below(d->r, count)];
}

static kiln_block draw_block(drawing *d) {
    kiln_block live[256];
    uint32_t count = 0;
    for (kiln_block b = 1; b < d->p->block.count && count < KILN_ARRAY_COUNT(live); b++)
        if (!d->p->block.data[b].removed) live[count++] = b;
    return live[kiln_rand_below(d->r, count)];
}

/* Loops around a random block. */
static kiln_loops draw_nest(drawing *d) { return kiln_block_loops(d->p, draw_block(d)); }

static kiln_stmt draw_loop(drawing *d) {
    kiln_loops nest = draw_nest(d);
    if (nest.count == 0) return 0;
    bool innermost = kiln_rand_below(d->r, 2);
    return nest.loop[innermost ? nest.count - 1 : kiln_rand_below(d->r, nest.count)];
}

static void draw_split(drawing *d) {
    static const int64_t factor[] = {1, 2, 2, 3, 4, 4, 5, 7, 8};
    kiln_stmt loop = draw_loop(d);
    if (!loop) return;
    give_loop(d, loop);
    uint32_t parts = 2 + (uint32_t)kiln_rand_below(d->r, 2),
             open = (uint32_t)kiln_rand_below(d->r, parts);
    /* Sometimes by a tile that was sampled before. */
    for (uint32_t i = 0; i < d->trace->count && kiln_rand_below(d->r, 4) == 0; i++)
        if (d->trace->instruction[i].prim == KILN_PRIM_PERFECT_TILE) {
            for (uint32_t k = 0; k < d->trace->instruction[i].decision_count; k++)
                give(d, kiln_operand_ref(i + 1, k));
            return;
        }
    for (uint32_t i = 0; i < parts; i++)
        give_int(d, i == open ? -1 : one_of(d, factor, KILN_ARRAY_COUNT(factor)));
}

static void draw_fuse(drawing *d) {
    kiln_loops nest = draw_nest(d);
    kiln_stmt *loop = nest.loop;
    uint32_t count = nest.count;
    if (count < 2) return;
    uint32_t first = (uint32_t)kiln_rand_below(d->r, count - 1),
             fused = 2 + (uint32_t)kiln_rand_below(d->r, 2);
    for (uint32_t i = first; i < count && i < first + fused; i++) give_loop(d, loop[i]);
}

static void draw_reorder(drawing *d) {
    kiln_loops nest = draw_nest(d);
    kiln_stmt *loop = nest.loop;
    uint32_t count = nest.count;
    for (uint32_t i = count; i > 1; i--) {
        uint32_t other = (uint32_t)kiln_rand_below(d->r, i);
        kiln_stmt swapped = loop[i - 1];
        loop[i - 1] = loop[other];
        loop[other] = swapped;
    }
    uint32_t taken = count ? 1 + (uint32_t)kiln_rand_below(d->r, count) : 0;
    for (uint32_t i = 0; i < taken; i++) give_loop(d, loop[i]);
}

/* A block and a loop, mostly one around a block that it talks to. */
static void draw_placement(drawing *d) {
    kiln_block block = draw_block(d);
    kiln_loops nest = {0};
    kiln_program *p = (kiln_program *)(uintptr_t)d->p;
    for (uint32_t attempt = 0; attempt < 6; attempt++) {
        kiln_block other = draw_block(d);
        bool talks = kiln_block_reads(p, other, p->block.data[block].buffer) ||
                     kiln_block_reads(p, block, p->block.data[other].buffer);
        if (attempt == 5 || (talks && other != block)) {
            nest = kiln_block_loops(p, other);
            break;
        }
    }
    if (nest.count == 0) return;
    give_name(d, p->block.data[block].name);
    give_loop(d, nest.loop[kiln_rand_below(d->r, nest.count)]);
}

/* Mostly memory, so that layouts and prefetches are tried on it. */
static void give_scope(drawing *d) {
    kiln_scope drawn = KILN_SCOPE_GLOBAL;
    if (kiln_rand_below(d->r, 16) == 0)
        drawn = kiln_rand_below(d->r, 2) ? KILN_SCOPE_SHARED : KILN_SCOPE_LOCAL;
    give_name(d, kiln_str_from(kiln_scopes[drawn].text));
}

/* Whether several statements of the root touch the temp. */
static bool is_of_root(const kiln_program *p, kiln_buffer buffer) {
    kiln_stmt home = 0;
    for (kiln_block b = 1; b < p->block.count; b++) {
        bool touches = p->block.data[b].buffer == buffer ||
                       kiln_block_reads((kiln_program *)(uintptr_t)p, b, buffer);
        kiln_stmt placed = p->block.data[b].removed ? 0 : kiln_program_block_stmt(p, b);
        if (touches && placed) home = home ? kiln_nest_common(p, home, placed) : placed;
    }
    return home == p->root;
}

/* Memory of a group or a thread for a temp that does not leave its launch. */
static void draw_good_scope(drawing *d) {
    static const kiln_scope scope[] = {KILN_SCOPE_SHARED, KILN_SCOPE_LOCAL, KILN_SCOPE_GLOBAL};
    kiln_buffer buffer = 1 + (kiln_buffer)kiln_rand_below(d->r, d->p->buffer.count - 1);
    if (d->p->buffer.data[buffer].role != KILN_ROLE_TEMP) return;
    kiln_scope drawn = is_of_root(d->p, buffer)
                           ? KILN_SCOPE_GLOBAL
                           : scope[kiln_rand_below(d->r, KILN_ARRAY_COUNT(scope))];
    give_name(d, d->p->buffer.data[buffer].name);
    give_name(d, kiln_str_from(kiln_scopes[drawn].text));
}

static void draw_cache(drawing *d, bool read) {
    kiln_block block = draw_block(d);
    kiln_loads loads = kiln_block_loads((kiln_program *)(uintptr_t)d->p, block);
    if (read && loads.count == 0) return;
    give_name(d, d->p->block.data[block].name);
    if (read) {
        kiln_expr load = loads.load[kiln_rand_below(d->r, loads.count)];
        give_name(d, d->p->buffer.data[kiln_load_buffer(d->p, load)].name);
    }
    give_scope(d);
}

/* A loop around a block, and something that the block reads. */
static void draw_prefetch(drawing *d) {
    kiln_block block = draw_block(d);
    kiln_loads loads = kiln_block_loads((kiln_program *)(uintptr_t)d->p, block);
    kiln_loops nest = kiln_block_loops(d->p, block);
    if (loads.count == 0 || nest.count == 0) return;
    kiln_expr read = loads.load[kiln_rand_below(d->r, loads.count)];
    give_name(d, d->p->buffer.data[kiln_load_buffer(d->p, read)].name);
    give_loop(d, nest.loop[kiln_rand_below(d->r, nest.count)]);
    give_int(d, (int64_t)kiln_rand_below(d->r, 2));
}

static void draw_layout(drawing *d) {
    static const int64_t size[] = {2, 3, 4, 8};
    kiln_buffer buffer = 1 + (kiln_buffer)kiln_rand_below(d->r, d->p->buffer.count - 1);
    uint32_t rank = d->p->buffer.data[buffer].shape.rank;
    if (rank == 0) return;
    uint32_t blocked = (uint32_t)kiln_rand_below(d->r, rank);
    char *text = kiln_arena_printf(d->arena, "%s", "");
    for (uint32_t i = 0; i < rank; i++)
        text = kiln_arena_printf(d->arena, "%s%sd%u%s", text, i ? "," : "", i,
                                 i == blocked ? "/{0}" : "");
    give_name(d, d->p->buffer.data[buffer].name);
    give_name(d, kiln_str_from(kiln_arena_printf(d->arena, "%s,d%u%%{0}", text, blocked)));
    give_int(d, one_of(d, size, KILN_ARRAY_COUNT(size)));
}

/* A loop around a block, in stages. */
static void draw_pipeline(drawing *d) {
    kiln_stmt loop = draw_loop(d);
    if (!loop) return;
    give_loop(d, loop);
    give_int(d, kiln_rand_range(d->r, 1, 4));
}

/* A pipeline, or any loop where there is none. */
static void draw_producer(drawing *d) {
    kiln_stmt loop = draw_loop(d);
    for (kiln_stmt s = 1; s < d->p->stmt.count; s++)
        if (kiln_stmt_attribute(d->p, s, KILN_ATTRIBUTE_PIPELINE) &&
            kiln_stmt_is_inside(d->p, s, d->p->root))
            loop = s;
    if (!loop) return;
    give_loop(d, loop);
    give_int(d, kiln_rand_range(d->r, 0, 2));
}

static void draw_resident(drawing *d) {
    kiln_stmt loop = draw_loop(d);
    if (!loop) return;
    give_loop(d, loop);
    give_int(d, kiln_rand_range(d->r, 0, 3));
}

/* Rows of a shared temp, in banks or out of them. */
static void draw_swizzle(drawing *d) {
    kiln_buffer buffer = 1 + (kiln_buffer)kiln_rand_below(d->r, d->p->buffer.count - 1);
    for (kiln_buffer b = 1; b < d->p->buffer.count; b++)
        if (d->p->buffer.data[b].scope == KILN_SCOPE_SHARED) buffer = b;
    give_name(d, d->p->buffer.data[buffer].name);
    give_int(d, kiln_rand_range(d->r, 0, 3));
    give_int(d, kiln_rand_range(d->r, 1, 3));
    give_int(d, INT64_C(1) << kiln_rand_range(d->r, 0, 3));
    give_int(d, kiln_rand_range(d->r, 1, 2));
}

static void draw_unit_product(drawing *d) {
    const kiln_block block = draw_block(d);
    const kiln_block_info *b = &d->p->block.data[block];
    const kiln_loads loads = kiln_block_loads((kiln_program *)(uintptr_t)d->p, block);
    if (loads.count == 0 || b->iter_count == 0) return;
    const kiln_expr load = loads.load[kiln_rand_below(d->r, loads.count)];
    give_name(d, b->name);
    give_name(d, d->p->buffer.data[kiln_load_buffer(d->p, load)].name);
    give_name(d, kiln_iter_name(d->p, &b->iter[kiln_rand_below(d->r, b->iter_count)]));
    give_int(d, kiln_rand_range(d->r, 1, 4));
}

static void draw_pad(drawing *d) {
    kiln_block block = draw_block(d);
    const kiln_block_info *b = &d->p->block.data[block];
    if (b->iter_count == 0) return;
    give_name(d, b->name);
    give_name(d, kiln_iter_name(d->p, &b->iter[kiln_rand_below(d->r, b->iter_count)]));
    give_int(d, kiln_rand_range(d->r, 2, 8));
}

/* Two iterators of a block, or three. */
static void draw_merge(drawing *d) {
    const kiln_block block = draw_block(d);
    const kiln_block_info *b = &d->p->block.data[block];
    kiln_strbuf names = {0};
    if (b->iter_count < 2) return;
    const uint64_t count = 2 + kiln_rand_below(d->r, 2);
    for (uint64_t i = 0; i < count; i++) {
        const kiln_iter *iter = &b->iter[kiln_rand_below(d->r, b->iter_count)];
        kiln_strbuf_printf(&names, "%s%.*s", i ? "," : "",
                           KILN_STR_ARG(kiln_iter_name(d->p, iter)));
    }
    give_name(d, b->name);
    give_name(d, kiln_strbuf_end(&names, d->p->arena));
}

static void draw_decompose(drawing *d) {
    kiln_block block = draw_block(d);
    kiln_loops nest = kiln_block_loops(d->p, block);
    if (nest.count == 0) return;
    give_name(d, d->p->block.data[block].name);
    give_loop(d, nest.loop[kiln_rand_below(d->r, nest.count)]);
}

static void draw_scope(drawing *d) {
    give_name(d, d->p->buffer.data[1 + kiln_rand_below(d->r, d->p->buffer.count - 1)].name);
    give_scope(d);
}

/* An axis of that level that no loop around has. */
static kiln_loop_axis draw_axis(drawing *d, kiln_stmt loop, kiln_axis_level level) {
    const int64_t extent = d->p->stmt.data[loop].extent;
    static const kiln_loop_axis axis[2][3] = {
        {KILN_AXIS_BLOCK_X, KILN_AXIS_BLOCK_Y, KILN_AXIS_BLOCK_Z},
        {KILN_AXIS_THREAD_X, KILN_AXIS_THREAD_Y, KILN_AXIS_THREAD_Z}};
    uint32_t first = (uint32_t)kiln_rand_below(d->r, 2), used = 0;
    for (kiln_stmt at = loop; at; at = d->p->stmt.data[at].parent)
        if (kiln_stmt_level(d->p, at) != KILN_LEVEL_NONE) used |= 1u << d->p->stmt.data[at].axis;
    if (level == KILN_LEVEL_GRID && extent <= kiln_axes[KILN_AXIS_CLUSTER].extent_max &&
        (extent & (extent - 1)) == 0 && kiln_rand_below(d->r, 2))
        return KILN_AXIS_CLUSTER;
    for (uint32_t i = 0; i < 3; i++)
        if (!(used >> axis[level == KILN_LEVEL_GROUP][(first + i) % 3] & 1))
            return axis[level == KILN_LEVEL_GROUP][(first + i) % 3];
    return KILN_AXIS_BLOCK_X;
}

/* A loop that can be bound, from what stands around it: the outermost ones to the grid, directly in
 * a thread loop or anywhere below the grid to threads. */
static void draw_good_bind(drawing *d) {
    const kiln_loops nest = draw_nest(d);
    uint32_t grid = 0, threads = 0;
    for (uint32_t i = 0; i < nest.count; i++) {
        if (kiln_stmt_level(d->p, nest.loop[i]) == KILN_LEVEL_GRID) grid = i + 1;
        if (kiln_stmt_level(d->p, nest.loop[i]) == KILN_LEVEL_GROUP) threads = i + 1;
    }
    bool is_grid = !threads && kiln_rand_below(d->r, 3) == 0;
    uint32_t at = is_grid || grid == nest.count ? grid
                  : threads                     ? threads
                            : grid + (uint32_t)kiln_rand_below(d->r, nest.count - grid);
    if (at >= nest.count) return;
    kiln_axis_level level = is_grid ? KILN_LEVEL_GRID : KILN_LEVEL_GROUP;
    give_loop(d, nest.loop[at]);
    give_name(d, kiln_str_from(kiln_axes[draw_axis(d, nest.loop[at], level)].text));
}

/* Grid loops stand outermost, so those are drawn there. */
static void draw_bind(drawing *d) {
    const kiln_loops nest = draw_nest(d);
    if (nest.count == 0) return;
    uint32_t at = (uint32_t)kiln_rand_below(d->r, nest.count);
    kiln_loop_axis axis = (kiln_loop_axis)(1 + kiln_rand_below(d->r, KILN_AXIS_COUNT - 1));
    if (kiln_axes[axis].level == KILN_LEVEL_GRID) at = (uint32_t)kiln_rand_below(d->r, at + 1);
    give_loop(d, nest.loop[at]);
    give_name(d, kiln_str_from(kiln_axes[axis].text));
}

/* Rows of intrinsics.def but those of warps, which are the last ones: pieces of a warp are drawn by
 * test_gpu_warp.c. */
#define INTRINSICS KILN_INTRINSIC_MMA_F16

/* Whether the innermost loops around a block have as many rows, lanes and steps. */
static bool fits_nest(const kiln_program *p, const kiln_loops *nest, const kiln_intrinsic *in) {
    const kiln_stmt *last = &nest->loop[nest->count - 1];
    return p->stmt.data[last[0]].extent == in->steps &&
           p->stmt.data[last[-1]].extent == in->lanes &&
           (in->rows == 1 || kiln_intrinsic_in_tiles(in) ||
            (nest->count > 2 && p->stmt.data[last[-2]].extent == in->rows));
}

/* Mostly an instruction that has as many of them. */
static void draw_tensorize(drawing *d) {
    kiln_loops nest = draw_nest(d);
    const kiln_stmt *loop = nest.loop;
    uint32_t count = nest.count, drawn = 0;
    if (count < 2) return;
    for (uint32_t tries = 0; tries < 16; tries++) {
        drawn = (uint32_t)kiln_rand_below(d->r, INTRINSICS);
        if (fits_nest(d->p, &nest, &kiln_intrinsics[drawn])) break;
    }
    const uint32_t outer = count - (kiln_intrinsics[drawn].rows > 1 && count > 2 ? 3 : 2);
    give_loop(d, loop[kiln_rand_below(d->r, 8) ? outer : kiln_rand_below(d->r, count)]);
    give_name(d, kiln_str_from(kiln_intrinsics[drawn].name));
}

/* Operands for `prim`; none drawn means that there is nothing to apply it to. */
static void draw_operands(drawing *d, kiln_prim prim) {
    kiln_stmt loop;
    uint32_t drawn;
    switch (prim) {
    case KILN_PRIM_SPLIT: draw_split(d); break;
    case KILN_PRIM_TENSORIZE: draw_tensorize(d); break;
    case KILN_PRIM_FUSE: draw_fuse(d); break;
    case KILN_PRIM_REORDER: draw_reorder(d); break;
    case KILN_PRIM_COMPUTE_AT:
    case KILN_PRIM_REVERSE_COMPUTE_AT: draw_placement(d); break;
    case KILN_PRIM_CACHE_READ:
    case KILN_PRIM_GATHER: draw_cache(d, true); break;
    case KILN_PRIM_MERGE: draw_merge(d); break;
    case KILN_PRIM_UNIT_PRODUCT: draw_unit_product(d); break;
    case KILN_PRIM_CACHE_WRITE: draw_cache(d, false); break;
    case KILN_PRIM_SET_SCOPE: draw_scope(d); break;
    case KILN_PRIM_DECOMPOSE_REDUCTION: draw_decompose(d); break;
    case KILN_PRIM_PREFETCH: draw_prefetch(d); break;
    case KILN_PRIM_TRANSFORM_LAYOUT: draw_layout(d); break;
    case KILN_PRIM_DIVIDE:
    case KILN_PRIM_RFACTOR:
    case KILN_PRIM_PAD: draw_pad(d); break;
    case KILN_PRIM_BIND: draw_bind(d); break;
    case KILN_PRIM_PIPELINE: draw_pipeline(d); break;
    case KILN_PRIM_PRODUCER: draw_producer(d); break;
    case KILN_PRIM_RESIDENT: draw_resident(d); break;
    case KILN_PRIM_SWIZZLE: draw_swizzle(d); break;
    case KILN_PRIM_INLINE: give_name(d, d->p->block.data[draw_block(d)].name); break;
    case KILN_PRIM_VECTORIZE:
    case KILN_PRIM_UNROLL:
    case KILN_PRIM_PARALLEL:
    case KILN_PRIM_VTHREAD:
    case KILN_PRIM_ANNOTATE:
    case KILN_PRIM_PERFECT_TILE:
        loop = draw_loop(d);
        if (!loop) return;
        give_loop(d, loop);
        if (prim == KILN_PRIM_ANNOTATE) give_name(d, KILN_STR("note=fuzz"));
        if (prim == KILN_PRIM_PERFECT_TILE) {
            give_int(d, kiln_rand_range(d->r, 2, 3));
            give_int(d, 64);
        }
        break;
    case KILN_PRIM_ALGORITHM:
        drawn = (uint32_t)kiln_rand_below(d->r, KILN_ALGORITHM_COUNT);
        /* What rounds factors to few bits gives other results behind a floor or a comparison. */
        if (kiln_algorithm_roundoff((kiln_algorithm)drawn) > 0)
            drawn = KILN_ALGORITHM_WINOGRAD_2X2_3X3;
        give_name(d, kiln_str_from(kiln_algorithm_name((kiln_algorithm)drawn)));
        break;
    case KILN_PRIM_LOCATION:
        give_name(d, d->p->block.data[draw_block(d)].name);
        give_int(d, 8);
        break;
    case KILN_PRIM_CATEGORICAL:
        for (int64_t i = 1; i <= 3; i++) give_int(d, i);
        break;
    case KILN_PRIM_CHOICE:
        give_int(d, 2);
        for (int64_t i = 1; i <= 4; i++) give_int(d, i);
        break;
    case KILN_PRIM_COUNT: break;
    }
}

static uint64_t choose_randomly(void *context, uint64_t ways) {
    return kiln_rand_below(context, ways);
}

/* Draws one instruction for the program as it is now and appends it to `trace`; `binds`: loops are
 * bound, and now and then temps put into other memory. */
static bool draw_instruction(kiln_rand *r, const kiln_program *p, bool binds, kiln_trace *trace,
                             kiln_arena *arena) {
    drawing d = {.r = r, .arena = arena, .p = p, .trace = trace};
    kiln_prim prim = (kiln_prim)kiln_rand_below(r, KILN_PRIM_COUNT);
    if (binds) {
        prim = kiln_rand_below(r, 4) ? KILN_PRIM_BIND : KILN_PRIM_SET_SCOPE;
        if (prim == KILN_PRIM_BIND)
            draw_good_bind(&d);
        else
            draw_good_scope(&d);
        if (d.count > 0) kiln_trace_add(trace, arena, prim, d.operand, d.count);
        return d.count > 0;
    }
    if (kiln_program_find_block(p, KILN_STR("dot")) && kiln_rand_below(r, 4) == 0)
        prim = KILN_PRIM_TENSORIZE; /* before the loops have become others */
    if (prim == KILN_PRIM_TENSORIZE && p->block.data[draw_block(&d)].init)
        prim = KILN_PRIM_DECOMPOSE_REDUCTION; /* which must come before */
    draw_operands(&d, prim);
    if (d.count == 0) return false;
    kiln_trace_add(trace, arena, prim, d.operand, d.count);
    return true;
}

/* ---- one pair ---- */

/* A product whose innermost loops are lanes and steps of an instruction, once its initialisation is
 * outside. */
static kiln_program *draw_product(kiln_rand *r, kiln_arena *arena) {
    const kiln_intrinsic *in = &kiln_intrinsics[kiln_rand_below(r, INTRINSICS)];
    unsigned rows = 1 + (unsigned)kiln_rand_below(r, 3), lanes = in->lanes, steps = in->steps;
    if (in->rows > 1 && !kiln_intrinsic_in_tiles(in)) rows = in->rows;
    const char *sum = kiln_dtype_name(kiln_intrinsic_sum(in));
    const char *text = kiln_arena_printf(
        arena,
        "program p\ninput x: %s[%u,%u]\nconstant w: %s[%u,%u]\noutput y: %s[%u,%u]\n"
        "block dot(m:%u, n:%u | k:%u): y[m, n] sum= %s(x[m, k])*%s(w[n, k]) init %s\n",
        kiln_dtype_name(in->operand[0]), rows, steps, kiln_dtype_name(in->operand[1]), lanes, steps,
        sum, rows, lanes, rows, lanes, steps, sum, sum, *sum == 'f' ? "0.0" : "0i32");
    kiln_program *p = NULL;
    kiln_status st = kiln_program_parse(kiln_str_from(text), arena, &p);
    KILN_CHECK(st == NULL);
    return p;
}

/* A product in tiles, as devices with groups of threads take it: one tile per group, a smaller one
 * per thread, operands fetched by all threads together into memory of the group, sums in memory of
 * the thread. Every size is drawn, so tiles fit or do not. */
static kiln_program *draw_tiled(kiln_rand *r, kiln_arena *arena, kiln_trace *out_trace) {
    static const char *const group[] = {"shared", "shared", "global"},
                             *const own[] = {"local", "global"},
                             *const axis[] = {"thread.x", "thread.y", "thread.z"};
    int m = (int)kiln_rand_range(r, 2, 12), n = (int)kiln_rand_range(r, 2, 12);
    int k = (int)kiln_rand_range(r, 2, 12), m1 = (int)kiln_rand_range(r, 1, 3);
    int m2 = (int)kiln_rand_range(r, 1, 3), n1 = (int)kiln_rand_range(r, 1, 3);
    int n2 = (int)kiln_rand_range(r, 1, 3), k1 = (int)kiln_rand_range(r, 1, 4);
    const char *text = kiln_arena_printf(
        arena,
        "program p\ninput x: f32[%d,%d]\ninput w: f32[%d,%d]\noutput y: f32[%d,%d]\n"
        "block mm(m:%d, n:%d | k:%d): y[m, n] sum= x[m, k]*w[k, n]\n",
        m, k, k, n, m, n, m, n, k);
    static const char *const order[] = {
        /* virtual threads around everything, around each nest of threads, inside of it */
        "mm.m.0, mm.n.0, mm.m.1, mm.n.1, mm.k.0, mm.m.2, mm.n.2, mm.k.1, mm.m.3, mm.n.3",
        "mm.m.0, mm.n.0, mm.k.0, mm.n.1, mm.m.1, mm.m.2, mm.n.2, mm.k.1, mm.m.3, mm.n.3",
        "mm.m.0, mm.n.0, mm.k.0, mm.m.2, mm.n.2, mm.m.1, mm.k.1, mm.n.1, mm.m.3, mm.n.3"};
    int mv = (int)kiln_rand_range(r, 1, 2), nv = (int)kiln_rand_range(r, 1, 2);
    const char *trace = kiln_arena_printf(
        arena,
        "cache_read(mm, x, \"%s\")\ncache_read(mm, w, \"%s\")\ncache_write(mm, \"%s\")\n"
        "split(mm.m, -1, %d, %d, %d)\nsplit(mm.n, -1, %d, %d, %d)\nsplit(mm.k, -1, %d)\n"
        "reorder(%s)\n"
        "bind(mm.m.0, \"block.y\")\nbind(mm.n.0, \"block.x\")\n"
        "bind(mm.m.2, \"thread.y\")\nbind(mm.n.2, \"thread.x\")\n"
        "vthread(mm.m.1)\nvthread(mm.n.1)\n"
        "decompose_reduction(mm, mm.k.0)\n"
        "compute_at(x.read, mm.k.0)\ncompute_at(w.read, mm.k.0)\n"
        "fuse(x.read.d0, x.read.d1)\nsplit(x.read.d0.f, -1, %d)\nbind(x.read.d0.f.1, \"%s\")\n"
        "fuse(w.read.d0, w.read.d1)\nsplit(w.read.d0.f, %d, -1)\nbind(w.read.d0.f.0, \"%s\")\n"
        "reverse_compute_at(mm.write, mm.n.0)\n"
        "split(mm.write.m, -1, %d, %d)\nsplit(mm.write.n, -1, %d, %d)\n"
        "reorder(mm.write.m.1, mm.write.n.1, mm.write.m.0, mm.write.n.0, mm.write.m.2, "
        "mm.write.n.2)\n"
        "bind(mm.write.m.1, \"thread.y\")\nbind(mm.write.n.1, \"thread.x\")\n"
        "vthread(mm.write.m.0)\nvthread(mm.write.n.0)\n"
        "swizzle(x.read, %d, %d, %d, %d)\nswizzle(w.read, %d, %d, %d, %d)\n"
        "pipeline(mm.k.0, %d)\n",
        group[kiln_rand_below(r, 3)], group[kiln_rand_below(r, 3)], own[kiln_rand_below(r, 2)], mv,
        m1, m2, nv, n1, n2, k1, order[kiln_rand_below(r, 3)], (int)kiln_rand_range(r, 1, 6),
        axis[kiln_rand_below(r, 3)], (int)kiln_rand_range(r, 1, 6), axis[kiln_rand_below(r, 3)], m1,
        m2, n1, n2, (int)kiln_rand_below(r, 3), (int)kiln_rand_range(r, 1, 3),
        1 << kiln_rand_below(r, 4), (int)kiln_rand_range(r, 1, 2), (int)kiln_rand_below(r, 3),
        (int)kiln_rand_range(r, 1, 3), 1 << kiln_rand_below(r, 4), (int)kiln_rand_range(r, 1, 2),
        (int)kiln_rand_range(r, 1, 4));
    kiln_program *p = NULL;
    kiln_status st = kiln_program_parse(kiln_str_from(text), arena, &p);
    if (!st) st = kiln_trace_parse(kiln_str_from(trace), arena, out_trace);
    KILN_CHECK(st == NULL);
    return p;
}

/* Rows that pass through memory of their group, and sums over them by threads: temps that are dead
 * before others are made, and parts that lanes of a warp add up, or not. */
static kiln_program *draw_rows(kiln_rand *r, kiln_arena *arena, kiln_trace *out_trace) {
    static const char *const combiner[] = {"sum", "max", "min"};
    static const int parts[] = {3, 4, 8, 16, 32, 48, 64, 64}, threads[] = {20, 32, 64, 96};
    const int m = (int)kiln_rand_range(r, 1, 3), n = (int)kiln_rand_range(r, 2, 100);
    const int wide = threads[kiln_rand_below(r, KILN_ARRAY_COUNT(threads))];
    const char *text = kiln_arena_printf(
        arena,
        "program p\ninput x: f32[%d,%d]\noutput y: f32[%d,%d]\ntemp t: f32[%d,%d]\n"
        "temp s: f32[%d]\ntemp u: f32[%d,%d]\ntemp v: f32[%d,%d]\n"
        "block t(i:%d, j:%d): t[i, j] = x[i, %d - j]*2.0\n"
        "block s(i:%d | j:%d): s[i] %s= t[i, j]\n"
        "block u(i:%d, j:%d): u[i, j] = t[i, %d - j] + 1.0\n"
        "block v(i:%d, j:%d): v[i, j] = u[i, %d - j] + s[i]\n"
        "block y(i:%d, j:%d): y[i, j] = v[i, %d - j]*0.5\n",
        m, n, m, n, m, n, m, m, n, m, n, m, n, n - 1, m, n,
        combiner[kiln_rand_below(r, KILN_ARRAY_COUNT(combiner))], m, n, n - 1, m, n, n - 1, m, n,
        n - 1);
    const char *trace = kiln_arena_printf(
        arena,
        "rfactor(s, \"j\", %d)\nbind(y.i, \"block.x\")\ncompute_at(v, y.i)\n"
        "compute_at(u, y.i)\ncompute_at(s, y.i)\ncompute_at(s.part, y.i)\ncompute_at(t, y.i)\n"
        "bind(s.part.j.1, \"thread.x\")\n"
        "split(t.j, -1, %d)\nbind(t.j.1, \"thread.x\")\nsplit(u.j, -1, %d)\n"
        "bind(u.j.1, \"thread.x\")\nsplit(v.j, -1, %d)\nbind(v.j.1, \"thread.x\")\n"
        "split(y.j, -1, %d)\nbind(y.j.1, \"thread.x\")\n",
        parts[kiln_rand_below(r, KILN_ARRAY_COUNT(parts))], wide, wide, wide, wide);
    kiln_program *p = NULL;
    kiln_status st = kiln_program_parse(kiln_str_from(text), arena, &p);
    if (!st) st = kiln_trace_parse(kiln_str_from(trace), arena, out_trace);
    KILN_CHECK(st == NULL);
    return p;
}

/* A small product that instructions of warps multiply, and what rules make of it: blocks, warps,
 * pieces, stages and fetches are drawn again when it is replayed. Instructions of warp groups make
 * hundreds of times as much, too much to be checked behind each primitive (tests/fuzz/fuzz_gpu.c
 * draws them). */
static kiln_program *draw_warps(kiln_rand *r, kiln_arena *arena, kiln_trace *out_trace) {
    static const char *const type[] = {"f16", "bf16", "i8"};
    const char *in = type[kiln_rand_below(r, KILN_ARRAY_COUNT(type))];
    const char *sum = *in == 'i' ? "i32" : "f32";
    const int m = (int)kiln_rand_range(r, 8, 24), n = (int)kiln_rand_range(r, 8, 20),
              k = 32 * (int)kiln_rand_range(r, 1, 2);
    const bool x_turned = kiln_rand_below(r, 2), w_turned = kiln_rand_below(r, 2);
    const char *text =
        kiln_arena_printf(arena,
                          "program p\ninput x: %s[%d,%d]\ninput w: %s[%d,%d]\noutput y: %s[%d,%d]\n"
                          "block mm(m:%d, n:%d | k:%d): y[m, n] sum= %s(x[%s])*%s(w[%s]) init %s\n",
                          in, x_turned ? k : m, x_turned ? m : k, in, w_turned ? k : n,
                          w_turned ? n : k, sum, m, n, m, n, k, sum, x_turned ? "k, m" : "m, k",
                          sum, w_turned ? "k, n" : "n, k", *in == 'i' ? "0i32" : "0.0");
    const kiln_space_options direct = {.accuracy = {.exact = true}};
    kiln_target target;
    kiln_space space;
    kiln_program *p = NULL, *scheduled;
    kiln_status st = kiln_program_parse(kiln_str_from(text), arena, &p);
    if (!st) st = kiln_target_parse(KILN_STR(TARGET), arena, &target);
    if (!st) st = kiln_space_create_with(p, &target, &direct, arena, &space);
    if (!st) st = kiln_space_sample(&space, r, arena, out_trace, &scheduled);
    KILN_CHECK(st == NULL);
    return p;
}

static kiln_program *draw_program(uint64_t seed, kiln_arena *arena) {
    kiln_rand r;
    kiln_rand_init(&r, seed);
    if (kiln_rand_below(&r, PRODUCTS) == 0) return draw_product(&r, arena);
    const kiln_generate_options options = {.blocks_max = 1 + (uint32_t)kiln_rand_below(&r, 5),
                                           .points_max = 200,
                                           .floats_only = seed % 3 == 0};
    return kiln_program_generate(&r, &options, arena);
}

/* Replays the trace, checking after each step; illegal steps are left out of `trace`. */
static kiln_status run_checked(const truth *t, kiln_trace *trace, kiln_arena *arena) {
    kiln_replay replay = kiln_replay_begin(t->te, NULL, NULL, arena);
    kiln_status wrong = NULL;
    for (uint32_t i = 0; i < trace->count && !wrong; i++) {
        kiln_status st = kiln_replay_step(&replay, &trace->instruction[i]);
        if (!st) wrong = check_program(t, replay.p);
        kiln_status_free(st); /* illegal after something was dropped: so is this */
    }
    schedule_fuzz_counts counts = {0};
    return wrong ? wrong : check_launches(t, replay.p, target_of_launches(replay.p), &counts);
}

static kiln_trace without(const kiln_trace *trace, uint32_t dropped, kiln_arena *arena) {
    kiln_trace shorter = kiln_trace_copy(trace, arena);
    for (uint32_t i = dropped; i + 1 < shorter.count; i++)
        shorter.instruction[i] = shorter.instruction[i + 1];
    shorter.count--;
    for (uint32_t i = 0; i < shorter.count; i++) /* references to samplers move with them */
        for (uint32_t k = 0; k < shorter.instruction[i].operand_count; k++) {
            kiln_operand *operand = &shorter.instruction[i].operand[k];
            for (uint32_t f = 0; f < operand->factor_count; f++)
                if (operand->factor[f].sampler > dropped + 1) operand->factor[f].sampler--;
        }
    return shorter;
}

static void shrink(const truth *t, kiln_trace *trace, kiln_arena *arena) {
    for (uint32_t i = trace->count; i-- > 0;) {
        kiln_trace shorter = without(trace, i, arena);
        kiln_status st = run_checked(t, &shorter, arena);
        if (st) *trace = shorter;
        kiln_status_free(st);
    }
}

static void report_failure(const truth *t, kiln_trace *trace, uint64_t seed, kiln_arena *arena,
                           kiln_strbuf *out) {
    shrink(t, trace, arena);
    kiln_status st = run_checked(t, trace, arena);
    kiln_strbuf_printf(out, "seed %llu: %s\n\n", (unsigned long long)seed, kiln_status_text(st));
    kiln_status_free(st);
    kiln_program_print(t->te, out);
    kiln_strbuf_char(out, '\n');
    kiln_trace_print(trace, out);
    kiln_program *p = NULL;
    st = kiln_trace_replay(trace, t->te, NULL, arena, &p, NULL);
    if (!st) kiln_program_print(p, out);
    kiln_status_free(st);
}

/* A trace whose text and bytes do not give it back is as wrong as one that computes something else.
 */
static kiln_status check_forms(const kiln_trace *trace, kiln_arena *arena) {
    kiln_strbuf text = {0}, again = {0}, bytes = {0};
    kiln_trace parsed = {0}, decoded = {0};
    kiln_trace_print(trace, &text);
    kiln_trace_encode(trace, &bytes);
    kiln_status st = kiln_trace_parse(kiln_strbuf_view(&text), arena, &parsed);
    if (!st) st = kiln_trace_decode(kiln_strbuf_view(&bytes), arena, &decoded);
    if (!st) {
        kiln_trace_print(&decoded, &again);
        kiln_hash128 a = kiln_trace_hash(trace), b = kiln_trace_hash(&parsed);
        if (a.high != b.high || a.low != b.low ||
            !kiln_str_equal(kiln_strbuf_view(&text), kiln_strbuf_view(&again)))
            st = KILN_ERROR(INTERNAL, "the trace's text or bytes do not give it back");
    }
    kiln_strbuf_deinit(&text);
    kiln_strbuf_deinit(&again);
    kiln_strbuf_deinit(&bytes);
    return st;
}

/* One instruction more: of the plan, or drawn. */
static bool next_instruction(kiln_rand *r, const kiln_program *p, const kiln_trace *plan,
                             uint32_t attempt, bool binds, kiln_trace *trace, kiln_arena *arena) {
    if (attempt >= plan->count) return draw_instruction(r, p, binds, trace, arena);
    const kiln_instruction *in = &plan->instruction[attempt];
    kiln_trace_add(trace, arena, in->prim, in->operand, in->operand_count);
    return true;
}

bool schedule_fuzz_pair(uint64_t seed, schedule_fuzz_device device, schedule_fuzz_counts *counts,
                        kiln_strbuf *out_report) {
    kiln_arena arena;
    kiln_arena_init(&arena, (size_t)1 << 20);
    truth t;
    kiln_rand r;
    kiln_trace plan = {0};
    kiln_rand_init(&r, seed ^ UINT64_C(0x5eed));
    const kiln_program *te = seed % TILED == 0            ? draw_tiled(&r, &arena, &plan)
                             : seed % WARPS == WARPS_FROM ? draw_warps(&r, &arena, &plan)
                             : seed % TILED == 4          ? draw_rows(&r, &arena, &plan)
                                                          : draw_program(seed, &arena);
    kiln_status wrong = find_truth(te, seed, &arena, &t);
    KILN_CHECK(wrong == NULL); /* the generator's programs evaluate */
    kiln_replay replay = kiln_replay_begin(t.te, choose_randomly, &r, &arena);
    kiln_trace trace = {0};
    uint32_t steps = plan.count ? plan.count : 1 + (uint32_t)kiln_rand_below(&r, STEPS_MAX);
    uint32_t all_steps = steps + (seed % 2 ? 0 : (uint32_t)kiln_rand_below(&r, BINDS_MAX));
    for (uint32_t attempt = 0; trace.count < all_steps && attempt < 4 * all_steps && !wrong;
         attempt++) {
        bool binds =
            attempt >= plan.count && (trace.count >= steps || attempt >= 4 * steps || plan.count);
        if (!next_instruction(&r, replay.p, &plan, attempt, binds, &trace, &arena)) continue;
        kiln_prim prim = trace.instruction[trace.count - 1].prim;
        kiln_status st = kiln_replay_step(&replay, &trace.instruction[trace.count - 1]);
        if (st) {
            trace.count--;
            counts->refused++;
            counts->refused_of[prim]++;
            if (kiln_status_code(st) != KILN_ILLEGAL_SCHEDULE)
                wrong = st;
            else
                kiln_status_free(st);
            if (!wrong && attempt % 8 == 0)
                wrong = check_program(&t, replay.p); /* a refusal changes nothing */
            continue;
        }
        trace.instruction[trace.count - 1] = replay.closed.instruction[replay.closed.count - 1];
        counts->applied++;
        counts->applied_of[prim]++;
        wrong = check_program(&t, replay.p);
    }
    if (!wrong) wrong = check_forms(&trace, &arena);
    if (!wrong) wrong = check_launches(&t, replay.p, target_of_launches(replay.p), counts);
    if (!wrong && device) wrong = check_device(&t, replay.p, device, counts);
    counts->pairs++;
    bool same = wrong == NULL;
    if (!same) {
        kiln_strbuf_printf(out_report, "%s\n", kiln_status_text(wrong));
        report_failure(&t, &trace, seed, &arena, out_report);
    }
    kiln_status_free(wrong);
    kiln_arena_deinit(&arena);
    return same;
}
