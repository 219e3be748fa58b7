#include "rpc-server/pace.h"

#include <sched.h>

#include "base/clock.h"
#include "base/stats.h"
#include "deploy/runtime/region.h"

#define PAGE_BYTES 4096u /* at least that on every machine */

void kiln_pacer_init(kiln_pacer *pacer, void *data) {
    *pacer = (kiln_pacer){.data = data, .sink = 1};
    for (size_t i = 0; i < KILN_PACE_BYTES; i += PAGE_BYTES)
        pacer->data[i / sizeof *pacer->data] = i;
}

/* Six chains of three operations each, none of which waits for another chain; shifts that differ
 * keep compilers from making vectors of them. */
static uint64_t compute(uint64_t start, uint32_t rounds) {
    uint64_t a = start + 1, b = start + 2, c = start + 3, d = start + 4, e = start + 5,
             f = start + 6;
    for (uint32_t i = 0; i < rounds; i++) {
        a ^= a << 13, a += 7;
        b ^= b >> 7, b += 11;
        c ^= c << 17, c += 13;
        d ^= d >> 9, d += 17;
        e ^= e << 5, e += 19;
        f ^= f >> 3, f += 23;
    }
    return a ^ b ^ c ^ d ^ e ^ f;
}

/* Four sums: no addition waits for the one before. */
static uint64_t read_piece(const uint64_t *data) {
    uint64_t sum[4] = {0};
    for (size_t i = 0; i < KILN_PACE_PIECE_BYTES / sizeof *data; i += 4)
        for (size_t k = 0; k < 4; k++) sum[k] += data[i + k];
    return sum[0] ^ sum[1] ^ sum[2] ^ sum[3];
}

/* Finds the piece's pages: what kernels leave of the address translation is no matter of memory. */
static uint64_t touch_pages(const uint64_t *data) {
    uint64_t sum = 0;
    for (size_t i = 0; i < KILN_PACE_PIECE_BYTES; i += PAGE_BYTES) sum += data[i / sizeof *data];
    return sum;
}

kiln_pace kiln_pacer_take(kiln_pacer *pacer) {
    const uint64_t *piece = pacer->data + pacer->at;
    uint64_t begin = kiln_clock_precise_ns();
    pacer->sink ^= compute(pacer->sink, KILN_PACE_ROUNDS);
    uint64_t computed = kiln_clock_precise_ns();
    pacer->sink ^= touch_pages(piece);
    uint64_t found = kiln_clock_precise_ns();
    pacer->sink ^= read_piece(piece);
    uint64_t end = kiln_clock_precise_ns();
    pacer->at =
        (pacer->at + KILN_PACE_PIECE_BYTES / sizeof *piece) % (KILN_PACE_BYTES / sizeof *piece);
    /* Above 0 whatever the clock's steps. */
    return (kiln_pace){(double)(computed - begin) + 1, (double)(end - found) + 1};
}

kiln_pace kiln_pacer_settle(kiln_pacer *pacer) {
    double arithmetic[KILN_PACE_READINGS], memory[KILN_PACE_READINGS];
    for (uint32_t i = 0; i < KILN_PACE_READINGS; i++) {
        const kiln_pace pace = kiln_pacer_take(pacer);
        arithmetic[i] = pace.arithmetic_ns;
        memory[i] = pace.memory_ns;
    }
    return (kiln_pace){kiln_stats_median(arithmetic, KILN_PACE_READINGS),
                       kiln_stats_median(memory, KILN_PACE_READINGS)};
}

static void watch(void *data, uint32_t count, kiln_pace *out_pace) {
    kiln_pacer pacer;
    kiln_pacer_init(&pacer, data);
    for (uint32_t i = 0; i < count; i++) {
        kiln_clock_wait_until(kiln_clock_ns() + KILN_PACE_PAUSE_NS);
        out_pace[i] = kiln_pacer_settle(&pacer);
    }
}

kiln_status kiln_pace_watch(uint32_t core, uint32_t count, kiln_pace *out_pace) {
    cpu_set_t before, wanted;
    CPU_ZERO(&wanted);
    CPU_SET(core, &wanted);
    kiln_region data = {0};
    kiln_status st = kiln_region_create(KILN_PACE_BYTES, KILN_GUARD_NONE, &data);
    if (!st && (sched_getaffinity(0, sizeof before, &before) != 0 ||
                sched_setaffinity(0, sizeof wanted, &wanted) != 0))
        st = KILN_ERROR(RESOURCE_EXHAUSTED, "core %u is not to be had for measuring", core);
    if (!st) {
        watch(data.data, count, out_pace);
        (void)sched_setaffinity(0, sizeof before, &before); /* it held a moment ago */
    }
    kiln_region_destroy(&data);
    return st;
}
