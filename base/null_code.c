#include "base/null_code.h"

#include <string.h>

#include "base/check.h"

#define MAGIC "KILNNULL"
#define MAGIC_BYTES 8
#define NAME_MAX 256

/* The use of an instruction's fields. */
typedef enum form {
    FORM_CONTROL,
    FORM_SET,
    FORM_TYPED,
    FORM_OPERANDS, /* registers a, b, c */
} form;

static const struct op_row {
    const char *name;
    form form;
} op_table[] = {
#define SET(NAME) {#NAME, FORM_SET},
#define CONTROL(NAME) {#NAME, FORM_CONTROL},
#define TYPED(NAME) {#NAME, FORM_TYPED},
#define II(NAME, expression) {#NAME, FORM_OPERANDS},
#define IU(NAME, expression) {#NAME, FORM_OPERANDS},
#define FF(NAME, expression) {#NAME, FORM_OPERANDS},
#define FI(NAME, expression) {#NAME, FORM_OPERANDS},
#include "base/null_ops.def"
#undef SET
#undef CONTROL
#undef TYPED
#undef II
#undef IU
#undef FF
#undef FI
};

const char *kiln_null_op_name(uint32_t op) {
    return op < KILN_ARRAY_COUNT(op_table) ? op_table[op].name : NULL;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static void put(kiln_strbuf *out, uint64_t value, uint32_t bytes) {
    for (uint32_t i = 0; i < bytes; i++) kiln_strbuf_char(out, (char)(value >> 8 * i & 255));
}

static void put_function(const kiln_null_function *f, kiln_strbuf *out) {
    put(out, f->name.size, 4);
    kiln_strbuf_str(out, f->name);
    put(out, f->register_count, 4);
    put(out, f->shared_bytes, 8);
    put(out, f->local_bytes, 8);
    put(out, f->buffer_count, 4);
    put(out, f->instruction_count, 4);
    for (uint32_t i = 0; i < f->buffer_count; i++) {
        const kiln_null_buffer *b = &f->buffer[i];
        put(out, b->place, 1);
        put(out, b->dtype, 1);
        put(out, b->argument, 2);
        put(out, b->offset, 8);
        put(out, b->count, 8);
    }
    for (uint32_t i = 0; i < f->instruction_count; i++) {
        const kiln_null_instruction *in = &f->instruction[i];
        const uint16_t field[] = {in->op, in->a, in->b, in->c, in->d};
        for (uint32_t k = 0; k < KILN_ARRAY_COUNT(field); k++) put(out, field[k], 2);
        put(out, (uint64_t)in->imm, 8);
    }
}

void kiln_null_code_encode(const kiln_null_code *code, kiln_strbuf *out) {
    kiln_strbuf_append(out, MAGIC, MAGIC_BYTES);
    put(out, KILN_NULL_CODE_VERSION, 4);
    put(out, code->function_count, 4);
    for (uint32_t i = 0; i < code->function_count; i++) put_function(&code->function[i], out);
}

typedef struct reader {
    kiln_str rest;
    bool short_of_bytes;
} reader;

static uint64_t get(reader *r, uint32_t bytes) {
    uint64_t value = 0;
    if (r->rest.size < bytes) {
        r->short_of_bytes = true;
        r->rest.size = 0;
        return 0;
    }
    for (uint32_t i = 0; i < bytes; i++) value |= (uint64_t)(uint8_t)r->rest.data[i] << 8 * i;
    r->rest = kiln_str_slice(r->rest, bytes, r->rest.size);
    return value;
}

#define BUFFER_BYTES 20u
#define INSTRUCTION_BYTES 18u

/* Reads a count of items; 0 if the bytes left cannot hold them. */
static uint32_t get_count(reader *r, uint32_t most, uint32_t item_bytes) {
    uint64_t count = get(r, 4);
    if (count > most || count * item_bytes > r->rest.size) {
        r->short_of_bytes = true;
        return 0;
    }
    return (uint32_t)count;
}

static void get_function(reader *r, kiln_arena *arena, kiln_null_function *f) {
    f->name.size = get_count(r, NAME_MAX, 1);
    f->name.data = kiln_str_dup(arena, (kiln_str){r->rest.data, f->name.size});
    r->rest = kiln_str_slice(r->rest, f->name.size, r->rest.size);
    f->register_count = (uint32_t)get(r, 4);
    f->shared_bytes = get(r, 8);
    f->local_bytes = get(r, 8);
    f->buffer_count = get_count(r, KILN_NULL_BUFFERS_MAX, BUFFER_BYTES);
    f->instruction_count = get_count(r, KILN_NULL_INSTRUCTIONS_MAX, INSTRUCTION_BYTES);
    if (r->short_of_bytes) return;
    f->buffer = KILN_ARENA_ARRAY(arena, kiln_null_buffer, f->buffer_count);
    f->instruction = KILN_ARENA_ARRAY(arena, kiln_null_instruction, f->instruction_count);
    for (uint32_t i = 0; i < f->buffer_count; i++) {
        kiln_null_buffer *b = &f->buffer[i];
        b->place = (uint8_t)get(r, 1);
        b->dtype = (uint8_t)get(r, 1);
        b->argument = (uint16_t)get(r, 2);
        b->offset = get(r, 8);
        b->count = get(r, 8);
    }
    for (uint32_t i = 0; i < f->instruction_count; i++) {
        kiln_null_instruction *in = &f->instruction[i];
        in->op = (uint16_t)get(r, 2);
        in->a = (uint16_t)get(r, 2);
        in->b = (uint16_t)get(r, 2);
        in->c = (uint16_t)get(r, 2);
        in->d = (uint16_t)get(r, 2);
        in->imm = (int64_t)get(r, 8);
    }
}

kiln_status kiln_null_code_decode(kiln_str bytes, kiln_arena *arena, kiln_null_code *out_code) {
    reader r = {.rest = bytes};
    kiln_null_code code = {0};
    if (bytes.size < MAGIC_BYTES || memcmp(bytes.data, MAGIC, MAGIC_BYTES) != 0)
        return KILN_ERROR(DATA_LOSS, "it is no byte code of the null device");
    r.rest = kiln_str_slice(bytes, MAGIC_BYTES, bytes.size);
    uint64_t version = get(&r, 4);
    if (version != KILN_NULL_CODE_VERSION)
        return KILN_ERROR(DATA_LOSS, "byte code of version %llu; this is %u",
                          (unsigned long long)version, KILN_NULL_CODE_VERSION);
    code.function_count = get_count(&r, KILN_NULL_FUNCTIONS_MAX, 1);
    code.function = KILN_ARENA_ARRAY(arena, kiln_null_function, code.function_count);
    for (uint32_t i = 0; i < code.function_count && !r.short_of_bytes; i++)
        get_function(&r, arena, &code.function[i]);
    if (r.short_of_bytes || r.rest.size > 0)
        return KILN_ERROR(DATA_LOSS, "the byte code is cut off, or longer than it says");
    kiln_status st = kiln_null_code_check(&code);
    if (!st) *out_code = code;
    return st;
}

/* ---- checks ---------------------------------------------------------------------------------- */

/* A loop or if that encloses the current instruction. */
typedef struct nest {
    bool is_loop;
    uint16_t var;
    int64_t first;
    uint64_t steps_outside; /* steps of the enclosing pass */
} nest;

typedef struct checker {
    const kiln_null_function *f;
    uint32_t at;
    uint32_t depth;
    nest open[KILN_NULL_DEPTH_MAX];
    uint64_t steps; /* of one pass of the innermost loop */
} checker;

static kiln_status wrong(const checker *c, const char *why) {
    return KILN_ERROR(DATA_LOSS, "byte code %.*s, instruction %u: %s", KILN_STR_ARG(c->f->name),
                      c->at, why);
}

static bool is_register(const checker *c, uint32_t number) { return number < c->f->register_count; }

/* Whether an instruction may write the register: not if a loop counts in it. */
static bool may_write(const checker *c, uint32_t number) {
    for (uint32_t i = 0; i < c->depth; i++)
        if (c->open[i].is_loop && c->open[i].var == number) return false;
    return is_register(c, number);
}

static uint64_t saturating_add(uint64_t a, uint64_t b) { return a + b < a ? UINT64_MAX : a + b; }

static uint64_t saturating_multiply(uint64_t a, uint64_t b) {
    return a != 0 && b > UINT64_MAX / a ? UINT64_MAX : a * b;
}

static kiln_status open_nest(checker *c, const kiln_null_instruction *in) {
    bool is_loop = in->op == KILN_NULL_LOOP;
    if (c->depth == KILN_NULL_DEPTH_MAX) return wrong(c, "too many loops and ifs in each other");
    if (is_loop ? !may_write(c, in->a) : !is_register(c, in->a))
        return wrong(c, "its register is no register, or counts another loop");
    c->open[c->depth++] =
        (nest){.is_loop = is_loop, .var = in->a, .first = in->imm, .steps_outside = c->steps};
    c->steps = 0;
    return KILN_OK;
}

static kiln_status close_nest(checker *c, const kiln_null_instruction *in) {
    bool is_loop = in->op == KILN_NULL_LOOP_END;
    if (c->depth == 0 || c->open[c->depth - 1].is_loop != is_loop)
        return wrong(c, "it closes what is not open");
    const nest *open = &c->open[--c->depth];
    if (is_loop && (open->var != in->a || in->imm <= open->first))
        return wrong(c, "it is not the end of its loop");
    uint64_t passes = is_loop ? (uint64_t)in->imm - (uint64_t)open->first : 1;
    /* Also counts a pass without statements. */
    uint64_t steps = saturating_multiply(saturating_add(c->steps, is_loop), passes);
    c->steps = saturating_add(open->steps_outside, steps);
    return KILN_OK;
}

static kiln_status check_memory(checker *c, const kiln_null_instruction *in) {
    bool loads = in->op == KILN_NULL_LOAD;
    if (in->d >= c->f->buffer_count || !is_register(c, in->b) || !is_register(c, in->c) ||
        !(loads ? may_write(c, in->a) : is_register(c, in->a)))
        return wrong(c, "a register or buffer that there is not");
    c->steps = saturating_add(c->steps, !loads);
    return KILN_OK;
}

static kiln_status check_control(checker *c, const kiln_null_instruction *in) {
    switch (in->op) {
    case KILN_NULL_END:
        return c->depth == 0 && c->at + 1 == c->f->instruction_count
                   ? KILN_OK
                   : wrong(c, "END is not the end");
    case KILN_NULL_BARRIER: return KILN_OK;
    case KILN_NULL_LOOP:
    case KILN_NULL_IF:
    case KILN_NULL_IF_NOT: return open_nest(c, in);
    case KILN_NULL_LOOP_END:
    case KILN_NULL_IF_END: return close_nest(c, in);
    case KILN_NULL_LOAD:
    case KILN_NULL_STORE: return check_memory(c, in);
    default: break;
    }
    bool of_width = in->op >= KILN_NULL_SHIFT_LEFT && in->op <= KILN_NULL_SHIFT_RIGHT_UNSIGNED;
    if (of_width && (in->imm < 1 || in->imm > 64)) return wrong(c, "a width that no integer has");
    return may_write(c, in->a) && is_register(c, in->b) && is_register(c, in->c) &&
                   is_register(c, in->d)
               ? KILN_OK
               : wrong(c, "a register that there is not, or that counts a loop");
}

static kiln_status check_instruction(checker *c, const kiln_null_instruction *in) {
    if (in->op >= KILN_NULL_OP_COUNT) return wrong(c, "there is no such instruction");
    enum form kind = op_table[in->op].form;
    if (kind == FORM_CONTROL) return check_control(c, in);
    if (!may_write(c, in->a))
        return wrong(c, "a register that there is not, or that counts a loop");
    if (kind == FORM_SET) return KILN_OK;
    if (!is_register(c, in->b)) return wrong(c, "a register that there is not");
    if (kind == FORM_OPERANDS && !is_register(c, in->c))
        return wrong(c, "a register that there is not");
    if (kind == FORM_TYPED && (in->imm <= KILN_DTYPE_NONE || in->imm >= KILN_DTYPE_COUNT))
        return wrong(c, "no dtype");
    return KILN_OK;
}

/* Whether a buffer lies within the memory that the function requests. */
static bool fits(const kiln_null_buffer *b, uint64_t bytes) {
    uint64_t size = kiln_dtype_size((kiln_dtype)b->dtype);
    return b->offset % size == 0 && b->offset <= bytes && b->count <= (bytes - b->offset) / size;
}

static kiln_status check_function(kiln_null_function *f) {
    checker c = {.f = f};
    kiln_status st = KILN_OK;
    if (f->register_count < KILN_NULL_FIRST_FREE || f->register_count > KILN_NULL_REGISTERS_MAX)
        return wrong(&c, "too few registers, or too many");
    if (f->shared_bytes > KILN_NULL_TEMP_BYTES_MAX || f->local_bytes > KILN_NULL_TEMP_BYTES_MAX)
        return wrong(&c, "too much memory for temps");
    for (uint32_t i = 0; i < f->buffer_count; i++) {
        const kiln_null_buffer *b = &f->buffer[i];
        if (b->dtype <= KILN_DTYPE_NONE || b->dtype >= KILN_DTYPE_COUNT ||
            b->place >= KILN_NULL_PLACE_COUNT)
            return wrong(&c, "a buffer of no dtype or nowhere");
        if (!fits(b, b->place == KILN_NULL_SHARED  ? f->shared_bytes
                     : b->place == KILN_NULL_LOCAL ? f->local_bytes
                                                   : KILN_NULL_TEMP_BYTES_MAX))
            return wrong(&c, "a buffer outside of its memory");
    }
    for (; !st && c.at < f->instruction_count; c.at++)
        st = check_instruction(&c, &f->instruction[c.at]);
    if (st) return st;
    if (f->instruction_count == 0 || f->instruction[f->instruction_count - 1].op != KILN_NULL_END)
        return wrong(&c, "the function does not end");
    f->steps = c.steps;
    return c.steps > KILN_NULL_STEPS_MAX ? wrong(&c, "its loops run for ever") : KILN_OK;
}

kiln_status kiln_null_code_check(kiln_null_code *code) {
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; !st && i < code->function_count; i++)
        st = check_function(&code->function[i]);
    return st;
}

const kiln_null_function *kiln_null_code_find(const kiln_null_code *code, kiln_str name) {
    for (uint32_t i = 0; i < code->function_count; i++)
        if (kiln_str_equal(code->function[i].name, name)) return &code->function[i];
    return NULL;
}

/* ---- text ------------------------------------------------------------------------------------ */

static void print_buffer(const kiln_null_buffer *b, uint32_t index, kiln_strbuf *out) {
    static const char *const place[] = {NULL, "shared", "local"};
    kiln_strbuf_printf(out, "  b%u: %s ", index, kiln_dtype_name((kiln_dtype)b->dtype));
    if (b->place == KILN_NULL_ARGUMENT)
        kiln_strbuf_printf(out, "argument %u", b->argument);
    else
        kiln_strbuf_text(out, place[b->place]);
    if (b->place != KILN_NULL_ARGUMENT || b->offset > 0)
        kiln_strbuf_printf(out, " + %llu", (unsigned long long)b->offset);
    kiln_strbuf_printf(out, ", %llu elements\n", (unsigned long long)b->count);
}

static void print_control(const kiln_null_instruction *in, kiln_strbuf *out) {
    const long long imm = in->imm;
    switch (in->op) {
    case KILN_NULL_LOOP: kiln_strbuf_printf(out, " r%u from %lld", in->a, imm); break;
    case KILN_NULL_LOOP_END: kiln_strbuf_printf(out, " r%u to %lld", in->a, imm); break;
    case KILN_NULL_IF:
    case KILN_NULL_IF_NOT: kiln_strbuf_printf(out, " r%u", in->a); break;
    case KILN_NULL_LOAD:
        kiln_strbuf_printf(out, " r%u = b%u[r%u + r%u * %lld]", in->a, in->d, in->b, in->c, imm);
        break;
    case KILN_NULL_STORE:
        kiln_strbuf_printf(out, " b%u[r%u + r%u * %lld] = r%u", in->d, in->b, in->c, imm, in->a);
        break;
    case KILN_NULL_ADDRESS:
        kiln_strbuf_printf(out, " r%u = r%u + r%u * %lld", in->a, in->b, in->c, imm);
        break;
    case KILN_NULL_SELECT:
    case KILN_NULL_MULTIPLY_ADD:
        kiln_strbuf_printf(out, " r%u = r%u, r%u, r%u", in->a, in->b, in->c, in->d);
        break;
    case KILN_NULL_SHIFT_LEFT:
    case KILN_NULL_SHIFT_RIGHT:
    case KILN_NULL_SHIFT_RIGHT_UNSIGNED:
        kiln_strbuf_printf(out, " r%u = r%u, r%u of %lld bits", in->a, in->b, in->c, imm);
        break;
    case KILN_NULL_TO_FLOAT:
    case KILN_NULL_TO_FLOAT_UNSIGNED: kiln_strbuf_printf(out, " r%u = r%u", in->a, in->b); break;
    default: break;
    }
}

static void print_instruction(const kiln_null_instruction *in, kiln_strbuf *out) {
    const struct op_row *op = &op_table[in->op];
    double value;
    kiln_strbuf_text(out, op->name);
    switch (op->form) {
    case FORM_CONTROL: print_control(in, out); break;
    case FORM_SET:
        memcpy(&value, &in->imm, sizeof value);
        kiln_strbuf_printf(out, " r%u = %lld (%.9g)", in->a, (long long)in->imm, value);
        break;
    case FORM_TYPED:
        kiln_strbuf_printf(out, " r%u = r%u to %s", in->a, in->b,
                           kiln_dtype_name((kiln_dtype)in->imm));
        break;
    case FORM_OPERANDS: kiln_strbuf_printf(out, " r%u = r%u, r%u", in->a, in->b, in->c); break;
    }
    kiln_strbuf_char(out, '\n');
}

static void print_function(const kiln_null_function *f, kiln_strbuf *out) {
    kiln_strbuf_printf(out, "%.*s: %u registers, %llu bytes shared, %llu local\n",
                       KILN_STR_ARG(f->name), f->register_count,
                       (unsigned long long)f->shared_bytes, (unsigned long long)f->local_bytes);
    for (uint32_t i = 0; i < f->buffer_count; i++) print_buffer(&f->buffer[i], i, out);
    uint32_t depth = 1;
    for (uint32_t i = 0; i < f->instruction_count; i++) {
        uint32_t op = f->instruction[i].op;
        depth -= op == KILN_NULL_LOOP_END || op == KILN_NULL_IF_END;
        for (uint32_t k = 0; k < depth; k++) kiln_strbuf_text(out, "  ");
        print_instruction(&f->instruction[i], out);
        depth += op == KILN_NULL_LOOP || op == KILN_NULL_IF || op == KILN_NULL_IF_NOT;
    }
}

void kiln_null_code_print(const kiln_null_code *code, kiln_strbuf *out) {
    for (uint32_t i = 0; i < code->function_count; i++) print_function(&code->function[i], out);
}
