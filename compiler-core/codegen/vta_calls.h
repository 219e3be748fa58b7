/* A lowered program for an accelerator core (lower.def's list CORE) as calls of vta/builder.h: each
 * call is a copy, a GEMM or a chain of operations of the ALU over many tiles. For vta_emit.c.
 *
 * The walk runs loops with their values. A chain of serial loops around one store becomes as few
 * calls as the machine can express; the walk runs the outermost loops of the chain that it cannot
 * express. Each iteration of an unrolled loop gets its own calls, so virtual threads stay separate.
 * A store is one of these, in tiles of the buffer that it writes or reads in the core:
 *
 *     inp, wgt, acc = global, or select(inside, global, 0)   a load, with zeros around
 *     inp, wgt = a value that reads nothing                  a load of a constant of the program
 *     acc = i32(global of bytes)                             the same, with the feature `bytes`
 *     acc = 0                                                a reset
 *     acc = acc + i32(inp)*i32(wgt)                          a GEMM: loops of the tile included
 *     acc = OP(OP(acc, acc or number), acc or number)        operations of the ALU
 *     out, global = i8(such operations, or none)             the same, in the accumulator's place
 *     global = out                                           a store
 *
 * OP is +, - a number, min, max, shr, shl, with the feature `mul` *. `out` has the place of the
 * accumulators that it is made from, which hold the bytes afterwards and not what they held before.
 *
 * Each ALLOC takes a place behind those of the enclosing ones. In a loop with @pipeline(n) it has n
 * places and takes one after the other each time that it is reached. A buffer whose stores have
 * that attribute has n times as many, or as many times as there is room for. */
#ifndef KILN_COMPILER_CORE_CODEGEN_VTA_CALLS_H
#define KILN_COMPILER_CORE_CODEGEN_VTA_CALLS_H

#include "base/status.h"
#include "base/vec.h"
#include "compiler-core/ir/ir.h"
#include "vta/builder.h"

#define KILN_VTA_OPERATIONS_MAX 16u /* of one store */
#define KILN_VTA_CALLS_MAX 262144u  /* of one program */

typedef enum kiln_vta_call_kind {
    KILN_VTA_CALL_COPY,
    KILN_VTA_CALL_GEMM,
    KILN_VTA_CALL_ALU,
} kiln_vta_call_kind;

typedef struct kiln_vta_call {
    kiln_vta_call_kind kind;
    kiln_vta_engine engine;
    kiln_stmt stmt;          /* the store that the call is a part of */
    kiln_vta_copy copy;      /* COPY */
    kiln_vta_gemm_kind gemm; /* GEMM */
    kiln_vta_nest nest;      /* GEMM, ALU */
    uint32_t operation_count;
    const kiln_vta_operation *operation; /* ALU; in the arena */
} kiln_vta_call;

typedef struct kiln_vta_calls {
    kiln_vta_config config;
    kiln_vta_sizes sizes;
    KILN_VEC(kiln_vta_call) call; /* in the order of the program */
    KILN_VEC(kiln_buffer) buffer; /* [i] is the builder's buffer i + 1: arguments */
    KILN_VEC(kiln_str) made;      /* bytes of the buffers behind these: constants */
} kiln_vta_calls;

/* Everything lies in `arena`; `p` gets expressions. `arg` are the arguments in their order.
 *
 * ILLEGAL_SCHEDULE    a store that is none of those above, named; a memory that is too small
 * RESOURCE_EXHAUSTED  more than KILN_VTA_CALLS_MAX calls */
KILN_MUST_USE kiln_status kiln_vta_calls_of(kiln_program *p, const kiln_buffer *arg,
                                            uint32_t arg_count, const kiln_vta_config *config,
                                            kiln_arena *arena, kiln_vta_calls *out_calls);

/* Whether operations of the ALU take a second operand from accumulators; whether that is a result
 * of the same call, so that the order of its rounds must be kept. */
bool kiln_vta_call_has_sources(const kiln_vta_call *call);
bool kiln_vta_call_reads_results(const kiln_vta_call *call, const kiln_vta_sizes *sizes,
                                 kiln_arena *arena);

/* A tile of a memory of the core that a call reads or writes. Accumulators and outputs are the same
 * tiles: KILN_VTA_ACC. */
typedef void (*kiln_vta_tile_visitor)(void *context, kiln_vta_memory memory, uint32_t tile,
                                      bool writes);
/* Visits every tile at least once; the order of the visits means nothing. */
void kiln_vta_call_visit(const kiln_vta_call *call, kiln_vta_tile_visitor visit, void *context);

#endif
