#include "tests/support/emulate_group.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/dtype.h"
#include "base/vec.h"

#define ROWS 64
#define STEPS 16
#define SUMS_MAX (EMULATE_GROUP_COLUMNS_MAX / 2)

/* An instruction under way, as one thread began it. */
typedef struct product {
    struct emulate_wgmma what;
    unsigned line, group; /* number of commits before it */
    float *sum[SUMS_MAX];
    float before[SUMS_MAX]; /* what the sums were, but where an instruction before it has them */
    bool follows;
} product;

struct emulate_products {
    kiln_arena *arena;
    KILN_VEC(product) product;
    unsigned commits;
    bool is_fenced; /* since its sums were free */
};

emulate_products *emulate_products_create(kiln_arena *arena) {
    emulate_products *t = KILN_ARENA_NEW(arena, emulate_products);
    *t = (emulate_products){.arena = arena};
    return t;
}

void emulate_products_reset(emulate_products *t) {
    t->product.count = 0;
    t->commits = 0;
    t->is_fenced = false;
}

/* ---- one thread ------------------------------------------------------------------------------ */

/* Keeps what the sums are and makes them NaN: nobody may touch them until they land. */
static void take_sums(product *x) {
    for (uint32_t i = 0; i < x->what.columns / 2; i++) {
        x->before[i] = *x->sum[i];
        *x->sum[i] = NAN;
    }
    x->follows = false;
}

const char *emulate_products_begin(emulate_products *t, const struct emulate_wgmma *what,
                                   unsigned line) {
    product x = {.what = *what, .line = line, .group = t->commits};
    memcpy(x.sum, what->sum, what->columns / 2 * sizeof *x.sum);
    for (uint32_t i = 0; i < t->product.count; i++) {
        const product *other = &t->product.data[i];
        if (other->sum[0] == x.sum[0]) x.follows = true;
        if (other->sum[0] == x.sum[0] && other->what.columns != what->columns)
            return "an instruction of another shape adds to its sums";
    }
    if (!x.follows && !t->is_fenced) return "no wgmma.fence stands before it";
    if (!x.follows) take_sums(&x);
    kiln_vec_push_in(t->arena, &t->product, x);
    return NULL;
}

void emulate_products_fence(emulate_products *t) { t->is_fenced = true; }
void emulate_products_commit(emulate_products *t) { t->commits++; }

/* ---- operands -------------------------------------------------------------------------------- */

/* Fields of a descriptor: PTX ISA, "Matrix-descriptor-encode(x) = (x & 0x3FFFF) >> 4". */
typedef struct matrix {
    uint32_t start, leading, stride, base_offset, swizzle;
} matrix;

static matrix decode(uint64_t bits) {
    return (matrix){.start = (uint32_t)(bits & 0x3fff) << 4,
                    .leading = (uint32_t)(bits >> 16 & 0x3fff) << 4,
                    .stride = (uint32_t)(bits >> 32 & 0x3fff) << 4,
                    .base_offset = (uint32_t)(bits >> 49 & 7),
                    .swizzle = (uint32_t)(bits >> 62)};
}

/* Where an element of two bytes lies. In units of 16 bytes a matrix whose rows hold steps is made
 * of atoms of 8 rows of 8 units; one whose rows hold `outer` of atoms of 8 steps of 8 units. Mode 1
 * exchanges bits 4 to 6 of an address by bits 7 to 9. */
static uint32_t offset_of(const matrix *m, bool transposed, uint32_t outer, uint32_t step) {
    uint32_t at = m->start;
    if (transposed)
        at += outer / 64 * m->leading + step / 8 * m->stride + step % 8 * 128 + outer % 64 * 2;
    else
        at += outer / 8 * m->stride + outer % 8 * 128 + step * 2;
    return at ^ (at >> 7 & 7) << 4;
}

static const char *read_matrix(const struct emulate_wgmma *what, uint32_t operand, uint32_t count,
                               const char *shared, size_t bytes,
                               float out[EMULATE_GROUP_COLUMNS_MAX][STEPS]) {
    const matrix m = decode(what->matrix[operand]);
    if (m.swizzle != 1) return "a descriptor names another mode than 128-byte swizzle";
    if (m.base_offset != 0) return "a descriptor has a base offset";
    for (uint32_t outer = 0; outer < count; outer++)
        for (uint32_t step = 0; step < STEPS; step++) {
            const uint32_t at = offset_of(&m, what->transposed[operand], outer, step);
            uint16_t half;
            if (at + sizeof half > bytes) return "a matrix lies behind the end of shared memory";
            memcpy(&half, shared + at, sizeof half);
            out[outer][step] = what->is_bf16 ? kiln_bf16_to_f32(half) : kiln_f16_to_f32(half);
        }
    return NULL;
}

/* ---- a warp group ---------------------------------------------------------------------------- */

static bool same(const product *a, const product *b) {
    return a->line == b->line && a->what.columns == b->what.columns &&
           a->what.is_bf16 == b->what.is_bf16 && a->group == b->group &&
           memcmp(a->what.matrix, b->what.matrix, sizeof a->what.matrix) == 0 &&
           memcmp(a->what.transposed, b->what.transposed, sizeof a->what.transposed) == 0;
}

/* Accumulator d[i] of a thread: row 16 * warp + lane / 4 + 8 * (i / 2 % 2), column 8 * (i / 4) +
 * 2 * (lane % 4) + i % 2 ("Register Fragments and Shared Memory Matrix Layouts", figure of D). */
static const char *land(emulate_products *const thread[EMULATE_GROUP], uint32_t number,
                        const char *shared, size_t bytes) {
    static float a[EMULATE_GROUP_COLUMNS_MAX][STEPS], b[EMULATE_GROUP_COLUMNS_MAX][STEPS];
    const struct emulate_wgmma *what = &thread[0]->product.data[number].what;
    const char *wrong = read_matrix(what, 0, ROWS, shared, bytes, a);
    if (!wrong) wrong = read_matrix(what, 1, what->columns, shared, bytes, b);
    for (uint32_t t = 0; t < EMULATE_GROUP && !wrong; t++) {
        const product *x = &thread[t]->product.data[number];
        const uint32_t lane = t % EMULATE_WARP;
        for (uint32_t i = 0; i < what->columns / 2; i++) {
            const uint32_t row = t / EMULATE_WARP * 16 + lane / 4 + i / 2 % 2 * 8,
                           column = i / 4 * 8 + lane % 4 * 2 + i % 2;
            float sum = x->follows ? *x->sum[i] : x->before[i];
            for (uint32_t k = 0; k < STEPS; k++) sum += a[row][k] * b[column][k];
            *x->sum[i] = sum;
        }
    }
    return wrong;
}

/* Takes what has landed out; sums that others in flight follow are theirs again. */
static void remove_landed(emulate_products *t, uint32_t count) {
    t->product.count -= count;
    if (t->product.count == 0) t->is_fenced = false;
    memmove(t->product.data, t->product.data + count, t->product.count * sizeof *t->product.data);
    for (uint32_t i = 0; i < t->product.count; i++) {
        product *x = &t->product.data[i];
        bool first = true;
        for (uint32_t k = 0; k < i; k++) first &= t->product.data[k].sum[0] != x->sum[0];
        if (first && x->follows) take_sums(x);
    }
}

const char *emulate_products_land(emulate_products *const thread[EMULATE_GROUP], unsigned pending,
                                  const char *shared, size_t bytes) {
    const emulate_products *first = thread[0];
    const char *wrong = NULL;
    uint32_t landed = 0;
    for (uint32_t t = 0; t < EMULATE_GROUP; t++) {
        if (thread[t]->product.count != first->product.count ||
            thread[t]->commits != first->commits)
            return "threads of the warp group began other instructions";
        for (uint32_t i = 0; i < first->product.count; i++)
            if (!same(&thread[t]->product.data[i], &first->product.data[i]))
                return "threads of the warp group began other instructions";
    }
    while (landed < first->product.count && !wrong &&
           first->product.data[landed].group + pending < first->commits)
        wrong = land(thread, landed++, shared, bytes);
    for (uint32_t t = 0; t < EMULATE_GROUP; t++) remove_landed(thread[t], landed);
    return wrong;
}
