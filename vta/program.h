/* A program for an accelerator of the VTA class: instructions, micro-ops and contents of main
 * memory, as one blob that runs without a compiler, and as text. Made by code generation, run by
 * simulators and the runtime, printed by `kiln vta disasm`.
 *
 * Main memory is a list of buffers, the first of which is the program's micro-ops. An instruction
 * that moves tiles names its buffer; its dram_base counts from the buffer's beginning, and the
 * loader adds the buffer's place (kiln_vta_program_place). Text, one statement a line, `#` begins a
 * comment:
 *
 *     config b1i16o16,i8w8a32,uop15,inp15,wgt18,acc17,bus64,clk100,alu16,pipe11,v1
 *     buffer image argument 200704                     # its name, role and bytes
 *     buffer table constant 4 00ff1234                 # and contents, in hexadecimal
 *     uop dst=3 src=0 wgt=2                            # one after the other, from 0 on
 *     load memory=inp buffer=image x_size=16 y_size=1 push_next
 *     gemm uop_end=1 iter_out=1 iter_in=1 pop_prev
 *
 * Fields of an instruction are those of vta/isa.def, in any order; a missing field is 0, a flag's
 * name alone means 1. */
#ifndef KILN_VTA_PROGRAM_H
#define KILN_VTA_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"
#include "vta/isa.h"

#define KILN_VTA_PROGRAM_VERSION 1u
#define KILN_VTA_INSTRUCTIONS_MAX 4194304u
#define KILN_VTA_UOPS_MAX 4194304u
#define KILN_VTA_BUFFERS_MAX 1024u
#define KILN_VTA_BUFFER_NAME_MAX 63u
#define KILN_VTA_DRAM_BYTES_MAX (UINT64_C(1) << 32)
#define KILN_VTA_PAGE_BYTES 4096u /* every buffer begins at a multiple of it */
#define KILN_VTA_BUFFER_UOPS 0u   /* the number of the buffer of micro-ops */

typedef enum kiln_vta_role {
    KILN_VTA_ROLE_UOPS,     /* the program's micro-ops; buffer 0 and no other */
    KILN_VTA_ROLE_ARGUMENT, /* of the caller */
    KILN_VTA_ROLE_CONSTANT, /* its bytes are in the program */
    KILN_VTA_ROLE_SCRATCH,
    KILN_VTA_ROLE_COUNT
} kiln_vta_role;

typedef struct kiln_vta_buffer {
    kiln_str name; /* legal; no two buffers have the same */
    uint32_t role; /* kiln_vta_role */
    uint64_t size_bytes;
    kiln_str content; /* of constants: size_bytes of them; else empty */
} kiln_vta_buffer;

typedef struct kiln_vta_program {
    kiln_vta_config config;
    uint32_t buffer_count; /* at least 1 */
    kiln_vta_buffer *buffer;
    uint32_t uop_count;
    kiln_vta_uop *uop;
    uint32_t instruction_count;
    kiln_vta_instruction *instruction;
    uint32_t *instruction_buffer; /* [instruction_count]: of LOAD and STORE the buffer's number */
} kiln_vta_program;

/* "argument" */
const char *kiln_vta_role_name(uint32_t role);
/* Of a buffer: 1 to KILN_VTA_BUFFER_NAME_MAX letters, digits and _. */
bool kiln_vta_name_is_legal(kiln_str name);

/* Checks whether the machine can run it: every instruction is legal (vta/isa.h), tiles are inside
 * of their buffers, chains end, FINISH is last and nowhere else. Micro-ops that GEMM and ALU use
 * are checked when it runs. */
bool kiln_vta_program_check(const kiln_vta_program *program, kiln_vta_fault *out_fault);
/* The place of each buffer when they follow each other from 0 on, each at a page; returns the bytes
 * of all. `out_place` has buffer_count elements. */
uint64_t kiln_vta_program_place(const kiln_vta_program *program, uint64_t *out_place);
/* Whether all buffers, with one page extra each, fit into the machine's address space.
 */
bool kiln_vta_program_fits(const kiln_vta_program *program);
/* Writes micro-ops and constants to their places in main memory. */
void kiln_vta_program_fill(const kiln_vta_program *program, const uint64_t *place, uint8_t *dram);
/* Bytes of its instructions and micro-ops. */
uint64_t kiln_vta_program_stream_bytes(const kiln_vta_program *program);
/* How many instructions run as one: those of a chain, else 1. */
uint32_t kiln_vta_program_run_length(const kiln_vta_program *program, uint32_t index);
/* The instruction for the machine, with its dram_base counted from address 0. */
kiln_vta_instruction kiln_vta_program_placed(const kiln_vta_program *program,
                                             const kiln_vta_sizes *sizes, const uint64_t *place,
                                             uint32_t index);

/* The blob; same program, same bytes. */
void kiln_vta_program_encode(const kiln_vta_program *program, kiln_strbuf *out);
/* DATA_LOSS: truncated, of another version, or not a legal program; contents of constants point
 * into `bytes`, all else lies in `arena`. */
KILN_MUST_USE kiln_status kiln_vta_program_decode(kiln_str bytes, kiln_arena *arena,
                                                  kiln_vta_program *out_program);
/* Prints and parses text: parse(print(p)) == p. INVALID_ARGUMENT naming the line, or buffers that
 * are together too large. */
void kiln_vta_program_print(const kiln_vta_program *program, kiln_strbuf *out);
KILN_MUST_USE kiln_status kiln_vta_program_parse(kiln_str text, kiln_arena *arena,
                                                 kiln_vta_program *out_program);
/* One instruction as a line of text, without its end; `buffer` names the buffer, or is empty. */
void kiln_vta_instruction_print(const kiln_vta_instruction *in, kiln_str buffer, kiln_strbuf *out);

#endif
