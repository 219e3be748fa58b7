/* The table of rules for CPUs, and what they share. */
#include "base/macros.h"
#include "compiler-core/sched/nest.h"
#include "compiler-core/sched/rules.h"

static const kiln_rule rules[] = {
    {"tile", 32, kiln_sketch_tile},
    {"rows", 1, kiln_sketch_rows},
    {"any", 1, kiln_sketch_any},
};
const kiln_rule_set kiln_rules_cpu = {KILN_ARRAY_COUNT(rules), rules};

kiln_block kiln_sketch_main_reduction(kiln_program *p, uint32_t *out_count) {
    kiln_block best = 0;
    *out_count = 0;
    for (kiln_block b = 1; b < p->block.count; b++) {
        if (p->block.data[b].removed || !kiln_block_is_reduction(p, b) ||
            kiln_block_reads_only_constants(p, b)) /* runs once, before any other */
            continue;
        ++*out_count;
        if (!best || kiln_pattern_work(p, b) > kiln_pattern_work(p, best)) best = b;
    }
    return best;
}

int64_t kiln_sketch_lanes(const kiln_target *target, kiln_dtype dtype, int64_t extent) {
    int64_t lanes = (int64_t)(target->vector_bytes / kiln_dtype_size(dtype));
    while (lanes > 1 && extent * 2 <= lanes) lanes /= 2;
    return lanes;
}

/* Below this, what moves between the cores' caches costs more than sharing saves. Fork and join
 * themselves take 0.13 us while workers spin, some microseconds when they sleep. */
#define SHARED_WORK_MIN 16384.0

/* Share of the threads' time in which they wait for the last of `parts` equal ones. */
static double waiting(int64_t parts, int64_t threads) {
    return 1 - (double)parts / (double)((parts + threads - 1) / threads * threads);
}

#define WAITING_MAX 0.04 /* less than dividing by one more loop's extent in every part costs */

uint32_t kiln_sketch_share(kiln_maker *m, kiln_block block, uint32_t most) {
    const kiln_program *p = m->replay.p;
    int64_t parts = 1, threads = m->target->threads;
    if (threads <= 1 || kiln_pattern_work(p, block) < SHARED_WORK_MIN) return 0;
    kiln_loops around = kiln_block_loops(p, block);
    uint32_t shared = 0;
    const char *list = "", *fused = "";
    double least = 1;
    for (uint32_t i = 0; i < most && i < around.count && least > WAITING_MAX; i++) {
        parts *= p->stmt.data[around.loop[i]].extent;
        list = kiln_arena_printf(m->arena, "%s%s%s", list, i ? ", " : "",
                                 kiln_make_stmt_name(m, around.loop[i]));
        if (waiting(parts, threads) >= least) continue;
        least = waiting(parts, threads);
        fused = list;
        shared = i + 1;
    }
    if (shared == 0 || (shared > 1 && !kiln_make(m, "fuse(%s)", fused))) return 0;
    around = kiln_block_loops(m->replay.p, block);
    return kiln_make(m, "parallel(%s)", kiln_make_stmt_name(m, around.loop[0])) ? shared : 0;
}

/* Whether evaluating `e` twice costs little: no division, no function. */
static bool is_cheap(const kiln_program *p, kiln_expr e) {
    const kiln_expr_node *node = kiln_expr_get(p, e);
    if (node->op == KILN_EXPR_DIV || node->op == KILN_EXPR_POW ||
        (node->op >= KILN_EXPR_SQRT && node->op <= KILN_EXPR_ATANH))
        return false;
    for (uint32_t i = 0; i < node->operand_count; i++)
        if (!is_cheap(p, kiln_expr_operand(p, e, i))) return false;
    return true;
}

static int64_t points_of(const kiln_program *p, kiln_block block) {
    int64_t points = 1;
    for (uint32_t i = 0; i < p->block.data[block].iter_count; i++)
        points *= p->block.data[block].iter[i].extent;
    return points;
}

/* Whether the reader would evaluate it more than once per element. */
static bool is_repeated(const kiln_program *p, kiln_block block, kiln_block reader) {
    return points_of(p, reader) > points_of(p, block);
}

static bool wants_inline(kiln_program *p, kiln_block block) {
    const kiln_block_info *b = &p->block.data[block];
    if (b->removed || kiln_block_is_reduction(p, block) ||
        p->buffer.data[b->buffer].role != KILN_ROLE_TEMP)
        return false;
    kiln_expr value = b->value;
    kiln_block *reader = KILN_ARENA_ARRAY(p->arena, kiln_block, p->block.count);
    uint32_t count = kiln_buffer_readers(p, b->buffer, reader);
    bool feeds_reduction = false;
    for (uint32_t i = 0; i < count; i++) feeds_reduction |= kiln_block_is_reduction(p, reader[i]);
    if (feeds_reduction)
        return kiln_expr_get(p, value)->op == KILN_EXPR_LOAD ||
               (kiln_block_reads_only_constants(p, block) && !kiln_sketch_picks(p, block, NULL));
    return is_cheap(p, value) || (count == 1 && !is_repeated(p, block, reader[0]));
}

void kiln_sketch_inline(kiln_maker *m) {
    for (kiln_block b = 1; b < m->replay.p->block.count; b++)
        if (wants_inline(m->replay.p, b)) kiln_make(m, "inline(%s)", kiln_make_block_name(m, b));
}

const char *kiln_sketch_blocked_layout(kiln_maker *m, uint32_t rank, int dim) {
    if (dim < 0 || (uint32_t)dim + 1 == rank) return NULL;
    char *text = kiln_arena_printf(m->arena, "%s", "");
    for (uint32_t d = 0; d < rank; d++)
        text = kiln_arena_printf(m->arena, "%s%sd%u%s", text, d ? "," : "", d,
                                 (int)d == dim ? "/{0}" : "");
    return kiln_arena_printf(m->arena, "%s,d%d%%{0}", text, dim);
}
