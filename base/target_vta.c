/* Targets of kind vta, "vta:CONFIG": accelerators that have a name and nothing else yet. */
#include "base/target_kind.h"

static kiln_status parse_head(kiln_target *target) {
    if (target->triple.size) return KILN_OK;
    return KILN_ERROR(INVALID_ARGUMENT, "vta wants a configuration, such as vta:pynq");
}

const kiln_target_form kiln_target_form_vta = {
    .parts = "", .parse_head = parse_head, .runs_on = kiln_target_same_head};
