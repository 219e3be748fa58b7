/* What tests of expressions and programs share: a program in an arena, text of expressions, random
 * index expressions and their values. */
#ifndef KILN_TESTS_UNIT_COMPILER_CORE_IR_SUPPORT_H
#define KILN_TESTS_UNIT_COMPILER_CORE_IR_SUPPORT_H

#include "base/rand.h"
#include "compiler-core/ir/ir.h"
#include "tests/support/test.h"

/* Setup and teardown: *state is a fresh empty program. */
int program_set_up(void **state);
int program_tear_down(void **state);
#define PROGRAM_TEST(name) cmocka_unit_test_setup_teardown(name, program_set_up, program_tear_down)

kiln_expr add(kiln_program *p, kiln_expr a, kiln_expr b);
kiln_expr sub(kiln_program *p, kiln_expr a, kiln_expr b);
kiln_expr times(kiln_program *p, kiln_expr a, int64_t c);
kiln_expr plus(kiln_program *p, kiln_expr a, int64_t c);
kiln_expr floordiv(kiln_program *p, kiln_expr a, int64_t c);
kiln_expr floormod(kiln_program *p, kiln_expr a, int64_t c);
kiln_expr compare(kiln_program *p, kiln_expr_op op, kiln_expr a, kiln_expr b);
/* A variable of [0, extent). */
kiln_expr var(kiln_program *p, const char *name, int64_t extent);

/* Checks an expression's text. */
void expect_text(const kiln_program *p, kiln_expr e, const char *text);
/* A random i64 (or bool) expression over the program's variables. */
kiln_expr random_index(kiln_program *p, kiln_rand *r, uint32_t depth);
kiln_expr random_condition(kiln_program *p, kiln_rand *r, uint32_t depth);
/* Draws every variable from its range. */
void draw_point(const kiln_program *p, kiln_rand *r, int64_t *value);
int64_t value_at(const kiln_program *p, kiln_expr e, const int64_t *value);

/* A program that must parse, in `p`'s arena. */
kiln_program *parse(const kiln_program *p, const char *text);
/* Seeded data for the program's arguments, outputs poisoned; `out`: [64]; in the program's arena.
 */
uint32_t make_args(const kiln_program *p, uint64_t seed, kiln_tensor *out);
/* Every output element of `got` is within its bound of `wanted`: integers and bool equal, floats by
 * bound[i] of the i-th output. */
void expect_within_bounds(const kiln_program *p, const kiln_tensor *got, const kiln_tensor *wanted,
                          const kiln_tensor *bound, uint32_t arg_count, uint64_t seed);

#endif
