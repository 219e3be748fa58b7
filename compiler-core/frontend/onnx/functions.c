/* Functions defined in a model: their bodies replace the nodes that call them. */
#include <string.h>

#include "compiler-core/frontend/onnx/proto.h"
#include "compiler-core/frontend/onnx/wire.h"

#define DEFAULTS_FIELD 11u /* FunctionProto.attribute_proto, which older definitions lack */

static bool same_text(const char *a, const char *b) { return strcmp(a ? a : "", b ? b : "") == 0; }

kiln_status kiln_import_find_function(const kiln_importer *im, const Onnx__NodeProto *node,
                                      const Onnx__FunctionProto **out_function) {
    *out_function = NULL;
    for (size_t i = 0; node->op_type && i < im->model->n_functions; i++) {
        const Onnx__FunctionProto *f = im->model->functions[i];
        if (!same_text(f->name, node->op_type) || !same_text(f->domain, node->domain)) continue;
        if (*out_function)
            return KILN_ERROR(UNIMPLEMENTED, "several functions of one name (overloads)");
        *out_function = f;
    }
    return KILN_OK;
}

/* ---- attributes ------------------------------------------------------------------------------ */

static void *take(void *arena, size_t size) { return kiln_arena_alloc(arena, size); }
static void give(void *arena, void *memory) {
    (void)arena;
    (void)memory; /* it lives as long as the graph */
}

/* A default in the unknown fields of an older definition of the format; NULL: there is none.
 */
static const Onnx__AttributeProto *find_default(kiln_importer *im, const Onnx__FunctionProto *f,
                                                const char *name) {
    ProtobufCAllocator allocator = {take, give, im->graph->arena};
    for (size_t i = 0; i < f->base.n_unknown_fields; i++) {
        const ProtobufCMessageUnknownField *field = &f->base.unknown_fields[i];
        size_t at = 0;
        if (field->tag != DEFAULTS_FIELD) continue;
        while (at < field->len && field->data[at] & 0x80) at++; /* its length */
        if (at >= field->len) continue;
        const kiln_str bytes = {(const char *)field->data + at + 1, field->len - at - 1};
        kiln_status st = kiln_onnx_wire_check(bytes, &onnx__attribute_proto__descriptor);
        const bool good = !st;
        kiln_status_free(st); /* an invalid default is ignored */
        if (!good) continue;
        const Onnx__AttributeProto *a =
            onnx__attribute_proto__unpack(&allocator, bytes.size, (const uint8_t *)bytes.data);
        if (a && same_text(a->name, name)) return a;
    }
    return NULL;
}

/* The call's attribute to which an attribute of the body refers, under the body's name; NULL: the
 * call does not have it. */
static Onnx__AttributeProto *referred(kiln_importer *im, const Onnx__AttributeProto *reference) {
    const Onnx__AttributeProto *found = NULL;
    const Onnx__NodeProto *call = im->call->node;
    for (size_t i = 0; i < call->n_attribute && !found; i++)
        if (same_text(call->attribute[i]->name, reference->ref_attr_name))
            found = call->attribute[i];
    if (!found) found = find_default(im, im->call->function, reference->ref_attr_name);
    if (!found) return NULL;
    Onnx__AttributeProto *copy = kiln_arena_copy(im->graph->arena, found, sizeof *found);
    copy->name = reference->name;
    return copy;
}

static bool is_absent(const kiln_importer *im, const char *name) {
    uint64_t value;
    return *name && kiln_map_find(&im->call->absent, kiln_proto_text(name), &value);
}

/* A copy with the attributes of the call, and without the inputs that the call leaves out. */
const Onnx__NodeProto *kiln_import_called_node(kiln_importer *im, const Onnx__NodeProto *node) {
    kiln_arena *arena = im->graph->arena;
    Onnx__NodeProto *copy = kiln_arena_copy(arena, node, sizeof *node);
    copy->attribute = KILN_ARENA_ARRAY(arena, Onnx__AttributeProto *, node->n_attribute);
    copy->input = KILN_ARENA_ARRAY(arena, char *, node->n_input);
    copy->n_attribute = 0;
    for (size_t i = 0; i < node->n_attribute; i++) {
        Onnx__AttributeProto *a = node->attribute[i];
        if (a->ref_attr_name && *a->ref_attr_name) a = referred(im, a);
        if (a) copy->attribute[copy->n_attribute++] = a;
    }
    for (size_t i = 0; i < node->n_input; i++)
        copy->input[i] =
            is_absent(im, node->input[i]) ? kiln_str_dup(arena, KILN_STR("")) : node->input[i];
    return copy;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* The body sees only its inputs, no names outside the call. */
static kiln_status bind_inputs(kiln_import_call *call, const kiln_map *outer, kiln_map *inner) {
    const Onnx__FunctionProto *f = call->function;
    if (call->node->n_input > f->n_input || call->node->n_output > f->n_output)
        return KILN_ERROR(INVALID_ARGUMENT,
                          "%zu inputs and %zu outputs, of a function with %zu and %zu",
                          call->node->n_input, call->node->n_output, f->n_input, f->n_output);
    for (size_t i = 0; i < f->n_input; i++) {
        uint64_t value = 0;
        const char *name = i < call->node->n_input ? call->node->input[i] : "";
        if (!*name || !kiln_map_find(outer, kiln_proto_text(name), &value))
            kiln_map_put(&call->absent, kiln_proto_text(f->input[i]), 0);
        else if (!kiln_map_put(inner, kiln_proto_text(f->input[i]), value))
            return KILN_ERROR(INVALID_ARGUMENT, "two inputs of the function are called \"%s\"",
                              f->input[i]);
    }
    return KILN_OK;
}

static kiln_status define_outputs(const kiln_import_call *call, const kiln_map *inner,
                                  kiln_map *outer) {
    for (size_t i = 0; i < call->node->n_output; i++) {
        uint64_t value = 0;
        const char *name = call->function->output[i];
        if (!*call->node->output[i]) continue;
        if (!kiln_map_find(inner, kiln_proto_text(name), &value))
            return KILN_ERROR(INVALID_ARGUMENT,
                              "the function's output \"%s\" is produced by no "
                              "node",
                              name);
        kiln_map_put(outer, kiln_proto_text(call->node->output[i]), value);
    }
    return KILN_OK;
}

static int64_t opset_of(const Onnx__FunctionProto *f, int64_t otherwise) {
    for (size_t i = 0; i < f->n_opset_import; i++)
        if (same_text(f->opset_import[i]->domain, "") ||
            same_text(f->opset_import[i]->domain, "ai.onnx"))
            otherwise = f->opset_import[i]->version;
    return otherwise;
}

kiln_status kiln_import_inline(kiln_importer *im, const Onnx__FunctionProto *function) {
    kiln_import_call call = {.node = im->node, .function = function};
    const kiln_import_call *outer_call = im->call;
    const int64_t outer_opset = im->opset, opset = opset_of(function, im->opset);
    kiln_map inner;
    if (opset < KILN_ONNX_OPSET_MIN || opset > KILN_ONNX_OPSET_MAX)
        return KILN_ERROR(UNIMPLEMENTED, "a function of opset %lld", (long long)opset);
    kiln_map_init(&inner);
    kiln_map_init(&call.absent);
    kiln_status st = bind_inputs(&call, &im->value, &inner);
    if (!st) {
        kiln_map outer = im->value;
        im->value = inner;
        im->call = &call;
        im->opset = opset;
        st = kiln_import_scope(im, function->node, function->n_node);
        inner = im->value;
        im->value = outer;
        im->call = outer_call;
        im->opset = outer_opset;
    }
    if (!st) st = define_outputs(&call, &inner, &im->value);
    kiln_map_deinit(&inner);
    kiln_map_deinit(&call.absent);
    return st;
}
