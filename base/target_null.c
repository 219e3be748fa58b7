/* Targets of kind null, "null[,group=THREADS][,shared=BYTES][,integers][,host=NAME]": devices in
 * software, whose limits are in the text. The template for kinds with groups of threads, and with
 * `integers` for accelerators without floats that leave kernels to a processor. */
#include "base/target_kind.h"

#define GROUP_THREADS 64u
#define GROUP_THREADS_MAX 1024u
#define SHARED_BYTES 16384u
#define SHARED_BYTES_MAX (1u << 20)

static kiln_status parse_head(kiln_target *target) {
    if (target->triple.size)
        return KILN_ERROR(INVALID_ARGUMENT, "'%.*s': there is one null device, without a name",
                          KILN_STR_ARG(target->triple));
    target->group_threads = GROUP_THREADS;
    target->shared_bytes = SHARED_BYTES;
    return KILN_OK;
}

static kiln_status parse_part(kiln_str part, kiln_arena *arena, kiln_target *target) {
    kiln_str value = part;
    kiln_str key = kiln_str_cut(&value, '=');
    if (kiln_str_is(key, "group"))
        return kiln_target_parse_count(key, value, GROUP_THREADS_MAX, &target->group_threads);
    if (kiln_str_is(key, "shared"))
        return kiln_target_parse_count(key, value, SHARED_BYTES_MAX, &target->shared_bytes);
    if (kiln_str_is(key, "host")) return kiln_target_parse_host(value, arena, target);
    if (!kiln_str_is(part, "integers")) return kiln_target_unknown_part(target, part);
    target->is_partial = target->lacks_floats = true;
    return KILN_OK;
}

static void print_parts(const kiln_target *target, kiln_strbuf *out) {
    if (target->group_threads != GROUP_THREADS)
        kiln_strbuf_printf(out, ",group=%u", target->group_threads);
    if (target->shared_bytes != SHARED_BYTES)
        kiln_strbuf_printf(out, ",shared=%u", target->shared_bytes);
    if (target->lacks_floats) kiln_strbuf_text(out, ",integers");
}

/* Fills what rules and the cost model need: one element at a time. */
static void derive(kiln_target *target) {
    target->vector_bytes = 4;
    target->vector_registers = 256;
    target->factor_lanes = 1;
    target->pointer_bytes = 8;
    target->word_bytes = 4;
    target->l1_bytes = target->l2_bytes = target->shared_bytes;
    target->line_bytes = 64;
    target->core = (kiln_core){.issue = 1, .vector = 1, .loads = 1, .stores = 1, .latency = 1};
}

static bool runs_on(const kiln_target *wanted, const kiln_target *device, kiln_strbuf *out_reason) {
    if (wanted->group_threads > device->group_threads)
        kiln_strbuf_printf(out_reason, "groups of %u threads; the device runs %u",
                           wanted->group_threads, device->group_threads);
    else if (wanted->shared_bytes > device->shared_bytes)
        kiln_strbuf_printf(out_reason, "%u bytes shared by a group; the device has %u",
                           wanted->shared_bytes, device->shared_bytes);
    else if (device->lacks_floats && !wanted->lacks_floats)
        kiln_strbuf_text(out_reason, "the device computes in integers alone");
    else
        return true;
    return false;
}

const kiln_target_form kiln_target_form_null = {
    .parts = "group= shared= integers host=",
    .parse_head = parse_head,
    .parse_part = parse_part,
    .print_parts = print_parts,
    .derive = derive,
    .is_software = true,
    .runs_on = runs_on,
};
