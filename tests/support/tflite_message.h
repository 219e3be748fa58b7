/* TFLite models written from a short description, and flatbuffers field by field, as no tool would
 * write them. Numbers of fields are those of TFLite's schema. Used by tests of the import. */
#ifndef KILN_TESTS_SUPPORT_TFLITE_MESSAGE_H
#define KILN_TESTS_SUPPORT_TFLITE_MESSAGE_H

#include "base/arena.h"
#include "base/str.h"

/* A table of a flatbuffer; functions add a field. All of it lives in the arena. */
typedef struct flat_table flat_table;
flat_table *flat_table_of(kiln_arena *arena);
flat_table *flat_int(flat_table *table, uint32_t field, size_t bytes, int64_t value);
flat_table *flat_float(flat_table *table, uint32_t field, float value);
flat_table *flat_text(flat_table *table, uint32_t field, const char *text);
/* A list of `count` items of `item_bytes` each, as they are in memory. */
flat_table *flat_list(flat_table *table, uint32_t field, const void *item, size_t item_bytes,
                      uint32_t count);
/* "1,2,-3": a list of 32-bit integers. */
flat_table *flat_ints(flat_table *table, uint32_t field, const char *items);
flat_table *flat_child(flat_table *table, uint32_t field, flat_table *child);
/* Adds a table to a list of tables. */
flat_table *flat_append(flat_table *table, uint32_t field, flat_table *child);
/* The file whose first table this is. */
kiln_str flat_bytes(const flat_table *root, const char *identifier);

/* A model. Tensors are numbered from 0 in the order in which they are added. */
typedef struct tflite_model {
    kiln_arena *arena;
    flat_table *root, *graph;
    uint32_t tensor_count, buffer_count, code_count;
} tflite_model;
tflite_model tflite_model_of(kiln_arena *arena);
/* A tensor "x:2,3"; its type is a number of the schema (0: f32, 2: i32, 9: i8). Data: NULL: it is
 * no constant. Returns its table, to which quantisation is added. */
flat_table *tflite_tensor(tflite_model *m, int type, const char *name_and_shape, const void *data,
                          size_t size);
/* Makes a tensor quantised: one scale, or `count` along a dimension. */
void tflite_quantise(flat_table *tensor, const float *scale, const int64_t *zero, uint32_t count,
                     int axis);
/* An operator by its number; operands are numbers of tensors, "0,1,-1". Options may be NULL. */
flat_table *tflite_operator(tflite_model *m, int number, const char *inputs, const char *outputs,
                            flat_table *options);
/* Ends a subgraph, whose ports are numbers of tensors; what is added from here on is of the next.
 */
void tflite_next_subgraph(tflite_model *m, const char *inputs, const char *outputs);
/* The file; ports of the last subgraph are numbers of tensors. */
kiln_str tflite_bytes(tflite_model *m, const char *inputs, const char *outputs);

#endif
