/* Runs kernels in CUDA C on this processor, for tests without a GPU.
 *
 * The text is compiled by clang++ behind a prelude (emulate_block.cuh) that gives it what CUDA's
 * compiler would: thread and block indices, shared memory, barriers, and warp instructions as
 * functions. Each thread of a block is a fibre. Clusters of blocks run one after another, a block
 * being a cluster where the launch has none; within one, a thread runs until it comes to a barrier
 * or to a warp instruction, which happen when all that take part have come.
 *
 * What it notices:
 * - a barrier or a warp instruction that not all come to, in place of a hang; at different lines
 * - an asynchronous copy that is not waited for: what it writes is NaN (bytes 0xff) from the copy
 *   to the wait that covers its group, and its source is read then; groups nobody committed stay so
 * - shared memory nobody wrote: it is NaN when a block begins; writes behind its end
 * - addresses that copies or ldmatrix cannot take
 * - instructions of warp groups that are not waited for: their sums are NaN from the instruction to
 *   the wait that covers it, and their operands are read from shared memory then, so a slot that is
 *   written early gives wrong results; fences that they need, descriptors that say something else
 * - tokens (mbarriers) that nobody placed, a wait that none ends, in place of a hang; copies that a
 *   token counts land when nothing else can go on, a thread that pushed one goes on behind those
 * that wait for it, so a slot that is freed early is NaN; a missing fence behind a token in front
 * of instructions of warp groups; more registers than threads had together
 * - in clusters, whose blocks run at the same time: use of a token of another block without a
 * barrier of the cluster behind its making, a block that ends without one behind the last use of
 * its memory by others, or with copies to it under way; use of the memory of a block that has
 * ended; a barrier of the cluster that not all come to
 *
 * What it does not notice: a missing barrier. Threads run in order, so a thread often finds what
 * another one has not written yet on a device. The loop interpreter and oclgrind find those.
 *
 * Sums of mma are made in f32, one step of k after the other. The PTX ISA does not say in which
 * order devices do it, so results are equal to an interpreter's bit by bit and to a device's within
 * an error bound. */
#ifndef KILN_TESTS_SUPPORT_EMULATE_BLOCK_H
#define KILN_TESTS_SUPPORT_EMULATE_BLOCK_H

#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"

#define EMULATE_BLOCK_ARGS_MAX 8

typedef struct emulate_block emulate_block;

/* Compiles CUDA C whose kernels are `extern "C"` and take pointers alone. `folder`: private, for
 * the compiler's files. Everything that is not the system's lives in `arena`. INVALID_ARGUMENT: it
 * does not compile; with the compiler's words. */
KILN_MUST_USE kiln_status emulate_block_create(kiln_str text, const char *folder, kiln_arena *arena,
                                               emulate_block **out_emulator);
void emulate_block_destroy(emulate_block *e); /* NULL: nothing */

typedef struct emulate_block_launch {
    const char *entry;
    uint32_t grid[3], block[3]; /* x, y, z */
    uint32_t cluster;           /* blocks of a cluster, along x, at most 8; 0 is 1 */
    size_t shared_bytes;        /* dynamic: of `extern __shared__` */
    void *arg[EMULATE_BLOCK_ARGS_MAX];
    uint32_t arg_count;
} emulate_block_launch;

/* Runs all blocks. FAILED_PRECONDITION: the first fault of those above, with block, thread and line
 * of the text; NOT_FOUND: no such entry. */
KILN_MUST_USE kiln_status emulate_block_run(emulate_block *e, const emulate_block_launch *launch);

#endif
