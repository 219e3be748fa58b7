#include "compiler-core/graph/graph_codec.h"

#include <string.h>

#include "base/map.h"
#include "base/mpack.h"
#include "compiler-core/graph/op.h"

#define MAGIC "kilngrph"
#define HEADER_BYTES 24u

enum { KEY_NAME = 1, KEY_GIVEN, KEY_DATA, KEY_VALUES, KEY_NODES, KEY_INPUTS, KEY_OUTPUTS, KEY_END };

static size_t padded(size_t size) {
    return (size + KILN_GRAPH_DATA_ALIGNMENT - 1) / KILN_GRAPH_DATA_ALIGNMENT *
           KILN_GRAPH_DATA_ALIGNMENT;
}

/* ---- writing --------------------------------------------------------------------------------- */

typedef struct writer {
    const kiln_graph *graph;
    kiln_arena *arena;
    kiln_value *place; /* [values] their numbers in the bytes; 0: unused */
    uint32_t value_count;
    uint32_t *data_of; /* [values] of constants: index into data */
    KILN_VEC(kiln_str) data;
    kiln_strbuf out;
} writer;

static void use_all(writer *w, const kiln_value *value, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) w->place[value[i]] = 1;
}

/* Used values keep their order. */
static void number_values(writer *w) {
    const kiln_graph *g = w->graph;
    w->place = KILN_ARENA_ARRAY(w->arena, kiln_value, g->value.count);
    use_all(w, g->input.data, g->input.count);
    use_all(w, g->output.data, g->output.count);
    for (kiln_node n = 1; n < g->node.count; n++) {
        use_all(w, g->node.data[n].input, g->node.data[n].input_count);
        use_all(w, g->node.data[n].output, g->node.data[n].output_count);
    }
    w->place[0] = 0;
    for (kiln_value v = 1; v < g->value.count; v++)
        if (w->place[v]) w->place[v] = ++w->value_count;
}

static uint32_t add_data(writer *w, kiln_map *known, const kiln_value_info *info) {
    kiln_tensor tensor = {.dtype = info->dtype, .shape = info->shape};
    kiln_str bytes = {info->data, kiln_tensor_bytes(&tensor)};
    char hash[KILN_HASH128_TEXT];
    uint64_t index = 0;
    kiln_hash128_print(info->hash, hash);
    kiln_str key = kiln_str_from(kiln_arena_printf(w->arena, "%s %zu", hash, bytes.size));
    if (kiln_map_find(known, key, &index) && kiln_str_equal(w->data.data[index], bytes))
        return (uint32_t)index;
    kiln_vec_push_in(w->arena, &w->data, bytes);
    kiln_map_put(known, key, w->data.count - 1);
    return w->data.count - 1;
}

static void find_data(writer *w) {
    kiln_map known;
    kiln_map_init(&known);
    w->data_of = KILN_ARENA_ARRAY(w->arena, uint32_t, w->graph->value.count);
    for (kiln_value v = 1; v < w->graph->value.count; v++)
        if (w->place[v] && kiln_value_is_constant(w->graph, v))
            w->data_of[v] = add_data(w, &known, &w->graph->value.data[v]);
    kiln_map_deinit(&known);
}

static void write_values(writer *w) {
    kiln_mpack_write_array(&w->out, w->value_count);
    for (kiln_value v = 1; v < w->graph->value.count; v++) {
        const kiln_value_info *info = &w->graph->value.data[v];
        if (!w->place[v]) continue;
        kiln_mpack_write_array(&w->out, 4);
        kiln_mpack_write_str(&w->out, info->name);
        kiln_mpack_write_u64(&w->out, info->dtype);
        kiln_mpack_write_array(&w->out, info->shape.rank);
        for (uint32_t d = 0; d < info->shape.rank; d++)
            kiln_mpack_write_u64(&w->out, (uint64_t)info->shape.dim[d]);
        if (info->data)
            kiln_mpack_write_u64(&w->out, w->data_of[v]);
        else
            kiln_mpack_write_nil(&w->out);
    }
}

static void write_ids(writer *w, const kiln_value *value, uint32_t count) {
    kiln_mpack_write_array(&w->out, count);
    for (uint32_t i = 0; i < count; i++) kiln_mpack_write_u64(&w->out, w->place[value[i]]);
}

static void write_attr(writer *w, const kiln_attr *attr) {
    kiln_mpack_write_array(&w->out, 3);
    kiln_mpack_write_str(&w->out, attr->name);
    kiln_mpack_write_u64(&w->out, attr->kind);
    switch (attr->kind) {
    case KILN_ATTR_INT: kiln_mpack_write_i64(&w->out, attr->i); return;
    case KILN_ATTR_FLOAT: kiln_mpack_write_f64(&w->out, attr->f); return;
    case KILN_ATTR_TEXT: kiln_mpack_write_str(&w->out, attr->text); return;
    case KILN_ATTR_INTS:
    case KILN_ATTR_FLOATS:
    case KILN_ATTR_KIND_COUNT: break;
    }
    kiln_mpack_write_array(&w->out, attr->count);
    for (uint32_t i = 0; i < attr->count; i++) {
        if (attr->kind == KILN_ATTR_INTS)
            kiln_mpack_write_i64(&w->out, attr->ints[i]);
        else
            kiln_mpack_write_f64(&w->out, attr->floats[i]);
    }
}

static void write_nodes(writer *w) {
    uint32_t count = 0;
    for (kiln_node n = 1; n < w->graph->node.count; n++)
        count += w->graph->node.data[n].op != KILN_OP_NONE;
    kiln_mpack_write_array(&w->out, count);
    for (kiln_node n = 1; n < w->graph->node.count; n++) {
        const kiln_node_info *node = &w->graph->node.data[n];
        if (node->op == KILN_OP_NONE) continue;
        kiln_mpack_write_array(&w->out, 6);
        kiln_mpack_write_str(&w->out, kiln_str_from(kiln_op_get(node->op)->name));
        kiln_mpack_write_str(&w->out, node->name);
        write_ids(w, node->input, node->input_count);
        write_ids(w, node->output, node->output_count);
        kiln_mpack_write_array(&w->out, node->attr_count);
        for (uint32_t i = 0; i < node->attr_count; i++) write_attr(w, &node->attr[i]);
        kiln_mpack_write_u64(&w->out, node->group);
    }
}

static void write_structure(writer *w) {
    kiln_mpack_write_map(&w->out, KEY_END - 1);
    kiln_mpack_write_u64(&w->out, KEY_NAME);
    kiln_mpack_write_str(&w->out, w->graph->name);
    kiln_mpack_write_u64(&w->out, KEY_GIVEN);
    kiln_mpack_write_u64(&w->out, w->graph->given_bytes);
    kiln_mpack_write_u64(&w->out, KEY_DATA);
    kiln_mpack_write_array(&w->out, w->data.count);
    for (uint32_t i = 0; i < w->data.count; i++)
        kiln_mpack_write_u64(&w->out, w->data.data[i].size);
    kiln_mpack_write_u64(&w->out, KEY_VALUES);
    write_values(w);
    kiln_mpack_write_u64(&w->out, KEY_NODES);
    write_nodes(w);
    kiln_mpack_write_u64(&w->out, KEY_INPUTS);
    write_ids(w, w->graph->input.data, w->graph->input.count);
    kiln_mpack_write_u64(&w->out, KEY_OUTPUTS);
    write_ids(w, w->graph->output.data, w->graph->output.count);
}

static void put_le(char *at, uint64_t value, unsigned bytes) {
    for (unsigned i = 0; i < bytes; i++) at[i] = (char)(value >> (8 * i));
}

/* Pads with zeros; `zeros` has KILN_GRAPH_DATA_ALIGNMENT of them. */
static void add_part(kiln_graph_bytes *bytes, kiln_str part, const char *zeros) {
    kiln_str tail = {zeros, padded(part.size) - part.size};
    bytes->part[bytes->part_count++] = part;
    if (tail.size) bytes->part[bytes->part_count++] = tail;
    bytes->size += part.size + tail.size;
}

kiln_graph_bytes kiln_graph_encode(const kiln_graph *graph, kiln_arena *arena) {
    static const char zeros[KILN_GRAPH_DATA_ALIGNMENT];
    char header[HEADER_BYTES] = MAGIC;
    writer w = {.graph = graph, .arena = arena};
    number_values(&w);
    find_data(&w);
    kiln_strbuf_append(&w.out, header, sizeof header);
    write_structure(&w);
    put_le(header + 8, KILN_GRAPH_BYTES_VERSION, 4);
    put_le(header + 16, w.out.size - HEADER_BYTES, 8);
    memcpy(w.out.data, header, sizeof header);
    kiln_graph_bytes bytes = {
        .part = KILN_ARENA_ARRAY(arena, kiln_str, 2 * ((size_t)w.data.count + 1))};
    add_part(&bytes, (kiln_str){kiln_arena_copy(arena, w.out.data, w.out.size), w.out.size}, zeros);
    for (uint32_t i = 0; i < w.data.count; i++) add_part(&bytes, w.data.data[i], zeros);
    kiln_strbuf_deinit(&w.out);
    return bytes;
}

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct reader {
    kiln_mpack_reader r;
    kiln_graph *graph;
    kiln_arena *arena;
    kiln_str rest; /* data of constants */
    uint32_t data_count;
    kiln_str *data;
} reader;

static kiln_status read_data(reader *d) {
    kiln_status st =
        kiln_mpack_read_count(&d->r, KILN_GRAPH_VALUES_MAX, "constants", &d->data_count);
    if (st) return st;
    d->data = KILN_ARENA_ARRAY(d->arena, kiln_str, d->data_count);
    for (uint32_t i = 0; !st && i < d->data_count; i++) {
        uint64_t size = 0;
        st = kiln_mpack_read_below(&d->r, (uint64_t)d->rest.size + 1, &size);
        if (!st && padded((size_t)size) > d->rest.size)
            st = KILN_ERROR(DATA_LOSS, "its padding is missing");
        if (st) return kiln_status_note(st, "constant %u", i);
        d->data[i] = kiln_str_slice(d->rest, 0, (size_t)size);
        d->rest = kiln_str_slice(d->rest, padded((size_t)size), d->rest.size);
    }
    return d->rest.size ? KILN_ERROR(DATA_LOSS, "%zu bytes too many", d->rest.size) : st;
}

static kiln_status read_shape(kiln_mpack_reader *r, kiln_shape *out_shape) {
    kiln_shape shape = {0};
    kiln_status st = kiln_mpack_read_count(r, KILN_RANK_MAX, "dimensions", &shape.rank);
    for (uint32_t i = 0; !st && i < shape.rank; i++) {
        uint64_t dim = 0;
        st = kiln_mpack_read_below(r, (uint64_t)INT64_MAX, &dim);
        shape.dim[i] = (int64_t)dim;
    }
    if (!st) *out_shape = shape;
    return st;
}

/* Where kernels may read it: copied when it does not lie on a multiple of the alignment. */
static void *aligned(reader *d, kiln_str bytes) {
    union {
        const char *read;
        void *any; /* tensors carry a plain pointer; constants are only read */
    } data = {.read = bytes.data};
    if ((uintptr_t)data.read % KILN_GRAPH_DATA_ALIGNMENT == 0) return data.any;
    void *copy = kiln_arena_alloc_aligned(d->arena, KILN_GRAPH_DATA_ALIGNMENT, bytes.size);
    if (bytes.size) memcpy(copy, bytes.data, bytes.size);
    return copy;
}

static kiln_status read_constant(reader *d, kiln_value value, size_t size_bytes) {
    const kiln_value_info *info = &d->graph->value.data[value];
    uint64_t index = 0;
    kiln_status st = kiln_mpack_read_below(&d->r, d->data_count, &index);
    if (!st && d->data[index].size != size_bytes)
        st = KILN_ERROR(DATA_LOSS, "%zu bytes of data instead of %zu", d->data[index].size,
                        size_bytes);
    if (st) return st;
    kiln_tensor tensor = {info->dtype, info->shape, aligned(d, d->data[index])};
    kiln_graph_set_constant(d->graph, value, &tensor);
    return KILN_OK;
}

static kiln_status read_value(reader *d) {
    kiln_str name = {0};
    kiln_shape shape = {0};
    uint64_t dtype = 0;
    size_t size_bytes = 0;
    kiln_status st = kiln_mpack_read_array_of(&d->r, 4);
    if (!st) st = kiln_mpack_read_str(&d->r, &name);
    if (!st) st = kiln_mpack_read_below(&d->r, KILN_DTYPE_COUNT, &dtype);
    if (!st && dtype == KILN_DTYPE_NONE) st = KILN_ERROR(DATA_LOSS, "it has no type");
    if (!st) st = read_shape(&d->r, &shape);
    if (!st) st = kiln_shape_bytes(&shape, (kiln_dtype)dtype, &size_bytes);
    if (st) return st;
    kiln_value value = kiln_graph_add_named_value(d->graph, name);
    d->graph->value.data[value].dtype = (kiln_dtype)dtype;
    d->graph->value.data[value].shape = shape;
    if (kiln_mpack_peek(&d->r) != KILN_MPACK_NIL) return read_constant(d, value, size_bytes);
    return kiln_mpack_skip(&d->r);
}

static kiln_status read_values(reader *d) {
    uint32_t count = 0;
    kiln_status st = kiln_mpack_read_count(&d->r, KILN_GRAPH_VALUES_MAX - 1, "values", &count);
    for (uint32_t i = 0; !st && i < count; i++)
        st = kiln_status_note(read_value(d), "value %u", i + 1);
    return st;
}

static kiln_status read_list(reader *d, kiln_attr *attr) {
    kiln_status st = kiln_mpack_read_count(&d->r, KILN_ATTR_ITEMS_MAX, "items", &attr->count);
    int64_t *ints = KILN_ARENA_ARRAY(d->arena, int64_t, st ? 1 : attr->count + 1);
    double *floats = KILN_ARENA_ARRAY(d->arena, double, st ? 1 : attr->count + 1);
    for (uint32_t i = 0; !st && i < attr->count; i++)
        st = attr->kind == KILN_ATTR_INTS ? kiln_mpack_read_i64(&d->r, &ints[i])
                                          : kiln_mpack_read_f64(&d->r, &floats[i]);
    attr->ints = ints;
    attr->floats = floats;
    return st;
}

static kiln_status read_attr(reader *d, kiln_node node) {
    kiln_attr attr = {0};
    uint64_t kind = 0;
    kiln_status st = kiln_mpack_read_array_of(&d->r, 3);
    if (!st) st = kiln_mpack_read_str(&d->r, &attr.name);
    if (!st) st = kiln_mpack_read_below(&d->r, KILN_ATTR_KIND_COUNT, &kind);
    if (st) return st;
    attr.kind = (kiln_attr_kind)kind;
    switch (attr.kind) {
    case KILN_ATTR_INT: st = kiln_mpack_read_i64(&d->r, &attr.i); break;
    case KILN_ATTR_FLOAT: st = kiln_mpack_read_f64(&d->r, &attr.f); break;
    case KILN_ATTR_TEXT: st = kiln_mpack_read_str(&d->r, &attr.text); break;
    case KILN_ATTR_INTS:
    case KILN_ATTR_FLOATS:
    case KILN_ATTR_KIND_COUNT: st = read_list(d, &attr); break;
    }
    if (!st) kiln_graph_set_attr(d->graph, node, &attr);
    return kiln_status_note(st, "attribute %.*s", KILN_STR_ARG(attr.name));
}

/* Numbers of values; `most` of them. In the graph's arena. */
static kiln_status read_ids(reader *d, uint32_t most, const char *of, uint32_t *out_count,
                            kiln_value **out_id) {
    kiln_status st = kiln_mpack_read_count(&d->r, most, of, out_count);
    if (st) return st;
    *out_id = KILN_ARENA_ARRAY(d->arena, kiln_value, *out_count);
    for (uint32_t i = 0; !st && i < *out_count; i++) {
        uint64_t id = 0;
        st = kiln_status_note(kiln_mpack_read_below(&d->r, d->graph->value.count, &id), "%s %u", of,
                              i);
        (*out_id)[i] = (kiln_value)id;
    }
    return st;
}

/* A result has one producer: set here, so that a second one is found by the verifier. */
static kiln_status read_node(reader *d) {
    kiln_str op_name = {0}, name = {0};
    kiln_op op = KILN_OP_NONE;
    uint32_t input_count = 0, output_count = 0, attr_count = 0;
    kiln_value *input = NULL, *output = NULL;
    uint64_t group = 0;
    kiln_status st = kiln_mpack_read_array_of(&d->r, 6);
    if (!st) st = kiln_mpack_read_str(&d->r, &op_name);
    if (!st) st = kiln_mpack_read_str(&d->r, &name);
    if (!st && !kiln_op_find(op_name, &op))
        st = KILN_ERROR(UNIMPLEMENTED, "operator %.*s is not known", KILN_STR_ARG(op_name));
    if (!st) st = read_ids(d, KILN_NODE_OPERANDS_MAX, "inputs", &input_count, &input);
    if (!st) st = read_ids(d, KILN_NODE_OPERANDS_MAX, "outputs", &output_count, &output);
    if (!st) st = kiln_mpack_read_count(&d->r, KILN_NODE_ATTRS_MAX, "attributes", &attr_count);
    if (st) return kiln_status_note(st, "\"%.*s\"", KILN_STR_ARG(name));
    kiln_node node = kiln_graph_add_node(d->graph, op, name, input_count, output_count);
    for (uint32_t i = 0; i < input_count; i++) kiln_graph_set_input(d->graph, node, i, input[i]);
    for (uint32_t i = 0; i < output_count; i++) kiln_graph_set_output(d->graph, node, i, output[i]);
    for (uint32_t i = 0; !st && i < attr_count; i++) st = read_attr(d, node);
    if (!st) st = kiln_mpack_read_below(&d->r, KILN_GRAPH_NODES_MAX, &group);
    d->graph->node.data[node].group = (uint32_t)group;
    return kiln_status_note(st, "\"%.*s\"", KILN_STR_ARG(name));
}

static kiln_status read_nodes(reader *d) {
    uint32_t count = 0;
    kiln_status st = kiln_mpack_read_count(&d->r, KILN_GRAPH_NODES_MAX - 1, "nodes", &count);
    for (uint32_t i = 0; !st && i < count; i++)
        st = kiln_status_note(read_node(d), "node %u", i + 1);
    return st;
}

/* Each once, and no constant. */
static kiln_status read_inputs(reader *d) {
    uint32_t count = 0;
    kiln_value *id = NULL;
    kiln_status st = read_ids(d, KILN_GRAPH_VALUES_MAX, "inputs", &count, &id);
    bool *seen = KILN_ARENA_ARRAY(d->arena, bool, d->graph->value.count);
    for (uint32_t i = 0; !st && i < count; i++) {
        if (!id[i] || seen[id[i]] || kiln_value_is_constant(d->graph, id[i]) ||
            d->graph->value.data[id[i]].producer)
            st = KILN_ERROR(DATA_LOSS, "input %u cannot be one", i);
        seen[id[i]] = true;
        kiln_vec_push_in(d->arena, &d->graph->input, id[i]);
    }
    return st;
}

static kiln_status read_outputs(reader *d) {
    uint32_t count = 0;
    kiln_value *id = NULL;
    kiln_status st = read_ids(d, KILN_GRAPH_VALUES_MAX, "outputs", &count, &id);
    for (uint32_t i = 0; !st && i < count; i++)
        kiln_vec_push_in(d->arena, &d->graph->output, id[i]);
    return st;
}

static kiln_status read_name(reader *d) {
    kiln_str name = {0};
    kiln_status st = kiln_mpack_read_str(&d->r, &name);
    if (!st) d->graph->name = (kiln_str){kiln_str_dup(d->arena, name), name.size};
    return st;
}

static kiln_status read_field(reader *d, uint64_t key) {
    switch (key) {
    case KEY_NAME: return read_name(d);
    case KEY_GIVEN: return kiln_mpack_read_u64(&d->r, &d->graph->given_bytes);
    case KEY_DATA: return read_data(d);
    case KEY_VALUES: return read_values(d);
    case KEY_NODES: return read_nodes(d);
    case KEY_INPUTS: return read_inputs(d);
    case KEY_OUTPUTS: return read_outputs(d);
    default: return kiln_mpack_skip(&d->r);
    }
}

/* The keys ascend without a gap up to the last that this version knows. */
static kiln_status read_structure(reader *d) {
    uint32_t fields = 0;
    uint64_t last = 0;
    kiln_status st = kiln_mpack_read_map(&d->r, &fields);
    for (uint32_t i = 0; !st && i < fields; i++) {
        uint64_t key = 0;
        st = kiln_mpack_read_u64(&d->r, &key);
        if (!st && (key <= last || (last < KEY_END - 1 && key != last + 1)))
            st = KILN_ERROR(DATA_LOSS, "key %llu after %llu", (unsigned long long)key,
                            (unsigned long long)last);
        if (!st) st = read_field(d, key);
        last = key;
    }
    if (!st && last < KEY_END - 1)
        st = KILN_ERROR(DATA_LOSS, "it ends after key %u", (unsigned)last);
    if (!st && kiln_mpack_peek(&d->r) != KILN_MPACK_END)
        st = KILN_ERROR(DATA_LOSS, "bytes behind its end");
    return st;
}

static uint64_t get_le(const char *at, unsigned bytes) {
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++) value |= (uint64_t)(uint8_t)at[i] << (8 * i);
    return value;
}

bool kiln_graph_is_encoded(kiln_str bytes) {
    return bytes.size >= HEADER_BYTES && memcmp(bytes.data, MAGIC, strlen(MAGIC)) == 0;
}

/* Whatever a graph from elsewhere does wrong is damage, and no fault of this program. */
static kiln_status verify(kiln_graph *graph) {
    kiln_status st = kiln_graph_verify(graph);
    if (!st || kiln_status_code(st) == KILN_UNIMPLEMENTED) return st;
    kiln_status damage = KILN_ERROR(DATA_LOSS, "%s", kiln_status_text(st));
    kiln_status_free(st);
    return damage;
}

static kiln_status decode(kiln_str bytes, kiln_arena *arena, kiln_graph **out_graph) {
    if (!kiln_graph_is_encoded(bytes)) return KILN_ERROR(DATA_LOSS, "it does not begin as one");
    uint64_t version = get_le(bytes.data + 8, 4), size = get_le(bytes.data + 16, 8);
    if (version != KILN_GRAPH_BYTES_VERSION)
        return KILN_ERROR(UNIMPLEMENTED, "they are of version %llu; this program reads version %u",
                          (unsigned long long)version, KILN_GRAPH_BYTES_VERSION);
    if (size > bytes.size - HEADER_BYTES || padded(HEADER_BYTES + (size_t)size) > bytes.size)
        return KILN_ERROR(DATA_LOSS, "the structure ends behind them");
    reader d = {.arena = arena, .graph = kiln_graph_create(arena, (kiln_str){0})};
    kiln_mpack_reader_init(&d.r, bytes.data + HEADER_BYTES, (size_t)size);
    d.rest = kiln_str_slice(bytes, padded(HEADER_BYTES + (size_t)size), bytes.size);
    kiln_status st = read_structure(&d);
    if (!st) st = verify(d.graph);
    if (!st) *out_graph = d.graph;
    return st;
}

kiln_status kiln_graph_decode(kiln_str bytes, kiln_arena *arena, kiln_graph **out_graph) {
    return kiln_status_note(decode(bytes, arena, out_graph), "reading the bytes of a graph");
}
