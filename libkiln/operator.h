/* INSTALLED. User-defined operators: written as tensor expressions, scheduled by hand, checked by
 * interpreters, and exported as a model for `kiln tune` and `kiln compile`.
 *
 *     kiln_operator_create("maxplus", &op, error, sizeof error);
 *     kiln_operator_add(op, "input a: f32[64,32]\n"
 *                           "input b: f32[32,64]\n"
 *                           "output c: f32[64,64]\n"
 *                           "block c(i:64, j:64 | k:32): c[i, j] max= a[i, k] + b[k, j]\n", ...);
 *     kiln_operator_run(op, inputs, outputs, ...);          computes it
 *     kiln_schedule_create(op, &schedule, ...);
 *     kiln_schedule_apply(schedule, "split(c.j, -1, 16)", ...);
 *     puts(kiln_schedule_program(schedule));
 *
 * Expressions are written in the text of programs, docs/reference/loop-text.md; schedules in that
 * of traces, docs/reference/trace-text.md. Both are checked at once: a refused line changes
 * nothing, and the error says where and why. These functions neither compile nor measure.
 *
 * A handle is used by one thread at a time. */
#ifndef KILN_LIBKILN_OPERATOR_H
#define KILN_LIBKILN_OPERATOR_H

#include <stddef.h>
#include <stdint.h>

#include "deploy/module.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_operator kiln_operator;
typedef struct kiln_schedule kiln_schedule;

/* The role of a tensor of an operator. Constants are data of the operator; weights that are known
 * when it is compiled are packed then. Temps are made and used inside. */
enum {
    KILN_OPERATOR_INPUT = 1,
    KILN_OPERATOR_CONSTANT = 2,
    KILN_OPERATOR_OUTPUT = 3,
    KILN_OPERATOR_TEMP = 4
};

/* An operator without tensors and blocks. `name` is a word. */
int kiln_operator_create(const char *name, kiln_operator **out_operator, char *error,
                         size_t error_bytes);
/* Accepts NULL. */
void kiln_operator_destroy(kiln_operator *op);

/* Adds lines of program text: tensors (input, constant, output, temp) and blocks, each of which
 * computes one tensor from those above it. All lines are added, or none.
 * INVALID_ARGUMENT (3)  a line is wrong; lines and columns are those of the whole text */
int kiln_operator_add(kiln_operator *op, const char *lines, char *error, size_t error_bytes);
/* Gives a constant its elements, which are copied. `size_bytes` is that of the tensor.
 * NOT_FOUND (5): there is no constant of this name. */
int kiln_operator_set_constant(kiln_operator *op, const char *name, const void *data,
                               size_t size_bytes, char *error, size_t error_bytes);

/* Makes the lines one step of a recurrence of `steps` steps, 1 to 2^31, which run in sequence. The
 * first `states` inputs are states: the caller's values in the first step, afterwards the results
 * of the previous step in the outputs at the same positions, of equal type and shape; callers get
 * those of the last step. For callers the next `rows` inputs and all other outputs have an
 * additional first dimension of `steps`: a row for each step. Other inputs and the constants are
 * the same in every step. (ONNX's Scan works alike.) Lines may still be added; a second call
 * replaces the first. Schedules apply to the step. INVALID_ARGUMENT (3) too few inputs or outputs,
 * or a state changes its type */
int kiln_operator_repeat(kiln_operator *op, int64_t steps, uint32_t states, uint32_t rows,
                         char *error, size_t error_bytes);

/* The operator as text, with a comment for a recurrence. It is valid until the operator changes. */
const char *kiln_operator_text(const kiln_operator *op);
/* Its tensors of one role as callers see them, in the order in which they were added; `index` is
 * below the count. They are valid until the operator changes. */
uint32_t kiln_operator_tensor_count(const kiln_operator *op, uint32_t role);
const kiln_module_port *kiln_operator_tensor(const kiln_operator *op, uint32_t role,
                                             uint32_t index);

/* Computes the outputs with an interpreter: exact (floats in double, rounded where they are
 * stored) and slow, some 10 million expressions a second. `inputs` and `outputs` are arrays of
 * pointers in the order of the tensors, each to size_bytes bytes, row-major.
 * INVALID_ARGUMENT (3)     there is no input or no output, or no block computes one of the tensors
 * FAILED_PRECONDITION (9)  a constant has no elements */
int kiln_operator_run(const kiln_operator *op, const void *const *inputs, void *const *outputs,
                      char *error, size_t error_bytes);
/* The operator as a model (docs/reference/graph-bytes.md), which every command accepts instead of
 * an ONNX file. The bytes are valid until the operator changes. Errors of kiln_operator_run. */
int kiln_operator_model(kiln_operator *op, const void **out_bytes, size_t *out_size_bytes,
                        char *error, size_t error_bytes);

/* ---- schedules ---- */

/* Begins with a serial loop for each iterator, "BLOCK.ITERATOR", of a copy of the operator, or of
 * the step of a recurrence. Its program has the tensor names of tasks (x0, w1, y2, t3):
 * kiln_schedule_tensor.
 * Errors of kiln_operator_run. */
int kiln_schedule_create(const kiln_operator *op, kiln_schedule **out_schedule, char *error,
                         size_t error_bytes);
/* Accepts NULL. */
void kiln_schedule_destroy(kiln_schedule *schedule);

/* The copy; valid as long as the schedule. */
const kiln_operator *kiln_schedule_operator(const kiln_schedule *schedule);

/* Applies lines of a trace. Each is checked (dependences, coverage, races), and so is the resulting
 * program. All lines are applied, or none.
 * INVALID_ARGUMENT (3)    a line is not an instruction, or a decision does not fit
 * ILLEGAL_SCHEDULE (16)   a step is refused; the text names loop or block, and the reason */
int kiln_schedule_apply(kiln_schedule *schedule, const char *lines, char *error,
                        size_t error_bytes);

/* The program as it is scheduled now, and its lines. They are valid until the next
 * kiln_schedule_apply. */
const char *kiln_schedule_program(const kiln_schedule *schedule);
const char *kiln_schedule_trace(const kiln_schedule *schedule);
/* Key of the operator's task in databases. */
const char *kiln_schedule_task(const kiln_schedule *schedule);
/* The name in the program of a tensor of the operator; NULL: there is no such tensor. */
const char *kiln_schedule_tensor(const kiln_schedule *schedule, const char *name);

/* Names in the order of the program. They are valid until the next kiln_schedule_apply. */
typedef struct kiln_names {
    uint32_t count;
    const char *const *name; /* [count] */
} kiln_names;

enum { KILN_SCHEDULE_LOOPS = 1, KILN_SCHEDULE_BLOCKS = 2, KILN_SCHEDULE_BUFFERS = 3 };

/* All loops, blocks or buffers, and those that the last call of kiln_schedule_apply made.
 */
kiln_names kiln_schedule_names(const kiln_schedule *schedule, uint32_t what);
kiln_names kiln_schedule_made(const kiln_schedule *schedule, uint32_t what);
/* The loops around a block, outermost first; none where there is no such block. */
kiln_names kiln_schedule_loops_around(kiln_schedule *schedule, const char *block);

/* Computes the outputs by interpreting the scheduled program, and checks accesses of concurrent
 * iterations; arguments as in kiln_operator_run.
 * FAILED_PRECONDITION (9): a race, an element that is read before it is written, ... */
int kiln_schedule_run(const kiln_schedule *schedule, const void *const *inputs,
                      void *const *outputs, char *error, size_t error_bytes);

#ifdef __cplusplus
}
#endif

#endif
