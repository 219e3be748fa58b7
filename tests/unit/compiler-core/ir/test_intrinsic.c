/* Rows of intrinsics.def: their meaning, where they run, and what matches them. */
#include "compiler-core/ir/intrinsic.h"

#include <string.h>

#include "compiler-core/ir/eval.h"
#include "compiler-core/ir/ir_text.h"
#include "tests/support/targets.h"
#include "tests/support/test.h"

static int64_t element(const kiln_tensor *t, uint32_t i) {
    return kiln_dtype_load_i64(t->dtype, t->data, i);
}

static void the_meaning_of_each_is_a_sum_of_products(void **state) {
    kiln_arena *arena = *state;
    for (uint32_t row = 0; row < KILN_INTRINSIC_COUNT; row++) {
        const kiln_intrinsic *in = &kiln_intrinsics[row];
        const kiln_program *p = kiln_intrinsic_program(in, arena);
        kiln_tensor arg[3];
        const bool halves = kiln_intrinsic_sum(in) == KILN_F32;
        for (uint32_t i = 0; i < 3; i++)
            arg[i] = kiln_tensor_create(arena, p->buffer.data[i + 1].dtype,
                                        &p->buffer.data[i + 1].shape);
        for (uint32_t i = 0; i < kiln_shape_count(&arg[0].shape); i++) /* all extremes */
            if (halves)                                                /* exact in all types */
                kiln_dtype_store_i64(arg[0].dtype, arg[0].data, i, (int64_t)i % 7 - 3);
            else
                ((uint8_t *)arg[0].data)[i] = (uint8_t)(i % 3 == 0   ? 0x80
                                                        : i % 3 == 1 ? 0x7f
                                                                     : 0xff);
        for (uint32_t i = 0; i < kiln_shape_count(&arg[1].shape); i++)
            if (halves)
                kiln_dtype_store_i64(arg[1].dtype, arg[1].data, i, (int64_t)i % 5 + 1);
            else
                ((uint8_t *)arg[1].data)[i] = (uint8_t)(i % 2 == 0 ? 0x80 : 0xff);
        assert_null(kiln_te_eval(p, arg, 3));
        const uint32_t lanes = (uint32_t)arg[1].shape.dim[0], steps = (uint32_t)arg[1].shape.dim[1];
        for (uint32_t i = 0; i < kiln_shape_count(&arg[2].shape); i++) {
            const uint32_t lane = i % lanes,
                           row_of_a = kiln_intrinsic_has_rows(in) ? i / lanes : lane;
            int64_t sum = 0;
            for (uint32_t k = 0; k < steps; k++)
                sum += element(&arg[0], row_of_a * steps + k) * element(&arg[1], lane * steps + k);
            assert_int_equal(element(&arg[2], i), sum);
        }
    }
}

static void names_are_unique_and_lead_back(void **state) {
    (void)state;
    for (uint32_t i = 0; i < KILN_INTRINSIC_COUNT; i++)
        assert_ptr_equal(kiln_intrinsic_find(kiln_str_from(kiln_intrinsics[i].name)),
                         &kiln_intrinsics[i]);
    assert_null(kiln_intrinsic_find(KILN_STR("dot")));
}

/* Bytes that are widened fill a register no more than halves do; of two rows at once half as many
 * lanes are taken, so that each has a word twice as long. */
static void words_hold_the_steps_of_a_lane(void **state) {
    (void)state;
    for (uint32_t i = 0; i < KILN_INTRINSIC_COUNT; i++) {
        const kiln_intrinsic *in = &kiln_intrinsics[i];
        if (in->owner == KILN_INTRINSIC_CORE) continue;
        const uint32_t element = 8 * (uint32_t)kiln_dtype_size(in->operand[0]),
                       bits = in->operand_bits == 16 ? 16 : element;
        const bool whole_vectors = strcmp(in->feature, "mve") == 0;
        assert_int_equal(kiln_intrinsic_word(in) * bits, in->rows == 2   ? 64
                                                         : whole_vectors ? 128
                                                                         : 32);
    }
}

static void processors_have_what_their_features_bring(void **state) {
    kiln_arena *arena = *state;
    static const struct {
        const char *target, *has; /* in the order of the table */
    } row[] = {
        {"rpi3", ""},
        {"rpi4", ""},
        {"rpi5", "sdot udot "},
        {"android-arm64", ""},
        {"android-arm64,features=+dotprod", "sdot udot "},
        {"rpi5,features=-dotprod", ""},
        {"cpu:aarch64-unknown-linux-gnu,mcpu=neoverse-v1",
         "smmla ummla usmmla bfmmla sdot udot usdot bfdot "},
        {"pynq", ""},
        {"cpu:x86_64-unknown-linux-gnu,mcpu=x86-64", ""},
        {"x86-64-v3", "vpmaddwd vpmaddwd.wide vpmaddwd.unsigned vpmaddwd.mixed "},
        {"x86-64-v3,features=+avxvnni",
         "vpdpbusd vpdpbusd.signed vpmaddwd vpmaddwd.wide vpmaddwd.unsigned vpmaddwd.mixed "},
        {"cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v4,features=+avx512bf16",
         "vpmaddwd.512 vpmaddwd vpmaddwd.512.wide vpmaddwd.wide vpmaddwd.unsigned "
         "vpmaddwd.mixed vdpbf16ps.512 "},
        {"cpu:x86_64-unknown-linux-gnu,mcpu=cascadelake",
         "vpdpbusd.512 vpdpbusd.512.signed vpmaddwd.512 vpmaddwd vpmaddwd.512.wide vpmaddwd.wide "
         "vpmaddwd.unsigned vpmaddwd.mixed "},
        {"x86-64-v3,features=+amx-tile+amx-int8+amx-bf16",
         "vpmaddwd vpmaddwd.wide vpmaddwd.unsigned vpmaddwd.mixed tdpbssd tdpbsud tdpbusd tdpbuud "
         "tdpbf16ps "},
        {"cuda:sm_80", "mma.m16n8k16.f16 mma.m16n8k16.bf16 mma.m16n8k8.tf32 mma.m16n8k32.s8 "},
        {"cuda:sm_90", "mma.m16n8k16.f16 mma.m16n8k16.bf16 mma.m16n8k8.tf32 mma.m16n8k32.s8 "},
        {"h200", "mma.m16n8k16.f16 mma.m16n8k16.bf16 mma.m16n8k8.tf32 mma.m16n8k32.s8 "
                 "wgmma.m64k16.f16 wgmma.m64k16.bf16 "},
        {"wasm", "wasm.dot wasm.dot.wide wasm.dot.unsigned wasm.dot.mixed "},
        {"cortex-m4", "smlad "},
        {"cortex-m7,features=-dsp", ""},
        {"cortex-m55", "vmlava.s8 vmlava.u8 vmlava.s16 smlad "},
        {"opencl", ""},
        {"null", ""},
        {"vta:pynq", "gemm.i8 "},
        {"vta:b2i16o32,i4w8a32,uop15,inp15,wgt18,acc17,bus64,clk100,alu16,pipe11,v1", ""},
    };
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_target target = target_of(arena, row[i].target);
        const char *has = "";
        for (uint32_t k = 0; k < KILN_INTRINSIC_COUNT; k++)
            if (kiln_intrinsic_runs_on(&kiln_intrinsics[k], &target))
                has = kiln_arena_printf(arena, "%s%s ", has, kiln_intrinsics[k].name);
        if (strcmp(has, row[i].has) != 0)
            fail_msg("%s has \"%s\" instead of \"%s\"", row[i].target, has, row[i].has);
    }
}

/* Each word of an operand is in one register of one thread. */
static void fragments_hold_each_word_once(void **state) {
    (void)state;
    static const struct {
        uint32_t outer, words;
    } shape[KILN_FRAGMENT_COUNT] = {{16, 8}, {8, 8}, {16, 8}};
    for (uint32_t f = 0; f < KILN_FRAGMENT_COUNT; f++) {
        bool held[16][8] = {{false}};
        uint32_t words = 0;
        for (uint32_t lane = 0; lane < KILN_WARP_LANES; lane++)
            for (uint32_t r = 0; r < kiln_fragments[f].registers; r++) {
                const uint32_t of[] = {lane / 4, lane % 4, r % 2, r / 2};
                uint32_t outer = 0, word = 0;
                for (uint32_t i = 0; i < 4; i++) {
                    outer += kiln_fragments[f].outer[i] * of[i];
                    word += kiln_fragments[f].word[i] * of[i];
                }
                assert_true(outer < shape[f].outer && word < shape[f].words);
                words += !held[outer][word];
                held[outer][word] = true;
            }
        assert_int_equal(words, shape[f].outer * shape[f].words);
    }
}

static bool matches(kiln_arena *arena, const char *name, const char *x, const char *y,
                    const char *value, kiln_expr load[2], kiln_program **out) {
    const char *text =
        kiln_arena_printf(arena,
                          "program p\ninput x: %s[3,5]\ninput y: %s[5]\noutput z: i32[3]\n"
                          "block z(i:3 | j:5): z[i] sum= %s init 0i32\n",
                          x, y, value);
    assert_null(kiln_program_parse(kiln_str_from(text), arena, out));
    const kiln_program *meaning =
        kiln_intrinsic_program(kiln_intrinsic_find(kiln_str_from(name)), arena);
    return kiln_intrinsic_matches(meaning, *out, (*out)->block.data[1].value, load);
}

static kiln_str buffer_of(const kiln_program *p, kiln_expr load) {
    return p->buffer.data[kiln_expr_get(p, load)->payload.id].name;
}

static void products_match_in_either_order(void **state) {
    kiln_arena *arena = *state;
    kiln_program *p;
    kiln_expr load[2];
    assert_true(matches(arena, "sdot", "i8", "i8", "i32(x[i, j])*i32(y[j])", load, &p));
    assert_true(kiln_str_is(buffer_of(p, load[0]), "x"));
    assert_true(matches(arena, "usdot", "i8", "u8", "i32(x[i, j])*i32(y[j])", load, &p));
    assert_true(kiln_str_is(buffer_of(p, load[0]), "y"));
    assert_true(kiln_str_is(buffer_of(p, load[1]), "x"));
}

static void other_types_and_other_sums_do_not_match(void **state) {
    kiln_arena *arena = *state;
    kiln_program *p;
    kiln_expr load[2];
    assert_false(matches(arena, "sdot", "u8", "i8", "i32(x[i, j])*i32(y[j])", load, &p));
    assert_false(matches(arena, "udot", "u8", "i8", "i32(x[i, j])*i32(y[j])", load, &p));
    assert_false(matches(arena, "sdot", "i8", "i8", "i32(x[i, j]) + i32(y[j])", load, &p));
    assert_false(matches(arena, "sdot", "i8", "i8", "i32(x[i, j])*(i32(y[j]) - 3i32)", load, &p));
    assert_false(matches(arena, "sdot", "i8", "i8", "i32(x[i, j]*y[j])", load, &p));
    assert_false(matches(arena, "sdot", "i8", "i8", "i32(x[i, j])", load, &p));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(the_meaning_of_each_is_a_sum_of_products),
        cmocka_unit_test(names_are_unique_and_lead_back),
        cmocka_unit_test(words_hold_the_steps_of_a_lane),
        cmocka_unit_test(fragments_hold_each_word_once),
        test_with_arena(processors_have_what_their_features_bring),
        test_with_arena(products_match_in_either_order),
        test_with_arena(other_types_and_other_sums_do_not_match),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
