/* The program's tables: creation, copying, variables, buffers, blocks. Statements are in stmt.c. */
#include "compiler-core/ir/ir.h"

#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/hash.h"
#include "compiler-core/ir/zeros.h"

kiln_program *kiln_program_create(kiln_arena *arena, kiln_str name) {
    kiln_program *p = KILN_ARENA_NEW(arena, kiln_program);
    p->arena = arena;
    p->name = kiln_str_copy(arena, name);
    kiln_vec_push_in(arena, &p->expr, (kiln_expr_node){0});
    kiln_vec_push_in(arena, &p->var, (kiln_var_info){0});
    kiln_vec_push_in(arena, &p->buffer, (kiln_buffer_info){0});
    kiln_vec_push_in(arena, &p->block, (kiln_block_info){0});
    kiln_vec_push_in(arena, &p->stmt, (kiln_stmt_info){0});
    p->args = KILN_ARENA_NEW(arena, struct kiln_arg_list);
    return p;
}

/* ---- copying --------------------------------------------------------------------- */

#define COPY_VEC(arena, v)                                                                    \
    do {                                                                                      \
        (v)->data = (v)->count                                                                \
                        ? kiln_arena_copy((arena), (v)->data, (v)->count * sizeof *(v)->data) \
                        : NULL;                                                               \
        (v)->capacity = (v)->count;                                                           \
    } while (0)

kiln_program *kiln_program_copy(const kiln_program *program, kiln_arena *arena) {
    kiln_program *p = kiln_arena_copy(arena, program, sizeof *program);
    p->arena = arena;
    p->name = kiln_str_copy(arena, program->name);
    COPY_VEC(arena, &p->expr);
    COPY_VEC(arena, &p->operand);
    COPY_VEC(arena, &p->expr_slot);
    COPY_VEC(arena, &p->var);
    COPY_VEC(arena, &p->var_slot);
    COPY_VEC(arena, &p->buffer);
    COPY_VEC(arena, &p->block);
    COPY_VEC(arena, &p->stmt);
    for (uint32_t i = 1; i < p->var.count; i++)
        p->var.data[i].name = kiln_str_copy(arena, p->var.data[i].name);
    for (uint32_t i = 1; i < p->buffer.count; i++)
        p->buffer.data[i].name = kiln_str_copy(arena, p->buffer.data[i].name);
    for (uint32_t i = 1; i < p->block.count; i++)
        p->block.data[i].name = kiln_str_copy(arena, p->block.data[i].name);
    for (uint32_t i = 1; i < p->stmt.count; i++) {
        kiln_stmt_info *s = &p->stmt.data[i];
        COPY_VEC(arena, &s->child);
        COPY_VEC(arena, &s->attribute);
        for (uint32_t k = 0; k < s->attribute.count; k++)
            s->attribute.data[k].text = kiln_str_copy(arena, s->attribute.data[k].text);
    }
    memset(p->memo, 0, sizeof p->memo);
    p->memo_depth = 0;
    p->simplified = (kiln_expr_memo){0};
    memset(&p->loads, 0, sizeof p->loads);
    p->args = KILN_ARENA_NEW(arena, struct kiln_arg_list);
    return p;
}

/* ---- names of variables ---------------------------------------------------------- */

/* The place of the variable of that name in the table, or the free place where it belongs. The
 * place of a retired name stays taken: its variable has another name now, so no name matches it. */
static uint32_t var_place(const kiln_program *p, kiln_str name) {
    uint32_t mask = p->var_slot.count - 1;
    uint32_t at = (uint32_t)kiln_hash64(name.data, name.size, 0) & mask;
    while (p->var_slot.data[at] && !kiln_str_equal(p->var.data[p->var_slot.data[at]].name, name))
        at = (at + 1) & mask;
    return at;
}

static kiln_var find_var(const kiln_program *p, kiln_str name) {
    return p->var_slot.count ? p->var_slot.data[var_place(p, name)] : 0;
}

void kiln_vars_enter_all(kiln_program *p) {
    for (uint32_t i = 0; i < p->var_slot.count; i++) p->var_slot.data[i] = 0;
    for (kiln_var v = 1; v < p->var.count && p->var_slot.count; v++)
        p->var_slot.data[var_place(p, p->var.data[v].name)] = v;
}

/* A variable takes two places at most: that of its name and that of the one it had. */
static void enter_var(kiln_program *p, kiln_var var) {
    if (p->var.count * 4 > p->var_slot.count) {
        uint32_t count = p->var_slot.count ? p->var_slot.count * 2 : 256;
        p->var_slot.data = KILN_ARENA_ARRAY(p->arena, uint32_t, count);
        p->var_slot.count = p->var_slot.capacity = count;
        kiln_vars_enter_all(p);
    }
    p->var_slot.data[var_place(p, p->var.data[var].name)] = var;
}

/* name'suffix. Written by hand: lowering makes hundreds of them for a candidate. */
static kiln_str with_suffix(kiln_arena *arena, kiln_str name, uint32_t suffix) {
    enum { DIGITS = 10 };
    char *text = kiln_arena_alloc(arena, name.size + 1 + DIGITS + 1);
    size_t digits = 1, size = name.size;
    for (uint32_t rest = suffix; rest >= 10; rest /= 10) digits++;
    memcpy(text, name.data, name.size);
    text[size++] = '\'';
    for (size_t at = size + digits; at > size; suffix /= 10) text[--at] = (char)('0' + suffix % 10);
    return (kiln_str){text, size + digits};
}

/* A copy of `name`, or of `name` with the first of the suffixes '2, '3, ... that makes it new. */
static kiln_str unique_var_name(kiln_program *p, kiln_str name) {
    kiln_var taken = find_var(p, name);
    if (!taken) return kiln_str_copy(p->arena, name);
    for (uint32_t suffix = KILN_MAX(p->var.data[taken].suffix_free, 2);; suffix++) {
        kiln_str tried = with_suffix(p->arena, name, suffix);
        if (find_var(p, tried)) continue;
        p->var.data[taken].suffix_free = suffix + 1;
        return tried;
    }
}

kiln_var kiln_var_create(kiln_program *p, kiln_str name, int64_t low, int64_t high) {
    kiln_var_info info = {.name = unique_var_name(p, name), .low = low, .high = high};
    kiln_vec_push_in(p->arena, &p->var, info);
    enter_var(p, p->var.count - 1);
    return p->var.count - 1;
}

void kiln_var_retire(kiln_program *p, kiln_var var) {
    kiln_var_info *info = &p->var.data[var];
    size_t end = info->name.size;
    while (end > 0 && info->name.data[end - 1] != '\'') end--;
    kiln_var plain = end > 0 ? find_var(p, kiln_str_slice(info->name, 0, end - 1)) : 0;
    if (plain) p->var.data[plain].suffix_free = 0; /* this suffix is free again */
    info->name = kiln_str_printf(p->arena, "~%u", var);
    info->suffix_free = 0;
    enter_var(p, var);
}

/* ---- names of buffers and blocks -------------------------------------------------- */

typedef bool (*name_taken)(const kiln_program *p, kiln_str name);

static bool buffer_taken(const kiln_program *p, kiln_str name) {
    return kiln_program_find_buffer(p, name) != 0;
}
static bool block_taken(const kiln_program *p, kiln_str name) {
    return kiln_program_find_block(p, name) != 0;
}

/* A copy of `name`, with the suffix '2, '3, ... that makes it new. */
static kiln_str unique_name(kiln_program *p, kiln_str name, name_taken taken) {
    if (!taken(p, name)) return kiln_str_copy(p->arena, name);
    for (uint32_t suffix = 2;; suffix++) {
        kiln_str tried = kiln_str_printf(p->arena, "%.*s'%u", KILN_STR_ARG(name), suffix);
        if (!taken(p, tried)) return tried;
    }
}

kiln_buffer kiln_program_find_buffer(const kiln_program *p, kiln_str name) {
    for (uint32_t i = 1; i < p->buffer.count; i++)
        if (kiln_str_equal(p->buffer.data[i].name, name)) return i;
    return 0;
}

kiln_block kiln_program_find_block(const kiln_program *p, kiln_str name) {
    for (uint32_t i = 1; i < p->block.count; i++)
        if (!p->block.data[i].removed && kiln_str_equal(p->block.data[i].name, name)) return i;
    return 0;
}

/* ---- variables, buffers, blocks -------------------------------------------------- */

void kiln_var_set_range(kiln_program *p, kiln_var var, int64_t low, int64_t high) {
    kiln_var_info *info = &p->var.data[var];
    if (info->low != low || info->high != high) p->simplified.epoch++;
    info->low = low;
    info->high = high;
}

kiln_buffer kiln_buffer_create(kiln_program *p, kiln_str name, kiln_dtype dtype, kiln_role role,
                               const kiln_shape *shape) {
    kiln_buffer_info info = {
        .name = unique_name(p, name, buffer_taken),
        .dtype = dtype,
        .role = role,
        .scope = KILN_SCOPE_GLOBAL,
        .shape = *shape,
        .fill = KILN_FILL_UNIFORM,
    };
    kiln_vec_push_in(p->arena, &p->buffer, info);
    return p->buffer.count - 1;
}

kiln_block kiln_block_create(kiln_program *p, kiln_str name) {
    kiln_block_info info = {.name = unique_name(p, name, block_taken)};
    kiln_vec_push_in(p->arena, &p->block, info);
    return p->block.count - 1;
}

kiln_expr kiln_block_add_iter(kiln_program *p, kiln_block block, const char *name, int64_t extent,
                              bool reduce) {
    kiln_block_info *b = &p->block.data[block];
    KILN_CHECK(b->iter_count < KILN_BLOCK_ITERS_MAX);
    kiln_str full = kiln_str_printf(p->arena, "%.*s:%s", KILN_STR_ARG(b->name), name);
    kiln_var var = kiln_var_create(p, full, 0, extent > 0 ? extent - 1 : 0);
    b->iter[b->iter_count++] = (kiln_iter){.var = var, .extent = extent, .reduce = reduce};
    return kiln_expr_var(p, var);
}

kiln_str kiln_iter_name(const kiln_program *p, const kiln_iter *iter) {
    kiln_str name = p->var.data[iter->var].name;
    size_t colon = name.size;
    for (size_t i = 0; i < name.size; i++)
        if (name.data[i] == ':') colon = i;
    return colon == name.size ? name : kiln_str_slice(name, colon + 1, name.size);
}

kiln_var kiln_block_loop_var(kiln_program *p, kiln_block block, uint32_t iter, int64_t extent) {
    const kiln_block_info *b = &p->block.data[block];
    kiln_str short_name = kiln_iter_name(p, &b->iter[iter]);
    kiln_str name =
        kiln_str_printf(p->arena, "%.*s.%.*s", KILN_STR_ARG(b->name), KILN_STR_ARG(short_name));
    return kiln_var_create(p, name, 0, extent > 0 ? extent - 1 : 0);
}

void kiln_block_set(kiln_program *p, kiln_block block, kiln_buffer buffer, const kiln_expr *index,
                    uint32_t index_count, kiln_combiner combiner, kiln_expr value, kiln_expr init) {
    KILN_CHECK(index_count == p->buffer.data[buffer].shape.rank);
    kiln_dtype dtype = p->buffer.data[buffer].dtype;
    KILN_CHECK(kiln_expr_get(p, value)->dtype == dtype);
    if (combiner != KILN_COMBINE_NONE && !init) init = kiln_expr_identity(p, combiner, dtype);
    KILN_CHECK(!init || kiln_expr_get(p, init)->dtype == dtype);

    kiln_block_info *b = &p->block.data[block];
    b->combiner = combiner;
    b->buffer = buffer;
    b->index_count = index_count;
    for (uint32_t i = 0; i < index_count; i++) b->index[i] = index[i];
    b->value = value;
    b->init = init;
}

kiln_block kiln_program_producer(const kiln_program *p, kiln_buffer buffer) {
    for (uint32_t i = 1; i < p->block.count; i++) {
        const kiln_block_info *b = &p->block.data[i];
        if (!b->removed && !b->init_of && b->buffer == buffer) return i;
    }
    return 0;
}

bool kiln_block_is_reduction(const kiln_program *p, kiln_block block) {
    return p->block.data[block].combiner != KILN_COMBINE_NONE;
}

/* ---- work ------------------------------------------------------------------------ */

static bool counts_as_work(const kiln_expr_node *node) {
    switch ((kiln_expr_op)node->op) {
    case KILN_EXPR_INT:
    case KILN_EXPR_FLOAT:
    case KILN_EXPR_VAR:
    case KILN_EXPR_LOAD:
    case KILN_EXPR_SELECT:
    case KILN_EXPR_CAST:
    case KILN_EXPR_TF32: return false;
    default: return true;
    }
}

/* Arithmetic of the value itself: indices and conditions are bookkeeping. */
static void count_work(const kiln_program *p, kiln_expr e, uint8_t *seen, uint32_t *count) {
    const kiln_expr_node *node = kiln_expr_get(p, e);
    if (seen[e]) return;
    seen[e] = 1;
    *count += counts_as_work(node);
    if (node->op == KILN_EXPR_LOAD) return;
    for (uint32_t i = node->op == KILN_EXPR_SELECT; i < node->operand_count; i++)
        count_work(p, kiln_expr_operand(p, e, i), seen, count);
}

static double flops_of(const kiln_program *p, kiln_block block) {
    const kiln_block_info *b = &p->block.data[block];
    if (b->removed || b->init_of) return 0;
    uint8_t *seen = kiln_alloc(p->expr.count);
    uint32_t per_point = b->combiner != KILN_COMBINE_NONE;
    count_work(p, b->value, seen, &per_point);
    kiln_free(seen);
    double flops = per_point;
    for (uint32_t k = 0; k < b->iter_count; k++) flops *= (double)b->iter[k].extent;
    return flops;
}

double kiln_program_flops_with_zeros(const kiln_program *p) {
    double total = 0;
    for (kiln_block b = 1; b < p->block.count; b++) total += flops_of(p, b);
    return total;
}

double kiln_program_flops(const kiln_program *p) {
    kiln_arena scratch;
    kiln_arena_init(&scratch, (size_t)1 << 16);
    kiln_program *copy = kiln_program_copy(p, &scratch);
    double total = 0;
    for (kiln_block b = 1; b < p->block.count; b++) {
        double flops = flops_of(p, b);
        if (flops > 0) total += flops * kiln_zeros_share_left(copy, b);
    }
    kiln_arena_deinit(&scratch);
    return total;
}
