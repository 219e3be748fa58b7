/* Addresses: the offset of an access is a linear form of loop variables. Its part in unrolled
 * variables is a constant for the addressing mode, its part in the lane variable a stride, and the
 * rest is summed from the outermost loop inwards, each partial sum at the loop where its last
 * variable is defined, so that inner loops are left with [register + displacement]. */
#include <string.h>

#include "base/check.h"
#include "compiler-core/codegen/llvm_emit.h"

static kiln_affine *offset_of(kiln_llvm_emitter *e, kiln_buffer buffer, const kiln_expr *index,
                              uint32_t index_count) {
    (void)index_count;
    kiln_affine *affine = KILN_ARENA_NEW(e->arena, kiln_affine);
    kiln_expr offset = kiln_buffer_offset(e->p, buffer, index, NULL);
    if (!kiln_affine_of(e->p, offset, NULL, affine)) {
        /* Too many terms: one opaque term, evaluated as it stands. */
        *affine = (kiln_affine){.term_count = 1, .term = {offset}, .coefficient = {1}};
    }
    return affine;
}

#define GROW_TO(vec, n) \
    while ((vec)->count < (n)) kiln_vec_push_in(e->arena, (vec), NULL)

const kiln_affine *kiln_llvm_load_offset(kiln_llvm_emitter *e, kiln_expr load) {
    GROW_TO(&e->offset, load + 1);
    if (!e->offset.data[load]) {
        /* The operand table may move while indices are simplified, so they are copied first. */
        kiln_expr index[KILN_RANK_MAX];
        uint32_t count = kiln_expr_get(e->p, load)->operand_count;
        for (uint32_t i = 0; i < count; i++) index[i] = kiln_expr_operand(e->p, load, i);
        e->offset.data[load] = offset_of(e, kiln_expr_get(e->p, load)->payload.id, index, count);
    }
    return e->offset.data[load];
}

const kiln_affine *kiln_llvm_store_offset(kiln_llvm_emitter *e, kiln_stmt store) {
    GROW_TO(&e->store_offset, store + 1);
    if (!e->store_offset.data[store]) {
        const kiln_stmt_info *s = &e->p->stmt.data[store];
        e->store_offset.data[store] = offset_of(e, s->buffer, s->index, s->index_count);
    }
    return e->store_offset.data[store];
}

/* ---- terms ----------------------------------------------------------------------------------- */

/* Where a term can be computed first: the deepest loop level it depends on. LOCAL: it loads memory
 * and must stay where it is used. */
#define LOCAL UINT32_MAX

static uint32_t term_level(const kiln_llvm_emitter *e, kiln_expr term, bool *uses_lanes) {
    const kiln_expr_node *node = kiln_expr_get(e->p, term);
    if (node->op == KILN_EXPR_VAR) {
        const kiln_llvm_slot *slot = &e->slot[node->payload.id];
        KILN_CHECK(slot->binding != KILN_LLVM_UNBOUND);
        if (slot->binding == KILN_LLVM_LANES) *uses_lanes = true;
        return slot->binding == KILN_LLVM_SERIAL ? slot->level : 0;
    }
    uint32_t level = node->op == KILN_EXPR_LOAD ? LOCAL : 0;
    for (uint32_t i = 0; i < node->operand_count; i++) {
        uint32_t below = term_level(e, kiln_expr_operand(e->p, term, i), uses_lanes);
        level = KILN_MAX(level, below);
    }
    return level;
}

static void builder_to_level(kiln_llvm_emitter *e, uint32_t level) {
    LLVMPositionBuilderBefore(e->builder, e->level[level]->marker);
}

/* A uniform index term, computed at its level and remembered there. */
static LLVMValueRef term_value(kiln_llvm_emitter *e, kiln_expr term, uint32_t level) {
    const kiln_expr_node *node = kiln_expr_get(e->p, term);
    if (node->op == KILN_EXPR_VAR) return e->slot[node->payload.id].value;
    if (level == LOCAL) return kiln_llvm_expr(e, term);

    uint64_t key[4] = {1, term, 0, 0};
    LLVMValueRef known = kiln_llvm_table_find(&e->level[level]->known, key);
    if (known) return known;
    LLVMBasicBlockRef here = LLVMGetInsertBlock(e->builder);
    builder_to_level(e, level);
    /* What is computed out there must not be mistaken for something found here, nor the reverse. */
    uint32_t stamp = e->stamp;
    e->stamp = ++e->last_stamp;
    known = kiln_llvm_expr(e, term);
    e->stamp = stamp;
    LLVMPositionBuilderAtEnd(e->builder, here);
    kiln_llvm_table_put(e, &e->level[level]->known, key, known);
    return known;
}

/* base + coefficient * counter as a pointer that the loop advances. */
static LLVMValueRef stepping_pointer(kiln_llvm_emitter *e, LLVMValueRef base, int64_t coefficient,
                                     kiln_llvm_level *level) {
    LLVMBasicBlockRef header = LLVMGetInstructionParent(level->counter);
    LLVMPositionBuilderBefore(e->builder, LLVMGetBasicBlockTerminator(level->preheader));
    LLVMValueRef offset = LLVMBuildMul(e->builder, level->first, kiln_llvm_i64(e, coefficient), "");
    LLVMValueRef start = base;
    if (!LLVMIsNull(offset))
        start = LLVMBuildGEP2(e->builder, kiln_llvm_int(e, 8), base, &offset, 1, "");
    LLVMPositionBuilder(e->builder, header, LLVMGetFirstInstruction(header));
    LLVMValueRef phi = LLVMBuildPhi(e->builder, kiln_llvm_ptr(e), "");
    LLVMAddIncoming(phi, &start, &level->preheader, 1);
    kiln_vec_push_in(e->arena, &level->pointer, ((kiln_llvm_stepping){phi, coefficient}));
    return phi;
}

/* base + coefficient * value at `level`: a pointer in bytes, or an integer when `base` is NULL or
 * an integer. */
static LLVMValueRef add_step(kiln_llvm_emitter *e, LLVMValueRef base, LLVMValueRef value,
                             int64_t coefficient, uint32_t level) {
    uint64_t key[4] = {2, (uint64_t)(uintptr_t)base, (uint64_t)(uintptr_t)value,
                       (uint64_t)coefficient};
    if (level != LOCAL) {
        LLVMValueRef known = kiln_llvm_table_find(&e->level[level]->known, key);
        if (known) return known;
    }
    LLVMBasicBlockRef here = LLVMGetInsertBlock(e->builder);
    bool is_pointer = base && LLVMGetTypeKind(LLVMTypeOf(base)) == LLVMPointerTypeKind;
    LLVMValueRef sum;
    if (is_pointer && level != LOCAL && value == e->level[level]->counter) {
        sum = stepping_pointer(e, base, coefficient, e->level[level]);
    } else {
        if (level != LOCAL) builder_to_level(e, level);
        sum = coefficient == 1 ? value
                               : LLVMBuildMul(e->builder, value, kiln_llvm_i64(e, coefficient), "");
        if (is_pointer)
            sum = LLVMBuildGEP2(e->builder, kiln_llvm_int(e, 8), base, &sum, 1, "");
        else if (base)
            sum = LLVMBuildAdd(e->builder, base, sum, "");
    }
    if (level != LOCAL) {
        LLVMPositionBuilderAtEnd(e->builder, here);
        kiln_llvm_table_put(e, &e->level[level]->known, key, sum);
    }
    return sum;
}

/* The terms of an affine form under the current bindings. */
typedef struct split_form {
    int64_t constant, lane_stride;
    bool linear;
    uint32_t count;
    struct {
        kiln_expr term;
        int64_t coefficient;
        uint32_t level;
    } serial[KILN_AFFINE_TERMS_MAX]; /* outermost level first */
} split_form;

static void split_add(kiln_llvm_emitter *e, split_form *form, kiln_expr term, int64_t coefficient) {
    const kiln_expr_node *node = kiln_expr_get(e->p, term);
    if (node->op == KILN_EXPR_VAR) {
        const kiln_llvm_slot *slot = &e->slot[node->payload.id];
        if (slot->binding != KILN_LLVM_SERIAL) form->constant += coefficient * slot->constant;
        if (slot->binding == KILN_LLVM_LANES) form->lane_stride += coefficient;
        if (slot->binding != KILN_LLVM_SERIAL) return;
    } else {
        term = kiln_expr_simplify(e->p, kiln_expr_substitute(e->p, term, e->constant_of), NULL);
        int64_t value;
        if (kiln_expr_as_int(e->p, term, &value)) {
            form->constant += coefficient * value;
            return;
        }
    }
    bool uses_lanes = false;
    uint32_t level = term_level(e, term, &uses_lanes);
    if (uses_lanes) {
        form->linear = false;
        return;
    }
    uint32_t at = form->count++;
    for (; at > 0 && form->serial[at - 1].level > level; at--)
        form->serial[at] = form->serial[at - 1];
    form->serial[at].term = term;
    form->serial[at].coefficient = coefficient;
    form->serial[at].level = level;
}

static void split_of(kiln_llvm_emitter *e, const kiln_affine *a, split_form *form) {
    *form = (split_form){.constant = a->constant, .linear = true};
    for (uint32_t i = 0; i < a->term_count; i++) split_add(e, form, a->term[i], a->coefficient[i]);
}

/* Sums the serial terms on top of `base`; `scale` multiplies every coefficient. */
static LLVMValueRef sum_of(kiln_llvm_emitter *e, LLVMValueRef base, const split_form *form,
                           int64_t scale) {
    for (uint32_t i = 0; i < form->count; i++) {
        uint32_t level = form->serial[i].level;
        LLVMValueRef value = term_value(e, form->serial[i].term, level);
        base = add_step(e, base, value, form->serial[i].coefficient * scale, level);
    }
    return base;
}

/* Largest power of two, up to the alignment of buffers, that divides every part of a byte offset.
 */
static uint32_t offset_align(const split_form *form, int64_t constant, int64_t element_bytes) {
    uint64_t bits = KILN_KERNEL_ALIGNMENT | (uint64_t)(constant * element_bytes);
    for (uint32_t i = 0; i < form->count; i++)
        bits |= (uint64_t)(form->serial[i].coefficient * element_bytes);
    return (uint32_t)(bits & -bits);
}

kiln_llvm_address kiln_llvm_address_of(kiln_llvm_emitter *e, kiln_buffer buffer,
                                       const kiln_affine *offset) {
    split_form form;
    split_of(e, offset, &form);
    kiln_llvm_address a = {
        .constant = form.constant, .lane_stride = form.lane_stride, .linear = form.linear};
    if (!form.linear) return a;
    int64_t element_bytes = (int64_t)kiln_dtype_size(e->p->buffer.data[buffer].dtype);
    a.align = offset_align(&form, form.constant, element_bytes);
    a.pointer_align = offset_align(&form, 0, element_bytes);
    a.pointer = sum_of(e, e->data[buffer], &form, element_bytes);
    return a;
}

LLVMValueRef kiln_llvm_pointer(kiln_llvm_emitter *e, const kiln_llvm_address *a, kiln_dtype dtype,
                               int64_t plus_elements) {
    int64_t bytes = (a->constant + plus_elements) * (int64_t)kiln_dtype_size(dtype);
    if (bytes == 0) return a->pointer;
    LLVMValueRef offset = kiln_llvm_i64(e, bytes);
    return LLVMBuildGEP2(e->builder, kiln_llvm_int(e, 8), a->pointer, &offset, 1, "");
}

bool kiln_llvm_linear(kiln_llvm_emitter *e, const kiln_affine *a, LLVMValueRef *out_base,
                      int64_t *out_constant, int64_t *out_lane_stride) {
    split_form form;
    split_of(e, a, &form);
    if (!form.linear) return false;
    *out_base = sum_of(e, NULL, &form, 1);
    *out_constant = form.constant;
    *out_lane_stride = form.lane_stride;
    return true;
}

int64_t kiln_llvm_constant_offset(kiln_llvm_emitter *e, const kiln_affine *offset, uint32_t lane) {
    bool in_lanes = e->lanes != 0;
    if (in_lanes) kiln_llvm_enter_lane(e, lane);
    split_form form;
    split_of(e, offset, &form);
    if (in_lanes) kiln_llvm_leave_lane(e);
    KILN_CHECK(form.count == 0); /* lowering refuses other accesses to registers */
    return form.constant;
}

/* ---- one lane -------------------------------------------------------------------------------- */

void kiln_llvm_enter_lane(kiln_llvm_emitter *e, uint32_t lane) {
    kiln_llvm_slot *slot = &e->slot[e->lane_var];
    KILN_CHECK(slot->binding == KILN_LLVM_LANES);
    slot->binding = KILN_LLVM_CONSTANT;
    slot->value = kiln_llvm_i64(e, slot->constant); /* kept for leaving */
    slot->constant += lane;
    e->constant_of[e->lane_var] = kiln_expr_index(e->p, slot->constant);
    e->stamp = ++e->last_stamp;
    e->lane = lane;
    e->all_lanes = e->lanes;
    e->all_mask = e->mask;
    e->lanes = 0;
    e->mask = NULL;
}

void kiln_llvm_leave_lane(kiln_llvm_emitter *e) {
    kiln_llvm_slot *slot = &e->slot[e->lane_var];
    slot->binding = KILN_LLVM_LANES;
    slot->constant = LLVMConstIntGetSExtValue(slot->value);
    e->lanes = e->all_lanes;
    e->mask = e->all_mask;
    e->all_mask = NULL;
    e->constant_of[e->lane_var] = 0;
    e->stamp = ++e->last_stamp;
}
