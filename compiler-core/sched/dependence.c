/* Checks that readers run after the writes of their elements. */
#include "compiler-core/sched/dependence.h"

#include "compiler-core/facts/region.h"
#include "compiler-core/ir/affine.h"
#include "compiler-core/sched/nest.h"

static bool known_le(kiln_program *p, kiln_expr a, int64_t a_add, kiln_expr b, int64_t b_add) {
    if (a == b) return a_add <= b_add;
    kiln_expr left = kiln_expr_binary(p, KILN_EXPR_ADD, a ? a : kiln_expr_index(p, 0),
                                      kiln_expr_index(p, a_add));
    kiln_expr right = kiln_expr_binary(p, KILN_EXPR_ADD, b ? b : kiln_expr_index(p, 0),
                                       kiln_expr_index(p, b_add));
    return kiln_expr_prove(p, kiln_expr_binary(p, KILN_EXPR_LE, left, right));
}

static bool has_conjunct(const kiln_program *p, kiln_expr predicate, kiln_expr condition) {
    if (!predicate) return false;
    if (kiln_expr_get(p, predicate)->op != KILN_EXPR_AND) return predicate == condition;
    return has_conjunct(p, kiln_expr_operand(p, predicate, 0), condition) ||
           has_conjunct(p, kiln_expr_operand(p, predicate, 1), condition);
}

/* The reader's predicate keeps `index` below the limit. */
static bool stays_below(kiln_program *p, kiln_block reader, kiln_expr index, kiln_expr limit) {
    kiln_expr below = kiln_expr_binary(p, KILN_EXPR_LT, kiln_bound_index(p, reader, index), limit);
    below = kiln_expr_simplify(p, below, NULL);
    int64_t known;
    return (kiln_expr_as_int(p, below, &known) && known) ||
           has_conjunct(p, p->block.data[reader].predicate, below);
}

/* The writer's interval contains the reader's as far as that lies in the buffer. */
static bool dim_covers(kiln_program *p, const kiln_region_dim *w, const kiln_region_dim *r,
                       int64_t extent) {
    if (!w->dense) return false;
    bool low = known_le(p, w->base, w->low, r->base, r->low) || known_le(p, w->base, w->low, 0, 0);
    bool high = known_le(p, r->base, r->high, w->base, w->high) ||
                known_le(p, 0, extent - 1, w->base, w->high);
    return low && high;
}

/* Whether reduce iterators depend on a loop variable outside `common`: then the sum is complete
 * only after that loop. */
static bool reduces_across(kiln_program *p, kiln_block writer, kiln_stmt common) {
    kiln_loops around = kiln_block_loops(p, writer);
    const kiln_block_info *b = &p->block.data[writer];
    for (uint32_t i = 0; i < b->iter_count; i++) {
        if (!b->iter[i].reduce) continue;
        for (uint32_t k = 0; k < around.count; k++)
            if (kiln_stmt_is_inside(p, common, around.loop[k]) &&
                kiln_expr_uses_var(p, b->iter[i].binding, p->stmt.data[around.loop[k]].var))
                return true;
    }
    return false;
}

const char *kiln_dependence_broken(kiln_program *p, kiln_block writer, kiln_block reader,
                                   kiln_buffer buffer) {
    kiln_stmt w = kiln_program_block_stmt(p, writer);
    kiln_stmt r = kiln_program_block_stmt(p, reader);
    if (!kiln_nest_before(p, w, r)) return "it would be read before it is written";
    kiln_stmt common = kiln_nest_common(p, w, r);
    bool shares = kiln_nest_loops(p, kiln_nest_child_towards(p, common, w)).count > 0;
    if (shares && reduces_across(p, writer, common)) return "its reduction is not complete there";

    const kiln_block_info b = p->block.data[writer];
    kiln_shape shape = p->buffer.data[buffer].shape;
    kiln_region written = kiln_region_of(p, writer, b.index, b.index_count, shares ? common : 0);
    if (!kiln_predicate_clips_domain(p, writer)) return "its predicate leaves elements out";
    kiln_loads loads = kiln_block_loads(p, reader);
    for (uint32_t i = 0; i < loads.count; i++) {
        if (kiln_load_buffer(p, loads.load[i]) != buffer) continue;
        kiln_expr index[KILN_RANK_MAX];
        uint32_t rank = kiln_load_index(p, loads.load[i], index);
        kiln_region read = kiln_region_of(p, reader, index, rank, shares ? common : 0);
        for (uint32_t d = 0; d < read.rank; d++)
            if (!dim_covers(p, &written.dim[d], &read.dim[d], shape.dim[d]) ||
                (written.dim[d].limit && !stays_below(p, reader, index[d], written.dim[d].limit)))
                return "more of it is read there than the same iteration wrote";
    }
    return NULL;
}

kiln_status kiln_dependences_check(kiln_program *p, kiln_block block) {
    kiln_loads loads = kiln_block_loads(p, block);
    kiln_buffer seen = 0;
    for (uint32_t i = 0; i < loads.count; i++) {
        kiln_buffer buffer = kiln_load_buffer(p, loads.load[i]);
        kiln_block writer = kiln_program_producer(p, buffer);
        if (!writer || buffer == seen) continue;
        seen = buffer;
        const char *why = kiln_dependence_broken(p, writer, block, buffer);
        if (why)
            return ILLEGAL("%.*s reads %.*s from %.*s, but %s", BLOCK_NAME(p, block),
                           BUFFER_NAME(p, buffer), BLOCK_NAME(p, writer), why);
    }
    kiln_buffer own = p->block.data[block].buffer;
    for (kiln_block reader = 1; reader < p->block.count; reader++) {
        if (p->block.data[reader].removed || reader == block || !kiln_block_reads(p, reader, own))
            continue;
        const char *why = kiln_dependence_broken(p, block, reader, own);
        if (why)
            return ILLEGAL("%.*s reads %.*s from %.*s, but %s", BLOCK_NAME(p, reader),
                           BUFFER_NAME(p, own), BLOCK_NAME(p, block), why);
    }
    return NULL;
}
