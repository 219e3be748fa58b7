/* Byte code of the null device: a lowered loop program as instructions over numbered registers, the
 * payload of targets of kind null. Written by code generation, checked and run by deploy/runtime,
 * printed by `kiln explain`.
 *
 * A payload holds functions, one for each launch. A function runs once for each thread of each
 * group of the launch's grid, with registers of its own: r0, r1, r2 are the index of its group in
 * x, y, z; r3, r4, r5 its index in the group; all others start at 0. A register holds 64 bits: an
 * integer or a float in double precision.
 *
 * Control is structured, so that every function ends:
 *
 *     LOOP a, imm         r[a] = imm; the body, up to its LOOP_END, may not write r[a]
 *     LOOP_END a, imm     while ++r[a] < imm: the body again; imm is above that of LOOP
 *     IF a / IF_NOT a     up to its IF_END only where r[a] is not 0 / is 0
 *     BARRIER             reached by all threads of a group or by none of them
 *     END                 once, last
 *
 * Instructions reach only the memory in the function's table of buffers. An index outside of its
 * buffer ends the launch with KILN_NULL_STRAY:
 *
 *     LOAD a, b, c, d, imm     r[a] = element r[b] + r[c] * imm of buffer d
 *     STORE a, b, c, d, imm    that element = r[a], rounded or wrapped to the buffer's dtype
 *     ADDRESS a, b, c, imm     r[a] = r[b] + r[c] * imm, integers
 *     SELECT a, b, c, d        r[a] = r[d] is not 0 ? r[b] : r[c]
 *     MULTIPLY_ADD a, b, c, d  r[a] = r[b] * r[c] + r[d], floats; the product is rounded
 *     SHIFT_... a, b, c, imm   r[b] by r[c] of imm bits; 0 outside of [0, imm)
 *     TO_FLOAT, TO_FLOAT_UNSIGNED a, b       of an integer
 *
 * The device's clock counts ticks, which are the same on every machine. It models a parallel
 * device, so that schedules for it are like those for GPUs:
 *
 * - a statement, which is a STORE, takes KILN_NULL_TICKS_STATEMENT, and for each LOAD and STORE of
 * it what its memory takes: KILN_NULL_TICKS_ARGUMENT, _SHARED or _LOCAL. A LOAD belongs to the next
 *   STORE behind it in the code, whether or not conditions between them hold
 * - threads of a group run at once: from barrier to barrier a group takes as long as the thread
 * that takes longest, and KILN_NULL_TICKS_BARRIER for the barrier
 * - KILN_NULL_UNITS groups run at once: groups go to the units in turn, and a launch takes as long
 *   as the unit that takes longest, and KILN_NULL_TICKS_LAUNCH to begin */
#ifndef KILN_BASE_NULL_CODE_H
#define KILN_BASE_NULL_CODE_H

#include <stdint.h>

#include "base/arena.h"
#include "base/dtype.h"
#include "base/status.h"
#include "base/str.h"

#define KILN_NULL_CODE_VERSION 2u
#define KILN_NULL_FUNCTIONS_MAX 512u
#define KILN_NULL_BUFFERS_MAX 1024u
#define KILN_NULL_REGISTERS_MAX 4096u
#define KILN_NULL_INSTRUCTIONS_MAX 1048576u /* of one function */
#define KILN_NULL_DEPTH_MAX 64u             /* of loops and ifs within each other */
#define KILN_NULL_FIRST_FREE 6u             /* registers below hold indices in the grid */
#define KILN_NULL_TEMP_BYTES_MAX (UINT64_C(1) << 30)
/* Steps (see kiln_null_function) of all threads of a launch; a launch of more is refused. */
#define KILN_NULL_STEPS_MAX (UINT64_C(1) << 40)

/* The clock, see above. */
#define KILN_NULL_TICKS_STATEMENT 1u
#define KILN_NULL_TICKS_ARGUMENT 4u
#define KILN_NULL_TICKS_SHARED 1u
#define KILN_NULL_TICKS_LOCAL 0u
#define KILN_NULL_TICKS_BARRIER 4u
#define KILN_NULL_TICKS_LAUNCH 64u
#define KILN_NULL_UNITS 4u

typedef enum kiln_null_op {
#define SET(NAME) KILN_NULL_##NAME,
#define CONTROL(NAME) KILN_NULL_##NAME,
#define TYPED(NAME) KILN_NULL_##NAME,
#define II(NAME, expression) KILN_NULL_##NAME,
#define IU(NAME, expression) KILN_NULL_##NAME,
#define FF(NAME, expression) KILN_NULL_##NAME,
#define FI(NAME, expression) KILN_NULL_##NAME,
#include "base/null_ops.def"
#undef SET
#undef CONTROL
#undef TYPED
#undef II
#undef IU
#undef FF
#undef FI
    KILN_NULL_OP_COUNT
} kiln_null_op;

typedef struct kiln_null_instruction {
    uint16_t op; /* kiln_null_op */
    uint16_t a, b, c, d;
    int64_t imm;
} kiln_null_instruction;

/* The memory of a buffer's elements. */
typedef enum kiln_null_place {
    KILN_NULL_ARGUMENT, /* from `offset` on in the launch's argument `argument`: device memory */
    KILN_NULL_SHARED,   /* from `offset` on in the shared memory of the group */
    KILN_NULL_LOCAL,    /* from `offset` on in the thread's local memory */
    KILN_NULL_PLACE_COUNT
} kiln_null_place;

typedef struct kiln_null_buffer {
    uint8_t place; /* kiln_null_place */
    uint8_t dtype; /* kiln_dtype */
    uint16_t argument;
    uint64_t offset; /* bytes; a multiple of the dtype's size */
    uint64_t count;  /* elements */
} kiln_null_buffer;

typedef struct kiln_null_function {
    kiln_str name;
    uint32_t register_count;
    uint64_t shared_bytes, local_bytes;
    uint32_t buffer_count;
    kiln_null_buffer *buffer; /* [buffer_count] */
    uint32_t instruction_count;
    kiln_null_instruction *instruction; /* [instruction_count] */
    uint64_t steps; /* computed by the check: most statements and loop passes of a thread */
} kiln_null_function;

typedef struct kiln_null_code {
    uint32_t function_count;
    kiln_null_function *function; /* [function_count] */
} kiln_null_code;

/* "LOAD"; NULL for a number that no row has. */
const char *kiln_null_op_name(uint32_t op);
/* Appends the bytes of checked code; same code, same bytes. */
void kiln_null_code_encode(const kiln_null_code *code, kiln_strbuf *out);
/* Reads and checks; the result lies in `arena`. DATA_LOSS: truncated, of another version, or not
 * well formed. */
KILN_MUST_USE kiln_status kiln_null_code_decode(kiln_str bytes, kiln_arena *arena,
                                                kiln_null_code *out_code);
/* Checks every function: existing registers, buffers and arguments, structured control, loops that
 * end. Fills `steps`. DATA_LOSS names function and instruction. */
KILN_MUST_USE kiln_status kiln_null_code_check(kiln_null_code *code);
/* NULL: no function has that name. */
const kiln_null_function *kiln_null_code_find(const kiln_null_code *code, kiln_str name);
/* Prints an instruction per line, indented by loops and ifs. */
void kiln_null_code_print(const kiln_null_code *code, kiln_strbuf *out);

#endif
