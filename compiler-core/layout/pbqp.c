/* Reductions, and the way back. */
#include "compiler-core/layout/pbqp.h"

#include "base/check.h"
#include "base/vec.h"

typedef struct edge {
    uint32_t end[2];
    uint32_t place[2]; /* in the lists of the two nodes */
    double *cost;      /* [choices of end[0]][of end[1]] */
} edge;

typedef struct node {
    uint32_t count;
    double *cost;          /* [count], with the costs that removed neighbours add */
    KILN_VEC(edge *) edge; /* to nodes that are still there; those it had when it was removed */
    bool removed, settled; /* settled: `choice` was made when it was removed */
    uint32_t choice;
} node;

typedef struct wide {
    uint32_t degree, node;
} wide;

struct kiln_pbqp {
    kiln_arena *arena;
    KILN_VEC(node) node;
    KILN_VEC(uint32_t) small;   /* nodes that had at most two neighbours when they were put here */
    KILN_VEC(uint32_t) removed; /* in order */
    KILN_VEC(wide) widest;      /* heap: each remaining node, with a degree it had at some time */
};

kiln_pbqp *kiln_pbqp_create(kiln_arena *arena) {
    kiln_pbqp *p = KILN_ARENA_NEW(arena, kiln_pbqp);
    *p = (kiln_pbqp){.arena = arena};
    return p;
}

uint32_t kiln_pbqp_add_node(kiln_pbqp *p, uint32_t count, const double *cost) {
    KILN_CHECK(count > 0);
    node added = {.count = count, .cost = kiln_arena_copy(p->arena, cost, count * sizeof *cost)};
    kiln_vec_push_in(p->arena, &p->node, added);
    return p->node.count - 1;
}

/* ---- edges ----------------------------------------------------------------------------------- */

static uint32_t other_end(const edge *e, uint32_t n) { return e->end[e->end[0] == n]; }

/* The edge's cost when `n` takes i and its other end j. */
static double charge(const kiln_pbqp *p, const edge *e, uint32_t n, uint32_t i, uint32_t j) {
    uint32_t columns = p->node.data[e->end[1]].count;
    return e->end[0] == n ? e->cost[(size_t)i * columns + j] : e->cost[(size_t)j * columns + i];
}

/* Looks through the shorter of the two lists. */
static edge *find_edge(const kiln_pbqp *p, uint32_t a, uint32_t b) {
    bool shorter = p->node.data[b].edge.count < p->node.data[a].edge.count;
    uint32_t from = shorter ? b : a, to = shorter ? a : b;
    const node *n = &p->node.data[from];
    for (uint32_t i = 0; i < n->edge.count; i++)
        if (other_end(n->edge.data[i], from) == to) return n->edge.data[i];
    return NULL;
}

static void push_edge(kiln_pbqp *p, uint32_t n, edge *e) {
    e->place[e->end[0] != n] = p->node.data[n].edge.count;
    kiln_vec_push_in(p->arena, &p->node.data[n].edge, e);
}

void kiln_pbqp_add_edge(kiln_pbqp *p, uint32_t a, uint32_t b, const double *cost) {
    KILN_CHECK(a != b);
    KILN_CHECK(a < p->node.count && b < p->node.count);
    uint32_t rows = p->node.data[a].count, columns = p->node.data[b].count;
    edge *e = find_edge(p, a, b);
    if (!e) {
        e = KILN_ARENA_NEW(p->arena, edge);
        *e = (edge){{a, b}, {0}, KILN_ARENA_ARRAY(p->arena, double, (size_t)rows *columns)};
        push_edge(p, a, e);
        push_edge(p, b, e);
    }
    bool same_way = e->end[0] == a;
    for (uint32_t i = 0; i < rows; i++)
        for (uint32_t j = 0; j < columns; j++)
            e->cost[same_way ? (size_t)i * columns + j : (size_t)j * rows + i] +=
                cost[(size_t)i * columns + j];
}

static void drop_edge(kiln_pbqp *p, uint32_t from, const edge *e) {
    node *n = &p->node.data[from];
    uint32_t at = e->place[e->end[0] != from];
    edge *moved = n->edge.data[--n->edge.count];
    n->edge.data[at] = moved;
    moved->place[moved->end[0] != from] = at;
    if (n->edge.count <= 2) kiln_vec_push_in(p->arena, &p->small, from);
}

/* The node keeps its edges, for the way back; they are taken out of its neighbours. */
static void remove_node(kiln_pbqp *p, uint32_t n) {
    node *gone = &p->node.data[n];
    gone->removed = true;
    kiln_vec_push_in(p->arena, &p->removed, n);
    for (uint32_t i = 0; i < gone->edge.count; i++)
        drop_edge(p, other_end(gone->edge.data[i], n), gone->edge.data[i]);
}

/* ---- reductions ------------------------------------------------------------------------------ */

/* The node's best choice when its neighbours take the choices in `taken`, [edges]. */
static uint32_t best_beside(const kiln_pbqp *p, uint32_t n, const uint32_t *taken,
                            double *out_cost) {
    const node *me = &p->node.data[n];
    uint32_t best = 0;
    for (uint32_t i = 0; i < me->count; i++) {
        double cost = me->cost[i];
        for (uint32_t e = 0; e < me->edge.count; e++)
            cost += charge(p, me->edge.data[e], n, i, taken[e]);
        if (i == 0 || cost < *out_cost) best = i, *out_cost = cost;
    }
    return best;
}

/* R1: the only neighbour's choices each get the cost of the best answer to them. */
static void reduce_leaf(kiln_pbqp *p, uint32_t n) {
    uint32_t to = other_end(p->node.data[n].edge.data[0], n);
    for (uint32_t j = 0; j < p->node.data[to].count; j++) {
        double cost = 0;
        best_beside(p, n, &j, &cost);
        p->node.data[to].cost[j] += cost;
    }
}

/* R2: an edge between the two neighbours gets the cost of the best answer to each pair. */
static void reduce_link(kiln_pbqp *p, uint32_t n) {
    uint32_t a = other_end(p->node.data[n].edge.data[0], n),
             b = other_end(p->node.data[n].edge.data[1], n);
    uint32_t rows = p->node.data[a].count, columns = p->node.data[b].count;
    double *cost = KILN_ARENA_ARRAY(p->arena, double, (size_t)rows *columns);
    for (uint32_t i = 0; i < rows; i++)
        for (uint32_t j = 0; j < columns; j++)
            best_beside(p, n, (uint32_t[]){i, j}, &cost[(size_t)i * columns + j]);
    kiln_pbqp_add_edge(p, a, b, cost);
}

/* RN: takes the choice that is best if each neighbour answers independently, and adds its costs to
 * theirs. */
static void settle(kiln_pbqp *p, uint32_t n) {
    node *me = &p->node.data[n];
    double best = 0;
    for (uint32_t i = 0; i < me->count; i++) {
        double cost = me->cost[i];
        for (uint32_t e = 0; e < me->edge.count; e++) {
            const node *to = &p->node.data[other_end(me->edge.data[e], n)];
            double least = 0;
            for (uint32_t j = 0; j < to->count; j++) {
                double pair = to->cost[j] + charge(p, me->edge.data[e], n, i, j);
                if (j == 0 || pair < least) least = pair;
            }
            cost += least;
        }
        if (i == 0 || cost < best) best = cost, me->choice = i;
    }
    me->settled = true;
    for (uint32_t e = 0; e < me->edge.count; e++) {
        node *to = &p->node.data[other_end(me->edge.data[e], n)];
        for (uint32_t j = 0; j < to->count; j++)
            to->cost[j] += charge(p, me->edge.data[e], n, me->choice, j);
    }
}

static void reduce_small(kiln_pbqp *p) {
    while (p->small.count) {
        uint32_t n = kiln_vec_pop(&p->small), degree = p->node.data[n].edge.count;
        if (p->node.data[n].removed || degree > 2) continue; /* R2 may have added an edge since */
        if (degree == 1) reduce_leaf(p, n);
        if (degree == 2) reduce_link(p, n);
        remove_node(p, n);
    }
}

/* ---- the node with most neighbours ----------------------------------------------------------- */

/* More neighbours first, and the first of equal ones. */
static bool is_wider(wide a, wide b) {
    return a.degree != b.degree ? a.degree > b.degree : a.node < b.node;
}

static void sift_down(kiln_pbqp *p, uint32_t at) {
    wide *heap = p->widest.data;
    for (uint32_t child; (child = 2 * at + 1) < p->widest.count; at = child) {
        if (child + 1 < p->widest.count && is_wider(heap[child + 1], heap[child])) child++;
        if (!is_wider(heap[child], heap[at])) return;
        wide swapped = heap[at];
        heap[at] = heap[child];
        heap[child] = swapped;
    }
}

/* Degrees never grow between two choices, so the top of the heap is right once its degree is. */
static uint32_t take_widest(kiln_pbqp *p) {
    if (!p->widest.count) {
        for (uint32_t n = 0; n < p->node.count; n++)
            if (!p->node.data[n].removed)
                kiln_vec_push_in(p->arena, &p->widest, ((wide){p->node.data[n].edge.count, n}));
        for (uint32_t at = p->widest.count / 2; at-- > 0;) sift_down(p, at);
    }
    for (;;) {
        wide *top = &p->widest.data[0];
        const node *n = &p->node.data[top->node];
        if (!n->removed && n->edge.count == top->degree) return top->node;
        top->degree = n->edge.count;
        if (n->removed) *top = kiln_vec_pop(&p->widest);
        sift_down(p, 0);
    }
}

bool kiln_pbqp_solve(kiln_pbqp *p, uint32_t *out_choice) {
    bool exact = true;
    for (uint32_t n = p->node.count; n-- > 0;)
        if (p->node.data[n].edge.count <= 2) kiln_vec_push_in(p->arena, &p->small, n);
    while (reduce_small(p), p->removed.count < p->node.count) {
        uint32_t widest = take_widest(p);
        settle(p, widest);
        remove_node(p, widest);
        exact = false;
    }
    for (uint32_t r = p->removed.count; r-- > 0;) {
        uint32_t n = p->removed.data[r], taken[2] = {0};
        const node *me = &p->node.data[n];
        for (uint32_t e = 0; !me->settled && e < me->edge.count; e++)
            taken[e] = out_choice[other_end(me->edge.data[e], n)];
        double cost;
        out_choice[n] = me->settled ? me->choice : best_beside(p, n, taken, &cost);
    }
    return exact;
}
