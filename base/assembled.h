/* Resources that an assembler reports for a GPU artefact. A builder can learn them without a
 * device: workers run NVIDIA's assembler if they find it (compiler-core/worker), records store the
 * result, and cost models learn from it. A value without pointers. */
#ifndef KILN_BASE_ASSEMBLED_H
#define KILN_BASE_ASSEMBLED_H

#include <stdint.h>

#define KILN_ASSEMBLED_MAX UINT32_C(0x7fffffff) /* of each number: databases keep signed ones */

/* Each number is the largest of the artefact's functions. */
typedef struct kiln_assembled {
    uint32_t registers;    /* of a thread, 4 bytes each; 0: no assembler ran */
    uint32_t spill_bytes;  /* of a thread, that do not fit into registers */
    uint32_t stack_bytes;  /* of a thread */
    uint32_t shared_bytes; /* of a group, including those that its launch adds */
} kiln_assembled;

#endif
