#include "compiler-core/ir/intrinsic.h"

#include "base/check.h"
#include "base/gpu.h"
#include "compiler-core/ir/device.h"
#include "compiler-core/ir/ir_text.h"

const kiln_intrinsic kiln_intrinsics[KILN_INTRINSIC_COUNT] = {
#define X(id, name_, arch_, feature_, rows_, lanes_, steps_, a, b, value_, instruction_, bits, \
          adds, bias_, owner_, capability_)                                                    \
    [KILN_INTRINSIC_##id] = {.name = name_,                                                    \
                             .arch = KILN_ARCH_##arch_,                                        \
                             .feature = feature_,                                              \
                             .rows = rows_,                                                    \
                             .lanes = lanes_,                                                  \
                             .steps = steps_,                                                  \
                             .operand = {KILN_##a, KILN_##b},                                  \
                             .value = value_,                                                  \
                             .instruction = instruction_,                                      \
                             .operand_bits = bits,                                             \
                             .accumulates = adds,                                              \
                             .bias = bias_,                                                    \
                             .owner = KILN_INTRINSIC_##owner_,                                 \
                             .capability = capability_},
#include "compiler-core/ir/intrinsics.def"
#undef X
};

const kiln_fragment kiln_fragments[KILN_FRAGMENT_COUNT] = {
#define X(id, count, group, in_group, odd, high, word_group, word_in_group, word_odd, word_high) \
    [KILN_FRAGMENT_##id] = {                                                                     \
        count, {group, in_group, odd, high}, {word_group, word_in_group, word_odd, word_high}},
#include "compiler-core/ir/fragments.def"
#undef X
};

const kiln_intrinsic *kiln_intrinsic_find(kiln_str name) {
    for (uint32_t i = 0; i < KILN_INTRINSIC_COUNT; i++)
        if (kiln_str_is(name, kiln_intrinsics[i].name)) return &kiln_intrinsics[i];
    return NULL;
}

bool kiln_intrinsic_runs_on(const kiln_intrinsic *intrinsic, const kiln_target *target) {
    if (intrinsic->owner == KILN_INTRINSIC_WARP)
        return target->gpu && target->gpu->capability >= intrinsic->capability;
    if (intrinsic->owner == KILN_INTRINSIC_GROUP)
        return target->gpu && kiln_str_is(target->triple, intrinsic->feature);
    if (intrinsic->owner == KILN_INTRINSIC_CORE)
        return target->vta.inp_bits == intrinsic->operand_bits &&
               target->vta.wgt_bits == intrinsic->operand_bits;
    return intrinsic->arch == target->arch &&
           kiln_target_has(target, kiln_str_from(intrinsic->feature));
}

kiln_intrinsic_extents kiln_intrinsic_on(const kiln_intrinsic *intrinsic,
                                         const kiln_target *target) {
    if (!kiln_intrinsic_runs_on(intrinsic, target)) return (kiln_intrinsic_extents){0};
    if (intrinsic->owner == KILN_INTRINSIC_CORE)
        return (kiln_intrinsic_extents){target->vta.batch, target->vta.block_out,
                                        target->vta.block_in};
    return (kiln_intrinsic_extents){intrinsic->rows, intrinsic->lanes, intrinsic->steps};
}

kiln_dtype kiln_intrinsic_sum(const kiln_intrinsic *intrinsic) {
    return kiln_dtype_is_float(intrinsic->operand[0]) ? KILN_F32 : KILN_I32;
}

bool kiln_intrinsic_rounds(const kiln_intrinsic *intrinsic) {
    return intrinsic->operand[0] == KILN_F32;
}

uint32_t kiln_intrinsic_word(const kiln_intrinsic *intrinsic) {
    switch (intrinsic->owner) {
    case KILN_INTRINSIC_TILE: return intrinsic->steps / KILN_INTRINSIC_TILE_ROWS;
    case KILN_INTRINSIC_WARP:
    case KILN_INTRINSIC_GROUP: return 4 / (uint32_t)kiln_dtype_size(intrinsic->operand[0]);
    case KILN_INTRINSIC_LANES:
    case KILN_INTRINSIC_CORE: break;
    }
    return intrinsic->steps;
}

uint32_t kiln_intrinsic_words(const kiln_intrinsic *intrinsic) {
    const size_t bytes = intrinsic->operand_bits == 16 ? 2 : kiln_dtype_size(intrinsic->operand[0]);
    return intrinsic->steps * (uint32_t)bytes / 4;
}

bool kiln_intrinsic_widens(const kiln_intrinsic *intrinsic) {
    return intrinsic->operand_bits == 16 && kiln_dtype_size(intrinsic->operand[0]) == 1;
}

kiln_program *kiln_intrinsic_program(const kiln_intrinsic *intrinsic, kiln_arena *arena) {
    const bool in_core = intrinsic->owner == KILN_INTRINSIC_CORE;
    const bool has_rows = kiln_intrinsic_has_rows(intrinsic);
    const uint32_t rows = in_core ? 1 : intrinsic->rows, lanes = in_core ? 1 : intrinsic->lanes,
                   steps = in_core ? 1 : intrinsic->steps;
    kiln_str text = kiln_str_printf(
        arena,
        "program \"%s\"\ninput a: %s[%u,%u]\ninput b: %s[%u,%u]\noutput c: %s[%u,%u]\n"
        "block \"%s\"(r:%u, l:%u | k:%u): c[r, l] sum= %s init %s\n",
        intrinsic->name, kiln_dtype_name(intrinsic->operand[0]), has_rows ? rows : lanes, steps,
        kiln_dtype_name(intrinsic->operand[1]), lanes, steps,
        kiln_dtype_name(kiln_intrinsic_sum(intrinsic)), rows, lanes, intrinsic->name, rows, lanes,
        steps, intrinsic->value, kiln_intrinsic_sum(intrinsic) == KILN_F32 ? "0.0" : "0i32");
    kiln_program *program = NULL;
    kiln_status st = kiln_program_parse(text, arena, &program);
    KILN_CHECK(st == NULL); /* the text is made from a row of the table */
    return program;
}

/* ---- matching ---- */

/* Whether `e` of `p` is `m` of `meaning`; loads that were found are in `load`. */
static bool match(const kiln_program *meaning, kiln_expr m, const kiln_program *p, kiln_expr e,
                  kiln_expr *load);

/* Inputs are declared first: buffer 1 is a, 2 is b. */
static bool match_load(const kiln_expr_node *wanted, const kiln_expr_node *node, kiln_expr e,
                       kiln_expr *load) {
    kiln_expr *found = &load[wanted->payload.id - 1];
    if (node->op != KILN_EXPR_LOAD || node->dtype != wanted->dtype || (*found && *found != e))
        return false;
    *found = e;
    return true;
}

static bool match_operands(const kiln_program *meaning, kiln_expr m, const kiln_program *p,
                           kiln_expr e, bool swapped, kiln_expr *load) {
    uint32_t count = kiln_expr_get(meaning, m)->operand_count;
    kiln_expr found[KILN_INTRINSIC_OPERANDS] = {load[0], load[1]};
    for (uint32_t i = 0; i < count; i++) {
        uint32_t other = swapped ? count - 1 - i : i;
        if (!match(meaning, kiln_expr_operand(meaning, m, i), p, kiln_expr_operand(p, e, other),
                   found))
            return false;
    }
    for (uint32_t i = 0; i < KILN_INTRINSIC_OPERANDS; i++) load[i] = found[i];
    return true;
}

static bool match(const kiln_program *meaning, kiln_expr m, const kiln_program *p, kiln_expr e,
                  kiln_expr *load) {
    const kiln_expr_node *wanted = kiln_expr_get(meaning, m), *node = kiln_expr_get(p, e);
    if (wanted->op == KILN_EXPR_LOAD) return match_load(wanted, node, e, load);
    if (node->op != wanted->op || node->dtype != wanted->dtype ||
        node->operand_count != wanted->operand_count)
        return false;
    if (node->operand_count == 0) return node->payload.i == wanted->payload.i;
    bool commutes = node->op == KILN_EXPR_ADD || node->op == KILN_EXPR_MUL;
    return match_operands(meaning, m, p, e, false, load) ||
           (commutes && match_operands(meaning, m, p, e, true, load));
}

bool kiln_intrinsic_matches(const kiln_program *meaning, const kiln_program *p, kiln_expr value,
                            kiln_expr out_load[KILN_INTRINSIC_OPERANDS]) {
    kiln_expr load[KILN_INTRINSIC_OPERANDS] = {0, 0};
    if (!match(meaning, meaning->block.data[1].value, p, value, load)) return false;
    for (uint32_t i = 0; i < KILN_INTRINSIC_OPERANDS; i++) out_load[i] = load[i];
    return true;
}

bool kiln_intrinsic_asks_lane(const kiln_program *p, kiln_expr e, kiln_var lane, bool by_group) {
    const kiln_expr_node *node = kiln_expr_get(p, e);
    if (!kiln_expr_uses_var(p, e, lane)) return true;
    if (node->op == KILN_EXPR_VAR) return false;
    const kiln_expr_op wanted = by_group ? KILN_EXPR_FLOORDIV : KILN_EXPR_FLOORMOD;
    int64_t by;
    if (node->op == wanted && kiln_expr_as_int(p, kiln_expr_operand(p, e, 1), &by) &&
        kiln_expr_get(p, kiln_expr_operand(p, e, 0))->op == KILN_EXPR_VAR)
        return by_group ? by % KILN_WARP_GROUP == 0 : KILN_WARP_GROUP % by == 0;
    for (uint32_t i = 0; i < node->operand_count; i++)
        if (!kiln_intrinsic_asks_lane(p, kiln_expr_operand(p, e, i), lane, by_group)) return false;
    return true;
}

const kiln_intrinsic *kiln_intrinsic_of_loop(const kiln_program *p, kiln_stmt loop) {
    const kiln_attribute *a = kiln_stmt_attribute(p, loop, KILN_ATTRIBUTE_TENSORIZE);
    return a ? &kiln_intrinsics[a->row] : NULL;
}
