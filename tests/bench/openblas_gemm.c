/* Times OpenBLAS's single-precision product on one thread: a peer of `./dev bench op`.
 *
 *     openblas_gemm M N K
 *
 * Prints {"median_us": ..., "min_us": ...}. */
#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define RUNS_MAX 400
#define SECONDS 0.3

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static float *matrix(int count) {
    float *data = aligned_alloc(64, ((size_t)count * sizeof *data + 63) / 64 * 64);
    if (!data) exit(1);
    for (int i = 0; i < count; i++) data[i] = (float)(i % 17) / 8 - 1;
    return data;
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: openblas_gemm M N K\n");
        return 2;
    }
    int m = atoi(argv[1]), n = atoi(argv[2]), k = atoi(argv[3]), runs = 0;
    float *a = matrix(m * k), *b = matrix(k * n), *c = matrix(m * n);
    static double sample[RUNS_MAX];
    double end = 0;
    for (int run = -5; run < RUNS_MAX && (run < 10 || now() < end); run++) {
        if (run == 0) end = now() + SECONDS;
        double start = now();
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, k, 1, a, k, b, n, 0, c, n);
        if (run >= 0) sample[runs++] = (now() - start) * 1e6;
    }
    qsort(sample, (size_t)runs, sizeof *sample, ascending);
    printf("{\"median_us\": %.3f, \"min_us\": %.3f}\n", sample[runs / 2], sample[0]);
    return 0;
}
