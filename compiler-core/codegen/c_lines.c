/* C-family text: types, names, and functions as lists of lines. */
#include <string.h>

#include "base/check.h"
#include "compiler-core/codegen/c_builder.h"

/* ---- types ----------------------------------------------------------------------------------- */

static const char *const scalar_name[] = {"u8", "u8", "u16", "u32", "u64", "u16", "f32", "f64"};

/* Bits of a lane; a BOOL takes a byte. */
static uint32_t lane_bits(kiln_ssa_scalar scalar) {
    return KILN_MAX(kiln_ssa_scalar_bits(scalar), 8u);
}

uint64_t kiln_c_low_bits(int64_t value, uint32_t bits) {
    return bits == 64 ? (uint64_t)value : (uint64_t)value & ((1ull << bits) - 1);
}

bool kiln_c_is_native(const kiln_c_builder *b, kiln_ssa_type type) {
    return type.lanes <= b->dialect->vector_lanes && type.lanes > 1 &&
           (type.lanes & (type.lanes - 1)) == 0;
}

bool kiln_c_is_named(const kiln_c_builder *b, kiln_ssa_type type) {
    return !type.lanes || b->dialect->lane_loops || kiln_c_is_native(b, type);
}

const char *kiln_c_type(kiln_c_builder *b, kiln_ssa_type type) {
    if (type.scalar == KILN_SSA_POINTER) return b->dialect->pointer[type.space];
    if (!type.lanes) return scalar_name[type.scalar];
    KILN_CHECK(type.scalar < KILN_SSA_POINTER && type.lanes <= KILN_C_LANES_MAX);
    b->used[type.scalar][type.lanes] = true;
    return kiln_arena_printf(b->arena, "%sx%u", scalar_name[type.scalar], type.lanes);
}

/* Dialects without loops over lanes define no types. */
static void print_types(kiln_c_builder *b, kiln_strbuf *out) {
    if (!b->dialect->lane_loops) return;
    for (kiln_ssa_scalar s = 0; s < KILN_SSA_POINTER; s++) {
        for (uint32_t n = 1; n <= KILN_C_LANES_MAX; n++) {
            const char *name = scalar_name[s];
            if (!b->used[s][n]) continue;
            kiln_strbuf_printf(out, "#ifndef HAS_%sx%u\n#define HAS_%sx%u\n", name, n, name, n);
            if (kiln_c_is_native(b, kiln_type_vector(s, n)))
                kiln_strbuf_printf(out, "VECTOR(%s, %u, %u, %sx%u);\n", name, n, lane_bits(s) / 8,
                                   name, n);
            else
                kiln_strbuf_printf(out, "typedef struct { %s lane[%u]; } %sx%u;\n", name, n, name,
                                   n);
            kiln_strbuf_text(out, "#endif\n");
        }
    }
}

/* ---- values as text -------------------------------------------------------------------------- */

kiln_ssa kiln_c_node(kiln_c_builder *b, kiln_ssa_type type, const char *text) {
    kiln_ssa v = KILN_ARENA_NEW(b->arena, struct kiln_ssa_node);
    v->type = type;
    v->text = text;
    return v;
}

const char *kiln_c_name(kiln_c_builder *b) {
    return kiln_arena_printf(b->arena, "v%u", ++b->name_count);
}

static const char *integer_text(kiln_c_builder *b, kiln_ssa_scalar scalar, int64_t value) {
    uint32_t bits = lane_bits(scalar);
    return kiln_arena_printf(b->arena, "%llu%s", (unsigned long long)kiln_c_low_bits(value, bits),
                             bits == 64 ? b->dialect->of_64 : "u");
}

const char *kiln_c_lane(kiln_c_builder *b, kiln_ssa v, uint32_t lane) {
    if (!v->type.lanes) return kiln_c_whole(b, v);
    if (v->lane) return integer_text(b, v->type.scalar, v->lane[lane]);
    if (v->uniform) return kiln_c_whole(b, v->uniform);
    if (v->element) return v->element[lane] ? kiln_c_whole(b, v->element[lane]) : "0";
    if (b->dialect->lane)
        return kiln_arena_printf(b->arena, "%s%s", v->text, b->dialect->lane[lane]);
    return kiln_arena_printf(b->arena, kiln_c_is_native(b, v->type) ? "%s[%u]" : "%s.lane[%u]",
                             v->text, lane);
}

/* { lane, lane, ... } in the syntax of `type`. */
static const char *list_text(kiln_c_builder *b, kiln_ssa v) {
    kiln_strbuf text = {0};
    for (uint32_t i = 0; i < v->type.lanes; i++)
        kiln_strbuf_printf(&text, "%s%s", i ? ", " : "", kiln_c_lane(b, v, i));
    return kiln_strbuf_end(&text, b->arena).data;
}

const char *kiln_c_whole(kiln_c_builder *b, kiln_ssa v) {
    if (v->text) return v->text;
    if (!v->type.lanes) return integer_text(b, v->type.scalar, v->lane[0]);
    if (v->uniform && b->dialect->vectors) /* one value for all lanes */
        return kiln_arena_printf(b->arena, b->dialect->literal, kiln_c_type(b, v->type),
                                 kiln_c_whole(b, v->uniform));
    const bool nested = b->dialect->lane_loops && !kiln_c_is_native(b, v->type);
    return kiln_arena_printf(b->arena, nested ? "(%s){{%s}}" : b->dialect->literal,
                             kiln_c_type(b, v->type), list_text(b, v));
}

/* Whether known lanes are first, first + step, ... */
static bool is_ramp(kiln_ssa v) {
    uint64_t step = (uint64_t)v->lane[v->type.lanes > 1] - (uint64_t)v->lane[0];
    for (uint32_t i = 1; i < v->type.lanes; i++)
        if ((uint64_t)v->lane[i] - (uint64_t)v->lane[i - 1] != step) return false;
    return v->type.scalar == KILN_SSA_I32 || v->type.scalar == KILN_SSA_I64;
}

const char *kiln_c_each(kiln_c_builder *b, kiln_ssa v) {
    if (!v->type.lanes) return kiln_c_whole(b, v);
    if (v->uniform) return kiln_c_whole(b, v->uniform);
    if (v->lane && is_ramp(v))
        return kiln_arena_printf(
            b->arena, "(%s + %s * l)", integer_text(b, v->type.scalar, v->lane[0]),
            integer_text(b, v->type.scalar,
                         (int64_t)((uint64_t)v->lane[v->type.lanes > 1] - (uint64_t)v->lane[0])));
    if (!v->text)
        return kiln_arena_printf(b->arena, "((const %s[]){%s})[l]", scalar_name[v->type.scalar],
                                 list_text(b, v));
    return kiln_arena_printf(b->arena, kiln_c_is_native(b, v->type) ? "%s[l]" : "%s.lane[l]",
                             v->text);
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* Counts the values named in a text, down to values that lines define. */
static void count_uses(kiln_ssa v, int32_t by) {
    if (!v) return;
    v->uses = (uint32_t)((int32_t)v->uses + by);
    if (v->defined) return;
    count_uses(v->base, by);
    count_uses(v->uniform, by);
    for (uint32_t i = 0; v->element && i < v->type.lanes; i++) count_uses(v->element[i], by);
}

kiln_c_line *kiln_c_insert(kiln_c_builder *b, kiln_c_line *at, const char *text, kiln_ssa value,
                           const kiln_ssa *operand, uint32_t operand_count) {
    kiln_c_line *line = KILN_ARENA_NEW(b->arena, kiln_c_line);
    *line = (kiln_c_line){at->before, at, text, value, NULL, operand_count};
    line->operand = KILN_ARENA_ARRAY(b->arena, kiln_ssa, operand_count + 1);
    at->before->after = line;
    at->before = line;
    for (uint32_t i = 0; i < operand_count; i++) {
        line->operand[i] = operand[i];
        count_uses(operand[i], 1);
    }
    return line;
}

void kiln_c_effect(kiln_c_builder *b, const char *text, const kiln_ssa *operand,
                   uint32_t operand_count) {
    kiln_c_insert(b, b->at, text, NULL, operand, operand_count);
}

kiln_ssa kiln_c_define_as(kiln_c_builder *b, kiln_ssa_type type, const char *name, const char *text,
                          const kiln_ssa *operand, uint32_t operand_count) {
    kiln_ssa v = kiln_c_node(b, type, name);
    v->defined = true;
    kiln_c_insert(b, b->at, text, v, operand, operand_count);
    return v;
}

kiln_ssa kiln_c_joined(kiln_c_builder *b, kiln_ssa v) {
    if (!kiln_c_is_named(b, v->type)) return v;
    return kiln_c_define(b, v->type, false, kiln_c_whole(b, v), &v, 1);
}

kiln_ssa kiln_c_define(kiln_c_builder *b, kiln_ssa_type type, bool each, const char *expression,
                       const kiln_ssa *operand, uint32_t operand_count) {
    const char *name = kiln_c_name(b), *spelled = kiln_c_type(b, type);
    if (!each)
        return kiln_c_define_as(b, type, name,
                                kiln_arena_printf(b->arena, "%s %s%s = %s;", spelled,
                                                  type.scalar == KILN_SSA_POINTER ? "const " : "",
                                                  name, expression),
                                operand, operand_count);
    const char *lane = kiln_c_is_native(b, type) ? "[l]" : ".lane[l]";
    return kiln_c_define_as(b, type, name,
                            kiln_arena_printf(b->arena, "%s %s; EACH(%u) %s%s = %s;", spelled, name,
                                              type.lanes, name, lane, expression),
                            operand, operand_count);
}

/* ---- printing -------------------------------------------------------------------------------- */

/* Removes lines whose values are unused. Goes backwards, because uses come after definitions, and
 * repeats, because assignments at the end of a loop come after uses. */
static void drop_unused(kiln_c_function *f) {
    bool again = true;
    while (again) {
        again = false;
        for (kiln_c_line *line = f->end->before; line != f->end; line = line->before) {
            if (!line->text || !line->value || line->value->uses) continue;
            line->text = NULL;
            again = true;
            for (uint32_t i = 0; i < line->operand_count; i++) count_uses(line->operand[i], -1);
        }
    }
}

static void print_function(const kiln_c_function *f, kiln_strbuf *out) {
    uint32_t depth = 1;
    kiln_strbuf_printf(out, "%s\n", f->head);
    for (const kiln_c_line *line = f->end->after; line != f->end; line = line->after) {
        if (!line->text) continue;
        size_t size = strlen(line->text);
        if (line->text[0] == '}') depth--;
        kiln_strbuf_printf(out, "%*s%s\n", (int)(4 * KILN_MIN(depth, 8u)), "", line->text);
        if (line->text[size - 1] == '{') depth++;
    }
    kiln_strbuf_printf(out, "}\n%s\n", f->end->text ? f->end->text : "");
}

void kiln_c_add_helper(kiln_c_builder *b, const char *text) {
    for (uint32_t i = 0; i < b->helpers.count; i++)
        if (strcmp(b->helpers.data[i], text) == 0) return;
    kiln_vec_push_in(b->arena, &b->helpers, text);
}

void kiln_c_builder_print(kiln_c_builder *b, kiln_strbuf *out) {
    for (uint32_t i = 0; i < b->done.count; i++) drop_unused(&b->done.data[i]);
    print_types(b, out);
    for (uint32_t i = 0; i < b->helpers.count; i++) kiln_strbuf_text(out, b->helpers.data[i]);
    kiln_strbuf_char(out, '\n');
    for (uint32_t i = 0; i < b->done.count; i++) print_function(&b->done.data[i], out);
}
