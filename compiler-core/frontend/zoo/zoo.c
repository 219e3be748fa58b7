#include "compiler-core/frontend/zoo/zoo.h"

#include <math.h>

#include "base/check.h"
#include "base/macros.h"
#include "compiler-core/frontend/quantize.h"
#include "compiler-core/frontend/zoo/networks.h"
#include "compiler-core/frontend/zoo/workloads.h"

static const struct {
    const char *name;
    kiln_zoo_network build;
    const char *what;
} network_table[] = {
#define X(name, function, what) {name, kiln_zoo_net_##function, what},
#include "compiler-core/frontend/zoo/networks.def"
#undef X
};

static const struct {
    const char *prefix;
    kiln_zoo_workload build;
    const char *form, *what;
} workload_table[] = {
#define X(prefix, function, form, what) {prefix, kiln_zoo_workload_##function, form, what},
#include "compiler-core/frontend/zoo/workloads.def"
#undef X
};

static kiln_status unknown_entry(void) {
    kiln_strbuf known = {0};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(network_table); i++)
        kiln_strbuf_printf(&known, " %s", network_table[i].name);
    kiln_strbuf_text(&known, " NAME_nN NAME_f16 NAME_bf16 NAME_int8 NAME_wWaA");
    for (size_t i = 0; i < KILN_ARRAY_COUNT(workload_table); i++)
        kiln_strbuf_printf(&known, " %s:%s", workload_table[i].prefix, workload_table[i].form);
    kiln_status st =
        KILN_ERROR(INVALID_ARGUMENT, "the zoo has no such entry; it has%s", known.data);
    kiln_strbuf_deinit(&known);
    return st;
}

static kiln_status add_entry(kiln_zoo_builder *b, kiln_str name, kiln_zoo_value *out) {
    for (size_t i = 0; i < KILN_ARRAY_COUNT(network_table); i++) {
        if (!kiln_str_is(name, network_table[i].name)) continue;
        *out = network_table[i].build(b);
        return KILN_OK;
    }
    kiln_str rest = name, prefix = kiln_str_cut(&rest, ':');
    for (size_t i = 0; i < KILN_ARRAY_COUNT(workload_table); i++) {
        if (kiln_str_is(prefix, workload_table[i].prefix))
            return kiln_status_note(workload_table[i].build(b, rest, out), "%s:%s",
                                    workload_table[i].prefix, workload_table[i].form);
    }
    return unknown_entry();
}

/* ---- networks on integers -------------------------------------------------------------------- */

#define EXPECTED_DRAWS 4096

/* Elements are normally distributed, or rectified normally distributed values. */
static void expect(void *context, kiln_str name, kiln_histogram *out) {
    const kiln_zoo_builder *b = context;
    const kiln_zoo_expected *expected = kiln_zoo_expectation(b, name);
    float draw[EXPECTED_DRAWS];
    kiln_rand rand;
    KILN_CHECK(expected);
    const double deviation = sqrt(expected->rectified ? 2 * expected->power : expected->power);
    kiln_rand_init(&rand, 1);
    for (size_t i = 0; i < EXPECTED_DRAWS; i++) {
        const double x = deviation * kiln_rand_normal(&rand);
        draw[i] = (float)(expected->rectified ? KILN_MAX(x, 0) : x);
    }
    KILN_CHECK(kiln_histogram_add(out, draw, EXPECTED_DRAWS));
}

static bool read_bits(kiln_str text, uint32_t *out_bits) {
    int64_t bits = 0;
    if (!kiln_str_to_i64(text, &bits)) return false;
    *out_bits = (uint32_t)bits;
    return bits == 1 || bits == 2 || bits == 4 || bits == 8;
}

/* Offset behind the last '_'; 0: there is none. */
static size_t last_word(kiln_str name) {
    size_t end = name.size;
    while (end > 0 && name.data[end - 1] != '_') end--;
    return end;
}

/* "NAME_int8": signed bytes and scales that are powers of two. A single operator takes and gives
 * bytes. False: `name` has no such end. */
static bool cut_int8(kiln_str *name, kiln_quantize_options *out) {
    const size_t end = last_word(*name);
    if (end < 2 || !kiln_str_is(kiln_str_slice(*name, end, name->size), "int8")) return false;
    *name = kiln_str_slice(*name, 0, end - 1);
    *out = (kiln_quantize_options){.shift = true,
                                   .weight_bits = 8,
                                   .activation_bits = 8,
                                   .bytes_outside = kiln_str_find_char(*name, ':') < name->size};
    return true;
}

/* "NAME_w1a2": weights of 1 bit by activations of 2; the only layer of a single operator as well.
 * False: `name` has no such end. */
static bool cut_bits(kiln_str *name, kiln_quantize_options *out) {
    const size_t end = last_word(*name);
    kiln_str activations = kiln_str_slice(*name, end, name->size);
    if (end < 2 || !activations.size || activations.data[0] != 'w') return false;
    activations = kiln_str_slice(activations, 1, activations.size);
    const kiln_str weights = kiln_str_cut(&activations, 'a');
    *out = (kiln_quantize_options){.per_channel = true, .is_unsigned = true};
    if (!read_bits(weights, &out->weight_bits) || !read_bits(activations, &out->activation_bits))
        return false;
    *name = kiln_str_slice(*name, 0, end - 1);
    out->all_layers = kiln_str_find_char(*name, ':') < name->size;
    return true;
}

/* ---- forms ----------------------------------------------------------------------------------- */

#define BATCH_MAX 4096

/* "NAME_n32_f16": images, and floats of 16 bits. False: `name` has no such end. */
static bool cut_form(kiln_str *name, kiln_zoo_form *form) {
    const size_t end = last_word(*name);
    const kiln_str last = kiln_str_slice(*name, end, name->size);
    int64_t batch = 0;
    if (end < 2) return false;
    if (kiln_str_is(last, "f16")) {
        form->floats = KILN_F16;
    } else if (kiln_str_is(last, "bf16")) {
        form->floats = KILN_BF16;
    } else {
        if (!last.size || last.data[0] != 'n') return false;
        if (!kiln_str_to_i64(kiln_str_slice(last, 1, last.size), &batch)) return false;
        if (batch < 1 || batch > BATCH_MAX) return false;
        form->batch = batch;
    }
    *name = kiln_str_slice(*name, 0, end - 1);
    return true;
}

kiln_status kiln_zoo_build(kiln_str name, uint64_t seed, kiln_strbuf *out) {
    kiln_arena arena;
    kiln_zoo_builder b;
    kiln_zoo_value y;
    kiln_zoo_form form = {.floats = KILN_F32, .batch = 1};
    kiln_quantize_options options;
    kiln_strbuf floats = {0};
    kiln_str model = {0}, network = name;
    form.shifted = cut_int8(&network, &options);
    const bool integers = form.shifted || cut_bits(&network, &options);
    while (cut_form(&network, &form)) continue;
    kiln_arena_init(&arena, (size_t)1 << 20);
    kiln_zoo_begin(&b, form, &arena, seed);
    kiln_status st = add_entry(&b, network, &y);
    if (!st && form.batch > 1 && !b.has_images)
        st = KILN_ERROR(INVALID_ARGUMENT, "it takes no images, so there is no batch of them");
    if (!st && integers && form.floats != KILN_F32)
        st = KILN_ERROR(INVALID_ARGUMENT, "models on integers have floats of 32 bits");
    if (!st) kiln_zoo_end(&b, name, y, integers ? &floats : out);
    if (!st && integers) {
        st =
            kiln_quantize_expected(kiln_strbuf_view(&floats), &options, expect, &b, &arena, &model);
        if (!st) kiln_strbuf_str(out, model);
    }
    kiln_strbuf_deinit(&floats);
    kiln_arena_deinit(&arena);
    return kiln_status_note(st, "%.*s", KILN_STR_ARG(name));
}

void kiln_zoo_list(kiln_strbuf *out) {
    for (size_t i = 0; i < KILN_ARRAY_COUNT(network_table); i++)
        kiln_strbuf_printf(out, "%-14s %s\n", network_table[i].name, network_table[i].what);
    kiln_strbuf_printf(out, "%-14s %s\n", "NAME_nN", "any of them that takes images, on N of them");
    kiln_strbuf_printf(out, "%-14s %s\n", "NAME_f16", "any of them on halves; NAME_bf16 as well");
    kiln_strbuf_printf(
        out, "%-14s %s\n", "NAME_wWaA",
        "any of them on integers: weights of W bits, activations of A (1, 2, 4 or 8; "
        "the first and the last layer of networks keep 8)");
    kiln_strbuf_printf(out, "%-14s %s\n", "NAME_int8",
                       "any of them on signed bytes with scales that are powers of two, as `kiln "
                       "quantize --shift` writes them; a single operator takes and gives bytes");
    kiln_zoo_list_convs(out);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(workload_table); i++)
        kiln_strbuf_printf(out, "%s:%s  %s\n", workload_table[i].prefix, workload_table[i].form,
                           workload_table[i].what);
}
