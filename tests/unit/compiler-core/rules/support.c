#include "tests/unit/compiler-core/rules/support.h"

#include "compiler-core/ir/ir_text.h"

void expect_lines(const kiln_sched *s, uint32_t first, const char *lines) {
    kiln_trace tail = *kiln_sched_trace(s);
    kiln_strbuf all = {0}, head = {0};
    kiln_trace_print(&tail, &all);
    tail.count = first;
    kiln_trace_print(&tail, &head);
    const char *text = kiln_str_dup(s->arena, kiln_strbuf_view(&all));
    assert_string_equal(text + head.size, lines);
    kiln_strbuf_deinit(&all);
    kiln_strbuf_deinit(&head);
}

void expect_legal(kiln_sched *s) {
    expect_ok(kiln_sched_end(s));
    expect_ok(kiln_program_verify(s->program));
}

void expect_sound(kiln_sched *s, const kiln_program *te) {
    expect_legal(s);
    expect_ok(same_result(te, s->program, s->arena));
}

kiln_block block_of(const kiln_sched *s, const char *name) {
    kiln_block block = kiln_program_find_block(s->program, kiln_str_from(name));
    if (!block) fail_msg("there is no block %s", name);
    return block;
}

kiln_buffer buffer_of(const kiln_sched *s, const char *name) {
    kiln_buffer buffer = kiln_program_find_buffer(s->program, kiln_str_from(name));
    if (!buffer) fail_msg("there is no buffer %s", name);
    return buffer;
}

kiln_tiling tiling_of(kiln_sched *s, const char *block) {
    kiln_tiling t = {.s = s, .block = block_of(s, block), .given_v = -1};
    assert_true(kiln_tile_choose_roles(&t));
    return t;
}

const char *layout_of(const kiln_sched *s, const char *buffer) {
    kiln_strbuf text = {0};
    kiln_layout_print(&s->program->buffer.data[buffer_of(s, buffer)].layout, &text);
    const char *copy = kiln_str_dup(s->arena, kiln_strbuf_view(&text));
    kiln_strbuf_deinit(&text);
    return copy;
}
