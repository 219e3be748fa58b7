/* What tests of TFLite share: models of one operator, and what is expected of them. */
#ifndef KILN_TESTS_UNIT_COMPILER_CORE_FRONTEND_TFLITE_SUPPORT_H
#define KILN_TESTS_UNIT_COMPILER_CORE_FRONTEND_TFLITE_SUPPORT_H

#include "tests/support/tflite_message.h"
#include "tests/unit/compiler-core/frontend/support.h"
#include "tests/unit/compiler-core/graph/support.h"

/* Numbers of the schema. */
enum { T_F32 = 0, T_F16 = 1, T_I32 = 2, T_U8 = 3, T_I64 = 4, T_BOOL = 6, T_I16 = 7, T_I8 = 9 };

/* Imports and verifies; fails the test when that is refused. */
kiln_graph *import_tflite(kiln_arena *arena, kiln_str bytes);
void expect_tflite_refused(kiln_arena *arena, kiln_str bytes, kiln_code code, const char *needle);
char *text_of_tflite(kiln_arena *arena, kiln_str bytes);
/* What the graph computes of 1, 2, 3, ... (result_of). */
void expect_tflite(kiln_arena *arena, kiln_str bytes, const char *result);
/* Both models compute the same of these inputs. */
void expect_same_as_onnx(kiln_arena *arena, kiln_str bytes, const model_parts *parts);

/* One f32 input "x:1,4" and one result "y:4" of an operator; `extra` is added as an i32 constant
 * where it is not NULL. */
kiln_str one_operator(kiln_arena *arena, int number, const char *x, const char *y,
                      const char *extra, flat_table *options);

#endif
