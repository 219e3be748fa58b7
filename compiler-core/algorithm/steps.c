#include "compiler-core/algorithm/steps.h"

int kiln_steps_dim_moved(const kiln_program *p, kiln_expr load, kiln_var var) {
    int found = -1;
    for (uint32_t d = 0; d < kiln_expr_get(p, load)->operand_count; d++) {
        if (!kiln_expr_uses_var(p, kiln_expr_operand(p, load, d), var)) continue;
        if (found >= 0) return -1;
        found = (int)d;
    }
    return found;
}

int kiln_steps_dim_along(const kiln_program *p, kiln_expr load, kiln_var var) {
    const int d = kiln_steps_dim_moved(p, load, var);
    return d >= 0 && kiln_expr_get(p, kiln_expr_operand(p, load, (uint32_t)d))->op == KILN_EXPR_VAR
               ? d
               : -1;
}

kiln_steps kiln_steps_find(const kiln_program *p, kiln_block block, kiln_expr data,
                           kiln_expr weights, int64_t at_once) {
    const kiln_block_info *b = &p->block.data[block];
    kiln_steps steps = {.padded = -1};
    int64_t longest = 1;
    for (uint32_t i = 0; i < b->iter_count; i++) {
        const int of_data = kiln_steps_dim_along(p, data, b->iter[i].var),
                  of_weights = kiln_steps_dim_along(p, weights, b->iter[i].var);
        if (!b->iter[i].reduce || b->iter[i].extent <= longest || of_data < 0 || of_weights < 0)
            continue;
        longest = b->iter[i].extent;
        steps.padded = longest % at_once ? (int)i : -1;
        steps.extent = (longest + at_once - 1) / at_once * at_once;
        steps.data_dim = (uint32_t)of_data;
        steps.weights_dim = (uint32_t)of_weights;
    }
    return steps;
}

kiln_expr kiln_steps_or_zero(kiln_program *p, kiln_expr value, kiln_expr index, int64_t extent) {
    kiln_expr inside = kiln_expr_binary(p, KILN_EXPR_LT, index, kiln_expr_index(p, extent));
    const kiln_dtype dtype = (kiln_dtype)kiln_expr_get(p, value)->dtype;
    return kiln_expr_select(p, inside, value, kiln_expr_zero(p, dtype));
}

void kiln_steps_extend(kiln_program *p, kiln_block block, const kiln_steps *steps) {
    if (steps->padded < 0) return;
    kiln_iter *iter = &p->block.data[block].iter[steps->padded];
    iter->extent = steps->extent;
    kiln_var_set_range(p, iter->var, 0, iter->extent - 1);
}
