/* What tests send to the runner on another processor (tests/boards/runner.c), job after job on its
 * standard input, and what comes back on its standard output. Numbers are 64 bits, little-endian.
 */
#ifndef KILN_TESTS_BOARDS_PROTOCOL_H
#define KILN_TESTS_BOARDS_PROTOCOL_H

#include <stdint.h>

#define BOARD_ARGS_MAX 64
#define BOARD_BYTES_MAX (UINT64_C(64) << 20) /* of an object or an argument */
#define BOARD_TEXT_BYTES 1024

/* Then the object, then each argument: its bytes as a number, and these. */
typedef struct board_job {
    uint64_t object_bytes, arg_count;
    uint64_t scratch_bytes, worker_scratch_bytes; /* as the manifest says them */
    uint64_t workers, prepares;                   /* whether there is a kiln_prepare */
} board_job;

/* Then, when `text` is empty, all arguments, one after the other, without their sizes. */
typedef struct board_answer {
    char text[BOARD_TEXT_BYTES]; /* what went wrong */
} board_answer;

#endif
