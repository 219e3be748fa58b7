/* Whether one of two series is better, from pairs alone: no distribution is assumed. Used where
 * searchers are compared on recorded logs. */
#ifndef KILN_TESTS_SUPPORT_SIGN_TEST_H
#define KILN_TESTS_SUPPORT_SIGN_TEST_H

#include <stdint.h>

/* One-sided sign test: the chance that `a` is greater than `b` in at least as many of `count`
 * pairs as it is, were both alike. Ties say nothing; 1 where there is nothing else. */
double sign_test(const double *a, const double *b, uint32_t count);

#endif
