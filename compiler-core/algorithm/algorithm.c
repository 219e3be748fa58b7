/* The table of algorithms, and how many operations an alternative executes. */
#include "compiler-core/algorithm/algorithm.h"

#include "base/macros.h"
#include "compiler-core/facts/pattern.h"
#include "compiler-core/ir/reference.h"

typedef enum default_by {
#define X(name, instruction, share, steps, images, doc) BY_##name,
#include "compiler-core/algorithm/defaults.def"
#undef X
} default_by;

static const kiln_algorithm_default default_table[] = {
#define X(name, instruction, share, steps, images, doc) \
    [BY_##name] = {instruction, share, steps, images},
#include "compiler-core/algorithm/defaults.def"
#undef X
};

static const struct {
    const char *name;
    kiln_precision precision;
    double roundoff, error_factor, relative_error;
    default_by by;
    kiln_algorithm_function apply;
} algorithm_table[] = {
    [KILN_ALGORITHM_DIRECT] = {"direct", KILN_PRECISION_F32, 0, 1, 0, BY_INSTRUCTION,
                               kiln_program_copy},
#define X(name, text, precision, roundoff, error_factor, relative_error, by, function)        \
    [KILN_ALGORITHM_##name] = {                                                               \
        text,    KILN_PRECISION_##precision, roundoff, error_factor, relative_error, BY_##by, \
        function},
#include "compiler-core/algorithm/algorithms.def"
#undef X
};

const char *kiln_algorithm_name(kiln_algorithm algorithm) {
    return algorithm_table[algorithm].name;
}

kiln_algorithm kiln_algorithm_find(kiln_str name) {
    uint32_t i = 0;
    while (i < KILN_ALGORITHM_COUNT && !kiln_str_is(name, algorithm_table[i].name)) i++;
    return (kiln_algorithm)i;
}

double kiln_algorithm_error_factor(kiln_algorithm algorithm, const kiln_program *te) {
    const double factor = algorithm_table[algorithm].error_factor;
    const double roundoff = algorithm_table[algorithm].roundoff;
    return roundoff > 0 ? 1 + factor * roundoff / kiln_te_least_bound(te) : factor;
}

double kiln_algorithm_roundoff(kiln_algorithm algorithm) {
    return algorithm_table[algorithm].roundoff;
}

bool kiln_algorithm_rounds_both(kiln_algorithm algorithm) {
    return algorithm_table[algorithm].roundoff > 0 && algorithm_table[algorithm].error_factor > 1;
}

kiln_precision kiln_algorithm_precision(kiln_algorithm algorithm) {
    return algorithm_table[algorithm].precision;
}

double kiln_algorithm_relative_error(kiln_algorithm algorithm) {
    return algorithm_table[algorithm].relative_error;
}

const kiln_algorithm_default *kiln_algorithm_default_of(kiln_algorithm algorithm) {
    return &default_table[algorithm_table[algorithm].by];
}

bool kiln_algorithm_is_allowed(kiln_algorithm algorithm, const kiln_accuracy *accuracy) {
    if (kiln_algorithm_relative_error(algorithm) == 0) return true;
    const kiln_precision precision = kiln_algorithm_precision(algorithm);
    return !accuracy->exact &&
           kiln_algorithm_relative_error(algorithm) <= kiln_accuracy_error_max(accuracy) &&
           (precision == KILN_PRECISION_F32 || accuracy->precision == KILN_PRECISION_AUTO ||
            precision == accuracy->precision);
}

kiln_str kiln_algorithm_allowed(const kiln_accuracy *accuracy, kiln_arena *arena) {
    const char *list = kiln_algorithm_name(KILN_ALGORITHM_DIRECT);
    for (uint32_t a = KILN_ALGORITHM_DIRECT + 1; a < KILN_ALGORITHM_COUNT; a++)
        if (kiln_algorithm_is_allowed((kiln_algorithm)a, accuracy))
            list = kiln_arena_printf(arena, "%s,%s", list, kiln_algorithm_name((kiln_algorithm)a));
    return kiln_str_from(list);
}

kiln_program *kiln_algorithm_apply(kiln_algorithm algorithm, const kiln_program *te,
                                   kiln_arena *arena) {
    return algorithm_table[algorithm].apply(te, arena);
}

/* ---- executed operations ---- */

typedef struct inputs {
    const bool *is_constant; /* per buffer */
    bool others;             /* loads of values that change from run to run */
} inputs;

static void look_at_load(kiln_program *p, kiln_expr load, void *context) {
    inputs *in = context;
    in->others |= !in->is_constant[kiln_expr_get(p, load)->payload.id];
}

/* Removes every block except the reductions that run each time. */
static void keep_reductions(kiln_program *p) {
    bool *is_constant = KILN_ARENA_ARRAY(p->arena, bool, p->buffer.count);
    for (kiln_buffer b = 1; b < p->buffer.count; b++)
        is_constant[b] = p->buffer.data[b].role == KILN_ROLE_CONSTANT;
    for (kiln_block b = 1; b < p->block.count; b++) {
        inputs in = {.is_constant = is_constant};
        kiln_expr_visit_loads(p, p->block.data[b].value, 0, look_at_load, &in);
        is_constant[p->block.data[b].buffer] = !in.others;
        p->block.data[b].removed |= !in.others || !kiln_block_is_reduction(p, b);
    }
}

/* A reduction that is no sum of products is counted like one: two operations a point. The peak is
 * that of multiply-adds; processors add and compare in other units. */
static void count_as_products(kiln_program *p, double *flops) {
    for (kiln_block b = 1; b < p->block.count; b++) {
        kiln_pattern pattern;
        if (!kiln_pattern_of(p, b, &pattern) || !pattern.contracts || pattern.multiplies) continue;
        p->block.data[b].removed = true;
        *flops += 2 * kiln_pattern_work(p, b);
    }
}

double kiln_algorithm_executed_flops(kiln_algorithm algorithm, const kiln_program *alternative) {
    kiln_arena scratch;
    kiln_arena_init(&scratch, (size_t)1 << 16);
    kiln_program *p = kiln_program_copy(alternative, &scratch);
    double flops = 0;
    if (algorithm == KILN_ALGORITHM_DIRECT)
        count_as_products(p, &flops);
    else
        keep_reductions(p);
    flops += kiln_program_flops(p);
    kiln_arena_deinit(&scratch);
    return flops;
}

/* Instructions that multiply bf16 take two elements in place of one float; those on f16 (FMLAL)
 * take one. */
static double products_at_once(kiln_algorithm algorithm) {
    return kiln_algorithm_rounds_both(algorithm) &&
                   kiln_algorithm_precision(algorithm) == KILN_PRECISION_BF16
               ? 2
               : 1;
}

double kiln_algorithm_least_flops(const kiln_program *te, const kiln_accuracy *accuracy) {
    kiln_arena scratch;
    kiln_arena_init(&scratch, (size_t)1 << 16);
    double least = kiln_algorithm_executed_flops(KILN_ALGORITHM_DIRECT, te);
    for (uint32_t a = 0; a < KILN_ALGORITHM_COUNT; a++) {
        if (!kiln_algorithm_is_allowed((kiln_algorithm)a, accuracy)) continue;
        const kiln_program *alternative = kiln_algorithm_apply((kiln_algorithm)a, te, &scratch);
        if (alternative)
            least = KILN_MIN(least, kiln_algorithm_executed_flops((kiln_algorithm)a, alternative) /
                                        products_at_once((kiln_algorithm)a));
    }
    kiln_arena_deinit(&scratch);
    return least;
}
