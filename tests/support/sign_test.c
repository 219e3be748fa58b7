#include "tests/support/sign_test.h"

#include <math.h>

double sign_test(const double *a, const double *b, uint32_t count) {
    uint32_t wins = 0, decided = 0;
    for (uint32_t i = 0; i < count; i++) {
        wins += a[i] > b[i];
        decided += a[i] != b[i];
    }
    double chance = 0;
    for (uint32_t k = wins; k <= decided; k++)
        chance += exp(lgamma(decided + 1.0) - lgamma(k + 1.0) - lgamma(decided - k + 1.0) -
                      decided * log(2));
    return chance;
}
