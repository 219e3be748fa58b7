/* Converts a model of an older operator set to a newer set: nodes whose meaning or form has changed
 * are rewritten, all others have the same meaning in the new set.
 *
 * Rows are in the order of their sets, so a node passes through all that apply to it. */
#include <math.h>
#include <string.h>

#include "base/macros.h"
#include "compiler-core/frontend/onnx/edit.h"

#define OPSET_OLDEST 7 /* before this set binary operators broadcast in another way */

typedef struct raiser {
    kiln_onnx_edit *edit;
    KILN_VEC(Onnx__NodeProto *) node; /* so far */
} raiser;

/* Emits nodes of the row's set with the old meaning of `node`, a copy. */
typedef kiln_status (*raise_function)(raiser *r, Onnx__NodeProto *node);

/* ---- attributes that become inputs ----------------------------------------------------------- */

static void give_out(raiser *r, Onnx__NodeProto *node) {
    kiln_vec_push_in(r->edit->arena, &r->node, node);
}

/* Removes an attribute from a node; NULL: it has none with that name. */
static const Onnx__AttributeProto *take(raiser *r, Onnx__NodeProto *node, const char *name) {
    Onnx__AttributeProto **kept =
        KILN_ARENA_ARRAY(r->edit->arena, Onnx__AttributeProto *, node->n_attribute);
    const Onnx__AttributeProto *found = NULL;
    size_t count = 0;
    for (size_t i = 0; i < node->n_attribute; i++) {
        Onnx__AttributeProto *a = node->attribute[i];
        if (!found && a->name && strcmp(a->name, name) == 0)
            found = a;
        else
            kept[count++] = a;
    }
    node->attribute = kept;
    node->n_attribute = count;
    return found;
}

/* Sets input `index` to `input`; new inputs before it are left out. */
static void set_input(raiser *r, Onnx__NodeProto *node, size_t index, char *input) {
    const size_t count = KILN_MAX(node->n_input, index + 1);
    char **list = KILN_ARENA_ARRAY(r->edit->arena, char *, count);
    for (size_t i = 0; i < count; i++)
        list[i] = i < node->n_input ? node->input[i] : kiln_str_dup(r->edit->arena, KILN_STR(""));
    list[index] = input;
    node->input = list;
    node->n_input = count;
}

static char *constant(raiser *r, const Onnx__NodeProto *node, const char *suffix,
                      const kiln_tensor *tensor) {
    return kiln_onnx_edit_add_constant(r->edit, node->output[0], suffix, tensor);
}

static void integers_to_input(raiser *r, Onnx__NodeProto *node, const char *name, size_t index) {
    const Onnx__AttributeProto *a = take(r, node, name);
    if (!a) return;
    int64_t *item = kiln_arena_copy(r->edit->arena, a->ints, a->n_ints * sizeof *item);
    const kiln_tensor tensor = {KILN_I64, {.rank = 1, .dim = {(int64_t)a->n_ints}}, item};
    set_input(r, node, index,
              constant(r, node, kiln_arena_printf(r->edit->arena, "_%s", name), &tensor));
}

static void float_to_input(raiser *r, Onnx__NodeProto *node, const char *name, size_t index) {
    const Onnx__AttributeProto *a = take(r, node, name);
    if (!a) return;
    float value = a->f;
    const kiln_tensor tensor = {.dtype = KILN_F32, .data = &value};
    set_input(r, node, index,
              constant(r, node, kiln_arena_printf(r->edit->arena, "_%s", name), &tensor));
}

static void set_text(raiser *r, Onnx__NodeProto *node, const char *name, const char *value) {
    kiln_onnx_edit_set_int(r->edit, node, name, 0);
    Onnx__AttributeProto *a = node->attribute[node->n_attribute - 1];
    a->has_i = false;
    a->has_s = true;
    a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING;
    a->s = (ProtobufCBinaryData){strlen(value),
                                 (uint8_t *)kiln_str_dup(r->edit->arena, kiln_str_from(value))};
}

static void rename_op(raiser *r, Onnx__NodeProto *node, const char *op) {
    node->op_type = kiln_str_dup(r->edit->arena, kiln_str_from(op));
}

/* ---- changes ---------------------------------------------------------------------------- */

static kiln_status raise_norm(raiser *r, Onnx__NodeProto *node) {
    const Onnx__AttributeProto *spatial = take(r, node, "spatial");
    if (spatial && !spatial->i) return KILN_ERROR(UNIMPLEMENTED, "attribute spatial: 0");
    give_out(r, node);
    return KILN_OK;
}

static kiln_status raise_slice(raiser *r, Onnx__NodeProto *node) {
    integers_to_input(r, node, "starts", 1);
    integers_to_input(r, node, "ends", 2);
    integers_to_input(r, node, "axes", 3);
    give_out(r, node);
    return KILN_OK;
}

static kiln_status raise_top_k(raiser *r, Onnx__NodeProto *node) {
    const Onnx__AttributeProto *k = take(r, node, "k");
    int64_t count = k ? k->i : 0;
    const kiln_tensor tensor = {KILN_I64, {.rank = 1, .dim = {1}}, &count};
    set_input(r, node, 1, constant(r, node, "_k", &tensor));
    give_out(r, node);
    return KILN_OK;
}

static kiln_status raise_upsample(raiser *r, Onnx__NodeProto *node) {
    const Onnx__AttributeProto *a = take(r, node, "scales"); /* an input from 9 on */
    if (a) {
        const kiln_tensor tensor = {
            KILN_F32, {.rank = 1, .dim = {(int64_t)a->n_floats}}, a->floats};
        if (!a->n_floats) return KILN_ERROR(INVALID_ARGUMENT, "attribute scales is empty");
        set_input(r, node, 1, constant(r, node, "_scales", &tensor));
    }
    rename_op(r, node, "Resize");
    give_out(r, node);
    return KILN_OK;
}

static kiln_status raise_resize(raiser *r, Onnx__NodeProto *node) {
    char *scales = kiln_str_dup(r->edit->arena, kiln_str_from(kiln_onnx_node_input(node, 1)));
    set_input(r, node, 1, kiln_str_dup(r->edit->arena, KILN_STR("")));
    set_input(r, node, 2, scales);
    set_text(r, node, "coordinate_transformation_mode", "asymmetric");
    set_text(r, node, "nearest_mode", "floor");
    give_out(r, node);
    return KILN_OK;
}

static kiln_status raise_clip(raiser *r, Onnx__NodeProto *node) {
    float_to_input(r, node, "min", 1);
    float_to_input(r, node, "max", 2);
    give_out(r, node);
    return KILN_OK;
}

static kiln_status raise_pad(raiser *r, Onnx__NodeProto *node) {
    integers_to_input(r, node, "pads", 1);
    float_to_input(r, node, "value", 2);
    give_out(r, node);
    return KILN_OK;
}

static kiln_status raise_scatter(raiser *r, Onnx__NodeProto *node) {
    rename_op(r, node, "ScatterElements");
    give_out(r, node);
    return KILN_OK;
}

static kiln_status raise_dropout(raiser *r, Onnx__NodeProto *node) {
    float_to_input(r, node, "ratio", 1);
    give_out(r, node);
    return KILN_OK;
}

static kiln_status raise_axes(raiser *r, Onnx__NodeProto *node) {
    integers_to_input(r, node, "axes", 1);
    give_out(r, node);
    return KILN_OK;
}

static kiln_status raise_split(raiser *r, Onnx__NodeProto *node) {
    integers_to_input(r, node, "split", 1);
    give_out(r, node);
    return KILN_OK;
}

static kiln_status raise_equal_split(raiser *r, Onnx__NodeProto *node) {
    if (!*kiln_onnx_node_input(node, 1))
        kiln_onnx_edit_set_int(r->edit, node, "num_outputs", (int64_t)node->n_output);
    give_out(r, node);
    return KILN_OK;
}

/* Softmax over all dimensions from `axis` on, as one dimension of a matrix. */
static kiln_status raise_softmax(raiser *r, Onnx__NodeProto *node) {
    kiln_onnx_edit *edit = r->edit;
    const int64_t axis = kiln_onnx_node_int(node, "axis", 1);
    char *result = node->output[0], *matrix = kiln_onnx_edit_name(edit, result, "_matrix"),
         *shape = kiln_onnx_edit_name(edit, result, "_shape"),
         *rows = kiln_onnx_edit_name(edit, result, "_rows");
    char *const whole[] = {node->input[0]}, *const back[] = {rows, shape};
    Onnx__NodeProto *flatten = kiln_onnx_edit_make_node(edit, "Flatten", 1, whole, matrix);
    kiln_onnx_edit_set_int(edit, flatten, "axis", axis);
    give_out(r, kiln_onnx_edit_make_node(edit, "Shape", 1, whole, shape));
    give_out(r, flatten);
    take(r, node, "axis");
    kiln_onnx_edit_set_int(edit, node, "axis", -1);
    node->input[0] = matrix;
    node->output[0] = rows;
    give_out(r, node);
    give_out(r, kiln_onnx_edit_make_node(edit, "Reshape", 2, back, result));
    return KILN_OK;
}

static kiln_status raise_not(raiser *r, Onnx__NodeProto *node) {
    (void)r, (void)node;
    return KILN_ERROR(UNIMPLEMENTED, "it has another meaning there");
}

static const struct {
    int64_t since;
    const char *op;
    raise_function raise;
} row_table[] = {
    {9, "BatchNormalization", raise_norm},
    {9, "Scan", raise_not},
    {10, "Slice", raise_slice},
    {10, "TopK", raise_top_k},
    {10, "Upsample", raise_upsample},
    {11, "Clip", raise_clip},
    {11, "Pad", raise_pad},
    {11, "Resize", raise_resize},
    {11, "Scatter", raise_scatter},
    {12, "Dropout", raise_dropout},
    {13, "Hardmax", raise_softmax},
    {13, "LogSoftmax", raise_softmax},
    {13, "ReduceSum", raise_axes},
    {13, "Softmax", raise_softmax},
    {13, "Split", raise_split},
    {13, "Squeeze", raise_axes},
    {13, "Unsqueeze", raise_axes},
    {18, "ReduceL1", raise_axes},
    {18, "ReduceL2", raise_axes},
    {18, "ReduceLogSum", raise_axes},
    {18, "ReduceLogSumExp", raise_axes},
    {18, "ReduceMax", raise_axes},
    {18, "ReduceMean", raise_axes},
    {18, "ReduceMin", raise_axes},
    {18, "ReduceProd", raise_axes},
    {18, "ReduceSumSquare", raise_axes},
    {18, "Split", raise_equal_split},
    {21, "GroupNormalization", raise_not},
};

/* ---- the walk -------------------------------------------------------------------------------- */

static bool applies(size_t row, int64_t from, int64_t to, const Onnx__NodeProto *node) {
    return row_table[row].since > from && row_table[row].since <= to &&
           kiln_onnx_node_is(node, row_table[row].op);
}

/* Nodes in bodies of loops and branches cannot be rewritten. */
static kiln_status check_bodies(const Onnx__NodeProto *node, int64_t from, int64_t to);

static kiln_status check_body(const Onnx__GraphProto *body, int64_t from, int64_t to) {
    kiln_status st = KILN_OK;
    for (size_t i = 0; !st && i < body->n_node; i++) {
        for (size_t k = 0; !st && k < KILN_ARRAY_COUNT(row_table); k++)
            if (applies(k, from, to, body->node[i]))
                st = KILN_ERROR(UNIMPLEMENTED, "%s in a body is not converted", row_table[k].op);
        if (!st) st = check_bodies(body->node[i], from, to);
    }
    return st;
}

static kiln_status check_bodies(const Onnx__NodeProto *node, int64_t from, int64_t to) {
    kiln_status st = KILN_OK;
    for (size_t i = 0; !st && i < node->n_attribute; i++) {
        const Onnx__AttributeProto *a = node->attribute[i];
        if (a->g) st = check_body(a->g, from, to);
        for (size_t k = 0; !st && k < a->n_graphs; k++) st = check_body(a->graphs[k], from, to);
    }
    return st;
}

/* Applies one row to all nodes. */
static kiln_status apply_row(kiln_onnx_edit *edit, size_t row, int64_t from, int64_t to) {
    raiser r = {.edit = edit};
    for (uint32_t i = 0; i < edit->node.count; i++) {
        Onnx__NodeProto *node = edit->node.data[i];
        if (!applies(row, from, to, node) || !node->n_output || !node->n_input) {
            give_out(&r, node);
            continue;
        }
        kiln_status st = row_table[row].raise(&r, kiln_onnx_edit_copy_node(edit, node, 0));
        if (st)
            return kiln_status_note(st, "node %u, %s, in operator set %lld", i, row_table[row].op,
                                    (long long)row_table[row].since);
    }
    edit->node.data = r.node.data;
    edit->node.count = r.node.count;
    edit->node.capacity = r.node.capacity;
    return KILN_OK;
}

/* The first version of the file format that supports the set. */
static int64_t ir_version_of(int64_t opset) { return opset >= 25 ? 13 : opset >= 21 ? 10 : 4; }

kiln_status kiln_onnx_raise_opset(kiln_onnx_edit *edit, int64_t to) {
    const int64_t from = edit->opset;
    kiln_status st = KILN_OK;
    if (from >= to) return KILN_OK;
    if (from < OPSET_OLDEST)
        return KILN_ERROR(UNIMPLEMENTED,
                          "its operator set is %lld, %lld is wanted, and those from %d on are "
                          "converted to newer ones",
                          (long long)from, (long long)to, OPSET_OLDEST);
    for (uint32_t i = 0; !st && i < edit->node.count; i++)
        st = kiln_status_note(check_bodies(edit->node.data[i], from, to), "node %u", i);
    for (size_t row = 0; !st && row < KILN_ARRAY_COUNT(row_table); row++)
        st = apply_row(edit, row, from, to);
    if (st)
        return kiln_status_note(st, "from operator set %lld to %lld", (long long)from,
                                (long long)to);
    kiln_onnx_edit_set_opset(edit, to);
    edit->model.ir_version = KILN_MAX(edit->model.ir_version, ir_version_of(to));
    return KILN_OK;
}
