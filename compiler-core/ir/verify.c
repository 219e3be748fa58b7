/* The rules of ir.h, checked. */
#include "base/alloc.h"
#include "base/check.h"
#include "compiler-core/ir/bounds.h"
#include "compiler-core/ir/device.h"
#include "compiler-core/ir/intrinsic.h"
#include "compiler-core/ir/ir_text.h"
#include "compiler-core/ir/text.h"

typedef struct verifier {
    const kiln_program *p;
    kiln_status status;
    kiln_str place;       /* block, buffer or loop that is being checked */
    bool *in_scope;       /* [var count]: may be used by the current expression */
    kiln_interval *range; /* [var count]: their ranges here */
    uint32_t stamp;
    uint32_t *seen;   /* [expr count]: stamp of the walk that visited it */
    bool *is_written; /* [buffer count]: by the statements before */
    bool *is_away;    /* [buffer count]: has ALLOCs, and this is in none of them */
    uint32_t *placed; /* [block count] */
    uint32_t visited; /* statements */
    bool guarded;     /* a predicate or if may exclude some values */
    bool is_empty;    /* a loop or domain around it is empty: nothing is ever accessed */
    bool has_stores, has_blocks;
} verifier;

#define FAIL(v, ...)                                                                  \
    do {                                                                              \
        if (!(v)->status)                                                             \
            (v)->status = kiln_status_note(KILN_ERROR(INTERNAL, __VA_ARGS__), "%.*s", \
                                           KILN_STR_ARG((v)->place));                 \
    } while (0)

#define REQUIRE(v, condition, ...) \
    do {                           \
        if (!(condition)) {        \
            FAIL(v, __VA_ARGS__);  \
            return;                \
        }                          \
    } while (0)

/* ---- tables ---------------------------------------------------------------------- */

static void verify_expr_node(verifier *v, kiln_expr e) {
    const kiln_expr_node *node = kiln_expr_get(v->p, e);
    const kiln_expr *operand = v->p->operand.data + node->first_operand;
    REQUIRE(v, node->op < KILN_EXPR_OP_COUNT, "expression %u has no operator", e);
    for (uint32_t i = 0; i < node->operand_count; i++)
        REQUIRE(v, operand[i] > 0 && operand[i] < e, "expression %u uses one that is made later",
                e);
    const char *wrong =
        kiln_expr_type_error(v->p, (kiln_expr_op)node->op, operand, node->operand_count);
    REQUIRE(v, !wrong, "expression %u: %s", e, wrong);
    if (node->op == KILN_EXPR_VAR)
        REQUIRE(v, node->payload.id > 0 && node->payload.id < v->p->var.count,
                "expression %u names no variable", e);
    if (node->op != KILN_EXPR_LOAD) return;
    REQUIRE(v, node->payload.id > 0 && node->payload.id < v->p->buffer.count,
            "expression %u names no buffer", e);
    const kiln_buffer_info *b = &v->p->buffer.data[node->payload.id];
    REQUIRE(v, node->operand_count == b->shape.rank,
            "a load of %.*s has the wrong number of indices", KILN_STR_ARG(b->name));
    REQUIRE(v, node->dtype == b->dtype, "a load of %.*s has the wrong dtype",
            KILN_STR_ARG(b->name));
}

static void verify_buffer(verifier *v, kiln_buffer buffer) {
    const kiln_buffer_info *b = &v->p->buffer.data[buffer];
    bool is_argument = b->role != KILN_ROLE_TEMP;
    v->place = b->name;
    REQUIRE(v, kiln_program_find_buffer(v->p, b->name) == buffer, "two buffers have this name");
    REQUIRE(v, b->dtype > KILN_DTYPE_NONE && b->dtype < KILN_DTYPE_COUNT,
            "the buffer has no dtype");
    REQUIRE(v, b->shape.rank <= KILN_RANK_MAX, "the buffer has too many dimensions");
    for (uint32_t i = 0; i < b->shape.rank; i++)
        REQUIRE(v, b->shape.dim[i] >= 0, "dimension %u is negative", i);
    REQUIRE(v, !is_argument || b->scope == KILN_SCOPE_GLOBAL, "an argument lies in global memory");
    REQUIRE(v, b->layout.piece_count <= KILN_RANK_MAX, "the layout has too many pieces");
    REQUIRE(v, !b->is_placed || b->scope == KILN_SCOPE_SHARED,
            "only shared temps have a place in a group's memory");
    REQUIRE(v, !b->is_placed || b->offset % kiln_buffer_alignment(v->p, buffer) == 0,
            "the place is not aligned to %u bytes", kiln_buffer_alignment(v->p, buffer));
    REQUIRE(v, !b->range.step || b->role == KILN_ROLE_INPUT || b->role == KILN_ROLE_CONSTANT,
            "only inputs and constants have a range");
    REQUIRE(v, !b->range.step || kiln_range_fits(&b->range, b->dtype), "%s cannot have this range",
            kiln_dtype_name(b->dtype));
}

/* ---- expressions in their place -------------------------------------------------- */

/* Bounds are exact, not only safe, when the expression is a sum of variables: only then is a value
 * outside the buffer a mistake for certain. */
static bool is_sum_of_vars(const kiln_program *p, kiln_expr e) {
    kiln_affine a;
    kiln_affine_clear(&a);
    if (!kiln_affine_add(p, &a, e, 1)) return false;
    for (uint32_t i = 0; i < a.term_count; i++)
        if (kiln_expr_get(p, a.term[i])->op != KILN_EXPR_VAR) return false;
    return true;
}

static void verify_index(verifier *v, kiln_buffer buffer, const kiln_expr *index, uint32_t count,
                         bool guarded) {
    const kiln_buffer_info *b = &v->p->buffer.data[buffer];
    kiln_bounds bounds;
    kiln_bounds_init(&bounds, v->p, v->range);
    for (uint32_t i = 0; i < count && !v->is_empty; i++) {
        kiln_interval in = kiln_bounds_of(&bounds, index[i]);
        if (!kiln_interval_is_bounded(in)) continue;
        bool outside = in.high < 0 || in.low >= b->shape.dim[i];
        bool partly = in.low < 0 || in.high >= b->shape.dim[i];
        if (outside || (partly && !guarded && is_sum_of_vars(v->p, index[i])))
            FAIL(v, "index %u of %.*s is in [%lld, %lld], the dimension is %lld", i,
                 KILN_STR_ARG(b->name), (long long)in.low, (long long)in.high,
                 (long long)b->shape.dim[i]);
    }
}

/* Variables in scope, buffers written before, indices inside. */
static void verify_expr(verifier *v, kiln_expr e, bool guarded) {
    const kiln_expr_node *node = kiln_expr_get(v->p, e);
    if (v->seen[e] == v->stamp || v->status) return;
    v->seen[e] = v->stamp;
    if (node->op == KILN_EXPR_VAR) {
        kiln_str name = v->p->var.data[node->payload.id].name;
        REQUIRE(v, v->in_scope[node->payload.id], "variable %.*s is not in scope",
                KILN_STR_ARG(name));
    }
    if (node->op == KILN_EXPR_LOAD) {
        const kiln_buffer_info *b = &v->p->buffer.data[node->payload.id];
        REQUIRE(v, !v->is_away[node->payload.id], "%.*s is read outside of its alloc",
                KILN_STR_ARG(b->name));
        REQUIRE(v, v->is_written[node->payload.id], "%.*s is read before it is written",
                KILN_STR_ARG(b->name));
        verify_index(v, node->payload.id, v->p->operand.data + node->first_operand,
                     node->operand_count, guarded);
    }
    bool selects = node->op == KILN_EXPR_SELECT;
    for (uint32_t i = 0; i < node->operand_count; i++)
        verify_expr(v, kiln_expr_operand(v->p, e, i), guarded || (selects && i > 0));
}

static void verify_root_expr(verifier *v, kiln_expr e, kiln_dtype dtype, const char *what) {
    if (v->status) return;
    REQUIRE(v, e > 0 && e < v->p->expr.count, "%s is missing", what);
    REQUIRE(v, kiln_expr_get(v->p, e)->dtype == dtype, "%s should be %s", what,
            kiln_dtype_name(dtype));
    v->stamp++;
    verify_expr(v, e, v->guarded);
}

static void verify_access(verifier *v, kiln_buffer buffer, const kiln_expr *index, uint32_t count) {
    if (v->status) return;
    REQUIRE(v, buffer > 0 && buffer < v->p->buffer.count, "no buffer is written");
    const kiln_buffer_info *b = &v->p->buffer.data[buffer];
    REQUIRE(v, b->role != KILN_ROLE_INPUT && b->role != KILN_ROLE_CONSTANT,
            "%.*s may not be written", KILN_STR_ARG(b->name));
    REQUIRE(v, !v->is_away[buffer], "%.*s is written outside of its alloc", KILN_STR_ARG(b->name));
    REQUIRE(v, count == b->shape.rank, "%.*s has %u dimensions", KILN_STR_ARG(b->name),
            b->shape.rank);
    for (uint32_t i = 0; i < count; i++)
        verify_root_expr(v, index[i], KILN_INDEX_DTYPE, "an index");
    if (!v->status) verify_index(v, buffer, index, count, v->guarded);
}

/* ---- blocks ---------------------------------------------------------------------- */

static void scope_iters(verifier *v, const kiln_block_info *b, bool reduce_too, bool in_scope) {
    for (uint32_t i = 0; i < b->iter_count; i++)
        if (reduce_too || !b->iter[i].reduce || !in_scope) v->in_scope[b->iter[i].var] = in_scope;
}

static void verify_iters(verifier *v, const kiln_block_info *b) {
    REQUIRE(v, b->iter_count <= KILN_BLOCK_ITERS_MAX, "the block has too many iterators");
    for (uint32_t i = 0; i < b->iter_count; i++) {
        const kiln_iter *iter = &b->iter[i];
        REQUIRE(v, iter->var > 0 && iter->var < v->p->var.count, "iterator %u has no variable", i);
        const kiln_var_info *var = &v->p->var.data[iter->var];
        int64_t last = iter->extent > 0 ? iter->extent - 1 : 0;
        REQUIRE(v, iter->extent >= 0, "iterator %.*s has a negative extent",
                KILN_STR_ARG(var->name));
        REQUIRE(v, var->low == 0 && var->high == last, "the range of %.*s is not its domain",
                KILN_STR_ARG(var->name));
        v->range[iter->var] = (kiln_interval){0, last};
        for (uint32_t k = 0; k < i; k++)
            REQUIRE(v, b->iter[k].var != iter->var, "two iterators share a variable");
    }
}

static bool has_initialiser(const kiln_program *p, kiln_block reduction) {
    for (kiln_block b = 1; b < p->block.count; b++)
        if (!p->block.data[b].removed && p->block.data[b].init_of == reduction) return true;
    return false;
}

static bool writes_alone(const kiln_program *p, kiln_block block) {
    const kiln_block_info *own = &p->block.data[block];
    for (kiln_block b = 1; b < p->block.count; b++) {
        const kiln_block_info *other = &p->block.data[b];
        if (b != block && !other->removed && !other->init_of && other->buffer == own->buffer)
            return false;
    }
    return true;
}

static void verify_kind(verifier *v, kiln_block block) {
    const kiln_block_info *b = &v->p->block.data[block];
    bool reduces = b->combiner != KILN_COMBINE_NONE;
    REQUIRE(v, b->combiner < KILN_COMBINE_COUNT, "the block has no combiner");
    if (b->init_of) {
        const kiln_block_info *of =
            b->init_of < v->p->block.count ? &v->p->block.data[b->init_of] : NULL;
        REQUIRE(v, of && !of->removed && of->combiner != KILN_COMBINE_NONE,
                "it initialises no reduction");
        REQUIRE(v, of->buffer == b->buffer && !of->init && !reduces,
                "it does not fit the reduction it initialises");
    } else {
        REQUIRE(v, writes_alone(v->p, block), "two blocks write one buffer");
        REQUIRE(v, !reduces || b->init || has_initialiser(v->p, block),
                "the reduction has no init");
    }
    for (uint32_t i = 0; i < b->iter_count; i++)
        REQUIRE(v, reduces || !b->iter[i].reduce, "only reductions have reduce iterators");
}

/* Different points write different elements: some index uses every spatial iterator of extent above
 * 1. */
static void verify_injective(verifier *v, const kiln_block_info *b) {
    for (uint32_t i = 0; i < b->iter_count; i++) {
        bool used = b->iter[i].reduce || b->iter[i].extent <= 1;
        for (uint32_t k = 0; k < b->index_count && !used; k++)
            used = kiln_expr_uses_var(v->p, b->index[k], b->iter[i].var);
        REQUIRE(v, used, "no index uses iterator %.*s",
                KILN_STR_ARG(v->p->var.data[b->iter[i].var].name));
    }
}

/* Verifies the block's value, over its own iterators. */
static void verify_block(verifier *v, kiln_block block) {
    const kiln_block_info *b = &v->p->block.data[block];
    bool was_empty = v->is_empty;
    v->place = b->name;
    REQUIRE(v, kiln_program_find_block(v->p, b->name) == block, "two blocks have this name");
    verify_iters(v, b);
    if (!v->status) verify_kind(v, block);
    if (v->status) return;
    for (uint32_t i = 0; i < b->iter_count; i++) v->is_empty |= b->iter[i].extent == 0;

    scope_iters(v, b, false, true);
    verify_access(v, b->buffer, b->index, b->index_count);
    if (v->status) return;
    verify_injective(v, b);
    kiln_dtype dtype = v->p->buffer.data[b->buffer].dtype;
    if (b->init) verify_root_expr(v, b->init, dtype, "the init");
    scope_iters(v, b, true, true);
    bool was_written = v->is_written[b->buffer];
    v->is_written[b->buffer] = false; /* the value may not load what the block writes */
    verify_root_expr(v, b->value, dtype, "the value");
    v->is_written[b->buffer] = was_written;
    scope_iters(v, b, true, false);
    v->is_empty = was_empty;
}

/* ---- statements ------------------------------------------------------------------ */

static void verify_stmt(verifier *v, kiln_stmt stmt);

static void verify_children(verifier *v, kiln_stmt stmt) {
    const kiln_stmt_info *s = &v->p->stmt.data[stmt];
    for (uint32_t i = 0; i < s->child.count && !v->status; i++) {
        kiln_stmt child = s->child.data[i];
        REQUIRE(v, child > 0 && child < v->p->stmt.count, "a statement's child is missing");
        REQUIRE(v, v->p->stmt.data[child].parent == stmt, "a statement does not know its parent");
        verify_stmt(v, child);
    }
}

static void verify_for(verifier *v, kiln_stmt stmt) {
    const kiln_stmt_info *s = &v->p->stmt.data[stmt];
    REQUIRE(v, s->var > 0 && s->var < v->p->var.count, "a loop has no variable");
    const kiln_var_info *var = &v->p->var.data[s->var];
    kiln_interval range = {s->first, s->first + (s->extent > 0 ? s->extent - 1 : 0)};
    v->place = var->name;
    REQUIRE(v, s->extent >= 0, "the loop's extent is negative");
    REQUIRE(v, s->loop_kind < KILN_LOOP_KIND_COUNT, "the loop has no kind");
    REQUIRE(v, s->axis < KILN_AXIS_COUNT, "the loop's axis is none");
    REQUIRE(v, !v->in_scope[s->var], "the loop is inside itself");
    REQUIRE(v, var->low <= range.low && range.high <= var->high,
            "the variable's range does not cover the loop");
    bool was_empty = v->is_empty;
    v->is_empty |= s->extent == 0;
    v->in_scope[s->var] = true;
    v->range[s->var] = range;
    verify_children(v, stmt);
    v->in_scope[s->var] = false;
    v->is_empty = was_empty;
}

static void verify_binding(verifier *v, const kiln_block_info *b, const kiln_iter *iter) {
    kiln_str name = v->p->var.data[iter->var].name;
    REQUIRE(v, iter->binding, "iterator %.*s is not bound", KILN_STR_ARG(name));
    verify_root_expr(v, iter->binding, KILN_INDEX_DTYPE, "a binding");
    if (v->status || v->guarded || v->is_empty || b->predicate ||
        !is_sum_of_vars(v->p, iter->binding))
        return;
    kiln_interval in = kiln_expr_bounds(v->p, iter->binding, v->range);
    REQUIRE(v, in.low >= 0 && in.high < KILN_MAX(iter->extent, 1),
            "iterator %.*s is bound to [%lld, %lld], outside its domain", KILN_STR_ARG(name),
            (long long)in.low, (long long)in.high);
}

static void verify_placement(verifier *v, const kiln_stmt_info *s) {
    REQUIRE(v, s->block > 0 && s->block < v->p->block.count, "a statement places no block");
    const kiln_block_info *b = &v->p->block.data[s->block];
    v->place = b->name;
    v->has_blocks = true;
    REQUIRE(v, !b->removed, "a removed block is placed");
    REQUIRE(v, v->placed[s->block]++ == 0, "the block is placed twice");
    if (b->predicate) verify_root_expr(v, b->predicate, KILN_BOOL, "the predicate");
    for (uint32_t i = 0; i < b->iter_count && !v->status; i++) verify_binding(v, b, &b->iter[i]);
    /* Inside, only the block's own iterators exist. */
    if (v->status) return;
    bool *outside = v->in_scope;
    bool was_guarded = v->guarded;
    v->in_scope = kiln_alloc(v->p->var.count);
    v->guarded = false;
    verify_block(v, s->block);
    kiln_free(v->in_scope);
    v->in_scope = outside;
    v->guarded = was_guarded;
    v->is_written[b->buffer] = true;
}

static bool exchanges(const kiln_stmt_info *s) {
    for (uint32_t i = 0; i < s->attribute.count; i++)
        if (s->attribute.data[i].id == KILN_ATTRIBUTE_EXCHANGE) return true;
    return false;
}

static void verify_store(verifier *v, const kiln_stmt_info *s) {
    v->place = s->kind == KILN_STMT_COPY ? KILN_STR("copy") : KILN_STR("store");
    v->has_stores = true;
    verify_access(v, s->buffer, s->index, s->index_count);
    if (v->status) return;
    verify_root_expr(v, s->value, v->p->buffer.data[s->buffer].dtype, "the value");
    if (v->status) return;
    if (exchanges(s)) {
        const kiln_expr_node *from = kiln_expr_get(v->p, s->value);
        REQUIRE(v,
                from->op == KILN_EXPR_LOAD && from->payload.id != s->buffer &&
                    kiln_scopes[v->p->buffer.data[from->payload.id].scope].seen_by ==
                        KILN_SEEN_BY_THREAD,
                "only an element of another buffer of the thread can be exchanged");
    }
    if (s->kind == KILN_STMT_COPY) {
        const kiln_expr_node *from = kiln_expr_get(v->p, s->value);
        REQUIRE(v, s->token < KILN_COPY_TOKENS_MAX, "token %u is too large", s->token);
        REQUIRE(v, from->op == KILN_EXPR_LOAD && from->payload.id != s->buffer,
                "the source is no element of another buffer");
    }
    v->is_written[s->buffer] = true;
}

static void verify_if(verifier *v, kiln_stmt stmt) {
    bool was_guarded = v->guarded;
    v->place = KILN_STR("if");
    verify_root_expr(v, v->p->stmt.data[stmt].condition, KILN_BOOL, "the condition");
    v->guarded = true;
    verify_children(v, stmt);
    v->guarded = was_guarded;
}

static void verify_alloc(verifier *v, kiln_stmt stmt) {
    kiln_buffer buffer = v->p->stmt.data[stmt].buffer;
    v->place = KILN_STR("alloc");
    REQUIRE(v, buffer > 0 && buffer < v->p->buffer.count, "no buffer is allocated");
    REQUIRE(v, v->p->buffer.data[buffer].role == KILN_ROLE_TEMP, "an argument is allocated");
    REQUIRE(v, v->is_away[buffer], "%.*s is allocated inside its own alloc",
            KILN_STR_ARG(v->p->buffer.data[buffer].name));
    v->is_away[buffer] = v->is_written[buffer] = false;
    verify_children(v, stmt);
    v->is_away[buffer] = true;
}

static void verify_attributes(verifier *v, const kiln_stmt_info *s) {
    for (uint32_t i = 0; i < s->attribute.count; i++) {
        const kiln_attribute *a = &s->attribute.data[i];
        uint32_t rows = a->id == KILN_ATTRIBUTE_PREFETCH    ? v->p->buffer.count
                        : a->id == KILN_ATTRIBUTE_TENSORIZE ? KILN_INTRINSIC_COUNT
                        : a->id == KILN_ATTRIBUTE_UNIT      ? KILN_UNIT_COUNT
                        : a->id == KILN_ATTRIBUTE_PRODUCER  ? KILN_UNIT_COUNT
                        : a->id == KILN_ATTRIBUTE_BOX       ? KILN_UNIT_COUNT
                        : a->id == KILN_ATTRIBUTE_PIPELINE  ? KILN_PIPELINE_STAGES_MAX + 1
                        : a->id == KILN_ATTRIBUTE_RESIDENT  ? KILN_RESIDENT_GROUPS_MAX + 1
                        : a->id == KILN_ATTRIBUTE_ASYNC     ? KILN_COPY_TOKENS_MAX
                        : a->id == KILN_ATTRIBUTE_EXCHANGE  ? KILN_WARP_LANES
                                                            : UINT32_MAX;
        REQUIRE(v, a->id < KILN_ATTRIBUTE_COUNT && a->row < rows, "an attribute has no value");
        REQUIRE(v, a->id != KILN_ATTRIBUTE_EXCHANGE || s->kind == KILN_STMT_STORE,
                "only stores exchange values");
    }
}

static void verify_stmt(verifier *v, kiln_stmt stmt) {
    const kiln_stmt_info *s = &v->p->stmt.data[stmt];
    bool has_body =
        s->kind == KILN_STMT_FOR || s->kind == KILN_STMT_IF || s->kind == KILN_STMT_ALLOC;
    bool is_leaf = !has_body && s->kind != KILN_STMT_SEQ;
    REQUIRE(v, ++v->visited < v->p->stmt.count, "the statement tree is not a tree");
    REQUIRE(v, !is_leaf || s->child.count == 0, "a statement without body has children");
    verify_attributes(v, s);
    if (v->status) return;
    REQUIRE(v, !has_body || s->child.count == 1, "a loop, if or alloc does not have one body");
    switch ((kiln_stmt_kind)s->kind) {
    case KILN_STMT_SEQ: verify_children(v, stmt); return;
    case KILN_STMT_FOR: verify_for(v, stmt); return;
    case KILN_STMT_BLOCK: verify_placement(v, s); return;
    case KILN_STMT_IF: verify_if(v, stmt); return;
    case KILN_STMT_ALLOC: verify_alloc(v, stmt); return;
    case KILN_STMT_STORE:
    case KILN_STMT_COPY: verify_store(v, s); return;
    case KILN_STMT_BARRIER: return; /* kiln_device_check checks its place */
    case KILN_STMT_COMMIT:
    case KILN_STMT_WAIT:
        REQUIRE(v, s->token < KILN_COPY_TOKENS_MAX, "token %u is too large", s->token);
        return;
    case KILN_STMT_TOKEN_PUSH:
    case KILN_STMT_TOKEN_POP:
        REQUIRE(v, s->from < KILN_UNIT_COUNT && s->to < KILN_UNIT_COUNT, "there is no such unit");
        REQUIRE(v, kiln_token_queue_exists((kiln_unit)s->from, (kiln_unit)s->to),
                "there is no queue of tokens from %s to %s", kiln_unit_word[s->from],
                kiln_unit_word[s->to]);
        v->place = KILN_STR("token");
        if (!v->status && s->value) verify_root_expr(v, s->value, KILN_INDEX_DTYPE, "the number");
        return;
    case KILN_STMT_KIND_COUNT: break;
    }
    FAIL(v, "statement %u has no kind", stmt);
}

/* A temp that has ALLOCs lives only in them. */
static void find_allocs(verifier *v) {
    for (kiln_stmt s = 1; s < v->p->stmt.count; s++) {
        const kiln_stmt_info *info = &v->p->stmt.data[s];
        if (info->kind == KILN_STMT_ALLOC && info->buffer < v->p->buffer.count &&
            kiln_stmt_is_inside(v->p, s, v->p->root))
            v->is_away[info->buffer] = true;
    }
}

static void verify_tree(verifier *v) {
    v->place = KILN_STR("loops");
    find_allocs(v);
    REQUIRE(v, v->p->root < v->p->stmt.count, "the root is missing");
    REQUIRE(v, v->p->stmt.data[v->p->root].parent == 0, "the root has a parent");
    verify_stmt(v, v->p->root);
    if (v->status) return;
    v->place = KILN_STR("loops");
    kiln_status wrong = kiln_device_check(v->p);
    if (wrong) FAIL(v, "%s", kiln_status_text(wrong));
    kiln_status_free(wrong); /* its text is part of the new status */
    if (v->status) return;
    REQUIRE(v, !(v->has_blocks && v->has_stores), "blocks and stores are mixed");
    if (v->has_stores) return;
    for (kiln_block b = 1; b < v->p->block.count; b++) {
        v->place = v->p->block.data[b].name;
        REQUIRE(v, v->p->block.data[b].removed || v->placed[b], "the block is placed nowhere");
    }
}

static void verify_te(verifier *v) {
    for (kiln_block b = 1; b < v->p->block.count && !v->status; b++) {
        const kiln_block_info *info = &v->p->block.data[b];
        if (info->removed) continue;
        verify_block(v, b);
        if (!v->status) v->is_written[info->buffer] = true;
    }
}

kiln_status kiln_program_verify(const kiln_program *p) {
    verifier v = {.p = p, .place = p->name};
    v.in_scope = kiln_alloc(p->var.count);
    v.range = kiln_alloc(sizeof *v.range * p->var.count);
    v.seen = kiln_alloc(sizeof *v.seen * p->expr.count);
    v.is_written = kiln_alloc(p->buffer.count);
    v.is_away = kiln_alloc(p->buffer.count);
    v.placed = kiln_alloc(sizeof *v.placed * p->block.count);

    for (kiln_expr e = 1; e < p->expr.count && !v.status; e++) verify_expr_node(&v, e);
    for (kiln_buffer b = 1; b < p->buffer.count && !v.status; b++) {
        kiln_role role = p->buffer.data[b].role;
        v.is_written[b] =
            role == KILN_ROLE_INPUT || role == KILN_ROLE_CONSTANT || role == KILN_ROLE_PACKED;
        verify_buffer(&v, b);
    }
    if (!v.status) {
        if (p->root) {
            verify_tree(&v);
        } else {
            verify_te(&v);
        }
    }
    kiln_free(v.in_scope);
    kiln_free(v.range);
    kiln_free(v.seen);
    kiln_free(v.is_written);
    kiln_free(v.is_away);
    kiln_free(v.placed);
    return v.status;
}
