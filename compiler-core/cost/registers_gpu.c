#include "compiler-core/cost/registers_gpu.h"

#include <math.h>
#include <string.h>

#include "base/macros.h"
#include "compiler-core/cost/grid.h"
#include "compiler-core/ir/device.h"

/* Calibrated against ptxas 12.9 (on kernels in decisions 85 and 123): registers in addition to the
 * counted ones, for addresses, counters and temporary values. */
#define BESIDE 24
#define BESIDE_OF_WARPS 19
#define BESIDE_OF_GROUPS 24 /* of warps that multiply together: descriptors */
#define COPY_SHARE                                                                      \
    0.2                  /* an asynchronous copy: most addresses are another one plus a \
                          * distance */
#define WINDOW_CARRIED 4 /* 64 bits of address, and the operands of the condition */
#define ROWS_HELD 2      /* pieces of rows whose fragments live at once; of columns all */
#define BESIDE_OF_MOVES 14
#define STEP_HELD 18       /* most operands of a step that are loaded early */
#define STEP_SHARE 0.5     /* of these */
#define PLACE 2            /* 64 bits of address of a load whose place is no sum of digits */
#define COPY_PLACE 0.35    /* of an asynchronous copy, most of which are computed one by one, */
#define FETCHED_SHARE 0.15 /* as are loads that are stored at once; */
#define FETCHED_MOST 32    /* up to so many in a turn, which the assembler unrolls */
#define MOVED_SHARE 0.75   /* of words that are only moved, which live at once */
#define MOVED_ODD 2        /* an odd address of these */
#define UNROLLED_MAX 32    /* turns of a serial loop that the assembler copies */
#define REGISTER_STEP 8    /* registers of a thread are allocated in eights */

/* Loops of an instruction of several threads, its rows first. */
#define PIECE_LOOPS 3

static double words_of(const kiln_facts_access *a) { return fmax(a->element_bytes / 4.0, 1); }

/* Distinct elements of one access while `part` iterations of the path's loop `at` run, and all of
 * those inside of it. */
static double elements_of_part(const kiln_facts *facts, const kiln_facts_statement *s,
                               const kiln_facts_access *a, uint32_t at, int64_t part) {
    double elements = 1;
    for (uint32_t d = 0; d < a->rank; d++) {
        kiln_spread spread = {0};
        int64_t values, span;
        for (uint32_t i = 0; i < a->index[d].term_count; i++) {
            kiln_form_term term = a->index[d].term[i];
            for (uint32_t k = at; k < s->depth; k++) {
                if (facts->loop[s->path[k]].var != term.var) continue;
                if (k == at) term.extent = KILN_MIN(term.extent, part);
                kiln_spread_add(&spread, &term);
            }
        }
        kiln_spread_measure(&spread, &values, &span);
        elements *= (double)values;
    }
    return elements;
}

/* Most elements that iterations of one loop of the tile load and later ones read again. */
static double live_elements(const kiln_facts *facts, const kiln_facts_statement *s,
                            const kiln_facts_access *a) {
    double most = 1;
    for (uint32_t k = s->tile.level; k < s->depth; k++) {
        const int64_t extent = facts->loop[s->path[k]].extent;
        const double all = a->elements[k], one = a->elements[k + 1];
        if (extent < 2 || one * (double)extent == all) continue; /* none is read again */
        most = fmax(most, one == all
                              ? all
                              : elements_of_part(facts, s, a, k, extent / 2) +
                                    elements_of_part(facts, s, a, k, extent - extent / 2) - all);
    }
    return most;
}

/* Turns of the innermost loop that the assembler unrolls although the schedule leaves it serial. */
static double unrolled_turns(const kiln_facts *facts, const kiln_facts_statement *s) {
    const kiln_facts_loop *last = &facts->loop[s->path[s->depth - 1]];
    if (s->depth < 2 || last->kind != KILN_LOOP_SERIAL) return 1;
    return fmin((double)last->extent, UNROLLED_MAX);
}

/* Elements that one load moves together, as far as lanes are neighbours. */
static double lanes_of(const kiln_facts *facts, const kiln_facts_statement *s,
                       const kiln_facts_access *a) {
    const kiln_facts_loop *last = &facts->loop[s->path[s->depth - 1]];
    return s->tile.level < s->depth && kiln_facts_stride(facts, a, last->var) == 1
               ? (double)last->extent
               : 1;
}

/* Distinct values of an XOR in straight code, without the first. */
static double xor_addresses(const kiln_facts *facts, const kiln_facts_statement *s,
                            const kiln_facts_access *a) {
    const kiln_layout *layout = &facts->p->buffer.data[a->buffer].layout;
    double most = 1;
    for (uint32_t j = 0; j < layout->piece_count; j++) {
        const kiln_layout_piece *piece = &layout->piece[j];
        double values = 1;
        if (!piece->xor_modulus) continue;
        for (uint32_t k = s->tile.level; k + PIECE_LOOPS < s->depth; k++) {
            const kiln_facts_loop *loop = &facts->loop[s->path[k]];
            for (uint32_t i = 0; i < a->index[piece->dim].term_count; i++)
                if (a->index[piece->dim].term[i].var == loop->var) values *= (double)loop->extent;
        }
        most = fmax(most, fmin(values, (double)piece->xor_modulus));
    }
    return most - 1;
}

/* Whether its address is no sum of digits. */
static bool is_odd(const kiln_facts_access *a) {
    bool odd = false;
    for (uint32_t d = 0; d < a->rank; d++) odd |= !a->index[d].exact;
    return odd;
}

void kiln_gpu_held_add(const kiln_facts *facts, const kiln_facts_statement *s,
                       kiln_gpu_held *held) {
    const kiln_seen_by writes = kiln_grid_seen_by(facts, s->access[0].buffer);
    const bool by_threads = s->intrinsic && kiln_intrinsic_of_threads(s->intrinsic);
    double live = 0, straight = 0, moved = 0;
    held->by_threads |= by_threads;
    held->by_groups |= by_threads && s->intrinsic->owner == KILN_INTRINSIC_GROUP;
    held->shares |= s->reduction || writes != KILN_SEEN_BY_DEVICE;
    for (uint32_t i = 0; i < s->access_count; i++) {
        const kiln_facts_access *a = &s->access[i];
        held->odd += is_odd(a);
        const kiln_seen_by seen = kiln_grid_seen_by(facts, a->buffer);
        if (by_threads && !held->by_groups && seen == KILN_SEEN_BY_GROUP)
            held->addresses += xor_addresses(facts, s, a);
        if (!a->loads || !a->in_memory || seen == KILN_SEEN_BY_THREAD) continue;
        const double words =
            words_of(a) * kiln_grid_virtual_threads(facts, s, a, s->tile.level, true);
        straight += a->elements[s->tile.level] * words;
        moved += lanes_of(facts, s, a) * words;
        if (s->reduction && !by_threads) live += live_elements(facts, s, a) * words;
    }
    held->live = fmax(held->live, live);
    held->straight = fmax(held->straight, straight * unrolled_turns(facts, s));
    held->moved = fmax(held->moved, moved);
}

double kiln_gpu_fragment_words(const kiln_intrinsic *intrinsic, bool rows, double elements,
                               uint32_t element_bytes) {
    if (intrinsic->owner != KILN_INTRINSIC_WARP) return 0;
    const double held = rows ? KILN_WARP_ROWS : KILN_WARP_COLUMNS; /* of one instruction */
    const double words = (rows ? intrinsic->rows : intrinsic->lanes) * intrinsic->steps *
                         element_bytes / 4.0 / KILN_WARP_LANES;
    const double pieces = elements / held;
    return (rows ? fmin(pieces, ROWS_HELD) : pieces) * words;
}

void kiln_gpu_held_fetch(kiln_gpu_held *held, const kiln_facts_access *a, double turns,
                         double elements, double width, double stages) {
    /* No two loads share a register. */
    const double words = turns * fmax(elements * a->element_bytes / 4.0, 1),
                 odd_loads = is_odd(a) ? turns * elements / width : 0;
    if (stages == 1) held->fetched += words;
    if (stages == 2) {
        held->staged += words;
        held->windows += a->conditional ? turns : 0;
        held->places += odd_loads;
    }
    if (stages > 2) held->copy_places += odd_loads;
}

/* ---- registers from the assembler
 * ---------------------------------------------------------------- */

static double needed_of(const kiln_gpu_held *h) {
    if (h->by_threads)
        return (h->by_groups ? BESIDE_OF_GROUPS : BESIDE_OF_WARPS) + h->sums +
               STEP_SHARE * h->operands + h->staged + WINDOW_CARRIED * h->windows + h->addresses +
               COPY_SHARE * h->copies;
    if (!h->shares) return BESIDE_OF_MOVES + MOVED_SHARE * h->moved + MOVED_ODD * (h->odd > 0);
    return BESIDE + h->sums + h->live + STEP_SHARE * fmin(h->operands, STEP_HELD) + h->staged +
           PLACE * h->places + COPY_PLACE * fmin(h->copy_places, FETCHED_MOST) +
           FETCHED_SHARE * fmin(h->fetched, FETCHED_MOST);
}

static double in_steps(double registers) {
    return floor(registers / REGISTER_STEP) * REGISTER_STEP;
}

void kiln_gpu_register_inputs(const kiln_gpu_held *held, const kiln_gpu *gpu, double threads,
                              double out_input[KILN_GPU_REGISTER_INPUT_COUNT]) {
    const double group = ceil(threads / gpu->warp) * gpu->warp,
                 needed = fmax(needed_of(held), BESIDE_OF_MOVES),
                 given = ceil(needed / REGISTER_STEP) * REGISTER_STEP,
                 most = fmax(fmin(gpu->unit_groups, floor(gpu->unit_threads / group)), 1),
                 fit = fmax(fmin(most, floor(gpu->unit_registers / (given * group))), 1),
                 thread_most = gpu->thread_registers;
    const double input[] = {
        [KILN_GPU_REGISTER_NEEDED] = needed,
        [KILN_GPU_REGISTER_THREADS] = threads,
        [KILN_GPU_REGISTER_MOST] = most,
        [KILN_GPU_REGISTER_FIT] = fit,
        [KILN_GPU_REGISTER_FREE] = fmin(in_steps(gpu->unit_registers / (fit * group)), thread_most),
        [KILN_GPU_REGISTER_ALONE] = fmin(in_steps(gpu->unit_registers / group), thread_most),
        [KILN_GPU_REGISTER_STAGES] = held->stages,
        [KILN_GPU_REGISTER_SUMS] = held->sums,
        [KILN_GPU_REGISTER_STRAIGHT] = held->straight,
        [KILN_GPU_REGISTER_STAGED] = held->staged,
        [KILN_GPU_REGISTER_OPERANDS] = held->operands,
        [KILN_GPU_REGISTER_BY_THREADS] = held->by_threads,
        [KILN_GPU_REGISTER_BY_GROUPS] = held->by_groups,
        [KILN_GPU_REGISTER_SHARES] = held->shares,
    };
    memcpy(out_input, input, sizeof input);
}

/* Rows of registers_gpu_trees.def. Trees are in preorder: behind a split is its side that is not
 * above the limit, and `further` rows behind it the other side. */
typedef struct tree_row {
    uint8_t input; /* kiln_gpu_register_input; KILN_GPU_REGISTER_INPUT_COUNT: a leaf */
    uint8_t further;
    double value; /* the limit; of leaves registers */
} tree_row;

#define TREE(rows)
#define SPLIT(name, limit, further) {KILN_GPU_REGISTER_##name, further, limit},
#define GIVEN(registers) {KILN_GPU_REGISTER_INPUT_COUNT, 0, registers},
static const tree_row row_table[] = {
#include "compiler-core/cost/registers_gpu_trees.def"
};
#undef TREE
#undef SPLIT
#undef GIVEN

#define TREE(rows) rows,
#define SPLIT(name, limit, further)
#define GIVEN(registers)
static const uint16_t tree_rows[] = {
#include "compiler-core/cost/registers_gpu_trees.def"
};
#undef TREE
#undef SPLIT
#undef GIVEN

static double leaf_of(const tree_row *at, const double *input) {
    while (at->input < KILN_GPU_REGISTER_INPUT_COUNT)
        at += input[at->input] <= at->value ? 1 : at->further;
    return at->value;
}

/* The median of the trees. */
static double given_by_trees(const double *input) {
    double leaf[KILN_ARRAY_COUNT(tree_rows)];
    const tree_row *tree = row_table;
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(tree_rows); tree += tree_rows[i++]) {
        const double registers = leaf_of(tree, input);
        uint32_t at = i;
        for (; at > 0 && leaf[at - 1] > registers; at--) leaf[at] = leaf[at - 1];
        leaf[at] = registers;
    }
    return leaf[KILN_ARRAY_COUNT(tree_rows) / 2];
}

kiln_gpu_registers kiln_gpu_registers_of(const kiln_gpu_held *held, const kiln_gpu *gpu,
                                         double threads) {
    double input[KILN_GPU_REGISTER_INPUT_COUNT];
    kiln_gpu_register_inputs(held, gpu, threads, input);
    const double group = ceil(threads / gpu->warp) * gpu->warp,
                 resident = in_steps(gpu->unit_registers / (fmax(held->resident, 1) * group));
    return (kiln_gpu_registers){
        .needed = input[KILN_GPU_REGISTER_NEEDED],
        .expected = fmin(given_by_trees(input), fmin(resident, gpu->thread_registers))};
}
