/* Memory touched while loops from some depth inwards run: distinct elements, cache lines,
 * consecutive bytes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/integer.h"
#include "base/macros.h"
#include "compiler-core/facts/facts.h"
#include "compiler-core/facts/nest.h"

#define PAGE_BYTES 4096

/* ---- where temporaries live ------------------------------------------------------------------ */

/* The loop of the statement's path at or directly around `home`. */
static uint32_t loop_around(const kiln_facts *facts, const kiln_facts_statement *s,
                            kiln_stmt home) {
    uint32_t k = s->depth - 1;
    while (k > 0 && !kiln_stmt_is_inside(facts->p, home, facts->loop[s->path[k]].stmt)) k--;
    return s->path[k];
}

static void find_homes(kiln_facts *facts, kiln_arena *arena) {
    const kiln_program *p = facts->p;
    kiln_stmt *home = KILN_ARENA_ARRAY(arena, kiln_stmt, p->buffer.count);
    for (uint32_t i = 0; i < facts->statement_count; i++) {
        const kiln_facts_statement *s = &facts->statement[i];
        for (uint32_t k = 0; k < s->access_count; k++) {
            kiln_stmt *at = &home[s->access[k].buffer];
            *at = kiln_home_add(p, *at, s->stmt);
        }
    }
    for (uint32_t i = 0; i < facts->statement_count; i++) {
        const kiln_facts_statement *s = &facts->statement[i];
        for (uint32_t k = 0; k < s->access_count; k++) {
            kiln_buffer b = s->access[k].buffer;
            if (facts->home[b] != KILN_FACTS_NO_HOME) continue;
            kiln_stmt outside = kiln_home_outside_vectors(p, home[b]);
            /* A vectorized loop is outside its temps' home. */
            if (outside != home[b]) outside = p->stmt.data[outside].parent;
            facts->home[b] =
                p->buffer.data[b].role == KILN_ROLE_TEMP ? loop_around(facts, s, outside) : 0;
        }
    }
}

/* The level of the path whose loops are inside the home. */
static uint32_t level_inside(const kiln_facts_statement *s, uint32_t home) {
    uint32_t level = 0;
    while (level < s->depth && s->path[level] != home) level++;
    return KILN_MIN(level + 1, s->depth);
}

/* ---- elements and lines ---------------------------------------------------------------------- */

/* Measures one access while loops are added from the inside outwards. */
typedef struct measurement {
    kiln_spread spread[KILN_RANK_MAX];
    int64_t values[KILN_RANK_MAX], span[KILN_RANK_MAX];
    uint64_t moving; /* kiln_uses_var of what the indices depend on */
} measurement;

static void clip(const kiln_shape *shape, uint32_t d, measurement *m) {
    if (m->spread[d].any) m->values[d] = m->span[d] = shape->dim[d];
    m->values[d] = KILN_MIN(m->values[d], shape->dim[d]);
    m->span[d] = KILN_MIN(m->span[d], shape->dim[d]);
}

static void begin(const kiln_facts_access *a, const kiln_shape *shape, measurement *m) {
    m->moving = 0;
    for (uint32_t d = 0; d < a->rank; d++) {
        for (uint32_t i = 0; i < a->index[d].term_count; i++)
            m->moving |= kiln_uses_var(a->index[d].term[i].var);
        m->spread[d].count = 0;
        m->spread[d].any = a->index[d].data;
        m->values[d] = m->span[d] = 1;
        clip(shape, d, m);
    }
}

/* Adds one more loop; false when the access does not depend on it. */
static bool run_loop(const kiln_facts_access *a, kiln_var var, const kiln_shape *shape,
                     measurement *m) {
    bool moved = false;
    if (!(m->moving & kiln_uses_var(var))) return false;
    for (uint32_t d = 0; d < a->rank; d++) {
        const kiln_facts_index *form = &a->index[d];
        bool moves = false;
        for (uint32_t i = 0; i < form->term_count; i++)
            if (form->term[i].var == var) {
                kiln_spread_add(&m->spread[d], &form->term[i]);
                moves = true;
            }
        if (!moves) continue;
        kiln_spread_measure(&m->spread[d], &m->values[d], &m->span[d]);
        clip(shape, d, m);
        moved = true;
    }
    return moved;
}

typedef struct piece {
    int64_t extent, values, span; /* of the physical dimension; touched of it */
} piece;

/* The touched part of physical dimension `at`, for regions that begin at blocks. */
static piece piece_of(const kiln_layout *layout, const kiln_shape *shape, uint32_t at,
                      const measurement *m) {
    if (layout->piece_count == 0) return (piece){shape->dim[at], m->values[at], m->span[at]};
    const kiln_layout_piece *cut = &layout->piece[at];
    int64_t divisor = cut->divisor, dim = shape->dim[cut->dim];
    int64_t extent = cut->modulus ? cut->modulus : (dim + divisor - 1) / divisor;
    int64_t span = KILN_MIN(extent, (m->span[cut->dim] + divisor - 1) / divisor);
    int64_t values = divisor == 1 ? m->values[cut->dim] : span;
    if (cut->xor_modulus) extent = KILN_ALIGN_UP(extent, cut->xor_modulus);
    return (piece){extent + cut->pitch, KILN_MIN(values, span), span};
}

typedef struct extent_in_memory {
    double lines, run, crowding;
} extent_in_memory;

/* Multiples of a stride use only the sets that its largest power of two allows. Beyond a page the
 * system chooses addresses. */
static double crowding_of(double stride, double run, double line_bytes) {
    double sparse = 1, filled = run > line_bytes ? run : line_bytes;
    for (int64_t s = (int64_t)stride; s % 2 == 0 && sparse < PAGE_BYTES; s /= 2) sparse *= 2;
    return sparse > filled ? sparse / filled : 1;
}

/* Consecutive bytes, and lines when each such run begins a line. */
static extent_in_memory measure_lines(const kiln_layout *layout, const kiln_shape *shape,
                                      uint32_t element_bytes, double line_bytes,
                                      const measurement *m) {
    uint32_t count = layout->piece_count ? layout->piece_count : shape->rank;
    double run = element_bytes, runs = 1, stride = element_bytes, crowding = PAGE_BYTES;
    bool consecutive = true;
    for (uint32_t at = count; at-- > 0;) {
        piece one = piece_of(layout, shape, at, m);
        if (one.extent == 1) continue;
        double gap = (double)one.span / (double)one.values;
        if (consecutive && gap * run <= line_bytes) { /* gaps within a line cost the line */
            run *= (double)one.span;
            consecutive = one.span == one.extent;
        } else {
            runs *= (double)one.values;
            if (one.values > 1) crowding = fmin(crowding, crowding_of(stride, run, line_bytes));
            consecutive = false;
        }
        stride *= (double)one.extent;
    }
    double lines = ceil(run / line_bytes);
    return (extent_in_memory){runs * lines, run, runs > 1 ? crowding : 1};
}

static double element_count(const kiln_facts_access *a, const measurement *m) {
    double count = 1;
    for (uint32_t d = 0; d < a->rank; d++) count *= (double)m->values[d];
    return count;
}

/* Whether two accesses differ only in their offsets, as the loads of a stencil: then their
 * footprints have the same size. */
static bool moves_alike(const kiln_facts_access *a, const kiln_facts_access *b) {
    bool alike = a->buffer == b->buffer;
    for (uint32_t d = 0; d < a->rank && alike; d++) {
        const kiln_facts_index *one = &a->index[d], *other = &b->index[d];
        alike = one->data == other->data && one->term_count == other->term_count;
        for (uint32_t i = 0; i < one->term_count && alike; i++)
            alike = one->term[i].var == other->term[i].var &&
                    one->term[i].divisor == other->term[i].divisor &&
                    one->term[i].extent == other->term[i].extent &&
                    one->term[i].coefficient == other->term[i].coefficient;
    }
    return alike;
}

static void share_measures(const kiln_facts_access *from, kiln_facts_access *to) {
    to->home_level = from->home_level;
    to->elements = from->elements;
    to->lines = from->lines;
    to->run = from->run;
    to->crowding = from->crowding;
}

static void measure_access(kiln_facts *facts, const kiln_facts_statement *s, kiln_facts_access *a,
                           kiln_arena *arena) {
    const kiln_buffer_info *info = &facts->p->buffer.data[a->buffer];
    const kiln_shape *shape = &facts->shape[a->buffer];
    double *table = KILN_ARENA_ARRAY(arena, double, 4 * (s->depth + 1));
    a->elements = table;
    a->lines = table + s->depth + 1;
    a->run = a->lines + s->depth + 1;
    a->crowding = a->run + s->depth + 1;
    bool temp = info->role == KILN_ROLE_TEMP && !s->prepare;
    a->home_level = temp ? level_inside(s, facts->home[a->buffer]) : 0;
    measurement m;
    begin(a, shape, &m);
    for (uint32_t level = s->depth + 1; level-- > 0;) {
        bool moved = level < s->depth && level >= a->home_level &&
                     run_loop(a, facts->loop[s->path[level]].var, shape, &m);
        if (level < s->depth && !moved) {
            a->elements[level] = a->elements[level + 1];
            a->lines[level] = a->lines[level + 1];
            a->run[level] = a->run[level + 1];
            a->crowding[level] = a->crowding[level + 1];
            continue;
        }
        a->elements[level] = element_count(a, &m);
        extent_in_memory touched =
            measure_lines(&info->layout, shape, a->element_bytes, facts->line_bytes, &m);
        a->lines[level] = touched.lines;
        a->run[level] = touched.run;
        a->crowding[level] = touched.crowding;
    }
}

/* A temporary in memory has the size of the region that one execution of its home touches. */
static void cut_shape(kiln_facts *facts, const kiln_facts_statement *s, const kiln_facts_access *a,
                      bool first) {
    const kiln_buffer_info *info = &facts->p->buffer.data[a->buffer];
    measurement m;
    begin(a, &info->shape, &m);
    for (uint32_t level = level_inside(s, facts->home[a->buffer]); level < s->depth; level++)
        (void)run_loop(a, facts->loop[s->path[level]].var, &info->shape, &m);
    kiln_shape *shape = &facts->shape[a->buffer];
    for (uint32_t d = 0; d < a->rank; d++)
        shape->dim[d] = first ? m.span[d] : KILN_MAX(shape->dim[d], m.span[d]);
}

static void cut_shapes(kiln_facts *facts, kiln_arena *arena) {
    bool *cut = KILN_ARENA_ARRAY(arena, bool, facts->p->buffer.count);
    for (uint32_t i = 0; i < facts->statement_count; i++) {
        const kiln_facts_statement *s = &facts->statement[i];
        for (uint32_t k = 0; k < s->access_count && !s->prepare; k++) {
            kiln_buffer b = s->access[k].buffer;
            if (facts->p->buffer.data[b].role != KILN_ROLE_TEMP) continue;
            if (k > 0 && moves_alike(&s->access[k - 1], &s->access[k])) continue;
            cut_shape(facts, s, &s->access[k], !cut[b]);
            cut[b] = true;
        }
    }
}

/* ---- loops ----------------------------------------------------------------------------------- */

/* Accesses of one buffer share memory: the largest of several below one loop counts. */
typedef struct touched {
    double all, body, crowd;
} touched;

static void touch(const kiln_facts_statement *s, const kiln_facts_access *a, touched *by_loop) {
    for (uint32_t k = 0; k < s->depth; k++) {
        touched *t = &by_loop[s->path[k]];
        t->all = KILN_MAX(t->all, a->lines[k]);
        t->body = KILN_MAX(t->body, a->lines[k + 1]);
        t->crowd = KILN_MAX(t->crowd, a->lines[k + 1] * a->crowding[k + 1]);
    }
}

static void add_touched(kiln_facts *facts, kiln_buffer buffer, touched *by_loop) {
    bool any = false;
    for (uint32_t i = 0; i < facts->statement_count; i++) {
        const kiln_facts_statement *s = &facts->statement[i];
        for (uint32_t k = 0; k < s->access_count && !s->prepare; k++)
            if (s->access[k].buffer == buffer && s->access[k].in_memory) {
                touch(s, &s->access[k], by_loop);
                any = true;
            }
    }
    if (!any) return;
    double line_bytes = facts->line_bytes;
    facts->bytes += by_loop[0].all * line_bytes;
    for (uint32_t l = 0; l < facts->loop_count; l++) {
        facts->loop[l].bytes += by_loop[l].all * line_bytes;
        facts->loop[l].body_bytes += by_loop[l].body * line_bytes;
        facts->loop[l].body_crowd += by_loop[l].crowd * line_bytes;
    }
    memset(by_loop, 0, facts->loop_count * sizeof *by_loop);
}

/* ---- lanes ----------------------------------------------------------------------------------- */

int64_t kiln_facts_stride(const kiln_facts *facts, const kiln_facts_access *access, kiln_var var) {
    int64_t step[KILN_RANK_MAX] = {0};
    bool moves = false;
    for (uint32_t d = 0; d < access->rank; d++)
        for (uint32_t i = 0; i < access->index[d].term_count; i++) {
            const kiln_form_term *term = &access->index[d].term[i];
            if (term->var != var || term->divisor != 1) continue;
            step[d] += llabs(term->coefficient);
            moves = true;
        }
    if (!moves) return 0;
    const kiln_buffer_info *info = &facts->p->buffer.data[access->buffer];
    return kiln_layout_offset(&info->layout, &facts->shape[access->buffer], step);
}

static void find_lane_strides(kiln_facts *facts, const kiln_facts_statement *s) {
    for (uint32_t k = s->depth; k-- > 0;) {
        const kiln_facts_loop *loop = &facts->loop[s->path[k]];
        if (loop->kind != KILN_LOOP_VECTORIZE || loop->extent < 2) continue;
        for (uint32_t i = 0; i < s->access_count; i++)
            s->access[i].lane_stride = kiln_facts_stride(facts, &s->access[i], loop->var);
        return;
    }
}

void kiln_facts_measure(kiln_facts *facts, kiln_arena *arena) {
    uint32_t buffer_count = facts->p->buffer.count;
    facts->home = KILN_ARENA_ARRAY(arena, uint32_t, buffer_count);
    facts->shape = KILN_ARENA_ARRAY(arena, kiln_shape, buffer_count);
    for (kiln_buffer b = 1; b < buffer_count; b++) {
        facts->home[b] = KILN_FACTS_NO_HOME;
        facts->shape[b] = facts->p->buffer.data[b].shape;
    }
    find_homes(facts, arena);
    cut_shapes(facts, arena);
    for (uint32_t i = 0; i < facts->statement_count; i++) {
        const kiln_facts_statement *s = &facts->statement[i];
        for (uint32_t k = 0; k < s->access_count && !s->prepare; k++) {
            if (k > 0 && moves_alike(&s->access[k - 1], &s->access[k]))
                share_measures(&s->access[k - 1], &s->access[k]);
            else
                measure_access(facts, s, &s->access[k], arena);
        }
        if (!s->prepare) find_lane_strides(facts, s);
    }
    touched *by_loop = KILN_ARENA_ARRAY(arena, touched, facts->loop_count);
    for (kiln_buffer b = 1; b < buffer_count; b++) add_touched(facts, b, by_loop);
}
