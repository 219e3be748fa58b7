/* Which iterators index what. */
#include "compiler-core/facts/pattern.h"

#include "tests/unit/compiler-core/sched/support.h"

static uint32_t bit(const kiln_program *p, kiln_block b, const char *name) {
    for (uint32_t i = 0; i < p->block.data[b].iter_count; i++)
        if (kiln_str_is(kiln_iter_name(p, &p->block.data[b].iter[i]), name)) return i;
    fail_msg("no iterator %s", name);
    return 0;
}

static void a_convolution_multiplies_under_a_window(void **state) {
    const conv_shape shape = {2, 4, 9, 9, 8, 3, 3, 2, 0, false};
    kiln_program *p = conv_program(*state, &shape);
    kiln_block conv = kiln_program_find_block(p, KILN_STR("conv"));
    kiln_pattern found;
    assert_true(kiln_pattern_of(p, conv, &found));
    assert_true(found.multiplies);
    assert_int_equal(found.from_count, 2);
    const kiln_block_access *x = &found.from[0], *w = &found.from[1];
    uint32_t oc = bit(p, conv, "oc"), oh = bit(p, conv, "oh"), ic = bit(p, conv, "ic"),
             kh = bit(p, conv, "kh");
    assert_int_equal(found.spatial,
                     1u << bit(p, conv, "n") | 1u << oc | 1u << oh | 1u << bit(p, conv, "ow"));
    assert_int_equal(found.reduce, 1u << ic | 1u << kh | 1u << bit(p, conv, "kw"));
    assert_int_equal(found.to.dim_of[oc], 1);
    assert_int_equal(w->dim_of[oc], 0);
    assert_int_equal(x->dim_of[oc], -1);
    assert_int_equal(x->dim_of[ic], 1);
    assert_int_equal(x->dim_of[oh], -1); /* stride 2 */
    assert_int_equal(x->window, 1u << 2 | 1u << 3);
    assert_int_equal(x->step[2], 1);
    assert_int_equal(w->window, 0);
}

static void blocks_of_one_operand_multiply_nothing(void **state) {
    kiln_program *p = chain_program(*state, 4, 6);
    kiln_pattern found;
    assert_true(kiln_pattern_of(p, kiln_program_find_block(p, KILN_STR("a")), &found));
    assert_false(found.multiplies);
    assert_int_equal(found.from_count, 1);
    assert_int_equal(found.reduce, 0);
    assert_int_equal(found.from[0].dim_of[1], 1);
    assert_int_equal((int64_t)kiln_pattern_work(p, found.block), 24);
}

static void products_over_other_operations_contract(void **state) {
    kiln_program *p =
        parsed(*state, "program p\ninput x: f32[5,8]\ninput w: f32[8,6]\ninput b: f32[8]\n"
                       "output y: f32[5,6]\noutput z: f32[5]\noutput s: f32[5,6]\n"
                       "block y(i:5, j:6 | k:8): y[i, j] max= x[i, k] + w[k, j]\n"
                       "block z(i:5 | k:8): z[i] max= x[i, k] + b[k]\n"
                       "block s(i:5, j:6 | k:8): s[i, j] sum= x[i, k]*w[k, j]\n");
    kiln_pattern found;
    assert_true(kiln_pattern_of(p, 1, &found) && found.contracts && !found.multiplies);
    assert_true(kiln_pattern_of(p, 2, &found) && !found.contracts); /* b has no row of its own */
    assert_true(kiln_pattern_of(p, 3, &found) && found.contracts && found.multiplies);
}

static void counting_ones_is_multiplying_bits(void **state) {
    kiln_program *p = parsed(
        *state,
        "program p\ninput x: u8[5,32]\nconstant w: u32[6,2]\noutput y: i32[5,6]\noutput z: "
        "i32[5]\ntemp b: u32[5,2]\n"
        "block pack(m:5, i:2 | c:32): b[m, i] sum= select(and(x[m, c], shl(1u8, u8(i))) != 0u8, "
        "shl(1u32, u32(c)), 0u32) init 0u32\n"
        "block count(m:5, n:6 | i:2, j:2): y[m, n] sum= i32(popcount(xor(b[m, i], w[n, "
        "j])))*shl(-1i32, i32(i + j)) init 0i32\n"
        "block ones(m:5 | i:2): z[m] sum= i32(popcount(b[m, i])) init 0i32\n");
    kiln_pattern found;
    assert_true(kiln_block_packs_bits(p, 1));
    assert_false(kiln_block_packs_bits(p, 2));
    assert_true(kiln_pattern_of(p, 2, &found));
    assert_true(found.multiplies && found.counts_ones);
    assert_int_equal(found.from[0].dim_of[bit(p, 2, "i")], 1);
    assert_int_equal(found.from[1].dim_of[bit(p, 2, "n")], 0);
    for (kiln_block b = 1; b <= 3; b += 2) {
        assert_true(kiln_pattern_of(p, b, &found));
        assert_false(found.multiplies || found.counts_ones);
    }
}

/* As many as Winograd's transform back reads, with a bias and a residual. */
static void every_operand_has_its_access(void **state) {
    kiln_strbuf text = {0};
    kiln_strbuf_text(&text, "program many\ninput x: f32[40,8]\noutput y: f32[8]\n"
                            "block y(i:8): y[i] = x[0, i]");
    for (int k = 1; k < 40; k++) kiln_strbuf_printf(&text, " + x[%d, i]", k);
    kiln_strbuf_char(&text, '\n');
    kiln_program *p = parsed(*state, text.data);
    kiln_strbuf_deinit(&text);
    kiln_pattern found;
    assert_true(kiln_pattern_of(p, 1, &found));
    assert_int_equal(found.from_count, 40);
    for (uint32_t a = 0; a < 40; a++) assert_int_equal(found.from[a].dim_of[0], 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(a_convolution_multiplies_under_a_window),
        test_with_arena(blocks_of_one_operand_multiply_nothing),
        test_with_arena(products_over_other_operations_contract),
        test_with_arena(counting_ones_is_multiplying_bits),
        test_with_arena(every_operand_has_its_access),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
