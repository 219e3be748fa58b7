/* The draw functions of ops.def. Private to graph/. */
#ifndef KILN_TESTS_FUZZ_GRAPH_RULES_H
#define KILN_TESTS_FUZZ_GRAPH_RULES_H

#include "tests/fuzz/graph/draw.h"

#define X(name, function, flags, low, high, last) bool draw_##function(draw *d);
#include "tests/fuzz/graph/ops.def"
#undef X

#endif
