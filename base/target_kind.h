/* Each kind of targets in base (target_kinds.def): the text of such targets, and which run on
 * which. Included only by base/target*.c. A new kind: a row, and a kiln_target_form_<name> in
 * target_<name>.c. */
#ifndef KILN_BASE_TARGET_KIND_H
#define KILN_BASE_TARGET_KIND_H

#include "base/target.h"

typedef struct kiln_target_form {
    /* Names of the parts after the head, for messages: "cores= threads= emulated"; "": none. */
    const char *parts;
    /* Parses the text between the colon and the first comma, whose characters the caller has
     * checked and copied to target->triple. INVALID_ARGUMENT. */
    kiln_status (*parse_head)(kiln_target *target);
    /* Parses a part, "key=value" or a word; calls kiln_target_unknown_part for others. Strings of
     * the target go to `arena`. NULL: no parts. INVALID_ARGUMENT. */
    kiln_status (*parse_part)(kiln_str part, kiln_arena *arena, kiln_target *target);
    /* Checks the whole text once all parts are read. NULL: nothing to check. INVALID_ARGUMENT. */
    kiln_status (*finish)(kiln_target *target, kiln_arena *arena);
    /* Appends the parts in canonical order, each with its comma. NULL: no parts. */
    void (*print_parts)(const kiln_target *target, kiln_strbuf *out);
    /* Fills the fields that are not in the text, once all parts are read. NULL: none. */
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
/* Returns INVALID_ARGUMENT, which names the part and those of the target's kind. */
KILN_MUST_USE kiln_status kiln_target_unknown_part(const kiln_target *target, kiln_str part);
/* Whether the device has the same head; else appends the reason. */
bool kiln_target_same_head(const kiln_target *wanted, const kiln_target *device,
                           kiln_strbuf *out_reason);
/* target_gpu.c. Fills what all GPUs derive from their row, except limits. */
void kiln_target_derive_gpu(kiln_target *target, const kiln_gpu *gpu);
/* Whether the device has the group's threads, shared bytes and types that code for `wanted` may
 * use; else appends the reason with both numbers. */
bool kiln_target_fits_gpu(const kiln_target *wanted, const kiln_target *device,
                          kiln_strbuf *out_reason);

#endif
