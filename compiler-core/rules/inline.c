/* Chooses the blocks that are inlined into their readers, and the reduction that remains to be
 * scheduled. */
#include "compiler-core/facts/loads.h"
#include "compiler-core/rules/rules.h"

kiln_block kiln_sketch_main_reduction(kiln_program *p, uint32_t *out_count) {
    kiln_block best = 0;
    *out_count = 0;
    for (kiln_block b = 1; b < p->block.count; b++) {
        if (p->block.data[b].removed || !kiln_block_is_reduction(p, b) ||
            kiln_block_packs_bits(p, b) ||         /* stands alone */
            kiln_block_reads_only_constants(p, b)) /* runs once, before any other */
            continue;
        ++*out_count;
        if (!best || kiln_pattern_work(p, b) > kiln_pattern_work(p, best)) best = b;
    }
    return best;
}

static kiln_expr find_costly(kiln_program *p, kiln_expr e, kiln_expr rebuilt, void *context) {
    const uint8_t op = kiln_expr_get(p, e)->op;
    *(bool *)context |= op == KILN_EXPR_DIV || op == KILN_EXPR_POW ||
                        (op >= KILN_EXPR_SQRT && op <= KILN_EXPR_ATANH);
    return rebuilt;
}

/* Whether evaluating `e` twice costs little: no division, no function. Visits each distinct part
 * once: inlining can give a small graph that is a huge tree. */
static bool is_cheap(kiln_program *p, kiln_expr e) {
    bool costly = false;
    kiln_expr_rewrite(p, e, 0, find_costly, &costly);
    return !costly;
}

/* Whether the reader would evaluate it more than once per element. */
static bool is_repeated(const kiln_program *p, kiln_block block, kiln_block reader) {
    return kiln_pattern_work(p, reader) > kiln_pattern_work(p, block);
}

static void note_load(kiln_program *p, kiln_expr load, void *context) {
    (void)p, (void)load;
    *(bool *)context = true;
}

/* Whether the reader searches it: loads it at several places that depend on data. */
static bool is_searched(kiln_program *p, kiln_buffer buffer, kiln_block reader) {
    const kiln_loads loads = kiln_block_loads(p, reader);
    uint32_t places = 0;
    bool depends = false;
    for (uint32_t i = 0; i < loads.count; i++) {
        kiln_expr index[KILN_RANK_MAX];
        if (kiln_load_buffer(p, loads.load[i]) != buffer) continue;
        uint32_t rank = kiln_load_index(p, loads.load[i], index);
        places++;
        for (uint32_t d = 0; d < rank && !depends; d++)
            kiln_expr_visit_loads(p, index[d], 0, note_load, &depends);
    }
    return depends && places > 1;
}

/* Number of places at which the reader loads it. */
static uint32_t places_of(kiln_program *p, kiln_buffer buffer, kiln_block reader) {
    const kiln_loads loads = kiln_block_loads(p, reader);
    uint32_t places = 0;
    for (uint32_t i = 0; i < loads.count; i++)
        places += kiln_load_buffer(p, loads.load[i]) == buffer;
    return places;
}

/* Whether the reader loads it at its iterators, not at quotients or remainders of them. */
static bool reads_in_place(kiln_program *p, kiln_buffer buffer, kiln_block reader) {
    const kiln_loads loads = kiln_block_loads(p, reader);
    for (uint32_t i = 0; i < loads.count; i++) {
        kiln_expr index[KILN_RANK_MAX];
        if (kiln_load_buffer(p, loads.load[i]) != buffer) continue;
        const uint32_t rank = kiln_load_index(p, loads.load[i], index);
        for (uint32_t d = 0; d < rank; d++)
            if (kiln_expr_get(p, index[d])->op != KILN_EXPR_VAR && !kiln_expr_is_const(p, index[d]))
                return false;
    }
    return true;
}

/* Whether storing it means that fewer bytes are read. */
static bool narrows(const kiln_program *p, kiln_expr value) {
    const kiln_expr_node *node = kiln_expr_get(p, value);
    if (node->op != KILN_EXPR_CAST) return false;
    const kiln_expr_node *from = kiln_expr_get(p, kiln_expr_operand(p, value, 0));
    return kiln_dtype_size((kiln_dtype)node->dtype) < kiln_dtype_size((kiln_dtype)from->dtype);
}

static bool reads_reduction(kiln_program *p, kiln_block block) {
    const kiln_loads loads = kiln_block_loads(p, block);
    for (uint32_t i = 0; i < loads.count; i++) {
        const kiln_block from = kiln_program_producer(p, kiln_load_buffer(p, loads.load[i]));
        if (from && kiln_block_is_reduction(p, from)) return true;
    }
    return false;
}

/* A padding between two reductions: the block that follows the first one is not inlined into it,
 * because it takes results out of registers and the padding is inlined into the second one. */
static bool pads_for_reduction(kiln_program *p, kiln_block block) {
    kiln_block *reader = KILN_ARENA_ARRAY(p->arena, kiln_block, p->block.count);
    return kiln_sketch_padding_of(p, block) &&
           kiln_buffer_readers(p, p->block.data[block].buffer, reader) == 1 &&
           kiln_block_is_reduction(p, reader[0]);
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
    /* A block that follows a reduction is computed once, where results are taken out of registers;
     * a padding before another reduction is inlined, and a transform would read it in several
     * places. */
    if (count == 1 && reads_reduction(p, block) &&
        (pads_for_reduction(p, reader[0]) || kiln_sketch_picks(p, reader[0], NULL)))
        return false;
    for (uint32_t i = 0; i < count; i++)
        feeds_reduction |=
            kiln_block_is_reduction(p, reader[i]) && !kiln_block_packs_bits(p, reader[i]);
    for (uint32_t i = 0; i < count; i++)
        if (is_searched(p, b->buffer, reader[i]) ||
            (kiln_sketch_picks(p, block, NULL) &&
             (places_of(p, b->buffer, reader[i]) > 1 || !reads_in_place(p, b->buffer, reader[i]))))
            return false;
    /* A block that is smaller than its reader and reads constants only is computed when they are
     * loaded.
     */
    if (count == 1 && is_repeated(p, block, reader[0]) &&
        kiln_block_reads_only_constants(p, block) && !kiln_block_reads_only_constants(p, reader[0]))
        return false;
    if (feeds_reduction)
        return kiln_expr_get(p, value)->op == KILN_EXPR_LOAD ||
               (kiln_block_reads_only_constants(p, block) && !narrows(p, value) &&
                !kiln_sketch_picks(p, block, NULL));
    return is_cheap(p, value) || (count == 1 && !is_repeated(p, block, reader[0]));
}

/* The legality check decides: a block that writes through other than plain indices stays. */
void kiln_sketch_inline(kiln_sched *s) {
    for (kiln_block b = 1; b < s->program->block.count; b++)
        if (wants_inline(s->program, b)) kiln_sched_inline(kiln_sched_try(s), b);
}
