/* Makes programs for accelerators of the VTA class. Code generation calls it in a valid sequential
 * order; each engine keeps that order among its own instructions, and tokens order instructions of
 * different engines:
 *
 *     kiln_vta_builder_copy(b, &image);                  // LOAD runs it
 *     kiln_vta_builder_signal(b, LOAD, COMPUTE);         // after all that LOAD was given so far
 *     kiln_vta_builder_wait(b, COMPUTE, LOAD);           // before what COMPUTE is given next
 *     kiln_vta_builder_gemm(b, KILN_VTA_GEMM_ADD, &nest);
 *
 * A wait takes the oldest signal. Tokens become bits of adjacent instructions; redundant tokens and
 * unused signals are left out. Micro-ops are made by kiln_vta_fold, stored once, and loaded when
 * they are missing. The program passes kiln_vta_check if the tokens order the calls correctly. */
#ifndef KILN_VTA_BUILDER_H
#define KILN_VTA_BUILDER_H

#include "vta/copy.h"
#include "vta/fold.h"
#include "vta/program.h"

typedef struct kiln_vta_builder kiln_vta_builder;

typedef enum kiln_vta_gemm_kind {
    KILN_VTA_GEMM_ADD,
    KILN_VTA_GEMM_OVERWRITE, /* the first operation of each dst overwrites; needs the feature
                              * `first` */
    KILN_VTA_GEMM_RESET,     /* accumulators become 0; src and wgt do not matter */
} kiln_vta_gemm_kind;

typedef struct kiln_vta_operation {
    kiln_vta_alu_op op;
    bool use_imm;
    int32_t imm;
} kiln_vta_operation;

/* Limits of one run of the machine; 0: no limit. */
typedef struct kiln_vta_limits {
    uint32_t instructions;
    uint64_t bytes; /* of instructions and micro-ops */
} kiln_vta_limits;

/* Programs to be run one after the other. If there are several, contents of buffers pass from one
 * to the next, so scratch buffers become arguments. */
typedef struct kiln_vta_stream {
    uint32_t program_count;
    kiln_vta_program *program;
    uint64_t no_ops;               /* instructions that only pass a token on */
    uint64_t uop_hits, uop_misses; /* kernels that were in memory, or had to be loaded */
} kiln_vta_stream;

/* The builder and its results are in `arena`. */
kiln_vta_builder *kiln_vta_builder_create(const kiln_vta_config *config, kiln_arena *arena);
/* Accepts NULL. */
void kiln_vta_builder_destroy(kiln_vta_builder *b);

/* Number of accumulators for the caller: with the feature `engine` the builder reserves the last
 * one, for no-ops of the ALU. */
uint32_t kiln_vta_builder_accumulators(const kiln_vta_builder *b);
/* Adds a buffer, not for micro-ops; `content` is that of a constant, and is not copied.
 * RESOURCE_EXHAUSTED: too many. */
KILN_MUST_USE kiln_status kiln_vta_builder_buffer(kiln_vta_builder *b, kiln_str name,
                                                  kiln_vta_role role, uint64_t size_bytes,
                                                  kiln_str content, uint32_t *out_buffer);

/* Loads or stores, in as few instructions as the fields allow. INVALID_ARGUMENT: a store with
 * padding or that writes a byte twice, an unknown buffer, or what kiln_vta_instruction_check
 * refuses; OUT_OF_RANGE: outside of the machine's memory or of the buffer. */
KILN_MUST_USE kiln_status kiln_vta_builder_copy(kiln_vta_builder *b, const kiln_vta_copy *copy);
/* Errors of kiln_vta_fold; INVALID_ARGUMENT: the feature is missing. */
KILN_MUST_USE kiln_status kiln_vta_builder_gemm(kiln_vta_builder *b, kiln_vta_gemm_kind kind,
                                                const kiln_vta_nest *nest);
/* Does the operations one after the other at each tile of the nest, in as few passes as the feature
 * `chain` allows. Errors of kiln_vta_builder_gemm; FAILED_PRECONDITION: several passes are needed
 * and would change the result. */
KILN_MUST_USE kiln_status kiln_vta_builder_alu(kiln_vta_builder *b, const kiln_vta_nest *nest,
                                               const kiln_vta_operation *operation,
                                               uint32_t operation_count);

/* The two engines must be neighbours. */
void kiln_vta_builder_signal(kiln_vta_builder *b, kiln_vta_engine from, kiln_vta_engine to);
/* FAILED_PRECONDITION: no signal of `on` is left. */
KILN_MUST_USE kiln_status kiln_vta_builder_wait(kiln_vta_builder *b, kiln_vta_engine engine,
                                                kiln_vta_engine on);
/* Orders all earlier calls before all later ones. Contents of the machine's memories are not used
 * later: the stream may be cut here. */
void kiln_vta_builder_sync(kiln_vta_builder *b);

/* Ends the stream. Only destroy may be called after it.
 *
 * RESOURCE_EXHAUSTED   the calls between two syncs are more than `limits` allow; more tokens wait
 *                      than there are places; kernels of the ALU's engine that may be in use fill
 *                      the micro-op memory
 * FAILED_PRECONDITION  the ALU's engine has a kernel before its first token of COMPUTE */
KILN_MUST_USE kiln_status kiln_vta_builder_finish(kiln_vta_builder *b,
                                                  const kiln_vta_limits *limits,
                                                  kiln_vta_stream *out_stream);

#endif
