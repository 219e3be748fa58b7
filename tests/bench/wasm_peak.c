/* Multiply-adds of f32 in vectors of 128 bits, as many as an engine does: for bench_wasm.py. Twelve
 * sums are in flight, each with its factor in a register, as in the tile of a kernel. */
typedef float vector __attribute__((vector_size(16)));

#define SUMS 12

__attribute__((export_name("run"))) float run(int times) {
    const vector factor = {0.999f, 0.998f, 0.997f, 0.996f}, term = {0.1f, 0.2f, 0.3f, 0.4f};
    vector sum[SUMS], total = term;
    for (int i = 0; i < SUMS; i++) sum[i] = term * (float)i;
    for (int t = 0; t < times; t++)
#pragma clang loop unroll(full)
        for (int i = 0; i < SUMS; i++) sum[i] = sum[i] * factor + term;
    for (int i = 0; i < SUMS; i++) total += sum[i];
    return total[0] + total[1] + total[2] + total[3];
}
