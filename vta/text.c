/* Programs as text (vta/program.h). */
#include "base/vec.h"
#include "vta/field.h"
#include "vta/program.h"

/* ---- to text --------------------------------------------------------------------------------- */

static void print_value(const kiln_vta_field *f, uint32_t value, kiln_strbuf *out) {
    const char *name = f->kind == KILN_VTA_KIND_MEMORY ? kiln_vta_memory_name(value)
                       : f->kind == KILN_VTA_KIND_ALU  ? kiln_vta_alu_op_name(value)
                                                       : NULL;
    if (f->kind == KILN_VTA_KIND_FLAG && value == 1)
        kiln_strbuf_printf(out, " %s", f->name);
    else if (name)
        kiln_strbuf_printf(out, " %s=%s", f->name, name);
    else if (f->kind == KILN_VTA_KIND_SIGNED)
        kiln_strbuf_printf(out, " %s=%d", f->name, (int32_t)value);
    else
        kiln_strbuf_printf(out, " %s=%u", f->name, value);
}

void kiln_vta_instruction_print(const kiln_vta_instruction *in, kiln_str buffer, kiln_strbuf *out) {
    const kiln_vta_sizes sizes = {0}; /* widths are not printed */
    kiln_vta_field table[KILN_VTA_FIELDS_MAX];
    const uint32_t count = kiln_vta_fields(&sizes, table);
    kiln_strbuf_text(out, kiln_vta_opcode_name(in->opcode));
    if (buffer.size) kiln_strbuf_printf(out, " buffer=%.*s", KILN_STR_ARG(buffer));
    for (uint32_t i = 0; i < count; i++) {
        const kiln_vta_field *f = &table[i];
        const bool has_name = f->kind == KILN_VTA_KIND_MEMORY || f->kind == KILN_VTA_KIND_ALU;
        const uint32_t value = kiln_vta_field_get(in, f);
        if (f->offset == offsetof(kiln_vta_instruction, opcode) ||
            !kiln_vta_form_has(kiln_vta_opcode_form(in->opcode), f->form))
            continue;
        if (value != 0 || has_name) print_value(f, value, out);
    }
}

static void print_buffer(const kiln_vta_buffer *b, kiln_strbuf *out) {
    kiln_strbuf_printf(out, "buffer %.*s %s %llu", KILN_STR_ARG(b->name),
                       kiln_vta_role_name(b->role), (unsigned long long)b->size_bytes);
    if (b->content.size) kiln_strbuf_char(out, ' ');
    for (size_t i = 0; i < b->content.size; i++)
        kiln_strbuf_printf(out, "%02x", (unsigned)(uint8_t)b->content.data[i]);
    kiln_strbuf_char(out, '\n');
}

void kiln_vta_program_print(const kiln_vta_program *program, kiln_strbuf *out) {
    kiln_strbuf_text(out, "config ");
    kiln_vta_config_print(&program->config, out);
    kiln_strbuf_char(out, '\n');
    for (uint32_t i = 1; i < program->buffer_count; i++) print_buffer(&program->buffer[i], out);
    for (uint32_t i = 0; i < program->uop_count; i++)
        kiln_strbuf_printf(out, "uop dst=%u src=%u wgt=%u\n", program->uop[i].dst,
                           program->uop[i].src, program->uop[i].wgt);
    for (uint32_t i = 0; i < program->instruction_count; i++) {
        const kiln_vta_instruction *in = &program->instruction[i];
        const uint32_t buffer = program->instruction_buffer[i];
        kiln_vta_instruction_print(in, buffer ? program->buffer[buffer].name : (kiln_str){0}, out);
        kiln_strbuf_char(out, '\n');
    }
}

/* ---- from text ------------------------------------------------------------------------------- */

typedef struct parsing {
    kiln_arena *arena;
    kiln_vta_program program;
    bool has_config;
    KILN_VEC(kiln_vta_buffer) buffer;
    KILN_VEC(kiln_vta_uop) uop;
    KILN_VEC(kiln_vta_instruction) instruction;
    KILN_VEC(uint32_t) instruction_buffer;
    kiln_vta_sizes sizes;
} parsing;

static kiln_str next_word(kiln_str *rest) {
    kiln_str word = {0};
    while (rest->size && !word.size) word = kiln_str_trim(kiln_str_cut(rest, ' '));
    return word;
}

static kiln_status parse_number(kiln_str name, kiln_str text, int64_t least, int64_t most,
                                int64_t *out_value) {
    if (kiln_str_to_i64(text, out_value) && *out_value >= least && *out_value <= most)
        return KILN_OK;
    return KILN_ERROR(INVALID_ARGUMENT, "%.*s is '%.*s', not a number from %lld to %lld",
                      KILN_STR_ARG(name), KILN_STR_ARG(text), (long long)least, (long long)most);
}

static kiln_status parse_content(parsing *p, kiln_str text, kiln_vta_buffer *b) {
    char *bytes = kiln_arena_alloc(p->arena, text.size / 2 + 1);
    if (text.size != 2 * b->size_bytes)
        return KILN_ERROR(INVALID_ARGUMENT, "%zu digits for %llu bytes", text.size,
                          (unsigned long long)b->size_bytes);
    for (size_t i = 0; i < text.size; i++) {
        const char c = text.data[i];
        const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (digit < 0)
            return KILN_ERROR(INVALID_ARGUMENT, "'%c' is no hexadecimal digit (0-9, a-f)", c);
        bytes[i / 2] = (char)((uint8_t)bytes[i / 2] << 4 | digit);
    }
    b->content = (kiln_str){bytes, text.size / 2};
    return KILN_OK;
}

static uint32_t find_buffer(const parsing *p, kiln_str name) {
    uint32_t i = 0;
    while (i < p->buffer.count && !kiln_str_equal(p->buffer.data[i].name, name)) i++;
    return i;
}

static kiln_status parse_buffer(parsing *p, kiln_str rest) {
    kiln_vta_buffer b = {.name = kiln_str_copy(p->arena, next_word(&rest))};
    kiln_str role = next_word(&rest);
    int64_t bytes = 0;
    while (kiln_vta_role_name(b.role) && !kiln_str_is(role, kiln_vta_role_name(b.role))) b.role++;
    if (!kiln_vta_role_name(b.role) || b.role == KILN_VTA_ROLE_UOPS)
        return KILN_ERROR(INVALID_ARGUMENT, "'%.*s' is not argument, constant or scratch",
                          KILN_STR_ARG(role));
    if (!kiln_vta_name_is_legal(b.name))
        return KILN_ERROR(INVALID_ARGUMENT,
                          "a buffer's name is 1 to %u letters, digits and _, not '%.*s'",
                          KILN_VTA_BUFFER_NAME_MAX, KILN_STR_ARG(b.name));
    if (find_buffer(p, b.name) < p->buffer.count)
        return KILN_ERROR(INVALID_ARGUMENT, "two buffers are called %.*s", KILN_STR_ARG(b.name));
    if (p->buffer.count == KILN_VTA_BUFFERS_MAX)
        return KILN_ERROR(INVALID_ARGUMENT, "more than %u buffers", KILN_VTA_BUFFERS_MAX);
    kiln_status st = parse_number(KILN_STR("its size"), next_word(&rest), 1,
                                  (int64_t)KILN_VTA_DRAM_BYTES_MAX, &bytes);
    b.size_bytes = (uint64_t)bytes;
    kiln_str content = next_word(&rest);
    if (!st && content.size && b.role != KILN_VTA_ROLE_CONSTANT)
        st = KILN_ERROR(INVALID_ARGUMENT, "only constants have contents");
    if (!st && b.role == KILN_VTA_ROLE_CONSTANT) st = parse_content(p, content, &b);
    if (!st) kiln_vec_push_in(p->arena, &p->buffer, b);
    return st;
}

/* "name=value", or a word alone with an empty value. */
static kiln_str cut_value(kiln_str word, kiln_str *out_value) {
    *out_value = word;
    return kiln_str_cut(out_value, '=');
}

static kiln_status parse_uop(parsing *p, kiln_str rest) {
    kiln_vta_uop uop = {0};
    const struct {
        const char *name;
        uint32_t *value, bits;
    } part[] = {{"dst", &uop.dst, p->sizes.acc_bits},
                {"src", &uop.src, p->sizes.src_bits},
                {"wgt", &uop.wgt, p->sizes.wgt_bits}};
    for (kiln_str word; (word = next_word(&rest)).size;) {
        kiln_str text, name = cut_value(word, &text);
        uint32_t i = 0;
        while (i < KILN_ARRAY_COUNT(part) && !kiln_str_is(name, part[i].name)) i++;
        if (i == KILN_ARRAY_COUNT(part))
            return KILN_ERROR(INVALID_ARGUMENT, "a micro-op has dst, src and wgt, no '%.*s'",
                              KILN_STR_ARG(name));
        int64_t value;
        kiln_status st = parse_number(name, text, 0, (INT64_C(1) << part[i].bits) - 1, &value);
        if (st) return st;
        *part[i].value = (uint32_t)value;
    }
    if (p->uop.count == KILN_VTA_UOPS_MAX)
        return KILN_ERROR(INVALID_ARGUMENT, "more than %u micro-ops", KILN_VTA_UOPS_MAX);
    kiln_vec_push_in(p->arena, &p->uop, uop);
    return KILN_OK;
}

static kiln_status parse_field(const kiln_vta_field *f, kiln_str text, uint32_t *out_value) {
    const char *(*const name_of)(uint32_t) = f->kind == KILN_VTA_KIND_MEMORY ? kiln_vta_memory_name
                                             : f->kind == KILN_VTA_KIND_ALU  ? kiln_vta_alu_op_name
                                                                             : NULL;
    if (name_of) {
        for (uint32_t i = 0; name_of(i); i++) {
            if (!kiln_str_is(text, name_of(i))) continue;
            *out_value = i;
            return KILN_OK;
        }
        return KILN_ERROR(INVALID_ARGUMENT, "unknown %s '%.*s'", f->name, KILN_STR_ARG(text));
    }
    int64_t value = 1;
    const bool is_signed = f->kind == KILN_VTA_KIND_SIGNED;
    const int64_t most = (INT64_C(1) << (is_signed ? f->bits - 1 : f->bits)) - 1;
    kiln_status st =
        f->kind == KILN_VTA_KIND_FLAG && !text.size
            ? KILN_OK
            : parse_number(kiln_str_from(f->name), text, is_signed ? -most - 1 : 0, most, &value);
    *out_value = (uint32_t)value;
    return st;
}

static kiln_status parse_word(parsing *p, kiln_str word, kiln_vta_instruction *in,
                              uint32_t *out_buffer) {
    kiln_vta_field table[KILN_VTA_FIELDS_MAX];
    const uint32_t count = kiln_vta_fields(&p->sizes, table);
    kiln_str text, name = cut_value(word, &text);
    if (kiln_str_is(name, "buffer")) {
        *out_buffer = find_buffer(p, text);
        if (*out_buffer < p->buffer.count) return KILN_OK;
        return KILN_ERROR(INVALID_ARGUMENT, "there is no buffer '%.*s'", KILN_STR_ARG(text));
    }
    for (uint32_t i = 0; i < count; i++) {
        const kiln_vta_field *f = &table[i];
        uint32_t value = 0;
        if (!kiln_str_is(name, f->name) || f->offset == offsetof(kiln_vta_instruction, opcode) ||
            !kiln_vta_form_has(kiln_vta_opcode_form(in->opcode), f->form))
            continue;
        kiln_status st = parse_field(f, text, &value);
        if (!st) kiln_vta_field_put(in, f, value);
        return st;
    }
    return KILN_ERROR(INVALID_ARGUMENT, "%s has no '%.*s'", kiln_vta_opcode_name(in->opcode),
                      KILN_STR_ARG(name));
}

static kiln_status parse_instruction(parsing *p, kiln_str opcode, kiln_str rest) {
    kiln_vta_instruction in = {0};
    uint32_t buffer = KILN_VTA_BUFFER_UOPS;
    while (kiln_vta_opcode_name(in.opcode) && !kiln_str_is(opcode, kiln_vta_opcode_name(in.opcode)))
        in.opcode++;
    if (!kiln_vta_opcode_name(in.opcode))
        return KILN_ERROR(INVALID_ARGUMENT, "unknown instruction '%.*s'", KILN_STR_ARG(opcode));
    for (kiln_str word; (word = next_word(&rest)).size;) {
        kiln_status st = parse_word(p, word, &in, &buffer);
        if (st) return st;
    }
    if (p->instruction.count == KILN_VTA_INSTRUCTIONS_MAX)
        return KILN_ERROR(INVALID_ARGUMENT, "more than %u instructions", KILN_VTA_INSTRUCTIONS_MAX);
    kiln_vec_push_in(p->arena, &p->instruction, in);
    kiln_vec_push_in(p->arena, &p->instruction_buffer, buffer);
    return KILN_OK;
}

static kiln_status parse_line(parsing *p, kiln_str line) {
    kiln_str rest = kiln_str_trim(kiln_str_cut(&line, '#'));
    kiln_str word = next_word(&rest);
    if (!word.size) return KILN_OK;
    if (kiln_str_is(word, "config")) {
        if (p->has_config) return KILN_ERROR(INVALID_ARGUMENT, "config is given twice");
        kiln_status st = kiln_vta_config_parse(kiln_str_trim(rest), &p->program.config);
        p->has_config = !st;
        if (!st) p->sizes = kiln_vta_sizes_of(&p->program.config);
        return st;
    }
    if (!p->has_config)
        return KILN_ERROR(INVALID_ARGUMENT, "the first statement is config, as in config pynq");
    if (kiln_str_is(word, "buffer")) return parse_buffer(p, rest);
    if (kiln_str_is(word, "uop")) return parse_uop(p, rest);
    return parse_instruction(p, word, rest);
}

kiln_status kiln_vta_program_parse(kiln_str text, kiln_arena *arena,
                                   kiln_vta_program *out_program) {
    parsing p = {.arena = arena};
    kiln_vec_push_in(arena, &p.buffer,
                     ((kiln_vta_buffer){.name = KILN_STR("uops"), .role = KILN_VTA_ROLE_UOPS}));
    kiln_str rest = text;
    for (uint32_t line = 1; rest.size; line++) {
        kiln_status st = parse_line(&p, kiln_str_cut(&rest, '\n'));
        if (st) return kiln_status_note(st, "line %u", line);
    }
    if (!p.has_config) return KILN_ERROR(INVALID_ARGUMENT, "no config, as in config pynq");
    p.buffer.data[0].size_bytes = 4 * (uint64_t)p.uop.count;
    p.program.buffer_count = p.buffer.count;
    p.program.buffer = p.buffer.data;
    p.program.uop_count = p.uop.count;
    p.program.uop = p.uop.data;
    p.program.instruction_count = p.instruction.count;
    p.program.instruction = p.instruction.data;
    p.program.instruction_buffer = p.instruction_buffer.data;
    if (!kiln_vta_program_fits(&p.program))
        return KILN_ERROR(INVALID_ARGUMENT,
                          "buffers of together more than %llu bytes, a page more for each",
                          (unsigned long long)KILN_VTA_DRAM_BYTES_MAX);
    *out_program = p.program;
    return KILN_OK;
}
