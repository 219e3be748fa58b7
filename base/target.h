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

/* What one core does: of cpus.def, or measured (figures.def). Vectors are the widest of the target.
 */
typedef struct kiln_core {
    /* per cycle */
    double issue;                         /* instructions */
    double vector;                        /* multiply-adds of whole vectors */
    double loads, stores;                 /* of whole vectors */
    double l2_rate, l3_rate, memory_rate; /* bytes that are read from there */
    /* cycles */
    double latency; /* from one multiply-add to the next on the same accumulator */
    double forward; /* the same where the accumulator is in memory */
    double divide;  /* of a division of a whole vector */
    double gather;  /* of an element of a vector that lies apart from the others */
    double convert_f16, convert_bf16, convert_i8; /* of loading a whole vector of f32 from these */
    double dot;  /* of an instruction that adds products of integers */
    double fork; /* of a parallel loop over two workers that has nothing to do */
} kiln_core;

typedef struct kiln_target {
    kiln_target_kind kind;
    kiln_str triple; /* "x86_64-unknown-linux-gnu"; for other kinds what follows the colon */
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
    uint32_t word_bytes; /* of a register of integers: of those of 64 bits 4 makes pairs */
    bool has_fma;
    uint32_t group_threads; /* of kinds that launch grids: threads of a group; 0: there are none */
    uint32_t shared_bytes;  /* memory that the threads of a group share */
    kiln_vta_config vta;    /* of kind vta */
    double peak_flops; /* operations a second that its text says, two of each multiply-add; 0: it
                          says nothing of them */
    bool is_partial;   /* its rules may have no schedule for a kernel, which is then its host's */
    bool lacks_floats; /* it computes in integers alone */
    const struct kiln_target *host; /* of partial targets, the processor beside the device; no part
                                       of the printed text. NULL: there is none */
    const kiln_gpu *gpu; /* the row of gpus.def; NULL: no GPU. Parts of the text (group_threads,
                            shared_bytes, cores, vector_bytes) take the place of the row's */
    uint32_t l1_bytes, l2_bytes, l3_bytes, line_bytes; /* L1d and L2 per core */
    kiln_core core;
    kiln_figures calibration; /* of which caches and core are; empty: they are the table's */
} kiln_target;

/* "cpu", and what such targets are, for people. */
const char *kiln_target_kind_name(kiln_target_kind kind);
const char *kiln_target_kind_doc(kiln_target_kind kind);
/* What runs its artefacts on boards: a row of rpc-server/executors.def, or "none". */
const char *kiln_target_kind_executor(kiln_target_kind kind);
/* INVALID_ARGUMENT: the note quotes the bad part and lists the known names. Strings live in
 * `arena`. */
KILN_MUST_USE kiln_status kiln_target_parse(kiln_str text, kiln_arena *arena,
                                            kiln_target *out_target);
/* The text of a target that a file holds: with "KIND:" before it, whether the file has it or not,
 * and without white space around it. In `arena`. */
kiln_str kiln_target_text_with_head(kiln_str content, const char *kind, kiln_arena *arena);
/* Puts what was measured in the place of the table's figures; what was put there before goes. An
 * empty calibration leaves the table's. Keys and texts do not change. */
void kiln_target_calibrate(kiln_target *target, const kiln_figures *calibration);
/* The figure as the target has it now; 0 where no model uses it. */
double kiln_target_figure(const kiln_target *target, kiln_figure figure);
/* Canonical text: parse(print(t)) == t; names are expanded, defaults left out. */
void kiln_target_print(const kiln_target *target, kiln_strbuf *out);
/* A partial target without a host gets this machine; others stay as they are. Errors of
 * kiln_target_native. */
KILN_MUST_USE kiln_status kiln_target_find_host(kiln_target *target, kiln_arena *arena);
/* What this machine is: the expansion of "native" (cpuid; threads = 1). x86-64 picks mcpu x86-64,
 * -v2, -v3 or -v4 and lists further features that code generation uses, so equal machines give
 * equal keys. Where there are tiles (AMX) it asks the system for their state, for the whole
 * process; where that is refused they are none of its features. The environment variable
 * KILN_NATIVE holds it to a level of x86-64, for tests of the other levels: errors of
 * kiln_target_hold. */
#define KILN_NATIVE_VARIABLE "KILN_NATIVE"
KILN_MUST_USE kiln_status kiln_target_native(kiln_arena *arena, kiln_target *out_target);
/* Why kiln_target_native leaves tiles (AMX) out that the processor has, in words; NULL: it does
 * not. Asks the system as that does. */
const char *kiln_target_native_tiles(void);
/* The same by what is known: whether the processor has tiles, the system saves them, and the
 * process may use them. */
const char *kiln_target_tiles_missing(bool processor, bool system, bool process);
/* The level that KILN_NATIVE names, 1 to 4; 0: none. For what measures with machine code of its
 * own, which must not use what kiln_target_native leaves out. */
uint32_t kiln_target_native_limit(void);
/* `machine` as if it were of `level` ("x86-64-v3") and had nothing beyond; `machine` itself where
 * it is no x86-64, because a test of levels may use boards under emulators.
 *
 * INVALID_ARGUMENT     no such level
 * FAILED_PRECONDITION  the machine lacks something of it; the note names the feature */
KILN_MUST_USE kiln_status kiln_target_hold(const kiln_target *machine, kiln_str level,
                                           kiln_arena *arena, kiln_target *out_target);
/* Whether such a device is made of software, so that any machine can offer it when it is asked to.
 */
bool kiln_target_is_software(const kiln_target *target);
/* Whether code for `wanted` runs on `device`; when not, a reason naming the missing feature. */
bool kiln_target_runs_on(const kiln_target *wanted, const kiln_target *device,
                         kiln_strbuf *out_reason);
/* The same for what is measured there. Times under an emulator say nothing of a processor, so
 * neither kind of device stands in for the other; and one GPU's times are not those of another that
 * runs its code. */
bool kiln_target_serves(const kiln_target *wanted, const kiln_target *device,
                        kiln_strbuf *out_reason);
/* Whether the target's processor has the feature (a name of cpu_features.def), by its name, its
 * level or its list. */
bool kiln_target_has(const kiln_target *target, kiln_str feature);
/* Whether a device computes in elements of that type. Processors compute in all. */
bool kiln_target_computes(const kiln_target *target, kiln_dtype dtype);
/* A device's name as target texts have it: lower case, digits, `-` for every other character. */
void kiln_target_spell_device(kiln_str name, kiln_strbuf *out);
/* The same target where only emulated devices run it; its kind may be another. Measured figures
 * are kept. INVALID_ARGUMENT: the kind has no emulated devices. */
KILN_MUST_USE kiln_status kiln_target_emulated(const kiln_target *target, kiln_arena *arena,
                                               kiln_target *out_target);
/* Features as a compiler wants them, "+neon,+crc,-lse": those that the row of `mcpu` lists, unless
 * its name brings them (x86-64 levels), then the target's own. */
void kiln_target_spell_features(const kiln_target *target, kiln_strbuf *out);
/* Copies all strings into `arena`. */
kiln_target kiln_target_copy(const kiln_target *target, kiln_arena *arena);

#endif
