/* What targets of GPUs have in common: the fields that a row of gpus.def fills, and which device
 * has room for code of which. */
#include "base/target_kind.h"

void kiln_target_derive_gpu(kiln_target *target, const kiln_gpu *gpu) {
    target->gpu = gpu;
    target->factor_lanes = 1;
    target->pointer_bytes = 8;
    target->word_bytes = 4;
    target->has_fma = true;
    target->l1_bytes = gpu->unit_shared_bytes;
    target->l2_bytes = (uint32_t)gpu->l2_bytes;
    target->line_bytes = 128;
    target->core = (kiln_core){.issue = 1, .vector = 1, .loads = 1, .stores = 1, .latency = 4};
}

bool kiln_target_computes(const kiln_target *target, kiln_dtype dtype) {
    const bool optional = dtype == KILN_F16 || dtype == KILN_F64;
    if (target->lacks_floats) return !kiln_dtype_is_float(dtype);
    if (!target->gpu || !optional) return true;
    kiln_str mentioned = target->features, listed = kiln_str_from(target->gpu->features);
    while (mentioned.size) {
        kiln_str item = kiln_str_cut(&mentioned, ',');
        if (kiln_str_is(kiln_str_slice(item, 1, item.size), kiln_dtype_name(dtype)))
            return item.data[0] == '+';
    }
    while (listed.size)
        if (kiln_str_is(kiln_str_cut(&listed, ' '), kiln_dtype_name(dtype))) return true;
    return false;
}

bool kiln_target_fits_gpu(const kiln_target *wanted, const kiln_target *device,
                          kiln_strbuf *out_reason) {
    static const kiln_dtype optional[] = {KILN_F16, KILN_F64};
    if (wanted->group_threads > device->group_threads) {
        kiln_strbuf_printf(out_reason, "groups of %u threads; the device runs %u",
                           wanted->group_threads, device->group_threads);
        return false;
    }
    if (wanted->shared_bytes > device->shared_bytes) {
        kiln_strbuf_printf(out_reason, "%u bytes shared by a group; the device has %u",
                           wanted->shared_bytes, device->shared_bytes);
        return false;
    }
    for (uint32_t i = 0; i < 2; i++) {
        if (!kiln_target_computes(wanted, optional[i]) || kiln_target_computes(device, optional[i]))
            continue;
        kiln_strbuf_printf(out_reason, "the device lacks %s", kiln_dtype_name(optional[i]));
        return false;
    }
    return true;
}
