#include "vta/program.h"

#include <string.h>

#include "base/macros.h"

#define MAGIC "KILNVTA\n"
#define MAGIC_BYTES 8u

static const char *const role_table[] = {[KILN_VTA_ROLE_UOPS] = "uops",
                                         [KILN_VTA_ROLE_ARGUMENT] = "argument",
                                         [KILN_VTA_ROLE_CONSTANT] = "constant",
                                         [KILN_VTA_ROLE_SCRATCH] = "scratch"};

const char *kiln_vta_role_name(uint32_t role) {
    return role < KILN_VTA_ROLE_COUNT ? role_table[role] : NULL;
}

bool kiln_vta_name_is_legal(kiln_str name) {
    for (size_t i = 0; i < name.size; i++) {
        const char c = name.data[i];
        if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') &&
            c != '_')
            return false;
    }
    return name.size > 0 && name.size <= KILN_VTA_BUFFER_NAME_MAX;
}

/* ---- what is legal --------------------------------------------------------------------------- */

#define FAULT(kind, ...) kiln_vta_fault_set(out_fault, KILN_VTA_FAULT_##kind, index, __VA_ARGS__)

uint64_t kiln_vta_program_stream_bytes(const kiln_vta_program *program) {
    return (uint64_t)program->instruction_count * KILN_VTA_INSTRUCTION_BYTES +
           4 * (uint64_t)program->uop_count;
}

uint32_t kiln_vta_program_run_length(const kiln_vta_program *program, uint32_t index) {
    uint32_t count = 1;
    while (program->instruction[index + count - 1].chain) count++;
    return count;
}

/* Whether two instructions of the ALU use the same tiles. */
static bool same_loops(const kiln_vta_instruction *a, const kiln_vta_instruction *b) {
    return b->opcode == KILN_VTA_ALU && a->uop_bgn == b->uop_bgn && a->uop_end == b->uop_end &&
           a->iter_out == b->iter_out && a->iter_in == b->iter_in && a->dst_out == b->dst_out &&
           a->dst_in == b->dst_in && a->src_out == b->src_out && a->src_in == b->src_in;
}

static bool check_chain(const kiln_vta_program *program, uint32_t index,
                        kiln_vta_fault *out_fault) {
    const kiln_vta_instruction *in = &program->instruction[index];
    if (!in->chain) return true;
    uint32_t length = 1; /* back to the chain's begin */
    for (uint32_t i = index; i > 0 && program->instruction[i - 1].chain; i--) length++;
    if (length == KILN_VTA_CHAIN_MAX) return FAULT(CHAIN, "five instructions");
    if (index + 1 == program->instruction_count || !same_loops(in, in + 1))
        return FAULT(CHAIN, "the next instruction is no alu with the same loops");
    if (in->push_prev || in->push_next || in[1].pop_prev || in[1].pop_next)
        return FAULT(CHAIN, "tokens are taken by its first and given by its last instruction");
    return true;
}

static bool check_buffer(const kiln_vta_program *program, const kiln_vta_sizes *sizes,
                         uint32_t index, kiln_vta_fault *out_fault) {
    const kiln_vta_instruction *in = &program->instruction[index];
    const uint32_t number = program->instruction_buffer[index];
    if (number >= program->buffer_count)
        return FAULT(BUFFER_RANGE, "there is no buffer %u", number);
    if (in->opcode != KILN_VTA_LOAD && in->opcode != KILN_VTA_STORE) return true;
    if (in->x_size == 0 || in->y_size == 0) return true;
    const kiln_vta_buffer *buffer = &program->buffer[number];
    if ((in->memory == KILN_VTA_UOP) != (number == KILN_VTA_BUFFER_UOPS))
        return FAULT(BUFFER_RANGE, "micro-ops are loaded from their buffer, and nothing else is");
    if (in->opcode == KILN_VTA_STORE && buffer->role != KILN_VTA_ROLE_ARGUMENT &&
        buffer->role != KILN_VTA_ROLE_SCRATCH)
        return FAULT(CONSTANT, "%.*s", KILN_STR_ARG(buffer->name));
    const uint64_t end = (in->dram_base + (uint64_t)(in->y_size - 1) * in->x_stride + in->x_size) *
                         sizes->tile_bytes[in->memory];
    if (end > buffer->size_bytes)
        return FAULT(BUFFER_RANGE, "up to byte %llu of %.*s, which has %llu",
                     (unsigned long long)end, KILN_STR_ARG(buffer->name),
                     (unsigned long long)buffer->size_bytes);
    return true;
}

bool kiln_vta_program_check(const kiln_vta_program *program, kiln_vta_fault *out_fault) {
    const kiln_vta_sizes sizes = kiln_vta_sizes_of(&program->config);
    const uint32_t last = program->instruction_count - 1;
    for (uint32_t index = 0; index < program->instruction_count; index++) {
        const kiln_vta_instruction *in = &program->instruction[index];
        if (!kiln_vta_instruction_check(&program->config, in, index, out_fault)) return false;
        if (!check_chain(program, index, out_fault)) return false;
        if (!check_buffer(program, &sizes, index, out_fault)) return false;
        if ((in->opcode == KILN_VTA_FINISH) != (index == last))
            return FAULT(NO_FINISH, "%u instructions", program->instruction_count);
    }
    if (program->instruction_count == 0)
        return kiln_vta_fault_set(out_fault, KILN_VTA_FAULT_NO_FINISH, 0, "no instructions");
    return true;
}

/* ---- main memory ----------------------------------------------------------------------------- */

bool kiln_vta_program_fits(const kiln_vta_program *program) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < program->buffer_count && bytes <= KILN_VTA_DRAM_BYTES_MAX; i++)
        bytes +=
            KILN_MIN(program->buffer[i].size_bytes, KILN_VTA_DRAM_BYTES_MAX) + KILN_VTA_PAGE_BYTES;
    return bytes <= KILN_VTA_DRAM_BYTES_MAX;
}

uint64_t kiln_vta_program_place(const kiln_vta_program *program, uint64_t *out_place) {
    uint64_t end = 0;
    for (uint32_t i = 0; i < program->buffer_count; i++) {
        out_place[i] = end;
        end += (program->buffer[i].size_bytes + KILN_VTA_PAGE_BYTES - 1) / KILN_VTA_PAGE_BYTES *
               KILN_VTA_PAGE_BYTES;
    }
    return end;
}

static void put_u32(uint8_t *to, uint32_t value) {
    for (uint32_t i = 0; i < 4; i++) to[i] = (uint8_t)(value >> 8 * i);
}

void kiln_vta_program_fill(const kiln_vta_program *program, const uint64_t *place, uint8_t *dram) {
    const kiln_vta_sizes sizes = kiln_vta_sizes_of(&program->config);
    for (uint32_t i = 0; i < program->uop_count; i++)
        put_u32(dram + place[KILN_VTA_BUFFER_UOPS] + 4 * (uint64_t)i,
                kiln_vta_uop_encode(&sizes, program->uop[i]));
    for (uint32_t i = 0; i < program->buffer_count; i++)
        if (program->buffer[i].content.size)
            memcpy(dram + place[i], program->buffer[i].content.data,
                   program->buffer[i].content.size);
}

kiln_vta_instruction kiln_vta_program_placed(const kiln_vta_program *program,
                                             const kiln_vta_sizes *sizes, const uint64_t *place,
                                             uint32_t index) {
    kiln_vta_instruction in = program->instruction[index];
    if (in.opcode == KILN_VTA_LOAD || in.opcode == KILN_VTA_STORE)
        in.dram_base +=
            (uint32_t)(place[program->instruction_buffer[index]] / sizes->tile_bytes[in.memory]);
    return in;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static void put(kiln_strbuf *out, uint64_t value, uint32_t bytes) {
    for (uint32_t i = 0; i < bytes; i++) kiln_strbuf_char(out, (char)(value >> 8 * i & 255));
}

void kiln_vta_program_encode(const kiln_vta_program *program, kiln_strbuf *out) {
    const kiln_vta_sizes sizes = kiln_vta_sizes_of(&program->config);
    kiln_strbuf config = {0};
    kiln_vta_config_print(&program->config, &config);
    kiln_strbuf_append(out, MAGIC, MAGIC_BYTES);
    put(out, KILN_VTA_PROGRAM_VERSION, 4);
    put(out, config.size, 4);
    kiln_strbuf_str(out, kiln_strbuf_view(&config));
    kiln_strbuf_deinit(&config);
    put(out, program->buffer_count, 4);
    put(out, program->uop_count, 4);
    put(out, program->instruction_count, 4);
    for (uint32_t i = 0; i < program->buffer_count; i++) {
        const kiln_vta_buffer *b = &program->buffer[i];
        put(out, b->name.size, 4);
        kiln_strbuf_str(out, b->name);
        put(out, b->role, 4);
        put(out, b->size_bytes, 8);
        if (b->role == KILN_VTA_ROLE_CONSTANT) kiln_strbuf_str(out, b->content);
    }
    for (uint32_t i = 0; i < program->uop_count; i++)
        put(out, kiln_vta_uop_encode(&sizes, program->uop[i]), 4);
    for (uint32_t i = 0; i < program->instruction_count; i++) {
        uint8_t bytes[KILN_VTA_INSTRUCTION_BYTES];
        kiln_vta_instruction_encode(&program->config, &program->instruction[i], bytes);
        kiln_strbuf_append(out, bytes, sizeof bytes);
        put(out, program->instruction_buffer[i], 4);
    }
}

typedef struct reader {
    kiln_str rest;
    bool is_short; /* of bytes */
} reader;

static kiln_str take(reader *r, uint64_t bytes) {
    if (r->rest.size < bytes) {
        r->is_short = true;
        r->rest.size = 0;
        bytes = 0;
    }
    kiln_str taken = kiln_str_slice(r->rest, 0, (size_t)bytes);
    r->rest = kiln_str_slice(r->rest, (size_t)bytes, r->rest.size);
    return taken;
}

static uint64_t get(reader *r, uint32_t bytes) {
    kiln_str taken = take(r, bytes);
    uint64_t value = 0;
    for (size_t i = 0; i < taken.size; i++) value |= (uint64_t)(uint8_t)taken.data[i] << 8 * i;
    return value;
}

/* A count of items that must fit into the remaining bytes; 0 if they do not. */
static uint32_t get_count(reader *r, uint32_t most, uint32_t item_bytes) {
    const uint64_t count = get(r, 4);
    if (count <= most && count * item_bytes <= r->rest.size) return (uint32_t)count;
    r->is_short = true;
    return 0;
}

/* Checks the list of buffers against the rules in the header. */
static kiln_status check_buffers(const kiln_vta_program *p) {
    if (p->buffer_count == 0 || p->buffer[0].size_bytes != 4 * (uint64_t)p->uop_count ||
        !kiln_str_is(p->buffer[0].name, kiln_vta_role_name(KILN_VTA_ROLE_UOPS)))
        return KILN_ERROR(DATA_LOSS, "the first buffer is not that of the micro-ops");
    for (uint32_t i = 0; i < p->buffer_count; i++) {
        const kiln_vta_buffer *b = &p->buffer[i];
        if (!kiln_vta_name_is_legal(b->name))
            return KILN_ERROR(DATA_LOSS, "buffer %u has no legal name", i);
        if (b->role >= KILN_VTA_ROLE_COUNT || (b->role == KILN_VTA_ROLE_UOPS) != (i == 0))
            return KILN_ERROR(DATA_LOSS, "buffer %u has the role %u", i, b->role);
        if (i > 0 && b->size_bytes == 0) return KILN_ERROR(DATA_LOSS, "buffer %u is empty", i);
        for (uint32_t k = 0; k < i; k++)
            if (kiln_str_equal(b->name, p->buffer[k].name))
                return KILN_ERROR(DATA_LOSS, "two buffers are called %.*s", KILN_STR_ARG(b->name));
    }
    if (kiln_vta_program_fits(p)) return KILN_OK;
    return KILN_ERROR(DATA_LOSS, "buffers of more than %llu bytes",
                      (unsigned long long)KILN_VTA_DRAM_BYTES_MAX);
}

#define BUFFER_BYTES 16u

static void get_buffers(reader *r, kiln_vta_program *p) {
    for (uint32_t i = 0; i < p->buffer_count && !r->is_short; i++) {
        kiln_vta_buffer *b = &p->buffer[i];
        b->name = take(r, get_count(r, KILN_VTA_BUFFER_NAME_MAX, 1));
        b->role = (uint32_t)get(r, 4);
        b->size_bytes = get(r, 8);
        if (b->role == KILN_VTA_ROLE_CONSTANT) b->content = take(r, b->size_bytes);
    }
}

static kiln_status get_code(reader *r, kiln_vta_program *p) {
    const kiln_vta_sizes sizes = kiln_vta_sizes_of(&p->config);
    kiln_vta_fault fault = {0};
    for (uint32_t i = 0; i < p->uop_count && !r->is_short; i++)
        if (!kiln_vta_uop_decode(&sizes, (uint32_t)get(r, 4), i, &p->uop[i], &fault))
            return KILN_ERROR(DATA_LOSS, "%s", fault.text);
    for (uint32_t i = 0; i < p->instruction_count && !r->is_short; i++) {
        kiln_str bytes = take(r, KILN_VTA_INSTRUCTION_BYTES);
        p->instruction_buffer[i] = (uint32_t)get(r, 4);
        if (!r->is_short && !kiln_vta_instruction_decode(&p->config, (const uint8_t *)bytes.data,
                                                         &p->instruction[i], &fault))
            return KILN_ERROR(DATA_LOSS, "instruction %u: %s", i, fault.text);
    }
    return KILN_OK;
}

kiln_status kiln_vta_program_decode(kiln_str bytes, kiln_arena *arena,
                                    kiln_vta_program *out_program) {
    kiln_vta_program p = {0};
    reader r = {bytes, false};
    if (!kiln_str_equal(take(&r, MAGIC_BYTES), KILN_STR(MAGIC)))
        return KILN_ERROR(DATA_LOSS, "not a program for a vta");
    const uint64_t version = get(&r, 4);
    if (version != KILN_VTA_PROGRAM_VERSION)
        return KILN_ERROR(DATA_LOSS, "a program of version %llu; this is version %u",
                          (unsigned long long)version, KILN_VTA_PROGRAM_VERSION);
    kiln_status st = kiln_vta_config_parse(take(&r, get_count(&r, 512, 1)), &p.config);
    if (st) {
        kiln_status lost = KILN_ERROR(DATA_LOSS, "the program's machine: %s", kiln_status_text(st));
        kiln_status_free(st);
        return lost;
    }
    p.buffer_count = get_count(&r, KILN_VTA_BUFFERS_MAX, BUFFER_BYTES);
    p.uop_count = get_count(&r, KILN_VTA_UOPS_MAX, 4);
    p.instruction_count = get_count(&r, KILN_VTA_INSTRUCTIONS_MAX, KILN_VTA_INSTRUCTION_BYTES);
    p.buffer = KILN_ARENA_ARRAY(arena, kiln_vta_buffer, p.buffer_count);
    p.uop = KILN_ARENA_ARRAY(arena, kiln_vta_uop, p.uop_count);
    p.instruction = KILN_ARENA_ARRAY(arena, kiln_vta_instruction, p.instruction_count);
    p.instruction_buffer = KILN_ARENA_ARRAY(arena, uint32_t, p.instruction_count);
    get_buffers(&r, &p);
    st = get_code(&r, &p);
    if (st) return st;
    if (r.is_short) return KILN_ERROR(DATA_LOSS, "the program is cut off");
    if (r.rest.size) return KILN_ERROR(DATA_LOSS, "%zu bytes behind the program", r.rest.size);
    st = check_buffers(&p);
    if (st) return st;
    kiln_vta_fault fault;
    if (!kiln_vta_program_check(&p, &fault))
        return KILN_ERROR(DATA_LOSS, "instruction %u: %s", fault.instruction, fault.text);
    *out_program = p;
    return KILN_OK;
}
