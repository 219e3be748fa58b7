/* Running what was compiled for another processor: a runner (tests/boards) under its emulator, to
 * which kernel after kernel is sent. */
#ifndef KILN_TESTS_UNIT_COMPILER_CORE_CODEGEN_BOARD_H
#define KILN_TESTS_UNIT_COMPILER_CORE_CODEGEN_BOARD_H

#include "base/child.h"
#include "base/manifest.h"
#include "tests/unit/compiler-core/ir/support.h"

typedef struct board {
    const char *emulator, *runner; /* paths */
    kiln_child child;              /* started by the first job */
} board;

/* As run_artefact of support.h, there: an `artefact_runner` whose context is the board. Fails the
 * test when nothing comes back within five minutes. */
kiln_status run_on_board(void *board, const kiln_artefact *artefact, const kiln_program *te,
                         const kiln_tensor *args, uint32_t workers);
void board_stop(board *b);

#endif
