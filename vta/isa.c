#include "vta/isa.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/integer.h"
#include "vta/field.h"

static const struct {
    const char *name;
    kiln_vta_form form;
} opcode_table[] = {
#define OPCODE(NAME, number, name, FORM, doc) [number] = {name, KILN_VTA_FORM_##FORM},
#include "vta/isa.def"
};

static const struct {
    const char *name;
    uint32_t feature;
} alu_op_table[] = {
#define ALU_OP(NAME, number, name, FEATURE, doc) [number] = {name, KILN_VTA_##FEATURE},
#include "vta/isa.def"
};

static const char *const memory_table[] = {
    [KILN_VTA_UOP] = "uop", [KILN_VTA_WGT] = "wgt", [KILN_VTA_INP] = "inp",
    [KILN_VTA_ACC] = "acc", [KILN_VTA_OUT] = "out", [KILN_VTA_ACC_BYTES] = "acc8"};
static const char *const engine_table[] = {[KILN_VTA_ENGINE_LOAD] = "load",
                                           [KILN_VTA_ENGINE_COMPUTE] = "compute",
                                           [KILN_VTA_ENGINE_ALU] = "alu",
                                           [KILN_VTA_ENGINE_STORE] = "store"};
static const struct {
    const char *name, *words;
} fault_table[] = {
    [KILN_VTA_FAULT_NONE] = {"NONE", "nothing"},
#define X(NAME, words) [KILN_VTA_FAULT_##NAME] = {#NAME, words},
#include "vta/faults.def"
#undef X
};

kiln_vta_sizes kiln_vta_sizes_of(const kiln_vta_config *config) {
    kiln_vta_sizes s = {0};
    for (uint32_t i = 0; i < KILN_VTA_MEMORY_COUNT; i++) {
        s.tile_bytes[i] = kiln_vta_tile_bytes(config, (kiln_vta_memory)i);
        s.tile_count[i] = kiln_vta_tile_count(config, (kiln_vta_memory)i);
    }
    s.uop_bits = kiln_log2(s.tile_count[KILN_VTA_UOP]);
    s.acc_bits = kiln_log2(s.tile_count[KILN_VTA_ACC]);
    s.inp_bits = kiln_log2(s.tile_count[KILN_VTA_INP]);
    s.wgt_bits = kiln_log2(s.tile_count[KILN_VTA_WGT]);
    s.src_bits = s.acc_bits > s.inp_bits ? s.acc_bits : s.inp_bits;
    return s;
}

kiln_vta_form kiln_vta_opcode_form(uint32_t opcode) { return opcode_table[opcode].form; }

/* ---- names ----------------------------------------------------------------------------------- */

const char *kiln_vta_opcode_name(uint32_t opcode) {
    return opcode < KILN_ARRAY_COUNT(opcode_table) ? opcode_table[opcode].name : NULL;
}
const char *kiln_vta_memory_name(uint32_t memory) {
    return memory < KILN_ARRAY_COUNT(memory_table) ? memory_table[memory] : NULL;
}
const char *kiln_vta_alu_op_name(uint32_t op) {
    return op < KILN_ARRAY_COUNT(alu_op_table) ? alu_op_table[op].name : NULL;
}
const char *kiln_vta_engine_name(kiln_vta_engine engine) { return engine_table[engine]; }
const char *kiln_vta_fault_name(kiln_vta_fault_kind kind) { return fault_table[kind].name; }
const char *kiln_vta_fault_words(kiln_vta_fault_kind kind) { return fault_table[kind].words; }

bool kiln_vta_fault_set(kiln_vta_fault *out_fault, kiln_vta_fault_kind kind, uint32_t instruction,
                        const char *format, ...) {
    out_fault->kind = kind;
    out_fault->instruction = instruction;
    const int used =
        snprintf(out_fault->text, sizeof out_fault->text, "%s: ", kiln_vta_fault_words(kind));
    va_list args;
    va_start(args, format);
    vsnprintf(out_fault->text + used, sizeof out_fault->text - (size_t)used, format, args);
    va_end(args);
    return false;
}

/* ---- engines --------------------------------------------------------------------------------- */

kiln_vta_engine kiln_vta_engine_of(const kiln_vta_config *config, const kiln_vta_instruction *in) {
    switch (in->opcode) {
    case KILN_VTA_STORE: return KILN_VTA_ENGINE_STORE;
    case KILN_VTA_LOAD:
        return in->memory == KILN_VTA_INP || in->memory == KILN_VTA_WGT ? KILN_VTA_ENGINE_LOAD
                                                                        : KILN_VTA_ENGINE_COMPUTE;
    case KILN_VTA_ALU:
        return kiln_vta_config_has(config, KILN_VTA_ENGINE) ? KILN_VTA_ENGINE_ALU
                                                            : KILN_VTA_ENGINE_COMPUTE;
    default: return KILN_VTA_ENGINE_COMPUTE;
    }
}

static bool engine_is_there(const kiln_vta_config *config, uint32_t engine) {
    return engine != KILN_VTA_ENGINE_ALU || kiln_vta_config_has(config, KILN_VTA_ENGINE);
}

bool kiln_vta_engine_before(const kiln_vta_config *config, kiln_vta_engine engine,
                            kiln_vta_engine *out_before) {
    if (engine == KILN_VTA_ENGINE_LOAD) return false;
    uint32_t before = engine - 1u;
    if (!engine_is_there(config, before)) before--;
    *out_before = (kiln_vta_engine)before;
    return true;
}

bool kiln_vta_engine_behind(const kiln_vta_config *config, kiln_vta_engine engine,
                            kiln_vta_engine *out_behind) {
    if (engine == KILN_VTA_ENGINE_STORE) return false;
    uint32_t behind = engine + 1u;
    if (!engine_is_there(config, behind)) behind++;
    *out_behind = (kiln_vta_engine)behind;
    return true;
}

/* ---- bits ------------------------------------------------------------------------------------ */

static uint64_t mask_of(uint32_t bits) {
    return bits < 64 ? (UINT64_C(1) << bits) - 1 : ~UINT64_C(0);
}

void kiln_vta_instruction_encode(const kiln_vta_config *config, const kiln_vta_instruction *in,
                                 uint8_t out_bytes[KILN_VTA_INSTRUCTION_BYTES]) {
    const kiln_vta_sizes sizes = kiln_vta_sizes_of(config);
    kiln_vta_field table[KILN_VTA_FIELDS_MAX];
    const uint32_t count = kiln_vta_fields(&sizes, table);
    uint64_t word[2] = {0};
    uint32_t used[2] = {0};
    for (uint32_t i = 0; i < count; i++) {
        const kiln_vta_field *f = &table[i];
        if (!kiln_vta_form_has(opcode_table[in->opcode].form, f->form)) continue;
        word[f->word] |= (kiln_vta_field_get(in, f) & mask_of(f->bits)) << used[f->word];
        used[f->word] += f->bits;
    }
    for (uint32_t i = 0; i < KILN_VTA_INSTRUCTION_BYTES; i++)
        out_bytes[i] = (uint8_t)(word[i / 8] >> 8 * (i % 8));
}

bool kiln_vta_instruction_decode(const kiln_vta_config *config,
                                 const uint8_t bytes[KILN_VTA_INSTRUCTION_BYTES],
                                 kiln_vta_instruction *out_in, kiln_vta_fault *out_fault) {
    const kiln_vta_sizes sizes = kiln_vta_sizes_of(config);
    kiln_vta_field table[KILN_VTA_FIELDS_MAX];
    const uint32_t count = kiln_vta_fields(&sizes, table);
    uint64_t word[2] = {0};
    for (uint32_t i = 0; i < KILN_VTA_INSTRUCTION_BYTES; i++)
        word[i / 8] |= (uint64_t)bytes[i] << 8 * (i % 8);
    kiln_vta_instruction in = {.opcode = (uint32_t)(word[0] & 7)};
    if (!kiln_vta_opcode_name(in.opcode))
        return kiln_vta_fault_set(out_fault, KILN_VTA_FAULT_OPCODE, 0, "%u", in.opcode);
    uint32_t used[2] = {0};
    for (uint32_t i = 0; i < count; i++) {
        const kiln_vta_field *f = &table[i];
        if (!kiln_vta_form_has(opcode_table[in.opcode].form, f->form)) continue;
        const bool is_signed = f->kind == KILN_VTA_KIND_SIGNED;
        uint32_t value = (uint32_t)(word[f->word] >> used[f->word] & mask_of(f->bits));
        if (is_signed && value >> (f->bits - 1)) value |= ~(uint32_t)mask_of(f->bits);
        kiln_vta_field_put(&in, f, value);
        used[f->word] += f->bits;
    }
    for (uint32_t i = 0; i < 2; i++)
        if (used[i] < 64 && word[i] >> used[i])
            return kiln_vta_fault_set(out_fault, KILN_VTA_FAULT_RESERVED, 0,
                                      "bit %u or above of word %u of %s", used[i], i,
                                      opcode_table[in.opcode].name);
    *out_in = in;
    return true;
}

uint32_t kiln_vta_uop_encode(const kiln_vta_sizes *sizes, kiln_vta_uop uop) {
    return uop.dst | uop.src << sizes->acc_bits | uop.wgt << (sizes->acc_bits + sizes->src_bits);
}

bool kiln_vta_uop_decode(const kiln_vta_sizes *sizes, uint32_t bits, uint32_t index,
                         kiln_vta_uop *out_uop, kiln_vta_fault *out_fault) {
    const kiln_vta_sizes s = *sizes;
    const uint32_t used = s.acc_bits + s.src_bits + s.wgt_bits;
    if (used < 32 && bits >> used)
        return kiln_vta_fault_set(out_fault, KILN_VTA_FAULT_UOP_UNUSED_BITS, index,
                                  "micro-op %u is 0x%08x; %u bits are used", index, bits, used);
    *out_uop = (kiln_vta_uop){(uint32_t)(bits & mask_of(s.acc_bits)),
                              (uint32_t)(bits >> s.acc_bits & mask_of(s.src_bits)),
                              (uint32_t)((uint64_t)bits >> (s.acc_bits + s.src_bits))};
    return true;
}

/* ---- what is legal --------------------------------------------------------------------------- */

typedef struct checking {
    const kiln_vta_config *config;
    kiln_vta_sizes sizes;
    const kiln_vta_instruction *in;
    uint32_t index;
    kiln_vta_fault *out_fault;
} checking;

#define FAULT(kind, ...) \
    kiln_vta_fault_set(c->out_fault, KILN_VTA_FAULT_##kind, c->index, __VA_ARGS__)

/* Checks fields of other forms, numbers that do not fit, and missing features. */
static bool check_fields(const checking *c) {
    kiln_vta_field table[KILN_VTA_FIELDS_MAX];
    const uint32_t count = kiln_vta_fields(&c->sizes, table);
    for (uint32_t i = 0; i < count; i++) {
        const kiln_vta_field *f = &table[i];
        const uint32_t value = kiln_vta_field_get(c->in, f);
        const bool is_signed = f->kind == KILN_VTA_KIND_SIGNED;
        const int64_t number = is_signed ? (int32_t)value : (int64_t)value;
        const int64_t most = (int64_t)mask_of(is_signed ? f->bits - 1 : f->bits);
        if (number == 0) continue;
        if (!kiln_vta_form_has(opcode_table[c->in->opcode].form, f->form))
            return FAULT(RESERVED, "%s has no %s", opcode_table[c->in->opcode].name, f->name);
        if (number > most || number < (is_signed ? -most - 1 : 0))
            return FAULT(RESERVED, "%s is %lld; it has %u bits", f->name, (long long)number,
                         f->bits);
        if (f->feature != KILN_VTA_NONE &&
            !kiln_vta_config_has(c->config, (kiln_vta_feature)f->feature))
            return FAULT(FEATURE, "%s is set", f->name);
    }
    return true;
}

static bool check_tokens(const checking *c) {
    const kiln_vta_instruction *in = c->in;
    kiln_vta_engine other;
    const kiln_vta_engine engine = kiln_vta_engine_of(c->config, in);
    if ((in->pop_prev || in->push_prev) && !kiln_vta_engine_before(c->config, engine, &other))
        return FAULT(TOKEN, "nothing is before the engine %s", kiln_vta_engine_name(engine));
    if ((in->pop_next || in->push_next) && !kiln_vta_engine_behind(c->config, engine, &other))
        return FAULT(TOKEN, "nothing is behind the engine %s", kiln_vta_engine_name(engine));
    return true;
}

static bool check_memory(const checking *c) {
    const kiln_vta_instruction *in = c->in;
    const bool is_store = in->opcode == KILN_VTA_STORE;
    if (!kiln_vta_memory_name(in->memory) || is_store != (in->memory == KILN_VTA_OUT))
        return FAULT(MEMORY, "%s of memory %u", opcode_table[in->opcode].name, in->memory);
    if (in->memory == KILN_VTA_ACC_BYTES && !kiln_vta_config_has(c->config, KILN_VTA_BYTES))
        return FAULT(FEATURE, "load of acc8");
    if (in->saturate && !is_store) return FAULT(RESERVED, "load has no saturate");
    if (in->x_size == 0) return true;
    if (is_store && (in->y_pad_0 || in->y_pad_1 || in->x_pad_0 || in->x_pad_1))
        return FAULT(STORE_PADDING, "%u %u %u %u", in->y_pad_0, in->y_pad_1, in->x_pad_0,
                     in->x_pad_1);
    if (is_store && in->y_size > 1 && in->x_stride < in->x_size)
        return FAULT(STORE_STRIDE, "rows of %u tiles, %u apart", in->x_size, in->x_stride);
    const uint64_t rows = (uint64_t)in->y_pad_0 + in->y_size + in->y_pad_1;
    const uint64_t columns = (uint64_t)in->x_pad_0 + in->x_size + in->x_pad_1;
    const uint64_t end = in->sram_base + rows * columns;
    if (end > c->sizes.tile_count[in->memory])
        return FAULT(SRAM_RANGE, "tiles %u to %llu of %s, which has %u", in->sram_base,
                     (unsigned long long)end, memory_table[in->memory],
                     c->sizes.tile_count[in->memory]);
    return true;
}

static bool check_loops(const checking *c) {
    const kiln_vta_instruction *in = c->in;
    if (in->uop_bgn >= in->uop_end || in->uop_end > c->sizes.tile_count[KILN_VTA_UOP])
        return FAULT(UOP_RANGE, "%u to %u of %u", in->uop_bgn, in->uop_end,
                     c->sizes.tile_count[KILN_VTA_UOP]);
    if (in->iter_out == 0 || in->iter_in == 0)
        return FAULT(ITERATIONS, "%u outer, %u inner", in->iter_out, in->iter_in);
    if (in->reset && in->first) return FAULT(RESET_FIRST, "in a gemm");
    if (in->opcode == KILN_VTA_GEMM) return true;
    if (in->reset) return FAULT(RESERVED, "alu has no reset");
    if (!kiln_vta_alu_op_name(in->op)) return FAULT(ALU_OP, "%u", in->op);
    if (alu_op_table[in->op].feature != KILN_VTA_NONE &&
        !kiln_vta_config_has(c->config, (kiln_vta_feature)alu_op_table[in->op].feature))
        return FAULT(FEATURE, "alu %s", alu_op_table[in->op].name);
    if (in->op == KILN_VTA_ALU_SHR && in->use_imm && (in->imm > 31 || in->imm < -31))
        return FAULT(SHIFT, "%d", in->imm);
    return true;
}

bool kiln_vta_instruction_check(const kiln_vta_config *config, const kiln_vta_instruction *in,
                                uint32_t index, kiln_vta_fault *out_fault) {
    const checking whole = {config, kiln_vta_sizes_of(config), in, index, out_fault};
    const checking *c = &whole;
    if (!kiln_vta_opcode_name(in->opcode)) return FAULT(OPCODE, "%u", in->opcode);
    if (!check_fields(c) || !check_tokens(c)) return false;
    switch (opcode_table[in->opcode].form) {
    case KILN_VTA_FORM_MEMORY: return check_memory(c);
    case KILN_VTA_FORM_GEMM:
    case KILN_VTA_FORM_ALU: return check_loops(c);
    case KILN_VTA_FORM_COMMON:
    case KILN_VTA_FORM_LOOPS: break;
    }
    return true;
}
