#include "vta/emit.h"

#include <string.h>

#include "base/check.h"
#include "vta/queue.h"
#include "vta/uop_cache.h"

#define NONE UINT32_MAX
#define UOP_BITS 32u

/* A program being written from events [begin, end). */
typedef struct writing {
    const kiln_vta_recording *r;
    const kiln_vta_limits *limits;
    kiln_arena *arena;
    uint32_t begin, end;
    bool has_alu_engine;
    bool *is_left_out; /* of each token */
    KILN_VEC(kiln_vta_instruction) instruction;
    KILN_VEC(uint32_t) buffer;
    KILN_VEC(kiln_vta_uop) uop;
    uint32_t *uop_first; /* of each kernel in uop, or NONE */
    kiln_vta_uop_cache cache;
    uint32_t last[KILN_VTA_ENGINE_COUNT];       /* instruction of each engine, or NONE */
    bool pending[KILN_VTA_ENGINE_COUNT][2];     /* tokens that the engine's next instruction
                                                 * takes */
    uint32_t waiting[KILN_VTA_ENGINE_COUNT][2]; /* tokens that are between two engines */
    /* Progress of the ALU's engine in RUN events, to find kernels that COMPUTE may overwrite. */
    uint32_t alu_steps, alu_known;
    uint32_t *alu_given;    /* of each token of the ALU's engine: RUN events done before it */
    uint32_t *alu_promised; /* of each kernel: uses still to come */
    uint32_t *alu_used;     /* of each kernel: its last use */
    bool alu_may_begin;     /* it has taken a token of COMPUTE */
    uint64_t no_ops, alu_no_ops;
} writing;

uint32_t kiln_vta_emit_reserved(const kiln_vta_config *config) {
    return kiln_vta_config_has(config, KILN_VTA_ENGINE);
}

/* The side of an engine on which its neighbour is. */
static uint32_t side_of(uint32_t engine, uint32_t neighbour) {
    return neighbour < engine ? KILN_VTA_BEFORE : KILN_VTA_BEHIND;
}

/* ---- instructions ---------------------------------------------------------------------------- */

/* Appends an instruction; the first one of a chain takes the tokens, the last one may give some. */
static void append(writing *w, uint32_t engine, kiln_vta_instruction in, uint32_t buffer) {
    bool *pending = w->pending[engine];
    in.pop_prev = pending[KILN_VTA_BEFORE];
    in.pop_next = pending[KILN_VTA_BEHIND];
    for (uint32_t side = 0; side < 2; side++) {
        w->waiting[engine][side] -= pending[side];
        pending[side] = false;
    }
    w->last[engine] = w->instruction.count;
    kiln_vec_push_in(w->arena, &w->instruction, in);
    kiln_vec_push_in(w->arena, &w->buffer, buffer);
}

/* Appends before COMPUTE's waits: micro-ops that only COMPUTE reads need not wait. */
static void append_early(writing *w, kiln_vta_instruction in) {
    bool *pending = w->pending[KILN_VTA_ENGINE_COMPUTE];
    const bool kept[2] = {pending[0], pending[1]};
    pending[0] = pending[1] = false;
    append(w, KILN_VTA_ENGINE_COMPUTE, in, KILN_VTA_BUFFER_UOPS);
    memcpy(pending, kept, sizeof kept);
}

/* The first accumulator that the builder reserves for no-ops of the ALU. */
static uint32_t kept_accumulator(const writing *w) {
    return w->r->sizes.tile_count[KILN_VTA_ACC] - 1;
}
#define KEPT_UOP 0u

/* An instruction that only takes and gives tokens. */
static kiln_status append_no_op(writing *w, uint32_t engine) {
    static const uint32_t memory[] = {[KILN_VTA_ENGINE_LOAD] = KILN_VTA_INP,
                                      [KILN_VTA_ENGINE_COMPUTE] = KILN_VTA_ACC,
                                      [KILN_VTA_ENGINE_STORE] = KILN_VTA_OUT};
    w->no_ops++;
    kiln_vta_instruction in = {.opcode = engine == KILN_VTA_ENGINE_STORE ? KILN_VTA_STORE
                                                                         : KILN_VTA_LOAD};
    if (engine == KILN_VTA_ENGINE_ALU) { /* the ALU has no instruction without an effect */
        if (!w->alu_may_begin)
            return KILN_ERROR(FAILED_PRECONDITION,
                              "the alu passes a token on before it took one of compute");
        w->alu_no_ops++;
        in = (kiln_vta_instruction){.opcode = KILN_VTA_ALU,
                                    .uop_bgn = KEPT_UOP,
                                    .uop_end = KEPT_UOP + 1,
                                    .iter_out = 1,
                                    .iter_in = 1,
                                    .op = KILN_VTA_ALU_SHR,
                                    .use_imm = 1};
    } else {
        in.memory = memory[engine];
    }
    append(w, engine, in, KILN_VTA_BUFFER_UOPS);
    return KILN_OK;
}

/* ---- micro-ops ------------------------------------------------------------------------------- */

/* Whether COMPUTE knows that all reads of the kernel are over. */
static bool may_leave(const void *context, uint32_t kernel) {
    const writing *w = context;
    return w->alu_promised[kernel] == 0 && w->alu_used[kernel] <= w->alu_known;
}

/* Appends the micro-ops of a kernel at its first use to the buffer in main memory. */
static void write_uops(writing *w, uint32_t kernel) {
    const kiln_vta_recording *r = w->r;
    w->uop_first[kernel] = w->uop.count;
    for (uint32_t i = 0; i < r->kernel_uops.data[kernel]; i++)
        kiln_vec_push_in(w->arena, &w->uop, r->uop.data[r->kernel_first.data[kernel] + i]);
}

/* A load waits for the latency of memory. To avoid further waits, the kernels that are needed next
 * are loaded with it, as many as the port moves in that time. Returns the micro-ops of all. */
static uint32_t load_with_next(writing *w, uint32_t kernel) {
    const kiln_vta_recording *r = w->r;
    const uint32_t limit = r->config.latency * r->config.bus_bits / UOP_BITS;
    uint32_t uops = r->kernel_uops.data[kernel];
    if (w->uop_first[kernel] != NONE) return uops;
    write_uops(w, kernel);
    for (uint32_t next = kernel + 1; next < r->kernel_uops.count; next++) {
        const uint32_t more = r->kernel_uops.data[next];
        if (w->uop_first[next] != NONE || uops + more > limit ||
            !kiln_vta_uop_cache_follow(&w->cache, next - 1, next))
            break;
        write_uops(w, next);
        uops += more;
    }
    return uops;
}

/* Makes COMPUTE load the kernel if it is missing; `early`: before it takes tokens, if possible. */
static kiln_status need_kernel(writing *w, uint32_t kernel, bool early) {
    bool load, evicted;
    if (!kiln_vta_uop_cache_use(&w->cache, kernel, may_leave, w, &load, &evicted))
        return KILN_ERROR(RESOURCE_EXHAUSTED,
                          "no room for %u micro-ops besides those that the alu may still read; "
                          "let compute wait for it",
                          w->r->kernel_uops.data[kernel]);
    if (!load) return KILN_OK;
    const uint32_t uops = load_with_next(w, kernel);
    const kiln_vta_instruction in = {.opcode = KILN_VTA_LOAD,
                                     .memory = KILN_VTA_UOP,
                                     .sram_base = w->cache.place[kernel],
                                     .dram_base = w->uop_first[kernel],
                                     .y_size = 1,
                                     .x_size = uops};
    if (early && !(w->has_alu_engine && evicted)) /* an evicted kernel may be the ALU's */
        append_early(w, in);
    else
        append(w, KILN_VTA_ENGINE_COMPUTE, in, KILN_VTA_BUFFER_UOPS);
    return KILN_OK;
}

/* COMPUTE loads the kernels that the ALU's engine runs after the token, up to COMPUTE's next token,
 * before it gives the token. */
static kiln_status need_alu_kernels(writing *w, const kiln_vta_recorded_token *token) {
    for (uint32_t i = token->taken + 1; i < w->end; i++) {
        const kiln_vta_event *e = &w->r->event.data[i];
        if (e->engine != KILN_VTA_ENGINE_ALU) continue;
        if (e->kind == KILN_VTA_EVENT_TAKE && !w->is_left_out[e->token] &&
            w->r->token.data[e->token].from == KILN_VTA_ENGINE_COMPUTE)
            break;
        if (e->kind != KILN_VTA_EVENT_RUN) continue;
        kiln_status st = need_kernel(w, e->kernel, false);
        if (st) return st;
        w->alu_promised[e->kernel]++;
    }
    return KILN_OK;
}

/* ---- events ---------------------------------------------------------------------------------- */

static kiln_status run(writing *w, const kiln_vta_event *e) {
    uint32_t uop = 0;
    if (e->kernel != KILN_VTA_NO_KERNEL) {
        if (e->engine == KILN_VTA_ENGINE_ALU) {
            if (!w->alu_may_begin)
                return KILN_ERROR(FAILED_PRECONDITION,
                                  "the alu has a kernel before it took a token of compute");
            w->alu_promised[e->kernel]--;
            w->alu_used[e->kernel] = ++w->alu_steps;
        } else {
            kiln_status st = need_kernel(w, e->kernel, true);
            if (st) return st;
        }
        uop = w->cache.place[e->kernel];
    }
    for (uint32_t i = e->first; i < e->first + e->count; i++) {
        kiln_vta_instruction in = w->r->instruction.data[i];
        in.uop_bgn += uop;
        in.uop_end += in.uop_end ? uop : 0;
        append(w, e->engine, in, w->r->instruction_buffer.data[i]);
    }
    return KILN_OK;
}

static kiln_status give(writing *w, const kiln_vta_event *e) {
    const kiln_vta_recorded_token *token = &w->r->token.data[e->token];
    kiln_status st = KILN_OK;
    if (token->to == KILN_VTA_ENGINE_ALU && e->engine == KILN_VTA_ENGINE_COMPUTE)
        st = need_alu_kernels(w, token);
    if (st) return st;
    w->alu_given[e->token] = w->alu_steps;
    const bool *pending = w->pending[e->engine];
    const bool is_next = side_of(e->engine, token->to) == KILN_VTA_BEHIND;
    uint32_t *last = &w->last[e->engine];
    if (*last == NONE || pending[0] || pending[1] ||
        (is_next ? w->instruction.data[*last].push_next : w->instruction.data[*last].push_prev))
        st = append_no_op(w, e->engine);
    if (st) return st;
    if (is_next)
        w->instruction.data[*last].push_next = 1;
    else
        w->instruction.data[*last].push_prev = 1;
    if (++w->waiting[token->to][side_of(token->to, e->engine)] > w->r->config.tokens)
        return KILN_ERROR(
            RESOURCE_EXHAUSTED,
            "more than %u tokens of %s wait for %s; the machine has no place for more",
            w->r->config.tokens, kiln_vta_engine_name((kiln_vta_engine)e->engine),
            kiln_vta_engine_name((kiln_vta_engine)token->to));
    return KILN_OK;
}

static kiln_status take(writing *w, const kiln_vta_event *e) {
    const kiln_vta_recorded_token *token = &w->r->token.data[e->token];
    bool *pending = &w->pending[e->engine][side_of(e->engine, token->from)];
    kiln_status st = *pending ? append_no_op(w, e->engine) : KILN_OK;
    if (st) return st;
    *pending = true;
    if (token->from == KILN_VTA_ENGINE_COMPUTE && e->engine == KILN_VTA_ENGINE_ALU)
        w->alu_may_begin = true;
    if (token->from == KILN_VTA_ENGINE_ALU && e->engine == KILN_VTA_ENGINE_COMPUTE)
        w->alu_known = w->alu_given[e->token];
    return KILN_OK;
}

/* Leaves out tokens that are not taken, or whose taker does nothing afterwards. */
static void leave_out_tokens(writing *w) {
    bool is_busy[KILN_VTA_ENGINE_COUNT] = {[KILN_VTA_ENGINE_COMPUTE] = true}; /* it has FINISH */
    for (uint32_t i = w->end; i-- > w->begin;) {
        const kiln_vta_event *e = &w->r->event.data[i];
        bool *left_out = &w->is_left_out[e->token];
        switch (e->kind) {
        case KILN_VTA_EVENT_RUN: is_busy[e->engine] = true; break;
        case KILN_VTA_EVENT_TAKE: *left_out = !is_busy[e->engine]; break;
        case KILN_VTA_EVENT_GIVE:
            if (w->r->token.data[e->token].taken >= w->end) *left_out = true;
            if (w->r->token.data[e->token].taken == 0) *left_out = true;
            if (!*left_out) is_busy[e->engine] = true;
            break;
        case KILN_VTA_EVENT_SYNC: break;
        }
    }
}

/* ---- programs -------------------------------------------------------------------------------- */

static void begin(writing *w, const kiln_vta_recording *r, const kiln_vta_limits *limits,
                  uint32_t begin, uint32_t end, kiln_arena *arena) {
    const uint32_t kernels = r->kernel_first.count;
    *w = (writing){.r = r,
                   .limits = limits,
                   .arena = arena,
                   .begin = begin,
                   .end = end,
                   .has_alu_engine = kiln_vta_config_has(&r->config, KILN_VTA_ENGINE),
                   .is_left_out = KILN_ARENA_ARRAY(arena, bool, r->token.count + 1),
                   .uop_first = KILN_ARENA_ARRAY(arena, uint32_t, kernels),
                   .alu_given = KILN_ARENA_ARRAY(arena, uint32_t, r->token.count),
                   .alu_promised = KILN_ARENA_ARRAY(arena, uint32_t, kernels),
                   .alu_used = KILN_ARENA_ARRAY(arena, uint32_t, kernels)};
    kiln_vta_uop_cache_init(&w->cache, kiln_vta_emit_reserved(&r->config),
                            r->sizes.tile_count[KILN_VTA_UOP], r->kernel_uops.data, kernels, arena);
    for (uint32_t i = 0; i < kernels; i++) w->uop_first[i] = NONE;
    for (uint32_t e = 0; e < KILN_VTA_ENGINE_COUNT; e++) w->last[e] = NONE;
    leave_out_tokens(w);
}

/* Instructions in addition to those of the events: FINISH, and the preparation of ALU no-ops. */
static uint32_t further_instructions(const writing *w) { return w->alu_no_ops ? 3 : 1; }

static bool is_within_limits(const writing *w) {
    const uint64_t count = (uint64_t)w->instruction.count + further_instructions(w);
    const uint64_t uops = w->uop.count + (w->alu_no_ops ? 1 : 0);
    return (w->limits->instructions == 0 || count <= w->limits->instructions) &&
           (w->limits->bytes == 0 ||
            count * KILN_VTA_INSTRUCTION_BYTES + 4 * uops <= w->limits->bytes);
}

/* Writes the events until the limits are passed; `*out_end` is the last SYNC within them, or NONE.
 */
static kiln_status write_events(writing *w, uint32_t *out_end) {
    kiln_status st = KILN_OK;
    *out_end = NONE;
    for (uint32_t i = w->begin; i < w->end && !st; i++) {
        const kiln_vta_event *e = &w->r->event.data[i];
        const bool is_token = e->kind == KILN_VTA_EVENT_GIVE || e->kind == KILN_VTA_EVENT_TAKE;
        if (is_token && w->is_left_out[e->token]) continue;
        switch (e->kind) {
        case KILN_VTA_EVENT_RUN: st = run(w, e); break;
        case KILN_VTA_EVENT_GIVE: st = give(w, e); break;
        case KILN_VTA_EVENT_TAKE: st = take(w, e); break;
        case KILN_VTA_EVENT_SYNC:
            if (!is_within_limits(w)) return KILN_OK;
            *out_end = i + 1;
        }
    }
    return st;
}

/* Makes COMPUTE first load the micro-op and the accumulator of ALU no-ops. */
static void put_before(writing *w, kiln_vta_program *p) {
    kiln_vta_instruction *in = p->instruction;
    in[0] = (kiln_vta_instruction){.opcode = KILN_VTA_LOAD,
                                   .memory = KILN_VTA_UOP,
                                   .sram_base = KEPT_UOP,
                                   .dram_base = w->uop.count,
                                   .y_size = 1,
                                   .x_size = 1};
    in[1] = (kiln_vta_instruction){.opcode = KILN_VTA_LOAD,
                                   .memory = KILN_VTA_ACC,
                                   .sram_base = kept_accumulator(w),
                                   .x_size = 1,
                                   .y_pad_0 = 1};
    kiln_vec_push_in(w->arena, &w->uop, ((kiln_vta_uop){.dst = kept_accumulator(w)}));
}

static kiln_vta_program finished(writing *w) {
    append(w, KILN_VTA_ENGINE_COMPUTE, (kiln_vta_instruction){.opcode = KILN_VTA_FINISH},
           KILN_VTA_BUFFER_UOPS);
    const uint32_t before = w->alu_no_ops ? 2 : 0, count = w->instruction.count;
    kiln_vta_program p = {
        .config = w->r->config,
        .instruction_count = before + count,
        .instruction = KILN_ARENA_ARRAY(w->arena, kiln_vta_instruction, before + count),
        .instruction_buffer = KILN_ARENA_ARRAY(w->arena, uint32_t, before + count),
        .buffer_count = w->r->buffer.count};
    memcpy(p.instruction + before, w->instruction.data, sizeof *p.instruction * count);
    memcpy(p.instruction_buffer + before, w->buffer.data, sizeof *p.instruction_buffer * count);
    if (before) put_before(w, &p);
    p.uop_count = w->uop.count;
    p.uop = w->uop.data;
    p.buffer = kiln_arena_copy(w->arena, w->r->buffer.data, sizeof *p.buffer * p.buffer_count);
    p.buffer[KILN_VTA_BUFFER_UOPS].size_bytes = 4 * (uint64_t)p.uop_count;
    return p;
}

/* The longest program from event `first` on that is within the limits. */
static kiln_status write_program(writing *w, const kiln_vta_recording *r,
                                 const kiln_vta_limits *limits, uint32_t first, kiln_arena *arena) {
    uint32_t end = r->event.count, fits = NONE;
    for (;;) {
        begin(w, r, limits, first, end, arena);
        kiln_status st = write_events(w, &fits);
        if (st) return st;
        if (fits == end) return KILN_OK;
        if (fits == NONE)
            return KILN_ERROR(RESOURCE_EXHAUSTED,
                              "%u instructions and %u micro-ops up to a sync are more than one run "
                              "of the machine may have",
                              w->instruction.count + further_instructions(w), w->uop.count);
        end = fits;
    }
}

kiln_status kiln_vta_emit(const kiln_vta_recording *recording, const kiln_vta_limits *limits,
                          kiln_arena *arena, kiln_vta_stream *out_stream) {
    kiln_vta_stream stream = {0};
    KILN_VEC(kiln_vta_program) program = {0};
    const uint32_t count = recording->event.count;
    for (uint32_t first = 0, end; first < count;
         first = end + recording->event.data[end - 1].count) {
        writing w;
        kiln_status st = write_program(&w, recording, limits, first, arena);
        if (st) return st;
        end = w.end;
        kiln_vec_push_in(arena, &program, finished(&w));
        stream.no_ops += w.no_ops;
        stream.uop_hits += w.cache.hits;
        stream.uop_misses += w.cache.misses;
    }
    for (uint32_t i = 0; program.count > 1 && i < program.count; i++)
        for (uint32_t k = 0; k < program.data[i].buffer_count; k++)
            if (program.data[i].buffer[k].role == KILN_VTA_ROLE_SCRATCH)
                program.data[i].buffer[k].role = KILN_VTA_ROLE_ARGUMENT;
    stream.program_count = program.count;
    stream.program = program.data;
    *out_stream = stream;
    return KILN_OK;
}
