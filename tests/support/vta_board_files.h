/* A board with an FPGA that is made of files (deploy/runtime/board_vta.h), and of another process,
 * which waits for starts and runs programs as the machine whose bitstream was loaded last. */
#ifndef KILN_TESTS_SUPPORT_VTA_BOARD_FILES_H
#define KILN_TESTS_SUPPORT_VTA_BOARD_FILES_H

#include <sys/types.h>

#include "base/arena.h"
#include "vta/mapped.h"

typedef struct vta_board_files {
    char *folder;
    kiln_vta_mapped_files mapped;
    char *fpga;     /* folder of `firmware` and `state` */
    char *firmware; /* folder of machines */
    pid_t pid;
} vta_board_files;

/* The process runs until it is closed, and ends with the test. */
void vta_board_files_open(vta_board_files *files, kiln_arena *arena);
/* `name` is of three letters: the FPGA manager's file is written in place. */
void vta_board_files_add(const vta_board_files *files, const char *name, const char *config,
                         kiln_arena *arena);
/* What the FPGA manager says of loads from now on. */
void vta_board_files_say(const vta_board_files *files, const char *state, kiln_arena *arena);
/* Name of the bitstream that was loaded last. */
const char *vta_board_files_loaded(const vta_board_files *files, kiln_arena *arena);
/* The environment names the board. */
void vta_board_files_name(const vta_board_files *files);
void vta_board_files_close(vta_board_files *files); /* the environment names none */

#endif
