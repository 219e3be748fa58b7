#include "compiler-core/ir/loop_shadow.h"

#include <stdio.h>

#include "base/macros.h"
#include "compiler-core/ir/eval.h"

/* ---- findings -------------------------------------------------------------------- */

/* The statement by its block, or by what it writes. */
static void print_stmt(const kiln_program *p, kiln_stmt stmt, kiln_strbuf *out) {
    const kiln_stmt_info *s = &p->stmt.data[stmt];
    if (s->kind == KILN_STMT_BLOCK)
        kiln_strbuf_printf(out, "block %.*s", KILN_STR_ARG(p->block.data[s->block].name));
    else if (s->buffer)
        kiln_strbuf_printf(out, "the %s to %.*s", s->kind == KILN_STMT_COPY ? "copy" : "store",
                           KILN_STR_ARG(p->buffer.data[s->buffer].name));
    else
        kiln_strbuf_text(out, s->kind == KILN_STMT_WAIT ? "a wait" : "a condition");
}

static void print_where(const kiln_checker *w, kiln_strbuf *out) {
    const kiln_program *p = w->in.p;
    kiln_strbuf_text(out, ", ");
    print_stmt(p, w->stmt, out);
    for (kiln_stmt at = p->stmt.data[w->stmt].parent; at; at = p->stmt.data[at].parent) {
        if (p->stmt.data[at].kind != KILN_STMT_FOR) continue;
        kiln_var var = p->stmt.data[at].var;
        kiln_strbuf_printf(out, ", %.*s=%lld", KILN_STR_ARG(p->var.data[var].name),
                           (long long)w->in.var[var]);
    }
}

/* Prints the finding and `what`, and starts the status with both. */
static kiln_status report(const kiln_checker *w, kiln_buffer buffer, const int64_t *index,
                          const char *what, kiln_str other) {
    const kiln_buffer_info *b = &w->in.p->buffer.data[buffer];
    kiln_strbuf text = {0};
    kiln_strbuf_str(&text, b->name);
    kiln_interp_print_index(index, b->shape.rank, &text);
    kiln_strbuf_printf(&text, " %s", what);
    print_where(w, &text);
    kiln_strbuf_str(&text, other);
    kiln_status st = KILN_ERROR(FAILED_PRECONDITION, "%s", text.data);
    kiln_strbuf_deinit(&text);
    return st;
}

kiln_status kiln_checker_finding(const kiln_checker *w, kiln_buffer buffer, const int64_t *index,
                                 const char *what) {
    return report(w, buffer, index, what, KILN_STR(""));
}

/* Variables of the level's loops in that iteration of it. */
static void print_iteration(const kiln_program *p, const kiln_level *level, uint32_t iteration,
                            kiln_strbuf *out) {
    kiln_stmt loop = level->loop;
    int64_t below = 1;
    for (kiln_stmt at = loop; level->is_group && kiln_stmt_level(p, at) == KILN_LEVEL_GROUP;
         at = p->stmt.data[at].child.data[0])
        below *= p->stmt.data[at].extent;
    int64_t rest = iteration;
    do {
        const kiln_stmt_info *s = &p->stmt.data[loop];
        if (level->is_group) below /= s->extent;
        kiln_strbuf_printf(out, "%s%.*s=%lld", loop == level->loop ? "" : ", ",
                           KILN_STR_ARG(p->var.data[s->var].name),
                           (long long)(s->first + rest / below));
        rest %= below;
        loop = s->child.data[0];
    } while (level->is_group && below > 1);
}

static kiln_status race(const kiln_checker *w, kiln_buffer buffer, const int64_t *index,
                        uint32_t depth, bool is_write, const kiln_touch *t) {
    const kiln_program *p = w->in.p;
    const kiln_level *level = &w->level[depth];
    bool is_last = t->iteration != level->iteration;
    const kiln_buffer touched = is_last ? t->buffer : t->other_buffer;
    kiln_strbuf what = {0}, other = {0};
    if (touched != buffer)
        kiln_strbuf_printf(&what, "lies on bytes of %.*s, and one of them ",
                           KILN_STR_ARG(p->buffer.data[touched].name));
    kiln_strbuf_printf(&what, "is %s ", is_write ? "written and touched" : "read and written");
    if (level->is_group)
        kiln_strbuf_text(&what, "by several threads without a barrier between them");
    else
        kiln_strbuf_printf(&what, "in several iterations of concurrent loop %.*s",
                           KILN_STR_ARG(p->var.data[p->stmt.data[level->loop].var].name));
    kiln_strbuf_text(&other, "; the other access: ");
    print_stmt(p, is_last ? t->stmt : t->other_stmt, &other);
    kiln_strbuf_text(&other, ", ");
    print_iteration(p, level, is_last ? t->iteration : t->other_iteration, &other);
    kiln_status st = report(w, buffer, index, what.data, kiln_strbuf_view(&other));
    kiln_strbuf_deinit(&what);
    kiln_strbuf_deinit(&other);
    return st;
}

/* ---- threads --------------------------------------------------------------------- */

/* The unit that executes the statement, where threads are units; else all of them. */
static kiln_unit unit_of_touch(const kiln_checker *w, const kiln_level *level) {
    return w->has_units && level->is_group ? kiln_stmt_unit(w->in.p, w->stmt) : 0;
}

uint32_t kiln_checker_touches(const kiln_checker *w) {
    return 2 * (w->has_units ? KILN_UNIT_COUNT : 1);
}

/* Whether a barrier, or a token popped since, orders the touch before now. */
static bool is_ordered(const kiln_checker *w, const kiln_touch *t, const kiln_level *now) {
    return t->instance != now->instance ||
           (w->has_units && now->is_group && t->time <= w->returned[unit_of_touch(w, now)]);
}

static bool conflicts(const kiln_checker *w, const kiln_touch *t, const kiln_level *now) {
    return !is_ordered(w, t, now) && (t->other_stmt || t->iteration != now->iteration);
}

static void remember(const kiln_checker *w, kiln_touch *t, const kiln_level *now,
                     kiln_buffer buffer) {
    const kiln_unit unit = unit_of_touch(w, now);
    if (is_ordered(w, t, now)) {
        t->other_stmt = 0;
    } else if (t->iteration != now->iteration) {
        t->other_iteration = t->iteration;
        t->other_stmt = t->stmt;
        t->other_buffer = t->buffer;
    }
    t->instance = now->instance;
    t->iteration = now->iteration;
    t->stmt = w->stmt;
    t->buffer = buffer;
    t->time = w->clock[unit].time[unit];
}

/* `touched`: [level][unit, where there are any][read, write] of the element, or of one of its
 * cells.
 */
static kiln_status touch_by_thread(kiln_checker *w, kiln_buffer buffer, const int64_t *index,
                                   kiln_touch *touched, bool is_write) {
    const uint32_t touches = kiln_checker_touches(w);
    for (uint32_t d = w->buffer[buffer].home_depth; d < w->depth; d++) {
        const kiln_level *level = &w->level[d];
        kiln_touch *reads = &touched[d * touches + 2 * unit_of_touch(w, level)];
        kiln_touch *writes = reads + 1;
        const kiln_touch *earlier = conflicts(w, writes, level)              ? writes
                                    : is_write && conflicts(w, reads, level) ? reads
                                                                             : NULL;
        if (earlier) return race(w, buffer, index, d, is_write, earlier);
        remember(w, is_write ? writes : reads, level, buffer);
    }
    return KILN_OK;
}

static kiln_status touch_by_threads(kiln_checker *w, kiln_buffer buffer, const int64_t *index,
                                    size_t element, bool is_write) {
    const kiln_shadow *sh = &w->buffer[buffer];
    const size_t levels = (size_t)w->depth_max * kiln_checker_touches(w);
    kiln_status st = KILN_OK;
    if (!sh->first_cell)
        return touch_by_thread(w, buffer, index, sh->touched + element * levels, is_write);
    for (uint32_t c = 0; c < sh->cells && !st; c++)
        st = touch_by_thread(w, buffer, index, w->touched + (sh->first_cell[element] + c) * levels,
                             is_write);
    return st;
}

/* ---- units ----------------------------------------------------------------------- */

static kiln_status touch_by_unit(kiln_checker *w, kiln_buffer buffer, const int64_t *index,
                                 size_t element, bool is_write) {
    kiln_unit unit = kiln_stmt_unit(w->in.p, w->stmt);
    kiln_unit_touch *touch = &w->buffer[buffer].by_unit[element * KILN_UNIT_COUNT];
    for (uint32_t u = 0; u < KILN_UNIT_COUNT; u++)
        for (uint32_t wrote = !is_write; wrote < 2; wrote++) {
            if (u == unit || touch[u].time[wrote] <= w->clock[unit].time[u]) continue;
            kiln_strbuf other = {0};
            kiln_strbuf_printf(&other, "; the other access: ");
            print_stmt(w->in.p, touch[u].stmt[wrote], &other);
            kiln_strbuf_printf(&other, ", unit %s", kiln_unit_word[u]);
            char what[96];
            snprintf(what, sizeof what, "is %s by unit %s and no token orders that",
                     is_write ? "written" : "read", kiln_unit_word[unit]);
            kiln_status st = report(w, buffer, index, what, kiln_strbuf_view(&other));
            kiln_strbuf_deinit(&other);
            return st;
        }
    touch[unit].time[is_write] = w->clock[unit].time[unit];
    touch[unit].stmt[is_write] = w->stmt;
    return KILN_OK;
}

kiln_status kiln_checker_drained(const kiln_checker *w) {
    for (uint32_t from = 0; from < KILN_UNIT_COUNT; from++)
        for (uint32_t to = 0; to < KILN_UNIT_COUNT; to++)
            if (w->queue[from][to].taken != w->queue[from][to].sent.count)
                return KILN_ERROR(FAILED_PRECONDITION, "%u tokens from %s to %s are never popped",
                                  w->queue[from][to].sent.count - w->queue[from][to].taken,
                                  kiln_unit_word[from], kiln_unit_word[to]);
    return KILN_OK;
}

/* ---- elements -------------------------------------------------------------------- */

/* The element's place among all copies of the buffer, or -1 when the index lies outside. */
static int64_t element_of(const kiln_checker *w, kiln_buffer buffer, const int64_t *index) {
    const kiln_shadow *sh = &w->buffer[buffer];
    int64_t offset = kiln_interp_offset(&sh->tensor.shape, index);
    size_t copy = sh->copies > 1 ? w->thread : 0;
    return offset < 0 ? -1 : offset + (int64_t)(copy * sh->count);
}

/* Whether the two elements are one, or lie on the same bytes. */
static bool share_bytes(const kiln_checker *w, kiln_buffer a, size_t a_element, kiln_buffer b,
                        size_t b_element) {
    const kiln_shadow *in_a = &w->buffer[a], *in_b = &w->buffer[b];
    if (a == b) return a_element == b_element;
    return in_a->first_cell && in_b->first_cell &&
           in_a->first_cell[a_element] < in_b->first_cell[b_element] + in_b->cells &&
           in_b->first_cell[b_element] < in_a->first_cell[a_element] + in_a->cells;
}

/* A temp that was written later on the bytes of the element; 0: none. */
static kiln_buffer find_intruder(const kiln_checker *w, kiln_buffer buffer, size_t element) {
    const kiln_shadow *sh = &w->buffer[buffer];
    for (uint32_t c = 0; sh->first_cell && c < sh->cells; c++)
        if (w->holder[sh->first_cell[element] + c] != buffer)
            return w->holder[sh->first_cell[element] + c];
    return 0;
}

/* Adds `by` to the copies that are in flight to the element. */
static void count_coming(kiln_checker *w, kiln_buffer buffer, size_t element, int by) {
    const kiln_shadow *sh = &w->buffer[buffer];
    if (!sh->first_cell) sh->coming[element] += (uint32_t)by;
    for (uint32_t c = 0; sh->first_cell && c < sh->cells; c++)
        w->coming[sh->first_cell[element] + c] += (uint32_t)by;
}

/* Whether copies are in flight to bytes of the element. */
static bool is_coming(const kiln_checker *w, const kiln_shadow *sh, size_t element) {
    bool coming = !sh->first_cell && sh->coming[element] > 0;
    for (uint32_t c = 0; sh->first_cell && c < sh->cells; c++)
        coming |= w->coming[sh->first_cell[element] + c] > 0;
    return coming;
}

/* A copy in flight that forbids the access; NULL: none. */
static const kiln_flight *find_flight(const kiln_checker *w, kiln_buffer buffer, size_t element,
                                      bool is_write) {
    const kiln_shadow *sh = &w->buffer[buffer];
    if (!is_coming(w, sh, element) && !(is_write && sh->going[element])) return NULL;
    for (uint32_t i = 0; i < w->flight.count; i++) {
        const kiln_flight *f = &w->flight.data[i];
        if (share_bytes(w, f->to, f->to_element, buffer, element) ||
            (is_write && f->from == buffer && f->from_element == element))
            return f;
    }
    return NULL;
}

static kiln_status touch_element(kiln_checker *w, kiln_buffer buffer, const int64_t *index,
                                 size_t element, bool is_write) {
    const kiln_flight *f = find_flight(w, buffer, element, is_write);
    if (f) {
        kiln_strbuf other = {0};
        kiln_strbuf_text(&other, "; the other access: ");
        print_stmt(w->in.p, f->stmt, &other);
        kiln_strbuf_printf(&other, " of thread %u", f->thread);
        kiln_status st = report(w, buffer, index,
                                is_write ? "is written while a copy of it is in flight"
                                         : "is read while a copy to it is in flight",
                                kiln_strbuf_view(&other));
        kiln_strbuf_deinit(&other);
        return st;
    }
    kiln_status st = touch_by_threads(w, buffer, index, element, is_write);
    return !st && w->has_units ? touch_by_unit(w, buffer, index, element, is_write) : st;
}

static kiln_status overwritten(const kiln_checker *w, kiln_buffer buffer, const int64_t *index,
                               kiln_buffer by) {
    char what[160];
    snprintf(what, sizeof what, "is read and %.*s was written on its bytes",
             KILN_STR_ARG(w->in.p->buffer.data[by].name));
    return kiln_checker_finding(w, buffer, index, what);
}

kiln_status kiln_checker_load(kiln_interp *in, kiln_buffer buffer, const int64_t *index,
                              kiln_scalar *out_value) {
    kiln_checker *w = in->context;
    kiln_shadow *sh = &w->buffer[buffer];
    int64_t element = element_of(w, buffer, index);
    if (element < 0) return kiln_checker_finding(w, buffer, index, "is read and lies outside");
    if (sh->is_away) return kiln_checker_finding(w, buffer, index, "is read outside of its alloc");
    kiln_status st = touch_element(w, buffer, index, (size_t)element, false);
    if (!st && !sh->is_given && sh->written_in[element] != sh->life)
        st = kiln_checker_finding(w, buffer, index, "is read and was never written");
    const kiln_buffer intruder = st ? 0 : find_intruder(w, buffer, (size_t)element);
    if (intruder) st = overwritten(w, buffer, index, intruder);
    *out_value = kiln_scalar_load(sh->tensor.dtype, sh->tensor.data, (size_t)element);
    return st;
}

static kiln_status begin_write(kiln_checker *w, kiln_buffer buffer, const int64_t *index,
                               int64_t *out_element) {
    *out_element = element_of(w, buffer, index);
    if (*out_element < 0)
        return kiln_checker_finding(w, buffer, index, "is written and lies outside");
    if (w->buffer[buffer].is_away)
        return kiln_checker_finding(w, buffer, index, "is written outside of its alloc");
    return touch_element(w, buffer, index, (size_t)*out_element, true);
}

static void write_element(kiln_checker *w, kiln_buffer buffer, size_t element, kiln_scalar value) {
    kiln_shadow *sh = &w->buffer[buffer];
    sh->written_in[element] = sh->life;
    for (uint32_t c = 0; sh->first_cell && c < sh->cells; c++)
        w->holder[sh->first_cell[element] + c] = buffer;
    kiln_scalar_store(sh->tensor.dtype, sh->tensor.data, element, value);
}

kiln_status kiln_checker_store(kiln_checker *w, kiln_buffer buffer, const int64_t *index,
                               kiln_scalar value) {
    int64_t element;
    kiln_status st = begin_write(w, buffer, index, &element);
    if (!st) write_element(w, buffer, (size_t)element, value);
    return st;
}

/* ---- copies ---------------------------------------------------------------------- */

kiln_status kiln_checker_copy(kiln_checker *w, const kiln_stmt_info *s, const int64_t *index,
                              const int64_t *from_index, kiln_scalar value) {
    kiln_buffer from = kiln_expr_get(w->in.p, s->value)->payload.id;
    int64_t element;
    kiln_status st = begin_write(w, s->buffer, index, &element);
    if (st) return st;
    kiln_flight f = {
        .stmt = w->stmt,
        .to = s->buffer,
        .from = from,
        .to_element = (size_t)element,
        .from_element = (size_t)element_of(w, from, from_index),
        .value = value,
        .thread = w->thread,
        .group = w->committed[w->thread][s->token],
        .token = s->token,
    };
    kiln_vec_push_in(w->arena, &w->flight, f);
    count_coming(w, f.to, f.to_element, 1);
    w->buffer[f.from].going[f.from_element]++;
    return KILN_OK;
}

void kiln_checker_commit(kiln_checker *w, uint8_t token) { w->committed[w->thread][token]++; }

/* The element changes at the wait for its copy. */
static kiln_status land(kiln_checker *w, const kiln_flight *f) {
    const kiln_shadow *sh = &w->buffer[f->to];
    const kiln_shape *shape = &sh->tensor.shape;
    int64_t index[KILN_RANK_MAX], rest = (int64_t)(f->to_element % sh->count);
    for (uint32_t d = shape->rank; d-- > 0; rest /= shape->dim[d]) index[d] = rest % shape->dim[d];
    kiln_status st = touch_element(w, f->to, index, f->to_element, true);
    if (!st) write_element(w, f->to, f->to_element, f->value);
    return st;
}

/* Moves a copy that is waited for from those in flight to those that land. */
static void begin_landing(kiln_checker *w, const kiln_flight *f) {
    count_coming(w, f->to, f->to_element, -1);
    w->buffer[f->from].going[f->from_element]--;
    kiln_vec_push_in(w->arena, &w->landing, *f);
}

kiln_status kiln_checker_wait(kiln_checker *w, uint8_t token, uint32_t pending) {
    uint32_t kept = 0;
    w->landing.count = 0;
    for (uint32_t i = 0; i < w->flight.count; i++) {
        const kiln_flight f = w->flight.data[i];
        if (f.thread == w->thread && f.token == token &&
            f.group + pending < w->committed[w->thread][token])
            begin_landing(w, &f);
        else
            w->flight.data[kept++] = f;
    }
    w->flight.count = kept;
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; i < w->landing.count && !st; i++) st = land(w, &w->landing.data[i]);
    return st;
}

kiln_status kiln_checker_landed(kiln_checker *w) {
    if (w->flight.count == 0) return KILN_OK;
    const kiln_flight *f = &w->flight.data[0];
    return KILN_ERROR(FAILED_PRECONDITION, "a copy to %.*s is never waited for (thread %u)",
                      KILN_STR_ARG(w->in.p->buffer.data[f->to].name), f->thread);
}

/* ---- tokens ---------------------------------------------------------------------- */

/* Copies that the unit's threads have begun. */
static kiln_status land_of_unit(kiln_checker *w, kiln_unit unit) {
    const kiln_stmt here = w->stmt;
    kiln_status st = KILN_OK;
    uint32_t kept = 0;
    w->landing.count = 0;
    for (uint32_t i = 0; i < w->flight.count; i++) {
        const kiln_flight f = w->flight.data[i];
        if (kiln_stmt_unit(w->in.p, f.stmt) == unit)
            begin_landing(w, &f);
        else
            w->flight.data[kept++] = f;
    }
    w->flight.count = kept;
    for (uint32_t i = 0; i < w->landing.count && !st; i++) {
        w->stmt = w->landing.data[i].stmt;
        if (w->depth) w->level[w->depth - 1].iteration = w->landing.data[i].thread;
        st = land(w, &w->landing.data[i]);
    }
    w->stmt = here;
    return st;
}

static kiln_status check_number(const kiln_stmt_info *s, int64_t number, uint32_t wanted) {
    if (number < 0 || number == wanted) return KILN_OK;
    return KILN_ERROR(FAILED_PRECONDITION, "token %u from %s to %s says that it is number %lld",
                      wanted, kiln_unit_word[s->from], kiln_unit_word[s->to], (long long)number);
}

kiln_status kiln_checker_push(kiln_checker *w, const kiln_stmt_info *s, int64_t number) {
    kiln_status st = check_number(s, number, (uint32_t)w->queue[s->from][s->to].sent.count);
    if (!st) st = land_of_unit(w, (kiln_unit)s->from);
    if (st) return st;
    kiln_vec_push_in(w->arena, &w->queue[s->from][s->to].sent, w->clock[s->from]);
    w->clock[s->from].time[s->from]++;
    return KILN_OK;
}

kiln_status kiln_checker_pop(kiln_checker *w, const kiln_stmt_info *s, int64_t number) {
    kiln_status st = check_number(s, number, w->queue[s->from][s->to].taken);
    if (st) return st;
    if (w->queue[s->from][s->to].taken == w->queue[s->from][s->to].sent.count)
        return KILN_ERROR(FAILED_PRECONDITION,
                          "unit %s waits for a token of %s that was not pushed before: deadlock",
                          kiln_unit_word[s->to], kiln_unit_word[s->from]);
    const kiln_clock *sent = &w->queue[s->from][s->to].sent.data[w->queue[s->from][s->to].taken++];
    for (uint32_t u = 0; u < KILN_UNIT_COUNT; u++) {
        uint32_t *known = u == s->to ? &w->returned[u] : &w->clock[s->to].time[u];
        *known = KILN_MAX(*known, sent->time[u]);
    }
    return KILN_OK;
}

void kiln_checker_meet(kiln_checker *w) {
    for (uint32_t u = 0; u < KILN_UNIT_COUNT; u++) {
        const uint32_t now = w->clock[u].time[u];
        for (uint32_t v = 0; v < KILN_UNIT_COUNT; v++)
            if (v != u) w->clock[v].time[u] = now;
        w->returned[u] = now;
        w->clock[u].time[u]++;
    }
}

kiln_status kiln_checker_end(kiln_checker *w) {
    kiln_status st = kiln_checker_drained(w);
    kiln_checker_meet(w);
    for (uint32_t from = 0; from < KILN_UNIT_COUNT; from++)
        for (uint32_t to = 0; to < KILN_UNIT_COUNT; to++)
            w->queue[from][to].sent.count = w->queue[from][to].taken = 0;
    return st;
}
