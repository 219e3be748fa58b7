#include "vta/field.h"

#include <string.h>

uint32_t kiln_vta_fields(const kiln_vta_sizes *sizes, kiln_vta_field out[KILN_VTA_FIELDS_MAX]) {
    const kiln_vta_sizes *s = sizes; /* for the table */
    const kiln_vta_field all[] = {
#define FIELD(FORM, field, word, bits, KIND, FEATURE, doc) \
    {#field,                                               \
     offsetof(kiln_vta_instruction, field),                \
     KILN_VTA_FORM_##FORM,                                 \
     word,                                                 \
     bits,                                                 \
     KILN_VTA_KIND_##KIND,                                 \
     KILN_VTA_##FEATURE},
#include "vta/isa.def"
    };
    _Static_assert(KILN_ARRAY_COUNT(all) <= KILN_VTA_FIELDS_MAX, "a place for each field");
    memcpy(out, all, sizeof all);
    return KILN_ARRAY_COUNT(all);
}

bool kiln_vta_form_has(kiln_vta_form instruction, kiln_vta_form field) {
    const bool has_loops = instruction == KILN_VTA_FORM_GEMM || instruction == KILN_VTA_FORM_ALU;
    return field == KILN_VTA_FORM_COMMON || field == instruction ||
           (field == KILN_VTA_FORM_LOOPS && has_loops);
}

uint32_t kiln_vta_field_get(const kiln_vta_instruction *in, const kiln_vta_field *field) {
    uint32_t value;
    memcpy(&value, (const char *)in + field->offset, sizeof value);
    return value;
}

void kiln_vta_field_put(kiln_vta_instruction *in, const kiln_vta_field *field, uint32_t value) {
    memcpy((char *)in + field->offset, &value, sizeof value);
}
