/* Strassen's products of matrices of blocks: 2 x 2 blocks by 2 x 2 blocks in seven products instead
 * of eight, for sums of products of data and weights (products of matrices, convolutions with one
 * tap).
 *
 *     A[i] = sums of the data's blocks       i: which product
 *     B[i] = sums of the weights' blocks     once, when they are loaded
 *     M[i] = A[i] B[i]                       sums over half of the steps each
 *     C    = sums of the M[i], block by block
 *
 * Blocks of rows are even and odd rows, so that a few rows of A and of M belong to a few rows of
 * the data and of C, and are in caches together. Blocks of columns and of steps are halves, so that
 * vectors along them stay vectors.
 *
 * Error: with all magnitudes equal, and every rounding in the same direction, an element of C[0][0]
 * adds up products of 12/2 times the direct form's magnitude over K/2 + 5 roundings instead of K:
 * 3 (1 + 10 / K) of the task's bound; below 4 from 30 steps on. The error of an element much
 * smaller than those in the other rows and columns of its blocks is as large as theirs.
 *
 * Source: Strassen, Gaussian Elimination is not Optimal (Numerische Mathematik 13, 1969). */
#include "compiler-core/algorithm/algorithm.h"
#include "compiler-core/algorithm/combine.h"
#include "compiler-core/algorithm/narrow.h"
#include "compiler-core/algorithm/sums.h"

#define PRODUCTS 7
#define BLOCKS 4 /* 2 x 2, row by row */
/* Below this (columns * steps / (columns + steps)) adding blocks costs as much as a product saves:
 * about 1.5 cycles of a vector for each of the data's and of the results' elements, 16 lanes. */
#define SIZE_MIN 100
#define ROWS_MIN 32 /* fewer do not pay for reading seven quarters of the weights */

/* Coefficients of the data's and of the weights' blocks for each product, and of products for each
 * block of the results. */
static const double of_data[PRODUCTS][BLOCKS] = {{1, 0, 0, 1}, {0, 0, 1, 1}, {1, 0, 0, 0},
                                                 {0, 0, 0, 1}, {1, 1, 0, 0}, {-1, 0, 1, 0},
                                                 {0, 1, 0, -1}},
                    of_weights[PRODUCTS][BLOCKS] = {{1, 0, 0, 1},  {1, 0, 0, 0}, {0, 1, 0, -1},
                                                    {-1, 0, 1, 0}, {0, 0, 0, 1}, {1, 1, 0, 0},
                                                    {0, 0, 1, 1}},
                    of_products[BLOCKS][PRODUCTS] = {{1, 0, 0, 1, -1, 0, 1},
                                                     {0, 0, 1, 0, 1, 0, 0},
                                                     {0, 1, 0, 1, 0, 0, 0},
                                                     {1, -1, 1, 0, 0, 1, 0}};

/* A sum of products, and its divided iterators: over rows, which index the data, over columns,
 * which index the weights, and over steps, which index both. */
typedef struct site {
    kiln_block block;
    kiln_expr data, weights; /* loads */
    int rows, columns, steps;
} site;

/* ---- finding one ---- */

static const kiln_iter *iter_at(const kiln_program *p, const site *s, int i) {
    return &p->block.data[s->block].iter[i];
}

static bool uses(const kiln_program *p, const site *s, kiln_expr load, int i) {
    return kiln_expr_uses_var(p, load, iter_at(p, s, i)->var);
}

static void take_longer(const kiln_program *p, const site *s, int i, int *best) {
    if (*best < 0 || iter_at(p, s, i)->extent > iter_at(p, s, *best)->extent) *best = i;
}

static bool match(const kiln_program *p, kiln_block block, site *s) {
    const kiln_block_info *b = &p->block.data[block];
    uint32_t weight;
    *s = (site){.block = block, .rows = -1, .columns = -1, .steps = -1};
    if (!kiln_narrow_finds(p, block, &weight) || b->index_count + 1 > KILN_RANK_MAX ||
        b->iter_count + 1 > KILN_BLOCK_ITERS_MAX)
        return false;
    s->data = kiln_expr_operand(p, b->value, 1 - weight);
    s->weights = kiln_expr_operand(p, b->value, weight);
    for (int i = 0; i < (int)b->iter_count; i++) {
        const bool data = uses(p, s, s->data, i), weights = uses(p, s, s->weights, i);
        if (b->iter[i].extent == 1) continue;
        if (b->iter[i].reduce && (s->steps >= 0 || !data || !weights)) return false;
        if (b->iter[i].extent % 2 != 0) continue;
        if (b->iter[i].reduce) s->steps = i;
        if (!b->iter[i].reduce && data && !weights) take_longer(p, s, i, &s->rows);
        if (!b->iter[i].reduce && weights && !data) take_longer(p, s, i, &s->columns);
    }
    if (s->rows < 0 || s->columns < 0 || s->steps < 0) return false;
    const int64_t columns = iter_at(p, s, s->columns)->extent,
                  steps = iter_at(p, s, s->steps)->extent;
    return columns * steps >= SIZE_MIN * (columns + steps) &&
           kiln_narrow_reads(p, block, s->weights) >= ROWS_MIN;
}

/* ---- building ---- */

/* A block named after the sum, over products, then over the iterators of the sum in `mask`; divided
 * ones run over a block. */
typedef struct part {
    kiln_block id;
    kiln_buffer buffer;
    kiln_expr product;
    kiln_expr iter[KILN_BLOCK_ITERS_MAX]; /* by the sum's iterators; 0: none */
    uint32_t rank;
    kiln_expr index[KILN_RANK_MAX]; /* [rank] of the buffer */
} part;

static bool is_divided(const site *s, int i) {
    return i == s->rows || i == s->columns || i == s->steps;
}

static uint32_t iters_of(const kiln_program *p, const site *s, kiln_expr load) {
    uint32_t mask = 0;
    for (int i = 0; i < (int)p->block.data[s->block].iter_count; i++)
        if (uses(p, s, load, i) && iter_at(p, s, i)->extent > 1) mask |= 1u << i;
    return mask;
}

/* `sums`: it adds up over reduce iterators; else it keeps them. */
static part begin(kiln_program *p, const site *s, const char *suffix, uint32_t mask, bool sums) {
    const kiln_str sum = p->block.data[s->block].name;
    kiln_str name = kiln_str_printf(p->arena, "%.*s.%s", KILN_STR_ARG(sum), suffix);
    part made = {.id = kiln_block_create(p, name), .rank = 1};
    made.product = kiln_block_add_iter(p, made.id, "p", PRODUCTS, false);
    made.index[0] = made.product;
    kiln_shape shape = {.rank = 1, .dim = {PRODUCTS}};
    for (uint32_t reduce = 0; reduce < 2; reduce++) /* spatial iterators first */
        for (int i = 0; i < (int)p->block.data[s->block].iter_count; i++) {
            const kiln_iter from = *iter_at(p, s, i);
            const int64_t extent = is_divided(s, i) ? from.extent / 2 : from.extent;
            if (!(mask >> i & 1) || from.reduce != (reduce != 0)) continue;
            made.iter[i] =
                kiln_block_add_iter(p, made.id, kiln_str_dup(p->arena, kiln_iter_name(p, &from)),
                                    extent, from.reduce && sums);
            if (from.reduce && sums) continue;
            made.index[made.rank++] = made.iter[i];
            shape.dim[shape.rank++] = extent;
        }
    made.buffer = kiln_buffer_create(p, name, KILN_F32, KILN_ROLE_TEMP, &shape);
    return made;
}

/* The sum's iterator `i` in a part, for block `which`. */
static kiln_expr in_block(kiln_program *p, const site *s, const part *at, int i, int64_t which) {
    const int64_t extent = iter_at(p, s, i)->extent;
    if (!at->iter[i]) return kiln_expr_index(p, 0);
    if (i != s->rows)
        return kiln_expr_binary(p, KILN_EXPR_ADD, at->iter[i],
                                kiln_expr_index(p, which * (extent / 2)));
    const kiln_expr even = kiln_expr_binary(p, KILN_EXPR_MUL, at->iter[i], kiln_expr_index(p, 2));
    return kiln_expr_binary(p, KILN_EXPR_ADD, even, kiln_expr_index(p, which));
}

/* The sums of blocks of `load`; `row` and `column` are the divided iterators of its blocks. */
static part make_sums(kiln_program *p, const site *s, const char *suffix, kiln_expr load, int row,
                      int column, const double (*of_blocks)[BLOCKS]) {
    const part made = begin(p, s, suffix, iters_of(p, s, load), false);
    kiln_expr *to = KILN_ARENA_ARRAY(p->arena, kiln_expr, p->var.count);
    kiln_expr element[BLOCKS], sum[PRODUCTS];
    for (int i = 0; i < (int)p->block.data[s->block].iter_count; i++)
        to[iter_at(p, s, i)->var] = made.iter[i] ? made.iter[i] : kiln_expr_index(p, 0);
    for (int64_t b = 0; b < BLOCKS; b++) {
        to[iter_at(p, s, row)->var] = in_block(p, s, &made, row, b / 2);
        to[iter_at(p, s, column)->var] = in_block(p, s, &made, column, b % 2);
        element[b] = kiln_expr_substitute(p, load, to);
    }
    for (int64_t i = 0; i < PRODUCTS; i++) sum[i] = kiln_combine(p, of_blocks[i], element, BLOCKS);
    kiln_block_set(p, made.id, made.buffer, made.index, made.rank, KILN_COMBINE_NONE,
                   kiln_pick(p, made.product, sum, PRODUCTS), 0);
    return made;
}

/* The element of a part at the iterators of another. */
static kiln_expr load_part(kiln_program *p, const part *of, kiln_expr product,
                           const kiln_expr *iter) {
    kiln_expr index[KILN_RANK_MAX] = {product};
    for (uint32_t d = 1; d < of->rank; d++)
        for (uint32_t i = 0; i < KILN_BLOCK_ITERS_MAX; i++)
            if (of->iter[i] == of->index[d]) index[d] = iter[i];
    return kiln_expr_load(p, of->buffer, index, of->rank);
}

static part make_products(kiln_program *p, const site *s, const part *data, const part *weights) {
    const uint32_t mask = iters_of(p, s, s->data) | iters_of(p, s, s->weights);
    const part made = begin(p, s, "products", mask, true);
    const kiln_expr product =
        kiln_expr_binary(p, KILN_EXPR_MUL, load_part(p, data, made.product, made.iter),
                         load_part(p, weights, made.product, made.iter));
    kiln_block_set(p, made.id, made.buffer, made.index, made.rank, KILN_COMBINE_SUM, product, 0);
    return made;
}

/* Makes the sum's block compute its results from the products. */
static void take_results(kiln_program *p, const site *s, const part *products) {
    const int64_t half = iter_at(p, s, s->columns)->extent / 2;
    kiln_expr iter[KILN_BLOCK_ITERS_MAX] = {0}, product[PRODUCTS], line[2], block[2];
    for (int i = 0; i < (int)p->block.data[s->block].iter_count; i++)
        iter[i] = kiln_expr_var(p, iter_at(p, s, i)->var);
    const kiln_expr two = kiln_expr_index(p, 2), columns = kiln_expr_index(p, half),
                    row = kiln_expr_binary(p, KILN_EXPR_FLOORMOD, iter[s->rows], two),
                    column = kiln_expr_binary(p, KILN_EXPR_FLOORDIV, iter[s->columns], columns);
    iter[s->rows] = kiln_expr_binary(p, KILN_EXPR_FLOORDIV, iter[s->rows], two);
    iter[s->columns] = kiln_expr_binary(p, KILN_EXPR_FLOORMOD, iter[s->columns], columns);
    for (int64_t i = 0; i < PRODUCTS; i++)
        product[i] = load_part(p, products, kiln_expr_index(p, i), iter);
    for (int64_t r = 0; r < 2; r++) {
        for (int64_t c = 0; c < 2; c++)
            block[c] = kiln_combine(p, of_products[2 * r + c], product, PRODUCTS);
        line[r] = kiln_pick(p, column, block, 2);
    }
    kiln_block_replace_sum(p, s->block, kiln_pick(p, row, line, 2));
}

kiln_program *kiln_strassen(const kiln_program *te, kiln_arena *arena) {
    kiln_program *p = kiln_program_copy(te, arena);
    site s;
    kiln_block block = 1;
    while (block < p->block.count && !match(p, block, &s)) block++;
    if (block == p->block.count) return NULL;
    const uint32_t first = p->block.count;
    const part data = make_sums(p, &s, "data", s.data, s.rows, s.steps, of_data),
               weights = make_sums(p, &s, "weights", s.weights, s.steps, s.columns, of_weights),
               products = make_products(p, &s, &data, &weights);
    take_results(p, &s, &products);
    kiln_blocks_put_around(p, block, p->block.count - first, 0);
    return p;
}
