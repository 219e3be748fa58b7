#include "base/integer.h"

/* -1 is handled separately, because INT64_MIN / -1 overflows. */
int64_t kiln_floordiv(int64_t a, int64_t b) {
    if (b == 0) return 0;
    if (b == -1) return (int64_t)(0 - (uint64_t)a);
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

int64_t kiln_floormod(int64_t a, int64_t b) {
    int64_t rest = b == 0 || b == -1 ? 0 : a % b;
    return rest != 0 && (a < 0) != (b < 0) ? rest + b : rest;
}

int64_t kiln_gcd(int64_t a, int64_t b) {
    uint64_t x = a < 0 ? 0 - (uint64_t)a : (uint64_t)a, y = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
    while (y) {
        uint64_t rest = x % y;
        x = y;
        y = rest;
    }
    return x > INT64_MAX ? 1 : (int64_t)x; /* 2^63 alone has no positive form; 1 divides it too */
}
