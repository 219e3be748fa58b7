/* The fields of instructions, as rows that isa.c and text.c walk over. */
#ifndef KILN_VTA_FIELD_H
#define KILN_VTA_FIELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vta/isa.h"

/* The group of instructions that has a field, or to which an instruction belongs; as in isa.def. */
typedef enum kiln_vta_form {
    KILN_VTA_FORM_COMMON,
    KILN_VTA_FORM_MEMORY,
    KILN_VTA_FORM_LOOPS,
    KILN_VTA_FORM_GEMM,
    KILN_VTA_FORM_ALU,
} kiln_vta_form;

typedef enum kiln_vta_field_kind {
    KILN_VTA_KIND_COUNT,
    KILN_VTA_KIND_SIGNED,
    KILN_VTA_KIND_FLAG,
    KILN_VTA_KIND_MEMORY,
    KILN_VTA_KIND_ALU,
} kiln_vta_field_kind;

#define KILN_VTA_NONE KILN_VTA_FEATURE_COUNT /* for rows that name no feature */
#define KILN_VTA_FIELDS_MAX 40u

typedef struct kiln_vta_field {
    const char *name;
    size_t offset; /* in kiln_vta_instruction */
    kiln_vta_form form;
    uint32_t word, bits; /* it follows the other fields of the same word that its instruction has */
    kiln_vta_field_kind kind;
    uint32_t feature; /* KILN_VTA_NONE: none is needed */
} kiln_vta_field;

/* The rows, with the machine's widths; returns how many. */
uint32_t kiln_vta_fields(const kiln_vta_sizes *sizes, kiln_vta_field out[KILN_VTA_FIELDS_MAX]);
kiln_vta_form kiln_vta_opcode_form(uint32_t opcode);
/* Whether an instruction of a form has fields of another. */
bool kiln_vta_form_has(kiln_vta_form instruction, kiln_vta_form field);
/* The value of the member; a signed one as its bits. */
uint32_t kiln_vta_field_get(const kiln_vta_instruction *in, const kiln_vta_field *field);
void kiln_vta_field_put(kiln_vta_instruction *in, const kiln_vta_field *field, uint32_t value);

#endif
