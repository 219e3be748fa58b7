#include "tests/unit/compiler-core/graph/support.h"

static void gemm_scales_transposes_and_adds(void **state) {
    const char *inputs =
        "input a: f32[2,2]\nconstant b: f32[2,2] = [1, 10, 100, 1000]\nconstant c: f32[2] = [1, 2]";
    expect_op(*state, inputs, "y: f32[2,2] = gemm(a, b)", "f32[2,2]: 201 2010 403 4030");
    expect_op(*state, inputs, "y: f32[2,2] = gemm(a, b) transA=1", "f32[2,2]: 301 3010 402 4020");
    expect_op(*state, inputs, "y: f32[2,2] = gemm(a, b) transB=1", "f32[2,2]: 21 2100 43 4300");
    expect_op(*state, inputs, "y: f32[2,2] = gemm(a, b, c) alpha=0.5 beta=2",
              "f32[2,2]: 102.5 1009 203.5 2019");
}

static void gemm_refuses_what_does_not_fit(void **state) {
    const char *inputs = "input a: f32[2,3]\ninput b: f32[2,3]\ninput c: f32[4]\ninput v: f32[3]";
    expect_op_refused(*state, inputs, "y: f32[2,3] = gemm(a, b)",
                      "inner dimensions 3 and 2 differ");
    expect_op_refused(*state, inputs, "y: f32[2,2] = gemm(a, b, c) transB=1",
                      "2 and 4 do not broadcast");
    expect_op_refused(*state, inputs, "y: f32[2] = gemm(a, v)", "must be matrices");
}

static void matmul_follows_numpy(void **state) {
    expect_op(*state, "input a: f32[2,2]\ninput b: f32[2,2]", "y: f32[2,2] = matmul(a, b)",
              "f32[2,2]: 7 10 15 22");
    expect_op(*state, "input a: f32[2]\ninput b: f32[2]", "y: f32[] = matmul(a, b)", "f32[]: 5");
    expect_op(*state, "input a: f32[2]\ninput b: f32[2,3]", "y: f32[3] = matmul(a, b)",
              "f32[3]: 9 12 15");
    expect_op(*state, "input a: f32[3,2]\ninput b: f32[2]", "y: f32[3] = matmul(a, b)",
              "f32[3]: 5 11 17");
    expect_op(*state, "input a: f32[2,1,1,2]\ninput b: f32[2,2,1]",
              "y: f32[2,2,1,1] = matmul(a, b)", "f32[2,2,1,1]: 5 11 11 25");
    expect_op(*state, "input a: i32[1,2]\ninput b: i32[2,1]", "y: i32[1,1] = matmul(a, b)",
              "i32[1,1]: 5");
    expect_op_refused(*state, "input a: f32[2,3]\ninput b: f32[2,3]", "y: f32[2,3] = matmul(a, b)",
                      "inner dimensions 3 and 2");
    expect_op_refused(*state, "input a: f32[]\ninput b: f32[2]", "y: f32[2] = matmul(a, b)",
                      "scalars");
}

static void integer_products_are_wide(void **state) {
    expect_op(*state, "input a: u8[1,2]\nconstant b: i8[2,1] = [-100, 100]\nconstant z: u8[] = [3]",
              "y: i32[1,1] = matmul_integer(a, b, z)", "i32[1,1]: 100");
}

static void einsum_reads_equations(void **state) {
    const char *inputs = "input a: f32[2,3]\ninput b: f32[3,2]\ninput s: f32[2,2]";
    expect_op(*state, inputs, "y: f32[2,2] = einsum(a, b) equation=\"ij,jk->ik\"",
              "f32[2,2]: 22 28 49 64");
    expect_op(*state, inputs, "y: f32[3,2] = einsum(a) equation=\"ij->ji\"",
              "f32[3,2]: 1 4 2 5 3 6");
    expect_op(*state, inputs, "y: f32[2] = einsum(a) equation=\"ij->i\"", "f32[2]: 6 15");
    expect_op(*state, inputs, "y: f32[2] = einsum(s) equation=\"...ii->...i\"", "f32[2]: 1 4");
    expect_op(*state, inputs, "y: f32[2,2] = einsum(a, b) equation=\"ij, jk\"",
              "f32[2,2]: 22 28 49 64");
    expect_op_refused(*state, inputs, "y: f32[2] = einsum(a) equation=\"ij->ik\"",
                      "output label is in no input");
    expect_op_refused(*state, inputs, "y: f32[2] = einsum(a) equation=\"i->i\"",
                      "input 0 has rank 2");
    expect_op_refused(*state, inputs, "y: f32[2] = einsum(a, a) equation=\"ij,jk->ik\"",
                      "does not agree");
    expect_op_refused(*state, inputs, "y: f32[2] = einsum(a) equation=\"i?->i\"", "unexpected '?'");
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(gemm_scales_transposes_and_adds),
        test_with_arena(gemm_refuses_what_does_not_fit),
        test_with_arena(matmul_follows_numpy),
        test_with_arena(integer_products_are_wide),
        test_with_arena(einsum_reads_equations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
