#include "tests/support/tflite_message.h"

#include <string.h>

#include "base/check.h"
#include "base/vec.h"

/* A field is a number in the table itself (`size` bytes), a list (`item_bytes`), a table, or a list
 * of tables. */
typedef struct field {
    uint32_t number;
    kiln_str data;
    size_t item_bytes; /* 0: `data` stands in the table */
    bool text;         /* lists: a 0 follows */
    bool tables;       /* `child`, as a list */
    KILN_VEC(flat_table *) child;
} field;

struct flat_table {
    kiln_arena *arena;
    KILN_VEC(field) field;
};

flat_table *flat_table_of(kiln_arena *arena) {
    flat_table *table = KILN_ARENA_NEW(arena, flat_table);
    table->arena = arena;
    return table;
}

static flat_table *add(flat_table *table, field f) {
    kiln_vec_push_in(table->arena, &table->field, f);
    return table;
}

static kiln_str copy(flat_table *table, const void *data, size_t size) {
    return kiln_str_copy(table->arena, (kiln_str){data, size});
}

flat_table *flat_int(flat_table *table, uint32_t number, size_t bytes, int64_t value) {
    return add(table, (field){.number = number, .data = copy(table, &value, bytes)});
}

flat_table *flat_float(flat_table *table, uint32_t number, float value) {
    return add(table, (field){.number = number, .data = copy(table, &value, sizeof value)});
}

flat_table *flat_text(flat_table *table, uint32_t number, const char *text) {
    return add(table, (field){.number = number,
                              .data = copy(table, text, strlen(text)),
                              .item_bytes = 1,
                              .text = true});
}

flat_table *flat_list(flat_table *table, uint32_t number, const void *item, size_t item_bytes,
                      uint32_t count) {
    return add(table, (field){.number = number,
                              .data = copy(table, item, item_bytes * count),
                              .item_bytes = item_bytes});
}

flat_table *flat_ints(flat_table *table, uint32_t number, const char *items) {
    int32_t item[64];
    uint32_t count = 0;
    kiln_str rest = kiln_str_from(items);
    while (rest.size) {
        int64_t value = 0;
        KILN_CHECK(kiln_str_to_i64(kiln_str_cut(&rest, ','), &value));
        KILN_CHECK(count < 64);
        item[count++] = (int32_t)value;
    }
    return flat_list(table, number, item, sizeof *item, count);
}

flat_table *flat_child(flat_table *table, uint32_t number, flat_table *child) {
    field f = {.number = number};
    kiln_vec_push_in(table->arena, &f.child, child);
    return add(table, f);
}

flat_table *flat_append(flat_table *table, uint32_t number, flat_table *child) {
    field f = {.number = number, .tables = true};
    for (uint32_t i = 0; i < table->field.count; i++) {
        field *there = &table->field.data[i];
        if (there->number != number || !there->tables) continue;
        kiln_vec_push_in(table->arena, &there->child, child);
        return table;
    }
    kiln_vec_push_in(table->arena, &f.child, child);
    return add(table, f);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static void put(kiln_strbuf *out, uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) kiln_strbuf_char(out, (char)(value >> (8 * i)));
}

static void align(kiln_strbuf *out) {
    while (out->size % 8) kiln_strbuf_char(out, 0);
}

/* Writes at `place` how far it is to the end. */
static void point_here(kiln_strbuf *out, size_t place) {
    const uint32_t offset = (uint32_t)(out->size - place);
    memcpy(out->data + place, &offset, sizeof offset);
}

static void put_table(kiln_strbuf *out, const flat_table *table);

static void put_field(kiln_strbuf *out, const field *f, size_t place) {
    align(out);
    if (f->item_bytes) {
        put(out, 0, 4); /* items begin at a multiple of 8 */
        point_here(out, place);
        put(out, f->data.size / f->item_bytes, 4);
        kiln_strbuf_str(out, f->data);
        if (f->text) kiln_strbuf_char(out, 0);
        return;
    }
    if (!f->tables) {
        point_here(out, place);
        put_table(out, f->child.data[0]);
        return;
    }
    point_here(out, place);
    put(out, f->child.count, 4);
    const size_t list = out->size;
    for (uint32_t i = 0; i < f->child.count; i++) put(out, 0, 4);
    for (uint32_t i = 0; i < f->child.count; i++) {
        align(out);
        point_here(out, list + 4 * i);
        put_table(out, f->child.data[i]);
    }
}

/* The table, the list of its fields' places behind it, then what the fields point to. Each field
 * takes 8 bytes. */
static void put_table(kiln_strbuf *out, const flat_table *table) {
    const size_t at = out->size;
    const uint32_t count = table->field.count;
    uint32_t most = 0;
    put(out, 0, 8);
    for (uint32_t i = 0; i < count; i++) {
        const field *f = &table->field.data[i];
        const bool number = !f->item_bytes && !f->child.count;
        if (number) kiln_strbuf_str(out, f->data);
        put(out, 0, number ? 8 - f->data.size : 8);
        most = f->number + 1 > most ? f->number + 1 : most;
    }
    const int32_t back = (int32_t)(at - out->size); /* places stand behind their table */
    memcpy(out->data + at, &back, sizeof back);
    put(out, 4 + 2 * most, 2);
    put(out, 8 + 8 * count, 2);
    for (uint32_t number = 0; number < most; number++) {
        uint32_t place = 0;
        for (uint32_t i = 0; i < count; i++)
            if (table->field.data[i].number == number) place = 8 + 8 * i;
        put(out, place, 2);
    }
    for (uint32_t i = 0; i < count; i++) {
        const field *f = &table->field.data[i];
        if (f->item_bytes || f->child.count) put_field(out, f, at + 8 + 8 * i);
    }
}

kiln_str flat_bytes(const flat_table *root, const char *identifier) {
    kiln_strbuf out = {0};
    put(&out, 8, 4);
    kiln_strbuf_text(&out, identifier);
    put_table(&out, root);
    return kiln_strbuf_end(&out, root->arena);
}

/* ---- models ---------------------------------------------------------------------------------- */

enum { MODEL_CODES = 1, MODEL_GRAPHS = 2, MODEL_BUFFERS = 4 };
enum { GRAPH_TENSORS, GRAPH_INPUTS, GRAPH_OUTPUTS, GRAPH_OPERATORS };

tflite_model tflite_model_of(kiln_arena *arena) {
    tflite_model m = {.arena = arena, .root = flat_table_of(arena), .graph = flat_table_of(arena)};
    flat_int(m.root, 0, 4, 3);
    flat_append(m.root, MODEL_GRAPHS, m.graph);
    flat_append(m.root, MODEL_BUFFERS, flat_table_of(arena));
    m.buffer_count = 1; /* the first one has nothing */
    return m;
}

flat_table *tflite_tensor(tflite_model *m, int type, const char *name_and_shape, const void *data,
                          size_t size) {
    kiln_str shape = kiln_str_from(name_and_shape), name = kiln_str_cut(&shape, ':');
    flat_table *tensor = flat_table_of(m->arena);
    flat_ints(tensor, 0, kiln_str_dup(m->arena, shape));
    flat_int(tensor, 1, 1, type);
    flat_text(tensor, 3, kiln_str_dup(m->arena, name));
    if (data) {
        flat_append(m->root, MODEL_BUFFERS,
                    flat_list(flat_table_of(m->arena), 0, data, 1, (uint32_t)size));
        flat_int(tensor, 2, 4, m->buffer_count++);
    }
    flat_append(m->graph, GRAPH_TENSORS, tensor);
    m->tensor_count++;
    return tensor;
}

void tflite_quantise(flat_table *tensor, const float *scale, const int64_t *zero, uint32_t count,
                     int axis) {
    flat_table *q = flat_table_of(tensor->arena);
    flat_list(q, 2, scale, sizeof *scale, count);
    flat_list(q, 3, zero, sizeof *zero, count);
    flat_int(q, 6, 4, axis);
    flat_child(tensor, 4, q);
}

flat_table *tflite_operator(tflite_model *m, int number, const char *inputs, const char *outputs,
                            flat_table *options) {
    flat_table *code = flat_int(flat_table_of(m->arena), 3, 4, number),
               *operation = flat_table_of(m->arena);
    flat_append(m->root, MODEL_CODES, code);
    flat_int(operation, 0, 4, m->code_count++);
    flat_ints(flat_ints(operation, 1, inputs), 2, outputs);
    if (options) flat_child(operation, 4, options);
    flat_append(m->graph, GRAPH_OPERATORS, operation);
    return code;
}

void tflite_next_subgraph(tflite_model *m, const char *inputs, const char *outputs) {
    flat_ints(flat_ints(m->graph, GRAPH_INPUTS, inputs), GRAPH_OUTPUTS, outputs);
    m->graph = flat_table_of(m->arena);
    m->tensor_count = 0;
    flat_append(m->root, MODEL_GRAPHS, m->graph);
}

kiln_str tflite_bytes(tflite_model *m, const char *inputs, const char *outputs) {
    flat_ints(flat_ints(m->graph, GRAPH_INPUTS, inputs), GRAPH_OUTPUTS, outputs);
    return flat_bytes(m->root, "TFL3");
}
