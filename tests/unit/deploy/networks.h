/* Graphs that are run in each of the forms that packing writes. */
#ifndef KILN_TESTS_UNIT_DEPLOY_NETWORKS_H
#define KILN_TESTS_UNIT_DEPLOY_NETWORKS_H

/* Aliases, copies, functions of the library, and outputs that share bytes. */
#define SEVERAL_STEPS                              \
    "graph steps\n"                                \
    "input x: f32[1,4,6,6]\ninput y: f32[1,144]\n" \
    "a: f32[1,144] = flatten(x) axis=1\n"          \
    "b: f32[1,144] = softmax(a)\n"                 \
    "c: f32[1,288] = concat(b, y) axis=1\n"        \
    "d: f32[1,288] = exp(c)\n"                     \
    "e: f32[288,1] = flatten(d) axis=2\n"          \
    "output b\noutput e\noutput a\n"

/* Carried state, and rows forwards and backwards. */
#define LOOP_OF_ROWS                                                                        \
    "graph g\ninput x: f32[5,3]\ninput s: f32[3]\nconstant n: i64[] = [5]\n"                \
    "i: i64[], a: f32[3], r: f32[3] = loop_begin(n, s, x) carried=1 reversed=[1] trips=5\n" \
    "b: f32[3] = add(a, r)\nt: f32[3] = tanh(b)\n"                                          \
    "last: f32[3], all: f32[5,3], back: f32[5,3] = loop_end(i, t, t, b) reversed=[0,1]\n"   \
    "output last\noutput all\noutput back\n"

/* A layer whose weights are packed once. */
#define LOOP_OF_A_LAYER                                                                      \
    "graph g\ninput x: f32[7,2,20]\nconstant n: i64[] = [7]\n"                               \
    "constant w: f32[20,20] = hash \"00112233445566778899aabbccddeeff\"\n"                   \
    "constant z: f32[2,20] = hash \"10112233445566778899aabbccddeeff\"\n"                    \
    "i: i64[], h: f32[2,20], r: f32[2,20] = loop_begin(n, z, x) carried=1 trips=7\n"         \
    "p: f32[2,20] = gemm(h, w) transB=1\nq: f32[2,20] = add(p, r)\nt: f32[2,20] = tanh(q)\n" \
    "last: f32[2,20], all: f32[7,2,20] = loop_end(i, t, t)\n"                                \
    "y: f32[7,2,20] = neg(all)\noutput last\noutput y\n"

/* The number of iterations is needed when the loop begins: values of its body take its memory. */
#define LOOP_OVER_ITS_COUNT                                                              \
    "graph g\ninput s: f32[10]\nconstant two: f32[1] = [2]\n"                            \
    "n: i64[] = arg_max(s) axis=0 keepdims=0\n"                                          \
    "i: i64[], a: f32[10] = loop_begin(n, s) carried=1 trips=20\n"                       \
    "t: f32[10] = mul(a, two)\nu: f32[10] = softmax(t) axis=0\nv: f32[10] = softmax(u) " \
    "axis=0\nb: f32[10] = add(v, u)\nlast: f32[10] = loop_end(i, b)\noutput last\n"

/* A result whose number of rows only the run knows: the state is doubled until it is large. */
#define LOOP_UNTIL_LARGE                                                                  \
    "graph g\ninput s: f32[10]\nconstant n: i64[] = [1000]\nconstant go: bool[] = [1]\n"  \
    "constant two: f32[1] = [2]\nconstant limit: f32[1] = [100]\n"                        \
    "i: i64[], a: f32[10] = loop_begin(n, go, s) carried=1 guarded=1 trips=20\n"          \
    "b: f32[10] = mul(a, two)\nm: f32[1] = reduce_max(b) axes=[0]\n"                      \
    "less: bool[1] = less(m, limit)\nlast: f32[10], all: f32[20,10] = loop_end(i, less, " \
    "b, b)\noutput last\noutput all\n"

#endif
