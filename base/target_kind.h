/* What base knows about each kind of targets (target_kinds.def): the text of such targets and which
 * of them stand in for each other. Included by the target*.c files of base alone. A new kind: a
 * row, and a kiln_target_form_<name> in target_<name>.c. */
#ifndef KILN_BASE_TARGET_KIND_H
#define KILN_BASE_TARGET_KIND_H

#include "base/target.h"

typedef struct kiln_target_form {
    /* Names of the parts that may follow the head, for people: "cores= threads= emulated"; "" where
     * there are none. */
    const char *parts;
    /* What stands between the colon and the first comma; the caller has checked its characters and
     * copied it to target->triple. Fills what the kind derives from it. INVALID_ARGUMENT. */
    kiln_status (*parse_head)(kiln_target *target);
    /* One part, "key=value" or a word alone; those that the kind does not have go to
     * kiln_target_unknown_part. Strings that the target keeps go to `arena`. NULL where there are
     * no parts. INVALID_ARGUMENT. */
    kiln_status (*parse_part)(kiln_str part, kiln_arena *arena, kiln_target *target);
    /* Once all parts are read: what only the whole text shows. NULL: nothing. INVALID_ARGUMENT. */
    kiln_status (*finish)(kiln_target *target, kiln_arena *arena);
    /* Appends the parts in canonical order, each with its comma; NULL where there are none. */
    void (*print_parts)(const kiln_target *target, kiln_strbuf *out);
    /* Fills the fields that are not part of the text, once all parts are read. NULL: nothing. */
    void (*derive)(kiln_target *target);
    bool is_software; /* kiln_target_is_software */
    /* kiln_target_runs_on for two targets of this kind. */
    bool (*runs_on)(const kiln_target *wanted, const kiln_target *device, kiln_strbuf *out_reason);
} kiln_target_form;

#define X(NAME, name, ...) extern const kiln_target_form kiln_target_form_##name;
#include "base/target_kinds.def"
#undef X

/* "KEY=VALUE" as a number from 1 to `most`. */
KILN_MUST_USE kiln_status kiln_target_parse_count(kiln_str key, kiln_str value, uint32_t most,
                                                  uint32_t *out_count);
/* The value of "host=NAME": a processor by a name of targets.def or "native". INVALID_ARGUMENT. */
KILN_MUST_USE kiln_status kiln_target_parse_host(kiln_str value, kiln_arena *arena,
                                                 kiln_target *target);
/* INVALID_ARGUMENT naming the part and those that the target's kind has. */
KILN_MUST_USE kiln_status kiln_target_unknown_part(const kiln_target *target, kiln_str part);
/* Whether the device has the same head, which names it wholly; else the reason. */
bool kiln_target_same_head(const kiln_target *wanted, const kiln_target *device,
                           kiln_strbuf *out_reason);
/* target_gpu.c. Fills what all GPUs derive from their row; limits are the form's. */
void kiln_target_derive_gpu(kiln_target *target, const kiln_gpu *gpu);
/* Whether the device has the threads and shared bytes of a group, and the types, that code for
 * `wanted` may use; else the reason with both numbers. */
bool kiln_target_fits_gpu(const kiln_target *wanted, const kiln_target *device,
                          kiln_strbuf *out_reason);

#endif
