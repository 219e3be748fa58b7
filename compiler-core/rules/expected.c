/* Reductions, their constants, and transforms, in cycles. */
#include "compiler-core/rules/expected.h"

#include "base/macros.h"
#include "compiler-core/facts/loads.h"
#include "compiler-core/facts/pattern.h"
#include "compiler-core/rules/rules.h"

/* Bytes a cycle that constants arrive with from beyond the second cache: 22 GB/s at 4 GHz, which
 * products of one row reach on a Zen 5. */
#define BYTES_PER_CYCLE 5.5
/* Cycles for one vector of a transform's result, with two vector ports: 28x28x128, F(4, 3) and
 * F(6, 3), less the products at the peak, on the same machine. */
#define TRANSFORM_CYCLES 4.0
/* Bytes a cycle of transformed data that exceeds the second cache, written and read: 56x56x64. */
#define SPILLED_PER_CYCLE 16.0

static double bytes_of(const kiln_program *p, kiln_buffer buffer) {
    const kiln_buffer_info *b = &p->buffer.data[buffer];
    return (double)kiln_shape_count(&b->shape) * (double)kiln_dtype_size(b->dtype);
}

/* Bytes that the block reads of constants, and of values computed from constants only. */
static double constant_bytes(kiln_program *p, kiln_block block) {
    const kiln_loads loads = kiln_block_loads(p, block);
    double bytes = 0;
    for (uint32_t i = 0; i < loads.count; i++) {
        const kiln_buffer buffer = kiln_load_buffer(p, loads.load[i]);
        const kiln_block producer = kiln_program_producer(p, buffer);
        if (p->buffer.data[buffer].role == KILN_ROLE_CONSTANT ||
            (producer && kiln_block_reads_only_constants(p, producer)))
            bytes += bytes_of(p, buffer);
    }
    return bytes;
}

static bool runs_each_time(kiln_program *p, kiln_block block) {
    return !p->block.data[block].removed && !kiln_block_reads_only_constants(p, block);
}

double kiln_expected_work(kiln_program *te) {
    double work = 0;
    for (kiln_block b = 1; b < te->block.count; b++)
        if (runs_each_time(te, b) && kiln_block_is_reduction(te, b))
            work += kiln_pattern_work(te, b);
    return work;
}

double kiln_expected_steps(kiln_program *te) {
    double steps = 0;
    for (kiln_block b = 1; b < te->block.count; b++) {
        const kiln_shape *results = &te->buffer.data[te->block.data[b].buffer].shape;
        if (runs_each_time(te, b) && kiln_block_is_reduction(te, b))
            steps = KILN_MAX(steps, kiln_pattern_work(te, b) / (double)kiln_shape_count(results));
    }
    return steps;
}

static bool streams(double constants, const kiln_target *target) {
    return constants > target->l2_bytes / 2.0;
}

bool kiln_expected_streams(kiln_program *te, const kiln_target *target) {
    for (kiln_block b = 1; b < te->block.count; b++)
        if (runs_each_time(te, b) && kiln_block_is_reduction(te, b) &&
            streams(constant_bytes(te, b), target))
            return true;
    return false;
}

/* Instructions for one vector of words, which are ANDed or XORed, counted and added; where no
 * instruction counts ones, halves of bytes look them up in a table. */
static double counting_instructions(const kiln_target *target) {
    if (target->arch != KILN_ARCH_X86_64)
        return kiln_target_has(target, KILN_STR("dotprod")) ? 3 : 5;
    if (target->vector_bytes == 64 && kiln_target_has(target, KILN_STR("avx512bitalg"))) return 3;
    return kiln_target_has(target, KILN_STR("avxvnni")) ? 8 : 10;
}

double kiln_expected_bit_products(kiln_program *te, kiln_program *alternative,
                                  const kiln_target *target) {
    kiln_pattern pattern;
    for (kiln_block b = 1; b < alternative->block.count; b++)
        if (kiln_pattern_of(alternative, b, &pattern) && pattern.counts_ones)
            return kiln_expected_work(te) / kiln_pattern_work(alternative, b) *
                   (target->vector_bytes / 4.0) / counting_instructions(target);
    return 0;
}

static kiln_dtype rounded_to(const kiln_program *p, kiln_expr e) {
    if (kiln_expr_get(p, e)->op == KILN_EXPR_TF32) return KILN_F32;
    if (kiln_expr_get(p, e)->op != KILN_EXPR_CAST) return KILN_DTYPE_NONE;
    const kiln_dtype from = (kiln_dtype)kiln_expr_get(p, kiln_expr_operand(p, e, 0))->dtype;
    return kiln_dtype_is_float(from) && kiln_dtype_size(from) == 2 ? from : KILN_DTYPE_NONE;
}

kiln_dtype kiln_rounded_multiplied(const kiln_program *p, kiln_block block) {
    const kiln_expr value = p->block.data[block].value;
    if (kiln_expr_get(p, value)->op != KILN_EXPR_MUL) return KILN_DTYPE_NONE;
    const kiln_dtype a = rounded_to(p, kiln_expr_operand(p, value, 0)),
                     b = rounded_to(p, kiln_expr_operand(p, value, 1));
    return a == b ? a : KILN_DTYPE_NONE;
}

const kiln_intrinsic *kiln_expected_halves(const kiln_target *target) {
    const kiln_intrinsic *found = NULL;
    for (uint32_t i = 0; i < KILN_INTRINSIC_COUNT; i++) {
        const kiln_intrinsic *in = &kiln_intrinsics[i];
        if (!kiln_intrinsic_of_threads(in) && kiln_intrinsic_sum(in) == KILN_F32 &&
            kiln_intrinsic_runs_on(in, target) && (!found || kiln_intrinsic_in_tiles(in)))
            found = in;
    }
    return found;
}

static bool multiplies_in_warps(const kiln_target *target, kiln_dtype factors) {
    for (uint32_t i = 0; i < KILN_INTRINSIC_COUNT; i++)
        if (kiln_intrinsics[i].owner == KILN_INTRINSIC_WARP &&
            kiln_intrinsics[i].operand[0] == factors &&
            kiln_intrinsic_runs_on(&kiln_intrinsics[i], target))
            return true;
    return false;
}

bool kiln_expected_multiplies(const kiln_target *target, kiln_dtype factors) {
    if (multiplies_in_warps(target, factors)) return true;
    return factors == KILN_F16 ? kiln_target_has(target, KILN_STR("fp16fml"))
                               : factors == KILN_BF16 && kiln_expected_halves(target) != NULL;
}

static bool is_wide(const kiln_program *p, kiln_expr e) {
    const kiln_expr_node *node = kiln_expr_get(p, e);
    return node->op == KILN_EXPR_CAST && node->dtype == KILN_I32 &&
           kiln_expr_get(p, kiln_expr_operand(p, e, 0))->dtype == KILN_I16;
}

bool kiln_multiplies_wide(const kiln_program *p, kiln_block block) {
    const kiln_expr value = p->block.data[block].value;
    return kiln_expr_get(p, value)->op == KILN_EXPR_MUL &&
           is_wide(p, kiln_expr_operand(p, value, 0)) && is_wide(p, kiln_expr_operand(p, value, 1));
}

const kiln_intrinsic *kiln_expected_wide(const kiln_target *target) {
    const kiln_intrinsic *found = NULL;
    for (uint32_t i = 0; i < KILN_INTRINSIC_COUNT; i++) {
        const kiln_intrinsic *in = &kiln_intrinsics[i];
        if (kiln_intrinsic_of_threads(in) || !kiln_intrinsic_runs_on(in, target) ||
            kiln_intrinsic_sum(in) != KILN_I32)
            continue;
        if (in->operand[0] == KILN_I16 && !found) found = in;
        if (in->operand[0] != KILN_I16 && !kiln_intrinsic_widens(in) &&
            (kiln_intrinsic_in_tiles(in) || kiln_intrinsic_words(in) <= in->rows))
            return NULL;
    }
    return found;
}

/* Multiply-adds of a vector per cycle for the block. In half full tiles, as their sizes are not
 * known here. */
static double products_a_cycle(const kiln_program *p, kiln_block block, const kiln_target *target) {
    const kiln_intrinsic *halves =
        kiln_rounded_multiplied(p, block) == KILN_BF16 ? kiln_expected_halves(target) : NULL;
    if (!halves) return target->core.vector;
    if (!kiln_intrinsic_in_tiles(halves)) return target->core.vector * halves->steps;
    return halves->rows * halves->lanes * halves->steps / KILN_INTRINSIC_TILE_CYCLES /
           (target->vector_bytes / 4.0) / 2;
}

static double processor_cycles(kiln_program *te, const kiln_target *target) {
    const double lanes = target->vector_bytes / 4.0;
    double cycles = 0, spilled = 0;
    for (kiln_block b = 1; b < te->block.count; b++) {
        const double work = kiln_pattern_work(te, b) / lanes / target->threads;
        const double constants = constant_bytes(te, b);
        if (!runs_each_time(te, b)) continue;
        if (kiln_block_is_reduction(te, b)) {
            const double arrival = streams(constants, target) ? constants / BYTES_PER_CYCLE : 0;
            const double rate = products_a_cycle(te, b, target);
            cycles += KILN_MAX(work / rate, arrival);
        } else if (kiln_sketch_picks(te, b, NULL)) {
            cycles += work * TRANSFORM_CYCLES * 2 / target->core.vector;
        } else {
            continue;
        }
        const kiln_buffer to = te->block.data[b].buffer;
        if (te->buffer.data[to].role == KILN_ROLE_TEMP && bytes_of(te, to) > target->l2_bytes)
            spilled += bytes_of(te, to);
    }
    return cycles + spilled / SPILLED_PER_CYCLE;
}

/* Multiply-adds of the block per cycle on a unit of the device. */
static double device_rate(const kiln_program *p, kiln_block block, const kiln_target *target) {
    const kiln_dtype factors = kiln_rounded_multiplied(p, block);
    const double vector = target->gpu->multiply_adds[KILN_F32];
    if (factors == KILN_DTYPE_NONE || !multiplies_in_warps(target, factors)) return vector;
    return KILN_MAX(target->gpu->tensor_multiply_adds[factors], vector);
}

/* Of what the block reads and writes. */
static double moved_bytes(kiln_program *p, kiln_block block) {
    const kiln_loads loads = kiln_block_loads(p, block);
    double bytes = bytes_of(p, p->block.data[block].buffer);
    for (uint32_t i = 0; i < loads.count; i++)
        bytes += bytes_of(p, kiln_load_buffer(p, loads.load[i]));
    return bytes;
}

/* Whether the block converts a reduction's operand to another type, which copies to shared memory
 * cannot. */
static bool changes_type(kiln_program *p, kiln_block block) {
    const kiln_loads loads = kiln_block_loads(p, block);
    const kiln_buffer_info *to = &p->buffer.data[p->block.data[block].buffer];
    return to->role == KILN_ROLE_TEMP && loads.count &&
           p->buffer.data[kiln_load_buffer(p, loads.load[0])].dtype != to->dtype;
}

static double device_cycles(kiln_program *te, const kiln_target *target) {
    const kiln_gpu *gpu = target->gpu;
    double cycles = 0;
    for (kiln_block b = 1; b < te->block.count; b++) {
        if (!runs_each_time(te, b)) continue;
        const bool sums = kiln_block_is_reduction(te, b);
        if (!sums && !changes_type(te, b) && !kiln_sketch_picks(te, b, NULL)) continue;
        const double adds = sums ? kiln_pattern_work(te, b) : 0;
        const double moved = moved_bytes(te, b) / gpu->memory_rate * gpu->clock_hz;
        cycles += KILN_MAX(adds / device_rate(te, b, target) / gpu->units, moved) +
                  gpu->launch_ns * 1e-9 * gpu->clock_hz;
    }
    return cycles;
}

double kiln_expected_cycles(kiln_program *te, const kiln_target *target) {
    return target->gpu && !target->gpu->is_cpu ? device_cycles(te, target)
                                               : processor_cycles(te, target);
}
