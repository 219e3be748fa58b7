#include "compiler-core/task/join.h"

#include <string.h>

#include "base/macros.h"
#include "base/vec.h"
#include "compiler-core/facts/loads.h"
#include "compiler-core/ir/affine.h"
#include "compiler-core/ir/eval.h"

#define READERS_MAX (KILN_ROW_STEPS_MAX - 1)
#define NODES_MAX 64u             /* of a kernel, as fusion has it */
#define VALUES_MAX 48u            /* operands of a kernel, packed ones left out */
#define NEAR_SHARE 0.5            /* of L2: constants and inputs are in it, too */
#define NEAR_BYTES_UNKNOWN 0x1p18 /* of targets whose caches are not known */
#define AGAIN_MAX 0.125           /* of all operations */
/* Operations for each byte that kernels pass on: with this many, moving it takes 2 to 4 % of the
 * time (64 operations a cycle; written and read at 10 bytes a cycle beyond L2, at 48 within). */
#define OPERATIONS_FAR_MAX 300.0
#define OPERATIONS_NEAR_MAX 150.0
/* Joined without a measurement if the bytes that one kernel passes on exceed L2 this many times,
 * and moving them would take a sixth of the time at least. Gains were 4 to 20 % there and none with
 * less: inverted residuals of 112x112x96 against 56x56x144, attention of 1024 and 2048 keys against
 * 512, on 1 MB of L2 (docs/decisions/0047-blocks-of-layers.md). */
#define DEFAULT_BEYOND 4.0
#define DEFAULT_OPERATIONS_MAX 64.0

typedef struct finder {
    const kiln_plan *plan;
    const kiln_graph *graph;
    kiln_program **te;               /* [tasks] copies for analysis; made when needed */
    uint32_t *writer;                /* [values] the step that writes it, + 1; 0: none */
    uint32_t *readers;               /* [values] number of steps that read it, and of outputs of the
                                      * graph */
    uint32_t (*reader)[READERS_MAX]; /* [values] the first of those steps */
    uint32_t *body;                  /* [steps] the loop around it, + 1; 0: none */
    double l2_bytes, near_bytes;
    kiln_arena scratch;
} finder;

static const kiln_task *task_of(const finder *f, uint32_t step) {
    return &f->plan->tasks.task[f->plan->step[step].task];
}

static kiln_program *te_of(finder *f, uint32_t step) {
    kiln_program **te = &f->te[f->plan->step[step].task];
    if (!*te) *te = kiln_program_copy(task_of(f, step)->te, &f->scratch);
    return *te;
}

/* The result of a step that has one. */
static kiln_value result_of(const finder *f, uint32_t step) {
    return f->plan->step[step].arg[f->plan->step[step].read_count];
}

static double bytes_of(const finder *f, kiln_value v) {
    const kiln_value_info *info = &f->graph->value.data[v];
    return (double)kiln_shape_count(&info->shape) * (double)kiln_dtype_size(info->dtype);
}

/* ---- what a block needs ---------------------------------------------------------------------- */

/* Elements of a buffer: an interval of indices per dimension around them, and their greatest
 * number. */
typedef struct region {
    bool any;
    kiln_interval dim[KILN_RANK_MAX];
    double elements;
} region;

static double count_along(kiln_interval i, int64_t extent) {
    return (double)KILN_MIN(i.high - i.low + 1, extent);
}

/* Adds the elements that one load reads while variables are in `range`. */
static void add_load(const kiln_program *te, kiln_expr load, const kiln_interval *range,
                     region *of) {
    const kiln_buffer buffer = kiln_load_buffer(te, load);
    const kiln_shape *shape = &te->buffer.data[buffer].shape;
    double read = 1, around = 1;
    region *to = &of[buffer];
    for (uint32_t d = 0; d < shape->rank; d++) {
        kiln_interval i = kiln_expr_bounds(te, kiln_expr_operand(te, load, d), range);
        if (!kiln_interval_is_bounded(i)) i = (kiln_interval){0, shape->dim[d] - 1};
        read *= count_along(i, shape->dim[d]);
        if (to->any)
            i = (kiln_interval){KILN_MIN(i.low, to->dim[d].low), KILN_MAX(i.high, to->dim[d].high)};
        to->dim[d] = i;
        around *= count_along(i, shape->dim[d]);
    }
    to->elements = KILN_MIN(to->elements + read, around);
    to->any = true;
}

/* Propagates needed regions from some buffers to all: of: [buffers]. */
static void spread(kiln_program *te, region *of, kiln_arena *arena) {
    kiln_interval *range = KILN_ARENA_ARRAY(arena, kiln_interval, te->var.count);
    for (kiln_block b = te->block.count; b-- > 1;) {
        const kiln_block_info *block = &te->block.data[b];
        if (!of[block->buffer].any) continue;
        for (uint32_t v = 1; v < te->var.count; v++)
            range[v] = (kiln_interval){te->var.data[v].low, te->var.data[v].high};
        for (uint32_t d = 0; d < block->index_count; d++) {
            const kiln_expr_node *index = kiln_expr_get(te, block->index[d]);
            if (index->op == KILN_EXPR_VAR) range[index->payload.id] = of[block->buffer].dim[d];
        }
        const kiln_loads loads = kiln_block_loads(te, b);
        for (uint32_t i = 0; i < loads.count; i++) add_load(te, loads.load[i], range, of);
    }
}

/* The costs of blocks of the last result. */
typedef struct blocks {
    double near_bytes, again; /* as in kiln_join */
    double least_share;       /* of a result between the kernels that a block needs, the largest */
    double data_share;        /* of the first kernel's inputs besides constants, the least */
} blocks;

/* The least share of an input of the step that a block of its result needs. */
static double data_share_of(finder *f, uint32_t step, const region *wanted) {
    kiln_program *te = te_of(f, step);
    const kiln_arg_buffers arg = kiln_program_args(te);
    region *of = KILN_ARENA_ARRAY(&f->scratch, region, te->buffer.count);
    double least = 1;
    of[arg.buffer[f->plan->step[step].read_count]] = *wanted;
    spread(te, of, &f->scratch);
    for (uint32_t i = 0; i < arg.count; i++) {
        const kiln_buffer_info *buffer = &te->buffer.data[arg.buffer[i]];
        if (buffer->role == KILN_ROLE_INPUT)
            least = KILN_MIN(least,
                             of[arg.buffer[i]].elements / (double)kiln_shape_count(&buffer->shape));
    }
    return least;
}

/* Computes the costs of blocks of `extent`. */
static blocks look_at_blocks(finder *f, const kiln_step_row *row, const int64_t *extent) {
    const uint32_t last = row->step[row->count - 1];
    const kiln_shape *shape = &f->graph->value.data[result_of(f, last)].shape;
    double count = 1, done = task_of(f, last)->flops, again = 0;
    blocks out = {0};
    region wanted = {.any = true};
    for (uint32_t d = 0; d < shape->rank; d++) {
        wanted.dim[d] = (kiln_interval){0, extent[d] - 1};
        count *= (double)shape->dim[d] / (double)extent[d];
    }
    for (uint32_t k = row->count; k-- > 1;) {
        const kiln_step *reader = &f->plan->step[row->step[k]];
        const kiln_value between = result_of(f, row->step[k - 1]);
        kiln_program *te = te_of(f, row->step[k]);
        const kiln_arg_buffers arg = kiln_program_args(te);
        region *of = KILN_ARENA_ARRAY(&f->scratch, region, te->buffer.count);
        uint32_t i = 0;
        of[arg.buffer[reader->read_count]] = wanted;
        spread(te, of, &f->scratch);
        while (reader->arg[i] != between) i++;
        wanted = of[arg.buffer[i]];
        const kiln_value_info *info = &f->graph->value.data[between];
        const double all = (double)kiln_shape_count(&info->shape), share = wanted.elements / all;
        const double flops = task_of(f, row->step[k - 1])->flops;
        out.near_bytes += wanted.elements * (double)kiln_dtype_size(info->dtype);
        out.least_share = KILN_MAX(out.least_share, share);
        done += flops;
        again += flops * KILN_MAX(share * count - 1, 0);
    }
    out.again = done > 0 ? again / done : 0;
    out.data_share = data_share_of(f, row->step[0], &wanted);
    return out;
}

/* Whether all results between the kernels shrink with the block along dimension `d`; sets
 * *along_data if the first kernel's inputs do, too. */
static bool is_shared(finder *f, const kiln_step_row *row, const kiln_shape *shape, uint32_t d,
                      bool *along_data) {
    int64_t extent[KILN_RANK_MAX];
    memcpy(extent, shape->dim, sizeof extent);
    extent[d] = 1;
    const blocks least = look_at_blocks(f, row, extent);
    if (shape->dim[d] == 1 || least.least_share >= 1) return false;
    *along_data = *along_data || least.data_share < 1;
    return true;
}

/* The largest extent along dimension `d` that fits, at least 1. */
static int64_t largest_that_fits(finder *f, const kiln_step_row *row, int64_t *extent, uint32_t d) {
    int64_t low = 1, high = extent[d];
    while (low < high) {
        extent[d] = low + (high - low + 1) / 2;
        if (look_at_blocks(f, row, extent).near_bytes <= f->near_bytes)
            low = extent[d];
        else
            high = extent[d] - 1;
    }
    return low;
}

/* ---- conditions ------------------------------------------------------------------------------ */

typedef bool (*condition)(finder *f, const kiln_step_row *row, kiln_join *join);

static bool has_room(finder *f, const kiln_step_row *row, kiln_join *join) {
    uint32_t nodes = 0, values = 0;
    (void)join;
    for (uint32_t k = 0; k < row->count; k++) {
        nodes += f->plan->step[row->step[k]].member_count;
        values += f->plan->step[row->step[k]].arg_count;
    }
    return nodes <= NODES_MAX && values <= VALUES_MAX;
}

static bool has_reduction(finder *f, uint32_t step) {
    const kiln_program *te = te_of(f, step);
    kiln_block b = 1;
    while (b < te->block.count && !kiln_block_is_reduction(te, b)) b++;
    return b < te->block.count;
}

static bool reduces(finder *f, const kiln_step_row *row, kiln_join *join) {
    bool all = true;
    (void)join;
    for (uint32_t k = 0; k < row->count; k++) all = all && has_reduction(f, row->step[k]);
    return all;
}

/* Outer dimensions are cut first, into the largest blocks that fit. */
static bool has_blocks(finder *f, const kiln_step_row *row, kiln_join *join) {
    const kiln_shape *shape = &f->graph->value.data[result_of(f, row->step[row->count - 1])].shape;
    int64_t extent[KILN_RANK_MAX];
    bool along_data = false;
    memcpy(extent, shape->dim, sizeof extent);
    blocks found = look_at_blocks(f, row, extent);
    for (uint32_t d = 0; d < shape->rank; d++) {
        if (!is_shared(f, row, shape, d, &along_data)) continue;
        extent[d] = largest_that_fits(f, row, extent, d);
        found = look_at_blocks(f, row, extent);
    }
    join->near_bytes = found.near_bytes;
    join->again = found.again;
    return along_data && found.near_bytes <= f->near_bytes && found.again <= AGAIN_MAX;
}

static bool is_worth(finder *f, const kiln_step_row *row, kiln_join *join) {
    for (uint32_t k = 1; k < row->count; k++) {
        const double bytes = bytes_of(f, result_of(f, row->step[k - 1]));
        const double flops = task_of(f, row->step[k - 1])->flops + task_of(f, row->step[k])->flops;
        if (flops > bytes * (bytes > f->near_bytes ? OPERATIONS_FAR_MAX : OPERATIONS_NEAR_MAX))
            return false;
        join->by_default |= f->l2_bytes > 0 && bytes > DEFAULT_BEYOND * f->l2_bytes &&
                            flops <= DEFAULT_OPERATIONS_MAX * bytes;
    }
    return true;
}

/* Number of places at which the step reads the value. */
static uint32_t places_of(finder *f, uint32_t step, kiln_value value) {
    kiln_program *te = te_of(f, step);
    const kiln_arg_buffers arg = kiln_program_args(te);
    uint32_t at = 0, places = 0;
    while (f->plan->step[step].arg[at] != value) at++;
    for (kiln_block b = 1; b < te->block.count; b++) {
        const kiln_loads loads = kiln_block_loads(te, b);
        for (uint32_t i = 0; i < loads.count; i++)
            places += kiln_load_buffer(te, loads.load[i]) == arg.buffer[at];
    }
    return places;
}

static bool computes_elements(finder *f, const kiln_step_row *row, kiln_join *join) {
    const kiln_value parts = result_of(f, row->step[0]);
    uint32_t places = 0;
    join->near_bytes = bytes_of(f, parts);
    for (uint32_t k = 0; k < row->count; k++) {
        if (has_reduction(f, row->step[k]) != (k == 0)) return false;
        if (k > 0) places += places_of(f, row->step[k], parts);
    }
    return places > 1 && join->near_bytes <= f->near_bytes;
}

static bool is_in_row(const kiln_step_row *row, uint32_t step) {
    uint32_t k = 0;
    while (k < row->count && row->step[k] != step) k++;
    return k < row->count;
}

/* All inputs of the row are computed before it, and no step between its steps reads its results. */
static bool is_closed(finder *f, const kiln_step_row *row, kiln_join *join) {
    (void)join;
    for (uint32_t s = row->step[0]; s <= row->step[row->count - 1]; s++) {
        const kiln_step *step = &f->plan->step[s];
        const bool inside = is_in_row(row, s);
        if (f->body[s] != f->body[row->step[0]]) return false;
        for (uint32_t i = 0; i < step->read_count; i++) {
            const uint32_t from = f->writer[step->arg[i]];
            if (from > row->step[0] && is_in_row(row, from - 1) != inside) return false;
        }
    }
    return true;
}

static const struct {
    uint32_t kinds;
    condition holds;
} conditions[] = {
#define SERIES KILN_JOIN_SERIES
#define PARTS KILN_JOIN_PARTS
#define X(id, kinds, function, doc) {kinds, function},
#include "compiler-core/task/join_conditions.def"
#undef X
#undef SERIES
#undef PARTS
};

static bool is_join(finder *f, kiln_join_kind kind, const kiln_step_row *row, kiln_join *out) {
    bool holds = true;
    *out = (kiln_join){.kind = kind, .row = *row};
    for (size_t i = 0; holds && i < KILN_ARRAY_COUNT(conditions); i++)
        holds = !(conditions[i].kinds & kind) || conditions[i].holds(f, row, out);
    return holds;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Finds the readers of each value. A reader in another body reads it once for each iteration, or in
 * another one. */
static void find_readers(finder *f) {
    const kiln_plan *plan = f->plan;
    const uint32_t values = f->graph->value.count;
    uint32_t open = 0;
    f->writer = KILN_ARENA_ARRAY(&f->scratch, uint32_t, values);
    f->readers = KILN_ARENA_ARRAY(&f->scratch, uint32_t, values);
    f->reader = kiln_arena_alloc(&f->scratch, values * sizeof *f->reader);
    f->body = KILN_ARENA_ARRAY(&f->scratch, uint32_t, plan->step_count + 1);
    for (uint32_t s = 0; s < plan->step_count; s++) {
        const kiln_step *step = &plan->step[s];
        if (step->kind == KILN_STEP_LOOP_END) open = f->body[step->partner];
        f->body[s] = open;
        if (step->kind == KILN_STEP_LOOP) open = s + 1;
        for (uint32_t i = 0; i < step->read_count; i++) {
            const uint32_t before = f->readers[step->arg[i]]++;
            if (before < READERS_MAX) f->reader[step->arg[i]][before] = s;
        }
        for (uint32_t i = step->read_count; i < step->arg_count; i++)
            f->writer[step->arg[i]] = s + 1;
    }
    for (uint32_t i = 0; i < f->graph->output.count; i++) f->readers[f->graph->output.data[i]]++;
}

static bool has_one_result(const kiln_step *step) {
    return step->kind == KILN_STEP_KERNEL && step->arg_count == step->read_count + 1;
}

/* The kernel in the same body that is the only reader of this one's result; 0: none. */
static uint32_t next_of(const finder *f, uint32_t s) {
    const kiln_step *step = &f->plan->step[s];
    if (!has_one_result(step) || f->readers[result_of(f, s)] != 1) return 0;
    const uint32_t reader = f->reader[result_of(f, s)][0];
    return has_one_result(&f->plan->step[reader]) && f->body[reader] == f->body[s] ? reader : 0;
}

/* The step and all readers of its result, at most as many as a row has. */
static bool row_of_readers(const finder *f, uint32_t s, kiln_step_row *out) {
    if (!has_one_result(&f->plan->step[s])) return false;
    const kiln_value result = result_of(f, s);
    *out = (kiln_step_row){1, {s}};
    if (f->readers[result] > READERS_MAX) return false;
    for (uint32_t i = 0; i < f->readers[result]; i++) {
        const uint32_t reader = f->reader[result][i];
        if (reader <= s || !has_one_result(&f->plan->step[reader])) return false;
        out->step[out->count++] = reader;
    }
    return out->count > 1;
}

/* The row of a join of parts, if it is one. */
static bool find_parts(finder *f, uint32_t s, kiln_join *out) {
    kiln_step_row row;
    return row_of_readers(f, s, &row) && is_join(f, KILN_JOIN_PARTS, &row, out);
}

static bool is_alike(const finder *f, const kiln_step_row *a, const kiln_step_row *b) {
    uint32_t k = 0;
    while (k < a->count && k < b->count &&
           f->plan->step[a->step[k]].task == f->plan->step[b->step[k]].task)
        k++;
    return k == a->count && k == b->count;
}

static bool reads(const finder *f, const kiln_step_row *row, kiln_value value) {
    const kiln_step *step = &f->plan->step[row->step[0]];
    uint32_t i = 0;
    while (i < step->read_count && step->arg[i] != value) i++;
    return i < step->read_count;
}

/* Whether all readers of the product's constants would be the same kernel. Others keep a separate
 * packed copy, which comes from memory, and measuring a kernel alone does not show that: the last
 * of an LSTM's 19 steps, another kernel than the others, took 92 us in place of 31.
 */
static bool has_constants(const finder *f, const kiln_join *parts, uint32_t count,
                          const kiln_join *join) {
    const kiln_step *step = &f->plan->step[join->row.step[0]];
    for (uint32_t i = 0; i < step->read_count; i++) {
        uint32_t alike = 0;
        if (!kiln_value_is_constant(f->graph, step->arg[i])) continue;
        for (uint32_t k = 0; k < count; k++)
            alike +=
                is_alike(f, &parts[k].row, &join->row) && reads(f, &parts[k].row, step->arg[i]);
        if (alike != f->readers[step->arg[i]]) return false;
    }
    return true;
}

typedef KILN_VEC(kiln_join) join_list;

/* Joins in the order of their first steps. */
static void find_all(finder *f, kiln_arena *arena, join_list *out) {
    join_list parts = {0};
    uint32_t at = 0, next;
    for (uint32_t s = 0; s < f->plan->step_count; s++) {
        kiln_join found;
        if (find_parts(f, s, &found)) kiln_vec_push_in(&f->scratch, &parts, found);
    }
    for (uint32_t s = 0; s < f->plan->step_count; s++) {
        kiln_step_row row = {1, {s}};
        kiln_join found;
        while (row.count < KILN_ROW_STEPS_MAX && (next = next_of(f, row.step[row.count - 1]))) {
            row.step[row.count++] = next;
            if (!is_join(f, KILN_JOIN_SERIES, &row, &found)) break;
            kiln_vec_push_in(arena, out, found);
        }
        if (at == parts.count || parts.data[at].row.step[0] != s) continue;
        if (has_constants(f, parts.data, parts.count, &parts.data[at]))
            kiln_vec_push_in(arena, out, parts.data[at]);
        at++;
    }
}

static kiln_status find(finder *f, kiln_arena *arena, kiln_joins *out) {
    join_list join = {0};
    find_all(f, arena, &join);
    *out = (kiln_joins){.count = join.count, .join = join.data};
    if (!join.count) return KILN_OK;
    kiln_step_row *row = KILN_ARENA_ARRAY(&f->scratch, kiln_step_row, join.count);
    kiln_step *step = KILN_ARENA_ARRAY(&f->scratch, kiln_step, join.count);
    for (uint32_t i = 0; i < join.count; i++) row[i] = join.data[i].row;
    kiln_status st = kiln_plan_join(f->graph, f->plan, row, join.count, arena, step, &out->tasks);
    for (uint32_t i = 0; !st && i < join.count; i++) join.data[i].step = step[i];
    return st;
}

kiln_status kiln_joins_find(const kiln_graph *graph, const kiln_plan *plan,
                            const kiln_target *target, kiln_arena *arena, kiln_joins *out_joins) {
    finder f = {.graph = graph,
                .plan = plan,
                .l2_bytes = target->l2_bytes,
                .near_bytes =
                    target->l2_bytes ? NEAR_SHARE * target->l2_bytes : NEAR_BYTES_UNKNOWN};
    kiln_arena_init(&f.scratch, 0);
    f.te = KILN_ARENA_ARRAY(&f.scratch, kiln_program *, plan->tasks.count);
    find_readers(&f);
    kiln_status st = find(&f, arena, out_joins);
    kiln_arena_deinit(&f.scratch);
    return st;
}

void kiln_step_row_print(const kiln_step_row *row, const kiln_plan *plan, kiln_strbuf *out) {
    for (uint32_t k = 0; k < row->count; k++)
        kiln_strbuf_printf(out, "%s%.*s", k ? " > " : "",
                           KILN_STR_ARG(plan->step[row->step[k]].op));
}

void kiln_joins_print(const kiln_joins *joins, const kiln_plan *plan, kiln_strbuf *out) {
    for (uint32_t t = 0; t < joins->tasks.count; t++) {
        const kiln_task *task = &joins->tasks.task[t];
        const kiln_join *join = joins->join;
        while (join->step.task != t) join++;
        kiln_strbuf_text(out, "join ");
        kiln_step_row_print(&join->row, plan, out);
        kiln_strbuf_printf(out, " %.*s, %g per inference, %.0f KiB near, %.1f %% again%s\n",
                           KILN_STR_ARG(task->key), task->weight, join->near_bytes / 1024,
                           100 * join->again, join->by_default ? ", by default" : "");
    }
}

void kiln_join_apply(const kiln_join *join, kiln_graph *graph) {
    for (uint32_t i = 0; i < join->step.member_count; i++)
        graph->node.data[join->step.member[i]].group = join->step.member[0];
}
