/* Times OpenBLAS's single-precision product on one thread: a peer of `./dev bench op`.
 *
 *     openblas_gemm M N K
 *
 * Prints {"median_us": ..., "min_us": ...}. */
#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/bench/peer_times.h"

typedef struct product {
    int m, n, k;
    const float *a, *b;
    float *c;
} product;

static float *matrix(int count) {
    float *data = aligned_alloc(64, ((size_t)count * sizeof *data + 63) / 64 * 64);
    if (!data) exit(1);
    for (int i = 0; i < count; i++) data[i] = (float)(i % 17) / 8 - 1;
    return data;
}

static void multiply(void *context) {
    const product *p = context;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, p->m, p->n, p->k, 1, p->a, p->k, p->b,
                p->n, 0, p->c, p->n);
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: openblas_gemm M N K\n");
        return 2;
    }
    const int m = atoi(argv[1]), n = atoi(argv[2]), k = atoi(argv[3]);
    product p = {m, n, k, matrix(m * k), matrix(k * n), matrix(m * n)};
    const peer_times times = peer_time(multiply, &p);
    printf("{\"median_us\": %.3f, \"min_us\": %.3f}\n", times.median_us, times.min_us);
    return 0;
}
