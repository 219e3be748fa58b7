/* Loads and stores: scalar, whole vectors, masked vectors, lane by lane; and REGISTER buffers,
 * whose elements are SSA values. */
#include "base/check.h"
#include "compiler-core/codegen/llvm_emit.h"
#include "compiler-core/lower/registers.h"

static kiln_dtype buffer_dtype(const kiln_llvm_emitter *e, kiln_buffer buffer) {
    return e->p->buffer.data[buffer].dtype;
}

static bool in_registers(const kiln_llvm_emitter *e, kiln_buffer buffer) {
    return e->p->buffer.data[buffer].scope == KILN_SCOPE_REGISTER;
}

/* ---- registers ------------------------------------------------------------------------------- */

void kiln_llvm_registers_begin(kiln_llvm_emitter *e, kiln_buffer buffer, kiln_stmt scope) {
    const kiln_buffer_info *info = &e->p->buffer.data[buffer];
    kiln_shape physical = kiln_layout_physical(&info->layout, &info->shape);
    kiln_llvm_registers *r = &e->registers[buffer];
    r->live = true;
    r->width = kiln_register_width(e->p, scope, buffer);
    r->chunk_count = (uint32_t)((kiln_shape_count(&physical) + r->width - 1) / r->width);
    r->chunk = KILN_ARENA_ARRAY(e->arena, LLVMValueRef, r->chunk_count);
}

void kiln_llvm_registers_end(kiln_llvm_emitter *e, kiln_buffer buffer) {
    e->registers[buffer].live = false;
}

static LLVMTypeRef chunk_type(kiln_llvm_emitter *e, kiln_buffer buffer) {
    LLVMTypeRef scalar = kiln_llvm_compute_type(e, buffer_dtype(e, buffer));
    uint32_t width = e->registers[buffer].width;
    return width == 1 ? scalar : LLVMVectorType(scalar, width);
}

/* NULL for an element that does not exist: lanes that are masked off may name one. */
static LLVMValueRef *chunk_at(kiln_llvm_emitter *e, kiln_buffer buffer, int64_t element) {
    kiln_llvm_registers *r = &e->registers[buffer];
    KILN_CHECK(r->live);
    if (element < 0 || element >= (int64_t)r->chunk_count * r->width) return NULL;
    return &r->chunk[element / r->width];
}

static LLVMValueRef register_read_element(kiln_llvm_emitter *e, kiln_buffer buffer,
                                          int64_t element) {
    LLVMValueRef *chunk = chunk_at(e, buffer, element);
    if (!chunk || !*chunk) return LLVMGetPoison(kiln_llvm_compute_type(e, buffer_dtype(e, buffer)));
    return kiln_llvm_extract(e, *chunk, (uint32_t)(element % e->registers[buffer].width));
}

static void register_write_element(kiln_llvm_emitter *e, kiln_buffer buffer, int64_t element,
                                   LLVMValueRef value) {
    LLVMValueRef *chunk = chunk_at(e, buffer, element);
    uint32_t width = e->registers[buffer].width;
    if (!chunk) return;
    if (!*chunk) *chunk = LLVMGetPoison(chunk_type(e, buffer));
    *chunk = width == 1 ? value : kiln_llvm_insert(e, *chunk, value, (uint32_t)(element % width));
}

/* Lanes of the current vector loop that lie in whole chunks, in order: the first chunk, or NULL. */
static LLVMValueRef *whole_chunks(kiln_llvm_emitter *e, kiln_buffer buffer,
                                  const kiln_affine *offset) {
    uint32_t width = e->registers[buffer].width;
    int64_t first = kiln_llvm_constant_offset(e, offset, 0);
    if (width == 1 || e->lanes % width != 0 || first % width != 0) return NULL;
    for (uint32_t lane = 1; lane < e->lanes; lane++)
        if (kiln_llvm_constant_offset(e, offset, lane) != first + lane) return NULL;
    return chunk_at(e, buffer, first + e->lanes - 1) ? chunk_at(e, buffer, first) : NULL;
}

/* Lanes [first, first + count) of `v`, or with count over the lanes of `v`, both operands end to
 * end. */
static LLVMValueRef take_lanes(kiln_llvm_emitter *e, LLVMValueRef a, LLVMValueRef b, uint32_t first,
                               uint32_t count) {
    LLVMValueRef mask = kiln_llvm_ramp(kiln_llvm_int(e, 32), count, first, 1);
    return LLVMBuildShuffleVector(e->builder, a, b ? b : LLVMGetPoison(LLVMTypeOf(a)), mask, "");
}

/* A shuffle joins vectors of one size only, so the part so far and the next chunk are both widened.
 */
static LLVMValueRef join_chunks(kiln_llvm_emitter *e, LLVMValueRef *chunk, uint32_t count,
                                uint32_t width, LLVMTypeRef type) {
    LLVMValueRef all = NULL;
    for (uint32_t i = 0; i < count; i++) {
        LLVMValueRef part = chunk[i] ? chunk[i] : LLVMGetPoison(type);
        if (i > 0) {
            uint32_t have = i * width;
            LLVMValueRef wide = take_lanes(e, part, NULL, 0, width);
            LLVMValueRef grow[KILN_LOWER_LANES_MAX];
            for (uint32_t lane = 0; lane < have; lane++)
                grow[lane] = lane < width ? LLVMConstInt(kiln_llvm_int(e, 32), lane, false)
                                          : LLVMGetPoison(kiln_llvm_int(e, 32));
            wide = LLVMBuildShuffleVector(e->builder, wide, LLVMGetPoison(type),
                                          LLVMConstVector(grow, have), "");
            all = take_lanes(e, all, wide, 0, have + width);
        } else {
            all = part;
        }
    }
    return all;
}

static LLVMValueRef register_load(kiln_llvm_emitter *e, kiln_buffer buffer,
                                  const kiln_affine *offset) {
    if (e->lanes == 0)
        return register_read_element(e, buffer, kiln_llvm_constant_offset(e, offset, 0));
    uint32_t width = e->registers[buffer].width;
    LLVMValueRef *chunk = whole_chunks(e, buffer, offset);
    if (chunk) return join_chunks(e, chunk, e->lanes / width, width, chunk_type(e, buffer));

    int64_t first = kiln_llvm_constant_offset(e, offset, 0);
    bool uniform = kiln_llvm_constant_offset(e, offset, 1) == first &&
                   kiln_llvm_constant_offset(e, offset, e->lanes - 1) == first;
    if (uniform) return register_read_element(e, buffer, first);
    LLVMTypeRef type = LLVMVectorType(kiln_llvm_compute_type(e, buffer_dtype(e, buffer)), e->lanes);
    LLVMValueRef all = LLVMGetPoison(type);
    for (uint32_t lane = 0; lane < e->lanes; lane++) {
        int64_t element = kiln_llvm_constant_offset(e, offset, lane);
        all = kiln_llvm_insert(e, all, register_read_element(e, buffer, element), lane);
    }
    return all;
}

static LLVMValueRef blend(kiln_llvm_emitter *e, LLVMValueRef mask, LLVMValueRef value,
                          LLVMValueRef old) {
    return old && mask ? LLVMBuildSelect(e->builder, mask, value, old, "") : value;
}

static void register_store(kiln_llvm_emitter *e, kiln_buffer buffer, const kiln_affine *offset,
                           LLVMValueRef value) {
    if (e->lanes == 0) {
        register_write_element(e, buffer, kiln_llvm_constant_offset(e, offset, 0), value);
        return;
    }
    uint32_t width = e->registers[buffer].width;
    LLVMValueRef *chunk = whole_chunks(e, buffer, offset);
    value = kiln_llvm_splat(e, value, e->lanes);
    if (chunk) {
        for (uint32_t first = 0; first < e->lanes; first += width, chunk++) {
            bool whole = width == e->lanes;
            LLVMValueRef part = whole ? value : take_lanes(e, value, NULL, first, width);
            LLVMValueRef mask =
                whole || !e->mask ? e->mask : take_lanes(e, e->mask, NULL, first, width);
            *chunk = blend(e, mask, part, *chunk);
        }
        return;
    }
    for (uint32_t lane = 0; lane < e->lanes; lane++) {
        int64_t element = kiln_llvm_constant_offset(e, offset, lane);
        LLVMValueRef *at = chunk_at(e, buffer, element);
        LLVMValueRef old = at && *at ? register_read_element(e, buffer, element) : NULL;
        LLVMValueRef mask = e->mask ? kiln_llvm_extract(e, e->mask, lane) : NULL;
        register_write_element(e, buffer, element,
                               blend(e, mask, kiln_llvm_extract(e, value, lane), old));
    }
}

/* ---- memory ---------------------------------------------------------------------------------- */

bool kiln_llvm_load_is_safe(kiln_llvm_emitter *e, kiln_expr load) {
    kiln_buffer buffer = kiln_expr_get(e->p, load)->payload.id;
    if (in_registers(e, buffer)) return true;
    const kiln_buffer_info *info = &e->p->buffer.data[buffer];
    kiln_shape physical = kiln_layout_physical(&info->layout, &info->shape);
    kiln_interval offset =
        kiln_expr_bounds(e->p, kiln_affine_to_expr(e->p, kiln_llvm_load_offset(e, load)), NULL);
    return offset.low >= 0 && offset.high < kiln_shape_count(&physical);
}

enum { KEY_SCALAR, KEY_VECTOR, KEY_GROUP };

static void load_key(const kiln_llvm_emitter *e, kiln_buffer buffer, const kiln_llvm_address *a,
                     uint32_t form, uint64_t key[4]) {
    key[0] = (uint64_t)buffer << 32 | e->epoch[buffer];
    key[1] = (uint64_t)(uintptr_t)a->pointer;
    key[2] = (uint64_t)a->constant;
    key[3] = form == KEY_VECTOR  ? (uint64_t)e->lanes << 32 | (uint32_t)a->lane_stride
             : form == KEY_GROUP ? UINT64_MAX
                                 : 0;
}

/* Where multiply-adds take one element of a register as a factor of all lanes, elements that lie
 * together are loaded together: what unrolled steps multiply by next is there already. The group is
 * aligned as a whole, so that it lies in one page with the element that is asked for, even where it
 * goes beyond its buffer. NULL: not of that kind. */
static LLVMValueRef load_in_group(kiln_llvm_emitter *e, kiln_buffer buffer,
                                  const kiln_llvm_address *a) {
    int64_t group = e->target->factor_lanes;
    kiln_dtype dtype = buffer_dtype(e, buffer);
    uint32_t bytes = (uint32_t)group * (uint32_t)kiln_dtype_size(dtype);
    if (group == 1 || dtype != KILN_F32 || a->pointer_align < bytes) return NULL;
    int64_t lane = ((a->constant % group) + group) % group;
    kiln_llvm_address at = *a;
    at.constant -= lane;
    uint64_t key[4];
    load_key(e, buffer, &at, KEY_GROUP, key);
    LLVMValueRef all = kiln_llvm_table_find(&e->loads, key);
    if (!all) {
        LLVMTypeRef type = LLVMVectorType(kiln_llvm_memory_type(e, dtype), (unsigned)group);
        all = LLVMBuildLoad2(e->builder, type, kiln_llvm_pointer(e, &at, dtype, 0), "");
        LLVMSetAlignment(all, bytes);
        kiln_llvm_table_put(e, &e->loads, key, all);
    }
    return kiln_llvm_extract(e, all, (uint32_t)lane);
}

static LLVMValueRef load_scalar_at(kiln_llvm_emitter *e, kiln_buffer buffer,
                                   const kiln_llvm_address *a, int64_t plus) {
    kiln_llvm_address at = *a;
    at.constant += plus;
    uint64_t key[4];
    load_key(e, buffer, &at, KEY_SCALAR, key);
    LLVMValueRef known = kiln_llvm_table_find(&e->loads, key);
    if (known) return known;
    kiln_dtype dtype = buffer_dtype(e, buffer);
    LLVMValueRef pointer = kiln_llvm_pointer(e, &at, dtype, 0);
    known = LLVMBuildLoad2(e->builder, kiln_llvm_memory_type(e, dtype), pointer, "");
    LLVMSetAlignment(known, (unsigned)kiln_dtype_size(dtype));
    known = kiln_llvm_from_memory(e, dtype, known);
    kiln_llvm_table_put(e, &e->loads, key, known);
    return known;
}

/* Consecutive lanes. Masked-off lanes are 0. */
static LLVMValueRef load_vector(kiln_llvm_emitter *e, kiln_buffer buffer,
                                const kiln_llvm_address *a, uint32_t lanes, LLVMValueRef mask) {
    LLVMTypeRef type = LLVMVectorType(kiln_llvm_memory_type(e, buffer_dtype(e, buffer)), lanes);
    LLVMValueRef pointer = kiln_llvm_pointer(e, a, buffer_dtype(e, buffer), 0);
    LLVMValueRef v;
    if (mask) {
        LLVMValueRef arg[4] = {pointer, LLVMConstInt(kiln_llvm_int(e, 32), a->align, false), mask,
                               LLVMConstNull(type)};
        v = kiln_llvm_intrinsic(e, "llvm.masked.load", (LLVMTypeRef[]){type, kiln_llvm_ptr(e)}, 2,
                                arg, 4);
    } else {
        v = LLVMBuildLoad2(e->builder, type, pointer, "");
        LLVMSetAlignment(v, a->align);
    }
    return kiln_llvm_from_memory(e, buffer_dtype(e, buffer), v);
}

/* ---- lanes that lie apart -------------------------------------------------------------------- */

/* Lanes behind one another in memory. A vector over blocks that are narrower than it is a few of
 * these. */
typedef struct lane_run {
    uint32_t first, count; /* lanes */
} lane_run;

/* Where each lane is, and the runs that they make; run_count 0: they lie too far apart. */
typedef struct lane_places {
    kiln_llvm_address at[KILN_LOWER_LANES_MAX];
    lane_run run[KILN_LOWER_LANES_MAX];
    uint32_t run_count;
} lane_places;

/* Lanes a run has on average, from which on runs cost less than single lanes. */
#define RUN_LANES_MIN 4

static void find_places(kiln_llvm_emitter *e, kiln_buffer buffer, const kiln_affine *offset,
                        lane_places *p) {
    p->run_count = 0;
    for (uint32_t lane = 0; lane < e->lanes; lane++) {
        kiln_llvm_enter_lane(e, lane);
        p->at[lane] = kiln_llvm_address_of(e, buffer, offset);
        kiln_llvm_leave_lane(e);
        bool follows = lane > 0 && p->at[lane].pointer == p->at[lane - 1].pointer &&
                       p->at[lane].constant == p->at[lane - 1].constant + 1;
        if (follows)
            p->run[p->run_count - 1].count++;
        else
            p->run[p->run_count++] = (lane_run){lane, 1};
    }
    if (p->run_count * RUN_LANES_MIN > e->lanes) p->run_count = 0;
}

/* A vector of each lane's pointer. */
static LLVMValueRef lane_pointers(kiln_llvm_emitter *e, kiln_buffer buffer, const lane_places *p) {
    LLVMValueRef all = LLVMGetPoison(LLVMVectorType(kiln_llvm_ptr(e), e->lanes));
    for (uint32_t lane = 0; lane < e->lanes; lane++) {
        LLVMValueRef pointer = kiln_llvm_pointer(e, &p->at[lane], buffer_dtype(e, buffer), 0);
        all = kiln_llvm_insert(e, all, pointer, lane);
    }
    return all;
}

/* The mask of a run; NULL: all of its lanes are on. */
static LLVMValueRef mask_of_run(kiln_llvm_emitter *e, LLVMValueRef mask, lane_run run) {
    LLVMValueRef part = mask ? take_lanes(e, mask, NULL, run.first, run.count) : NULL;
    return part && LLVMIsConstant(part) && part == LLVMConstAllOnes(LLVMTypeOf(part)) ? NULL : part;
}

static bool is_off(LLVMValueRef mask) { return mask && LLVMIsConstant(mask) && LLVMIsNull(mask); }

/* Lanes [first, first + count) of `all` become those of `part`. */
static LLVMValueRef put_lanes(kiln_llvm_emitter *e, LLVMValueRef all, LLVMValueRef part,
                              lane_run run) {
    LLVMValueRef number[KILN_LOWER_LANES_MAX], wide[KILN_LOWER_LANES_MAX];
    LLVMTypeRef i32 = kiln_llvm_int(e, 32);
    for (uint32_t lane = 0; lane < e->lanes; lane++) {
        bool inside = lane >= run.first && lane < run.first + run.count;
        wide[lane] = inside ? LLVMConstInt(i32, lane - run.first, false) : LLVMGetPoison(i32);
        number[lane] = LLVMConstInt(i32, inside ? e->lanes + lane : lane, false);
    }
    part = LLVMBuildShuffleVector(e->builder, part, LLVMGetPoison(LLVMTypeOf(part)),
                                  LLVMConstVector(wide, e->lanes), "");
    return LLVMBuildShuffleVector(e->builder, all, part, LLVMConstVector(number, e->lanes), "");
}

static LLVMValueRef load_runs(kiln_llvm_emitter *e, kiln_buffer buffer, const lane_places *p,
                              LLVMValueRef mask) {
    LLVMTypeRef type = LLVMVectorType(kiln_llvm_compute_type(e, buffer_dtype(e, buffer)), e->lanes);
    LLVMValueRef all = mask ? LLVMConstNull(type) : LLVMGetPoison(type);
    for (uint32_t i = 0; i < p->run_count; i++) {
        LLVMValueRef part_mask = mask_of_run(e, mask, p->run[i]);
        if (is_off(part_mask)) continue;
        const kiln_llvm_address *at = &p->at[p->run[i].first];
        LLVMValueRef part = load_vector(e, buffer, at, p->run[i].count, part_mask);
        all = put_lanes(e, all, part, p->run[i]);
    }
    return all;
}

static LLVMValueRef load_lanes(kiln_llvm_emitter *e, kiln_buffer buffer, const kiln_affine *offset,
                               LLVMValueRef mask) {
    kiln_dtype dtype = buffer_dtype(e, buffer);
    lane_places places;
    find_places(e, buffer, offset, &places);
    if (places.run_count) return load_runs(e, buffer, &places, mask);
    if (mask) {
        LLVMTypeRef type = LLVMVectorType(kiln_llvm_memory_type(e, dtype), e->lanes);
        LLVMValueRef pointers = lane_pointers(e, buffer, &places);
        LLVMValueRef align = LLVMConstInt(kiln_llvm_int(e, 32), kiln_dtype_size(dtype), false);
        LLVMValueRef arg[4] = {pointers, align, mask, LLVMConstNull(type)};
        LLVMTypeRef overload[2] = {type, LLVMTypeOf(pointers)};
        return kiln_llvm_from_memory(
            e, dtype, kiln_llvm_intrinsic(e, "llvm.masked.gather", overload, 2, arg, 4));
    }
    LLVMValueRef all = LLVMGetPoison(LLVMVectorType(kiln_llvm_compute_type(e, dtype), e->lanes));
    for (uint32_t lane = 0; lane < e->lanes; lane++)
        all = kiln_llvm_insert(e, all, load_scalar_at(e, buffer, &places.at[lane], 0), lane);
    return all;
}

static LLVMValueRef any_lane(kiln_llvm_emitter *e, LLVMValueRef mask) {
    LLVMTypeRef bits = kiln_llvm_int(e, e->lanes);
    return LLVMBuildICmp(e->builder, LLVMIntNE, LLVMBuildBitCast(e->builder, mask, bits, ""),
                         LLVMConstNull(bits), "");
}

typedef struct guarded_load {
    kiln_buffer buffer;
    const kiln_llvm_address *address;
} guarded_load;

static LLVMValueRef guarded_load_side(kiln_llvm_emitter *e, void *context) {
    const guarded_load *g = context;
    return load_scalar_at(e, g->buffer, g->address, 0);
}

static LLVMValueRef zero_side(kiln_llvm_emitter *e, void *context) {
    const guarded_load *g = context;
    return LLVMConstNull(kiln_llvm_compute_type(e, buffer_dtype(e, g->buffer)));
}

LLVMValueRef kiln_llvm_load(kiln_llvm_emitter *e, kiln_expr load) {
    kiln_buffer buffer = kiln_expr_get(e->p, load)->payload.id;
    const kiln_affine *offset = kiln_llvm_load_offset(e, load);
    if (in_registers(e, buffer)) return register_load(e, buffer, offset);

    kiln_llvm_address a = kiln_llvm_address_of(e, buffer, offset);
    guarded_load g = {buffer, &a};
    if (e->lanes == 0) {
        if (!e->all_mask || kiln_llvm_load_is_safe(e, load))
            return load_scalar_at(e, buffer, &a, 0);
        return kiln_llvm_branch(e, kiln_llvm_extract(e, e->all_mask, e->lane), guarded_load_side,
                                zero_side, &g);
    }
    LLVMValueRef mask = e->mask && !kiln_llvm_load_is_safe(e, load) ? e->mask : NULL;
    if (a.linear && a.lane_stride == 0) {
        LLVMValueRef factor = mask ? NULL : load_in_group(e, buffer, &a);
        if (factor) return factor;
        if (!mask) return load_scalar_at(e, buffer, &a, 0);
        return kiln_llvm_branch(e, any_lane(e, mask), guarded_load_side, zero_side, &g);
    }

    uint64_t key[4];
    load_key(e, buffer, &a, KEY_VECTOR, key);
    bool keep = a.linear && !mask;
    LLVMValueRef v = keep ? kiln_llvm_table_find(&e->loads, key) : NULL;
    if (v) return v;
    v = a.linear && a.lane_stride == 1 ? load_vector(e, buffer, &a, e->lanes, mask)
                                       : load_lanes(e, buffer, offset, mask);
    if (keep) kiln_llvm_table_put(e, &e->loads, key, v);
    return v;
}

static void store_scalar(kiln_llvm_emitter *e, kiln_dtype dtype, const kiln_llvm_address *a,
                         LLVMValueRef value) {
    LLVMValueRef pointer = kiln_llvm_pointer(e, a, dtype, 0);
    LLVMValueRef instruction =
        LLVMBuildStore(e->builder, kiln_llvm_to_memory(e, dtype, value), pointer);
    LLVMSetAlignment(instruction, (unsigned)kiln_dtype_size(dtype));
}

static void store_vector(kiln_llvm_emitter *e, kiln_dtype dtype, const kiln_llvm_address *a,
                         LLVMValueRef value, LLVMValueRef mask) {
    LLVMValueRef pointer = kiln_llvm_pointer(e, a, dtype, 0);
    value = kiln_llvm_to_memory(e, dtype, value);
    if (mask) {
        LLVMValueRef arg[4] = {value, pointer, LLVMConstInt(kiln_llvm_int(e, 32), a->align, false),
                               mask};
        kiln_llvm_intrinsic(e, "llvm.masked.store",
                            (LLVMTypeRef[]){LLVMTypeOf(value), kiln_llvm_ptr(e)}, 2, arg, 4);
        return;
    }
    LLVMSetAlignment(LLVMBuildStore(e->builder, value, pointer), a->align);
}

static void store_runs(kiln_llvm_emitter *e, kiln_dtype dtype, const lane_places *p,
                       LLVMValueRef value) {
    for (uint32_t i = 0; i < p->run_count; i++) {
        LLVMValueRef mask = mask_of_run(e, e->mask, p->run[i]);
        if (is_off(mask)) continue;
        LLVMValueRef part = take_lanes(e, value, NULL, p->run[i].first, p->run[i].count);
        store_vector(e, dtype, &p->at[p->run[i].first], part, mask);
    }
}

static void store_lanes(kiln_llvm_emitter *e, kiln_buffer buffer, const kiln_affine *offset,
                        LLVMValueRef value) {
    kiln_dtype dtype = buffer_dtype(e, buffer);
    lane_places places;
    find_places(e, buffer, offset, &places);
    if (places.run_count) {
        store_runs(e, dtype, &places, value);
        return;
    }
    if (e->mask) {
        value = kiln_llvm_to_memory(e, dtype, value);
        LLVMValueRef pointers = lane_pointers(e, buffer, &places);
        LLVMValueRef align = LLVMConstInt(kiln_llvm_int(e, 32), kiln_dtype_size(dtype), false);
        LLVMValueRef arg[4] = {value, pointers, align, e->mask};
        LLVMTypeRef overload[2] = {LLVMTypeOf(value), LLVMTypeOf(pointers)};
        kiln_llvm_intrinsic(e, "llvm.masked.scatter", overload, 2, arg, 4);
        return;
    }
    for (uint32_t lane = 0; lane < e->lanes; lane++)
        store_scalar(e, dtype, &places.at[lane], kiln_llvm_extract(e, value, lane));
}

typedef struct guarded_store {
    kiln_dtype dtype;
    const kiln_llvm_address *address;
    LLVMValueRef value;
} guarded_store;

static LLVMValueRef guarded_store_side(kiln_llvm_emitter *e, void *context) {
    const guarded_store *g = context;
    store_scalar(e, g->dtype, g->address, g->value);
    return NULL;
}

void kiln_llvm_store(kiln_llvm_emitter *e, kiln_stmt store, LLVMValueRef value) {
    kiln_buffer buffer = e->p->stmt.data[store].buffer;
    kiln_dtype dtype = buffer_dtype(e, buffer);
    const kiln_affine *offset = kiln_llvm_store_offset(e, store);
    if (in_registers(e, buffer)) {
        register_store(e, buffer, offset, value);
        return;
    }
    kiln_llvm_address a = kiln_llvm_address_of(e, buffer, offset);
    e->epoch[buffer]++;
    if (e->lanes == 0) {
        store_scalar(e, dtype, &a, value);
    } else if (a.linear && a.lane_stride == 0) {
        /* All lanes write one element; without a race they all write the same value. */
        value = kiln_llvm_extract(e, value, 0);
        guarded_store g = {dtype, &a, value};
        if (e->mask)
            kiln_llvm_branch(e, any_lane(e, e->mask), guarded_store_side, NULL, &g);
        else
            store_scalar(e, dtype, &a, value);
    } else {
        value = kiln_llvm_splat(e, value, e->lanes);
        if (a.linear && a.lane_stride == 1)
            store_vector(e, dtype, &a, value, e->mask);
        else
            store_lanes(e, buffer, offset, value);
    }
}
