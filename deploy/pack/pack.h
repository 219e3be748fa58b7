/* Graph + best records -> module. Each task's kernel is built from the best stored trace (or the
 * default schedule), kernels run on the layouts that their traces chose, and a conversion kernel is
 * inserted where the layouts of a producer and a consumer differ. Graph inputs and outputs are
 * row-major. */
#ifndef KILN_DEPLOY_PACK_H
#define KILN_DEPLOY_PACK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/map.h"
#include "base/status.h"
#include "base/str.h"
#include "base/target.h"
#include "base/vec.h"
#include "compiler-core/core.h"
#include "db/db.h"
#include "deploy/format.h"
#include "deploy/pack/module_write.h"

typedef enum kiln_planner {
#define X(id, name, doc) KILN_PLANNER_##id,
#include "deploy/pack/planners.def"
#undef X
    KILN_PLANNER_COUNT
} kiln_planner;

/* Modules are native code that others load: only their owner may change them. */
#define KILN_MODULE_FILE_MODE 0644

/* By planners.def; static. */
const char *kiln_planner_name(kiln_planner planner);

/* Source of the best stored schedules: a database, or the process that has it open. */
typedef struct kiln_pack_stored {
    /* As kiln_db_records; only trace, layouts, median, relative error and searcher of a record are
     * used. */
    kiln_status (*find)(void *context, const kiln_db_filter *filter, kiln_arena *arena,
                        kiln_db_record **out_records, uint32_t *out_count);
    void *context;
} kiln_pack_stored;
/* From a database, which the caller keeps. */
kiln_pack_stored kiln_pack_stored_in(kiln_db *db);

/* Kernels built by earlier packings in the same arena, to be reused. All zero: none yet. */
typedef struct kiln_pack_kernels {
    kiln_map name; /* key of the task and hash of the trace -> index into bytes */
    KILN_VEC(kiln_str) bytes;
} kiln_pack_kernels;

/* Origin of a module, for its metadata; empty fields are left out. */
typedef struct kiln_pack_provenance {
    kiln_str model_sha256; /* of the model's file, 64 hexadecimal digits */
    kiln_str dims;         /* sizes of the model's open dimensions: "batch=1,4,8;seq=16" */
    kiln_str database;     /* the name of the file or database of records */
    kiln_str software;     /* "kiln 0.1.0" */
} kiln_pack_provenance;

/* A hand-written schedule for a task. */
typedef struct kiln_pack_given {
    kiln_str task_key;
    kiln_trace trace; /* closed */
} kiln_pack_given;

typedef struct kiln_pack_options {
    const kiln_pack_stored *stored; /* NULL: default schedules only */
    const kiln_str *taken_back;     /* [taken_back_count] keys of tasks whose records are ignored:
                                     * they get default schedules; joins with such keys are not
                                     * used */
    uint32_t taken_back_count;
    const kiln_str *exact; /* [exact_count] keys of tasks that must use direct sums */
    uint32_t exact_count;
    const kiln_pack_given *given; /* [given_count] chosen in spite of records; kernels are not
                                   * joined then. NOT_FOUND: the model has no such task */
    uint32_t given_count;
    kiln_pack_kernels *kernels; /* NULL: each packing builds its own */
    kiln_str model_name;
    kiln_pack_provenance provenance;
    bool as_c;        /* kernels are C text, for kiln_static_c; modules cannot run them */
    bool is_part;     /* the module is one size of a larger one: kiln_module_gather reads it */
    uint32_t without; /* bits 1 << kiln_planner: planners to leave out, to measure their benefit */
    kiln_accuracy accuracy; /* of the schedules that may be chosen, stored or by default */
    /* Called before each kernel is built, "kernel conv2d of task KEY"; an error ends the packing.
     * May be NULL. */
    kiln_status (*step)(void *context, const char *name);
    void *step_context;
} kiln_pack_options;

/* Report on the contents, for people. */
typedef struct kiln_pack_task {
    kiln_str key, op;
    double median_ns;      /* of the record; 0: default schedule, not measured */
    double relative_error; /* the same */
    kiln_str trace;        /* binary form */
    bool is_default;       /* the trace is the default schedule's */
} kiln_pack_task;

typedef struct kiln_pack_report {
    uint32_t task_count;
    kiln_pack_task *task; /* in the order of the graph's tasks */
    uint32_t conversion_count;
    uint64_t arena_bytes;  /* planned activation memory */
    uint64_t live_bytes;   /* lower bound: the largest set of values alive at once */
    uint64_t value_bytes;  /* activation memory without reuse */
    uint64_t window_bytes; /* of values that lie inside of others: copies that are saved */
} kiln_pack_report;

/* Chooses schedules (choose.h) and makes the plan of a module, in `arena`. `out_report` as
 * below. Errors of kiln_choose, kiln_limits_check and kiln_build, noted with the task. */
KILN_MUST_USE kiln_status kiln_pack_plan(kiln_compilation *compilation,
                                         const kiln_pack_options *options, kiln_arena *arena,
                                         kiln_module_plan *out_plan, kiln_pack_report *out_report);
/* The module's bytes: the file of deploy/format.h, or for WebAssembly, unless it is a part, that of
 * deploy/pack/wasm_module.h. They and `out_report` live in `arena`, except constants, which are
 * views of the compilation's graph where those of the graph are in the file as they are.
 * `out_report` may be NULL. Errors of kiln_pack_plan, kiln_module_encode_parts and
 * kiln_wasm_module_encode. */
KILN_MUST_USE kiln_status kiln_pack_parts(kiln_compilation *compilation,
                                          const kiln_pack_options *options, kiln_arena *arena,
                                          kiln_module_bytes *out_bytes,
                                          kiln_pack_report *out_report);
/* The same, appended to `out`: a copy of all constants. */
KILN_MUST_USE kiln_status kiln_pack(kiln_compilation *compilation, const kiln_pack_options *options,
                                    kiln_arena *arena, kiln_strbuf *out,
                                    kiln_pack_report *out_report);

#endif
