/* The kinds of devices in a program. A separate file, because the part of libkiln that runs modules
 * has fewer (devices.def, KILN_RUN_PART). */
#include "base/check.h"
#include "base/macros.h"
#include "deploy/runtime/device.h"

#define X(id, number, name, payload, memory, dlpack, counts, doc) \
    extern const kiln_device_vtable kiln_device_##name;
#include "deploy/runtime/devices.def"
#undef X

static const kiln_device_row rows[] = {
#define X(id, number, name, payload, memory, dlpack, counts, doc) \
    {KILN_DEVICE_##id, #name, payload, memory, dlpack, counts, doc, &kiln_device_##name},
#include "deploy/runtime/devices.def"
#undef X
};

uint32_t kiln_device_row_count(void) { return KILN_ARRAY_COUNT(rows); }

const kiln_device_row *kiln_device_row_at(uint32_t index) {
    KILN_CHECK(index < kiln_device_row_count());
    return &rows[index];
}

const kiln_device_row *kiln_device_row_of(kiln_device_kind kind) {
    for (uint32_t i = 0; i < kiln_device_row_count(); i++)
        if (rows[i].kind == kind) return &rows[i];
    return NULL;
}

const kiln_device_row *kiln_device_row_for(kiln_payload_kind payload) {
    for (uint32_t i = 0; i < kiln_device_row_count(); i++)
        if (rows[i].payload == payload) return &rows[i];
    return NULL;
}
