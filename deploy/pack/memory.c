/* First fit over several orders, of which the best is taken (Pisarchyk and Lee 2020, "Efficient
 * memory management for deep neural net inference", is the first of them). */
#include "deploy/pack/memory.h"

#include <stdlib.h>
#include <string.h>

#include "base/integer.h"
#include "base/kernel_abi.h"
#include "base/macros.h"
#include "base/vec.h"

/* An order that visits more than this is dropped: a second at 100,000 values. The order by time is
 * never dropped. */
#define LOOKED_AT_MAX(count) (4000000u + 200 * (uint64_t)(count))

/* Whether any step uses the value. */
static bool is_used(const kiln_memory_value *v) { return v->first_step <= v->last_step; }

/* ---- orders in which values get their places ----------------------------------------------- */

static int by_start(const kiln_memory_value *a, const kiln_memory_value *b) {
    return (a->first_step > b->first_step) - (a->first_step < b->first_step);
}

static int by_size(const kiln_memory_value *a, const kiln_memory_value *b) {
    return (b->size_bytes > a->size_bytes) - (b->size_bytes < a->size_bytes);
}

static int by_life(const kiln_memory_value *a, const kiln_memory_value *b) {
    uint32_t one = a->last_step - a->first_step, other = b->last_step - b->first_step;
    return (other > one) - (other < one);
}

static int by_area(const kiln_memory_value *a, const kiln_memory_value *b) {
    double one = (double)a->size_bytes * (a->last_step - a->first_step + 1.0);
    double other = (double)b->size_bytes * (b->last_step - b->first_step + 1.0);
    return (other > one) - (other < one);
}

typedef int (*compare)(const kiln_memory_value *a, const kiln_memory_value *b);
static const compare orders[] = {by_size, by_area, by_life, by_start};

/* Equal values keep their order, so that the plan is the same everywhere. */
static int by_order(const void *a, const void *b, void *order) {
    const kiln_memory_value *one = *(const kiln_memory_value *const *)a,
                            *other = *(const kiln_memory_value *const *)b;
    int found = (*(const compare *)order)(one, other);
    return found ? found : (one > other) - (one < other);
}

/* ---- values by the steps at which they live -------------------------------------------------- */

/* Placed values, found by the steps at which they live: a segment tree over the steps. A value is
 * linked at the O(log steps) tree nodes that cover its life, and at its first step. */
typedef struct link {
    uint32_t value, next; /* next: index into link; 0: none */
} link;

typedef struct lives {
    kiln_arena *arena;
    uint32_t leaf_count; /* steps, rounded up to a power of two */
    uint32_t *at_node;   /* [2 * leaf_count] first link of the values of a tree node */
    uint32_t *at_step;   /* [leaf_count] of the values whose first step it is */
    KILN_VEC(link) link; /* [0] unused */
} lives;

static void lives_create(lives *l, uint32_t step_count, kiln_arena *arena) {
    *l = (lives){.arena = arena, .leaf_count = 1};
    while (l->leaf_count < step_count) l->leaf_count *= 2;
    l->at_node = KILN_ARENA_ARRAY(arena, uint32_t, 2 * (size_t)l->leaf_count);
    l->at_step = KILN_ARENA_ARRAY(arena, uint32_t, l->leaf_count);
}

static void lives_clear(lives *l) {
    memset(l->at_node, 0, 2 * (size_t)l->leaf_count * sizeof *l->at_node);
    memset(l->at_step, 0, l->leaf_count * sizeof *l->at_step);
    l->link.count = 0;
    kiln_vec_push_in(l->arena, &l->link, (link){0});
}

static void hang(lives *l, uint32_t *head, uint32_t value) {
    kiln_vec_push_in(l->arena, &l->link, ((link){value, *head}));
    *head = l->link.count - 1;
}

static void lives_add(lives *l, uint32_t value, const kiln_memory_value *v) {
    if (!is_used(v)) return;
    uint32_t low = v->first_step + l->leaf_count, high = v->last_step + l->leaf_count + 1;
    for (; low < high; low /= 2, high /= 2) {
        if (low & 1) hang(l, &l->at_node[low++], value);
        if (high & 1) hang(l, &l->at_node[--high], value);
    }
    hang(l, &l->at_step[v->first_step], value);
}

typedef KILN_VEC(uint32_t) found_values;

static void add_linked(const lives *l, uint32_t head, kiln_arena *arena, found_values *out) {
    for (uint32_t at = head; at; at = l->link.data[at].next)
        kiln_vec_push_in(arena, out, l->link.data[at].value);
}

/* Finds the values that live at the first step of `v`, and those that begin later during its
 * life. */
static void lives_find(const lives *l, const kiln_memory_value *v, kiln_arena *arena,
                       found_values *out) {
    out->count = 0;
    if (!is_used(v)) return;
    for (uint32_t node = v->first_step + l->leaf_count; node; node /= 2)
        add_linked(l, l->at_node[node], arena, out);
    for (uint32_t step = v->first_step + 1; step <= v->last_step; step++)
        add_linked(l, l->at_step[step], arena, out);
}

/* ---- places ---------------------------------------------------------------------------------- */

typedef struct planner {
    kiln_memory_value *value;
    uint32_t count;
    kiln_arena *scratch;
    lives placed;
    uint32_t *turn; /* [count] the turn in which a value was placed */
    found_values neighbour;
    uint64_t looked_at;
} planner;

static int by_offset(const void *a, const void *b, void *context) {
    const planner *p = context;
    uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;
    uint64_t from = p->value[one].offset, to = p->value[other].offset;
    if (from != to) return from > to ? 1 : -1;
    return (p->turn[one] > p->turn[other]) - (p->turn[one] < p->turn[other]);
}

/* The lowest place where `v` overlaps no placed value that lives at the same time. */
static uint64_t lowest_place(planner *p, const kiln_memory_value *v) {
    uint64_t offset = 0;
    lives_find(&p->placed, v, p->scratch, &p->neighbour);
    p->looked_at += p->neighbour.count + (is_used(v) ? v->last_step - v->first_step : 0);
    if (p->neighbour.count)
        qsort_r(p->neighbour.data, p->neighbour.count, sizeof(uint32_t), by_offset, p);
    for (uint32_t i = 0; i < p->neighbour.count; i++) {
        const kiln_memory_value *other = &p->value[p->neighbour.data[i]];
        if (other->offset >= offset + KILN_ALIGN_UP(v->size_bytes, KILN_KERNEL_ALIGNMENT))
            break; /* the gap before it is large enough */
        offset = KILN_MAX(offset,
                          other->offset + KILN_ALIGN_UP(other->size_bytes, KILN_KERNEL_ALIGNMENT));
    }
    return offset;
}

/* The bytes that the order needs, or UINT64_MAX if the search takes too long. */
static uint64_t place(planner *p, kiln_memory_value *const *order) {
    uint64_t peak = 0, limit = p->looked_at + LOOKED_AT_MAX(p->count);
    lives_clear(&p->placed);
    for (uint32_t i = 0; i < p->count; i++) {
        kiln_memory_value *v = order[i];
        uint32_t index = (uint32_t)(v - p->value);
        v->offset = lowest_place(p, v);
        p->turn[index] = i;
        lives_add(&p->placed, index, v);
        peak = KILN_MAX(peak, v->offset + KILN_ALIGN_UP(v->size_bytes, KILN_KERNEL_ALIGNMENT));
        if (p->looked_at > limit) return UINT64_MAX;
    }
    return peak;
}

/* ---- in order of time ------------------------------------------------------------------------ */

/* Bytes not used by live values, lowest first; the last gap never ends. */
typedef struct gap {
    uint64_t begin, end;
} gap;
typedef KILN_VEC(gap) gaps;

static void remove_gap(gaps *g, uint32_t at) {
    g->count--;
    memmove(&g->data[at], &g->data[at + 1], (g->count - at) * sizeof *g->data);
}

static uint64_t take_bytes(planner *p, gaps *g, uint64_t size_bytes) {
    uint32_t at = 0;
    if (size_bytes == 0) return 0;
    while (g->data[at].end - g->data[at].begin < size_bytes) at++;
    p->looked_at += at + 1;
    uint64_t offset = g->data[at].begin;
    g->data[at].begin += size_bytes;
    if (g->data[at].begin == g->data[at].end) remove_gap(g, at);
    return offset;
}

static void give_bytes(planner *p, gaps *g, const kiln_memory_value *v) {
    uint64_t begin = v->offset, end = begin + KILN_ALIGN_UP(v->size_bytes, KILN_KERNEL_ALIGNMENT);
    uint32_t low = 0, high = g->count; /* the first gap behind `begin` */
    if (begin == end) return;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        *(g->data[middle].begin < begin ? &low : &high) =
            g->data[middle].begin < begin ? middle + 1 : middle;
    }
    bool left = low > 0 && g->data[low - 1].end == begin, right = g->data[low].begin == end;
    if (left && right) {
        g->data[low - 1].end = g->data[low].end;
        remove_gap(g, low);
    } else if (left) {
        g->data[low - 1].end = end;
    } else if (right) {
        g->data[low].begin = begin;
    } else {
        kiln_vec_push_in(p->scratch, g, (gap){0});
        memmove(&g->data[low + 1], &g->data[low], (g->count - 1 - low) * sizeof *g->data);
        g->data[low] = (gap){begin, end};
    }
}

/* The result of `place` for the order of first steps, at the cost of the gaps visited: only values
 * that are alive at that step can overlap. */
static uint64_t place_in_time(planner *p, kiln_memory_value *const *order, uint32_t step_count) {
    uint32_t *ends = KILN_ARENA_ARRAY(p->scratch, uint32_t, step_count + 1), /* a value + 1 */
        *next = KILN_ARENA_ARRAY(p->scratch, uint32_t, p->count), step = 0;
    gaps free_bytes = {0};
    uint64_t peak = 0;
    kiln_vec_push_in(p->scratch, &free_bytes, ((gap){0, UINT64_MAX}));
    for (uint32_t i = 0; i < p->count; i++) {
        kiln_memory_value *v = order[i];
        uint32_t index = (uint32_t)(v - p->value);
        for (; is_used(v) && step < v->first_step; step++)
            for (uint32_t end = ends[step]; end; end = next[end - 1])
                give_bytes(p, &free_bytes, &p->value[end - 1]);
        v->offset = is_used(v) ? take_bytes(p, &free_bytes,
                                            KILN_ALIGN_UP(v->size_bytes, KILN_KERNEL_ALIGNMENT))
                               : 0;
        peak = KILN_MAX(peak, v->offset + KILN_ALIGN_UP(v->size_bytes, KILN_KERNEL_ALIGNMENT));
        if (!is_used(v)) continue;
        next[index] = ends[v->last_step];
        ends[v->last_step] = index + 1;
    }
    return peak;
}

static uint64_t largest_live_set(const kiln_memory_value *value, uint32_t count,
                                 uint32_t step_count, kiln_arena *scratch) {
    uint64_t *born = KILN_ARENA_ARRAY(scratch, uint64_t, step_count + 1),
             *gone = KILN_ARENA_ARRAY(scratch, uint64_t, step_count + 1), live = 0, most = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!is_used(&value[i])) continue;
        born[value[i].first_step] += KILN_ALIGN_UP(value[i].size_bytes, KILN_KERNEL_ALIGNMENT);
        gone[value[i].last_step + 1] += KILN_ALIGN_UP(value[i].size_bytes, KILN_KERNEL_ALIGNMENT);
    }
    for (uint32_t s = 0; s < step_count; s++) {
        live += born[s] - gone[s];
        most = KILN_MAX(most, live);
    }
    return most;
}

kiln_memory_peak kiln_memory_plan(kiln_memory_value *value, uint32_t count, bool reuse,
                                  kiln_arena *scratch) {
    uint32_t step_count = 0;
    for (uint32_t i = 0; i < count; i++) step_count = KILN_MAX(step_count, value[i].last_step + 1);
    kiln_memory_peak peak = {.live_bytes = largest_live_set(value, count, step_count, scratch)};
    kiln_memory_value **order = KILN_ARENA_ARRAY(scratch, kiln_memory_value *, count);
    uint64_t *best = KILN_ARENA_ARRAY(scratch, uint64_t, count);
    planner p = {.value = value,
                 .count = count,
                 .scratch = scratch,
                 .turn = KILN_ARENA_ARRAY(scratch, uint32_t, count)};
    lives_create(&p.placed, step_count, scratch);
    for (uint32_t i = 0; i < count; i++) {
        best[i] = peak.value_bytes;
        peak.value_bytes += KILN_ALIGN_UP(value[i].size_bytes, KILN_KERNEL_ALIGNMENT);
    }
    peak.arena_bytes = peak.value_bytes;
    for (size_t o = 0; reuse && o < KILN_ARRAY_COUNT(orders); o++) {
        if (peak.arena_bytes == peak.live_bytes) break; /* no order takes less */
        for (uint32_t i = 0; i < count; i++) order[i] = &value[i];
        compare first = orders[o];
        qsort_r(order, count, sizeof(kiln_memory_value *), by_order, &first);
        uint64_t bytes =
            first == by_start ? place_in_time(&p, order, step_count) : place(&p, order);
        if (bytes >= peak.arena_bytes) continue;
        peak.arena_bytes = bytes;
        for (uint32_t i = 0; i < count; i++) best[i] = value[i].offset;
    }
    for (uint32_t i = 0; i < count; i++) value[i].offset = best[i];
    peak.looked_at = p.looked_at;
    return peak;
}
