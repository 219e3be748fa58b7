#include "compiler-core/lower/boxes.h"

#include "base/check.h"
#include "base/integer.h"
#include "base/macros.h"
#include "base/manifest_map.h"
#include "compiler-core/ir/affine.h"
#include "compiler-core/ir/device.h"
#include "compiler-core/ir/intrinsic.h"

#define VARS_MAX 16
#define POINTS_MAX (1 << 16)
#define PLACE_BYTES 128 /* of a box in shared memory */

/* Where one copy of a fetch reads and writes, relative to the box's beginning. */
typedef struct point {
    int64_t at[KILN_MAP_RANK_MAX]; /* the source's index */
    int64_t place;                 /* of the target in memory, elements */
} point;

/* A fetch: loops and conditions around one copy, of the threads of a producer. */
typedef struct fetch {
    kiln_program *p;
    kiln_arena *arena;
    const kiln_launch *launch;
    kiln_stmt nest, copy;
    kiln_buffer from, to;
    uint32_t rank, var_count;
    kiln_var var[VARS_MAX]; /* of threads and loops; of others one value alone */
    int64_t first[VARS_MAX], extent[VARS_MAX], value[VARS_MAX]; /* `value`: at the point in hand */
    kiln_var lane_var; /* of a vectorized loop, whose copies are no points of their own; 0: none */
    int64_t lanes;
    /* The parts of index and place that these variables decide. */
    kiln_affine source[KILN_MAP_RANK_MAX], target;
    int64_t outside; /* the rest of the place is a multiple of this; 0: it is 0 */
    int64_t begin;   /* the target's part at the first point */
    uint32_t point_count;
    point *point;
    int64_t size[KILN_MAP_RANK_MAX]; /* of the box */
} fetch;

/* ---- values at a point ----------------------------------------------------------------------- */

/* False: other variables decide. */
static bool value_of(const fetch *f, kiln_expr e, int64_t *out) {
    const kiln_var_values at = {f->var_count, f->var, f->value};
    return kiln_expr_value(f->p, e, &at, out);
}

static int64_t sum_of(const fetch *f, const kiln_affine *a) {
    int64_t sum = 0;
    for (uint32_t i = 0; i < a->term_count; i++) {
        int64_t value = 0;
        KILN_CHECK(value_of(f, a->term[i], &value)); /* as when it was split */
        sum += a->coefficient[i] * value;
    }
    return sum;
}

static bool uses_own(const fetch *f, kiln_expr e) {
    bool any = false;
    for (uint32_t i = 0; i < f->var_count && !any; i++)
        any = kiln_expr_uses_var(f->p, e, f->var[i]);
    return any;
}

/* Splits an index into what the fetch's variables decide and the rest. False: no sum of both. */
static bool split(const fetch *f, kiln_expr e, kiln_affine *inside, int64_t *out_multiple) {
    kiln_affine all;
    if (!kiln_affine_of(f->p, e, NULL, &all)) return false;
    *inside = (kiln_affine){.term_count = 0};
    *out_multiple = all.constant;
    for (uint32_t i = 0; i < all.term_count; i++) {
        int64_t any;
        if (!uses_own(f, all.term[i])) {
            *out_multiple = kiln_gcd(*out_multiple, all.coefficient[i]);
            continue;
        }
        if (!value_of(f, all.term[i], &any)) return false;
        inside->term[inside->term_count] = all.term[i];
        inside->coefficient[inside->term_count++] = all.coefficient[i];
    }
    return true;
}

/* ---- what a fetch copies --------------------------------------------------------------------- */

/* Whether all conditions around the copy hold. */
static bool runs(const fetch *f) {
    for (kiln_stmt at = f->copy;; at = f->p->stmt.data[at].parent) {
        const kiln_stmt_info *s = &f->p->stmt.data[at];
        int64_t holds = 1;
        if (s->kind == KILN_STMT_IF) KILN_CHECK(value_of(f, s->condition, &holds));
        if (!holds) return false;
        if (at == f->nest) return true;
    }
}

/* False behind the last point. */
static bool next(fetch *f) {
    for (uint32_t i = f->var_count; i-- > 0;) {
        if (++f->value[i] < f->first[i] + f->extent[i]) return true;
        f->value[i] = f->first[i];
    }
    return false;
}

static bool add_var(fetch *f, kiln_var var, int64_t first, int64_t extent) {
    if (f->var_count == VARS_MAX) return false;
    f->var[f->var_count] = var;
    f->first[f->var_count] = f->value[f->var_count] = first;
    f->extent[f->var_count++] = extent;
    return true;
}

/* Finds the variables of the nest and of the threads. False: they are too many, or conditions
 * around the copy ask for others or for single lanes. */
static bool find_vars(fetch *f) {
    const kiln_program *p = f->p;
    const kiln_launch *l = f->launch;
    bool all = true;
    for (uint32_t d = 0; d < 2; d++)
        if (l->group_var[d]) all &= add_var(f, l->group_var[d], 0, l->group_size[d]);
    if (l->group_var[2]) all &= add_var(f, l->group_var[2], l->group_size[2] - 1, 1);
    f->lanes = 1;
    for (kiln_stmt at = f->copy; all; at = p->stmt.data[at].parent) {
        const kiln_stmt_info *s = &p->stmt.data[at];
        const bool is_lanes = s->kind == KILN_STMT_FOR && s->loop_kind == KILN_LOOP_VECTORIZE;
        if (is_lanes) {
            f->lane_var = s->var;
            f->lanes = s->extent;
        }
        if (s->kind == KILN_STMT_FOR) all = add_var(f, s->var, s->first, is_lanes ? 1 : s->extent);
        if (at == f->nest) break;
    }
    for (kiln_stmt at = f->copy; all; at = p->stmt.data[at].parent) {
        const kiln_stmt_info *s = &p->stmt.data[at];
        int64_t any;
        all = s->kind != KILN_STMT_IF ||
              (value_of(f, s->condition, &any) &&
               (f->lanes == 1 || !kiln_expr_uses_var(p, s->condition, f->lane_var)));
        if (at == f->nest) break;
    }
    return all;
}

/* Whether lanes are neighbours on both sides, in one unit that no permutation tears. */
static bool lanes_are_neighbours(const fetch *f) {
    const int64_t bytes = (int64_t)kiln_dtype_size(f->p->buffer.data[f->to].dtype);
    if (f->lanes == 1) return true;
    bool only = f->lanes * bytes <= KILN_GROUP_UNIT_BYTES &&
                KILN_GROUP_UNIT_BYTES % (f->lanes * bytes) == 0;
    for (uint32_t d = 0; d <= f->rank; d++) {
        const kiln_affine *a = d < f->rank ? &f->source[d] : &f->target;
        for (uint32_t i = 0; i < a->term_count; i++)
            only &= kiln_expr_get(f->p, a->term[i])->op == KILN_EXPR_VAR ||
                    !kiln_expr_uses_var(f->p, a->term[i], f->lane_var);
        only &= kiln_affine_coefficient(f->p, a, f->lane_var) == (d + 1 >= f->rank);
    }
    return only;
}

/* Finds index and place as functions of the variables. False: a map cannot have the source, or
 * other loops mix with those of the fetch. */
static bool find_forms(fetch *f) {
    kiln_program *p = f->p;
    const kiln_stmt_info s = p->stmt.data[f->copy];
    const kiln_buffer_info *from = &p->buffer.data[f->from];
    kiln_expr index[KILN_MAP_RANK_MAX];
    int64_t any;
    f->rank = from->shape.rank;
    if (f->rank == 0 || f->rank > KILN_MAP_RANK_MAX || !kiln_layout_is_identity(&from->layout) ||
        from->role == KILN_ROLE_OUTPUT) /* copy units do not see what threads of the launch write */
        return false;
    for (uint32_t d = 0; d < f->rank; d++) index[d] = kiln_expr_operand(p, s.value, d);
    for (uint32_t d = 0; d < f->rank; d++)
        if (!split(f, index[d], &f->source[d], &any)) return false;
    return split(f, kiln_buffer_offset(p, f->to, s.index), &f->target, &f->outside) &&
           lanes_are_neighbours(f);
}

/* Whether there are as many copies as the box has elements. */
static bool is_full(const fetch *f) {
    int64_t count = 1;
    for (uint32_t d = 0; d < f->rank && count <= POINTS_MAX * f->lanes; d++) count *= f->size[d];
    return f->point_count > 0 && count == f->point_count * f->lanes;
}

/* Runs the fetch. False: it copies too much, or its copies are no box with the first one at its
 * beginning. */
static bool find_points(fetch *f) {
    int64_t count = 1;
    for (uint32_t i = 0; i < f->var_count; i++) count *= f->extent[i];
    if (count > POINTS_MAX) return false;
    f->point = KILN_ARENA_ARRAY(f->arena, point, count);
    for (uint32_t d = 0; d < f->rank; d++) f->size[d] = 1;
    do {
        point *x = &f->point[f->point_count];
        if (!runs(f)) continue;
        if (f->point_count == 0) f->begin = sum_of(f, &f->target);
        x->place = sum_of(f, &f->target) - f->begin;
        for (uint32_t d = 0; d < f->rank; d++) {
            x->at[d] = sum_of(f, &f->source[d]);
            if (x->at[d] < 0 || (f->point_count == 0 && x->at[d] != 0)) return false;
            const int64_t end = x->at[d] + (d + 1 == f->rank ? f->lanes : 1);
            f->size[d] = KILN_MAX(f->size[d], end);
        }
        f->point_count++;
    } while (next(f));
    return is_full(f);
}

/* ---- boxes ----------------------------------------------------------------------------------- */

/* Where a copy unit puts an element, relative to the first one. */
static int64_t place_in_boxes(const fetch *f, const int64_t *at, const kiln_manifest_map *map) {
    const int64_t row_elements = map->box[0], last = at[f->rank - 1];
    int64_t row = 0, rows = 1, in_row = last % row_elements;
    for (uint32_t d = 0; d + 1 < f->rank; d++) {
        row = row * f->size[d] + at[d];
        rows *= f->size[d];
    }
    if (map->is_permuted) {
        const int64_t unit = KILN_GROUP_UNIT_BYTES / (int64_t)map->stride_bytes[0];
        in_row = ((in_row / unit) ^ (row % KILN_GROUP_WAYS)) * unit + in_row % unit;
    }
    return (last / row_elements * rows + row) * row_elements + in_row;
}

/* Whether the copies are what boxes of the map do, each element once. */
static bool equals_boxes(const fetch *f, const kiln_manifest_map *map) {
    bool *is_seen = KILN_ARENA_ARRAY(f->arena, bool, f->point_count * f->lanes);
    for (uint32_t i = 0; i < f->point_count; i++) {
        const point *x = &f->point[i];
        int64_t number = 0;
        for (uint32_t d = 0; d < f->rank; d++) number = number * f->size[d] + x->at[d];
        if (is_seen[number] || x->at[f->rank - 1] % f->lanes != 0 ||
            x->place != place_in_boxes(f, x->at, map))
            return false;
        is_seen[number] = true;
    }
    return true;
}

/* The map of the source, contiguous dimension first, with rows of so many elements. */
static void fill_map(const fetch *f, int64_t row_elements, bool is_permuted, kiln_manifest_map *m) {
    const kiln_buffer_info *from = &f->p->buffer.data[f->from];
    uint64_t stride = kiln_dtype_size(from->dtype);
    *m = (kiln_manifest_map){.rank = f->rank, .dtype = from->dtype, .is_permuted = is_permuted};
    for (uint32_t i = 0; i < f->rank; i++) {
        const uint32_t d = f->rank - 1 - i;
        m->size[i] = (uint64_t)from->shape.dim[d];
        m->box[i] = (uint32_t)(i ? f->size[d] : row_elements);
        m->stride_bytes[i] = stride;
        stride *= m->size[i];
    }
}

static bool is_legal(const kiln_manifest_map *m) {
    kiln_status st = kiln_manifest_map_check_form(m);
    const bool legal = !st;
    kiln_status_free(st);
    return legal;
}

/* The number of bytes of which the first element's place is a multiple, as far as it is known. */
static int64_t alignment_of(const fetch *f) {
    const int64_t bytes = (int64_t)kiln_dtype_size(f->p->buffer.data[f->to].dtype);
    int64_t all = kiln_gcd(f->outside * bytes, KILN_GROUP_ATOM_BYTES);
    all = kiln_gcd(f->begin * bytes, all);
    for (uint32_t i = 0; i < f->launch->shared_count; i++)
        if (f->launch->shared[i].buffer == f->to)
            all = kiln_gcd((int64_t)f->launch->shared[i].offset, all);
    return all;
}

static bool is_for_all_groups(const fetch *f) {
    const kiln_expr load = f->p->stmt.data[f->copy].value;
    bool all = f->launch->cluster > 1;
    for (uint32_t d = 0; d < f->rank; d++)
        all &= !kiln_expr_uses_var(f->p, kiln_expr_operand(f->p, load, d), f->launch->cluster_var);
    return all;
}

/* Cuts pieces into a part for each group of the cluster, along the outermost dimension that has
 * more than one row, where parts are whole `unit`s. */
static void share(const fetch *f, int64_t unit, kiln_manifest_map *map, kiln_launch_box *box) {
    const uint32_t groups = f->launch->cluster;
    uint32_t dim = f->rank - 1;
    if (!is_for_all_groups(f)) return;
    while (dim > 0 && map->box[dim] == 1) dim--;
    if (dim == 0 || map->box[dim] % groups != 0 || box->piece_bytes / groups % (uint64_t)unit != 0)
        return;
    box->is_shared = true;
    box->part_dim = dim;
    box->part_bytes = box->piece_bytes / groups;
    map->box[dim] /= groups;
}

/* Rows of 128 bytes with permuted units, or one row as long as the box is. */
static bool find_map(const fetch *f, kiln_manifest_map *out, kiln_launch_box *box) {
    const int64_t bytes = (int64_t)kiln_dtype_size(f->p->buffer.data[f->from].dtype),
                  last = f->size[f->rank - 1], alignment = alignment_of(f);
    for (uint32_t is_permuted = 0; is_permuted < 2; is_permuted++) {
        const int64_t row = is_permuted ? KILN_MAP_ROW_BYTES / bytes : last,
                      unit = is_permuted ? KILN_GROUP_ATOM_BYTES : PLACE_BYTES;
        if (last % row != 0 || alignment % unit != 0) continue;
        int64_t piece = bytes * row;
        for (uint32_t d = 0; d + 1 < f->rank; d++) piece *= f->size[d];
        fill_map(f, row, is_permuted, out);
        box->piece_count = (uint32_t)(last / row);
        box->piece_bytes = (uint64_t)piece;
        if (!is_legal(out) || (box->piece_count > 1 && piece % unit != 0) || !equals_boxes(f, out))
            continue;
        share(f, unit, out, box);
        return true;
    }
    return false;
}

/* ---- launches -------------------------------------------------------------------------------- */

/* The outermost statement with no other work than the copy. */
static kiln_stmt nest_of(const kiln_program *p, kiln_stmt copy) {
    kiln_stmt at = copy;
    for (kiln_stmt up; (up = p->stmt.data[at].parent) && p->stmt.data[up].child.count == 1; at = up)
        if (p->stmt.data[up].kind == KILN_STMT_ALLOC) break;
    return at;
}

static bool set_argument(const kiln_launches *all, const kiln_launch *l, kiln_buffer from,
                         kiln_manifest_map *map) {
    for (uint32_t i = 0; i < l->arg_count; i++)
        if (l->arg[i] == from) {
            map->arg = i;
            return true;
        }
    for (uint32_t i = 0; i < all->temp_count; i++)
        if (all->temp[i].buffer == from) {
            map->arg = l->arg_count;
            map->offset_bytes = all->temp[i].offset;
            return true;
        }
    return false;
}

static bool maps_equal(const kiln_manifest_map *a, const kiln_manifest_map *b) {
    bool equal = a->arg == b->arg && a->offset_bytes == b->offset_bytes && a->rank == b->rank &&
                 a->dtype == b->dtype && a->is_permuted == b->is_permuted;
    for (uint32_t i = 0; i < a->rank && equal; i++)
        equal = a->size[i] == b->size[i] && a->stride_bytes[i] == b->stride_bytes[i] &&
                a->box[i] == b->box[i];
    return equal;
}

/* False: the launch has too many maps. */
static bool add_box(kiln_launch *l, const kiln_manifest_map *map, kiln_launch_box box) {
    for (box.map = 0; box.map < l->map_count; box.map++)
        if (maps_equal(&l->map[box.map], map)) break;
    if (box.map == KILN_LAUNCH_MAPS_MAX) return false;
    if (box.map == l->map_count) l->map[l->map_count++] = *map;
    l->box[l->box_count++] = box;
    l->has_shared_boxes |= box.is_shared;
    return true;
}

typedef struct search {
    kiln_program *p;
    const kiln_launches *launches;
    kiln_arena *arena;
    kiln_launch *launch;
    bool others; /* there are fetches that are no boxes */
} search;

static bool find_box(search *s, kiln_stmt copy) {
    kiln_program *p = s->p;
    const kiln_stmt_info info = p->stmt.data[copy];
    fetch f = {.p = p,
               .arena = s->arena,
               .launch = s->launch,
               .nest = nest_of(p, copy),
               .copy = copy,
               .to = info.buffer,
               .from = kiln_expr_get(p, info.value)->payload.id};
    kiln_launch_box box = {.nest = f.nest, .copy = copy};
    kiln_manifest_map map;
    return find_vars(&f) && find_forms(&f) && find_points(&f) && find_map(&f, &map, &box) &&
           set_argument(s->launches, s->launch, f.from, &map) && add_box(s->launch, &map, box);
}

/* Stores of the producer are fetches too. */
static void look_below(search *s, kiln_stmt stmt) {
    kiln_program *p = s->p;
    const kiln_stmt_info info = p->stmt.data[stmt];
    for (uint32_t i = 0; i < info.child.count; i++) look_below(s, info.child.data[i]);
    if (info.kind != KILN_STMT_COPY && info.kind != KILN_STMT_STORE) return;
    if (!kiln_stmt_attribute(p, stmt, KILN_ATTRIBUTE_BOX)) return;
    s->others |= info.kind == KILN_STMT_STORE || !find_box(s, stmt);
}

void kiln_lower_find_boxes(kiln_program *p, const kiln_launches *launches, kiln_arena *arena,
                           kiln_launch *launch) {
    search s = {.p = p, .launches = launches, .arena = arena, .launch = launch};
    if (!launch->token_slots) return;
    launch->box = KILN_ARENA_ARRAY(arena, kiln_launch_box, p->stmt.count);
    launch->map = KILN_ARENA_ARRAY(arena, kiln_manifest_map, KILN_LAUNCH_MAPS_MAX);
    look_below(&s, launch->body);
    launch->boxes_alone = launch->box_count > 0 && !s.others;
}
