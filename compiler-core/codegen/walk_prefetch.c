/* Prefetching: a loop with the attribute `prefetch` of BUFFER fetches, a share in each iteration,
 * what BUFFER's reader will need when the loops that use the same part of it again and again are
 * done.
 *
 *     for panel:            <- the next part: the buffer's offset depends on it
 *       for tile:           <- reuse: it does not
 *         for step:         <- annotated: reads the part from its start to its end
 *
 * The part of panel + 1 is split over all iterations of tile and step. It is at hand in the second
 * cache when panel + 1 begins, and memory is kept busy evenly. */
#include "base/check.h"
#include "compiler-core/codegen/walk.h"
#include "compiler-core/lower/pass.h"

#define LOOPS_DEEP 16
#define LINES_MAX 8 /* a share larger than this is no prefetch but a copy */

typedef struct reader {
    kiln_buffer buffer;
    kiln_expr load; /* 0: none found */
} reader;

static void find_load(kiln_program *p, kiln_stmt stmt, kiln_expr load, void *context) {
    reader *r = context;
    (void)p;
    (void)stmt;
    r->load = load;
}

static void find_reader(kiln_program *p, kiln_stmt stmt, reader *r) {
    kiln_lower_visit_loads(p, stmt, r->buffer, find_load, r);
    const kiln_stmt_info s = p->stmt.data[stmt];
    for (uint32_t i = 0; i < s.child.count && !r->load; i++) find_reader(p, s.child.data[i], r);
}

/* The part that is fetched: where it starts, as terms of serial loops, and its size. */
typedef struct stream_part {
    kiln_affine start;
    int64_t span;  /* elements */
    int64_t turns; /* iterations over which it is split */
    uint32_t turn_count;
    struct {
        kiln_var var;
        int64_t first, weight; /* turn = sum of (var - first) * weight */
    } turn[LOOPS_DEEP];
} stream_part;

/* Finds the loops of reuse and the loop that goes to the next part. */
static bool find_part(kiln_program *p, kiln_stmt at, const kiln_affine *offset, stream_part *out) {
    bool reused = false;
    kiln_stmt next = at;
    int64_t stride = 0;
    *out = (stream_part){.start = *offset, .turns = 1};
    for (;; next = p->stmt.data[next].parent) {
        if (!next) return false;
        const kiln_stmt_info *s = &p->stmt.data[next];
        if (s->kind != KILN_STMT_FOR || s->extent <= 1) continue;
        stride = kiln_affine_coefficient(p, offset, s->var);
        if (stride && reused) break;
        reused |= !stride;
        if (out->turn_count == LOOPS_DEEP || s->loop_kind != KILN_LOOP_SERIAL) return false;
        out->turn[out->turn_count].var = s->var;
        out->turn[out->turn_count].first = s->first;
        out->turn[out->turn_count++].weight = out->turns;
        out->turns *= s->extent;
    }
    out->start.constant += stride;
    out->start.term_count = 0;
    out->span = 1;
    for (uint32_t i = 0; i < offset->term_count; i++) {
        const kiln_expr_node *node = kiln_expr_get(p, offset->term[i]);
        if (node->op != KILN_EXPR_VAR) return false;
        kiln_stmt loop = kiln_lower_loop_of(p, p->stmt.data[next].child.data[0], node->payload.id);
        const kiln_var_info *var = &p->var.data[node->payload.id];
        int64_t coefficient = offset->coefficient[i];
        if (loop) {
            out->start.term[out->start.term_count] = offset->term[i];
            out->start.coefficient[out->start.term_count++] = coefficient;
        } else if (coefficient > 0) {
            out->start.constant += coefficient * var->low;
            out->span += coefficient * (var->high - var->low);
        } else {
            return false;
        }
    }
    return true;
}

static kiln_affine share_start(kiln_walk *w, const stream_part *part, int64_t share) {
    kiln_affine sum = part->start;
    for (uint32_t i = 0; i < part->turn_count; i++) {
        int64_t step = part->turn[i].weight * share;
        sum.term[sum.term_count] = kiln_expr_var(w->p, part->turn[i].var);
        sum.coefficient[sum.term_count++] = step;
        sum.constant -= part->turn[i].first * step;
    }
    return sum;
}

static void prefetch(kiln_walk *w, kiln_stmt loop, kiln_buffer buffer) {
    reader r = {.buffer = buffer};
    stream_part part;
    find_reader(w->p, loop, &r);
    if (!r.load || !find_part(w->p, loop, kiln_walk_load_offset(w, r.load), &part)) return;
    if (part.start.term_count + part.turn_count > KILN_AFFINE_TERMS_MAX) return;
    kiln_dtype dtype = w->p->buffer.data[buffer].dtype;
    int64_t line = w->target->line_bytes / (int64_t)kiln_dtype_size(dtype);
    int64_t lines = (part.span + line * part.turns - 1) / (line * part.turns);
    if (lines > LINES_MAX) return;
    kiln_affine start = share_start(w, &part, lines * line);
    kiln_walk_address address = kiln_walk_address_of(w, buffer, &start);
    if (!address.linear) return;
    for (int64_t i = 0; i < lines; i++)
        w->b->ops->prefetch(w->b, kiln_walk_pointer(w, &address, dtype, i * line));
}

void kiln_walk_prefetch(kiln_walk *w, kiln_stmt loop) {
    const kiln_stmt_info s = w->p->stmt.data[loop];
    for (uint32_t i = 0; i < s.attribute.count; i++) {
        const kiln_attribute *a = &s.attribute.data[i];
        if (a->id == KILN_ATTRIBUTE_PREFETCH && w->data[a->row]) prefetch(w, loop, a->row);
    }
}
