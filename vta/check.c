#include "vta/check.h"

#include <string.h>

#include "base/vec.h"
#include "vta/csim.h"
#include "vta/queue.h"

/* Number of steps of each engine that have happened before. */
typedef struct clocks {
    uint32_t steps[KILN_VTA_ENGINE_COUNT];
} clocks;

/* The last uses of a tile, or of the bytes of a tile in main memory. Steps are counted from 1; 0:
 * none. */
typedef struct use {
    uint32_t written;                     /* the step of its writer */
    uint8_t writer;                       /* an engine */
    bool is_unread;                       /* a result that was not read */
    uint32_t read[KILN_VTA_ENGINE_COUNT]; /* the last step of each engine that read it */
    uint64_t cycle; /* of ACC: the cycle in which its writer's loops wrote it, from their
                     * beginning */
} use;

typedef struct checking {
    const kiln_vta_program *program;
    const kiln_vta_config *config;
    kiln_vta_sizes sizes;
    kiln_vta_queues queues;
    uint32_t done[KILN_VTA_ENGINE_COUNT];
    bool ran[KILN_VTA_ENGINE_COUNT];
    clocks now[KILN_VTA_ENGINE_COUNT]; /* before the engine's next step, or during it */
    struct {
        KILN_VEC(clocks) all; /* the clocks at which each token was given */
        uint32_t begin;
    } tokens[KILN_VTA_ENGINE_COUNT][2];
    kiln_vta_uop *uop;           /* contents of the machine's memory */
    use *tile[KILN_VTA_ACC + 1]; /* of UOP, WGT, INP, ACC */
    use **bytes;                 /* of each buffer that is stored to; NULL of others */
    uint32_t byte_unit;          /* bytes of such a use */
    kiln_arena *arena;
    kiln_vta_fault *out_fault;
} checking;

/* The step that is being followed. */
typedef struct step {
    checking *c;
    uint32_t engine, number; /* from 1 on */
    uint32_t index;          /* of its instruction */
    const kiln_vta_instruction *in;
    uint32_t count; /* of a chain */
} step;

#define MAIN_MEMORY KILN_VTA_MEMORY_COUNT /* in addition to the machine's memories */
#define FAULT(kind, ...) \
    kiln_vta_fault_set(s->c->out_fault, KILN_VTA_FAULT_##kind, s->index, __VA_ARGS__)

/* ---- one place ------------------------------------------------------------------------------- */

static bool is_ordered(const step *s, uint32_t engine, uint32_t number) {
    return engine == s->engine || s->c->now[s->engine].steps[engine] >= number;
}

static const char *memory_name(uint32_t memory) {
    return memory == MAIN_MEMORY ? "byte" : kiln_vta_memory_name(memory);
}

static bool hazard(const step *s, uint32_t engine, uint32_t number, uint32_t memory,
                   uint32_t place) {
    return FAULT(HAZARD, "%s %u, also used by instruction %u of %s without a token between",
                 memory_name(memory), place, s->c->queues.step[engine][number - 1].first,
                 kiln_vta_engine_name((kiln_vta_engine)engine));
}

static inline bool was_written_here(const step *s, const use *u) {
    return u->written == s->number && u->writer == s->engine;
}

/* Loops use a place many times, without another engine in between: only the first use is
 * checked. */
static inline bool read_place(const step *s, use *u, uint32_t memory, uint32_t place) {
    u->is_unread = false;
    if (u->read[s->engine] == s->number) return true;
    if (u->written && !is_ordered(s, u->writer, u->written))
        return hazard(s, u->writer, u->written, memory, place);
    u->read[s->engine] = s->number;
    return true;
}

static inline bool write_place(const step *s, use *u, uint32_t memory, uint32_t place) {
    if (was_written_here(s, u)) return true;
    if (u->written && !is_ordered(s, u->writer, u->written))
        return hazard(s, u->writer, u->written, memory, place);
    for (uint32_t e = 0; e < KILN_VTA_ENGINE_COUNT; e++)
        if (u->read[e] && !is_ordered(s, e, u->read[e]))
            return hazard(s, e, u->read[e], memory, place);
    u->writer = (uint8_t)s->engine;
    u->written = s->number;
    return true;
}

static inline bool check_index(const step *s, uint32_t memory, uint32_t tile) {
    if (tile < s->c->sizes.tile_count[memory]) return true;
    return FAULT(INDEX, "tile %u of %s, which has %u", tile, kiln_vta_memory_name(memory),
                 s->c->sizes.tile_count[memory]);
}

static inline bool read_tile(const step *s, uint32_t memory, uint32_t tile) {
    if (!check_index(s, memory, tile)) return false;
    use *u = &s->c->tile[memory][tile];
    if (!u->written)
        return FAULT(UNINITIALISED, "tile %u of %s", tile, kiln_vta_memory_name(memory));
    return read_place(s, u, memory, tile);
}

/* `over`: the old value is lost; `result`: the new value should be read later. */
static inline bool write_tile(const step *s, uint32_t memory, uint32_t tile, bool over,
                              bool result) {
    if (!check_index(s, memory, tile)) return false;
    use *u = &s->c->tile[memory][tile];
    if (over && u->is_unread)
        return FAULT(ACC_UNSTORED, "tile %u of %s", tile, kiln_vta_memory_name(memory));
    if (!write_place(s, u, memory, tile)) return false;
    u->is_unread = result;
    return true;
}

/* ---- instructions ---------------------------------------------------------------------------- */

static bool follow_bytes(const step *s, uint32_t y) {
    const kiln_vta_instruction *in = s->in;
    const uint32_t number = s->c->program->instruction_buffer[s->index];
    const kiln_vta_buffer *buffer = &s->c->program->buffer[number];
    use *all = s->c->bytes[number];
    if (!all) return true; /* the buffer is never stored to */
    const uint64_t tile_bytes = s->c->sizes.tile_bytes[in->memory], unit = s->c->byte_unit;
    const uint64_t from = (in->dram_base + (uint64_t)y * in->x_stride) * tile_bytes / unit;
    for (uint64_t i = from; i < from + in->x_size * tile_bytes / unit; i++) {
        const uint32_t place = (uint32_t)(i * unit);
        if (in->opcode == KILN_VTA_STORE) {
            if (!write_place(s, &all[i], MAIN_MEMORY, place)) return false;
            continue;
        }
        if (buffer->role == KILN_VTA_ROLE_SCRATCH && !all[i].written)
            return FAULT(UNINITIALISED, "byte %u of %.*s", place, KILN_STR_ARG(buffer->name));
        if (!read_place(s, &all[i], MAIN_MEMORY, place)) return false;
    }
    return true;
}

static bool follow_memory(const step *s) {
    const kiln_vta_instruction *in = s->in;
    if (in->x_size == 0) return true;
    const uint32_t columns = in->x_pad_0 + in->x_size + in->x_pad_1;
    const uint32_t rows = in->y_pad_0 + in->y_size + in->y_pad_1;
    const bool is_acc = in->memory >= KILN_VTA_ACC;
    const uint32_t memory = is_acc ? KILN_VTA_ACC : in->memory;
    for (uint32_t row = 0, tile = in->sram_base; row < rows; row++) {
        const uint32_t y = row - in->y_pad_0; /* of main memory, where it is below y_size */
        for (uint32_t column = 0; column < columns; column++, tile++) {
            const uint32_t x = column - in->x_pad_0;
            if (in->opcode == KILN_VTA_STORE) {
                if (!read_tile(s, memory, tile)) return false;
                continue;
            }
            if (!write_tile(s, memory, tile, true, false)) return false;
            if (memory == KILN_VTA_UOP)
                s->c->uop[tile] =
                    y < in->y_size && x < in->x_size
                        ? s->c->program->uop[in->dram_base + (uint64_t)y * in->x_stride + x]
                        : (kiln_vta_uop){0};
        }
        if (y < in->y_size && !follow_bytes(s, y)) return false;
    }
    return true;
}

/* Checks a read, `cycle` cycles after the loops began: a value that they wrote less than `drain`
 * cycles before is not available yet. */
static inline bool check_distance(const step *s, uint32_t tile, uint64_t cycle, uint32_t drain) {
    const use *u = &s->c->tile[KILN_VTA_ACC][tile];
    if (!was_written_here(s, u) || cycle - u->cycle >= drain) return true;
    return FAULT(ACC_DISTANCE, "tile %u after %llu cycles; it is written after %u", tile,
                 (unsigned long long)(cycle - u->cycle), drain);
}

static inline bool write_result(const step *s, uint32_t tile, bool over, uint64_t cycle) {
    if (!write_tile(s, KILN_VTA_ACC, tile, over, !s->in->reset)) return false;
    s->c->tile[KILN_VTA_ACC][tile].cycle = cycle;
    return true;
}

/* Follows the inputs and weights of all rounds. Equal rounds are followed once. */
static bool follow_factors(const step *s) {
    const kiln_vta_instruction *in = s->in;
    const uint32_t src_out = in->src_out ? in->iter_out : 1, src_in = in->src_in ? in->iter_in : 1;
    const uint32_t wgt_out = in->wgt_out ? in->iter_out : 1, wgt_in = in->wgt_in ? in->iter_in : 1;
    for (uint32_t k = in->uop_bgn; k < in->uop_end; k++) {
        const kiln_vta_uop uop = s->c->uop[k];
        for (uint32_t i = 0; i < src_out; i++)
            for (uint32_t j = 0; j < src_in; j++)
                if (!read_tile(s, KILN_VTA_INP, uop.src + i * in->src_out + j * in->src_in))
                    return false;
        for (uint32_t i = 0; i < wgt_out; i++)
            for (uint32_t j = 0; j < wgt_in; j++)
                if (!read_tile(s, KILN_VTA_WGT, uop.wgt + i * in->wgt_out + j * in->wgt_in))
                    return false;
    }
    return true;
}

static inline bool follow_sum(const step *s, uint32_t dst, bool overwrite, uint64_t cycle) {
    if (!check_index(s, KILN_VTA_ACC, dst)) return false;
    if (!overwrite && (!check_distance(s, dst, cycle, s->c->config->pipeline) ||
                       !read_tile(s, KILN_VTA_ACC, dst)))
        return false;
    const use *u = &s->c->tile[KILN_VTA_ACC][dst];
    if (overwrite && s->in->first && was_written_here(s, u))
        return FAULT(FIRST_TWICE, "tile %u", dst);
    return write_result(s, dst, overwrite, cycle);
}

static bool follow_alu(const step *s, uint32_t dst, uint32_t src, uint64_t cycle) {
    const uint32_t drain = KILN_VTA_ALU_PIPELINE + s->count - 1;
    bool reads_source = false;
    for (uint32_t i = 0; i < s->count; i++) reads_source |= !s->in[i].use_imm;
    if (!read_tile(s, KILN_VTA_ACC, dst) || !check_distance(s, dst, cycle, drain)) return false;
    if (reads_source && (!read_tile(s, KILN_VTA_ACC, src) || !check_distance(s, src, cycle, drain)))
        return false;
    return write_result(s, dst, false, cycle);
}

static bool follow_loops(const step *s) {
    const kiln_vta_instruction *in = s->in;
    const kiln_vta_config *config = s->c->config;
    const uint32_t elements = config->batch * config->block_out;
    const uint64_t tile_cycles =
        in->opcode == KILN_VTA_GEMM
            ? 1
            : (uint64_t)((elements + config->alu_lanes - 1) / config->alu_lanes) *
                  config->alu_cycles;
    uint64_t cycle = 0;
    for (uint32_t k = in->uop_bgn; k < in->uop_end; k++)
        if (!read_tile(s, KILN_VTA_UOP, k)) return false;
    if (in->opcode == KILN_VTA_GEMM && !in->reset && !follow_factors(s)) return false;
    for (uint32_t i = 0; i < in->iter_out; i++)
        for (uint32_t j = 0; j < in->iter_in; j++) {
            const bool first = in->first && (in->dst_out || i == 0) && (in->dst_in || j == 0);
            const uint32_t dst = i * in->dst_out + j * in->dst_in;
            const uint32_t src = i * in->src_out + j * in->src_in;
            for (uint32_t k = in->uop_bgn; k < in->uop_end; k++, cycle += tile_cycles) {
                const kiln_vta_uop *at = &s->c->uop[k];
                const bool ok = in->opcode == KILN_VTA_GEMM
                                    ? follow_sum(s, at->dst + dst, in->reset || first, cycle)
                                    : follow_alu(s, at->dst + dst, at->src + src, cycle);
                if (!ok) return false;
            }
        }
    return true;
}

/* FINISH comes after everything. */
static bool follow_finish(const step *s) {
    for (uint32_t e = 0; e < KILN_VTA_ENGINE_COUNT; e++)
        if (e != s->engine && s->c->now[s->engine].steps[e] < s->c->queues.count[e])
            return FAULT(FINISH_EARLY, "the last instruction of %s is not waited for",
                         kiln_vta_engine_name((kiln_vta_engine)e));
    return true;
}

/* ---- order ----------------------------------------------------------------------------------- */

static void join(clocks *to, const clocks *from) {
    for (uint32_t e = 0; e < KILN_VTA_ENGINE_COUNT; e++)
        if (from->steps[e] > to->steps[e]) to->steps[e] = from->steps[e];
}

static void take_tokens(checking *c, uint32_t e, const kiln_vta_step *of) {
    for (uint32_t side = 0; side < 2; side++)
        if (of->pop[side])
            join(&c->now[e], &c->tokens[e][side].all.data[c->tokens[e][side].begin++]);
}

static bool can_go_on(const checking *c, uint32_t e) {
    if (c->done[e] == c->queues.count[e]) return false;
    const kiln_vta_step *of = &c->queues.step[e][c->done[e]];
    for (uint32_t side = 0; side < 2; side++) {
        const uint32_t there = c->tokens[e][side].all.count - c->tokens[e][side].begin;
        if (!c->ran[e] && of->pop[side] && there == 0) return false;
        if (!c->ran[e] || !of->push[side]) continue;
        const uint32_t other = c->queues.neighbour[e][side];
        const uint32_t given =
            c->tokens[other][1 - side].all.count - c->tokens[other][1 - side].begin;
        if (given >= c->config->tokens) return false;
    }
    return true;
}

static bool run_step(checking *c, uint32_t e) {
    const kiln_vta_step *of = &c->queues.step[e][c->done[e]];
    const step followed = {
        c, e, c->done[e] + 1, of->first, &c->program->instruction[of->first], of->count};
    take_tokens(c, e, of);
    c->ran[e] = true;
    switch ((kiln_vta_opcode)followed.in->opcode) {
    case KILN_VTA_LOAD:
    case KILN_VTA_STORE: return follow_memory(&followed);
    case KILN_VTA_GEMM:
    case KILN_VTA_ALU: return follow_loops(&followed);
    case KILN_VTA_FINISH: return follow_finish(&followed);
    case KILN_VTA_OPCODE_COUNT: break;
    }
    return true;
}

static void give_tokens(checking *c, uint32_t e) {
    const kiln_vta_step *of = &c->queues.step[e][c->done[e]];
    c->ran[e] = false;
    c->now[e].steps[e] = ++c->done[e];
    for (uint32_t side = 0; side < 2; side++)
        if (of->push[side])
            kiln_vec_push_in(c->arena, &c->tokens[c->queues.neighbour[e][side]][1 - side].all,
                             c->now[e]);
}

static bool run_all(checking *c) {
    for (uint32_t e = 0; e < KILN_VTA_ENGINE_COUNT;) {
        if (!can_go_on(c, e)) {
            e++;
            continue;
        }
        if (c->ran[e])
            give_tokens(c, e);
        else if (!run_step(c, e))
            return false;
        if (!c->ran[e]) e = 0; /* its tokens may have unblocked an engine */
    }
    for (uint32_t e = 0; e < KILN_VTA_ENGINE_COUNT; e++)
        if (c->done[e] < c->queues.count[e])
            return kiln_vta_deadlock(&c->queues, c->done, c->out_fault);
    for (uint32_t e = 0; e < KILN_VTA_ENGINE_COUNT; e++)
        for (uint32_t side = 0; side < 2; side++) {
            const uint32_t left = c->tokens[e][side].all.count - c->tokens[e][side].begin;
            if (left) return kiln_vta_tokens_left(&c->queues, e, side, left, c->out_fault);
        }
    return true;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void init(checking *c, const kiln_vta_program *program, kiln_arena *arena,
                 kiln_vta_fault *out_fault) {
    *c = (checking){.program = program,
                    .config = &program->config,
                    .sizes = kiln_vta_sizes_of(&program->config),
                    .queues = kiln_vta_queues_of(program, arena),
                    .byte_unit = UINT32_MAX,
                    .arena = arena,
                    .out_fault = out_fault};
    c->uop = KILN_ARENA_ARRAY(arena, kiln_vta_uop, c->sizes.tile_count[KILN_VTA_UOP]);
    for (uint32_t i = KILN_VTA_UOP; i <= KILN_VTA_ACC; i++)
        c->tile[i] = KILN_ARENA_ARRAY(arena, use, c->sizes.tile_count[i]);
    for (uint32_t i = KILN_VTA_WGT; i < KILN_VTA_MEMORY_COUNT; i++)
        if (c->sizes.tile_bytes[i] < c->byte_unit) c->byte_unit = c->sizes.tile_bytes[i];
    c->bytes = KILN_ARENA_ARRAY(arena, use *, program->buffer_count);
    for (uint32_t i = 0; i < program->instruction_count; i++) {
        const uint32_t buffer = program->instruction_buffer[i];
        const kiln_vta_instruction *in = &program->instruction[i];
        if (in->opcode == KILN_VTA_STORE && in->x_size && !c->bytes[buffer])
            c->bytes[buffer] =
                KILN_ARENA_ARRAY(arena, use, program->buffer[buffer].size_bytes / c->byte_unit + 1);
    }
}

bool kiln_vta_check(const kiln_vta_program *program, kiln_vta_fault *out_fault) {
    if (!kiln_vta_program_check(program, out_fault)) return false;
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    checking *c = KILN_ARENA_NEW(&scratch, checking);
    init(c, program, &scratch, out_fault);
    const bool ok = run_all(c);
    kiln_arena_deinit(&scratch);
    return ok;
}

/* The flag of the n-th instruction of an engine that takes, or gives, a token on a side; NULL:
 * there are fewer. */
static uint32_t *nth_flag(const kiln_vta_program *program, uint32_t engine, uint32_t side,
                          bool gives, uint32_t n, uint32_t *out_instruction) {
    for (uint32_t i = 0; i < program->instruction_count; i++) {
        kiln_vta_instruction *in = &program->instruction[i];
        uint32_t *flag = side == KILN_VTA_BEFORE ? (gives ? &in->push_prev : &in->pop_prev)
                                                 : (gives ? &in->push_next : &in->pop_next);
        if (!*flag || kiln_vta_engine_of(&program->config, in) != engine || n-- > 0) continue;
        *out_instruction = i;
        return flag;
    }
    return NULL;
}

uint32_t kiln_vta_redundant_tokens(const kiln_vta_program *program, uint32_t *out_instruction,
                                   uint32_t most) {
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    kiln_vta_program less = *program;
    kiln_vta_fault fault;
    uint32_t found = 0;
    less.instruction = kiln_arena_copy(&scratch, program->instruction,
                                       sizeof *less.instruction * program->instruction_count);
    const kiln_vta_queues queues = kiln_vta_queues_of(program, &scratch);
    for (uint32_t giver = 0; giver < KILN_VTA_ENGINE_COUNT; giver++)
        for (uint32_t side = 0; side < 2; side++) {
            const uint32_t taker = queues.neighbour[giver][side];
            uint32_t pushed, popped, *push;
            for (uint32_t n = 0; (push = nth_flag(&less, giver, side, true, n, &pushed)); n++) {
                uint32_t *pop = nth_flag(&less, taker, 1 - side, false, n, &popped);
                *push = *pop = 0;
                if (kiln_vta_check(&less, &fault) && found++ < most)
                    out_instruction[found - 1] = pushed;
                *push = *pop = 1;
            }
        }
    kiln_arena_deinit(&scratch);
    return found;
}
