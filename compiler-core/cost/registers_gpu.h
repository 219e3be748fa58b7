/* The registers of a thread that the assembler is expected to give each launch, counted before
 * lowering. Calibrated against ptxas (decision 85). Private to cost/.
 *
 * There are two results. `needed` is what the code holds at once. Where that exceeds a thread's
 * maximum, the assembler spills, or reads values of a window again. `expected` is what the
 * assembler gives: to begin loads earlier it uses as many registers as keep the same number of
 * groups on a unit, so registers come in steps of that number. Decision trees that are fitted to
 * drawn candidates say which step (decision 168). */
#ifndef KILN_COMPILER_CORE_COST_REGISTERS_GPU_H
#define KILN_COMPILER_CORE_COST_REGISTERS_GPU_H

#include "base/gpu.h"
#include "compiler-core/facts/facts.h"

/* Registers that the statements of one launch use, in words of 4 bytes. */
typedef struct kiln_gpu_held {
    double sums;        /* elements of the thread's own buffers */
    double operands;    /* read by one step of the tile */
    double fetched;     /* by one turn without a pipeline, stored before its work */
    double staged;      /* fetched by one turn of a pipeline of two stages, carried past its work */
    double windows;     /* loads of these that are made under a condition */
    double places;      /* loads of these whose addresses are no sums of digits */
    double copies;      /* that a thread begins in one turn of a pipeline of more stages */
    double copy_places; /* loads of these whose addresses are no sums of digits */
    double addresses;   /* of fragments, beside the first of each operand: an XOR leaves no distance
                           to add */
    double live;        /* loaded and read again later; the maximum over the code */
    double straight;    /* loaded by the longest straight code */
    double moved;       /* of launches that share nothing: loaded by one turn */
    double odd;         /* accesses whose addresses are no sums of digits */
    bool by_threads;    /* instructions of warps multiply */
    bool by_groups;     /* of groups of warps */
    bool shares;        /* threads sum up, or have buffers of their own or of their group */
    double stages;      /* of its deepest pipeline; 0: threads share nothing, 1: no pipeline */
    uint32_t resident;  /* groups that a schedule asks a unit to hold; 0: no requirement */
} kiln_gpu_held;

/* Adds a statement to all members except `sums`, `operands`, the fetched ones, `stages` and
 * `resident`. */
void kiln_gpu_held_add(const kiln_facts *facts, const kiln_facts_statement *s, kiln_gpu_held *held);
/* Words of an operand of an instruction of warps that one thread holds at once; 0 for an
 * instruction that reads shared memory directly. `elements`: of one step, as the thread's loops
 * touch them. */
double kiln_gpu_fragment_words(const kiln_intrinsic *intrinsic, bool rows, double elements,
                               uint32_t element_bytes);

/* Adds what `turns` loads of a fetch bring in a turn of a pipeline of so many stages; 1: there is
 * none. `elements`: of each; `width`: of these that one instruction loads. */
void kiln_gpu_held_fetch(kiln_gpu_held *held, const kiln_facts_access *a, double turns,
                         double elements, double width, double stages);

typedef struct kiln_gpu_registers {
    double needed;   /* not limited to a thread's maximum */
    double expected; /* at most that */
} kiln_gpu_registers;

/* What the trees look at. Names and order are those of registers_gpu_trees.def, which
 * `./dev bench gpu fit` writes. */
#define KILN_GPU_REGISTER_INPUTS(X)                               \
    X(NEEDED)  /* as in kiln_gpu_registers */                     \
    X(THREADS) /* of a group */                                   \
    X(MOST)    /* groups of a unit by its threads and groups */   \
    X(FIT)     /* by the needed registers too */                  \
    X(FREE)    /* registers of a thread with which so many fit */ \
    X(ALONE)   /* with which one fits */                          \
    X(STAGES)                                                     \
    X(SUMS)                                                       \
    X(STRAIGHT)                                                   \
    X(STAGED)                                                     \
    X(OPERANDS)                                                   \
    X(BY_THREADS)                                                 \
    X(BY_GROUPS)                                                  \
    X(SHARES)

typedef enum kiln_gpu_register_input {
#define X(name) KILN_GPU_REGISTER_##name,
    KILN_GPU_REGISTER_INPUTS(X)
#undef X
        KILN_GPU_REGISTER_INPUT_COUNT
} kiln_gpu_register_input;

/* `threads`: of a group. */
void kiln_gpu_register_inputs(const kiln_gpu_held *held, const kiln_gpu *gpu, double threads,
                              double out_input[KILN_GPU_REGISTER_INPUT_COUNT]);
/* `threads`: of a group. */
kiln_gpu_registers kiln_gpu_registers_of(const kiln_gpu_held *held, const kiln_gpu *gpu,
                                         double threads);

#endif
