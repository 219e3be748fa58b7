/* Instructions of accelerators of the VTA class: as numbers, as bits, and the check of one. Rows
 * are in isa.def. The machine: docs/reference/vta.md.
 *
 * Three engines take instructions in order from their own queues: LOAD moves input and weight
 * tiles, COMPUTE moves micro-ops and accumulators and computes, STORE moves outputs. With the
 * feature `engine` ALU instructions have their own engine between COMPUTE and STORE. Neighbours
 * give each other tokens; an instruction waits for its tokens, runs, then gives tokens.
 *
 * Source: T. Moreau et al., "A Hardware-Software Blueprint for Flexible Deep Learning
 * Specialization", IEEE Micro 39(5), 2019, and the published hardware's configurations. */
#ifndef KILN_VTA_ISA_H
#define KILN_VTA_ISA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"
#include "base/str.h"
#include "base/vta_config.h"

#define KILN_VTA_INSTRUCTION_BYTES 16u
#define KILN_VTA_CHAIN_MAX 4u

typedef enum kiln_vta_opcode {
#define OPCODE(NAME, number, name, FORM, doc) KILN_VTA_##NAME = number,
#include "vta/isa.def"
    KILN_VTA_OPCODE_COUNT
} kiln_vta_opcode;

typedef enum kiln_vta_alu_op {
#define ALU_OP(NAME, number, name, FEATURE, doc) KILN_VTA_ALU_##NAME = number,
#include "vta/isa.def"
    KILN_VTA_ALU_OP_COUNT
} kiln_vta_alu_op;

typedef enum kiln_vta_engine {
    KILN_VTA_ENGINE_LOAD,
    KILN_VTA_ENGINE_COMPUTE,
    KILN_VTA_ENGINE_ALU, /* with the feature `engine` only */
    KILN_VTA_ENGINE_STORE,
    KILN_VTA_ENGINE_COUNT
} kiln_vta_engine;

/* A member for each FIELD; fields of other forms are 0. */
typedef struct kiln_vta_instruction {
#define KILN_VTA_TYPE_COUNT uint32_t
#define KILN_VTA_TYPE_FLAG uint32_t
#define KILN_VTA_TYPE_MEMORY uint32_t /* kiln_vta_memory */
#define KILN_VTA_TYPE_ALU uint32_t    /* kiln_vta_alu_op */
#define KILN_VTA_TYPE_SIGNED int32_t
#define FIELD(FORM, field, word, bits, KIND, FEATURE, doc) KILN_VTA_TYPE_##KIND field;
#include "vta/isa.def"
} kiln_vta_instruction;

/* Numbers of tiles: of the accumulator that is written, the source and the weights. */
typedef struct kiln_vta_uop {
    uint32_t dst, src, wgt;
} kiln_vta_uop;

/* Sizes derived from a configuration. */
typedef struct kiln_vta_sizes {
    uint32_t tile_bytes[KILN_VTA_MEMORY_COUNT]; /* in main memory */
    uint32_t tile_count[KILN_VTA_MEMORY_COUNT];
    uint32_t uop_bits, acc_bits, inp_bits, wgt_bits; /* bits of a tile's number */
    uint32_t src_bits;                               /* the larger one of acc_bits and inp_bits */
} kiln_vta_sizes;

typedef enum kiln_vta_fault_kind {
    KILN_VTA_FAULT_NONE,
#define X(NAME, words) KILN_VTA_FAULT_##NAME,
#include "vta/faults.def"
#undef X
    KILN_VTA_FAULT_COUNT
} kiln_vta_fault_kind;

typedef struct kiln_vta_fault {
    kiln_vta_fault_kind kind;
    uint32_t instruction; /* its place in the program; a micro-op's for UOP_UNUSED_BITS */
    char text[192];       /* the words of faults.def and the numbers */
} kiln_vta_fault;

kiln_vta_sizes kiln_vta_sizes_of(const kiln_vta_config *config);

const char *kiln_vta_opcode_name(uint32_t opcode); /* "load"; NULL: there is none */
const char *kiln_vta_memory_name(uint32_t memory); /* "inp" */
const char *kiln_vta_alu_op_name(uint32_t op);     /* "shr" */
const char *kiln_vta_engine_name(kiln_vta_engine engine);
/* The fault's name, "SRAM_RANGE", and its words. */
const char *kiln_vta_fault_name(kiln_vta_fault_kind kind);
const char *kiln_vta_fault_words(kiln_vta_fault_kind kind);
/* Fills `*out_fault`; false, so that a check can return it. */
bool kiln_vta_fault_set(kiln_vta_fault *out_fault, kiln_vta_fault_kind kind, uint32_t instruction,
                        const char *format, ...) KILN_PRINTF(4, 5);

/* The engine that runs an instruction, and the neighbours of an engine; false: none on that
 * side. */
kiln_vta_engine kiln_vta_engine_of(const kiln_vta_config *config, const kiln_vta_instruction *in);
bool kiln_vta_engine_before(const kiln_vta_config *config, kiln_vta_engine engine,
                            kiln_vta_engine *out_before);
bool kiln_vta_engine_behind(const kiln_vta_config *config, kiln_vta_engine engine,
                            kiln_vta_engine *out_behind);

/* Writes the bits; `in` must be legal (kiln_vta_instruction_check), so that every number fits. */
void kiln_vta_instruction_encode(const kiln_vta_config *config, const kiln_vta_instruction *in,
                                 uint8_t out_bytes[KILN_VTA_INSTRUCTION_BYTES]);
/* Decodes the bits. False, with OPCODE or RESERVED: the bits are no instruction of this machine.
 * The result may still be illegal. */
bool kiln_vta_instruction_decode(const kiln_vta_config *config,
                                 const uint8_t bytes[KILN_VTA_INSTRUCTION_BYTES],
                                 kiln_vta_instruction *out_in, kiln_vta_fault *out_fault);
/* Checks whether it can run on the machine with any micro-ops: fields fit their bits, engines and
 * features exist, tiles and micro-ops are inside of their memories, loops have rounds. Chains are
 * checked by vta/program.h. `index` is its place, for the fault. */
bool kiln_vta_instruction_check(const kiln_vta_config *config, const kiln_vta_instruction *in,
                                uint32_t index, kiln_vta_fault *out_fault);

uint32_t kiln_vta_uop_encode(const kiln_vta_sizes *sizes, kiln_vta_uop uop);
/* False, with UOP_UNUSED_BITS: a bit above its fields is set. */
bool kiln_vta_uop_decode(const kiln_vta_sizes *sizes, uint32_t bits, uint32_t index,
                         kiln_vta_uop *out_uop, kiln_vta_fault *out_fault);

#endif
