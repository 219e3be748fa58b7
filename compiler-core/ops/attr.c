/* Attributes by name: the node's own, else the default in ops.def. */
#include "compiler-core/graph/attr.h"
#include "base/check.h"
#include "compiler-core/ops/rules.h"

static const char *const kind_word[KILN_ATTR_KIND_COUNT] = {"int", "float", "text", "ints",
                                                            "floats"};

bool kiln_attr_spec_find(kiln_op op, kiln_str name, kiln_attr *out_default, bool *out_has_default) {
    kiln_str rest = kiln_str_from(kiln_op_get(op)->attrs);
    while (rest.size) {
        kiln_str value = kiln_str_cut(&rest, ' ');
        kiln_str kind = kiln_str_cut(&value, '=');
        kiln_str key = kiln_str_cut(&kind, ':');
        if (!kiln_str_equal(key, name)) continue;
        kiln_attr found = {.name = key, .text = value};
        for (uint32_t k = 0; k < KILN_ATTR_KIND_COUNT; k++)
            if (kiln_str_is(kind, kind_word[k])) found.kind = (kiln_attr_kind)k;
        *out_has_default = value.size != 0;
        if (found.kind == KILN_ATTR_INT && value.size) KILN_CHECK(kiln_str_to_i64(value, &found.i));
        if (found.kind == KILN_ATTR_FLOAT && value.size)
            KILN_CHECK(kiln_str_to_f64(value, &found.f));
        *out_default = found;
        return true;
    }
    return false;
}

static kiln_attr get(const kiln_node_info *node, const char *name, kiln_attr_kind kind) {
    kiln_attr found;
    bool has_default = false;
    KILN_CHECK(kiln_attr_spec_find(node->op, kiln_str_from(name), &found, &has_default));
    KILN_CHECK(found.kind == kind);
    const kiln_attr *own = kiln_node_attr(node, name);
    return own ? *own : found;
}

int64_t kiln_node_int(const kiln_node_info *node, const char *name) {
    return get(node, name, KILN_ATTR_INT).i;
}
double kiln_node_float(const kiln_node_info *node, const char *name) {
    return get(node, name, KILN_ATTR_FLOAT).f;
}
kiln_str kiln_node_text(const kiln_node_info *node, const char *name) {
    return get(node, name, KILN_ATTR_TEXT).text;
}
bool kiln_node_has(const kiln_node_info *node, const char *name) {
    return kiln_node_attr(node, name) != NULL;
}

const int64_t *kiln_node_ints(const kiln_node_info *node, const char *name, uint32_t *out_count) {
    kiln_attr attr = get(node, name, KILN_ATTR_INTS);
    *out_count = attr.count;
    return attr.ints;
}

const double *kiln_node_floats(const kiln_node_info *node, const char *name, uint32_t *out_count) {
    kiln_attr attr = get(node, name, KILN_ATTR_FLOATS);
    *out_count = attr.count;
    return attr.floats;
}

kiln_status kiln_node_check_attrs(const kiln_node_info *node) {
    for (uint32_t i = 0; i < node->attr_count; i++) {
        const kiln_attr *attr = &node->attr[i];
        kiln_attr expected;
        bool has_default;
        if (!kiln_attr_spec_find(node->op, attr->name, &expected, &has_default))
            return KILN_ERROR(UNIMPLEMENTED, "attribute %.*s is not known",
                              KILN_STR_ARG(attr->name));
        if (expected.kind != attr->kind)
            return KILN_ERROR(INVALID_ARGUMENT, "attribute %.*s is of kind %s, it must be %s",
                              KILN_STR_ARG(attr->name), kind_word[attr->kind],
                              kind_word[expected.kind]);
        if (attr->count > KILN_ATTR_ITEMS_MAX)
            return KILN_ERROR(OUT_OF_RANGE, "attribute %.*s has %u items, at most %u are allowed",
                              KILN_STR_ARG(attr->name), attr->count, KILN_ATTR_ITEMS_MAX);
    }
    return KILN_OK;
}

/* ---- axes and shapes ------------------------------------------------------------------------- */

kiln_status kiln_axis_resolve(int64_t axis, uint32_t rank, const char *name, uint32_t *out_axis) {
    int64_t resolved = axis < 0 ? axis + (int64_t)rank : axis;
    if (resolved < 0 || resolved >= (int64_t)rank)
        return KILN_ERROR(INVALID_ARGUMENT,
                          "attribute %s: %lld is no dimension of a tensor of rank %u", name,
                          (long long)axis, rank);
    *out_axis = (uint32_t)resolved;
    return KILN_OK;
}

kiln_status kiln_axis_take(const int64_t *axes, uint32_t index, uint32_t rank, const char *name,
                           uint32_t *seen, uint32_t *out_axis) {
    uint32_t axis = 0;
    kiln_status st = kiln_axis_resolve(axes ? axes[index] : index, rank, name, &axis);
    if (st) return st;
    if (*seen >> axis & 1u)
        return KILN_ERROR(INVALID_ARGUMENT, "attribute %s names dimension %u twice", name, axis);
    *seen |= 1u << axis;
    *out_axis = axis;
    return KILN_OK;
}

kiln_status kiln_axes_resolve(const kiln_node_info *node, const char *name, uint32_t rank,
                              uint32_t otherwise, uint32_t *out_mask) {
    uint32_t count = 0, mask = 0, axis = 0;
    const int64_t *axes = kiln_node_ints(node, name, &count);
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; !st && i < count; i++)
        st = kiln_axis_take(axes, i, rank, name, &mask, &axis);
    *out_mask = axes ? mask : otherwise;
    return st;
}

kiln_status kiln_infer_axis(const kiln_infer *infer, uint32_t *out_axis) {
    return kiln_axis_resolve(kiln_node_int(infer->node, "axis"),
                             kiln_infer_input(infer, 0)->shape.rank, "axis", out_axis);
}

kiln_status kiln_infer_check_rank(uint32_t rank) {
    if (rank <= KILN_RANK_MAX) return KILN_OK;
    return KILN_ERROR(UNIMPLEMENTED, "the result has %u dimensions, at most %u are supported", rank,
                      KILN_RANK_MAX);
}

kiln_status kiln_shape_broadcast(kiln_shape *shape, const kiln_shape *other) {
    kiln_shape result = {.rank = KILN_MAX(shape->rank, other->rank)};
    for (uint32_t d = 0; d < result.rank; d++) {
        uint32_t from_end = result.rank - d;
        int64_t a = from_end <= shape->rank ? shape->dim[shape->rank - from_end] : 1;
        int64_t b = from_end <= other->rank ? other->dim[other->rank - from_end] : 1;
        if (a != b && a != 1 && b != 1)
            return KILN_ERROR(INVALID_ARGUMENT, "dimensions %lld and %lld do not broadcast",
                              (long long)a, (long long)b);
        result.dim[d] = a == 1 ? b : a;
    }
    *shape = result;
    return KILN_OK;
}
