/* Index expressions as sums over loops: constant + sum(coefficient * digit), where a digit is a
 * loop variable or, for a fused loop whose quotients and remainders are used, one place of its
 * number in mixed radix. Reading only: unlike ir/affine.h nothing is simplified or hash-consed, so
 * a candidate can be analysed in microseconds. */
#ifndef KILN_COMPILER_CORE_FACTS_FORM_H
#define KILN_COMPILER_CORE_FACTS_FORM_H

#include "compiler-core/ir/ir.h"

#define KILN_FORM_TERMS_MAX 12

typedef struct kiln_form_term {
    kiln_var var;
    int64_t divisor; /* the digit is (var / divisor) % extent */
    int64_t extent;  /* >= 2 */
    int64_t coefficient;
} kiln_form_term;

typedef struct kiln_form {
    int64_t constant;
    uint32_t term_count;
    bool exact; /* false: the values stay within the terms' range, but are not known one by one */
    bool data;  /* chosen by data that is loaded: any value */
    kiln_form_term term[KILN_FORM_TERMS_MAX];
} kiln_form;

/* The forms of variables: [var count]; NULL: a loop variable, which is its own digit. */
typedef struct kiln_form_scope {
    const kiln_program *p;
    const kiln_form *const *of_var;
} kiln_form_scope;

/* Linear form of an integer expression. Never fails: what is not linear becomes inexact. */
void kiln_form_of(const kiln_form_scope *scope, kiln_expr e, kiln_form *out);
/* Least and greatest value. */
void kiln_form_range(const kiln_form *form, int64_t *out_low, int64_t *out_high);
/* The share of all combinations of the terms whose value lies in [0, limit). Exact for exact forms
 * of up to 4096 combinations and those that count without gaps. */
double kiln_form_share_within(const kiln_form *form, int64_t limit);

/* Counts the distinct values of sums of multiples of strides, and their range. */
typedef struct kiln_spread {
    uint32_t count;
    struct {
        int64_t stride, extent; /* by ascending stride */
    } step[KILN_FORM_TERMS_MAX * 2];
    bool any; /* unknown values: the whole dimension is touched */
} kiln_spread;

/* Adds the multiples that the term takes. */
void kiln_spread_add(kiln_spread *spread, const kiln_form_term *term);
/* Distinct values and greatest - least + 1. Exact when strides nest or values are dense. */
void kiln_spread_measure(const kiln_spread *spread, int64_t *out_values, int64_t *out_span);

#endif
