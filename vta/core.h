/* The state of an accelerator, and the effect of each instruction: the semantics shared by the
 * functional simulator, the cycle simulator and tests of the hardware. It traps on an index outside
 * of its memory, a read of an unwritten tile, and a shift by more than 31 bits.
 *
 * Integers wrap at their width. Micro-op k of [uop_bgn, uop_end), in round i of the outer and j of
 * the inner loop, uses the tiles
 *
 *     dst + i * dst_out + j * dst_in      (the same of src and wgt)
 *
 *     GEMM  acc[dst][b][o] += sum over k of inp[src][b][k] * wgt[wgt][o][k]
 *           with reset: acc[dst] = 0; with first: = instead of += in the first round of each loop
 *           whose dst factor is 0
 *     ALU   acc[dst][b][o] = op(acc[dst][b][o], use_imm ? imm : acc[src][b][o])
 *
 * A chain computes up to KILN_VTA_CHAIN_MAX operations, one after the other, on each tile. STORE
 * moves the lowest bits of accumulators, or with saturate the nearest representable number. */
#ifndef KILN_VTA_CORE_H
#define KILN_VTA_CORE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "vta/isa.h"

typedef struct kiln_vta_core {
    kiln_vta_config config;
    kiln_vta_sizes sizes;
    uint8_t *dram; /* the caller's */
    uint64_t dram_bytes;
    /* Tiles one after the other, elements of a tile row by row: [batch][block_in],
     * [block_out][block_in], [batch][block_out]. */
    uint32_t *uop;         /* as encoded */
    kiln_vta_uop *decoded; /* micro-ops of the running instruction */
    int16_t *inp, *wgt;    /* wider than their elements, for the host's vector multiplication */
    int32_t *acc;
    bool *written[KILN_VTA_MEMORY_COUNT]; /* tile by tile; of UOP, INP, WGT and ACC */
    bool *overwritten;                    /* tiles of ACC, by the running GEMM with first */
    uint32_t inp_elements, wgt_elements, acc_elements; /* of a tile */
    uint64_t multiply_adds;                            /* of GEMM, for figures */
} kiln_vta_core;

/* Memories are empty. They lie in `arena`. */
void kiln_vta_core_init(kiln_vta_core *core, const kiln_vta_config *config, uint8_t *dram,
                        uint64_t dram_bytes, kiln_arena *arena);
/* Runs legal instructions (kiln_vta_instruction_check), `count` of them: 1, or those of a chain.
 * dram_base counts from the beginning of dram. False with the fault; the state must not be used any
 * more then. `index` is the place of the first one in the program. */
bool kiln_vta_core_run(kiln_vta_core *core, const kiln_vta_instruction *in, uint32_t count,
                       uint32_t index, kiln_vta_fault *out_fault);

#endif
