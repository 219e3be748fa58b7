/* Primitives on buffers: cache_read, cache_write, set_scope, transform_layout, pad. */
#include "base/check.h"
#include "base/layout.h"
#include "compiler-core/ir/affine.h"
#include "compiler-core/ir/device.h"
#include "compiler-core/ir/zeros.h"
#include "compiler-core/sched/dependence.h"
#include "compiler-core/sched/prim_all.h"

static kiln_status parse_scope(kiln_str text, kiln_scope *out_scope) {
    if (kiln_scope_find(text, out_scope)) return NULL;
    return ILLEGAL("\"%.*s\" is not a memory scope", KILN_STR_ARG(text));
}

kiln_status kiln_prim_set_scope(kiln_program *p, const kiln_prim_args *args) {
    kiln_buffer_info *buffer = &p->buffer.data[args->buffer];
    kiln_scope scope;
    kiln_status st = parse_scope(args->text, &scope);
    if (st) return st;
    if (buffer->role != KILN_ROLE_TEMP && scope != KILN_SCOPE_GLOBAL)
        return ILLEGAL("%.*s is an argument; arguments are global", BUFFER_NAME(p, args->buffer));
    buffer->scope = scope;
    return NULL;
}

/* ---- copies ---- */

/* A temp like `buffer`. */
static kiln_buffer temp_like(kiln_program *p, kiln_buffer buffer, kiln_str name, kiln_scope scope) {
    kiln_shape shape = p->buffer.data[buffer].shape;
    kiln_buffer temp =
        kiln_buffer_create(p, name, p->buffer.data[buffer].dtype, KILN_ROLE_TEMP, &shape);
    p->buffer.data[temp].scope = scope;
    return temp;
}

/* Block `name`: to[i] = from[i] over the whole shape; iterators named after `like`'s where its
 * index is plain, else d0, d1, ... Returns its detached nest. */
static kiln_stmt copy_nest(kiln_program *p, kiln_str name, kiln_buffer from, kiln_buffer to,
                           kiln_block like, kiln_block *out_block) {
    kiln_block block = kiln_block_create(p, name);
    kiln_shape shape = p->buffer.data[from].shape;
    kiln_expr index[KILN_RANK_MAX];
    int64_t extent[KILN_BLOCK_ITERS_MAX];
    for (uint32_t d = 0; d < shape.rank; d++) {
        int i = like ? kiln_block_iter_of(p, like, p->block.data[like].index[d]) : -1;
        char *iter = i < 0
                         ? kiln_arena_printf(p->arena, "d%u", d)
                         : kiln_str_dup(p->arena, kiln_iter_name(p, &p->block.data[like].iter[i]));
        index[d] = kiln_block_add_iter(p, block, iter, shape.dim[d], false);
        extent[d] = shape.dim[d];
    }
    kiln_block_set(p, block, to, index, shape.rank, KILN_COMBINE_NONE,
                   kiln_expr_load(p, from, index, shape.rank), 0);
    *out_block = block;
    return kiln_block_make_nest(p, block, extent, NULL);
}

typedef struct redirection {
    kiln_buffer from, to;
} redirection;

static kiln_expr redirect_load(kiln_program *p, kiln_expr e, kiln_expr rebuilt, void *context) {
    const redirection *r = context;
    (void)e;
    const kiln_expr_node node = *kiln_expr_get(p, rebuilt);
    if (node.op != KILN_EXPR_LOAD || node.payload.id != r->from) return rebuilt;
    kiln_expr index[KILN_RANK_MAX];
    for (uint32_t d = 0; d < node.operand_count; d++) index[d] = kiln_expr_operand(p, rebuilt, d);
    return kiln_expr_load(p, r->to, index, node.operand_count);
}

/* The child of the root around the block. */
static kiln_stmt root_child(const kiln_program *p, kiln_block block) {
    return kiln_nest_child_towards(p, p->root, kiln_program_block_stmt(p, block));
}

static kiln_status check_root(const kiln_program *p) {
    KILN_CHECK(p->stmt.data[p->root].kind == KILN_STMT_SEQ);
    if (p->buffer.count + 1 >= KILN_PROGRAM_BUFFERS_MAX)
        return ILLEGAL("the program has too many buffers");
    return NULL;
}

kiln_status kiln_prim_cache_read(kiln_program *p, const kiln_prim_args *args) {
    kiln_scope scope;
    kiln_status st = parse_scope(args->text, &scope);
    if (!st) st = check_root(p);
    if (!st && !kiln_block_reads(p, args->block, args->buffer))
        st = ILLEGAL("%.*s does not read %.*s", BLOCK_NAME(p, args->block),
                     BUFFER_NAME(p, args->buffer));
    if (st) return st;

    kiln_str name = kiln_str_printf(p->arena, "%.*s.read", BUFFER_NAME(p, args->buffer));
    redirection r = {args->buffer, temp_like(p, args->buffer, name, scope)};
    kiln_block copy;
    kiln_stmt nest = copy_nest(p, name, args->buffer, r.to, 0, &copy);
    kiln_nest_insert(p, p->root, root_child(p, args->block), false, nest);
    kiln_block_info *b = &p->block.data[args->block];
    kiln_expr value = kiln_expr_rewrite(p, b->value, KILN_USES_LOAD, redirect_load, &r);
    kiln_expr init = b->init ? kiln_expr_rewrite(p, b->init, KILN_USES_LOAD, redirect_load, &r) : 0;
    b->value = value;
    b->init = init;
    return kiln_dependences_check(p, copy);
}

/* Blocks other than the copy that stay with the original buffer read it after the copy is made. */
kiln_status kiln_prim_cache_write(kiln_program *p, const kiln_prim_args *args) {
    kiln_block block = args->block;
    kiln_scope scope;
    kiln_status st = parse_scope(args->text, &scope);
    if (!st) st = check_root(p);
    if (!st && p->block.data[block].init_of)
        st = ILLEGAL("%.*s initialises a reduction", BLOCK_NAME(p, block));
    if (st) return st;

    kiln_buffer buffer = p->block.data[block].buffer;
    kiln_str temp_name = kiln_str_printf(p->arena, "%.*s.acc", BUFFER_NAME(p, buffer));
    kiln_str name = kiln_str_printf(p->arena, "%.*s.write", BLOCK_NAME(p, block));
    kiln_buffer temp = temp_like(p, buffer, temp_name, scope);
    kiln_block copy;
    kiln_stmt nest = copy_nest(p, name, temp, buffer, block, &copy);
    kiln_nest_insert(p, p->root, root_child(p, block), true, nest);
    p->block.data[block].buffer = temp;
    for (kiln_block b = 1; b < p->block.count; b++)
        if (p->block.data[b].init_of == block) p->block.data[b].buffer = temp;
    return kiln_dependences_check(p, copy);
}

/* ---- layout ---- */

/* Replaces {k} by the k-th integer. */
static kiln_status expand_layout(const kiln_prim_args *args, kiln_strbuf *out) {
    for (size_t i = 0; i < args->text.size; i++) {
        if (args->text.data[i] != '{') {
            kiln_strbuf_char(out, args->text.data[i]);
            continue;
        }
        kiln_str rest = kiln_str_slice(args->text, i + 1, args->text.size);
        size_t end = kiln_str_find_char(rest, '}');
        uint64_t which;
        if (end == rest.size || !kiln_str_to_u64(kiln_str_slice(rest, 0, end), &which) ||
            which >= args->integer_count)
            return ILLEGAL("layout \"%.*s\" names an integer that is not given",
                           KILN_STR_ARG(args->text));
        kiln_strbuf_printf(out, "%lld", (long long)args->integer[which]);
        i += end + 1;
    }
    return NULL;
}

/* The size of a buffer of this shape and layout must be within the limits of memory. */
static kiln_status check_size(const kiln_program *p, kiln_buffer buffer, const kiln_shape *shape,
                              const kiln_layout *layout) {
    kiln_shape physical = kiln_layout_physical(layout, shape);
    size_t bytes;
    kiln_status bad = kiln_shape_bytes(&physical, p->buffer.data[buffer].dtype, &bytes), st = NULL;
    if (bad)
        st = ILLEGAL("%.*s would be too large: %s", BUFFER_NAME(p, buffer), kiln_status_text(bad));
    kiln_status_free(bad); /* its text is part of the new one */
    return st;
}

static bool is_in_core(const kiln_program *p, kiln_buffer buffer) {
    return kiln_scopes[p->buffer.data[buffer].scope].seen_by == KILN_SEEN_BY_CORE;
}

/* The load that the block copies, with zeros around it or without; 0: it computes. */
static kiln_expr copied_by(const kiln_program *p, kiln_block block) {
    kiln_expr e = p->block.data[block].value;
    while (kiln_expr_get(p, e)->op == KILN_EXPR_SELECT &&
           kiln_expr_is_const(p, kiln_expr_operand(p, e, 2)))
        e = kiln_expr_operand(p, e, 1);
    return kiln_expr_get(p, e)->op == KILN_EXPR_LOAD ? e : 0;
}

/* Whether all readers of the buffer copy it into an accelerator's memory: no program could pack it
 * first, so the caller provides it packed. */
static bool goes_to_core(kiln_program *p, kiln_buffer buffer) {
    kiln_block *reader = KILN_ARENA_ARRAY(p->arena, kiln_block, p->block.count);
    const uint32_t count = kiln_buffer_readers(p, buffer, reader);
    bool all = count > 0;
    for (uint32_t i = 0; i < count; i++)
        all &= is_in_core(p, p->block.data[reader[i]].buffer) && copied_by(p, reader[i]);
    return all;
}

/* Whether only whole tiles move between the buffer and an accelerator's memory: then these contain
 * the elements that a layout pads an argument with. */
static bool has_whole_tiles(kiln_program *p, kiln_buffer buffer) {
    const kiln_block producer = kiln_program_producer(p, buffer);
    const kiln_expr from = producer ? copied_by(p, producer) : 0;
    return producer ? from && is_in_core(p, kiln_load_buffer(p, from)) : goes_to_core(p, buffer);
}

kiln_status kiln_prim_transform_layout(kiln_program *p, const kiln_prim_args *args) {
    kiln_buffer_info *buffer = &p->buffer.data[args->buffer];
    kiln_layout layout;
    kiln_strbuf text = {0};
    kiln_status st = expand_layout(args, &text);
    if (!st) {
        kiln_status bad = kiln_layout_parse(kiln_strbuf_view(&text), buffer->shape.rank, &layout);
        if (bad)
            st = ILLEGAL("%.*s cannot have this layout: %s", BUFFER_NAME(p, args->buffer),
                         kiln_status_text(bad));
        kiln_status_free(bad); /* its text is part of the new one */
    }
    kiln_strbuf_deinit(&text);
    if (st) return st;
    if (buffer->role == KILN_ROLE_CONSTANT && !goes_to_core(p, args->buffer))
        return ILLEGAL("%.*s is a constant; a copy made by cache_read can have a layout",
                       BUFFER_NAME(p, args->buffer));
    if (buffer->pinned)
        return ILLEGAL("the layout of %.*s is part of the task", BUFFER_NAME(p, args->buffer));
    st = check_size(p, args->buffer, &buffer->shape, &layout);
    if (st) return st;
    kiln_shape physical = kiln_layout_physical(&layout, &buffer->shape);
    if (buffer->role != KILN_ROLE_TEMP &&
        kiln_shape_count(&physical) != kiln_shape_count(&buffer->shape) &&
        !has_whole_tiles(p, args->buffer))
        return ILLEGAL("%.*s is an argument and this layout would pad it",
                       BUFFER_NAME(p, args->buffer));
    if (!kiln_layout_is_plain(&layout))
        return ILLEGAL("a layout has no pitch and no XOR; swizzle gives them to %.*s",
                       BUFFER_NAME(p, args->buffer));
    buffer->layout = layout;
    return NULL;
}

/* ---- swizzle ---- */

#define PITCH_MAX 1024
#define XOR_WAYS_MAX 64

static bool is_power_of_two(int64_t n) { return n > 0 && (n & (n - 1)) == 0; }

static kiln_status check_swizzle(const kiln_program *p, const kiln_prim_args *args) {
    const kiln_buffer_info *buffer = &p->buffer.data[args->buffer];
    const int64_t pitch = args->integer[0], unit = args->integer[1], ways = args->integer[2];
    if (buffer->role != KILN_ROLE_TEMP || buffer->scope != KILN_SCOPE_SHARED)
        return ILLEGAL("%.*s is no temp in the memory of a group", BUFFER_NAME(p, args->buffer));
    if (!kiln_layout_is_plain(&buffer->layout))
        return ILLEGAL("%.*s is swizzled already", BUFFER_NAME(p, args->buffer));
    if (pitch < 0 || pitch > PITCH_MAX)
        return ILLEGAL("a pitch of %lld; it is 0 to %d", (long long)pitch, PITCH_MAX);
    if (unit < 1 || args->integer[3] < 1)
        return ILLEGAL("units of %lld elements, every %lld rows", (long long)unit,
                       (long long)args->integer[3]);
    if (!is_power_of_two(ways) || ways > XOR_WAYS_MAX)
        return ILLEGAL("%lld ways; they are a power of two up to %d", (long long)ways,
                       XOR_WAYS_MAX);
    return NULL;
}

/* Splits the innermost piece into units that are XORed with the row, which is the piece before
 * it. */
static kiln_status add_xor(const kiln_prim_args *args, kiln_layout *layout) {
    const int64_t unit = args->integer[1], ways = args->integer[2], step = args->integer[3];
    const uint32_t count = layout->piece_count;
    if (count < 2) return ILLEGAL("a temp of one dimension has no rows");
    const kiln_layout_piece row = layout->piece[count - 2];
    kiln_layout_piece *last = &layout->piece[count - 1];
    if (row.dim == last->dim || row.modulus)
        return ILLEGAL("the two innermost dimensions in memory are no whole ones");
    if (last->modulus % (unit * ways) != 0)
        return ILLEGAL("%lld ways of units of %lld elements do not divide rows of %lld",
                       (long long)ways, (long long)unit, (long long)last->modulus);
    if (unit > 1 && count == KILN_RANK_MAX) return ILLEGAL("the layout has no room for units");
    last->divisor = unit;
    last->modulus /= unit;
    last->xor_dim = row.dim;
    last->xor_divisor = row.divisor * step;
    last->xor_modulus = ways;
    if (unit > 1)
        layout->piece[layout->piece_count++] =
            (kiln_layout_piece){.dim = last->dim, .divisor = 1, .modulus = unit};
    return NULL;
}

/* Accesses keep their logical indices; only addresses change. */
kiln_status kiln_prim_swizzle(kiln_program *p, const kiln_prim_args *args) {
    kiln_status st = check_swizzle(p, args);
    if (st) return st;
    kiln_buffer_info *buffer = &p->buffer.data[args->buffer];
    kiln_layout layout = buffer->layout;
    if (layout.piece_count == 0)
        for (; layout.piece_count < buffer->shape.rank; layout.piece_count++)
            layout.piece[layout.piece_count] =
                (kiln_layout_piece){.dim = layout.piece_count, .divisor = 1};
    if (layout.piece_count == 0)
        return ILLEGAL("%.*s is one element", BUFFER_NAME(p, args->buffer));
    if (args->integer[2] > 1) st = add_xor(args, &layout);
    if (!st) layout.piece[layout.piece_count - 1].pitch = args->integer[0];
    if (!st) st = check_size(p, args->buffer, &buffer->shape, &layout);
    if (!st && !kiln_layout_is_identity(&layout)) buffer->layout = layout;
    return kiln_status_note(st, "swizzling %.*s", BUFFER_NAME(p, args->buffer));
}

/* ---- pad ---- */

typedef struct padding {
    kiln_expr in_range; /* over the padded iterator */
    kiln_var var;
} padding;

/* Loads that the longer iterator would move out of their buffers give zero there. */
static kiln_expr guard_load(kiln_program *p, kiln_expr e, kiln_expr rebuilt, void *context) {
    const padding *pad = context;
    (void)e;
    const kiln_expr_node node = *kiln_expr_get(p, rebuilt);
    if (node.op != KILN_EXPR_LOAD) return rebuilt;
    for (uint32_t d = 0; d < node.operand_count; d++) {
        kiln_expr index = kiln_expr_operand(p, rebuilt, d);
        if (!kiln_expr_uses_var(p, index, pad->var)) continue;
        kiln_interval range = kiln_expr_bounds(p, index, NULL);
        if (range.low < 0 || range.high >= p->buffer.data[node.payload.id].shape.dim[d])
            return kiln_expr_select(p, pad->in_range, rebuilt,
                                    kiln_expr_zero(p, (kiln_dtype)node.dtype));
    }
    return rebuilt;
}

static kiln_status find_padded(kiln_program *p, const kiln_prim_args *args, uint32_t *out_iter,
                               uint32_t *out_dim, kiln_stmt *out_loop) {
    kiln_block block = args->block;
    const kiln_block_info *b = &p->block.data[block];
    int found = kiln_block_find_iter(p, block, args->text);
    if (found < 0)
        return ILLEGAL("%.*s has no iterator %.*s", BLOCK_NAME(p, block), KILN_STR_ARG(args->text));
    uint32_t i = (uint32_t)found;
    if (b->init_of || (kiln_block_is_reduction(p, block) && !b->init))
        return ILLEGAL("the reduction of %.*s has been decomposed", BLOCK_NAME(p, block));
    const bool reduces = b->iter[i].reduce;
    if (!reduces && p->buffer.data[b->buffer].role != KILN_ROLE_TEMP)
        return ILLEGAL("%.*s writes %.*s, which is an output", BLOCK_NAME(p, block),
                       BUFFER_NAME(p, b->buffer));
    uint32_t d = 0;
    while (d < b->index_count && kiln_block_iter_of(p, block, b->index[d]) != (int)i) d++;
    if (!reduces &&
        (d == b->index_count || p->buffer.data[b->buffer].shape.dim[d] != b->iter[i].extent))
        return ILLEGAL("%.*s does not run over a whole dimension of %.*s", KILN_STR_ARG(args->text),
                       BUFFER_NAME(p, b->buffer));
    kiln_stmt loop = kiln_block_own_loop(p, block, i);
    if (!loop) return ILLEGAL("%.*s no longer has a separate loop", KILN_STR_ARG(args->text));
    *out_iter = i;
    *out_dim = d;
    *out_loop = loop;
    return NULL;
}

/* A longer sum adds zeros. */
static kiln_status check_added(kiln_program *p, kiln_block block, uint32_t iter, int64_t extent) {
    const kiln_iter *at = &p->block.data[block].iter[iter];
    kiln_interval *range = KILN_ARENA_ARRAY(p->arena, kiln_interval, p->var.count);
    for (kiln_var v = 1; v < p->var.count; v++)
        range[v] = (kiln_interval){p->var.data[v].low, p->var.data[v].high};
    range[at->var] = (kiln_interval){at->extent, extent - 1};
    return kiln_zeros_added(p, block, range)
               ? NULL
               : ILLEGAL("%.*s would add more than products of a padding's zeros along %.*s",
                         BLOCK_NAME(p, block), KILN_STR_ARG(kiln_iter_name(p, at)));
}

kiln_status kiln_prim_pad(kiln_program *p, const kiln_prim_args *args) {
    uint32_t i = 0, d = 0;
    kiln_stmt loop = 0;
    kiln_status st = find_padded(p, args, &i, &d, &loop);
    if (st) return st;
    int64_t multiple = args->integer[0];
    if (multiple < 1 || multiple > INT64_C(1) << 20)
        return ILLEGAL("%lld is not a multiple to pad to", (long long)multiple);
    if (kiln_nest_block_count(p, loop) != 1)
        return ILLEGAL("other blocks share loop %.*s", LOOP_NAME(p, loop));
    const bool reduces = p->block.data[args->block].iter[i].reduce;
    if (!reduces && p->buffer.data[p->block.data[args->block].buffer].layout.piece_count > 0)
        return ILLEGAL("%.*s has a layout already; pad first",
                       BUFFER_NAME(p, p->block.data[args->block].buffer));

    kiln_block_info *b = &p->block.data[args->block];
    int64_t old = b->iter[i].extent;
    int64_t extent = (old + multiple - 1) / multiple * multiple;
    if (extent == old) return NULL;
    if (reduces) {
        st = check_added(p, args->block, i, extent);
        if (st) return st;
        b = &p->block.data[args->block];
    }
    kiln_shape padded = p->buffer.data[b->buffer].shape;
    if (!reduces) padded.dim[d] = extent;
    st = check_size(p, b->buffer, &padded, &p->buffer.data[b->buffer].layout);
    if (st) return st;
    kiln_var var = b->iter[i].var;
    b->iter[i].extent = extent;
    kiln_var_set_range(p, var, 0, extent - 1);
    kiln_var_set_range(p, p->stmt.data[loop].var, 0, extent - 1);
    p->stmt.data[loop].extent = extent;
    p->buffer.data[b->buffer].shape = padded;
    padding pad = {
        kiln_expr_binary(p, KILN_EXPR_LT, kiln_expr_var(p, var), kiln_expr_index(p, old)), var};
    kiln_expr value = kiln_expr_rewrite(p, b->value, KILN_USES_LOAD, guard_load, &pad);
    b = &p->block.data[args->block];
    b->value = value;
    if (b->init) b->init = kiln_expr_rewrite(p, b->init, KILN_USES_LOAD, guard_load, &pad);
    return kiln_dependences_check(p, args->block); /* with the longer iterator it may read more of
                                                    * other temps */
}

/* ---- prefetch ---- */

typedef struct reading {
    kiln_buffer buffer;
    bool found;
} reading;

static void find_reading(kiln_program *p, kiln_block block, void *context) {
    reading *r = context;
    r->found |= kiln_block_reads(p, block, r->buffer);
}

kiln_status kiln_prim_prefetch(kiln_program *p, const kiln_prim_args *args) {
    kiln_stmt loop = args->loop[0];
    const kiln_buffer_info *buffer = &p->buffer.data[args->buffer];
    reading r = {.buffer = args->buffer};
    if (args->integer[0] != 0 && args->integer[0] != 1)
        return ILLEGAL("%lld is neither 0 nor 1", (long long)args->integer[0]);
    if (p->stmt.data[loop].loop_kind != KILN_LOOP_SERIAL)
        return ILLEGAL("the iterations of %.*s do not follow one another", LOOP_NAME(p, loop));
    if (buffer->scope != KILN_SCOPE_GLOBAL)
        return ILLEGAL("%.*s is not in memory", BUFFER_NAME(p, args->buffer));
    kiln_nest_visit_blocks(p, loop, find_reading, &r);
    if (!r.found)
        return ILLEGAL("nothing inside %.*s reads %.*s", LOOP_NAME(p, loop),
                       BUFFER_NAME(p, args->buffer));
    if (args->integer[0] == 0) return NULL;
    kiln_stmt_set_attribute(p, loop,
                            (kiln_attribute){.id = KILN_ATTRIBUTE_PREFETCH, .row = args->buffer});
    return NULL;
}

/* ---- pipeline ---- */

/* Blocks of the loop that fill a temp again in each iteration, from buffers that the loop does not
 * write. */
typedef struct fetching {
    kiln_stmt loop;
    bool *made; /* [buffer count] by the loop */
    uint32_t fetches;
} fetching;

static void note_made(kiln_program *p, kiln_block block, void *context) {
    ((fetching *)context)->made[p->block.data[block].buffer] = true;
}

static bool is_fetched(const kiln_program *p, kiln_buffer buffer) {
    const kiln_buffer_info *b = &p->buffer.data[buffer];
    return b->role == KILN_ROLE_TEMP &&
           (b->scope == KILN_SCOPE_SHARED || b->scope == KILN_SCOPE_GLOBAL ||
            kiln_scopes[b->scope].seen_by == KILN_SEEN_BY_CORE);
}

static void count_fetch(kiln_program *p, kiln_block block, void *context) {
    fetching *f = context;
    const kiln_block_info *b = &p->block.data[block];
    if (b->combiner != KILN_COMBINE_NONE || b->init_of || !is_fetched(p, b->buffer)) return;
    kiln_loads loads = kiln_block_loads(p, block);
    for (uint32_t i = 0; i < loads.count; i++)
        if (f->made[kiln_load_buffer(p, loads.load[i])]) return;
    for (kiln_block reader = 1; reader < p->block.count; reader++)
        if (!p->block.data[reader].removed && kiln_block_reads(p, reader, b->buffer) &&
            !kiln_stmt_is_inside(p, kiln_program_block_stmt(p, reader), f->loop))
            return;
    f->fetches += loads.count > 0;
}

kiln_status kiln_prim_pipeline(kiln_program *p, const kiln_prim_args *args) {
    kiln_stmt loop = args->loop[0];
    const int64_t stages = args->integer[0];
    fetching f = {.loop = loop, .made = KILN_ARENA_ARRAY(p->arena, bool, p->buffer.count)};
    if (stages < 1 || stages > KILN_PIPELINE_STAGES_MAX)
        return ILLEGAL("%lld stages; a pipeline has 1 to %d", (long long)stages,
                       KILN_PIPELINE_STAGES_MAX);
    if (p->stmt.data[loop].loop_kind != KILN_LOOP_SERIAL)
        return ILLEGAL("the iterations of %.*s do not follow one another", LOOP_NAME(p, loop));
    if (kiln_stmt_attribute(p, loop, KILN_ATTRIBUTE_PIPELINE))
        return ILLEGAL("%.*s is a pipeline already", LOOP_NAME(p, loop));
    kiln_nest_visit_blocks(p, loop, note_made, &f);
    kiln_nest_visit_blocks(p, loop, count_fetch, &f);
    if (f.fetches == 0)
        return ILLEGAL("nothing inside %.*s copies into memory that its own iteration reads",
                       LOOP_NAME(p, loop));
    if (stages > 1)
        kiln_stmt_set_attribute(
            p, loop, (kiln_attribute){.id = KILN_ATTRIBUTE_PIPELINE, .row = (uint32_t)stages});
    return NULL;
}

/* ---- producer ---- */

/* The producer's threads are determined with those of the launch: lower/producer.c. */
kiln_status kiln_prim_producer(kiln_program *p, const kiln_prim_args *args) {
    const kiln_stmt loop = args->loop[0];
    const kiln_attribute producer = {.id = KILN_ATTRIBUTE_PRODUCER, .row = KILN_UNIT_LOAD},
                         box = {.id = KILN_ATTRIBUTE_BOX, .row = KILN_UNIT_LOAD};
    if (args->integer[0] < 0 || args->integer[0] > 2)
        return ILLEGAL("%lld is not 0, 1 or 2", (long long)args->integer[0]);
    if (args->integer[0] == 0) return NULL;
    if (!kiln_stmt_attribute(p, loop, KILN_ATTRIBUTE_PIPELINE))
        return ILLEGAL("%.*s is no pipeline", LOOP_NAME(p, loop));
    if (kiln_stmt_attribute(p, loop, KILN_ATTRIBUTE_PRODUCER))
        return ILLEGAL("%.*s has a producer already", LOOP_NAME(p, loop));
    kiln_stmt_set_attribute(p, loop, producer);
    if (args->integer[0] == 2) kiln_stmt_set_attribute(p, loop, box);
    return NULL;
}

/* ---- resident ---- */

kiln_status kiln_prim_resident(kiln_program *p, const kiln_prim_args *args) {
    kiln_stmt loop = args->loop[0];
    const int64_t groups = args->integer[0];
    if (groups < 0 || groups > KILN_RESIDENT_GROUPS_MAX)
        return ILLEGAL("%lld groups on a unit; a schedule asks for 0 to %d", (long long)groups,
                       KILN_RESIDENT_GROUPS_MAX);
    if (kiln_stmt_level(p, loop) != KILN_LEVEL_GRID)
        return ILLEGAL("%.*s does not run over the groups of a launch", LOOP_NAME(p, loop));
    if (kiln_stmt_attribute(p, loop, KILN_ATTRIBUTE_RESIDENT))
        return ILLEGAL("%.*s has its number of groups already", LOOP_NAME(p, loop));
    if (groups > 0)
        kiln_stmt_set_attribute(
            p, loop, (kiln_attribute){.id = KILN_ATTRIBUTE_RESIDENT, .row = (uint32_t)groups});
    return NULL;
}
