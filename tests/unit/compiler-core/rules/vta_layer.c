#include "tests/unit/compiler-core/rules/vta_layer.h"

#include <string.h>

#include "base/macros.h"
#include "tests/unit/compiler-core/sched/support.h"

kiln_program *vta_layer_conv(kiln_arena *arena, const vta_layer *c) {
    const int p = c->padding, width = c->width ? c->width : c->size;
    const int tall = c->size + 2 * p, wide = width + 2 * p;
    const int rows = (tall - c->kernel) / c->stride + 1,
              columns = (wide - c->kernel) / c->stride + 1;
    kiln_strbuf text = {0};
    kiln_strbuf_printf(&text, "program c\ninput x: i8[%d,%d,%d,%d]\nconstant w: i8[%d,%d,%d,%d]\n",
                       c->n, c->in, c->size, width, c->out, c->in, c->kernel, c->kernel);
    if (strstr(c->follower, "b[")) kiln_strbuf_printf(&text, "constant b: i32[%d,1,1]\n", c->out);
    if (strstr(c->follower, "r["))
        kiln_strbuf_printf(&text, "input r: i8[%d,%d,%d,%d]\n", c->n, c->out, rows, columns);
    if (strstr(c->follower, "t["))
        kiln_strbuf_printf(&text, "input t: i32[%d,%d,%d,%d]\n", c->n, c->out, rows, columns);
    if (p) kiln_strbuf_printf(&text, "temp p: i8[%d,%d,%d,%d]\n", c->n, c->in, tall, wide);
    kiln_strbuf_printf(&text, "temp s: i32[%d,%d,%d,%d]\noutput y: i8[%d,%d,%d,%d]\n", c->n, c->out,
                       rows, columns, c->n, c->out, rows, columns);
    if (p)
        kiln_strbuf_printf(&text,
                           "block pad(n:%d, c:%d, h:%d, v:%d): p[n, c, h, v] = select(and(and(%d "
                           "<= h, h < %d), and(%d <= v, v < %d)), x[n, c, h - %d, v - %d], 0i8)\n",
                           c->n, c->in, tall, wide, p, p + c->size, p, p + width, p, p);
    kiln_strbuf_printf(&text,
                       "block conv(n:%d, o:%d, h:%d, v:%d | c:%d, r:%d, q:%d): s[n, o, h, v] sum= "
                       "i32(%s[n, c, h*%d + r, v*%d + q]) * i32(w[o, c, r, q]) init 0i32\n"
                       "block out(n:%d, o:%d, h:%d, v:%d): y[n, o, h, v] = %s\n",
                       c->n, c->out, rows, columns, c->in, c->kernel, c->kernel, p ? "p" : "x",
                       c->stride, c->stride, c->n, c->out, rows, columns, c->follower);
    return parsed(arena, kiln_strbuf_end(&text, arena).data);
}

kiln_program *vta_layer_dense(kiln_arena *arena, int m, int n, int k, const char *follower) {
    const char *bias =
        strstr(follower, "b[") ? kiln_arena_printf(arena, "constant b: i32[%d]\n", n) : "";
    return parsed(
        arena,
        kiln_arena_printf(arena,
                          "program d\ninput x: i8[%d,%d]\nconstant w: i8[%d,%d]\n%s"
                          "temp s: i32[%d,%d]\noutput y: i8[%d,%d]\nblock mul(i:%d, j:%d | k:%d): "
                          "s[i, j] sum= i32(x[i, k]) * i32(w[k, j]) init 0i32\n"
                          "block out(i:%d, j:%d): y[i, j] = %s\n",
                          m, k, k, n, bias, m, n, m, n, m, n, k, m, n, follower));
}

static int draw(kiln_rand *rand, int least, int most) {
    return (int)kiln_rand_range(rand, least, most);
}

/* The operands are elements as text; NULL: there is none. */
static const char *random_follower(kiln_arena *arena, const kiln_vta_config *machine,
                                   const char *sums, const char *bias, const char *bytes,
                                   const char *words, kiln_rand *rand) {
    const int shift = draw(rand, 1, 12), left = draw(rand, 0, 3);
    const char *text = sums;
    if (bias && draw(rand, 0, 1)) text = kiln_arena_printf(arena, "(%s + %s)", text, bias);
    if (bytes && draw(rand, 0, 2) == 0)
        text = left ? kiln_arena_printf(arena, "(%s + shl(i32(%s), %di32))", text, bytes, left)
                    : kiln_arena_printf(arena, "(%s + i32(%s))", text, bytes);
    if (words && draw(rand, 0, 3) == 0) text = kiln_arena_printf(arena, "(%s + %s)", text, words);
    if (kiln_vta_config_has(machine, KILN_VTA_MUL) && draw(rand, 0, 2) == 0)
        text = kiln_arena_printf(arena, "(%s * %di32)", text, draw(rand, 2, 9));
    if (draw(rand, 0, 3) > 0)
        text = kiln_arena_printf(arena, "shr(%s + %di32, %di32)", text, 1 << (shift - 1), shift);
    if (draw(rand, 0, 3) == 0)
        text = kiln_arena_printf(arena, "(%s + %di32)", text, draw(rand, 1, 99));
    return kiln_arena_printf(arena, "i8(min(max(%s, %di32), %di32))", text,
                             draw(rand, 0, 1) ? 0 : -128, draw(rand, 0, 2) ? 127 : 6);
}

#define MACS_MAX 20000 /* of a random layer, which the interpreter computes, too */

kiln_program *vta_layer_random(kiln_arena *arena, const kiln_vta_config *machine, kiln_rand *rand) {
    const int batch = (int)machine->batch, in = (int)machine->block_in,
              out = (int)machine->block_out;
    if (draw(rand, 0, 4) == 0) {
        const int m = batch * draw(rand, 1, 4), n = out * draw(rand, 1, 4),
                  k = in * draw(rand, 1, 4);
        return vta_layer_dense(arena, m, n, k,
                               random_follower(arena, machine, "s[i, j]",
                                               batch == 1 ? "b[j]" : NULL, NULL, NULL, rand));
    }
    vta_layer c;
    do
        c = (vta_layer){.n = batch * draw(rand, 1, 2),
                        .in = in * draw(rand, 1, 3),
                        .out = out * draw(rand, 1, 4),
                        .size = draw(rand, 1, 8),
                        .width = draw(rand, 1, 8),
                        .kernel = draw(rand, 0, 1) ? 1 : draw(rand, 2, 3),
                        .stride = draw(rand, 1, 2),
                        .padding = draw(rand, 0, 1)};
    while (KILN_MIN(c.size, c.width) + 2 * c.padding < c.kernel ||
           c.n * c.in * c.out * c.size * c.width * c.kernel * c.kernel >
               KILN_MAX(MACS_MAX, 4 * batch * in * out));
    c.follower = random_follower(arena, machine, "s[n, o, h, v]", batch == 1 ? "b[o, 0, 0]" : NULL,
                                 "r[n, o, h, v]", "t[n, o, h, v]", rand);
    return vta_layer_conv(arena, &c);
}
