/* Loads and stores in C-family text. If each lane has a name, vectors are moved in pieces for which
 * the dialect has types. */
#include "base/check.h"
#include "compiler-core/codegen/c_builder.h"

static kiln_c_builder *of(kiln_builder *b) { return (kiln_c_builder *)b; }
#define TEXT(b, ...) kiln_arena_printf((b)->arena, __VA_ARGS__)

/* A pointer with `qualifier` to elements, or to whole vectors, in memory. */
static const char *qualified(kiln_c_builder *b, const char *qualifier, kiln_ssa_type type,
                             kiln_ssa pointer) {
    return TEXT(b, "(%s%s%s_m *)%s", qualifier, b->dialect->space[pointer->type.space],
                kiln_c_type(b, type), kiln_c_whole(b, pointer));
}

static const char *cast(kiln_c_builder *b, kiln_ssa_type type, kiln_ssa pointer, bool reads) {
    return qualified(b, reads ? "const " : "", type, pointer);
}

static kiln_ssa lane_of(kiln_c_builder *b, kiln_ssa v, uint32_t lane) {
    return b->base.ops->extract(&b->base, v, lane);
}

/* ---- pieces ---------------------------------------------------------------------------------- */

static uint32_t lane_bytes(kiln_ssa_scalar scalar) {
    return KILN_MAX(kiln_ssa_scalar_bits(scalar), 8u) / 8;
}

/* The address of `lane` of a vector at `pointer`. */
static kiln_ssa pointer_of(kiln_c_builder *b, kiln_ssa pointer, kiln_ssa_scalar scalar,
                           uint32_t lane) {
    kiln_builder *base = &b->base;
    const int64_t bytes = (int64_t)lane * lane_bytes(scalar);
    return base->ops->offset(base, pointer,
                             base->ops->integer(base, kiln_type_scalar(KILN_SSA_I64), bytes));
}

/* Whether `count` lanes from `lane` on are aligned for a type of the dialect, in memory that is
 * aligned to `align` at lane 0. */
static bool is_aligned(kiln_ssa_scalar scalar, uint32_t lane, uint32_t count, uint32_t align) {
    const uint32_t bits = align | lane * lane_bytes(scalar);
    return (bits & -bits) >= count * lane_bytes(scalar);
}

/* Lanes that are moved at once, from `lane` on. */
static uint32_t piece_at(const kiln_c_builder *b, kiln_ssa_type type, uint32_t lane,
                         uint32_t align) {
    const kiln_c_dialect *d = b->dialect;
    uint32_t count = d->piece_lanes;
    while (count > 1 &&
           (count > type.lanes - lane || count * lane_bytes(type.scalar) > d->piece_bytes ||
            (!d->load_apart && !is_aligned(type.scalar, lane, count, align))))
        count /= 2;
    return count;
}

static kiln_ssa load_piece(kiln_c_builder *b, kiln_ssa_type type, kiln_ssa pointer, bool aligned) {
    const char *text = aligned ? TEXT(b, "*%s", cast(b, type, pointer, true))
                               : TEXT(b, "%s(0, %s)", TEXT(b, b->dialect->load_apart, type.lanes),
                                      cast(b, kiln_type_scalar(type.scalar), pointer, true));
    return kiln_c_define(b, type, false, text, &pointer, 1);
}

static kiln_ssa load_pieces(kiln_c_builder *b, kiln_ssa_type type, kiln_ssa pointer,
                            uint32_t align) {
    kiln_ssa v = kiln_c_node(b, type, NULL);
    v->element = KILN_ARENA_ARRAY(b->arena, kiln_ssa, type.lanes);
    for (uint32_t lane = 0, count; lane < type.lanes; lane += count) {
        count = piece_at(b, type, lane, align);
        const kiln_ssa_type piece = kiln_type_vector(type.scalar, count == 1 ? 0 : count);
        kiln_ssa part = load_piece(b, piece, pointer_of(b, pointer, type.scalar, lane),
                                   is_aligned(type.scalar, lane, count, align));
        if (count == type.lanes && kiln_c_is_native(b, type)) return part;
        for (uint32_t i = 0; i < count; i++)
            v->element[lane + i] = count == 1 ? part : lane_of(b, part, i);
    }
    return kiln_c_joined(b, v);
}

/* Lanes [first, first + count) as text. */
static const char *piece_text(kiln_c_builder *b, kiln_ssa v, uint32_t first, uint32_t count) {
    if (count == v->type.lanes && kiln_c_is_native(b, v->type)) return kiln_c_whole(b, v);
    if (count == 1) return kiln_c_lane(b, v, first);
    kiln_strbuf lanes = {0};
    for (uint32_t i = 0; i < count; i++)
        kiln_strbuf_printf(&lanes, "%s%s", i ? ", " : "", kiln_c_lane(b, v, first + i));
    return TEXT(b, b->dialect->literal, kiln_c_type(b, kiln_type_vector(v->type.scalar, count)),
                kiln_strbuf_end(&lanes, b->arena).data);
}

static void store_pieces(kiln_c_builder *b, kiln_ssa v, kiln_ssa pointer, uint32_t align) {
    const kiln_ssa_scalar scalar = v->type.scalar;
    for (uint32_t lane = 0, count; lane < v->type.lanes; lane += count) {
        count = piece_at(b, v->type, lane, align);
        const kiln_ssa_type piece = kiln_type_vector(scalar, count == 1 ? 0 : count);
        kiln_ssa to = pointer_of(b, pointer, scalar, lane), operand[] = {v, to};
        const char *text = piece_text(b, v, lane, count);
        kiln_c_effect(b,
                      is_aligned(scalar, lane, count, align)
                          ? TEXT(b, "*%s = %s;", cast(b, piece, to, false), text)
                          : TEXT(b, "%s(%s, 0, %s);", TEXT(b, b->dialect->store_apart, count), text,
                                 cast(b, kiln_type_scalar(scalar), to, false)),
                      operand, 2);
    }
}

/* ---- masked lanes ------------------------------------------------------------------- */

/* The element at `pointer`, or 0 if the BOOL `mask` is false. */
static kiln_ssa load_masked(kiln_c_builder *b, kiln_ssa_scalar scalar, kiln_ssa pointer,
                            kiln_ssa mask) {
    const kiln_ssa_type type = kiln_type_scalar(scalar);
    kiln_ssa operand[] = {pointer, mask};
    if (mask->lane && !mask->lane[0]) return b->base.ops->zero(&b->base, type);
    return kiln_c_define(
        b, type, false,
        TEXT(b, "%s ? *%s : 0", kiln_c_whole(b, mask), cast(b, type, pointer, true)), operand, 2);
}

static void store_masked(kiln_c_builder *b, kiln_ssa v, kiln_ssa pointer, kiln_ssa mask) {
    kiln_ssa operand[] = {pointer, mask, v};
    kiln_c_effect(b,
                  TEXT(b, "if (%s) *%s = %s;", kiln_c_whole(b, mask),
                       cast(b, v->type, pointer, false), kiln_c_whole(b, v)),
                  operand, 3);
}

static kiln_ssa load_lanes(kiln_c_builder *b, kiln_ssa_type type, kiln_ssa pointer, kiln_ssa mask) {
    kiln_ssa v = kiln_c_node(b, type, NULL);
    v->element = KILN_ARENA_ARRAY(b->arena, kiln_ssa, type.lanes);
    for (uint32_t i = 0; i < type.lanes; i++)
        v->element[i] = load_masked(b, type.scalar, pointer_of(b, pointer, type.scalar, i),
                                    lane_of(b, mask, i));
    return kiln_c_joined(b, v);
}

/* ---- members of kiln_builder_ops ------------------------------------------------------------- */

kiln_ssa kiln_c_offset(kiln_builder *base, kiln_ssa pointer, kiln_ssa bytes) {
    kiln_c_builder *b = of(base);
    kiln_ssa operand[] = {pointer, bytes};
    const char *p = kiln_c_whole(b, pointer);
    if (!bytes->lane)
        return kiln_c_define(
            b, pointer->type, false,
            TEXT(b, "%s + (%s)%s", p, b->dialect->difference, kiln_c_whole(b, bytes)), operand, 2);
    int64_t n = bytes->lane[0];
    if (n == 0) return pointer;
    kiln_ssa v = kiln_c_node(b, pointer->type,
                             TEXT(b, "(%s %c %llu)", p, n < 0 ? '-' : '+',
                                  n < 0 ? 0 - (unsigned long long)n : (unsigned long long)n));
    v->base = pointer;
    return v;
}

/* Loads an element, which may later become part of a lane-wise load. */
static kiln_ssa load_element(kiln_c_builder *b, kiln_ssa_type type, kiln_ssa pointer) {
    kiln_ssa v =
        kiln_c_define(b, type, false, TEXT(b, "*%s", cast(b, type, pointer, true)), &pointer, 1);
    if (!b->dialect->lane_load) return v;
    v->loaded = b->at->before;
    v->as_lane = TEXT(b, "%s %s = *%s;", kiln_c_type(b, type), v->text,
                      qualified(b, TEXT(b, "const %s", b->dialect->lane_load), type, pointer));
    return v;
}

kiln_ssa kiln_c_load(kiln_builder *base, kiln_ssa_type type, kiln_ssa pointer, uint32_t align,
                     kiln_ssa mask) {
    kiln_c_builder *b = of(base);
    kiln_ssa operand[] = {pointer, mask};
    if (!mask && !type.lanes && type.scalar != KILN_SSA_POINTER)
        return load_element(b, type, pointer);
    if (type.lanes && !b->dialect->lane_loops)
        return mask ? load_lanes(b, type, pointer, mask) : load_pieces(b, type, pointer, align);
    /* Every compiler requires the alignment of an element. */
    if (!mask && (!type.lanes || kiln_c_is_native(b, type)))
        return kiln_c_define(b, type, false, TEXT(b, "*%s", cast(b, type, pointer, true)), operand,
                             1);
    const char *at = TEXT(b, "(%s)[l]", cast(b, kiln_type_scalar(type.scalar), pointer, true));
    if (mask) at = TEXT(b, "%s ? %s : 0", kiln_c_each(b, mask), at);
    return kiln_c_define(b, type, true, at, operand, mask ? 2 : 1);
}

void kiln_c_store(kiln_builder *base, kiln_ssa v, kiln_ssa pointer, uint32_t align, kiln_ssa mask) {
    kiln_c_builder *b = of(base);
    kiln_ssa operand[] = {v, pointer, mask};
    if (v->type.lanes && !b->dialect->lane_loops) {
        if (!mask) store_pieces(b, v, pointer, align);
        for (uint32_t i = 0; mask && i < v->type.lanes; i++)
            store_masked(b, lane_of(b, v, i), pointer_of(b, pointer, v->type.scalar, i),
                         lane_of(b, mask, i));
        return;
    }
    if (!mask && (!v->type.lanes || (kiln_c_is_native(b, v->type) && v->text))) {
        kiln_c_effect(b, TEXT(b, "*%s = %s;", cast(b, v->type, pointer, false), kiln_c_whole(b, v)),
                      operand, 2);
        return;
    }
    const char *when = mask ? TEXT(b, "if (%s) ", kiln_c_each(b, mask)) : "";
    kiln_c_effect(b,
                  TEXT(b, "EACH(%u) %s(%s)[l] = %s;", v->type.lanes, when,
                       cast(b, kiln_type_scalar(v->type.scalar), pointer, false),
                       kiln_c_each(b, v)),
                  operand, mask ? 3 : 2);
}

kiln_ssa kiln_c_gather(kiln_builder *base, kiln_ssa_type type, kiln_ssa pointers, kiln_ssa mask) {
    kiln_c_builder *b = of(base);
    kiln_ssa_type one = kiln_type_scalar(type.scalar);
    kiln_ssa v = kiln_c_node(b, type, NULL);
    v->element = KILN_ARENA_ARRAY(b->arena, kiln_ssa, type.lanes);
    for (uint32_t i = 0; i < type.lanes; i++) {
        kiln_ssa operand[] = {pointers->element[i], mask};
        v->element[i] = kiln_c_define(b, one, false,
                                      TEXT(b, "%s ? *%s : 0", kiln_c_lane(b, mask, i),
                                           cast(b, one, pointers->element[i], true)),
                                      operand, 2);
    }
    return kiln_c_joined(b, v);
}

void kiln_c_scatter(kiln_builder *base, kiln_ssa v, kiln_ssa pointers, kiln_ssa mask) {
    kiln_c_builder *b = of(base);
    for (uint32_t i = 0; i < v->type.lanes; i++) {
        kiln_ssa operand[] = {pointers->element[i], mask, v};
        kiln_c_effect(b,
                      TEXT(b, "if (%s) *%s = %s;", kiln_c_lane(b, mask, i),
                           cast(b, kiln_type_scalar(v->type.scalar), pointers->element[i], false),
                           kiln_c_lane(b, v, i)),
                      operand, 3);
    }
}

void kiln_c_prefetch(kiln_builder *b, kiln_ssa pointer) {
    if (of(b)->dialect->prefetch)
        kiln_c_effect(
            of(b),
            TEXT(of(b), "%s(%s, 0, 2);", of(b)->dialect->prefetch, kiln_c_whole(of(b), pointer)),
            &pointer, 1);
}
