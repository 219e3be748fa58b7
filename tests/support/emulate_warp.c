#include "tests/support/emulate_warp.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/dtype.h"

#define M 16
#define N 8
#define K_MAX 32

/* ---- mma ------------------------------------------------------------------------------------- */

/* The matrices of one instruction, of elements as f32 or i32. */
typedef struct matrices {
    float a[M][K_MAX], b[K_MAX][N];
    int32_t ai[M][K_MAX], bi[K_MAX][N];
} matrices;

typedef enum element { F16, BF16, TF32, S8 } element;

static uint32_t steps_of(element type) { return type == S8 ? 32 : type == TF32 ? 8 : 16; }

/* Element i of a fragment's registers, in the order a0, a1, ... of the description. */
static float float_at(element type, const unsigned *reg, uint32_t i) {
    const uint16_t half = (uint16_t)(reg[i / 2] >> i % 2 * 16);
    if (type == F16) return kiln_f16_to_f32(half);
    if (type == BF16) return kiln_bf16_to_f32(half);
    const uint32_t bits =
        reg[i] & 0xffffe000u; /* tf32: 10 bits of mantissa; lower ones are ignored */
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* "row = ..., col = ..." of multiplicand A, as the description has it for each type. */
static void place_a(element type, uint32_t lane, uint32_t i, uint32_t *row, uint32_t *col) {
    const uint32_t group = lane >> 2, in_group = lane % 4;
    if (type == TF32) {
        *row = i == 0 || i == 2 ? group : group + 8;
        *col = i < 2 ? in_group : in_group + 4;
    } else if (type == S8) {
        *row = i < 4 || (8 <= i && i < 12) ? group : group + 8;
        *col = in_group * 4 + (i & 3) + (i < 8 ? 0 : 16);
    } else {
        *row = i < 2 || (4 <= i && i < 6) ? group : group + 8;
        *col = in_group * 2 + (i & 1) + (i < 4 ? 0 : 8);
    }
}

/* The same of multiplicand B. */
static void place_b(element type, uint32_t lane, uint32_t i, uint32_t *row, uint32_t *col) {
    const uint32_t in_group = lane % 4;
    *col = lane >> 2;
    if (type == TF32)
        *row = i == 0 ? in_group : in_group + 4;
    else if (type == S8)
        *row = in_group * 4 + (i & 3) + (i < 4 ? 0 : 16);
    else
        *row = in_group * 2 + (i & 1) + (i < 2 ? 0 : 8);
}

static void gather(element type, void *const operands[EMULATE_WARP], matrices *m) {
    const uint32_t per_lane = M * steps_of(type) / EMULATE_WARP;
    for (uint32_t lane = 0; lane < EMULATE_WARP; lane++) {
        const struct emulate_mma *x = operands[lane];
        const int8_t *a = (const int8_t *)x->a, *b = (const int8_t *)x->b;
        uint32_t row, col;
        for (uint32_t i = 0; i < per_lane; i++) {
            place_a(type, lane, i, &row, &col);
            if (type == S8)
                m->ai[row][col] = a[i];
            else
                m->a[row][col] = float_at(type, x->a, i);
        }
        for (uint32_t i = 0; i < per_lane / 2; i++) {
            place_b(type, lane, i, &row, &col);
            if (type == S8)
                m->bi[row][col] = b[i];
            else
                m->b[row][col] = float_at(type, x->b, i);
        }
    }
}

/* Accumulators: rows groupID and groupID + 8, columns 2 * threadID_in_group and the next one. */
static const char *mma(element type, void *const operands[EMULATE_WARP]) {
    matrices m;
    for (uint32_t lane = 0; lane < EMULATE_WARP; lane++)
        if (!operands[lane]) return "it takes all 32 threads of a warp";
    gather(type, operands, &m);
    for (uint32_t lane = 0; lane < EMULATE_WARP; lane++) {
        struct emulate_mma *x = operands[lane];
        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t row = (lane >> 2) + (i < 2 ? 0 : 8), col = lane % 4 * 2 + (i & 1);
            for (uint32_t k = 0; k < steps_of(type); k++) {
                if (type == S8)
                    x->sum.i[i] += (unsigned)(m.ai[row][k] * m.bi[k][col]);
                else
                    x->sum.f[i] += m.a[row][k] * m.b[k][col];
            }
        }
    }
    return NULL;
}

static const char *emulate_mma_f16(void *const operands[EMULATE_WARP]) {
    return mma(F16, operands);
}
static const char *emulate_mma_bf16(void *const operands[EMULATE_WARP]) {
    return mma(BF16, operands);
}
static const char *emulate_mma_tf32(void *const operands[EMULATE_WARP]) {
    return mma(TF32, operands);
}
static const char *emulate_mma_s8(void *const operands[EMULATE_WARP]) { return mma(S8, operands); }

/* ---- the others ------------------------------------------------------------------------------ */

#define MATRIX_ROWS 8

/* Threads 0 to 7 name the rows of the first matrix, 8 to 15 those of the second, ... Each thread
 * gets two elements of each matrix: of row lane / 4, or of that column where it is transposed. */
static const char *emulate_ldmatrix(void *const operands[EMULATE_WARP]) {
    uint16_t matrix[4][MATRIX_ROWS][MATRIX_ROWS];
    const struct emulate_ldmatrix *first = operands[0];
    for (uint32_t lane = 0; lane < EMULATE_WARP; lane++) {
        const struct emulate_ldmatrix *x = operands[lane];
        if (!x) return "it takes all 32 threads of a warp";
        if (lane / MATRIX_ROWS >= first->count) continue;
        if ((uintptr_t)x->row % 16 != 0) return "a row is not aligned to 16 bytes";
        memcpy(matrix[lane / MATRIX_ROWS][lane % MATRIX_ROWS], x->row, sizeof matrix[0][0]);
    }
    for (uint32_t lane = 0; lane < EMULATE_WARP; lane++) {
        struct emulate_ldmatrix *x = operands[lane];
        const uint32_t row = lane / 4, col = lane % 4 * 2;
        for (uint32_t i = 0; i < first->count; i++) {
            const uint16_t low = first->transposed ? matrix[i][col][row] : matrix[i][row][col],
                           high = first->transposed ? matrix[i][col + 1][row]
                                                    : matrix[i][row][col + 1];
            x->to[i] = (unsigned)high << 16 | low;
        }
    }
    return NULL;
}

static const char *emulate_shuffle(void *const operands[EMULATE_WARP]) {
    unsigned value[EMULATE_WARP] = {0};
    for (uint32_t lane = 0; lane < EMULATE_WARP; lane++)
        if (operands[lane]) value[lane] = ((struct emulate_shuffle *)operands[lane])->value;
    for (uint32_t lane = 0; lane < EMULATE_WARP; lane++) {
        struct emulate_shuffle *x = operands[lane];
        if (!x || x->lane >= EMULATE_WARP) continue;
        if (!operands[x->lane]) return "a thread asks for the value of one that does not take part";
        x->value = value[x->lane];
    }
    return NULL;
}

const emulate_warp_info emulate_warp[EMULATE_INSTRUCTION_COUNT] = {
#define X(id, text_, function) [EMULATE_##id] = {text_, function},
#include "tests/support/emulate_warp.def"
#undef X
};
