/* Sketches line by line. */
#include "compiler-core/sched/maker.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "compiler-core/sched/nest.h"
#include "compiler-core/sched/prim.h"

kiln_maker kiln_maker_begin(const kiln_program *te, const kiln_target *target, kiln_arena *arena) {
    return (kiln_maker){
        .arena = arena, .target = target, .replay = kiln_replay_begin(te, NULL, NULL, arena)};
}

static bool is_unwanted(const kiln_maker *m, const kiln_instruction *in) {
    if (!m->row_major || in->prim != KILN_PRIM_TRANSFORM_LAYOUT) return false;
    kiln_buffer buffer = kiln_program_find_buffer(m->replay.p, in->operand[0].text);
    return buffer && m->replay.p->buffer.data[buffer].scope == KILN_SCOPE_GLOBAL;
}

static bool add_line(kiln_maker *m, kiln_str line) {
    kiln_status st = kiln_trace_parse_line(line, &m->trace, m->arena);
    if (!st && is_unwanted(m, &m->trace.instruction[m->trace.count - 1])) {
        m->trace.count--;
        return false;
    }
    if (!st) {
        st = kiln_replay_step(&m->replay, &m->trace.instruction[m->trace.count - 1]);
        if (st) m->trace.count--;
    }
    bool applied = st == NULL;
    kiln_status_free(st); /* illegal here: the rule goes on without this line */
    return applied;
}

bool kiln_make(kiln_maker *m, const char *format, ...) {
    va_list args;
    va_start(args, format);
    kiln_strbuf line = {0};
    kiln_strbuf_vprintf(&line, format, args);
    va_end(args);
    bool applied = add_line(m, kiln_strbuf_view(&line));
    kiln_strbuf_deinit(&line);
    return applied;
}

const char *kiln_make_sampler(kiln_maker *m, const char *format, ...) {
    va_list args;
    va_start(args, format);
    kiln_strbuf text = {0};
    kiln_strbuf_vprintf(&text, format, args);
    va_end(args);
    uint32_t number = 0;
    for (uint32_t i = 0; i < m->trace.count; i++)
        number += kiln_prim_is_sampler(m->trace.instruction[i].prim);
    char letter = kiln_str_starts(kiln_strbuf_view(&text), "perfect_tile") ? 't' : text.data[0];
    char *name = kiln_arena_printf(m->arena, "%c%u", letter, number);
    kiln_strbuf line = {0};
    kiln_strbuf_printf(&line, "%s = %.*s", name, (int)text.size, text.data);
    bool applied = add_line(m, kiln_strbuf_view(&line));
    kiln_strbuf_deinit(&line);
    kiln_strbuf_deinit(&text);
    return applied ? name : NULL;
}

const char *kiln_make_categorical(kiln_maker *m, const int64_t *value, uint32_t count,
                                  int64_t preferred) {
    kiln_strbuf list = {0};
    uint32_t best = 0;
    for (uint32_t i = 0; i < count; i++) {
        kiln_strbuf_printf(&list, "%s%lld", i ? ", " : "", (long long)value[i]);
        if (llabs(value[i] - preferred) < llabs(value[best] - preferred)) best = i;
    }
    const char *name = kiln_make_sampler(m, "categorical(%s) = %u", list.data, best);
    kiln_strbuf_deinit(&list);
    return name;
}

/* ---- names ---- */

static const char *spelled(kiln_maker *m, kiln_str name) {
    bool bare = name.size > 0;
    for (size_t i = 0; i < name.size; i++) {
        char c = name.data[i];
        bare &= isalnum((unsigned char)c) || c == '_' || c == '.' || c == '\'' || c == '/';
    }
    if (bare) return kiln_str_dup(m->arena, name);
    char *quoted = kiln_arena_alloc(m->arena, 2 * name.size + 3);
    size_t size = 0;
    quoted[size++] = '"';
    for (size_t i = 0; i < name.size; i++) {
        if (name.data[i] == '"' || name.data[i] == '\\') quoted[size++] = '\\';
        quoted[size++] = name.data[i];
    }
    quoted[size] = '"';
    return quoted;
}

const char *kiln_make_block_name(kiln_maker *m, kiln_block block) {
    return spelled(m, m->replay.p->block.data[block].name);
}
const char *kiln_make_buffer_name(kiln_maker *m, kiln_buffer buffer) {
    return spelled(m, m->replay.p->buffer.data[buffer].name);
}

const char *kiln_make_loop_name(kiln_maker *m, kiln_block block, int iter, const char *suffix) {
    const kiln_program *p = m->replay.p;
    kiln_str name = kiln_iter_name(p, &p->block.data[block].iter[iter]);
    char *whole = kiln_arena_printf(m->arena, "%.*s.%.*s%s", BLOCK_NAME(p, block),
                                    KILN_STR_ARG(name), suffix);
    return spelled(m, kiln_str_from(whole));
}

const char *kiln_make_stmt_name(kiln_maker *m, kiln_stmt loop) {
    const kiln_program *p = m->replay.p;
    return spelled(m, p->var.data[p->stmt.data[loop].var].name);
}
