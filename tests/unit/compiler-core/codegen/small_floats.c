#include "tests/unit/compiler-core/codegen/small_floats.h"

#include <math.h>
#include <string.h>

#include "base/macros.h"
#include "tests/unit/compiler-core/sched/support.h"

#define LANES 64 /* numbers of elements are multiples of it */
#define RANDOM 4096
#define NUMBERS_MAX 12288

const kiln_dtype small_dtypes[] = {
#define X(name, ...) KILN_##name,
#include "base/small_floats.def"
#undef X
    KILN_DTYPE_NONE,
};

/* ---- numbers --------------------------------------------------------------------------------- */

typedef struct numbers {
    double value[NUMBERS_MAX];
    uint32_t count;
} numbers;

static void add_number(numbers *n, double value) {
    assert_true(n->count + 2 <= NUMBERS_MAX);
    n->value[n->count++] = value;
    n->value[n->count++] = -value;
}

/* A number and its neighbours in f32, or as near in f64. */
static void add_border(numbers *n, double value, bool wide) {
    const float near = (float)value;
    add_number(n, value);
    add_number(n, wide ? value * (1 + 0x1p-40) : (double)nextafterf(near, INFINITY));
    add_number(n, wide ? value * (1 - 0x1p-40) : (double)nextafterf(near, 0));
}

static float float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Each number of the type, the middle between it and the next, the ends, and random bits. */
static void collect(numbers *n, const kiln_small_float *f, bool wide) {
    static const uint32_t ends[] = {0,          1,          0x007fffff, 0x00800000, 0x00600000,
                                    0x7f7fffff, 0x7f800000, 0x7fc00000, 0x7fffffff, 0x7f800001};
    n->count = 0;
    for (uint32_t code = 0; code <= f->largest; code++) {
        const double value = (double)kiln_small_to_f32(f, (uint8_t)code);
        const double next =
            code < f->largest ? (double)kiln_small_to_f32(f, (uint8_t)(code + 1)) : 0;
        const double step =
            next ? next - value : value - (double)kiln_small_to_f32(f, (uint8_t)(code - 1));
        add_border(n, value, wide);
        add_border(n, value + step / 2, wide);
    }
    for (size_t i = 0; i < KILN_ARRAY_COUNT(ends); i++)
        add_number(n, (double)float_of_bits(ends[i]));
    if (wide) add_border(n, 0x1p300, true);
    kiln_rand rand;
    kiln_rand_init(&rand, 1);
    for (uint32_t i = 0; i < RANDOM; i++)
        add_number(n, (double)float_of_bits((uint32_t)kiln_rand_below(&rand, UINT64_C(1) << 32)));
    while (n->count % LANES) add_number(n, 1);
}

/* ---- programs -------------------------------------------------------------------------------- */

static bool reads_codes(small_kind kind) { return kind == SMALL_FROM || kind == SMALL_MOVED; }

kiln_program *small_program(kiln_arena *arena, kiln_dtype dtype, small_kind kind) {
    static numbers n;
    const char *t = kiln_dtype_name(dtype), *from[] = {"f32", "f64", t, t},
               *to[] = {t, t, "f32", t};
    collect(&n, kiln_small_float_of(dtype), kind == SMALL_WIDE);
    const uint32_t count = reads_codes(kind) ? 256 : n.count;
    const char *cast = kind == SMALL_MOVED ? "" : to[kind];
    return parsed(arena, kiln_arena_printf(arena,
                                           "program small\ninput x: %s[%u]\noutput y: %s[%u]\n"
                                           "block t(i:%u): y[i] = %s(x[i])\n",
                                           from[kind], count, to[kind], count, count, cast));
}

void small_args(kiln_program *te, kiln_dtype dtype, small_kind kind, kiln_tensor args[2],
                kiln_tensor *out_expected) {
    static numbers n;
    const kiln_small_float *f = kiln_small_float_of(dtype);
    for (uint32_t i = 0; i < 2; i++)
        args[i] = kiln_tensor_create(te->arena, te->buffer.data[i + 1].dtype,
                                     &te->buffer.data[i + 1].shape);
    *out_expected = kiln_tensor_create(te->arena, args[1].dtype, &args[1].shape);
    collect(&n, f, kind == SMALL_WIDE);
    for (uint32_t i = 0; i < (uint32_t)kiln_shape_count(&args[0].shape); i++) {
        uint8_t *code = kind == SMALL_FROM ? args[0].data : out_expected->data;
        if (reads_codes(kind)) {
            const uint8_t own = (uint8_t)(dtype == KILN_F4E2M1 ? i % 16 : i);
            ((uint8_t *)args[0].data)[i] = own;
            if (kind == SMALL_FROM)
                ((float *)out_expected->data)[i] = kiln_small_to_f32(f, own);
            else
                code[i] = own;
        } else if (kind == SMALL_WIDE) {
            ((double *)args[0].data)[i] = n.value[i];
            kiln_dtype_store_f64(dtype, code, i, n.value[i]);
        } else {
            ((float *)args[0].data)[i] = (float)n.value[i];
            code[i] = kiln_f32_to_small(f, (float)n.value[i]);
        }
    }
}

void expect_small(const kiln_tensor args[2], const kiln_tensor *expected, bool nan_as_well,
                  const char *where) {
    const size_t size = kiln_dtype_size(expected->dtype);
    for (size_t i = 0; i < (size_t)kiln_shape_count(&expected->shape); i++) {
        if (memcmp((char *)args[1].data + i * size, (char *)expected->data + i * size, size) == 0)
            continue;
        const double got = kiln_dtype_load_f64(args[1].dtype, args[1].data, i),
                     wanted = kiln_dtype_load_f64(expected->dtype, expected->data, i);
        if (!nan_as_well && isnan(got) && isnan(wanted)) continue;
        fail_msg("%s: %s to %s of %a (element %zu): %a in place of %a", where,
                 kiln_dtype_name(args[0].dtype), kiln_dtype_name(args[1].dtype),
                 kiln_dtype_load_f64(args[0].dtype, args[0].data, i), i, got, wanted);
    }
}

void expect_small_compiled(kiln_arena *arena, const kiln_target *target, const char *backend,
                           const char *text, artefact_runner run, void *context) {
    for (uint32_t at = 0; small_dtypes[at]; at++)
        for (small_kind kind = SMALL_TO; kind < SMALL_KINDS; kind++) {
            kiln_program *te = small_program(arena, small_dtypes[at], kind);
            kiln_artefact artefact;
            kiln_tensor args[2], expected;
            small_args(te, small_dtypes[at], kind, args, &expected);
            expect_ok(
                compile_scheduled_as(schedule(te, text), target, backend, 2, arena, &artefact));
            expect_ok(run(context, &artefact, te, args, 1));
            expect_small(args, &expected, kind == SMALL_MOVED, *text ? "vectors" : "scalars");
        }
}
