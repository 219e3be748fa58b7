#include "tests/support/vta_conv.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/str.h"

uint32_t vta_conv_out_height(const vta_conv *c) {
    return (c->height + 2 * c->padding - c->kernel) / c->stride + 1;
}
uint32_t vta_conv_out_width(const vta_conv *c) {
    return (c->width + 2 * c->padding - c->kernel) / c->stride + 1;
}

typedef struct writing {
    kiln_strbuf text;
    uint32_t depth; /* of the next line */
} writing;

static void line(writing *w, const char *format, ...) KILN_PRINTF(2, 3);
static void line(writing *w, const char *format, ...) {
    char text[512];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    kiln_strbuf_printf(&w->text, "%*s%s\n", (int)(2 * w->depth), "", text);
}

static void loop(writing *w, const char *name, uint32_t extent) {
    line(w, "for %s in %u:", name, extent);
    w->depth++;
}

/* Loops around one store, outermost first; names of `names`, one letter each. */
static void nest(writing *w, const char *names, const uint32_t *extent, const char *store) {
    const uint32_t depth = w->depth;
    for (uint32_t i = 0; names[i]; i++) loop(w, (const char[]){names[i], 0}, extent[i]);
    line(w, "%s", store);
    w->depth = depth;
}

static void declare(writing *w, const kiln_vta_config *config, const vta_conv *c,
                    const vta_conv_cut *cut) {
    const uint32_t b = config->batch, i = config->block_in, o = config->block_out;
    line(w, "program conv");
    line(w, "input x: i8[%u,%u,%u,%u,%u]", c->in, c->height, c->width, b, i);
    line(w, "constant w: i8[%u,%u,%u,%u,%u,%u]", c->out, c->in, c->kernel, c->kernel, o, i);
    line(w, "constant bias: i32[%u,%u,%u]", c->out, b, o);
    line(w, "output y: i8[%u,%u,%u,%u,%u]", c->out, vta_conv_out_height(c), vta_conv_out_width(c),
         b, o);
    line(w, "temp xi: i8[%u,%u,%u,%u,%u] scope(inp)", cut->in,
         (cut->rows - 1) * c->stride + c->kernel, (cut->columns - 1) * c->stride + c->kernel, b, i);
    line(w, "temp wi: i8[%u,%u,%u,%u,%u,%u] scope(wgt)", cut->out, cut->in, c->kernel, c->kernel, o,
         i);
    line(w, "temp bi: i32[%u,%u,%u] scope(acc)", c->out, b, o);
    line(w, "temp s: i32[%u,%u,%u,%u,%u] scope(acc)", cut->out, cut->rows, cut->columns, b, o);
    line(w, "temp q: i8[%u,%u,%u,%u,%u] scope(out)", cut->out, cut->rows, cut->columns, b, o);
    line(w, "loops:");
    w->depth++;
}

/* A part: its channels `oc`, rows `oh` and columns `ow` are expressions. */
static void part(writing *w, const kiln_vta_config *config, const vta_conv *c,
                 const vta_conv_cut *cut, const char *oc, const char *oh, const char *ow,
                 kiln_arena *arena) {
    const uint32_t b = config->batch, i = config->block_in, o = config->block_out, k = c->kernel,
                   s = c->stride, p = c->padding;
    const uint32_t rows = (cut->rows - 1) * s + k, columns = (cut->columns - 1) * s + k;
    const char *store;
    nest(w, "chvrl", (uint32_t[]){cut->out, cut->rows, cut->columns, b, o},
         "s[c, h, v, r, l] = 0i32");
    loop(w, "ic", c->in / cut->in);
    store = kiln_arena_printf(
        arena,
        "xi[a, h, v, r, k] = select(and(and(%u <= (%s)*%u + h, (%s)*%u + h < %u), and(%u <= "
        "(%s)*%u + v, (%s)*%u + v < %u)), x[ic*%u + a, (%s)*%u + h - %u, (%s)*%u + v - %u, r, "
        "k], 0i8)",
        p, oh, s, oh, s, c->height + p, p, ow, s, ow, s, c->width + p, cut->in, oh, s, p, ow, s, p);
    nest(w, "ahvrk", (uint32_t[]){cut->in, rows, columns, b, i}, store);
    store = kiln_arena_printf(arena, "wi[c, a, p, q, l, k] = w[%s + c, ic*%u + a, p, q, l, k]", oc,
                              cut->in);
    nest(w, "capqlk", (uint32_t[]){cut->out, cut->in, k, k, o, i}, store);
    store = kiln_arena_printf(
        arena,
        "s[c, h, v, r, l] = s[c, h, v, r, l] + i32(xi[a, h*%u + p, v*%u + q, r, k])*i32(wi[c, "
        "a, p, q, l, k])",
        s, s);
    nest(w, "capqhvrlk", (uint32_t[]){cut->out, cut->in, k, k, cut->rows, cut->columns, b, o, i},
         store);
    w->depth--;
    store = kiln_arena_printf(arena, "s[c, h, v, r, l] = s[c, h, v, r, l] + bi[%s + c, r, l]", oc);
    const uint32_t results[] = {cut->out, cut->rows, cut->columns, b, o};
    nest(w, "chvrl", results, store);
    nest(w, "chvrl", results,
         "q[c, h, v, r, l] = i8(min(max(shr(s[c, h, v, r, l] + 32i32, 6i32), 0i32), 127i32))");
    store =
        kiln_arena_printf(arena, "y[%s + c, %s + h, %s + v, r, l] = q[c, h, v, r, l]", oc, oh, ow);
    nest(w, "chvrl", results, store);
}

const char *vta_conv_text(const kiln_vta_config *config, const vta_conv *conv,
                          const vta_conv_cut *cut, kiln_arena *arena) {
    writing w = {{0}, 0};
    const uint32_t outs = conv->out / cut->out, rows = vta_conv_out_height(conv) / cut->rows,
                   columns = vta_conv_out_width(conv) / cut->columns;
    const uint32_t threads = cut->in_turn ? 1 : cut->threads;
    declare(&w, config, conv, cut);
    nest(&w, "crl", (uint32_t[]){conv->out, config->batch, config->block_out},
         "bi[c, r, l] = bias[c, r, l]");
    const char *stages = cut->in_turn && cut->threads > 1
                             ? kiln_arena_printf(arena, " @pipeline(\"%u\")", cut->threads)
                             : "";
    /* threads are over what changes fastest, of what they divide */
    const uint32_t count[3] = {outs, rows, columns};
    static const char *const name[3] = {"po", "ph", "pw"};
    uint32_t order[3] = {0, 1, 2};
    if (cut->out_inside) {
        order[0] = 1;
        order[1] = 2;
        order[2] = 0;
    }
    uint32_t threaded = 3;
    for (uint32_t i = 0; i < 3 && threads > 1; i++)
        if (count[order[i]] % threads == 0) threaded = order[i]; /* the last one */
    for (uint32_t i = 0; i < 3; i++) {
        const uint32_t n = count[order[i]] / (order[i] == threaded ? threads : 1);
        line(&w, "for %s in %u%s:", name[order[i]], n, stages);
        stages = "";
        w.depth++;
    }
    if (threaded < 3) {
        line(&w, "vthread t in %u:", threads);
        w.depth++;
    }
    const uint32_t size[3] = {cut->out, cut->rows, cut->columns};
    const char *at[3];
    for (uint32_t d = 0; d < 3; d++)
        at[d] = d == threaded
                    ? kiln_arena_printf(arena, "(%s*%u + t)*%u", name[d], threads, size[d])
                    : kiln_arena_printf(arena, "%s*%u", name[d], size[d]);
    part(&w, config, conv, cut, at[0], at[1], at[2], arena);
    const char *text = kiln_arena_printf(arena, "%s", w.text.data);
    kiln_strbuf_deinit(&w.text);
    return text;
}
