/* Prefetching: each iteration of a loop with the attribute `prefetch` of BUFFER fetches a share of
 * the next part of BUFFER, which its reader needs when the loops that reuse the current part are
 * done.
 *
 *     for panel:            <- the next part: the buffer's offset depends on it
 *       for tile:           <- reuse: it does not
 *         for step:         <- annotated: reads the part from its start to its end
 *
 * Loops of panels and tiles that were fused for threads count as both: panel is floordiv(f, N),
 * tile floormod(f, N). A worker's first part is not prefetched.
 *
 * The part of panel + 1 is split over all iterations of tile and step. It is in the second cache
 * when panel + 1 begins, and memory is used evenly. */
#include "base/check.h"
#include "compiler-core/codegen/walk.h"
#include "compiler-core/lower/pass.h"

#define LOOPS_DEEP 16
#define NO_TERM UINT32_MAX
/* A larger share, if it also exceeds the data that its iteration reads, is not prefetched. */
#define LINES_MAX 8

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

/* The prefetched part: its start, as terms of loops, and its size. */
typedef struct stream_part {
    kiln_affine start;
    int64_t span;  /* elements */
    int64_t read;  /* elements that an iteration of the annotated loop reads */
    int64_t turns; /* iterations over which it is split */
    uint32_t turn_count;
    struct {
        kiln_expr at;
        int64_t first, weight; /* turn = sum of (at - first) * weight */
    } turn[LOOPS_DEEP];
} stream_part;

static void add_turns(stream_part *part, kiln_expr at, int64_t first, int64_t count) {
    part->turn[part->turn_count].at = at;
    part->turn[part->turn_count].first = first;
    part->turn[part->turn_count++].weight = part->turns;
    part->turns *= count;
}

/* The term floordiv(var, N) of the offset, for a loop of panels and tiles in one; NO_TERM: none.
 * `*out_count`: N, tiles of a panel. */
static uint32_t find_fused(kiln_program *p, const kiln_affine *offset, kiln_var var,
                           int64_t *out_count) {
    for (uint32_t i = 0; i < offset->term_count; i++) {
        const kiln_expr_node *node = kiln_expr_get(p, offset->term[i]);
        if (node->op != KILN_EXPR_FLOORDIV) continue;
        const kiln_expr_node *of = kiln_expr_get(p, kiln_expr_operand(p, offset->term[i], 0));
        const kiln_expr_node *by = kiln_expr_get(p, kiln_expr_operand(p, offset->term[i], 1));
        if (of->op != KILN_EXPR_VAR || of->payload.id != var || by->op != KILN_EXPR_INT) continue;
        *out_count = by->payload.i;
        return i;
    }
    return NO_TERM;
}

/* Finds the loops of reuse and the loop that advances to the next part. */
static bool find_part(kiln_program *p, kiln_stmt at, const kiln_affine *offset, stream_part *out) {
    bool reused = false;
    kiln_stmt next = at;
    int64_t stride = 0, tiles = 0;
    uint32_t fused = NO_TERM;
    *out = (stream_part){.start = *offset, .turns = 1, .span = 1, .read = 1};
    for (;; next = p->stmt.data[next].parent) {
        if (!next) return false;
        const kiln_stmt_info *s = &p->stmt.data[next];
        if (s->kind != KILN_STMT_FOR || s->extent <= 1) continue;
        stride = kiln_affine_coefficient(p, offset, s->var);
        if (stride && reused) break;
        if (out->turn_count == LOOPS_DEEP) return false;
        fused = find_fused(p, offset, s->var, &tiles);
        if (fused != NO_TERM) break;
        reused |= !stride;
        if (s->loop_kind != KILN_LOOP_SERIAL) return false;
        add_turns(out, kiln_expr_var(p, s->var), s->first, s->extent);
    }
    if (fused != NO_TERM) {
        stride = offset->coefficient[fused];
        add_turns(out,
                  kiln_expr_binary(p, KILN_EXPR_FLOORMOD, kiln_expr_var(p, p->stmt.data[next].var),
                                   kiln_expr_index(p, tiles)),
                  0, tiles);
    }
    out->start.constant += stride;
    out->start.term_count = 0;
    for (uint32_t i = 0; i < offset->term_count; i++) {
        const kiln_expr_node *node = kiln_expr_get(p, offset->term[i]);
        int64_t coefficient = offset->coefficient[i];
        if (i != fused && node->op != KILN_EXPR_VAR) return false;
        if (i == fused ||
            kiln_lower_loop_of(p, p->stmt.data[next].child.data[0], node->payload.id)) {
            out->start.term[out->start.term_count] = offset->term[i];
            out->start.coefficient[out->start.term_count++] = coefficient;
        } else if (coefficient > 0) {
            const kiln_var_info *var = &p->var.data[node->payload.id];
            out->start.constant += coefficient * var->low;
            const int64_t more = coefficient * (var->high - var->low);
            out->span += more;
            if (!kiln_lower_loop_of(p, at, node->payload.id)) out->read += more;
        } else {
            return false;
        }
    }
    return true;
}

static kiln_affine share_start(const stream_part *part, int64_t share) {
    kiln_affine sum = part->start;
    for (uint32_t i = 0; i < part->turn_count; i++) {
        int64_t step = part->turn[i].weight * share;
        sum.term[sum.term_count] = part->turn[i].at;
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
    if (lines > LINES_MAX && lines * line > part.read) return;
    kiln_affine start = share_start(&part, lines * line);
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
