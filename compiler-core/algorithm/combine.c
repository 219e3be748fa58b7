/* Sums and choices of a few values, and blocks that become them. */
#include "compiler-core/algorithm/combine.h"

kiln_expr kiln_combine(kiln_program *p, const double *coefficient, const kiln_expr *value,
                       int64_t count) {
    kiln_expr sum = 0;
    for (int pass = 0; pass < 2; pass++) /* positive terms first, so that none is negated */
        for (int64_t i = 0; i < count; i++) {
            double c = coefficient[i];
            if (c == 0 || (c < 0) != pass) continue;
            kiln_dtype dtype = (kiln_dtype)kiln_expr_get(p, value[i])->dtype;
            double size = c < 0 ? -c : c;
            kiln_expr term = size == 1 ? value[i]
                                       : kiln_expr_binary(p, KILN_EXPR_MUL, value[i],
                                                          kiln_expr_float(p, dtype, size));
            if (!sum && c < 0) sum = kiln_expr_zero(p, dtype);
            sum =
                sum ? kiln_expr_binary(p, c < 0 ? KILN_EXPR_SUB : KILN_EXPR_ADD, sum, term) : term;
        }
    return sum;
}

kiln_expr kiln_pick(kiln_program *p, kiln_expr which, const kiln_expr *value, int64_t count) {
    kiln_expr picked = value[count - 1];
    for (int64_t i = count - 2; i >= 0; i--) {
        kiln_expr is = kiln_expr_binary(p, KILN_EXPR_EQ, which, kiln_expr_index(p, i));
        picked = kiln_expr_select(p, is, value[i], picked);
    }
    return picked;
}

void kiln_block_replace_sum(kiln_program *p, kiln_block block, kiln_expr value) {
    kiln_block_info *b = &p->block.data[block];
    if (b->init) value = kiln_expr_binary(p, KILN_EXPR_ADD, b->init, value);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < b->iter_count; i++)
        if (!b->iter[i].reduce) b->iter[kept++] = b->iter[i];
    b->iter_count = kept;
    b->combiner = KILN_COMBINE_NONE;
    b->value = value;
    b->init = 0;
}
