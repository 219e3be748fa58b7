/* Loop and lowered programs, executed serially and watched by shadow memory.
 *
 * Concurrency. Every loop whose iterations may run at once (parallel, vectorize, bind, vthread)
 * gets an instance number each time it starts. An element remembers, for each depth of such loops,
 * which instance and iteration touched it last. Two accesses can race exactly if they agree on the
 * instance at some depth and differ in the iteration there; a different instance means that one
 * loop ended before the other began.
 *
 * Lifetimes. A temp lives during its ALLOC, or, where there is none yet, during the smallest
 * statement that contains all its accesses: that is where lowering will allocate it. It starts
 * uninitialised each time, and iterations of loops around that place have a copy each. */
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "compiler-core/ir/eval.h"
#include "compiler-core/ir/interp.h"

/* What is remembered of an element at one depth. */
typedef struct touch {
    uint32_t instance;  /* 0: none */
    uint32_t iteration; /* the last one */
    uint32_t mixed;     /* whether several iterations touched it */
} touch;

typedef struct shadow {
    kiln_tensor tensor;
    kiln_stmt
        home; /* starts a new life when it is executed; 0: one life, or those that ALLOCs start */
    uint32_t home_depth;  /* concurrent loops around the home, this life */
    uint32_t life;        /* number of the life, from 1 */
    uint32_t *written_in; /* [element]: the life in which it was written; 0 never */
    touch *touched;       /* [element][depth][read, write] */
    bool is_given;        /* filled by the caller */
    bool is_away;         /* has ALLOCs, and none of them is being executed */
} shadow;

typedef struct level {
    kiln_stmt loop;
    uint32_t instance, iteration;
} level;

typedef struct execution {
    kiln_interp in;
    shadow buffer[KILN_PROGRAM_BUFFERS_MAX];
    uint32_t depth_max;
    level *level; /* [depth_max] */
    uint32_t depth;
    uint32_t instances;
    kiln_stmt stmt; /* being executed */
    bool *is_home;  /* [stmt count] */
} execution;

static bool is_concurrent(const kiln_stmt_info *s) {
    return s->kind == KILN_STMT_FOR && s->loop_kind != KILN_LOOP_SERIAL &&
           s->loop_kind != KILN_LOOP_UNROLL;
}

/* ---- findings -------------------------------------------------------------------- */

static kiln_status finding(const execution *ex, kiln_buffer buffer, const int64_t *index,
                           const char *what) {
    const kiln_program *p = ex->in.p;
    const kiln_stmt_info *s = &p->stmt.data[ex->stmt];
    const kiln_buffer_info *b = &p->buffer.data[buffer];
    kiln_strbuf text = {0};
    kiln_strbuf_str(&text, b->name);
    kiln_interp_print_index(index, b->shape.rank, &text);
    kiln_strbuf_printf(&text, " %s", what);
    if (s->kind == KILN_STMT_BLOCK)
        kiln_strbuf_printf(&text, ", block %.*s", KILN_STR_ARG(p->block.data[s->block].name));
    for (kiln_stmt at = s->parent; at; at = p->stmt.data[at].parent) {
        if (p->stmt.data[at].kind != KILN_STMT_FOR) continue;
        kiln_var var = p->stmt.data[at].var;
        kiln_strbuf_printf(&text, ", %.*s=%lld", KILN_STR_ARG(p->var.data[var].name),
                           (long long)ex->in.var[var]);
    }
    kiln_status st = KILN_ERROR(FAILED_PRECONDITION, "%s", text.data);
    kiln_strbuf_deinit(&text);
    return st;
}

static kiln_status race(const execution *ex, kiln_buffer buffer, const int64_t *index,
                        uint32_t depth, bool is_write) {
    kiln_strbuf text = {0};
    kiln_var var = ex->in.p->stmt.data[ex->level[depth].loop].var;
    kiln_strbuf_printf(&text, "is %s in several iterations of concurrent loop %.*s",
                       is_write ? "written and touched" : "read and written",
                       KILN_STR_ARG(ex->in.p->var.data[var].name));
    kiln_status st = finding(ex, buffer, index, text.data);
    kiln_strbuf_deinit(&text);
    return st;
}

/* ---- accesses -------------------------------------------------------------------- */

static bool conflicts(const touch *t, const level *now) {
    return t->instance == now->instance && (t->mixed || t->iteration != now->iteration);
}

static void remember(touch *t, const level *now) {
    t->mixed = t->instance == now->instance && (t->mixed || t->iteration != now->iteration);
    t->instance = now->instance;
    t->iteration = now->iteration;
}

/* Checks and remembers one access. */
static kiln_status touch_element(execution *ex, kiln_buffer buffer, const int64_t *index,
                                 int64_t offset, bool is_write) {
    shadow *sh = &ex->buffer[buffer];
    for (uint32_t d = sh->home_depth; d < ex->depth; d++) {
        touch *reads = &sh->touched[((size_t)offset * ex->depth_max + d) * 2];
        touch *writes = reads + 1;
        if (conflicts(writes, &ex->level[d]) || (is_write && conflicts(reads, &ex->level[d])))
            return race(ex, buffer, index, d, is_write);
        remember(is_write ? writes : reads, &ex->level[d]);
    }
    return KILN_OK;
}

static kiln_status load_element(kiln_interp *in, kiln_buffer buffer, const int64_t *index,
                                kiln_scalar *out_value) {
    execution *ex = in->context;
    shadow *sh = &ex->buffer[buffer];
    int64_t offset = kiln_interp_offset(&sh->tensor.shape, index);
    if (offset < 0) return finding(ex, buffer, index, "is read and lies outside");
    if (sh->is_away) return finding(ex, buffer, index, "is read outside of its alloc");
    if (!sh->is_given && sh->written_in[offset] != sh->life)
        return finding(ex, buffer, index, "is read and was never written");
    kiln_status st = touch_element(ex, buffer, index, offset, false);
    *out_value = kiln_scalar_load(sh->tensor.dtype, sh->tensor.data, (size_t)offset);
    return st;
}

static kiln_status store_element(execution *ex, kiln_buffer buffer, const int64_t *index,
                                 kiln_scalar value) {
    shadow *sh = &ex->buffer[buffer];
    int64_t offset = kiln_interp_offset(&sh->tensor.shape, index);
    if (offset < 0) return finding(ex, buffer, index, "is written and lies outside");
    if (sh->is_away) return finding(ex, buffer, index, "is written outside of its alloc");
    kiln_status st = touch_element(ex, buffer, index, offset, true);
    if (st) return st;
    sh->written_in[offset] = sh->life;
    kiln_scalar_store(sh->tensor.dtype, sh->tensor.data, (size_t)offset, value);
    return KILN_OK;
}

/* ---- statements ------------------------------------------------------------------ */

static kiln_status execute(execution *ex, kiln_stmt stmt);

static kiln_status take_status(execution *ex) {
    kiln_status st = ex->in.status;
    ex->in.status = NULL;
    return st;
}

static void eval_index(execution *ex, const kiln_expr *index, uint32_t count, int64_t *out) {
    for (uint32_t i = 0; i < count; i++) out[i] = kiln_interp_eval(&ex->in, index[i]).i;
}

/* Sets the block's iterators; `*out_first` says that all reduce iterators are 0. */
static kiln_status bind_iters(execution *ex, const kiln_block_info *b, bool *out_first) {
    *out_first = true;
    for (uint32_t i = 0; i < b->iter_count; i++) {
        const kiln_iter *iter = &b->iter[i];
        int64_t value = kiln_interp_eval(&ex->in, iter->binding).i;
        if (value < 0 || value >= iter->extent)
            return KILN_ERROR(
                FAILED_PRECONDITION, "block %.*s runs at %.*s = %lld, outside its domain of %lld",
                KILN_STR_ARG(b->name), KILN_STR_ARG(ex->in.p->var.data[iter->var].name),
                (long long)value, (long long)iter->extent);
        ex->in.var[iter->var] = value;
        if (iter->reduce && value != 0) *out_first = false;
    }
    kiln_interp_moved(&ex->in);
    return KILN_OK;
}

static kiln_status execute_block(execution *ex, kiln_block block) {
    const kiln_block_info *b = &ex->in.p->block.data[block];
    int64_t index[KILN_RANK_MAX] = {0};
    bool first;
    kiln_interp_moved(&ex->in);
    if (b->predicate && !kiln_interp_eval(&ex->in, b->predicate).i) return take_status(ex);
    kiln_status st = bind_iters(ex, b, &first);
    if (st) return st;
    eval_index(ex, b->index, b->index_count, index);
    kiln_scalar value = kiln_interp_eval(&ex->in, b->value);
    if (b->combiner != KILN_COMBINE_NONE) {
        kiln_scalar sum = {.i = 0};
        if (first && b->init) {
            sum = kiln_interp_eval(&ex->in, b->init);
        } else if (!ex->in.status) {
            ex->in.status = load_element(&ex->in, b->buffer, index, &sum);
        }
        value =
            kiln_interp_combine(b->combiner, ex->in.p->buffer.data[b->buffer].dtype, sum, value);
    }
    if (ex->in.status) return take_status(ex);
    return store_element(ex, b->buffer, index, value);
}

static kiln_status execute_store(execution *ex, const kiln_stmt_info *s) {
    int64_t index[KILN_RANK_MAX] = {0};
    kiln_interp_moved(&ex->in);
    eval_index(ex, s->index, s->index_count, index);
    kiln_scalar value = kiln_interp_eval(&ex->in, s->value);
    if (ex->in.status) return take_status(ex);
    return store_element(ex, s->buffer, index, value);
}

static kiln_status execute_children(execution *ex, const kiln_stmt_info *s) {
    kiln_status st = NULL;
    for (uint32_t i = 0; !st && i < s->child.count; i++) st = execute(ex, s->child.data[i]);
    return st;
}

static kiln_status execute_for(execution *ex, kiln_stmt stmt) {
    const kiln_stmt_info *s = &ex->in.p->stmt.data[stmt];
    bool concurrent = is_concurrent(s);
    level *own = concurrent ? &ex->level[ex->depth++] : NULL;
    if (own) *own = (level){.loop = stmt, .instance = ++ex->instances};
    kiln_status st = NULL;
    for (int64_t i = 0; !st && i < s->extent; i++) {
        ex->in.var[s->var] = s->first + i;
        if (own) own->iteration = (uint32_t)i;
        st = execute_children(ex, s);
    }
    ex->depth -= concurrent;
    return st;
}

static void begin_life(execution *ex, kiln_buffer buffer) {
    ex->buffer[buffer].life++;
    ex->buffer[buffer].home_depth = ex->depth;
}

static void begin_lives(execution *ex, kiln_stmt stmt) {
    for (kiln_buffer b = 1; b < ex->in.p->buffer.count; b++)
        if (ex->buffer[b].home == stmt) begin_life(ex, b);
}

static kiln_status execute_alloc(execution *ex, const kiln_stmt_info *s) {
    begin_life(ex, s->buffer);
    ex->buffer[s->buffer].is_away = false;
    kiln_status st = execute_children(ex, s);
    ex->buffer[s->buffer].is_away = true;
    return st;
}

static kiln_status execute(execution *ex, kiln_stmt stmt) {
    const kiln_stmt_info *s = &ex->in.p->stmt.data[stmt];
    bool holds;
    ex->stmt = stmt;
    if (ex->is_home[stmt]) begin_lives(ex, stmt);
    switch ((kiln_stmt_kind)s->kind) {
    case KILN_STMT_ALLOC: return execute_alloc(ex, s);
    case KILN_STMT_SEQ: return execute_children(ex, s);
    case KILN_STMT_FOR: return execute_for(ex, stmt);
    case KILN_STMT_BLOCK: return execute_block(ex, s->block);
    case KILN_STMT_IF:
        kiln_interp_moved(&ex->in);
        holds = kiln_interp_eval(&ex->in, s->condition).i != 0;
        if (ex->in.status) return take_status(ex);
        return holds ? execute_children(ex, s) : KILN_OK;
    case KILN_STMT_STORE: return execute_store(ex, s);
    case KILN_STMT_BARRIER:
    case KILN_STMT_TOKEN_PUSH:
    case KILN_STMT_TOKEN_POP:
    case KILN_STMT_KIND_COUNT: break;
    }
    return KILN_OK;
}

/* ---- homes ----------------------------------------------------------------------- */

static kiln_stmt common_ancestor(const kiln_program *p, kiln_stmt a, kiln_stmt b) {
    while (!kiln_stmt_is_inside(p, b, a)) a = p->stmt.data[a].parent;
    return a;
}

static void extend_home(execution *ex, kiln_buffer buffer, kiln_stmt stmt) {
    kiln_stmt *home = &ex->buffer[buffer].home;
    *home = *home ? common_ancestor(ex->in.p, *home, stmt) : stmt;
}

/* Every buffer that e loads is accessed at `stmt`. `seen`: [expr count], last statement that
 * visited. */
static void extend_by_loads(execution *ex, kiln_expr e, kiln_stmt stmt, kiln_stmt *seen) {
    if (!e || seen[e] == stmt) return;
    seen[e] = stmt;
    const kiln_expr_node *node = kiln_expr_get(ex->in.p, e);
    if (node->op == KILN_EXPR_LOAD) extend_home(ex, node->payload.id, stmt);
    for (uint32_t i = 0; i < node->operand_count; i++)
        extend_by_loads(ex, kiln_expr_operand(ex->in.p, e, i), stmt, seen);
}

static void extend_by_stmt(execution *ex, kiln_stmt stmt, kiln_stmt *seen) {
    const kiln_stmt_info *s = &ex->in.p->stmt.data[stmt];
    extend_by_loads(ex, s->condition, stmt, seen);
    extend_by_loads(ex, s->value, stmt, seen);
    for (uint32_t i = 0; i < s->index_count; i++) extend_by_loads(ex, s->index[i], stmt, seen);
    if (s->kind == KILN_STMT_STORE) extend_home(ex, s->buffer, stmt);
    if (s->kind != KILN_STMT_BLOCK) return;
    const kiln_block_info *b = &ex->in.p->block.data[s->block];
    extend_home(ex, b->buffer, stmt);
    extend_by_loads(ex, b->value, stmt, seen);
    extend_by_loads(ex, b->init, stmt, seen);
    for (uint32_t i = 0; i < b->index_count; i++) extend_by_loads(ex, b->index[i], stmt, seen);
}

static void leave_to_allocs(shadow *sh) {
    sh->home = 0;
    sh->is_away = true;
}

/* Where each temp begins its lives: at its ALLOCs, of which lowering makes several when it copies
 * code, or else at its home. */
static void find_homes(execution *ex) {
    const kiln_program *p = ex->in.p;
    kiln_stmt *seen = kiln_alloc(sizeof *seen * p->expr.count);
    for (kiln_stmt s = 1; s < p->stmt.count; s++)
        if (kiln_stmt_is_inside(p, s, p->root)) extend_by_stmt(ex, s, seen);
    kiln_free(seen);
    for (kiln_stmt s = 1; s < p->stmt.count; s++)
        if (p->stmt.data[s].kind == KILN_STMT_ALLOC && kiln_stmt_is_inside(p, s, p->root))
            leave_to_allocs(&ex->buffer[p->stmt.data[s].buffer]);
    for (kiln_buffer b = 1; b < p->buffer.count; b++) {
        kiln_stmt *home = &ex->buffer[b].home;
        kiln_stmt_kind kind = (kiln_stmt_kind)p->stmt.data[*home].kind;
        /* A buffer that only one statement touches is never read by another: it has one life. */
        bool single = kind == KILN_STMT_BLOCK || kind == KILN_STMT_STORE;
        if (p->buffer.data[b].role != KILN_ROLE_TEMP || single) *home = 0;
        if (*home) ex->is_home[*home] = true;
    }
}

/* ---- set-up ---------------------------------------------------------------------- */

static uint32_t concurrent_depth(const kiln_program *p) {
    uint32_t deepest = 0;
    for (kiln_stmt s = 1; s < p->stmt.count; s++) {
        uint32_t depth = 0;
        for (kiln_stmt at = s; at; at = p->stmt.data[at].parent)
            depth += is_concurrent(&p->stmt.data[at]);
        deepest = KILN_MAX(deepest, depth);
    }
    return deepest;
}

static bool is_stored(const kiln_program *p, kiln_buffer buffer) {
    for (kiln_stmt s = 1; s < p->stmt.count; s++) {
        const kiln_stmt_info *info = &p->stmt.data[s];
        bool stores =
            (info->kind == KILN_STMT_STORE && info->buffer == buffer) ||
            (info->kind == KILN_STMT_BLOCK && p->block.data[info->block].buffer == buffer);
        if (stores && kiln_stmt_is_inside(p, s, p->root)) return true;
    }
    return false;
}

static kiln_status make_shadows(execution *ex, const kiln_tensor *args, kiln_arena *arena) {
    const kiln_program *p = ex->in.p;
    kiln_buffer arg[KILN_PROGRAM_BUFFERS_MAX];
    uint32_t arg_count = kiln_program_args(p, arg);
    for (uint32_t i = 0; i < arg_count; i++) {
        kiln_role role = p->buffer.data[arg[i]].role;
        ex->buffer[arg[i]].tensor = args[i];
        ex->buffer[arg[i]].is_given = role == KILN_ROLE_INPUT || role == KILN_ROLE_CONSTANT ||
                                      (role == KILN_ROLE_PACKED && !is_stored(p, arg[i]));
    }
    for (kiln_buffer b = 1; b < p->buffer.count; b++) {
        const kiln_buffer_info *info = &p->buffer.data[b];
        shadow *sh = &ex->buffer[b];
        size_t bytes;
        kiln_status st = kiln_shape_bytes(&info->shape, info->dtype, &bytes);
        if (st) return kiln_status_note(st, "buffer %.*s", KILN_STR_ARG(info->name));
        int64_t count = kiln_shape_count(&info->shape);
        sh->life = 1;
        if (!sh->tensor.data) sh->tensor = kiln_tensor_create(arena, info->dtype, &info->shape);
        sh->written_in = KILN_ARENA_ARRAY(arena, uint32_t, count);
        sh->touched = KILN_ARENA_ARRAY(arena, touch, (size_t)count * ex->depth_max * 2);
    }
    return KILN_OK;
}

static kiln_status check_outputs(const execution *ex) {
    const kiln_program *p = ex->in.p;
    for (kiln_buffer b = 1; b < p->buffer.count; b++) {
        if (p->buffer.data[b].role != KILN_ROLE_OUTPUT) continue;
        int64_t count = kiln_shape_count(&p->buffer.data[b].shape);
        for (int64_t i = 0; i < count; i++)
            if (!ex->buffer[b].written_in[i])
                return KILN_ERROR(FAILED_PRECONDITION,
                                  "element %lld of output %.*s is never written", (long long)i,
                                  KILN_STR_ARG(p->buffer.data[b].name));
    }
    return KILN_OK;
}

kiln_status kiln_loop_eval(const kiln_program *p, const kiln_tensor *args, uint32_t arg_count) {
    kiln_status st = kiln_interp_check_args(p, args, arg_count);
    if (st) return st;
    if (!p->root) return KILN_ERROR(INVALID_ARGUMENT, "the program has no loops yet");
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    execution *ex = KILN_ARENA_NEW(&scratch, execution);
    kiln_interp_init(&ex->in, p, load_element, ex);
    ex->depth_max = concurrent_depth(p);
    ex->level = KILN_ARENA_ARRAY(&scratch, level, ex->depth_max);
    ex->is_home = KILN_ARENA_ARRAY(&scratch, bool, p->stmt.count);

    st = make_shadows(ex, args, &scratch);
    if (!st) {
        find_homes(ex);
        st = execute(ex, p->root);
    }
    if (!st) st = check_outputs(ex);

    kiln_interp_deinit(&ex->in);
    kiln_arena_deinit(&scratch);
    return st;
}
