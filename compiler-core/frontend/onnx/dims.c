/* Open dimensions of a model, and the values that a caller gives them. */
#include "compiler-core/frontend/onnx/proto.h"

bool kiln_onnx_dim_is_open(const Onnx__TensorShapeProto__Dimension *dim) {
    return dim->value_case != ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE ||
           dim->dim_value < 0;
}

static const Onnx__TensorShapeProto *shape_of(const Onnx__ValueInfoProto *input) {
    const Onnx__TypeProto *type = input->type;
    bool is_tensor = type && type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    return is_tensor ? type->tensor_type->shape : NULL;
}

kiln_str kiln_onnx_dim_name(const Onnx__ValueInfoProto *input, size_t place, kiln_arena *arena) {
    const Onnx__TensorShapeProto__Dimension *dim = shape_of(input)->dim[place];
    bool named = dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
    kiln_str name = named ? kiln_proto_text(dim->dim_param) : (kiln_str){0};
    if (name.size) return name;
    kiln_str of = kiln_proto_text(input->name);
    return kiln_str_printf(arena, "%.*s.%zu", KILN_STR_ARG(of), place);
}

bool kiln_onnx_dim_find(const kiln_import_options *options, kiln_str name, int64_t *out_value) {
    for (uint32_t i = 0; options && i < options->dim_count; i++) {
        if (!kiln_str_equal(options->dim_name[i], name)) continue;
        *out_value = options->dim_value[i];
        return true;
    }
    return false;
}

/* Calls `visit` with the name of each open dimension, in order. */
static void each_open(const Onnx__GraphProto *graph, kiln_arena *arena,
                      void (*visit)(void *context, kiln_str name), void *context) {
    for (size_t i = 0; i < graph->n_input; i++) {
        const Onnx__TensorShapeProto *shape = shape_of(graph->input[i]);
        for (size_t d = 0; shape && d < shape->n_dim; d++)
            if (kiln_onnx_dim_is_open(shape->dim[d]))
                visit(context, kiln_onnx_dim_name(graph->input[i], d, arena));
    }
}

typedef struct look {
    kiln_str wanted;
    bool found;
    kiln_strbuf others;
} look;

static void look_at(void *context, kiln_str name) {
    look *l = context;
    l->found = l->found || kiln_str_equal(l->wanted, name);
    kiln_strbuf_text(&l->others, l->others.size ? ", " : "");
    kiln_strbuf_str(&l->others, name);
}

kiln_status kiln_onnx_dims_check(const Onnx__GraphProto *graph,
                                 const kiln_import_options *options) {
    kiln_status st = KILN_OK;
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    for (uint32_t i = 0; !st && options && i < options->dim_count; i++) {
        look l = {.wanted = options->dim_name[i]};
        each_open(graph, &scratch, look_at, &l);
        if (!l.found && l.others.size)
            st = KILN_ERROR(INVALID_ARGUMENT,
                            "the model has no open dimension \"%.*s\"; open are %s",
                            KILN_STR_ARG(l.wanted), l.others.data);
        else if (!l.found)
            st = KILN_ERROR(INVALID_ARGUMENT,
                            "the model has no open dimension \"%.*s\": its shapes are all known",
                            KILN_STR_ARG(l.wanted));
        kiln_strbuf_deinit(&l.others);
    }
    kiln_arena_deinit(&scratch);
    return st;
}
