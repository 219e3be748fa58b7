/* Checks of artefacts whose payload is text for a driver's compiler (OpenCL C, PTX), without the
 * driver: that it is text, has the entries of the launches, and obeys a target's limits. Used by
 * the rows of devices.def. */
#ifndef KILN_DEPLOY_TEXT_PAYLOAD_H
#define KILN_DEPLOY_TEXT_PAYLOAD_H

#include "base/manifest.h"
#include "base/target.h"

#define KILN_TEXT_PAYLOAD_BYTES_MAX ((size_t)16 << 20)
#define KILN_TEXT_ENTRY_BYTES_MAX 127u

/* `before_entry` is the word before the name in the definition of an entry: "void" in OpenCL C,
 * ".entry" in PTX.
 *
 * UNIMPLEMENTED        a payload of another kind
 * DATA_LOSS            invalid characters, or an invalid name of an entry
 * NOT_FOUND            a payload lacks the entry of a launch
 * OUT_OF_RANGE         more text than KILN_TEXT_PAYLOAD_BYTES_MAX, or a grid of 2^31 groups
 * FAILED_PRECONDITION  more threads or shared bytes than the target has; both numbers are named */
KILN_MUST_USE kiln_status kiln_text_payload_check(const kiln_artefact *artefact,
                                                  const kiln_target *target, kiln_payload_kind kind,
                                                  const char *before_entry);

/* Whether the text defines the entry, and the text between the parentheses behind its name. */
bool kiln_text_payload_find(kiln_str text, const char *before_entry, kiln_str entry,
                            kiln_str *out_parameters);

/* The first lines of a compiler's log, a few hundred bytes, for an error: in `arena`. */
const char *kiln_text_payload_log(const char *log, kiln_arena *arena);

#endif
