/* Traces: schedules as data. A trace is a list of instructions (prims.def); replaying it on a
 * task's initial loop program gives the scheduled program. Samplers carry a decision; a trace with
 * open decisions is a template, which a search closes. Hand-written templates, generated sketches,
 * candidates, records and messages use the same form. Source: AutoTVM's templates and
 * MetaSchedule's traces (NeurIPS'22).
 *
 * Text, one instruction a line (docs/reference/trace-text.md):
 *     t0 = perfect_tile(conv.oc, 4, 16) = [1, 2, 2, 16]
 *     split(conv.oc, t0[0], t0[1], t0[2], t0[3])
 *     c1 = categorical(1, 2, 4) = ?
 *     transform_layout(x, "d0,d1/{0},d2,d3,d1%{0}", t0[2]*t0[3])
 *     p2 = location(pad, 4) = 3
 *     compute_at(pad, p2)
 * Loops and blocks are named as in the program at that point; split(l) makes l.0, l.1, ...; fuse(a,
 * b) makes a.f. A sampler is named by its kind's first letter and its number among the samplers.
 * Binary form: msgpack, versioned, a few hundred bytes. */
#ifndef KILN_COMPILER_CORE_SCHED_TRACE_H
#define KILN_COMPILER_CORE_SCHED_TRACE_H

#include "base/hash.h"
#include "base/rand.h"
#include "base/status.h"
#include "base/target.h"
#include "compiler-core/algorithm/algorithm.h"
#include "compiler-core/ir/ir.h"

#define KILN_TRACE_INSTRUCTIONS_MAX 512
#define KILN_TRACE_BYTES_MAX ((size_t)64 << 10)
#define KILN_DECISIONS_MAX 9

typedef enum kiln_prim {
#define X(NAME, name, number, operands, kind, moves) KILN_PRIM_##NAME,
#include "compiler-core/sched/prims.def"
#undef X
    KILN_PRIM_COUNT
} kiln_prim;

/* An operand: a name, a text, or an integer that is a product of factors, each a constant or an
 * element of an earlier sampler's decision; a loop may also be the result of a LOCATION. */
#define KILN_OPERAND_FACTORS_MAX 4
typedef struct kiln_operand {
    kiln_str text; /* block, loop, buffer, text operands; empty for integers and location results */
    uint32_t factor_count; /* integers: >= 1; location results: 1 */
    struct {
        uint32_t sampler; /* instruction index + 1, or 0 for a constant */
        int64_t value;    /* the constant, or which element of the decision */
    } factor[KILN_OPERAND_FACTORS_MAX];
} kiln_operand;

typedef struct kiln_instruction {
    kiln_prim prim;
    uint32_t operand_count;
    kiln_operand *operand;
    bool decided; /* samplers: whether decision[] is set */
    uint32_t decision_count;
    int64_t decision[KILN_DECISIONS_MAX]; /* tile factors; index of the category or row; index of
                                             the location + 1, 0 root */
} kiln_instruction;

typedef struct kiln_trace {
    uint32_t count, capacity;
    kiln_instruction *instruction; /* in the arena it was built in */
} kiln_trace;

/* Whether it carries a decision: a sampler. */
bool kiln_instruction_samples(const kiln_instruction *in);

/* Appends an instruction; used by decoders and schedule.h. Operands are made by the functions below
 * and copied. Returns the instruction's index + 1. */
uint32_t kiln_trace_add(kiln_trace *trace, kiln_arena *arena, kiln_prim prim,
                        const kiln_operand *operand, uint32_t operand_count);
kiln_operand kiln_operand_name(const char *text); /* block, loop, buffer or text; must outlive the
                                                     trace's arena or live in it */
kiln_operand kiln_operand_int(int64_t value);
/* Element `element` of the decision of instruction `sampler` - 1. */
kiln_operand kiln_operand_ref(uint32_t sampler, uint32_t element);
/* The product; at most KILN_OPERAND_FACTORS_MAX factors. */
kiln_operand kiln_operand_times(kiln_operand a, kiln_operand b);

/* Applies the trace to a copy of `te` placed in loops (kiln_program_make_loops). Open decisions are
 * drawn from `rand` (NULL: an open decision is FAILED_PRECONDITION) and written into `*out_closed`
 * when it is not NULL (a closed copy of the trace in `arena`). ILLEGAL_SCHEDULE: names instruction
 * k and the reason. INVALID_ARGUMENT: a decision that does not fit (tile product). */
KILN_MUST_USE kiln_status kiln_trace_replay(const kiln_trace *trace, const kiln_program *te,
                                            kiln_rand *rand, kiln_arena *arena,
                                            kiln_program **out_program, kiln_trace *out_closed);

/* The algorithm that the trace's first instruction names; DIRECT when there is none, COUNT when it
 * is unknown. */
kiln_algorithm kiln_trace_algorithm(const kiln_trace *trace);
/* A deep copy into `arena`. */
kiln_trace kiln_trace_copy(const kiln_trace *trace, kiln_arena *arena);
/* Text form, a line per instruction. */
void kiln_trace_print(const kiln_trace *trace, kiln_strbuf *out);
/* The line of an instruction that would follow those of the trace, without a newline. */
void kiln_trace_print_instruction(const kiln_trace *trace, const kiln_instruction *in,
                                  kiln_strbuf *out);
/* INVALID_ARGUMENT with line and column: the text is not a trace. */
KILN_MUST_USE kiln_status kiln_trace_parse(kiln_str text, kiln_arena *arena, kiln_trace *out_trace);
void kiln_trace_encode(const kiln_trace *trace, kiln_strbuf *out); /* Appends the binary form. */
/* DATA_LOSS: these are not the bytes of a trace. */
KILN_MUST_USE kiln_status kiln_trace_decode(kiln_str bytes, kiln_arena *arena,
                                            kiln_trace *out_trace);
kiln_hash128 kiln_trace_hash(const kiln_trace *trace); /* of the binary form */

#endif
