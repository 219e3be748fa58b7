/* Tiles of a matrix unit (AMX): sums in buffers of scope TILE.
 *
 * A buffer is in tiles if each of its uses is a nest over one tile: rows of 16 lanes, which are set
 * to zero, summed up by an instruction that `tensorize` marked, or copied to memory. Then each of
 * its tiles has a number, operands get the remaining numbers, and each nest becomes one
 * instruction, with loads of missing operands. Any other buffer of that scope lies in memory, and
 * its loops are built as ordinary loops. The decision is made before a function is written, from
 * the program alone, because a configuration defines the sizes of tiles: one for the whole
 * function, loaded at its start, or one for each allocation if they differ.
 *
 * Source: Intel SDM volume 1 chapter 18 (configuration), volume 2 (the instructions). */
#include <math.h>
#include <string.h>

#include "base/check.h"
#include "compiler-core/codegen/walk.h"
#include "compiler-core/lower/pass.h"

#define TILES KILN_WALK_TILES
#define TILE_LANES 16
#define TILE_ROW_BYTES 64
#define WORD_BYTES 4
#define PALETTE 1

typedef enum nest_kind { NEST_ZERO, NEST_PRODUCT, NEST_COPY } nest_kind;

/* One factor of a product: its first element, and the layout of its tile in memory. */
typedef struct factor {
    kiln_expr load;
    int64_t stride; /* distance of rows of the tile, in elements */
} factor;

/* A nest over one tile. */
typedef struct nest {
    nest_kind kind;
    const kiln_stmt_info *rows, *lanes, *steps; /* steps: of a product */
    kiln_stmt store;
    const kiln_intrinsic *intrinsic;
    factor a, b;
    int64_t stride; /* of a copy: distance of written rows, in elements */
} nest;

/* The tiles of an allocation's buffer. */
struct kiln_walk_tiles {
    kiln_buffer buffer;
    uint32_t rows;  /* of each tile */
    uint32_t words; /* in a row of a first factor, and rows of a second one */
    int64_t stride; /* distance of rows in the buffer, in elements */
    uint32_t count; /* tiles of it, numbered from 0 */
};

/* ---- places of elements
 * ------------------------------------------------------------------------- */

/* The value of a term of one bound variable; false: it has other variables. */
static bool known_term(kiln_walk *w, kiln_expr term, int64_t *out) {
    return kiln_expr_as_int(
        w->p, kiln_expr_simplify(w->p, kiln_expr_substitute(w->p, term, w->constant_of), NULL),
        out);
}

/* The distance of the element for `value` of the loop's variable from that for its first value;
 * false: it depends on other variables. */
static bool distance(kiln_walk *w, const kiln_affine *offset, const kiln_stmt_info *loop,
                     int64_t value, int64_t *out) {
    bool known = true;
    *out = 0;
    for (uint32_t i = 0; known && i < offset->term_count; i++) {
        int64_t first, at;
        if (!kiln_expr_uses_var(w->p, offset->term[i], loop->var)) continue;
        kiln_walk_bind(w, loop->var, loop->first);
        known = known_term(w, offset->term[i], &first);
        kiln_walk_bind(w, loop->var, loop->first + value);
        known = known && known_term(w, offset->term[i], &at);
        if (known) *out += offset->coefficient[i] * (at - first);
    }
    kiln_walk_unbind(w, loop->var);
    return known;
}

/* Whether value v of the loop is v / unit * outer + v % unit * inner elements from its first. */
static bool steps_by(kiln_walk *w, const kiln_affine *offset, const kiln_stmt_info *loop,
                     int64_t unit, int64_t inner, int64_t *out_outer) {
    int64_t at;
    *out_outer = 0;
    if (loop->extent > unit && !distance(w, offset, loop, unit, out_outer)) return false;
    for (int64_t v = 0; v < loop->extent; v++)
        if (!distance(w, offset, loop, v, &at) || at != v / unit * *out_outer + v % unit * inner)
            return false;
    return true;
}

/* The same for a constant distance between neighbours. */
static bool is_linear(kiln_walk *w, const kiln_affine *offset, const kiln_stmt_info *loop,
                      int64_t *out_stride) {
    return steps_by(w, offset, loop, 1, 0, out_stride);
}

static bool is_still(kiln_walk *w, const kiln_affine *offset, const kiln_stmt_info *loop) {
    int64_t stride;
    return is_linear(w, offset, loop, &stride) && stride == 0;
}

/* ---- nests ----------------------------------------------------------------------------------- */

/* The only statement in a loop. */
static const kiln_stmt_info *only_child(const kiln_program *p, const kiln_stmt_info *s,
                                        kiln_stmt *out) {
    *out = s->child.data[0];
    const kiln_stmt_info *child = &p->stmt.data[*out];
    while (child->kind == KILN_STMT_SEQ && child->child.count == 1) {
        *out = child->child.data[0];
        child = &p->stmt.data[*out];
    }
    return child;
}

static bool loads_from(const kiln_program *p, kiln_expr e, kiln_buffer buffer) {
    const kiln_expr_node *node = kiln_expr_get(p, e);
    return node->op == KILN_EXPR_LOAD && node->payload.id == buffer;
}

/* Rows of the first factor are pieces of memory, of the second one words of all lanes. */
static bool find_factors(kiln_walk *w, nest *n, const kiln_expr load[KILN_INTRINSIC_OPERANDS]) {
    const int64_t word = kiln_intrinsic_word(n->intrinsic);
    for (uint32_t swapped = 0; swapped < 2; swapped++) {
        int64_t lanes, steps;
        n->a.load = load[swapped];
        n->b.load = load[1 - swapped];
        const kiln_affine *a = kiln_walk_load_offset(w, n->a.load),
                          *b = kiln_walk_load_offset(w, n->b.load);
        if (swapped && n->intrinsic->operand[0] != n->intrinsic->operand[1]) return false;
        if (is_still(w, a, n->lanes) && is_linear(w, a, n->rows, &n->a.stride) &&
            is_linear(w, a, n->steps, &steps) && steps == 1 && is_still(w, b, n->rows) &&
            is_linear(w, b, n->lanes, &lanes) && lanes == word &&
            steps_by(w, b, n->steps, word, 1, &n->b.stride))
            return true;
    }
    return false;
}

static bool in_memory(const kiln_program *p, kiln_expr load) {
    const kiln_scope scope = (kiln_scope)p->buffer.data[kiln_expr_get(p, load)->payload.id].scope;
    return scope != KILN_SCOPE_REGISTER && scope != KILN_SCOPE_TILE;
}

static bool find_product(kiln_walk *w, nest *n, kiln_buffer buffer) {
    kiln_program *p = w->p;
    const kiln_stmt_info *store = &p->stmt.data[n->store];
    kiln_expr load[KILN_INTRINSIC_OPERANDS];
    if (kiln_expr_get(p, store->value)->op != KILN_EXPR_ADD) return false;
    for (uint32_t i = 0; i < 2; i++) {
        const kiln_expr before = kiln_expr_operand(p, store->value, i);
        if (!loads_from(p, before, buffer)) continue;
        for (uint32_t d = 0; d < store->index_count; d++)
            if (kiln_expr_operand(p, before, d) != store->index[d]) return false;
        return kiln_intrinsic_matches(kiln_walk_meaning(w, n->intrinsic), p,
                                      kiln_expr_operand(p, store->value, 1 - i), load) &&
               in_memory(p, load[0]) && in_memory(p, load[1]) && find_factors(w, n, load);
    }
    return false;
}

static bool is_zero(const kiln_program *p, kiln_expr e) {
    const kiln_expr_node *node = kiln_expr_get(p, e);
    return kiln_expr_is_const(p, e) && (kiln_dtype_is_float((kiln_dtype)node->dtype)
                                            ? node->payload.f == 0 && !signbit(node->payload.f)
                                            : node->payload.i == 0);
}

/* A copy whose lanes are contiguous in memory. */
static bool find_copy(kiln_walk *w, nest *n) {
    const kiln_stmt_info *store = &w->p->stmt.data[n->store];
    const kiln_scope scope = (kiln_scope)w->p->buffer.data[store->buffer].scope;
    const kiln_affine *to = kiln_walk_store_offset(w, n->store);
    int64_t lanes;
    return scope != KILN_SCOPE_REGISTER && scope != KILN_SCOPE_TILE &&
           is_linear(w, to, n->lanes, &lanes) && lanes == 1 &&
           is_linear(w, to, n->rows, &n->stride);
}

/* The nest of a loop over rows, if it is one over a tile of `buffer`. */
static bool find_nest(kiln_walk *w, kiln_stmt stmt, kiln_buffer buffer, nest *out) {
    kiln_program *p = w->p;
    kiln_stmt at;
    *out = (nest){.rows = &p->stmt.data[stmt]};
    const kiln_stmt_info *rows = out->rows, *s;
    if (rows->kind != KILN_STMT_FOR || rows->loop_kind == KILN_LOOP_PARALLEL ||
        rows->loop_kind == KILN_LOOP_VECTORIZE || rows->extent > KILN_INTRINSIC_TILE_ROWS)
        return false;
    out->lanes = s = only_child(p, rows, &at);
    if (s->kind != KILN_STMT_FOR || s->loop_kind != KILN_LOOP_VECTORIZE || s->extent != TILE_LANES)
        return false;
    s = only_child(p, s, &at);
    if (s->kind == KILN_STMT_FOR) {
        out->steps = s;
        out->intrinsic = kiln_intrinsic_of_loop(p, at);
        s = only_child(p, s, &at);
        if (!out->intrinsic || !kiln_intrinsic_in_tiles(out->intrinsic)) return false;
    }
    out->store = at;
    if (s->kind != KILN_STMT_STORE) return false;
    out->kind = out->steps ? NEST_PRODUCT : s->buffer == buffer ? NEST_ZERO : NEST_COPY;
    if (out->kind == NEST_PRODUCT) return s->buffer == buffer && find_product(w, out, buffer);
    if (out->kind == NEST_ZERO) return is_zero(p, s->value);
    return loads_from(p, s->value, buffer) && find_copy(w, out);
}

static const kiln_affine *place_in_tiles(kiln_walk *w, const nest *n) {
    return n->kind == NEST_COPY ? kiln_walk_load_offset(w, w->p->stmt.data[n->store].value)
                                : kiln_walk_store_offset(w, n->store);
}

/* ---- the plan of one buffer ------------------------------------------------------------------ */

static void find_use(kiln_program *p, kiln_stmt stmt, kiln_expr load, void *context) {
    (void)p, (void)stmt, (void)load;
    *(bool *)context = true;
}

static bool uses(kiln_program *p, kiln_stmt stmt, kiln_buffer buffer) {
    const kiln_stmt_info *s = &p->stmt.data[stmt];
    bool used = s->kind == KILN_STMT_STORE && s->buffer == buffer;
    kiln_lower_visit_loads(p, stmt, buffer, find_use, &used);
    for (uint32_t i = 0; i < s->child.count && !used; i++) used = uses(p, s->child.data[i], buffer);
    return used;
}

/* The loop of a variable around `stmt`, inside of `alloc`; NULL: none. */
static const kiln_stmt_info *loop_inside(const kiln_program *p, kiln_stmt stmt, kiln_stmt alloc,
                                         kiln_var var) {
    for (; stmt && stmt != alloc; stmt = p->stmt.data[stmt].parent)
        if (p->stmt.data[stmt].kind == KILN_STMT_FOR && p->stmt.data[stmt].var == var)
            return &p->stmt.data[stmt];
    return NULL;
}

/* Whether the nest takes a whole tile of the plan, known at compile time. Tiles begin at multiples
 * of their rows and lanes, so two of them are equal or disjoint. */
static bool takes_whole_tiles(kiln_walk *w, const nest *n, kiln_stmt stmt, kiln_stmt alloc,
                              kiln_walk_tiles *t) {
    const kiln_affine *at = place_in_tiles(w, n);
    int64_t lanes, stride, columns = 0, rows = 0;
    if (!is_linear(w, at, n->rows, &stride) || stride != t->stride ||
        !is_linear(w, at, n->lanes, &lanes) || lanes != 1 ||
        (n->steps && !is_still(w, at, n->steps)) || n->rows->first != 0 || n->lanes->first != 0)
        return false;
    for (uint32_t i = 0; i <= at->term_count; i++) {
        const bool is_constant = i == at->term_count;
        const int64_t by = is_constant ? at->constant : at->coefficient[i];
        int64_t last = 1;
        if (!is_constant) {
            const kiln_expr_node *term = kiln_expr_get(w->p, at->term[i]);
            if (term->op != KILN_EXPR_VAR) return false;
            if (term->payload.id == n->rows->var || term->payload.id == n->lanes->var) continue;
            const kiln_stmt_info *loop = loop_inside(w->p, stmt, alloc, term->payload.id);
            if (!loop || (loop->loop_kind != KILN_LOOP_UNROLL && loop->extent > 1)) return false;
            last = loop->first + loop->extent - 1;
            if (loop->first < 0) return false;
        }
        if (by < 0 || by / t->stride % t->rows != 0 || by % t->stride % TILE_LANES != 0 ||
            (by % t->stride != 0 && by >= t->stride && !is_constant))
            return false;
        columns += by % t->stride * last;
        rows += by / t->stride * last;
    }
    const int64_t last = (rows / t->rows + 1) * (t->stride / TILE_LANES);
    if (columns >= t->stride || last > TILES - 2) return false;
    t->count = KILN_MAX(t->count, (uint32_t)last);
    return true;
}

/* Adds one nest to the plan, or compares it with the plan. */
static bool add_nest(kiln_walk *w, const nest *n, kiln_walk_tiles *t) {
    int64_t stride;
    if (!is_linear(w, place_in_tiles(w, n), n->rows, &stride)) return false;
    if (t->rows == 0) {
        t->rows = (uint32_t)n->rows->extent;
        t->stride = stride;
    }
    if (n->rows->extent != t->rows || stride != t->stride || stride < TILE_LANES) return false;
    if (n->kind != NEST_PRODUCT) return true;
    const uint32_t words = (uint32_t)n->steps->extent / kiln_intrinsic_word(n->intrinsic);
    if (t->words == 0) t->words = words;
    return words == t->words;
}

/* Adds all nests of the allocation to `t`, or with `check` compares them. */
static bool plan_tree(kiln_walk *w, kiln_stmt stmt, kiln_stmt alloc, bool check,
                      kiln_walk_tiles *t) {
    const kiln_stmt_info *s = &w->p->stmt.data[stmt];
    nest n;
    if (!uses(w->p, stmt, t->buffer)) return true;
    if (find_nest(w, stmt, t->buffer, &n))
        return check ? takes_whole_tiles(w, &n, stmt, alloc, t) : add_nest(w, &n, t);
    if (s->kind == KILN_STMT_STORE || s->kind == KILN_STMT_IF ||
        (s->kind == KILN_STMT_FOR && s->loop_kind == KILN_LOOP_PARALLEL))
        return false;
    for (uint32_t i = 0; i < w->p->stmt.data[stmt].child.count; i++)
        if (!plan_tree(w, w->p->stmt.data[stmt].child.data[i], alloc, check, t)) return false;
    return true;
}

static kiln_walk_tiles *plan_of(kiln_walk *w, kiln_stmt alloc) {
    const kiln_stmt body = w->p->stmt.data[alloc].child.data[0];
    kiln_walk_tiles t = {.buffer = w->p->stmt.data[alloc].buffer};
    if (!plan_tree(w, body, alloc, false, &t) || t.words == 0 || t.stride % TILE_LANES != 0 ||
        !plan_tree(w, body, alloc, true, &t))
        return NULL;
    kiln_walk_tiles *plan = KILN_ARENA_NEW(w->arena, kiln_walk_tiles);
    *plan = t;
    return plan;
}

/* ---- configurations -------------------------------------------------------------------------- */

/* The number of tiles for first factors: half of those not used by sums, at least one. */
static uint32_t first_factors(const kiln_walk_tiles *t) {
    return KILN_MAX((TILES - t->count) / 2, 1);
}

static void configure(kiln_walk *w, const kiln_walk_tiles *t) {
    uint8_t config[TILE_ROW_BYTES] = {PALETTE};
    enum { ROW_BYTES = 16, ROWS = 48 }; /* of tile 0 */
    for (uint32_t i = 0; i < TILES; i++) {
        const bool is_sum = i < t->count, is_first = !is_sum && i < t->count + first_factors(t);
        config[ROW_BYTES + 2 * i] = (uint8_t)(is_first ? t->words * WORD_BYTES : TILE_ROW_BYTES);
        config[ROWS + i] = (uint8_t)(is_sum || is_first ? t->rows : t->words);
    }
    kiln_ssa bytes = w->b->ops->constant_bytes(w->b, config, sizeof config);
    w->b->ops->tile(w->b, "llvm.x86.ldtilecfg", NULL, 0, bytes, NULL);
}

static bool same_configuration(const kiln_walk_tiles *a, const kiln_walk_tiles *b) {
    return a->rows == b->rows && a->words == b->words && a->count == b->count;
}

/* Plans all allocations of one function. */
static void plan_function(kiln_walk *w, kiln_stmt stmt, bool is_nested) {
    const kiln_stmt_info *s = &w->p->stmt.data[stmt];
    if (s->kind == KILN_STMT_FOR && s->loop_kind == KILN_LOOP_PARALLEL && !w->in_parallel) return;
    if (s->kind == KILN_STMT_ALLOC && w->p->buffer.data[s->buffer].scope == KILN_SCOPE_TILE) {
        kiln_walk_tiles *t = is_nested ? NULL : plan_of(w, stmt);
        w->tiles_of[stmt] = t;
        if (t && w->tiles && !same_configuration(w->tiles, t)) w->tiles_differ = true;
        if (t) w->tiles = t;
        is_nested |= t != NULL;
    }
    for (uint32_t i = 0; i < w->p->stmt.data[stmt].child.count; i++)
        plan_function(w, w->p->stmt.data[stmt].child.data[i], is_nested);
}

void kiln_walk_tiles_begin(kiln_walk *w, kiln_stmt body) {
    w->tiles = NULL;
    w->tiles_differ = false;
    kiln_walk_tiles_forget(w);
    if (!w->b->ops->tile) return;
    if (!w->tiles_of) w->tiles_of = KILN_ARENA_ARRAY(w->arena, kiln_walk_tiles *, w->p->stmt.count);
    plan_function(w, body, false);
    if (w->tiles && !w->tiles_differ) configure(w, w->tiles);
}

void kiln_walk_tiles_end(kiln_walk *w) {
    if (w->tiles) w->b->ops->tile(w->b, "llvm.x86.tilerelease", NULL, 0, NULL, NULL);
}

void kiln_walk_tiles_resume(kiln_walk *w) {
    kiln_walk_tiles_forget(w);
    if (w->tiles && !w->tiles_differ) configure(w, w->tiles);
}

void kiln_walk_tiles_alloc(kiln_walk *w, kiln_stmt alloc) {
    w->tiles_here = w->tiles_of ? w->tiles_of[alloc] : NULL;
    kiln_walk_tiles_forget(w);
    if (w->tiles_here && w->tiles_differ) configure(w, w->tiles_here);
}

void kiln_walk_tiles_forget(kiln_walk *w) { memset(w->tile_holds, 0, sizeof w->tile_holds); }

/* ---- instructions ---------------------------------------------------------------------------- */

/* Address of the first element of a tile. */
static kiln_ssa pointer_to(kiln_walk *w, const nest *n, kiln_buffer buffer,
                           const kiln_affine *offset, kiln_walk_address *out_at) {
    kiln_walk_bind(w, n->rows->var, n->rows->first);
    kiln_walk_bind(w, n->lanes->var, n->lanes->first);
    if (n->steps) kiln_walk_bind(w, n->steps->var, n->steps->first);
    w->stamp = ++w->last_stamp;
    *out_at = kiln_walk_address_of(w, buffer, offset);
    return kiln_walk_pointer(w, out_at, w->p->buffer.data[buffer].dtype, 0);
}

static void unbind(kiln_walk *w, const nest *n) {
    kiln_walk_unbind(w, n->rows->var);
    kiln_walk_unbind(w, n->lanes->var);
    if (n->steps) kiln_walk_unbind(w, n->steps->var);
    w->stamp = ++w->last_stamp;
}

static kiln_ssa stride_bytes(kiln_walk *w, kiln_buffer buffer, int64_t elements) {
    return kiln_walk_i64(w, elements * (int64_t)kiln_dtype_size(w->p->buffer.data[buffer].dtype));
}

/* The tile that holds the factor, one of `count` from `first` on; loads it into the least recently
 * used tile if there is none. */
static uint32_t load_factor(kiln_walk *w, const nest *n, const factor *f, uint32_t first,
                            uint32_t count) {
    const kiln_buffer buffer = kiln_expr_get(w->p, f->load)->payload.id;
    kiln_walk_address at;
    kiln_ssa pointer = pointer_to(w, n, buffer, kiln_walk_load_offset(w, f->load), &at);
    const kiln_walk_tile_holds wanted = {buffer,      w->epoch[buffer], at.pointer,
                                         at.constant, f->stride,        ++w->last_tile_use};
    uint32_t oldest = first;
    for (uint32_t i = first; i < first + count; i++) {
        kiln_walk_tile_holds *holds = &w->tile_holds[i];
        if (holds->last_use < w->tile_holds[oldest].last_use) oldest = i;
        if (holds->pointer != wanted.pointer || holds->buffer != wanted.buffer ||
            holds->epoch != wanted.epoch || holds->constant != wanted.constant ||
            holds->stride != wanted.stride)
            continue;
        holds->last_use = wanted.last_use;
        return i;
    }
    w->b->ops->tile(w->b, "llvm.x86.tileloadd64", &oldest, 1, pointer,
                    stride_bytes(w, buffer, f->stride));
    w->tile_holds[oldest] = wanted;
    return oldest;
}

static void emit_product(kiln_walk *w, const nest *n, const kiln_walk_tiles *t, uint32_t sum) {
    const uint32_t first = t->count, second = first + first_factors(t);
    const uint32_t number[] = {sum, load_factor(w, n, &n->a, first, second - first),
                               load_factor(w, n, &n->b, second, TILES - second)};
    w->b->ops->tile(w->b, n->intrinsic->instruction, number, 3, NULL, NULL);
}

static void emit_copy(kiln_walk *w, const nest *n, uint32_t number) {
    const kiln_buffer buffer = w->p->stmt.data[n->store].buffer;
    kiln_walk_address at;
    kiln_ssa pointer = pointer_to(w, n, buffer, kiln_walk_store_offset(w, n->store), &at);
    w->b->ops->tile(w->b, "llvm.x86.tilestored64", &number, 1, pointer,
                    stride_bytes(w, buffer, n->stride));
    w->epoch[buffer]++;
}

bool kiln_walk_tile_nest(kiln_walk *w, kiln_stmt stmt) {
    const kiln_walk_tiles *t = w->tiles_here;
    nest n;
    if (!t || !find_nest(w, stmt, t->buffer, &n)) return false;
    kiln_walk_bind(w, n.rows->var, 0);
    kiln_walk_bind(w, n.lanes->var, 0);
    const int64_t place = kiln_walk_constant_offset(w, place_in_tiles(w, &n), 0);
    const uint32_t number = (uint32_t)(place / t->stride / t->rows * (t->stride / TILE_LANES) +
                                       place % t->stride / TILE_LANES);
    KILN_CHECK(number < t->count);
    if (n.kind == NEST_ZERO)
        w->b->ops->tile(w->b, "llvm.x86.tilezero", &number, 1, NULL, NULL);
    else if (n.kind == NEST_PRODUCT)
        emit_product(w, &n, t, number);
    else
        emit_copy(w, &n, number);
    unbind(w, &n);
    return true;
}
