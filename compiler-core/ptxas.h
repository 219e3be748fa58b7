/* NVIDIA's assembler, where it is installed: registers and spills of PTX, or the reason of a
 * refusal. It is optional: payloads are PTX, and drivers have their own assembler. Used by builders
 * (worker/assembler.h) and by `kiln explain --stage sass`. */
#ifndef KILN_COMPILER_CORE_PTXAS_H
#define KILN_COMPILER_CORE_PTXAS_H

#include "base/arena.h"
#include "base/assembled.h"
#include "base/status.h"
#include "base/str.h"

#define KILN_PTXAS_VARIABLE "KILN_PTXAS" /* its path; if unset, PATH is searched */
#define KILN_PTXAS_SECONDS 60            /* the largest kernels known take 2 */
#define KILN_PTXAS_OUTPUT_MAX ((size_t)1 << 20)

/* One function of the text. */
typedef struct kiln_ptxas_entry {
    kiln_str name;
    uint64_t registers; /* of a thread, 4 bytes each */
    uint64_t stack_bytes, spill_store_bytes, spill_load_bytes;
    uint64_t shared_bytes; /* without what a launch adds */
} kiln_ptxas_entry;

typedef struct kiln_ptxas_report {
    uint32_t entry_count;
    kiln_ptxas_entry *entry;
    kiln_str note; /* the first one on lost performance ("serialized", "ignored"); empty: none */
} kiln_ptxas_report;

/* A program's path: from the environment variable `variable`, or `name` on PATH; NULL: not
 * found. */
const char *kiln_ptxas_tool(const char *variable, const char *name, kiln_arena *arena);
/* Parses its output with -v for accepted text. Views into `text`. DATA_LOSS: unknown format. */
KILN_MUST_USE kiln_status kiln_ptxas_parse(kiln_str text, kiln_arena *arena,
                                           kiln_ptxas_report *out_report);
/* Runs `program` for a processor ("sm_90a") on `ptx`, writes machine code to `cubin_path` (NULL:
 * nowhere), and returns its output. 20 to 200 ms.
 *
 * ILLEGAL_SCHEDULE   it refuses the text; with the first lines of its message
 * DEADLINE_EXCEEDED  it took more than KILN_PTXAS_SECONDS
 * NOT_FOUND          there is no such program; others of kiln_proc_run */
KILN_MUST_USE kiln_status kiln_ptxas_run(const char *program, kiln_str processor, kiln_str ptx,
                                         const char *cubin_path, kiln_arena *arena,
                                         kiln_str *out_text);
/* A summary of the report, without memory that launches add. */
kiln_assembled kiln_ptxas_assembled(const kiln_ptxas_report *report);
/* ILLEGAL_SCHEDULE: a function spills registers to memory; the note has the numbers. */
KILN_MUST_USE kiln_status kiln_ptxas_check_spills(const kiln_ptxas_report *report);

#endif
