/* pipeline: the fetches of a loop's iteration into shared temps begin in an earlier iteration, so
 * that they run while threads compute. With two stages they go through registers, and the temps get
 * two slots, which iterations use in turn:
 *
 *     fetch of the first iteration into slot 0
 *     for all iterations but the last:
 *       load the next one's fetches into registers
 *       the work of this one, of its slot
 *       store the registers into the other slot
 *     the work of the last one
 *
 * All of it stays nests one after the other, so barriers are found as for any program: one in each
 * iteration, since the two slots are known to differ.
 *
 * With more stages the target copies asynchronously. The temps get a slot per stage; with 3 of
 * them:
 *
 *     for the first 2 iterations: copies into slots 0 and 1, a group each
 *     for all iterations but the last 2:
 *       wait for this one's group; barrier
 *       copies of the second next one into the slot that the one before has left, a group
 *       the work of this one, of its slot
 *     for the last 2: wait; barrier; an empty group, so that groups count as before; the work
 *
 * Behind the barrier all threads' copies have arrived and no thread uses the slot that is
 * overwritten next. Until the pass `copies` such copies are stores with an attribute, which means
 * the same; those that change the fetched values remain stores. */
#include "compiler-core/lower/pipeline.h"
#include "base/check.h"
#include "compiler-core/facts/loads.h"
#include "compiler-core/facts/nest.h"
#include "compiler-core/ir/device.h"
#include "compiler-core/lower/pass.h"

#define REFUSE(...) KILN_ERROR(ILLEGAL_SCHEDULE, __VA_ARGS__)

/* ---- what is fetched ------------------------------------------------------------------------- */

static void find_made(kiln_pipelining *l, kiln_stmt stmt) {
    const kiln_stmt_info s = l->p->stmt.data[stmt];
    if (s.kind == KILN_STMT_STORE) l->made[s.buffer] = true;
    for (uint32_t i = 0; i < s.child.count; i++) find_made(l, s.child.data[i]);
}

static void look_at_load(kiln_program *p, kiln_stmt stmt, kiln_expr load, void *context) {
    kiln_pipelining *l = context;
    (void)stmt;
    if (l->made[kiln_load_buffer(p, load)]) l->staged[0] = true;
}

/* Whether the statement stores only to shared temps of this iteration, and only values that the
 * loop does not compute. staged[0]: it loads something else. */
static bool is_fetch(kiln_pipelining *l, kiln_stmt stmt, const kiln_stmt *home) {
    kiln_program *p = l->p;
    const kiln_stmt_info s = p->stmt.data[stmt];
    kiln_lower_visit_loads(p, stmt, 0, look_at_load, l);
    if (s.kind == KILN_STMT_STORE &&
        (p->buffer.data[s.buffer].scope != KILN_SCOPE_SHARED || home[s.buffer] == l->loop ||
         !kiln_stmt_is_inside(p, home[s.buffer], l->loop)))
        return false;
    for (uint32_t i = 0; i < s.child.count; i++)
        if (!is_fetch(l, s.child.data[i], home)) return false;
    return !l->staged[0];
}

static void mark_staged(kiln_pipelining *l, kiln_stmt stmt) {
    const kiln_stmt_info s = l->p->stmt.data[stmt];
    if (s.kind == KILN_STMT_STORE) l->staged[s.buffer] = true;
    for (uint32_t i = 0; i < s.child.count; i++) mark_staged(l, s.child.data[i]);
}

/* Separates the iteration's statements into fetches and work; false: none of them fetches. */
static bool find_fetches(kiln_pipelining *l) {
    kiln_program *p = l->p;
    kiln_stmt body = p->stmt.data[l->loop].child.data[0];
    const kiln_stmt *home = kiln_lower_homes(p, p->root);
    if (p->stmt.data[body].kind != KILN_STMT_SEQ) return false;
    find_made(l, body);
    for (uint32_t i = 0; i < p->stmt.data[body].child.count; i++) {
        kiln_stmt child = p->stmt.data[body].child.data[i];
        l->staged[0] = false;
        if (is_fetch(l, child, home))
            kiln_vec_push_in(p->arena, &l->fetch, child);
        else
            kiln_vec_push_in(p->arena, &l->work, child);
    }
    l->staged[0] = false;
    for (uint32_t i = 0; i < l->fetch.count; i++) mark_staged(l, l->fetch.data[i]);
    /* A temp that other statements also fill is not a fetch's. */
    for (uint32_t i = 0; i < l->work.count; i++) {
        kiln_pipelining other = {.p = p,
                                 .staged = KILN_ARENA_ARRAY(p->arena, bool, p->buffer.count)};
        mark_staged(&other, l->work.data[i]);
        for (kiln_buffer b = 1; b < p->buffer.count; b++)
            if (other.staged[b] && l->staged[b]) return false;
    }
    return l->fetch.count > 0 && l->work.count > 0;
}

/* ---- registers between load and store -------------------------------------------------------- */

/* The loops between a fetch's root and one of its stores. */
typedef struct path {
    uint32_t count;
    kiln_stmt loop[KILN_LOWER_DEPTH_MAX];
} path;

/* The temp's index: a dimension for each thread loop, and one for all other loops together. */
static uint32_t own_index(kiln_program *p, const path *around, kiln_expr *index,
                          kiln_shape *shape) {
    int64_t count = 1;
    kiln_expr at = kiln_expr_index(p, 0);
    *shape = (kiln_shape){.rank = 0};
    for (uint32_t i = 0; i < around->count; i++) {
        const kiln_stmt_info s = p->stmt.data[around->loop[i]];
        kiln_expr value = kiln_expr_binary(p, KILN_EXPR_SUB, kiln_expr_var(p, s.var),
                                           kiln_expr_index(p, s.first));
        if (kiln_stmt_level(p, around->loop[i]) == KILN_LEVEL_GROUP) {
            index[shape->rank] = value;
            shape->dim[shape->rank++] = s.extent;
            continue;
        }
        at = kiln_expr_binary(p, KILN_EXPR_MUL, at, kiln_expr_index(p, s.extent));
        at = kiln_expr_binary(p, KILN_EXPR_ADD, at, value);
        count *= s.extent;
    }
    index[shape->rank] = kiln_expr_simplify(p, at, NULL);
    shape->dim[shape->rank++] = count;
    return shape->rank;
}

static void unroll_path(kiln_program *p, const path *around) {
    for (uint32_t i = 0; i < around->count; i++) {
        kiln_stmt_info *s = &p->stmt.data[around->loop[i]];
        if (s->loop_kind == KILN_LOOP_SERIAL) s->loop_kind = KILN_LOOP_UNROLL;
    }
}

/* Of two copies of a fetch the first keeps the loads and the second the stores. */
static void part(kiln_program *p, kiln_stmt load, kiln_stmt store, path *to_load, path *to_store) {
    const kiln_stmt_info s = p->stmt.data[load];
    if (s.kind == KILN_STMT_FOR) {
        to_load->loop[to_load->count++] = load;
        to_store->loop[to_store->count++] = store;
    }
    for (uint32_t i = 0; i < s.child.count; i++)
        part(p, s.child.data[i], p->stmt.data[store].child.data[i], to_load, to_store);
    to_load->count -= s.kind == KILN_STMT_FOR;
    to_store->count -= s.kind == KILN_STMT_FOR;
    if (s.kind != KILN_STMT_STORE) return;
    kiln_expr index[KILN_RANK_MAX];
    kiln_shape shape;
    const kiln_buffer_info b = p->buffer.data[s.buffer];
    uint32_t rank = own_index(p, to_load, index, &shape);
    kiln_buffer own =
        kiln_buffer_create(p, kiln_str_printf(p->arena, "%.*s.next", KILN_STR_ARG(b.name)), b.dtype,
                           KILN_ROLE_TEMP, &shape);
    const bool few = shape.dim[rank - 1] <= KILN_PIPELINE_STAGED_MAX;
    p->buffer.data[own].scope = few ? KILN_SCOPE_REGISTER : KILN_SCOPE_LOCAL;
    if (few) unroll_path(p, to_load);
    if (few) unroll_path(p, to_store);
    kiln_stmt_info *to = &p->stmt.data[load];
    to->buffer = own;
    to->index_count = rank;
    for (uint32_t d = 0; d < rank; d++) to->index[d] = index[d];
    own_index(p, to_store, index, &shape);
    p->stmt.data[store].value = kiln_expr_load(p, own, index, rank);
}

/* ---- stages ---------------------------------------------------------------------------------- */

void kiln_pipeline_append(kiln_program *p, kiln_stmt to, const kiln_stmt *part, uint32_t count,
                          kiln_var var, kiln_expr with) {
    for (uint32_t i = 0; i < count; i++)
        kiln_stmt_append(p, to, kiln_lower_copy(p, part[i], &var, with));
}

/* Temps of one iteration keep what it touches: copies of the body then use them alike, whichever
 * iteration they are of. */
static void compact_temps(kiln_program *p, kiln_stmt body) {
    const kiln_stmt *home = kiln_lower_homes(p, p->root);
    for (kiln_buffer b = 1; b < p->buffer.count; b++)
        if (p->buffer.data[b].role == KILN_ROLE_TEMP && home[b] &&
            kiln_stmt_is_inside(p, home[b], body))
            kiln_lower_compact(p, b, body);
}

kiln_expr kiln_pipeline_number(kiln_program *p, kiln_stmt loop) {
    const kiln_stmt_info s = p->stmt.data[loop];
    return kiln_expr_binary(p, KILN_EXPR_SUB, kiln_expr_var(p, s.var), kiln_expr_index(p, s.first));
}

kiln_status kiln_pipeline_expand(kiln_pipelining *l, int64_t slots, kiln_expr number) {
    kiln_program *p = l->p;
    const kiln_stmt body = p->stmt.data[l->loop].child.data[0];
    const kiln_expr slot =
        kiln_expr_binary(p, KILN_EXPR_FLOORMOD, number, kiln_expr_index(p, slots));
    compact_temps(p, body);
    const uint32_t count = p->buffer.count;
    for (kiln_buffer b = 1; b < count; b++) {
        if (!l->staged[b]) continue;
        if (!kiln_lower_expand(p, body, b, slots, slot))
            return REFUSE("%.*s has no dimension left for stages",
                          KILN_STR_ARG(p->buffer.data[b].name));
    }
    return KILN_OK;
}

/* Vectors that a thread stores in the statement. */
static int64_t vectors_of(const kiln_program *p, kiln_stmt stmt) {
    const kiln_stmt_info *s = &p->stmt.data[stmt];
    int64_t vectors = s->kind == KILN_STMT_STORE;
    for (uint32_t i = 0; i < s->child.count; i++) vectors += vectors_of(p, s->child.data[i]);
    const bool repeats = s->kind == KILN_STMT_FOR && s->loop_kind != KILN_LOOP_VECTORIZE &&
                         kiln_stmt_level(p, stmt) != KILN_LEVEL_GROUP;
    return repeats ? vectors * s->extent : vectors;
}

/* A fetch into registers and from there into the temps: two copies of it, with `with` in place of
 * the variable. */
static void append_parts(kiln_program *p, kiln_stmt fetch, const kiln_var *var, kiln_expr with,
                         kiln_stmt loads, kiln_stmt stores) {
    path to_load = {.count = 0}, to_store = {.count = 0};
    const kiln_stmt load = kiln_lower_copy(p, fetch, var, with),
                    store = kiln_lower_copy(p, fetch, var, with);
    part(p, load, store, &to_load, &to_store);
    kiln_stmt_append(p, loads, load);
    kiln_stmt_append(p, stores, store);
}

/* The fetches of iteration `at`: loads into registers, all before the first store, so that a thread
 * waits for them together. */
static void append_fetch(kiln_pipelining *l, kiln_var var, kiln_expr at, kiln_stmt loads,
                         kiln_stmt stores) {
    for (uint32_t i = 0; i < l->fetch.count; i++)
        append_parts(l->p, l->fetch.data[i], &var, at, loads, stores);
}

/* ---- the first iteration --------------------------------------------------------------------- */

/* Vectors that the first iteration fetches at once. More of them, with their addresses, make ptxas
 * spill registers that the sums need: 40 of 2 bytes with 128 sums did. */
#define FIRST_TOGETHER_MAX 32
/* Vectors of a round, if there are more. A loop of rounds needs other addresses besides those of
 * the next iterations, which compilers compute before it: with rounds of 32 ptxas spilled in ten of
 * 48 default tiles of halves, with 16 in three, element by element in two. */
#define ROUND_MAX 16

/* Replaces the statement by loads followed by stores. */
static void put_round(kiln_program *p, kiln_stmt stmt) {
    kiln_stmt round = kiln_stmt_create(p, KILN_STMT_SEQ),
              stores = kiln_stmt_create(p, KILN_STMT_SEQ);
    append_parts(p, stmt, NULL, 0, round, stores);
    kiln_stmt_append(p, round, stores);
    kiln_stmt_replace(p, stmt, round);
}

/* A loop of `extent` iterations of the loop's body, the first of which is `first`. */
static kiln_stmt iterations_of(kiln_program *p, kiln_stmt loop, kiln_expr first, int64_t extent) {
    const kiln_stmt_info s = p->stmt.data[loop];
    const kiln_var var = kiln_var_create(p, p->var.data[s.var].name, 0, extent - 1);
    const kiln_expr at = kiln_expr_binary(p, KILN_EXPR_ADD, first, kiln_expr_var(p, var));
    return kiln_stmt_for(p, var, 0, extent, (kiln_loop_kind)s.loop_kind,
                         kiln_lower_copy(p, s.child.data[0], &s.var, at));
}

/* Replaces the loop by rounds of `together` iterations, and one of the remaining iterations. */
static void put_rounds_of(kiln_program *p, kiln_stmt loop, int64_t together) {
    const kiln_stmt_info s = p->stmt.data[loop];
    const int64_t rounds = s.extent / together, rest = s.extent % together;
    const kiln_var var = kiln_var_create(p, p->var.data[s.var].name, 0, rounds - 1);
    const kiln_expr done = kiln_expr_binary(p, KILN_EXPR_MUL, kiln_expr_var(p, var),
                                            kiln_expr_index(p, together)),
                    first = kiln_expr_binary(p, KILN_EXPR_ADD, kiln_expr_index(p, s.first), done),
                    last = kiln_expr_index(p, s.first + rounds * together);
    kiln_stmt all = kiln_stmt_create(p, KILN_STMT_SEQ),
              round = iterations_of(p, loop, first, together);
    kiln_stmt_append(p, all, kiln_stmt_for(p, var, 0, rounds, KILN_LOOP_SERIAL, round));
    put_round(p, round);
    if (rest > 0) {
        round = iterations_of(p, loop, last, rest);
        kiln_stmt_append(p, all, round);
        put_round(p, round);
    }
    kiln_stmt_replace(p, loop, all);
}

/* Replaces a fetch by as few rounds as possible, of about the same size: of iterations of the
 * outermost loop of which a round holds more than one. */
static void put_rounds(kiln_program *p, kiln_stmt stmt) {
    const kiln_stmt_info s = p->stmt.data[stmt];
    const int64_t vectors = vectors_of(p, stmt);
    const bool is_vector = s.kind == KILN_STMT_FOR && s.loop_kind == KILN_LOOP_VECTORIZE;
    if (vectors <= ROUND_MAX || is_vector) {
        put_round(p, stmt);
        return;
    }
    const bool repeats = s.kind == KILN_STMT_FOR && kiln_stmt_level(p, stmt) != KILN_LEVEL_GROUP;
    const int64_t most = repeats ? ROUND_MAX / (vectors / s.extent) : 0;
    if (most > 1) {
        const int64_t rounds = (s.extent + most - 1) / most;
        put_rounds_of(p, stmt, (s.extent + rounds - 1) / rounds);
        return;
    }
    for (uint32_t i = 0; i < s.child.count; i++) put_rounds(p, p->stmt.data[stmt].child.data[i]);
}

/* The fetches of the first iteration: at once if they are few; else one after the other, in rounds,
 * so that a thread waits once for each round. */
static void append_first(kiln_pipelining *l, kiln_var var, kiln_expr at, kiln_stmt to) {
    kiln_program *p = l->p;
    int64_t vectors = 0;
    for (uint32_t i = 0; i < l->fetch.count; i++) vectors += vectors_of(p, l->fetch.data[i]);
    if (vectors <= FIRST_TOGETHER_MAX) {
        kiln_stmt stores = kiln_stmt_create(p, KILN_STMT_SEQ);
        append_fetch(l, var, at, to, stores);
        kiln_stmt_append(p, to, stores);
        return;
    }
    for (uint32_t i = 0; i < l->fetch.count; i++) {
        const kiln_stmt fetch = kiln_lower_copy(p, l->fetch.data[i], &var, at);
        kiln_stmt_append(p, to, fetch);
        put_rounds(p, fetch);
    }
}

static kiln_status fetch_through_registers(kiln_pipelining *l) {
    kiln_program *p = l->p;
    const kiln_stmt_info s = p->stmt.data[l->loop];
    kiln_expr var = kiln_expr_var(p, s.var);
    kiln_status st = kiln_pipeline_expand(l, 2, kiln_pipeline_number(p, l->loop));
    if (st) return st;

    kiln_stmt all = kiln_stmt_create(p, KILN_STMT_SEQ), steady = kiln_stmt_create(p, KILN_STMT_SEQ),
              stores = kiln_stmt_create(p, KILN_STMT_SEQ);
    append_first(l, s.var, kiln_expr_index(p, s.first), all);
    append_fetch(l, s.var, kiln_expr_binary(p, KILN_EXPR_ADD, var, kiln_expr_index(p, 1)), steady,
                 stores);
    kiln_pipeline_append(p, steady, l->work.data, l->work.count, s.var, var);
    kiln_stmt_append(p, steady, stores);
    kiln_stmt_append(p, all,
                     kiln_stmt_for(p, s.var, s.first, s.extent - 1, KILN_LOOP_SERIAL, steady));
    kiln_pipeline_append(p, all, l->work.data, l->work.count, s.var,
                         kiln_expr_index(p, s.first + s.extent - 1));
    kiln_stmt_replace(p, l->loop, all);
    kiln_lower_simplify_below(p, all, NULL);
    return KILN_OK;
}

/* ---- copies that land by themselves ---------------------------------------------------------- */

typedef struct ring {
    uint8_t token, ahead; /* groups in flight while an iteration works */
    int64_t threads[KILN_AXIS_COUNT];
} ring;

static bool is_copy(const kiln_program *p, kiln_expr value) {
    const kiln_expr_node *node = kiln_expr_get(p, value);
    if (node->op == KILN_EXPR_SELECT)
        return is_copy(p, kiln_expr_operand(p, value, 1)) ||
               is_copy(p, kiln_expr_operand(p, value, 2));
    return node->op == KILN_EXPR_LOAD &&
           p->buffer.data[kiln_load_buffer(p, value)].scope == KILN_SCOPE_GLOBAL;
}

uint32_t kiln_pipeline_mark_copies(kiln_program *p, kiln_stmt stmt, uint8_t token) {
    const kiln_stmt_info s = p->stmt.data[stmt];
    uint32_t count = 0;
    if (s.kind == KILN_STMT_STORE && is_copy(p, s.value)) {
        kiln_stmt_set_attribute(p, stmt,
                                (kiln_attribute){.id = KILN_ATTRIBUTE_ASYNC, .row = token});
        count++;
    }
    for (uint32_t i = 0; i < s.child.count; i++)
        count += kiln_pipeline_mark_copies(p, s.child.data[i], token);
    return count;
}

/* Number of threads that fetch. */
static void find_threads(const kiln_program *p, kiln_stmt stmt, ring *r) {
    const kiln_stmt_info *s = &p->stmt.data[stmt];
    if (kiln_stmt_level(p, stmt) == KILN_LEVEL_GROUP)
        r->threads[s->axis] = KILN_MAX(r->threads[s->axis], s->extent);
    for (uint32_t i = 0; i < s->child.count; i++) find_threads(p, s->child.data[i], r);
}

/* A COMMIT or WAIT of all threads that fetch. */
static void append_by_threads(kiln_program *p, kiln_stmt to, const ring *r, kiln_stmt_kind kind) {
    kiln_stmt stmt = kiln_stmt_create(p, kind);
    p->stmt.data[stmt].token = r->token;
    if (kind == KILN_STMT_WAIT) p->stmt.data[stmt].pending = (uint8_t)(r->ahead - 1);
    for (uint32_t a = 1; a < KILN_AXIS_COUNT; a++) {
        if (r->threads[a] == 1) continue;
        kiln_var var = kiln_var_create(p, kiln_str_from(kiln_axes[a].text), 0, r->threads[a] - 1);
        stmt = kiln_stmt_for(p, var, 0, r->threads[a], KILN_LOOP_BIND, stmt);
        p->stmt.data[stmt].axis = (uint8_t)a;
    }
    kiln_stmt_append(p, to, stmt);
}

/* Iterations that fetch, that work, or that do both. */
typedef struct span {
    int64_t first, extent;
    bool works, fetches;
} span;

static void append_span(const kiln_pipelining *l, const ring *r, kiln_stmt to, const span *part) {
    kiln_program *p = l->p;
    const kiln_var loop_var = p->stmt.data[l->loop].var;
    if (part->extent == 0) return;
    const kiln_var var =
        kiln_var_create(p, p->var.data[loop_var].name, part->first, part->first + part->extent - 1);
    const kiln_expr now = kiln_expr_var(p, var);
    const kiln_expr next =
        kiln_expr_binary(p, KILN_EXPR_ADD, now, kiln_expr_index(p, part->works ? r->ahead : 0));
    kiln_stmt body = kiln_stmt_create(p, KILN_STMT_SEQ);
    if (part->works) {
        append_by_threads(p, body, r, KILN_STMT_WAIT);
        kiln_stmt_append(p, body, kiln_stmt_create(p, KILN_STMT_BARRIER));
    }
    if (part->fetches) kiln_pipeline_append(p, body, l->fetch.data, l->fetch.count, loop_var, next);
    append_by_threads(p, body, r, KILN_STMT_COMMIT);
    if (part->works) kiln_pipeline_append(p, body, l->work.data, l->work.count, loop_var, now);
    kiln_stmt_append(p, to,
                     kiln_stmt_for(p, var, part->first, part->extent, KILN_LOOP_SERIAL, body));
}

/* Nesting depth of the pipelines of copies inside the statement. */
static uint8_t depth_of_rings(const kiln_program *p, kiln_stmt stmt) {
    const kiln_attribute *a = kiln_stmt_attribute(p, stmt, KILN_ATTRIBUTE_PIPELINE);
    uint8_t depth = 0;
    for (uint32_t i = 0; i < p->stmt.data[stmt].child.count; i++) {
        const uint8_t inside = depth_of_rings(p, p->stmt.data[stmt].child.data[i]);
        depth = KILN_MAX(depth, inside);
    }
    return (uint8_t)(depth + (a && a->row > 2));
}

static kiln_status fetch_by_copies(kiln_pipelining *l, int64_t stages) {
    kiln_program *p = l->p;
    const kiln_stmt_info s = p->stmt.data[l->loop];
    const int64_t ahead = KILN_MIN(stages - 1, s.extent);
    ring r = {.token = (uint8_t)(depth_of_rings(p, l->loop) - 1), .ahead = (uint8_t)ahead};
    for (uint32_t a = 0; a < KILN_AXIS_COUNT; a++) r.threads[a] = 1;
    uint32_t copies = 0;
    for (uint32_t i = 0; i < l->fetch.count; i++) {
        find_threads(p, l->fetch.data[i], &r);
        copies += kiln_pipeline_mark_copies(p, l->fetch.data[i], r.token);
    }
    if (copies == 0)
        return REFUSE("loop %.*s has %lld stages; more than 2 need fetches that are copies, and "
                      "all of its fetches change the elements",
                      KILN_STR_ARG(p->var.data[s.var].name), (long long)stages);
    if (r.token >= KILN_COPY_TOKENS_MAX)
        return REFUSE("pipelines of copies nested more than %d deep", KILN_COPY_TOKENS_MAX);
    kiln_status st = kiln_pipeline_expand(l, ahead + 1, kiln_pipeline_number(p, l->loop));
    if (st) return st;
    const span both = {s.first, s.extent - ahead, .fetches = true, .works = true},
               last = {s.first + s.extent - ahead, ahead, .works = true};
    kiln_stmt all = kiln_stmt_create(p, KILN_STMT_SEQ);
    /* Unrolled, so that their slots are known to differ. */
    for (int64_t i = 0; i < ahead; i++) {
        const span one = {s.first + i, 1, .fetches = true};
        append_span(l, &r, all, &one);
    }
    append_span(l, &r, all, &both);
    append_span(l, &r, all, &last);
    kiln_stmt_replace(p, l->loop, all);
    kiln_lower_simplify_below(p, all, NULL);
    return KILN_OK;
}

/* ---- loops ----------------------------------------------------------------------------------- */

static kiln_stmt find_loop(const kiln_program *p, kiln_stmt stmt) {
    const kiln_stmt_info *s = &p->stmt.data[stmt];
    if (s->kind == KILN_STMT_FOR && kiln_stmt_attribute(p, stmt, KILN_ATTRIBUTE_PIPELINE))
        return stmt;
    kiln_stmt found = 0;
    for (uint32_t i = 0; i < s->child.count && !found; i++) found = find_loop(p, s->child.data[i]);
    return found;
}

static kiln_status pipeline_loop(kiln_program *p, kiln_stmt loop, const kiln_target *target) {
    const bool copies = target->gpu && target->gpu->capability >= KILN_COPIES_CAPABILITY;
    const uint32_t stages = kiln_stmt_attribute(p, loop, KILN_ATTRIBUTE_PIPELINE)->row;
    const bool has_producer = kiln_stmt_attribute(p, loop, KILN_ATTRIBUTE_PRODUCER);
    kiln_str name = p->var.data[p->stmt.data[loop].var].name;
    kiln_pipelining l = {.p = p,
                         .loop = loop,
                         .made = KILN_ARENA_ARRAY(p->arena, bool, p->buffer.count),
                         .staged = KILN_ARENA_ARRAY(p->arena, bool, p->buffer.count)};
    if (stages > 2 && !copies)
        return REFUSE("loop %.*s has %u stages; more than 2 need asynchronous copies, which the "
                      "target lacks",
                      KILN_STR_ARG(name), stages);
    if (has_producer && (!target->gpu || target->gpu->capability < KILN_TOKENS_CAPABILITY))
        return REFUSE("loop %.*s has a producer, which waits for phases of barriers in shared "
                      "memory; the target has none",
                      KILN_STR_ARG(name));
    if (kiln_stmt_outermost(p, loop, KILN_LEVEL_GROUP))
        return REFUSE("loop %.*s is a pipeline inside of a thread, which fetches for itself alone",
                      KILN_STR_ARG(name));
    if (!find_fetches(&l))
        return REFUSE("loop %.*s is a pipeline, and no statement of it fetches into shared memory",
                      KILN_STR_ARG(name));
    if (has_producer) return kiln_pipeline_by_producer(&l, stages);
    return stages > 2 ? fetch_by_copies(&l, stages) : fetch_through_registers(&l);
}

static kiln_status pipeline_program(kiln_program *p, const kiln_target *target) {
    kiln_status st = KILN_OK;
    for (kiln_stmt loop; !st && p && p->root && (loop = find_loop(p, p->root)) != 0;)
        st = pipeline_loop(p, loop, target);
    return st;
}

kiln_status kiln_lower_pipeline(kiln_lowering *l) {
    kiln_status st = pipeline_program(l->run, l->target);
    return st ? st : pipeline_program(l->prepare, l->target);
}
