/* Program text from strangers: it parses or is refused; what parses prints, parses again and prints
 * the same, and small programs can be simplified and evaluated. */
#include "base/check.h"
#include "compiler-core/ir/affine.h"
#include "compiler-core/ir/eval.h"
#include "compiler-core/ir/ir_text.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/interpreter.h"

#define POINTS_MAX 20000 /* work that one input may ask for */

static double points_of(const kiln_program *p) {
    double points = 0;
    for (kiln_buffer b = 1; b < p->buffer.count; b++)
        points +=
            (double)kiln_shape_count(&p->buffer.data[b].shape) + (double)p->buffer.data[b].offset;
    for (kiln_block b = 1; b < p->block.count; b++) {
        double own = 1;
        for (uint32_t i = 0; i < p->block.data[b].iter_count; i++)
            own *= (double)p->block.data[b].iter[i].extent;
        points += own;
    }
    for (kiln_stmt s = 1; s < p->stmt.count; s++) {
        double own = 1;
        for (kiln_stmt at = s; at; at = p->stmt.data[at].parent)
            if (p->stmt.data[at].kind == KILN_STMT_FOR) own *= (double)p->stmt.data[at].extent;
        points += own;
    }
    return points;
}

static void evaluate(const kiln_program *p, kiln_arena *arena) {
    kiln_tensor tensor[KILN_PROGRAM_BUFFERS_MAX];
    kiln_arg_buffers arg = kiln_program_args(p);
    for (uint32_t i = 0; i < arg.count; i++)
        tensor[i] = kiln_tensor_create(arena, p->buffer.data[arg.buffer[i]].dtype,
                                       &p->buffer.data[arg.buffer[i]].shape);
    kiln_status_free(p->root ? kiln_loop_eval(p, tensor, arg.count)
                             : kiln_te_eval(p, tensor, arg.count)); /* a finding is fine */
}

static void simplify_everything(kiln_program *p) {
    for (kiln_expr e = 1, count = p->expr.count; e < count; e++) kiln_expr_simplify(p, e, NULL);
}

int kiln_fuzz_one(const uint8_t *data, size_t size) {
    kiln_arena arena;
    kiln_program *p = NULL;
    kiln_program *again = NULL;
    kiln_strbuf text = {0};
    kiln_strbuf text_again = {0};
    kiln_arena_init(&arena, 0);
    kiln_status st = kiln_program_parse((kiln_str){(const char *)data, size}, &arena, &p);
    if (!st) {
        kiln_program_print(p, &text);
        kiln_status reparsed = kiln_program_parse(kiln_strbuf_view(&text), &arena, &again);
        KILN_CHECK(!reparsed);
        kiln_program_print(again, &text_again);
        KILN_CHECK(kiln_str_equal(kiln_strbuf_view(&text), kiln_strbuf_view(&text_again)));
        if (points_of(p) <= POINTS_MAX) evaluate(p, &arena);
        simplify_everything(p);
        KILN_CHECK(!kiln_program_verify(again));
    }
    kiln_status_free(st);
    kiln_strbuf_deinit(&text);
    kiln_strbuf_deinit(&text_again);
    kiln_arena_deinit(&arena);
    return 0;
}
