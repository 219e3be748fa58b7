/* Loads and stores: scalar, whole vectors, masked vectors, lane by lane; and REGISTER buffers,
 * whose elements are SSA values. */
#include "base/check.h"
#include "compiler-core/codegen/walk.h"
#include "compiler-core/lower/registers.h"

static kiln_dtype buffer_dtype(const kiln_walk *w, kiln_buffer buffer) {
    return w->p->buffer.data[buffer].dtype;
}

static bool in_registers(const kiln_walk *w, kiln_buffer buffer) {
    return w->p->buffer.data[buffer].scope == KILN_SCOPE_REGISTER;
}

/* ---- registers ------------------------------------------------------------------------------- */

void kiln_walk_registers_begin(kiln_walk *w, kiln_buffer buffer, kiln_stmt scope) {
    const kiln_buffer_info *info = &w->p->buffer.data[buffer];
    kiln_shape physical = kiln_layout_physical(&info->layout, &info->shape);
    kiln_walk_registers *r = &w->registers[buffer];
    r->live = true;
    r->width = kiln_register_width(w->p, scope, buffer);
    r->chunk_count = (uint32_t)((kiln_shape_count(&physical) + r->width - 1) / r->width);
    r->chunk = KILN_ARENA_ARRAY(w->arena, kiln_ssa, r->chunk_count);
}

void kiln_walk_registers_end(kiln_walk *w, kiln_buffer buffer) {
    w->registers[buffer].live = false;
}

/* The type of the buffer's values in computations; `lanes` 0: a scalar. */
static kiln_ssa_type element_type(const kiln_walk *w, kiln_buffer buffer, uint32_t lanes) {
    return kiln_type_vector(kiln_walk_scalar(w, buffer_dtype(w, buffer)), lanes);
}

kiln_ssa_type kiln_walk_chunk_type(const kiln_walk *w, kiln_buffer buffer) {
    uint32_t width = w->registers[buffer].width;
    return element_type(w, buffer, width == 1 ? 0 : width);
}

static kiln_ssa poison(kiln_walk *w, kiln_ssa_type type) { return w->b->ops->poison(w->b, type); }

/* NULL for an element that does not exist, which masked-off lanes may name. */
static kiln_ssa *chunk_at(kiln_walk *w, kiln_buffer buffer, int64_t element) {
    kiln_walk_registers *r = &w->registers[buffer];
    KILN_CHECK(r->live);
    if (element < 0 || element >= (int64_t)r->chunk_count * r->width) return NULL;
    return &r->chunk[element / r->width];
}

static kiln_ssa register_read_element(kiln_walk *w, kiln_buffer buffer, int64_t element) {
    kiln_ssa *chunk = chunk_at(w, buffer, element);
    if (!chunk || !*chunk) return poison(w, element_type(w, buffer, 0));
    return kiln_walk_extract(w, *chunk, (uint32_t)(element % w->registers[buffer].width));
}

static void register_write_element(kiln_walk *w, kiln_buffer buffer, int64_t element,
                                   kiln_ssa value) {
    kiln_ssa *chunk = chunk_at(w, buffer, element);
    uint32_t width = w->registers[buffer].width;
    if (!chunk) return;
    if (!*chunk) *chunk = poison(w, kiln_walk_chunk_type(w, buffer));
    *chunk =
        width == 1 ? value : w->b->ops->insert(w->b, *chunk, value, (uint32_t)(element % width));
}

/* The first chunk, if the lanes of the current vector loop are whole chunks in order; else NULL. */
static kiln_ssa *whole_chunks(kiln_walk *w, kiln_buffer buffer, const kiln_affine *offset) {
    uint32_t width = w->registers[buffer].width;
    int64_t first = kiln_walk_constant_offset(w, offset, 0);
    if (width == 1 || w->lanes % width != 0 || first % width != 0) return NULL;
    for (uint32_t lane = 1; lane < w->lanes; lane++)
        if (kiln_walk_constant_offset(w, offset, lane) != first + lane) return NULL;
    return chunk_at(w, buffer, first + w->lanes - 1) ? chunk_at(w, buffer, first) : NULL;
}

/* Lanes [first, first + count) of `a`, or with count over its lanes, of both operands end to end.
 */
static kiln_ssa take_lanes(kiln_walk *w, kiln_ssa a, kiln_ssa b, uint32_t first, uint32_t count) {
    int32_t lane[2 * KILN_LOWER_LANES_MAX];
    for (uint32_t i = 0; i < count; i++) lane[i] = (int32_t)(first + i);
    return w->b->ops->shuffle(w->b, a, b, lane, count);
}

/* A shuffle joins vectors of one size only, so the part so far and the next chunk are both widened.
 */
static kiln_ssa join_chunks(kiln_walk *w, const kiln_ssa *chunk, uint32_t count, uint32_t width,
                            kiln_ssa_type type) {
    kiln_ssa all = NULL;
    for (uint32_t i = 0; i < count; i++) {
        kiln_ssa part = chunk[i] ? chunk[i] : poison(w, type);
        if (i > 0) {
            uint32_t have = i * width;
            int32_t grow[KILN_LOWER_LANES_MAX];
            for (uint32_t lane = 0; lane < have; lane++)
                grow[lane] = lane < width ? (int32_t)lane : -1;
            kiln_ssa wide = take_lanes(w, part, NULL, 0, width);
            wide = w->b->ops->shuffle(w->b, wide, NULL, grow, have);
            all = take_lanes(w, all, wide, 0, have + width);
        } else {
            all = part;
        }
    }
    return all;
}

/* The chunk that consists of these elements, in order; NULL: there is none. */
static kiln_ssa *chunk_of(kiln_walk *w, kiln_buffer buffer, const int64_t *element,
                          uint32_t count) {
    const uint32_t width = w->registers[buffer].width;
    if (width != count || width == 1 || element[0] % width != 0) return NULL;
    for (uint32_t i = 1; i < count; i++)
        if (element[i] != element[0] + i) return NULL;
    return chunk_at(w, buffer, element[0]);
}

/* Takes lanes from two chunks by one shuffle. NULL: they lie in more than two. */
static kiln_ssa lanes_of_chunks(kiln_walk *w, kiln_buffer buffer, const int64_t *element,
                                uint32_t count) {
    const uint32_t width = w->registers[buffer].width;
    kiln_ssa *chunk[2] = {chunk_at(w, buffer, element[0]), NULL};
    int32_t number[KILN_LOWER_LANES_MAX];
    if (width == 1) return NULL;
    for (uint32_t i = 0; i < count; i++) {
        kiln_ssa *at = chunk_at(w, buffer, element[i]);
        if (!at || !*at) return NULL;
        if (at != chunk[0] && !chunk[1]) chunk[1] = at;
        if (at != chunk[0] && at != chunk[1]) return NULL;
        number[i] = (int32_t)(element[i] % width + (at == chunk[0] ? 0 : width));
    }
    return w->b->ops->shuffle(w->b, *chunk[0], chunk[1] ? *chunk[1] : NULL, number, count);
}

kiln_ssa kiln_walk_registers_take(kiln_walk *w, kiln_buffer buffer, const int64_t *element,
                                  uint32_t count) {
    const kiln_ssa *chunk = chunk_of(w, buffer, element, count);
    if (chunk) return *chunk ? *chunk : poison(w, kiln_walk_chunk_type(w, buffer));
    kiln_ssa all = lanes_of_chunks(w, buffer, element, count);
    if (all) return all;
    all = poison(w, element_type(w, buffer, count));
    for (uint32_t i = 0; i < count; i++) {
        kiln_ssa one = register_read_element(w, buffer, element[i]);
        all = w->b->ops->insert(w->b, all, one, i);
    }
    return all;
}

void kiln_walk_registers_put(kiln_walk *w, kiln_buffer buffer, const int64_t *element,
                             uint32_t count, kiln_ssa value) {
    kiln_ssa *chunk = chunk_of(w, buffer, element, count);
    if (chunk) *chunk = value;
    for (uint32_t i = 0; i < count && !chunk; i++)
        register_write_element(w, buffer, element[i], kiln_walk_extract(w, value, i));
}

static kiln_ssa register_load(kiln_walk *w, kiln_buffer buffer, const kiln_affine *offset) {
    if (w->lanes == 0)
        return register_read_element(w, buffer, kiln_walk_constant_offset(w, offset, 0));
    uint32_t width = w->registers[buffer].width;
    kiln_ssa *chunk = whole_chunks(w, buffer, offset);
    if (chunk)
        return join_chunks(w, chunk, w->lanes / width, width, kiln_walk_chunk_type(w, buffer));

    int64_t element[KILN_LOWER_LANES_MAX];
    for (uint32_t lane = 0; lane < w->lanes; lane++)
        element[lane] = kiln_walk_constant_offset(w, offset, lane);
    bool uniform = element[1] == element[0] && element[w->lanes - 1] == element[0];
    if (uniform) return register_read_element(w, buffer, element[0]);
    return kiln_walk_registers_take(w, buffer, element, w->lanes);
}

static kiln_ssa blend(kiln_walk *w, kiln_ssa mask, kiln_ssa value, kiln_ssa old) {
    return old && mask ? kiln_walk_select(w, mask, value, old) : value;
}

static void register_store(kiln_walk *w, kiln_buffer buffer, const kiln_affine *offset,
                           kiln_ssa value) {
    if (w->lanes == 0) {
        register_write_element(w, buffer, kiln_walk_constant_offset(w, offset, 0), value);
        return;
    }
    uint32_t width = w->registers[buffer].width;
    kiln_ssa *chunk = whole_chunks(w, buffer, offset);
    value = kiln_walk_splat(w, value, w->lanes);
    if (chunk) {
        for (uint32_t first = 0; first < w->lanes; first += width, chunk++) {
            bool whole = width == w->lanes;
            kiln_ssa part = whole ? value : take_lanes(w, value, NULL, first, width);
            kiln_ssa mask =
                whole || !w->mask ? w->mask : take_lanes(w, w->mask, NULL, first, width);
            *chunk = blend(w, mask, part, *chunk);
        }
        return;
    }
    for (uint32_t lane = 0; lane < w->lanes; lane++) {
        int64_t element = kiln_walk_constant_offset(w, offset, lane);
        kiln_ssa *at = chunk_at(w, buffer, element);
        kiln_ssa old = at && *at ? register_read_element(w, buffer, element) : NULL;
        kiln_ssa mask = w->mask ? kiln_walk_extract(w, w->mask, lane) : NULL;
        register_write_element(w, buffer, element,
                               blend(w, mask, kiln_walk_extract(w, value, lane), old));
    }
}

/* ---- memory ---------------------------------------------------------------------------------- */

bool kiln_walk_load_is_safe(kiln_walk *w, kiln_expr load) {
    kiln_buffer buffer = kiln_expr_get(w->p, load)->payload.id;
    if (in_registers(w, buffer)) return true;
    const kiln_buffer_info *info = &w->p->buffer.data[buffer];
    kiln_shape physical = kiln_layout_physical(&info->layout, &info->shape);
    kiln_interval offset =
        kiln_expr_bounds(w->p, kiln_affine_to_expr(w->p, kiln_walk_load_offset(w, load)), NULL);
    return offset.low >= 0 && offset.high < kiln_shape_count(&physical);
}

enum { KEY_SCALAR, KEY_VECTOR, KEY_GROUP };

static void load_key(const kiln_walk *w, kiln_buffer buffer, const kiln_walk_address *a,
                     uint32_t form, uint64_t key[4]) {
    key[0] = (uint64_t)buffer << 32 | w->epoch[buffer];
    key[1] = (uint64_t)(uintptr_t)a->pointer;
    key[2] = (uint64_t)a->constant;
    key[3] = form == KEY_VECTOR  ? (uint64_t)w->lanes << 32 | (uint32_t)a->lane_stride
             : form == KEY_GROUP ? UINT64_MAX
                                 : 0;
    key[0] |= (uint64_t)w->moves << 63;
}

/* If multiply-adds can take one element of a register as a factor of all lanes, adjacent elements
 * are loaded together, because unrolled steps need them next. The group is aligned as a whole, so
 * that it lies in one page with the needed element, even if it exceeds its buffer. NULL: does not
 * apply. */
static kiln_ssa load_in_group(kiln_walk *w, kiln_buffer buffer, const kiln_walk_address *a) {
    kiln_dtype dtype = buffer_dtype(w, buffer);
    const bool halves = dtype == KILN_F16 && kiln_target_has(w->target, KILN_STR("fp16fml"));
    int64_t group = w->target->factor_lanes * (halves ? 2 : 1);
    uint32_t bytes = (uint32_t)group * (uint32_t)kiln_dtype_size(dtype);
    if (w->target->factor_lanes == 1 || (dtype != KILN_F32 && !halves) || a->pointer_align < bytes)
        return NULL;
    int64_t lane = ((a->constant % group) + group) % group;
    kiln_walk_address at = *a;
    at.constant -= lane;
    uint64_t key[4];
    load_key(w, buffer, &at, KEY_GROUP, key);
    kiln_ssa all = kiln_walk_table_find(&w->loads, key);
    if (!all) {
        kiln_ssa_type type = kiln_type_vector(kiln_scalar_in_memory(dtype), (uint32_t)group);
        all = w->b->ops->load(w->b, type, kiln_walk_pointer(w, &at, dtype, 0), bytes, NULL);
        kiln_walk_table_put(w, &w->loads, key, all);
    }
    return kiln_walk_from_memory(w, dtype, kiln_walk_extract(w, all, (uint32_t)lane));
}

static kiln_ssa load_scalar_at(kiln_walk *w, kiln_buffer buffer, const kiln_walk_address *a,
                               int64_t plus) {
    kiln_walk_address at = *a;
    at.constant += plus;
    uint64_t key[4];
    load_key(w, buffer, &at, KEY_SCALAR, key);
    kiln_ssa known = kiln_walk_table_find(&w->loads, key);
    if (known) return known;
    kiln_dtype dtype = buffer_dtype(w, buffer);
    kiln_ssa pointer = kiln_walk_pointer(w, &at, dtype, 0);
    known = w->b->ops->load(w->b, kiln_type_scalar(kiln_scalar_in_memory(dtype)), pointer,
                            (uint32_t)kiln_dtype_size(dtype), NULL);
    known = kiln_walk_from_memory(w, dtype, known);
    kiln_walk_table_put(w, &w->loads, key, known);
    return known;
}

/* Consecutive lanes. Masked-off lanes are 0. */
static kiln_ssa load_vector(kiln_walk *w, kiln_buffer buffer, const kiln_walk_address *a,
                            uint32_t lanes, kiln_ssa mask) {
    kiln_dtype dtype = buffer_dtype(w, buffer);
    kiln_ssa_type type = kiln_type_vector(kiln_scalar_in_memory(dtype), lanes);
    kiln_ssa pointer = kiln_walk_pointer(w, a, dtype, 0);
    return kiln_walk_from_memory(w, dtype, w->b->ops->load(w->b, type, pointer, a->align, mask));
}

/* ---- lanes that are not contiguous
 * -------------------------------------------------------------------- */

/* Contiguous lanes in memory. A vector over narrower blocks consists of several such runs. */
typedef struct lane_run {
    uint32_t first, count; /* lanes */
} lane_run;

/* The offset of each lane, and the runs that they form; run_count 0: too many runs. */
typedef struct lane_places {
    kiln_walk_address at[KILN_LOWER_LANES_MAX];
    lane_run run[KILN_LOWER_LANES_MAX];
    uint32_t run_count;
} lane_places;

/* Least average lanes per run for which runs are cheaper than single lanes. */
#define RUN_LANES_MIN 4

static void find_places(kiln_walk *w, kiln_buffer buffer, const kiln_affine *offset,
                        lane_places *p) {
    p->run_count = 0;
    for (uint32_t lane = 0; lane < w->lanes; lane++) {
        kiln_walk_enter_lane(w, lane);
        p->at[lane] = kiln_walk_address_of(w, buffer, offset);
        kiln_walk_leave_lane(w);
        bool follows = lane > 0 && p->at[lane].pointer == p->at[lane - 1].pointer &&
                       p->at[lane].constant == p->at[lane - 1].constant + 1;
        if (follows)
            p->run[p->run_count - 1].count++;
        else
            p->run[p->run_count++] = (lane_run){lane, 1};
    }
    if (p->run_count * RUN_LANES_MIN > w->lanes) p->run_count = 0;
}

/* A vector of each lane's pointer. */
static kiln_ssa lane_pointers(kiln_walk *w, kiln_buffer buffer, const lane_places *p) {
    kiln_ssa all = NULL;
    for (uint32_t lane = 0; lane < w->lanes; lane++) {
        kiln_ssa pointer = kiln_walk_pointer(w, &p->at[lane], buffer_dtype(w, buffer), 0);
        if (!all) {
            kiln_ssa_type type = w->b->ops->type_of(w->b, pointer); /* with its space */
            type.lanes = w->lanes;
            all = poison(w, type);
        }
        all = w->b->ops->insert(w->b, all, pointer, lane);
    }
    return all;
}

/* The mask of a run; NULL: all of its lanes are active. */
static kiln_ssa mask_of_run(kiln_walk *w, kiln_ssa mask, lane_run run) {
    kiln_ssa part = mask ? take_lanes(w, mask, NULL, run.first, run.count) : NULL;
    return part && w->b->ops->known_mask(w->b, part, true) ? NULL : part;
}

static bool is_off(kiln_walk *w, kiln_ssa mask) {
    return mask && w->b->ops->known_mask(w->b, mask, false);
}

/* Whether each lane of the mask is a known constant. */
static bool is_known(kiln_walk *w, kiln_ssa mask) {
    for (uint32_t lane = 0; lane < w->lanes; lane++) {
        const kiln_ssa one = take_lanes(w, mask, NULL, lane, 1);
        if (!w->b->ops->known_mask(w->b, one, true) && !is_off(w, one)) return false;
    }
    return true;
}

/* Replaces lanes [first, first + count) of `all` by those of `part`. */
static kiln_ssa put_lanes(kiln_walk *w, kiln_ssa all, kiln_ssa part, lane_run run) {
    int32_t number[KILN_LOWER_LANES_MAX], wide[KILN_LOWER_LANES_MAX];
    for (uint32_t lane = 0; lane < w->lanes; lane++) {
        bool inside = lane >= run.first && lane < run.first + run.count;
        wide[lane] = inside ? (int32_t)(lane - run.first) : -1;
        number[lane] = (int32_t)(inside ? w->lanes + lane : lane);
    }
    part = w->b->ops->shuffle(w->b, part, NULL, wide, w->lanes);
    return w->b->ops->shuffle(w->b, all, part, number, w->lanes);
}

static kiln_ssa load_runs(kiln_walk *w, kiln_buffer buffer, const lane_places *p, kiln_ssa mask) {
    kiln_ssa_type type = element_type(w, buffer, w->lanes);
    kiln_ssa all = mask ? w->b->ops->zero(w->b, type) : poison(w, type);
    for (uint32_t i = 0; i < p->run_count; i++) {
        kiln_ssa part_mask = mask_of_run(w, mask, p->run[i]);
        if (is_off(w, part_mask)) continue;
        const kiln_walk_address *at = &p->at[p->run[i].first];
        kiln_ssa part = load_vector(w, buffer, at, p->run[i].count, part_mask);
        all = put_lanes(w, all, part, p->run[i]);
    }
    return all;
}

static kiln_ssa load_lanes(kiln_walk *w, kiln_buffer buffer, const kiln_affine *offset,
                           kiln_ssa mask) {
    kiln_dtype dtype = buffer_dtype(w, buffer);
    lane_places places;
    find_places(w, buffer, offset, &places);
    if (places.run_count) return load_runs(w, buffer, &places, mask);
    if (mask && !is_known(w, mask)) {
        kiln_ssa_type type = kiln_type_vector(kiln_scalar_in_memory(dtype), w->lanes);
        kiln_ssa pointers = lane_pointers(w, buffer, &places);
        return kiln_walk_from_memory(w, dtype, w->b->ops->gather(w->b, type, pointers, mask));
    }
    kiln_ssa_type type = element_type(w, buffer, w->lanes);
    kiln_ssa all = mask ? w->b->ops->zero(w->b, type) : poison(w, type);
    for (uint32_t lane = 0; lane < w->lanes; lane++) {
        if (mask && is_off(w, take_lanes(w, mask, NULL, lane, 1))) continue;
        kiln_ssa one = load_scalar_at(w, buffer, &places.at[lane], 0);
        all = w->b->ops->insert(w->b, all, one, lane);
    }
    return all;
}

/* ---- squares --------------------------------------------------------------------------------- */

/* Whether the offset steps by one from copy to copy of the square's loop. */
static bool follows_copies(const kiln_walk *w, const kiln_affine *offset) {
    bool steps = false;
    for (uint32_t i = 0; i < offset->term_count; i++) {
        const kiln_expr_node *term = kiln_expr_get(w->p, offset->term[i]);
        if (!kiln_expr_uses_var(w->p, offset->term[i], w->square->var)) continue;
        if (term->op != KILN_EXPR_VAR || offset->coefficient[i] != 1) return false;
        steps = true;
    }
    return steps;
}

/* Transposes: in each round pairs of rows exchange lanes. */
static void transpose(kiln_walk *w, kiln_ssa *row, uint32_t count) {
    for (uint32_t d = count / 2; d > 0; d /= 2)
        for (uint32_t i = 0; i < count; i++) {
            int32_t upper[KILN_LOWER_LANES_MAX], lower[KILN_LOWER_LANES_MAX];
            if (i & d) continue;
            for (uint32_t j = 0; j < count; j++) {
                upper[j] = (int32_t)(j & d ? count + j - d : j);
                lower[j] = (int32_t)(j & d ? count + j : j + d);
            }
            const kiln_ssa a = row[i], b = row[i + d];
            row[i] = w->b->ops->shuffle(w->b, a, b, upper, count);
            row[i + d] = w->b->ops->shuffle(w->b, a, b, lower, count);
        }
}

/* Lanes that are not contiguous, but of which unrolled copies read consecutive elements: the first
 * copy loads the elements of all copies as vectors, transposes them in registers, and keeps them.
 * Shuffles take a fourth of the time of a load and an insertion for each lane. NULL: it is no
 * square. */
static kiln_ssa load_square(kiln_walk *w, kiln_expr load, kiln_buffer buffer,
                            const kiln_affine *offset, const kiln_walk_address *a) {
    const kiln_dtype dtype = buffer_dtype(w, buffer);
    const int64_t bytes = (int64_t)kiln_dtype_size(dtype);
    const bool is_first = w->square && w->square->first == w->slot[w->square->var].constant;
    kiln_ssa row[KILN_LOWER_LANES_MAX];
    if (!is_first || bytes < 2 || !follows_copies(w, offset) || !kiln_walk_load_is_safe(w, load))
        return NULL;
    for (uint32_t lane = 0; lane < w->lanes; lane++) {
        kiln_walk_address at = *a;
        at.constant += (int64_t)lane * a->lane_stride;
        const uint64_t bits = a->pointer_align | (uint64_t)(at.constant * bytes);
        at.align = (uint32_t)(bits & -bits);
        row[lane] = load_vector(w, buffer, &at, w->lanes, NULL);
    }
    transpose(w, row, w->lanes);
    for (uint32_t copy = 1; copy < w->lanes; copy++) {
        kiln_walk_address at = *a;
        uint64_t key[4];
        at.constant += copy;
        load_key(w, buffer, &at, KEY_VECTOR, key);
        kiln_walk_table_put(w, &w->loads, key, row[copy]);
    }
    return row[0];
}

typedef struct guarded_load {
    kiln_buffer buffer;
    const kiln_walk_address *address;
} guarded_load;

static kiln_ssa guarded_load_side(kiln_walk *w, void *context) {
    const guarded_load *g = context;
    return load_scalar_at(w, g->buffer, g->address, 0);
}

static kiln_ssa zero_side(kiln_walk *w, void *context) {
    const guarded_load *g = context;
    return w->b->ops->zero(w->b, element_type(w, g->buffer, 0));
}

kiln_ssa kiln_walk_load(kiln_walk *w, kiln_expr load) {
    kiln_buffer buffer = kiln_expr_get(w->p, load)->payload.id;
    const kiln_affine *offset = kiln_walk_load_offset(w, load);
    if (in_registers(w, buffer)) return register_load(w, buffer, offset);

    kiln_walk_address a = kiln_walk_address_of(w, buffer, offset);
    guarded_load g = {buffer, &a};
    if (w->lanes == 0) {
        if (!w->all_mask || kiln_walk_load_is_safe(w, load))
            return load_scalar_at(w, buffer, &a, 0);
        return kiln_walk_branch(w, kiln_walk_extract(w, w->all_mask, w->lane), guarded_load_side,
                                zero_side, &g);
    }
    kiln_ssa mask = w->mask && !kiln_walk_load_is_safe(w, load) ? w->mask : NULL;
    if (a.linear && a.lane_stride == 0) {
        kiln_ssa factor = mask ? NULL : load_in_group(w, buffer, &a);
        if (factor) return factor;
        if (!mask) return load_scalar_at(w, buffer, &a, 0);
        return kiln_walk_branch(w, w->b->ops->any(w->b, mask), guarded_load_side, zero_side, &g);
    }

    uint64_t key[4];
    load_key(w, buffer, &a, KEY_VECTOR, key);
    bool keep = a.linear && !mask;
    kiln_ssa v = keep ? kiln_walk_table_find(&w->loads, key) : NULL;
    if (v) return v;
    if (a.linear && a.lane_stride == 1)
        v = load_vector(w, buffer, &a, w->lanes, mask);
    else if (keep)
        v = load_square(w, load, buffer, offset, &a);
    if (!v) v = load_lanes(w, buffer, offset, mask);
    if (keep) kiln_walk_table_put(w, &w->loads, key, v);
    return v;
}

/* Stores a scalar, or contiguous lanes of a vector, with or without a mask. */
static void store_at(kiln_walk *w, kiln_dtype dtype, const kiln_walk_address *a, kiln_ssa value,
                     uint32_t align, kiln_ssa mask) {
    kiln_ssa pointer = kiln_walk_pointer(w, a, dtype, 0);
    w->b->ops->store(w->b, kiln_walk_to_memory(w, dtype, value), pointer, align, mask);
}

static void store_scalar(kiln_walk *w, kiln_dtype dtype, const kiln_walk_address *a,
                         kiln_ssa value) {
    store_at(w, dtype, a, value, (uint32_t)kiln_dtype_size(dtype), NULL);
}

static void store_runs(kiln_walk *w, kiln_dtype dtype, const lane_places *p, kiln_ssa value) {
    for (uint32_t i = 0; i < p->run_count; i++) {
        kiln_ssa mask = mask_of_run(w, w->mask, p->run[i]);
        if (is_off(w, mask)) continue;
        kiln_ssa part = take_lanes(w, value, NULL, p->run[i].first, p->run[i].count);
        const kiln_walk_address *at = &p->at[p->run[i].first];
        store_at(w, dtype, at, part, at->align, mask);
    }
}

static void store_lanes(kiln_walk *w, kiln_buffer buffer, const kiln_affine *offset,
                        kiln_ssa value) {
    kiln_dtype dtype = buffer_dtype(w, buffer);
    lane_places places;
    find_places(w, buffer, offset, &places);
    if (places.run_count) {
        store_runs(w, dtype, &places, value);
        return;
    }
    if (w->mask) {
        value = kiln_walk_to_memory(w, dtype, value);
        kiln_ssa pointers = lane_pointers(w, buffer, &places);
        w->b->ops->scatter(w->b, value, pointers, w->mask);
        return;
    }
    for (uint32_t lane = 0; lane < w->lanes; lane++)
        store_scalar(w, dtype, &places.at[lane], kiln_walk_extract(w, value, lane));
}

typedef struct guarded_store {
    kiln_dtype dtype;
    const kiln_walk_address *address;
    kiln_ssa value;
} guarded_store;

static kiln_ssa guarded_store_side(kiln_walk *w, void *context) {
    const guarded_store *g = context;
    store_scalar(w, g->dtype, g->address, g->value);
    return NULL;
}

void kiln_walk_store(kiln_walk *w, kiln_stmt store, kiln_ssa value) {
    kiln_buffer buffer = w->p->stmt.data[store].buffer;
    kiln_dtype dtype = buffer_dtype(w, buffer);
    const kiln_affine *offset = kiln_walk_store_offset(w, store);
    if (in_registers(w, buffer)) {
        register_store(w, buffer, offset, value);
        return;
    }
    kiln_walk_address a = kiln_walk_address_of(w, buffer, offset);
    w->epoch[buffer]++;
    if (w->lanes == 0) {
        store_scalar(w, dtype, &a, value);
    } else if (a.linear && a.lane_stride == 0) {
        /* All lanes write one element; without a race they all write the same value. */
        value = kiln_walk_extract(w, value, 0);
        guarded_store g = {dtype, &a, value};
        if (w->mask)
            kiln_walk_branch(w, w->b->ops->any(w->b, w->mask), guarded_store_side, NULL, &g);
        else
            store_scalar(w, dtype, &a, value);
    } else {
        value = kiln_walk_splat(w, value, w->lanes);
        if (a.linear && a.lane_stride == 1)
            store_at(w, dtype, &a, value, a.align, w->mask);
        else
            store_lanes(w, buffer, offset, value);
    }
}
