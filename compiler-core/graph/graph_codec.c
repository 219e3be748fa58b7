#include "compiler-core/graph/graph_codec.h"

#include <string.h>

#include "base/map.h"
#include "base/mpack.h"
#include "compiler-core/graph/op.h"

#define MAGIC "kilngrph"
#define HEADER_BYTES 24u

static size_t padded(size_t size) {
    return (size + KILN_GRAPH_DATA_ALIGNMENT - 1) / KILN_GRAPH_DATA_ALIGNMENT *
           KILN_GRAPH_DATA_ALIGNMENT;
}

/* The walks below write a graph, which they do not change, or read one. */
typedef struct codec {
    kiln_mpack_coder m;
    kiln_graph *graph;
    kiln_arena *arena;
    /* written */
    kiln_value *place; /* [values] their numbers in the bytes; 0: unused */
    uint32_t value_count;
    uint32_t *data_of; /* [values] of constants: index into data */
    /* data of constants */
    KILN_VEC(kiln_str) data;
    kiln_str rest; /* read: bytes behind the structure */
} codec;

static bool writes(const codec *k) { return k->m.out != NULL; }

/* ---- numbers of values and data, when writing ------------------------------------------------ */

static void use_all(codec *k, const kiln_value *value, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) k->place[value[i]] = 1;
}

/* Used values keep their order. */
static void number_values(codec *k) {
    const kiln_graph *g = k->graph;
    k->place = KILN_ARENA_ARRAY(k->arena, kiln_value, g->value.count);
    use_all(k, g->input.data, g->input.count);
    use_all(k, g->output.data, g->output.count);
    for (kiln_node n = 1; n < g->node.count; n++) {
        use_all(k, g->node.data[n].input, g->node.data[n].input_count);
        use_all(k, g->node.data[n].output, g->node.data[n].output_count);
    }
    k->place[0] = 0;
    for (kiln_value v = 1; v < g->value.count; v++)
        if (k->place[v]) k->place[v] = ++k->value_count;
}

static uint32_t add_data(codec *k, kiln_map *known, const kiln_value_info *info) {
    kiln_tensor tensor = {.dtype = info->dtype, .shape = info->shape};
    kiln_str bytes = {info->data, kiln_tensor_bytes(&tensor)};
    char hash[KILN_HASH128_TEXT];
    uint64_t index = 0;
    kiln_hash128_print(info->hash, hash);
    kiln_str key = kiln_str_printf(k->arena, "%s %zu", hash, bytes.size);
    if (kiln_map_find(known, key, &index) && kiln_str_equal(k->data.data[index], bytes))
        return (uint32_t)index;
    kiln_vec_push_in(k->arena, &k->data, bytes);
    kiln_map_put(known, key, k->data.count - 1);
    return k->data.count - 1;
}

static void find_data(codec *k) {
    kiln_map known;
    kiln_map_init(&known);
    k->data_of = KILN_ARENA_ARRAY(k->arena, uint32_t, k->graph->value.count);
    for (kiln_value v = 1; v < k->graph->value.count; v++)
        if (k->place[v] && kiln_value_is_constant(k->graph, v))
            k->data_of[v] = add_data(k, &known, &k->graph->value.data[v]);
    kiln_map_deinit(&known);
}

/* ---- the structure --------------------------------------------------------------------------- */

static void read_data(codec *k, uint32_t count) {
    for (uint32_t i = 0; !k->m.st && i < count; i++) {
        uint64_t size = 0;
        k->m.st = kiln_mpack_read_below(&k->m.in, (uint64_t)k->rest.size + 1, &size);
        if (!k->m.st && padded((size_t)size) > k->rest.size)
            k->m.st = KILN_ERROR(DATA_LOSS, "its padding is missing");
        k->m.st = kiln_status_note(k->m.st, "constant %u", i);
        if (k->m.st) return;
        kiln_vec_push_in(k->arena, &k->data, kiln_str_slice(k->rest, 0, (size_t)size));
        k->rest = kiln_str_slice(k->rest, padded((size_t)size), k->rest.size);
    }
    if (!k->m.st && k->rest.size)
        k->m.st = KILN_ERROR(DATA_LOSS, "%zu bytes too many", k->rest.size);
}

/* Bytes of each constant. */
static void code_data(codec *k) {
    uint32_t count = k->data.count;
    kiln_mpack_code_count(&k->m, KILN_GRAPH_VALUES_MAX, "constants", &count);
    if (!writes(k)) read_data(k, count);
    for (uint32_t i = 0; writes(k) && i < count; i++)
        kiln_mpack_write_u64(k->m.out, k->data.data[i].size);
}

/* The bytes at an address that kernels accept: copied when not aligned. */
static void *aligned(codec *k, kiln_str bytes) {
    union {
        const char *read;
        void *any; /* tensors carry a plain pointer; constants are only read */
    } data = {.read = bytes.data};
    if ((uintptr_t)data.read % KILN_GRAPH_DATA_ALIGNMENT == 0) return data.any;
    void *copy = kiln_arena_alloc_aligned(k->arena, KILN_GRAPH_DATA_ALIGNMENT, bytes.size);
    if (bytes.size) memcpy(copy, bytes.data, bytes.size);
    return copy;
}

/* Index into data, or nil; `info` is that of `value`. */
static void code_constant(codec *k, kiln_value value, const kiln_value_info *info) {
    uint32_t index = writes(k) ? k->data_of[value] : 0;
    if (writes(k) && !info->data) kiln_mpack_write_nil(k->m.out);
    if (writes(k) && !info->data) return;
    if (!writes(k) && kiln_mpack_peek(&k->m.in) == KILN_MPACK_NIL) {
        k->m.st = kiln_mpack_skip(&k->m.in);
        return;
    }
    kiln_mpack_code_below(&k->m, k->data.count, &index);
    if (writes(k) || k->m.st) return;
    kiln_tensor tensor = {info->dtype, info->shape, NULL};
    if (k->data.data[index].size != kiln_tensor_bytes(&tensor)) {
        k->m.st = KILN_ERROR(DATA_LOSS, "%zu bytes of data instead of %zu",
                             k->data.data[index].size, kiln_tensor_bytes(&tensor));
        return;
    }
    tensor.data = aligned(k, k->data.data[index]);
    kiln_graph_set_constant(k->graph, value, &tensor);
}

/* [name, dtype, [dims], index into data or nil]; `value` 0: a new one */
static void code_value(codec *k, kiln_value value) {
    kiln_value_info info = k->graph->value.data[value];
    uint32_t dtype = info.dtype;
    size_t size_bytes = 0;
    kiln_mpack_code_fields(&k->m, 4);
    kiln_mpack_code_str(&k->m, &info.name);
    kiln_mpack_code_below(&k->m, KILN_DTYPE_COUNT, &dtype);
    if (!k->m.st && dtype == KILN_DTYPE_NONE) k->m.st = KILN_ERROR(DATA_LOSS, "it has no type");
    kiln_mpack_code_count(&k->m, KILN_RANK_MAX, "dimensions", &info.shape.rank);
    for (uint32_t d = 0; !k->m.st && d < info.shape.rank; d++) {
        uint64_t dim = (uint64_t)info.shape.dim[d];
        if (writes(k))
            kiln_mpack_write_u64(k->m.out, dim);
        else
            k->m.st = kiln_mpack_read_below(&k->m.in, (uint64_t)INT64_MAX, &dim);
        info.shape.dim[d] = (int64_t)dim;
    }
    info.dtype = (kiln_dtype)dtype;
    if (!writes(k) && !k->m.st) k->m.st = kiln_shape_bytes(&info.shape, info.dtype, &size_bytes);
    if (k->m.st) return;
    if (!writes(k)) {
        value = kiln_graph_add_named_value(k->graph, info.name);
        k->graph->value.data[value].dtype = info.dtype;
        k->graph->value.data[value].shape = info.shape;
    }
    code_constant(k, value, &info);
}

static void code_values(codec *k) {
    uint32_t count = k->value_count;
    kiln_mpack_code_count(&k->m, KILN_GRAPH_VALUES_MAX - 1, "values", &count);
    for (kiln_value v = 1; writes(k) && v < k->graph->value.count; v++)
        if (k->place[v]) code_value(k, v);
    for (uint32_t i = 0; !writes(k) && !k->m.st && i < count; i++) {
        code_value(k, 0);
        k->m.st = kiln_status_note(k->m.st, "value %u", i + 1);
    }
}

static void code_items(codec *k, kiln_attr *attr) {
    kiln_mpack_code_count(&k->m, KILN_ATTR_ITEMS_MAX, "items", &attr->count);
    if (k->m.st) return;
    const size_t room = (size_t)attr->count + 1;
    int64_t *ints = KILN_ARENA_ARRAY(k->arena, int64_t, room);
    double *floats = KILN_ARENA_ARRAY(k->arena, double, room);
    for (uint32_t i = 0; !k->m.st && i < attr->count; i++) {
        if (attr->ints) ints[i] = attr->ints[i];
        if (attr->floats) floats[i] = attr->floats[i];
        if (attr->kind == KILN_ATTR_INTS)
            kiln_mpack_code_i64(&k->m, &ints[i]);
        else
            kiln_mpack_code_f64(&k->m, &floats[i]);
    }
    attr->ints = ints;
    attr->floats = floats;
}

/* [name, kind, value] */
static void code_attr(codec *k, kiln_attr *attr) {
    uint32_t kind = attr->kind;
    kiln_mpack_code_fields(&k->m, 3);
    kiln_mpack_code_str(&k->m, &attr->name);
    kiln_mpack_code_below(&k->m, KILN_ATTR_KIND_COUNT, &kind);
    if (k->m.st) return;
    attr->kind = (kiln_attr_kind)kind;
    switch (attr->kind) {
    case KILN_ATTR_INT: kiln_mpack_code_i64(&k->m, &attr->i); break;
    case KILN_ATTR_FLOAT: kiln_mpack_code_f64(&k->m, &attr->f); break;
    case KILN_ATTR_TEXT: kiln_mpack_code_str(&k->m, &attr->text); break;
    case KILN_ATTR_INTS:
    case KILN_ATTR_FLOATS:
    case KILN_ATTR_KIND_COUNT: code_items(k, attr); break;
    }
    k->m.st = kiln_status_note(k->m.st, "attribute %.*s", KILN_STR_ARG(attr->name));
}

/* Numbers of values; `most` of them. Read: into the graph's arena. */
static void code_ids(codec *k, uint32_t most, const char *of, uint32_t *count, kiln_value **id) {
    kiln_mpack_code_count(&k->m, most, of, count);
    if (!writes(k) && !k->m.st) *id = KILN_ARENA_ARRAY(k->arena, kiln_value, *count);
    for (uint32_t i = 0; !k->m.st && i < *count; i++) {
        kiln_value place = writes(k) ? k->place[(*id)[i]] : 0;
        kiln_mpack_code_below(&k->m, k->graph->value.count, &place);
        k->m.st = kiln_status_note(k->m.st, "%s %u", of, i);
        if (!writes(k)) (*id)[i] = place;
    }
}

/* A result has one producer: set here, so that a second one is found by the verifier. */
static void add_node(codec *k, const kiln_node_info *from) {
    kiln_node node =
        kiln_graph_add_node(k->graph, from->op, from->name, from->input_count, from->output_count);
    for (uint32_t i = 0; i < from->input_count; i++)
        kiln_graph_set_input(k->graph, node, i, from->input[i]);
    for (uint32_t i = 0; i < from->output_count; i++)
        kiln_graph_set_output(k->graph, node, i, from->output[i]);
    for (uint32_t i = 0; i < from->attr_count; i++)
        kiln_graph_set_attr(k->graph, node, &from->attr[i]);
    k->graph->node.data[node].group = from->group;
}

/* [operator, name, [inputs], [outputs], [attributes], group] */
static void code_node(codec *k, kiln_node_info *node) {
    kiln_str op = kiln_str_from(kiln_op_get(node->op)->name);
    kiln_mpack_code_fields(&k->m, 6);
    kiln_mpack_code_str(&k->m, &op);
    kiln_mpack_code_str(&k->m, &node->name);
    if (!writes(k) && !k->m.st && !kiln_op_find(op, &node->op))
        k->m.st = KILN_ERROR(UNIMPLEMENTED, "operator %.*s is not known", KILN_STR_ARG(op));
    code_ids(k, KILN_NODE_OPERANDS_MAX, "inputs", &node->input_count, &node->input);
    code_ids(k, KILN_NODE_OPERANDS_MAX, "outputs", &node->output_count, &node->output);
    kiln_mpack_code_count(&k->m, KILN_NODE_ATTRS_MAX, "attributes", &node->attr_count);
    if (!writes(k) && !k->m.st)
        node->attr = KILN_ARENA_ARRAY(k->arena, kiln_attr, node->attr_count);
    for (uint32_t i = 0; !k->m.st && i < node->attr_count; i++) {
        kiln_attr copy = node->attr[i];
        code_attr(k, &copy);
        if (!writes(k)) node->attr[i] = copy;
    }
    kiln_mpack_code_below(&k->m, KILN_GRAPH_NODES_MAX, &node->group);
    if (!writes(k) && !k->m.st) add_node(k, node);
    k->m.st = kiln_status_note(k->m.st, "\"%.*s\"", KILN_STR_ARG(node->name));
}

static void code_nodes(codec *k) {
    uint32_t count = 0, nodes = k->graph->node.count;
    for (kiln_node n = 1; n < nodes; n++) count += k->graph->node.data[n].op != KILN_OP_NONE;
    kiln_mpack_code_count(&k->m, KILN_GRAPH_NODES_MAX - 1, "nodes", &count);
    for (kiln_node n = 1; writes(k) && n < nodes; n++) {
        kiln_node_info node = k->graph->node.data[n];
        if (node.op != KILN_OP_NONE) code_node(k, &node);
    }
    for (uint32_t i = 0; !writes(k) && !k->m.st && i < count; i++) {
        kiln_node_info node = {0};
        code_node(k, &node);
        k->m.st = kiln_status_note(k->m.st, "node %u", i + 1);
    }
}

static void code_outputs(codec *k) {
    kiln_graph *g = k->graph;
    code_ids(k, KILN_GRAPH_VALUES_MAX, "outputs", &g->output.count, &g->output.data);
    g->output.capacity = g->output.count;
}

/* Each once, and no constant. */
static void code_inputs(codec *k) {
    kiln_graph *g = k->graph;
    code_ids(k, KILN_GRAPH_VALUES_MAX, "inputs", &g->input.count, &g->input.data);
    if (writes(k) || k->m.st) return;
    bool *seen = KILN_ARENA_ARRAY(k->arena, bool, g->value.count);
    g->input.capacity = g->input.count;
    for (uint32_t i = 0; i < g->input.count; i++) {
        kiln_value v = g->input.data[i];
        if (!k->m.st &&
            (!v || seen[v] || kiln_value_is_constant(g, v) || g->value.data[v].producer))
            k->m.st = KILN_ERROR(DATA_LOSS, "input %u cannot be one", i);
        seen[v] = true;
    }
}

enum { KEYS = 7 };

static void code_field(codec *k, uint64_t key) {
    switch (key) {
    case 1: kiln_mpack_code_str(&k->m, &k->graph->name); break;
    case 2: kiln_mpack_code_u64(&k->m, &k->graph->given_bytes); break;
    case 3: code_data(k); break;
    case 4: code_values(k); break;
    case 5: code_nodes(k); break;
    case 6: code_inputs(k); break;
    case 7: code_outputs(k); break;
    default: k->m.st = kiln_mpack_skip(&k->m.in);
    }
}

/* ---- writing --------------------------------------------------------------------------------- */

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
    kiln_strbuf out = {0};
    kiln_graph copy = *graph;
    codec k = {.m = {.out = &out}, .graph = &copy, .arena = arena};
    number_values(&k);
    find_data(&k);
    kiln_strbuf_append(&out, header, sizeof header);
    kiln_mpack_write_map(&out, KEYS);
    for (uint64_t key = 1; key <= KEYS; key++) {
        kiln_mpack_write_u64(&out, key);
        code_field(&k, key);
    }
    put_le(header + 8, KILN_GRAPH_BYTES_VERSION, 4);
    put_le(header + 16, out.size - HEADER_BYTES, 8);
    memcpy(out.data, header, sizeof header);
    kiln_graph_bytes bytes = {
        .part = KILN_ARENA_ARRAY(arena, kiln_str, 2 * ((size_t)k.data.count + 1))};
    add_part(&bytes, (kiln_str){kiln_arena_copy(arena, out.data, out.size), out.size}, zeros);
    for (uint32_t i = 0; i < k.data.count; i++) add_part(&bytes, k.data.data[i], zeros);
    kiln_strbuf_deinit(&out);
    return bytes;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* The keys ascend without a gap up to the last that this version knows. */
static void read_structure(codec *k) {
    uint32_t fields = 0;
    uint64_t last = 0;
    k->m.st = kiln_mpack_read_map(&k->m.in, &fields);
    for (uint32_t i = 0; !k->m.st && i < fields; i++) {
        uint64_t key = 0;
        kiln_mpack_code_u64(&k->m, &key);
        if (!k->m.st && (key <= last || (last < KEYS && key != last + 1)))
            k->m.st = KILN_ERROR(DATA_LOSS, "key %llu after %llu", (unsigned long long)key,
                                 (unsigned long long)last);
        if (!k->m.st) code_field(k, key);
        last = key;
    }
    if (!k->m.st && last < KEYS)
        k->m.st = KILN_ERROR(DATA_LOSS, "it ends after key %u", (unsigned)last);
    if (!k->m.st && kiln_mpack_peek(&k->m.in) != KILN_MPACK_END)
        k->m.st = KILN_ERROR(DATA_LOSS, "bytes behind its end");
    k->graph->name = kiln_str_copy(k->arena, k->graph->name);
}

static uint64_t get_le(const char *at, unsigned bytes) {
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++) value |= (uint64_t)(uint8_t)at[i] << (8 * i);
    return value;
}

bool kiln_graph_is_encoded(kiln_str bytes) {
    return bytes.size >= HEADER_BYTES && memcmp(bytes.data, MAGIC, strlen(MAGIC)) == 0;
}

/* An error in a graph that was read is damaged data, not an internal error. */
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
    codec k = {.arena = arena, .graph = kiln_graph_create(arena, (kiln_str){0})};
    kiln_mpack_reader_init(&k.m.in, bytes.data + HEADER_BYTES, (size_t)size);
    k.rest = kiln_str_slice(bytes, padded(HEADER_BYTES + (size_t)size), bytes.size);
    read_structure(&k);
    if (!k.m.st) k.m.st = verify(k.graph);
    if (!k.m.st) *out_graph = k.graph;
    return k.m.st;
}

kiln_status kiln_graph_decode(kiln_str bytes, kiln_arena *arena, kiln_graph **out_graph) {
    return kiln_status_note(decode(bytes, arena, out_graph), "reading the bytes of a graph");
}
