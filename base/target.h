/* Target strings (docs/reference/target.md):
 * "cpu:<triple>[,mcpu=..][,features=+a-b][,cores=N][,threads=N][,emulated]",
 * "cuda:sm_90a[,mcpu=h200]", "opencl[:device][,group=N][,shared=N][,units=N][,vector=N]
 * [,features=+f16-f64][,emulated]", "vta:<config>", or a name from targets.def, with suffixes. A
 * name is expanded before it enters a key; target text and threads are part of every key, so times
 * under an emulator are never those of a processor. */
#ifndef KILN_BASE_TARGET_H
#define KILN_BASE_TARGET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/figures.h"
#include "base/gpu.h"
#include "base/status.h"
#include "base/str.h"
#include "base/vta_config.h"

#define KILN_TARGET_CORES_MAX 4096u /* also of threads */

/* Rows of target_kinds.def. */
typedef enum kiln_target_kind {
#define X(NAME, name, rules, lowering, features, PAYLOAD, executor, doc) KILN_TARGET_##NAME,
#include "base/target_kinds.def"
#undef X
    KILN_TARGET_KIND_COUNT
} kiln_target_kind;

typedef enum kiln_arch {
    KILN_ARCH_X86_64,
    KILN_ARCH_AARCH64,
    KILN_ARCH_ARM,
    KILN_ARCH_THUMB, /* microcontrollers (Cortex-M), which run no ARM instructions */
    KILN_ARCH_RISCV64,
    KILN_ARCH_WASM32,
    KILN_ARCH_OTHER, /* kinds other than cpu */
} kiln_arch;

/* Figures of one core, from cpus.def or measured (figures.def). Vectors are the widest of the
 * target. */
typedef struct kiln_core {
    /* per cycle */
    double issue;                         /* instructions */
    double vector;                        /* multiply-adds of whole vectors */
    double loads, stores;                 /* of whole vectors */
    double l2_rate, l3_rate, memory_rate; /* bytes that are read from there */
    /* cycles */
    double latency; /* from one multiply-add to the next on the same accumulator */
    double forward; /* the same with the accumulator in memory */
    double divide;  /* of a division of a whole vector */
    double gather;  /* per element of a vector that is not contiguous */
    double convert_f16, convert_bf16, convert_i8; /* of loading a whole vector of f32 from these */
    double dot;                                   /* of a dot-product instruction of integers */
    double fork;                                  /* of an empty parallel loop over two workers */
} kiln_core;

typedef struct kiln_target {
    kiln_target_kind kind;
    kiln_str triple; /* "x86_64-unknown-linux-gnu"; for other kinds the text after the colon */
    kiln_str mcpu;   /* LLVM's name: "x86-64-v3"; of cuda a row of gpus.def, or empty */
    kiln_str
        features; /* LLVM's list in canonical (sorted) order "+avx512vnni,+f16c"; may be empty */
    kiln_arch arch;
    uint32_t cores;   /* physical cores of the device, units of a GPU; 1 when unknown */
    uint32_t threads; /* threads a kernel may use; 1 by default */
    bool emulated;    /* timed under an emulator; the code is the same */
    /* Derived from arch, mcpu and features; not part of the text. */
    uint32_t vector_bytes;     /* widest fp32 vector: 64, 32 or 16 */
    uint32_t vector_registers; /* 32 or 16 */
    uint32_t factor_lanes;     /* elements of a register of which a multiply-add takes one; or 1 */
    uint32_t pointer_bytes;
    uint32_t word_bytes; /* of an integer register; with 4, 64-bit integers take pairs */
    bool has_fma;
    uint32_t group_threads; /* most threads of a group, for kinds that launch grids; 0: none */
    uint32_t shared_bytes;  /* shared memory of a group */
    kiln_vta_config vta;    /* of kind vta */
    double peak_flops; /* operations per second stated by its text, a multiply-add counted as two;
                          0: not stated */
    bool is_partial;   /* its host runs the kernels for which its rules have no schedule */
    bool lacks_floats; /* it computes only in integers */
    const struct kiln_target *host; /* of partial targets: the processor beside the device; not part
                                       of the printed text. NULL: none */
    const kiln_gpu *gpu; /* the row of gpus.def; NULL: no GPU. Parts of the text (group_threads,
                            shared_bytes, cores, vector_bytes) override the row's */
    uint32_t l1_bytes, l2_bytes, l3_bytes, line_bytes; /* L1d and L2 per core */
    kiln_core core;
    kiln_figures calibration; /* source of caches and core; empty: the table */
} kiln_target;

/* "cpu", and a description of such targets. */
const char *kiln_target_kind_name(kiln_target_kind kind);
const char *kiln_target_kind_doc(kiln_target_kind kind);
/* Name of the kind's row in rpc-server/executors.def, or "none". */
const char *kiln_target_kind_executor(kiln_target_kind kind);
/* INVALID_ARGUMENT: the note quotes the bad part and lists the known names. Strings live in
 * `arena`. */
KILN_MUST_USE kiln_status kiln_target_parse(kiln_str text, kiln_arena *arena,
                                            kiln_target *out_target);
/* The target text in a file's content: adds "KIND:" if it is missing, and strips white space. In
 * `arena`. */
kiln_str kiln_target_text_with_head(kiln_str content, const char *kind, kiln_arena *arena);
/* Replaces the table's figures by measured ones. An earlier calibration is dropped; an empty one
 * restores the table's. Keys and texts do not change. */
void kiln_target_calibrate(kiln_target *target, const kiln_figures *calibration);
/* The target's current figure; 0 if no model uses it. */
double kiln_target_figure(const kiln_target *target, kiln_figure figure);
/* Canonical text: parse(print(t)) == t; names are expanded, defaults left out. */
void kiln_target_print(const kiln_target *target, kiln_strbuf *out);
/* The same without how many cores and threads it has: what measured figures are kept by. */
void kiln_target_print_processor(const kiln_target *target, kiln_strbuf *out);
/* Makes this machine the host of a partial target without one. Does nothing for others. Errors of
 * kiln_target_native. */
KILN_MUST_USE kiln_status kiln_target_find_host(kiln_target *target, kiln_arena *arena);
/* This machine's target, the expansion of "native" (cpuid; threads = 1). x86-64 picks mcpu x86-64,
 * -v2, -v3 or -v4 and lists further features that code generation uses, so equal machines give
 * equal keys. If the processor has tiles (AMX), requests their state from the system for the whole
 * process, and leaves the feature out if that is refused. The environment variable KILN_NATIVE
 * limits the target to a level of x86-64, to test lower levels: errors of kiln_target_hold. */
#define KILN_NATIVE_VARIABLE "KILN_NATIVE"
KILN_MUST_USE kiln_status kiln_target_native(kiln_arena *arena, kiln_target *out_target);
/* Why kiln_target_native leaves out tiles (AMX) that the processor has; NULL: it does not. Also
 * requests their state. */
const char *kiln_target_native_tiles(void);
/* The same from given facts: the processor has tiles, the system saves them, the process may use
 * them. */
const char *kiln_target_tiles_missing(bool processor, bool system, bool process);
/* The level in KILN_NATIVE, 1 to 4; 0: none. For code that measures with its own machine code,
 * which must not use features beyond the level. */
uint32_t kiln_target_native_limit(void);
/* Limits `machine` to `level` ("x86-64-v3"). Returns it unchanged unless it is x86-64, because a
 * test of levels may use boards under emulators.
 *
 * INVALID_ARGUMENT     no such level
 * FAILED_PRECONDITION  the machine lacks something of it; the note names the feature */
KILN_MUST_USE kiln_status kiln_target_hold(const kiln_target *machine, kiln_str level,
                                           kiln_arena *arena, kiln_target *out_target);
/* Whether the device is simulated in software, so that any machine can offer it. */
bool kiln_target_is_software(const kiln_target *target);
/* Whether code for `wanted` runs on `device`; if not, appends a reason that names the missing
 * feature. */
bool kiln_target_runs_on(const kiln_target *wanted, const kiln_target *device,
                         kiln_strbuf *out_reason);
/* Whether times for `wanted` can be measured on `device`. Neither an emulator's nor a processor's
 * times stand for the other's, nor one GPU's for another's that runs its code. */
bool kiln_target_serves(const kiln_target *wanted, const kiln_target *device,
                        kiln_strbuf *out_reason);
/* Whether the target's processor has the feature (a name of cpu_features.def), by its name, its
 * level or its list. */
bool kiln_target_has(const kiln_target *target, kiln_str feature);
/* Whether a device computes in that type. Processors compute in all. */
bool kiln_target_computes(const kiln_target *target, kiln_dtype dtype);
/* Spells a device's name for target texts: lower case, digits, `-` for every other character. */
void kiln_target_spell_device(kiln_str name, kiln_strbuf *out);
/* The same target on emulated devices; its kind may differ. Measured figures are kept.
 * INVALID_ARGUMENT: the kind has no emulated devices. */
KILN_MUST_USE kiln_status kiln_target_emulated(const kiln_target *target, kiln_arena *arena,
                                               kiln_target *out_target);
/* Spells features for a compiler, "+neon,+crc,-lse": those of the row of `mcpu`, unless its name
 * implies them (x86-64 levels), then the target's own. */
void kiln_target_spell_features(const kiln_target *target, kiln_strbuf *out);
/* Copies all strings into `arena`. */
kiln_target kiln_target_copy(const kiln_target *target, kiln_arena *arena);

#endif
