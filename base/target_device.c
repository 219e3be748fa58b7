/* Kinds of targets that have a name and nothing else yet: code for them is not generated. */
#include "base/target_kind.h"

static kiln_status parse_cuda(kiln_target *target) {
    if (kiln_str_starts(target->triple, "sm_")) return KILN_OK;
    return KILN_ERROR(INVALID_ARGUMENT, "'%.*s' is not a CUDA architecture such as sm_90",
                      KILN_STR_ARG(target->triple));
}

static kiln_status parse_opencl(kiln_target *target) {
    (void)target; /* any device, or one by its name */
    return KILN_OK;
}

static kiln_status parse_vta(kiln_target *target) {
    if (target->triple.size) return KILN_OK;
    return KILN_ERROR(INVALID_ARGUMENT, "vta wants a configuration, such as vta:pynq");
}

const kiln_target_form kiln_target_form_cuda = {
    .parts = "", .parse_head = parse_cuda, .runs_on = kiln_target_same_head};
const kiln_target_form kiln_target_form_opencl = {
    .parts = "", .parse_head = parse_opencl, .runs_on = kiln_target_same_head};
const kiln_target_form kiln_target_form_vta = {
    .parts = "", .parse_head = parse_vta, .runs_on = kiln_target_same_head};
