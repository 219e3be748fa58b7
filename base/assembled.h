/* What an assembler made of an artefact for a GPU: beside its time the one thing that a builder
 * learns of a candidate without a device. Workers that find NVIDIA's assembler ask it
 * (compiler-core/worker); records keep it, and cost models learn from it. A value without pointers.
 */
#ifndef KILN_BASE_ASSEMBLED_H
#define KILN_BASE_ASSEMBLED_H

#include <stdint.h>

#define KILN_ASSEMBLED_MAX UINT32_C(0x7fffffff) /* of each number: databases keep signed ones */

/* Of each number the largest of the artefact's functions. */
typedef struct kiln_assembled {
    uint32_t registers;    /* of a thread, 4 bytes each; 0: no assembler was asked */
    uint32_t spill_bytes;  /* that a thread stores and loads because registers do not hold them */
    uint32_t stack_bytes;  /* of a thread */
    uint32_t shared_bytes; /* of a group, with those that its launch adds */
} kiln_assembled;

#endif
