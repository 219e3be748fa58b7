/* Tensor expressions of layers of bytes, as the importer and the passes leave them, for tests of
 * what accelerators of the VTA class do. */
#ifndef KILN_TESTS_UNIT_COMPILER_CORE_RULES_VTA_LAYER_H
#define KILN_TESTS_UNIT_COMPILER_CORE_RULES_VTA_LAYER_H

#include "base/rand.h"
#include "base/vta_config.h"
#include "compiler-core/ir/ir.h"

/* x: i8[n, in, size, width], w: i8[out, in, kernel, kernel], y: i8[n, out, rows, columns]. The
 * follower is the value of y[n, o, h, v], made of sums s, and if it names them a bias b[o, 0, 0],
 * bytes r and words t of y's shape. */
typedef struct vta_layer {
    int n, in, out, size, kernel, stride, padding;
    const char *follower;
    int width; /* 0: size */
} vta_layer;

kiln_program *vta_layer_conv(kiln_arena *arena, const vta_layer *c);
/* y: i8[m, n] of x: i8[m, k] and w: i8[k, n]; the follower of y[i, j] may name a bias b[j]. */
kiln_program *vta_layer_dense(kiln_arena *arena, int m, int n, int k, const char *follower);
/* A small layer that fills the machine's tiles, with a random follower that its ALU computes. */
kiln_program *vta_layer_random(kiln_arena *arena, const kiln_vta_config *machine, kiln_rand *rand);

#endif
