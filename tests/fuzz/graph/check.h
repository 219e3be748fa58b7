/* Whether Kiln computes what the interpreter computes: a part of a graph, compiled and run. */
#ifndef KILN_TESTS_FUZZ_GRAPH_CHECK_H
#define KILN_TESTS_FUZZ_GRAPH_CHECK_H

#include "base/target.h"
#include "tests/fuzz/graph/graph.h"

/* How a part is compiled. */
typedef struct fuzz_way {
    const kiln_target *target;
    uint32_t passes, planners; /* bits of what is left out, as `kiln compile --without` */
} fuzz_way;

/* Compiles, runs and compares in a child process, which may crash or hang (20 s). True: every
 * output is right. Otherwise `why` says what is not. */
bool fuzz_check(const fuzz_graph *g, const fuzz_part *part, const fuzz_way *way, kiln_strbuf *why);

/* The smallest part found for which `fails` still holds, by leaving out nodes one by one. */
typedef bool (*fuzz_failing)(void *context, const fuzz_graph *g, const fuzz_part *part);
fuzz_part fuzz_shrink(const fuzz_graph *g, const fuzz_part *part, fuzz_failing fails,
                      void *context);

/* Writes a part in the layout of ONNX's backend tests, with the interpreter's outputs as the
 * expected ones; and beside each float output output_K.pb, how far each element may be off:
 * tolerance_K.pb. */
KILN_MUST_USE kiln_status fuzz_write(const fuzz_graph *g, const fuzz_part *part,
                                     const char *folder);

#endif
