/* Addresses: the offset of an access is a linear form of loop variables. Its part in unrolled
 * variables is a constant for the addressing mode, its part in the lane variable a stride, and the
 * rest is summed from the outermost loop inwards, each partial sum at the loop where its last
 * variable is defined, so that inner loops need only [register + displacement]. */
#include <string.h>

#include "base/check.h"
#include "compiler-core/codegen/walk.h"
#include "compiler-core/ir/device.h"

static kiln_affine *offset_of(kiln_walk *w, kiln_buffer buffer, const kiln_expr *index) {
    kiln_affine *affine = KILN_ARENA_NEW(w->arena, kiln_affine);
    kiln_expr offset = kiln_buffer_offset(w->p, buffer, index);
    if (!kiln_affine_of(w->p, offset, NULL, affine)) {
        /* Too many terms: use one opaque term, evaluated directly. */
        *affine = (kiln_affine){.term_count = 1, .term = {offset}, .coefficient = {1}};
    }
    return affine;
}

#define GROW_TO(vec, n) \
    while ((vec)->count < (n)) kiln_vec_push_in(w->arena, (vec), NULL)

const kiln_affine *kiln_walk_load_offset(kiln_walk *w, kiln_expr load) {
    GROW_TO(&w->offset, load + 1);
    if (!w->offset.data[load]) {
        /* The operand table may move while indices are simplified, so they are copied first. */
        kiln_expr index[KILN_RANK_MAX];
        uint32_t count = kiln_expr_get(w->p, load)->operand_count;
        for (uint32_t i = 0; i < count; i++) index[i] = kiln_expr_operand(w->p, load, i);
        w->offset.data[load] = offset_of(w, kiln_expr_get(w->p, load)->payload.id, index);
    }
    return w->offset.data[load];
}

const kiln_affine *kiln_walk_store_offset(kiln_walk *w, kiln_stmt store) {
    GROW_TO(&w->store_offset, store + 1);
    if (!w->store_offset.data[store]) {
        const kiln_stmt_info *s = &w->p->stmt.data[store];
        w->store_offset.data[store] = offset_of(w, s->buffer, s->index);
    }
    return w->store_offset.data[store];
}

/* ---- terms ----------------------------------------------------------------------------------- */

/* Where a term can be computed first: the deepest loop level it depends on. LOCAL: it loads memory
 * and must stay where it is used. */
#define LOCAL UINT32_MAX

typedef struct term_look {
    const kiln_walk *w;
    uint32_t level;
    bool uses_lanes;
} term_look;

/* Visits each distinct part once: an index of a search is a small graph, but expands to a huge
 * tree. */
static kiln_expr look_at(kiln_program *p, kiln_expr e, kiln_expr rebuilt, void *context) {
    term_look *look = context;
    const kiln_expr_node *node = kiln_expr_get(p, e);
    if (node->op == KILN_EXPR_LOAD) look->level = LOCAL;
    if (node->op != KILN_EXPR_VAR) return rebuilt;
    const kiln_walk_slot *slot = &look->w->slot[node->payload.id];
    KILN_CHECK(slot->binding != KILN_WALK_UNBOUND);
    look->uses_lanes |= slot->binding == KILN_WALK_LANES;
    if (slot->binding == KILN_WALK_SERIAL) look->level = KILN_MAX(look->level, slot->level);
    return rebuilt;
}

static uint32_t term_level(const kiln_walk *w, kiln_expr term, bool *uses_lanes) {
    term_look look = {.w = w};
    kiln_expr_rewrite(w->p, term, 0, look_at, &look);
    *uses_lanes |= look.uses_lanes;
    return look.level;
}

/* A uniform index term, computed at its level and remembered there. */
static kiln_ssa term_value(kiln_walk *w, kiln_expr term, uint32_t level) {
    const kiln_expr_node *node = kiln_expr_get(w->p, term);
    if (node->op == KILN_EXPR_VAR) return w->slot[node->payload.id].value;
    if (level == LOCAL) return kiln_walk_expr(w, term);

    uint64_t key[4] = {1, term, 0, 0};
    kiln_ssa known = kiln_walk_table_find(&w->level[level]->known, key);
    if (known) return known;
    void *here = w->b->ops->enter_mark(w->b, w->level[level]->mark);
    /* Values computed at the outer level must not be confused with values of this place. */
    uint32_t stamp = w->stamp;
    w->stamp = ++w->last_stamp;
    known = kiln_walk_expr(w, term);
    w->stamp = stamp;
    w->b->ops->leave(w->b, here);
    kiln_walk_table_put(w, &w->level[level]->known, key, known);
    return known;
}

/* base + coefficient * value at `level`: a pointer in bytes, or an integer when `base` is NULL or
 * an integer. */
static kiln_ssa add_step(kiln_walk *w, kiln_ssa base, kiln_ssa value, int64_t coefficient,
                         uint32_t level) {
    uint64_t key[4] = {2, (uint64_t)(uintptr_t)base, (uint64_t)(uintptr_t)value,
                       (uint64_t)coefficient};
    if (level != LOCAL) {
        kiln_ssa known = kiln_walk_table_find(&w->level[level]->known, key);
        if (known) return known;
    }
    bool is_pointer = base && kiln_walk_type(w, base).scalar == KILN_SSA_POINTER;
    kiln_ssa sum;
    if (is_pointer && level != LOCAL && value == w->level[level]->counter) {
        sum = w->b->ops->loop_pointer(w->b, w->level[level]->loop, base, coefficient);
    } else {
        void *here = level != LOCAL ? w->b->ops->enter_mark(w->b, w->level[level]->mark) : NULL;
        sum = coefficient == 1
                  ? value
                  : kiln_walk_compute(w, KILN_BUILD_MUL, value, kiln_walk_i64(w, coefficient));
        if (is_pointer)
            sum = w->b->ops->offset(w->b, base, sum);
        else if (base)
            sum = kiln_walk_compute(w, KILN_BUILD_ADD, base, sum);
        if (level != LOCAL) w->b->ops->leave(w->b, here);
    }
    if (level != LOCAL) kiln_walk_table_put(w, &w->level[level]->known, key, sum);
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

static void split_add(kiln_walk *w, split_form *form, kiln_expr term, int64_t coefficient) {
    const kiln_expr_node *node = kiln_expr_get(w->p, term);
    if (node->op == KILN_EXPR_VAR) {
        const kiln_walk_slot *slot = &w->slot[node->payload.id];
        if (slot->binding != KILN_WALK_SERIAL) form->constant += coefficient * slot->constant;
        if (slot->binding == KILN_WALK_LANES) form->lane_stride += coefficient;
        if (slot->binding != KILN_WALK_SERIAL) return;
    } else {
        term = kiln_expr_simplify(w->p, kiln_expr_substitute(w->p, term, w->constant_of), NULL);
        int64_t value;
        if (kiln_expr_as_int(w->p, term, &value)) {
            form->constant += coefficient * value;
            return;
        }
    }
    bool uses_lanes = false;
    uint32_t level = term_level(w, term, &uses_lanes);
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

static void split_of(kiln_walk *w, const kiln_affine *a, split_form *form) {
    *form = (split_form){.constant = a->constant, .linear = true};
    for (uint32_t i = 0; i < a->term_count; i++) split_add(w, form, a->term[i], a->coefficient[i]);
}

/* Sums the serial terms on top of `base`; `scale` multiplies every coefficient. */
static kiln_ssa sum_of(kiln_walk *w, kiln_ssa base, const split_form *form, int64_t scale) {
    for (uint32_t i = 0; i < form->count; i++) {
        uint32_t level = form->serial[i].level;
        kiln_ssa value = term_value(w, form->serial[i].term, level);
        base = add_step(w, base, value, form->serial[i].coefficient * scale, level);
    }
    return base;
}

/* Alignment of a buffer's first byte. Outside of launches buffers lie in memory of the host. */
static uint32_t buffer_align(const kiln_walk *w, kiln_buffer buffer) {
    return w->written ? kiln_buffer_alignment(w->p, buffer) : KILN_KERNEL_ALIGNMENT;
}

/* Largest power of two, up to the alignment of the buffer, that divides every part of a byte
 * offset. */
static uint32_t offset_align(const split_form *form, uint32_t buffer, int64_t constant,
                             int64_t element_bytes) {
    uint64_t bits = buffer | (uint64_t)(constant * element_bytes);
    for (uint32_t i = 0; i < form->count; i++)
        bits |= (uint64_t)(form->serial[i].coefficient * element_bytes);
    return (uint32_t)(bits & -bits);
}

kiln_walk_address kiln_walk_address_of(kiln_walk *w, kiln_buffer buffer,
                                       const kiln_affine *offset) {
    split_form form;
    split_of(w, offset, &form);
    kiln_walk_address a = {
        .constant = form.constant, .lane_stride = form.lane_stride, .linear = form.linear};
    if (!form.linear) return a;
    int64_t element_bytes = (int64_t)kiln_dtype_size(w->p->buffer.data[buffer].dtype);
    const uint32_t align = buffer_align(w, buffer);
    a.align = offset_align(&form, align, form.constant, element_bytes);
    a.pointer_align = offset_align(&form, align, 0, element_bytes);
    a.pointer = sum_of(w, w->data[buffer], &form, element_bytes);
    return a;
}

kiln_ssa kiln_walk_pointer(kiln_walk *w, const kiln_walk_address *a, kiln_dtype dtype,
                           int64_t plus_elements) {
    int64_t bytes = (a->constant + plus_elements) * (int64_t)kiln_dtype_size(dtype);
    if (bytes == 0) return a->pointer;
    return w->b->ops->offset(w->b, a->pointer, kiln_walk_i64(w, bytes));
}

bool kiln_walk_linear(kiln_walk *w, const kiln_affine *a, kiln_ssa *out_base, int64_t *out_constant,
                      int64_t *out_lane_stride) {
    split_form form;
    split_of(w, a, &form);
    if (!form.linear) return false;
    *out_base = sum_of(w, NULL, &form, 1);
    *out_constant = form.constant;
    *out_lane_stride = form.lane_stride;
    return true;
}

int64_t kiln_walk_constant_offset(kiln_walk *w, const kiln_affine *offset, uint32_t lane) {
    bool in_lanes = w->lanes != 0;
    if (in_lanes) kiln_walk_enter_lane(w, lane);
    split_form form;
    split_of(w, offset, &form);
    if (in_lanes) kiln_walk_leave_lane(w);
    KILN_CHECK(form.count == 0); /* lowering refuses other accesses to registers */
    return form.constant;
}

/* ---- one lane -------------------------------------------------------------------------------- */

void kiln_walk_enter_lane(kiln_walk *w, uint32_t lane) {
    kiln_walk_slot *slot = &w->slot[w->lane_var];
    KILN_CHECK(slot->binding == KILN_WALK_LANES);
    slot->binding = KILN_WALK_CONSTANT;
    w->all_constant = slot->constant;
    slot->constant += lane;
    w->constant_of[w->lane_var] = kiln_expr_index(w->p, slot->constant);
    w->stamp = ++w->last_stamp;
    w->lane = lane;
    w->all_lanes = w->lanes;
    w->all_mask = w->mask;
    w->lanes = 0;
    w->mask = NULL;
}

void kiln_walk_leave_lane(kiln_walk *w) {
    kiln_walk_slot *slot = &w->slot[w->lane_var];
    slot->binding = KILN_WALK_LANES;
    slot->constant = w->all_constant;
    w->lanes = w->all_lanes;
    w->mask = w->all_mask;
    w->all_mask = NULL;
    w->constant_of[w->lane_var] = 0;
    w->stamp = ++w->last_stamp;
}
