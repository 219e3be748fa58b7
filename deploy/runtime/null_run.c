#include "deploy/runtime/null_run.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/integer.h"

/* A register. */
typedef union cell {
    int64_t i;
    uint64_t u;
    double f;
} cell;

/* Operations of the machine below: the instructions, a LOAD and a STORE for each dtype, and fused
 * operations for loops over sums of products, which replace the first of several steps; the others
 * stay in place. */
enum {
    FIRST_LOAD = KILN_NULL_OP_COUNT,
    FIRST_STORE = FIRST_LOAD + KILN_DTYPE_COUNT,
    THREE_LOADS = FIRST_STORE + KILN_DTYPE_COUNT, /* of f32 */
    TWO_LOADS,
    SUM_AND_LOOP, /* MULTIPLY_ADD, STORE of f32, LOOP_END */
    SUM_AND_STORE,
};

typedef struct step {
    uint16_t op, a, b, c, d;
    union {
        uint32_t target; /* LOOP_END: first step of the body; IF, IF_NOT: the one behind IF_END */
        uint32_t ticks;  /* STORE: ticks of the statement */
    };
    int64_t imm;
} step;

typedef struct bound_buffer {
    char *data;
    uint64_t count;
} bound_buffer;

typedef struct thread {
    uint32_t at; /* next step */
    cell *r;
} thread;

struct kiln_null_ready {
    const kiln_null_function *function;
    uint32_t group[3], thread_count, local_buffer_count;
    step *step;
    bound_buffer *buffer;   /* [buffer_count] of the running thread */
    uint32_t *local_buffer; /* [local_buffer_count] buffers of which each thread has its own */
    thread *thread;         /* [thread_count] */
    cell *cells;            /* [thread_count][register_count] */
    char *shared, *local;   /* of the group; [thread_count][local_bytes, rounded up] */
    uint64_t local_stride;
};

/* ---- integers -------------------------------------------------------------------------------- */

static int64_t negated(int64_t p) { return (int64_t)(0 - (uint64_t)p); }

static int64_t truncated_quotient(int64_t p, int64_t q) {
    if (q == 0) return 0;
    return q == -1 ? negated(p) : p / q;
}

static int64_t truncated_remainder(int64_t p, int64_t q) { return q == 0 || q == -1 ? 0 : p % q; }

static int64_t floored_quotient(int64_t p, int64_t q) {
    int64_t quotient = truncated_quotient(p, q);
    return truncated_remainder(p, q) != 0 && (p < 0) != (q < 0) ? quotient - 1 : quotient;
}

static int64_t floored_remainder(int64_t p, int64_t q) {
    int64_t remainder = truncated_remainder(p, q);
    return remainder != 0 && (p < 0) != (q < 0) ? remainder + q : remainder;
}

static double floored_float_remainder(double x, double y) {
    double remainder = fmod(x, y);
    return remainder != 0 && (remainder < 0) != (y < 0) ? remainder + y : remainder;
}

static int64_t integer_power(int64_t base, int64_t exponent) {
    uint64_t result = 1, factor = (uint64_t)base;
    if (exponent < 0) {
        if (base == 1) return 1;
        if (base == -1) return exponent % 2 ? -1 : 1;
        return 0;
    }
    for (; exponent > 0; exponent >>= 1) {
        if (exponent & 1) result *= factor;
        factor *= factor;
    }
    return (int64_t)result;
}

static int64_t to_integer(kiln_dtype dtype, double x) {
    uint64_t element = 0;
    if (dtype == KILN_BOOL) return x != 0;
    kiln_dtype_store_f64(dtype, &element, 0, x);
    return kiln_dtype_load_i64(dtype, &element, 0);
}

static double rounded(kiln_dtype dtype, double x) {
    uint64_t element = 0;
    if (dtype == KILN_F32) return (double)(float)x;
    if (dtype == KILN_F64) return x;
    kiln_dtype_store_f64(dtype, &element, 0, x);
    return kiln_dtype_load_f64(dtype, &element, 0);
}

static int64_t wrapped(kiln_dtype dtype, int64_t p) {
    uint64_t element = 0;
    kiln_dtype_store_i64(dtype, &element, 0, dtype == KILN_BOOL ? p & 1 : p);
    return kiln_dtype_load_i64(dtype, &element, 0);
}

/* ---- the machine ----------------------------------------------------------------------------- */

/* How a thread stopped. */
typedef enum stop { STOPPED_AT_END, STOPPED_AT_BARRIER, STOPPED_ASTRAY } stop;

/* The next instruction. Each has its own jump, which processors predict better than a shared one: a
 * switch in a loop takes a third longer (`./dev bench null`). */
#define NEXT __extension__({ goto *label[(++s)->op]; })

/* The checked index of an access. */
#define INDEX                                                        \
    const uint64_t index = r[s->b].u + r[s->c].u * (uint64_t)s->imm; \
    if (index >= buffer[s->d].count) return STOPPED_ASTRAY

#define LOAD_F32 r[s->a].f = (double)((const float *)(const void *)buffer[s->d].data)[index]

/* Loads and stores of frequent types; others go through base/dtype.h. */
#define PLAIN(dtype, LOADED, STORED, field)                                           \
    load_##dtype : {                                                                  \
        INDEX;                                                                        \
        r[s->a].field = ((const LOADED *)(const void *)buffer[s->d].data)[index];     \
        NEXT;                                                                         \
    }                                                                                 \
    store_##dtype : {                                                                 \
        INDEX;                                                                        \
        ((STORED *)(void *)buffer[s->d].data)[index] = (STORED)r[s->a].PLAIN_##field; \
        count += s->ticks;                                                            \
        NEXT;                                                                         \
    }
#define PLAIN_f f
#define PLAIN_i u
#define PLAIN_u u
#define OTHER(dtype, field, suffix)                                                               \
    load_##dtype : {                                                                              \
        INDEX;                                                                                    \
        r[s->a].field = kiln_dtype_load_##suffix(KILN_##dtype, buffer[s->d].data, (size_t)index); \
        NEXT;                                                                                     \
    }                                                                                             \
    store_##dtype : {                                                                             \
        INDEX;                                                                                    \
        kiln_dtype_store_##suffix(KILN_##dtype, buffer[s->d].data, (size_t)index,                 \
                                  STORED_##field(r[s->a].field));                                 \
        count += s->ticks;                                                                        \
        NEXT;                                                                                     \
    }
#define STORED_f(value) value
#define STORED_i(value) value & 1 /* a bool */

/* Runs a thread up to the next barrier; the ticks that it takes. */
static stop run_thread(const kiln_null_ready *ready, thread *t, uint64_t *out_ticks) {
    static const void *const label[] = {
#define SET(NAME) [KILN_NULL_##NAME] = __extension__ && do_##NAME,
#define CONTROL(NAME) [KILN_NULL_##NAME] = __extension__ && do_##NAME,
#define TYPED(NAME) [KILN_NULL_##NAME] = __extension__ && do_##NAME,
#define II(NAME, expression) [KILN_NULL_##NAME] = __extension__ && do_##NAME,
#define IU(NAME, expression) [KILN_NULL_##NAME] = __extension__ && do_##NAME,
#define FF(NAME, expression) [KILN_NULL_##NAME] = __extension__ && do_##NAME,
#define FI(NAME, expression) [KILN_NULL_##NAME] = __extension__ && do_##NAME,
#include "base/null_ops.def"
#undef SET
#undef CONTROL
#undef TYPED
#undef II
#undef IU
#undef FF
#undef FI
#define X(name, ...)                                           \
    [FIRST_LOAD + KILN_##name] = __extension__ && load_##name, \
                  [FIRST_STORE + KILN_##name] = __extension__ && store_##name,
#include "base/dtype.def"
#undef X
        [THREE_LOADS] = __extension__ && three_loads,
        [TWO_LOADS] = __extension__ && two_loads,
        [SUM_AND_LOOP] = __extension__ && sum_and_loop,
        [SUM_AND_STORE] = __extension__ && sum_and_store,
    };
    const bound_buffer *buffer = ready->buffer;
    const step *s = &ready->step[t->at] - 1;
    cell *r = t->r;
    uint64_t count = 0;
    NEXT;
    PLAIN(F32, float, float, f)
    PLAIN(F64, double, double, f)
    PLAIN(I8, int8_t, uint8_t, i)
    PLAIN(U8, uint8_t, uint8_t, i)
    PLAIN(I16, int16_t, uint16_t, i)
    PLAIN(U16, uint16_t, uint16_t, i)
    PLAIN(I32, int32_t, uint32_t, i)
    PLAIN(U32, uint32_t, uint32_t, i)
    PLAIN(I64, int64_t, uint64_t, i)
    PLAIN(U64, uint64_t, uint64_t, u)
    OTHER(F16, f, f64)
    OTHER(BF16, f, f64)
    OTHER(F8E4M3FN, f, f64)
    OTHER(F8E4M3FNUZ, f, f64)
    OTHER(F8E5M2, f, f64)
    OTHER(F8E5M2FNUZ, f, f64)
    OTHER(F8E8M0, f, f64)
    OTHER(F4E2M1, f, f64)
    OTHER(BOOL, i, i64)
three_loads: {
    INDEX;
    LOAD_F32;
    s++;
}
two_loads: {
    INDEX;
    LOAD_F32;
    s++;
}
    {
        INDEX;
        LOAD_F32;
        NEXT;
    }
sum_and_loop: {
    const double sum = r[s->b].f * r[s->c].f + r[s->d].f;
    r[s->a].f = sum;
    s++;
    INDEX;
    ((float *)(void *)buffer[s->d].data)[index] = (float)sum;
    count += s->ticks;
    s++;
    if (++r[s->a].i < s->imm) s = &ready->step[s->target] - 1;
    NEXT;
}
sum_and_store: {
    const double sum = r[s->b].f * r[s->c].f + r[s->d].f;
    r[s->a].f = sum;
    s++;
    INDEX;
    ((float *)(void *)buffer[s->d].data)[index] = (float)sum;
    count += s->ticks;
    NEXT;
}
do_END:
    *out_ticks = count;
    return STOPPED_AT_END;
do_BARRIER:
    *out_ticks = count;
    t->at = (uint32_t)(s - ready->step) + 1;
    return STOPPED_AT_BARRIER;
do_LOOP:
    r[s->a].i = s->imm;
    NEXT;
do_LOOP_END:
    if (++r[s->a].i < s->imm) s = &ready->step[s->target] - 1;
    NEXT;
do_IF:
    if (r[s->a].i == 0) s = &ready->step[s->target] - 1;
    NEXT;
do_IF_NOT:
    if (r[s->a].i != 0) s = &ready->step[s->target] - 1;
    NEXT;
do_LOAD: /* there is one for each dtype */
do_STORE:
do_IF_END:
    NEXT;
do_SELECT:
    r[s->a] = r[s->d].i != 0 ? r[s->b] : r[s->c];
    NEXT;
do_ADDRESS:
    r[s->a].u = r[s->b].u + r[s->c].u * (uint64_t)s->imm;
    NEXT;
do_MULTIPLY_ADD:
    r[s->a].f = r[s->b].f * r[s->c].f + r[s->d].f;
    NEXT;
do_SHIFT_LEFT:
    r[s->a].u = r[s->c].u >= (uint64_t)s->imm ? 0 : r[s->b].u << r[s->c].u;
    NEXT;
do_SHIFT_RIGHT_UNSIGNED:
    r[s->a].u = r[s->c].u >= (uint64_t)s->imm ? 0 : r[s->b].u >> r[s->c].u;
    NEXT;
do_SHIFT_RIGHT:
    r[s->a].i = r[s->c].u >= (uint64_t)s->imm ? 0 : r[s->b].i >> r[s->c].u;
    NEXT;
do_SET:
    r[s->a].i = s->imm;
    NEXT;
do_WRAP:
    r[s->a].i = wrapped((kiln_dtype)s->imm, r[s->b].i);
    NEXT;
do_ROUND:
    r[s->a].f = rounded((kiln_dtype)s->imm, r[s->b].f);
    NEXT;
do_TO_INTEGER:
    r[s->a].i = to_integer((kiln_dtype)s->imm, r[s->b].f);
    NEXT;
do_TO_FLOAT:
    r[s->a].f = (double)r[s->b].i;
    NEXT;
do_TO_FLOAT_UNSIGNED:
    r[s->a].f = (double)r[s->b].u;
    NEXT;
#define SET(NAME)
#define CONTROL(NAME)
#define TYPED(NAME)
#define II(NAME, expression)                        \
    do_##NAME : {                                   \
        const int64_t p = r[s->b].i, q = r[s->c].i; \
        (void)q;                                    \
        r[s->a].i = (expression);                   \
        NEXT;                                       \
    }
#define IU(NAME, expression)                         \
    do_##NAME : {                                    \
        const uint64_t p = r[s->b].u, q = r[s->c].u; \
        (void)q;                                     \
        r[s->a].u = (expression);                    \
        NEXT;                                        \
    }
#define FF(NAME, expression)                       \
    do_##NAME : {                                  \
        const double x = r[s->b].f, y = r[s->c].f; \
        (void)y;                                   \
        r[s->a].f = (expression);                  \
        NEXT;                                      \
    }
#define FI(NAME, expression)                       \
    do_##NAME : {                                  \
        const double x = r[s->b].f, y = r[s->c].f; \
        (void)y;                                   \
        r[s->a].i = (expression);                  \
        NEXT;                                      \
    }
#include "base/null_ops.def"
#undef SET
#undef CONTROL
#undef TYPED
#undef II
#undef IU
#undef FF
#undef FI
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* Replaces the previous thread's temps by this thread's. */
static void enter_thread(const kiln_null_ready *ready, uint32_t index) {
    for (uint32_t i = 0; i < ready->local_buffer_count; i++) {
        uint32_t b = ready->local_buffer[i];
        ready->buffer[b].data =
            ready->local + index * ready->local_stride + ready->function->buffer[b].offset;
    }
}

static void begin_thread(kiln_null_ready *ready, uint32_t index, const uint32_t at[3]) {
    const uint32_t *group = ready->group;
    thread *t = &ready->thread[index];
    memset(t->r, 0, ready->function->register_count * sizeof *t->r);
    for (uint32_t d = 0; d < 3; d++) t->r[d].i = at[d];
    t->r[3].i = index % group[0];
    t->r[4].i = index / group[0] % group[1];
    t->r[5].i = index / group[0] / group[1];
    t->at = 0;
}

/* Runs all threads to their next barrier, or their end. */
static kiln_null_end run_phase(kiln_null_ready *ready, bool *out_over, uint64_t *ticks) {
    stop first = STOPPED_AT_END;
    uint64_t longest = 0;
    for (uint32_t i = 0; i < ready->thread_count; i++) {
        uint64_t taken = 0;
        enter_thread(ready, i);
        stop how = run_thread(ready, &ready->thread[i], &taken);
        if (how == STOPPED_ASTRAY) return KILN_NULL_STRAY;
        if (i == 0) first = how;
        if (how != first ||
            (how == STOPPED_AT_BARRIER && ready->thread[i].at != ready->thread[0].at))
            return KILN_NULL_DIVERGED;
        longest = KILN_MAX(longest, taken);
    }
    *out_over = first == STOPPED_AT_END;
    *ticks += longest + (*out_over ? 0 : KILN_NULL_TICKS_BARRIER);
    return KILN_NULL_OK;
}

static kiln_null_end run_group(kiln_null_ready *ready, const uint32_t at[3], uint64_t *ticks) {
    kiln_null_end end = KILN_NULL_OK;
    bool over = false;
    for (uint32_t i = 0; i < ready->thread_count; i++) begin_thread(ready, i, at);
    while (end == KILN_NULL_OK && !over) end = run_phase(ready, &over, ticks);
    return end;
}

/* Binds arguments and shared temps, which all threads share. */
static kiln_null_end bind(kiln_null_ready *ready, const kiln_null_memory *argument) {
    for (uint32_t i = 0; i < ready->function->buffer_count; i++) {
        const kiln_null_buffer *b = &ready->function->buffer[i];
        uint64_t size = kiln_dtype_size((kiln_dtype)b->dtype);
        ready->buffer[i].count = b->count;
        if (b->place == KILN_NULL_SHARED) ready->buffer[i].data = ready->shared + b->offset;
        if (b->place != KILN_NULL_ARGUMENT) continue;
        const kiln_null_memory *memory = &argument[b->argument];
        if (b->offset > memory->size_bytes || b->count > (memory->size_bytes - b->offset) / size)
            return KILN_NULL_STRAY;
        ready->buffer[i].data = (char *)memory->data + b->offset;
    }
    return KILN_NULL_OK;
}

kiln_null_end kiln_null_launch(kiln_null_ready *ready, const uint32_t grid[3],
                               const kiln_null_memory *argument, uint64_t *ticks) {
    uint32_t at[3], next = 0;
    uint64_t unit[KILN_NULL_UNITS] = {0}, longest = 0;
    kiln_null_end end = bind(ready, argument);
    for (at[2] = 0; at[2] < grid[2]; at[2]++)
        for (at[1] = 0; at[1] < grid[1]; at[1]++)
            for (at[0] = 0; at[0] < grid[0] && end == KILN_NULL_OK; at[0]++)
                end = run_group(ready, at, &unit[next++ % KILN_NULL_UNITS]);
    for (uint32_t i = 0; i < KILN_NULL_UNITS; i++) longest = KILN_MAX(longest, unit[i]);
    *ticks += KILN_NULL_TICKS_LAUNCH + longest;
    return end;
}

/* ---- preparation
 * ------------------------------------------------------------------------------ */

uint32_t kiln_null_argument_count(const kiln_null_function *f) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < f->buffer_count; i++)
        if (f->buffer[i].place == KILN_NULL_ARGUMENT && f->buffer[i].argument >= count)
            count = f->buffer[i].argument + 1u;
    return count;
}

static uint32_t ticks_of(const kiln_null_function *f, const kiln_null_instruction *access) {
    static const uint32_t ticks[KILN_NULL_PLACE_COUNT] = {
        [KILN_NULL_ARGUMENT] = KILN_NULL_TICKS_ARGUMENT,
        [KILN_NULL_SHARED] = KILN_NULL_TICKS_SHARED,
        [KILN_NULL_LOCAL] = KILN_NULL_TICKS_LOCAL};
    return ticks[f->buffer[access->d].place];
}

/* Sets jump targets, the LOAD and STORE of each dtype, and ticks of statements. The code is
 * checked, so an end always closes the innermost open construct. */
static void translate(kiln_null_ready *ready) {
    const kiln_null_function *f = ready->function;
    uint32_t open[KILN_NULL_DEPTH_MAX], depth = 0, ticks = KILN_NULL_TICKS_STATEMENT;
    for (uint32_t i = 0; i < f->instruction_count; i++) {
        const kiln_null_instruction *in = &f->instruction[i];
        step *s = &ready->step[i];
        *s = (step){in->op, in->a, in->b, in->c, in->d, {0}, in->imm};
        if (in->op == KILN_NULL_LOAD || in->op == KILN_NULL_STORE) ticks += ticks_of(f, in);
        if (in->op == KILN_NULL_LOAD) s->op = (uint16_t)(FIRST_LOAD + f->buffer[in->d].dtype);
        if (in->op == KILN_NULL_STORE) {
            s->op = (uint16_t)(FIRST_STORE + f->buffer[in->d].dtype);
            s->ticks = ticks;
            ticks = KILN_NULL_TICKS_STATEMENT;
        }
        if (in->op == KILN_NULL_LOOP || in->op == KILN_NULL_IF || in->op == KILN_NULL_IF_NOT)
            open[depth++] = i;
        if (in->op == KILN_NULL_LOOP_END) s->target = open[--depth] + 1;
        if (in->op == KILN_NULL_IF_END) ready->step[open[--depth]].target = i;
    }
}

static bool is_f32(const step *s, uint32_t first) { return s->op == first + KILN_F32; }

/* Inserts the fused operations. No jump leads behind the first of the fused steps: jumps go only to
 * the step after a LOOP, or to an IF_END. */
static void fuse(kiln_null_ready *ready) {
    uint32_t count = ready->function->instruction_count;
    for (uint32_t i = 0; i + 2 < count; i++) {
        step *s = &ready->step[i];
        bool two = is_f32(s, FIRST_LOAD) && is_f32(s + 1, FIRST_LOAD);
        bool sum = s->op == KILN_NULL_MULTIPLY_ADD && is_f32(s + 1, FIRST_STORE);
        bool three = two ? is_f32(s + 2, FIRST_LOAD) : s[2].op == KILN_NULL_LOOP_END;
        if (!two && !sum) continue;
        s->op = two ? (three ? THREE_LOADS : TWO_LOADS) : three ? SUM_AND_LOOP : SUM_AND_STORE;
        i += three ? 2 : 1;
    }
}

#define TEMP_ALIGNMENT UINT64_C(64)

kiln_status kiln_null_ready_create(const kiln_null_function *f, const uint32_t group[3],
                                   kiln_null_ready **out_ready) {
    uint64_t threads = (uint64_t)group[0] * group[1],
             stride = KILN_ALIGN_UP(f->local_bytes, TEMP_ALIGNMENT);
    uint64_t of_thread = stride + f->register_count * sizeof(cell);
    if (threads == 0 || group[2] == 0) return KILN_ERROR(DATA_LOSS, "a group of no threads");
    if (threads > UINT32_MAX || threads * group[2] > KILN_NULL_TEMP_BYTES_MAX / of_thread)
        return KILN_ERROR(RESOURCE_EXHAUSTED,
                          "registers and temps of a group of %u x %u x %u threads take too much",
                          group[0], group[1], group[2]);
    kiln_null_ready *ready = kiln_alloc(sizeof *ready);
    *ready = (kiln_null_ready){.function = f,
                               .group = {group[0], group[1], group[2]},
                               .thread_count = (uint32_t)(threads * group[2]),
                               .local_stride = stride};
    ready->step = kiln_alloc(f->instruction_count * sizeof *ready->step);
    ready->buffer = kiln_alloc(f->buffer_count * sizeof *ready->buffer);
    ready->local_buffer = kiln_alloc(f->buffer_count * sizeof *ready->local_buffer);
    ready->thread = kiln_alloc(ready->thread_count * sizeof *ready->thread);
    ready->cells = kiln_alloc((size_t)ready->thread_count * f->register_count * sizeof(cell));
    ready->shared = kiln_alloc((size_t)f->shared_bytes);
    ready->local = kiln_alloc((size_t)(ready->thread_count * stride));
    for (uint32_t i = 0; i < ready->thread_count; i++)
        ready->thread[i].r = &ready->cells[(size_t)i * f->register_count];
    for (uint32_t i = 0; i < f->buffer_count; i++)
        if (f->buffer[i].place == KILN_NULL_LOCAL)
            ready->local_buffer[ready->local_buffer_count++] = i;
    translate(ready);
    fuse(ready);
    *out_ready = ready;
    return KILN_OK;
}

void kiln_null_ready_destroy(kiln_null_ready *ready) {
    if (!ready) return;
    kiln_free(ready->step);
    kiln_free(ready->buffer);
    kiln_free(ready->local_buffer);
    kiln_free(ready->thread);
    kiln_free(ready->cells);
    kiln_free(ready->shared);
    kiln_free(ready->local);
    kiln_free(ready);
}
