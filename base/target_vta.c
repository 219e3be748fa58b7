/* Targets of kind vta, "vta:CONFIG": accelerators of the VTA class. The text after the colon is a
 * configuration (base/vta_config.h), whose parts may come in any order. The target keeps its
 * canonical text, so that equal machines have equal keys. */
#include "base/target_kind.h"

static kiln_status parse_head(kiln_target *target) {
    if (target->triple.size) return KILN_OK;
    return KILN_ERROR(INVALID_ARGUMENT, "vta wants a configuration, such as vta:pynq");
}

static kiln_status parse_part(kiln_str part, kiln_arena *arena, kiln_target *target) {
    kiln_str value = part;
    if (kiln_str_is(kiln_str_cut(&value, '='), "host"))
        return kiln_target_parse_host(value, arena, target);
    target->triple =
        kiln_str_printf(arena, "%.*s,%.*s", KILN_STR_ARG(target->triple), KILN_STR_ARG(part));
    return KILN_OK;
}

static kiln_status finish(kiln_target *target, kiln_arena *arena) {
    kiln_strbuf text = {0};
    kiln_status st = kiln_vta_config_parse(target->triple, &target->vta);
    if (st) return st;
    kiln_vta_config_print(&target->vta, &text);
    target->triple = kiln_strbuf_end(&text, arena);
    target->is_partial = true;
    target->peak_flops = 2.0 * target->vta.batch * target->vta.block_in * target->vta.block_out *
                         target->vta.clock_mhz * 1e6;
    return KILN_OK;
}

/* Streams run only on the machine that they were made for. */
static bool runs_on(const kiln_target *wanted, const kiln_target *device, kiln_strbuf *out_reason) {
    kiln_strbuf difference = {0};
    const bool differs = kiln_vta_config_differs(&device->vta, &wanted->vta, &difference);
    if (differs)
        kiln_strbuf_printf(out_reason, "the device has %.*s",
                           KILN_STR_ARG(kiln_strbuf_view(&difference)));
    kiln_strbuf_deinit(&difference);
    return !differs;
}

const kiln_target_form kiln_target_form_vta = {
    .parts = "those of vta:pynq, host=",
    .parse_head = parse_head,
    .parse_part = parse_part,
    .finish = finish,
    .is_software = true, /* there is a simulator */
    .runs_on = runs_on,
};
