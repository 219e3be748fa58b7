#include "vta/builder.h"

#include <string.h>

#include "base/check.h"
#include "base/map.h"
#include "vta/csim.h"
#include "vta/emit.h"

typedef struct token_list {
    KILN_VEC(uint32_t) token; /* tokens that are not waited for yet, from `begin` on */
    uint32_t begin;
} token_list;

struct kiln_vta_builder {
    kiln_arena *arena;
    kiln_vta_recording recording;
    kiln_map kernels; /* numbers, by micro-ops */
    kiln_map folds;   /* places in `folded`, by fold_key: code generation repeats loops */
    KILN_VEC(kiln_vta_folded) folded;
    token_list given[KILN_VTA_ENGINE_COUNT][KILN_VTA_ENGINE_COUNT]; /* [from][to] */
    /* RUN events of each engine that happen before the next instruction of an engine. */
    uint32_t known[KILN_VTA_ENGINE_COUNT][KILN_VTA_ENGINE_COUNT];
};

kiln_vta_builder *kiln_vta_builder_create(const kiln_vta_config *config, kiln_arena *arena) {
    kiln_vta_builder *b = KILN_ARENA_NEW(arena, kiln_vta_builder);
    b->arena = arena;
    b->recording.config = *config;
    b->recording.sizes = kiln_vta_sizes_of(config);
    kiln_map_init(&b->kernels);
    kiln_map_init(&b->folds);
    const kiln_vta_buffer uops = {.name = KILN_STR("uops"), .role = KILN_VTA_ROLE_UOPS};
    kiln_vec_push_in(arena, &b->recording.buffer, uops);
    return b;
}

void kiln_vta_builder_destroy(kiln_vta_builder *b) {
    if (!b) return;
    kiln_map_deinit(&b->kernels);
    kiln_map_deinit(&b->folds);
}

uint32_t kiln_vta_builder_accumulators(const kiln_vta_builder *b) {
    return b->recording.sizes.tile_count[KILN_VTA_ACC] -
           kiln_vta_emit_reserved(&b->recording.config);
}

kiln_status kiln_vta_builder_buffer(kiln_vta_builder *b, kiln_str name, kiln_vta_role role,
                                    uint64_t size_bytes, kiln_str content, uint32_t *out_buffer) {
    KILN_CHECK(role != KILN_VTA_ROLE_UOPS);
    KILN_CHECK(role != KILN_VTA_ROLE_CONSTANT || content.size == size_bytes);
    if (b->recording.buffer.count == KILN_VTA_BUFFERS_MAX)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "more than %u buffers", KILN_VTA_BUFFERS_MAX);
    const kiln_vta_buffer buffer = {name, role, size_bytes, content};
    *out_buffer = b->recording.buffer.count;
    kiln_vec_push_in(b->arena, &b->recording.buffer, buffer);
    return KILN_OK;
}

/* ---- instructions ---------------------------------------------------------------------------- */

/* Adds an instruction to the recording's list. */
static kiln_status add(kiln_vta_builder *b, const kiln_vta_instruction *in, uint32_t buffer) {
    kiln_vta_fault fault;
    if (!kiln_vta_instruction_check(&b->recording.config, in, 0, &fault))
        return KILN_ERROR(INVALID_ARGUMENT, "%s: %s", kiln_vta_fault_name(fault.kind), fault.text);
    kiln_vec_push_in(b->arena, &b->recording.instruction, *in);
    kiln_vec_push_in(b->arena, &b->recording.instruction_buffer, buffer);
    return KILN_OK;
}

/* Records that the last `count` instructions are run by their engine. */
static void record_run(kiln_vta_builder *b, uint32_t count, uint32_t kernel) {
    const uint32_t first = b->recording.instruction.count - count;
    const uint32_t engine =
        kiln_vta_engine_of(&b->recording.config, &b->recording.instruction.data[first]);
    const kiln_vta_event event = {.kind = KILN_VTA_EVENT_RUN,
                                  .engine = engine,
                                  .first = first,
                                  .count = count,
                                  .kernel = kernel};
    kiln_vec_push_in(b->arena, &b->recording.event, event);
    b->known[engine][engine]++;
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* Whether all tiles in main memory are different. */
static bool is_injective(const kiln_vta_copy *copy) {
    kiln_vta_nest nest = {.loop_count = copy->dim_count};
    for (uint32_t i = 0; i < copy->dim_count; i++)
        nest.loop[i] = (kiln_vta_loop){copy->dim[i].extent, {.dst = copy->dim[i].stride}};
    return kiln_vta_nest_is_injective(&nest);
}

static kiln_status check_copy(const kiln_vta_builder *b, const kiln_vta_copy *copy) {
    const kiln_vta_recording *r = &b->recording;
    const bool is_store = copy->memory == KILN_VTA_OUT;
    if (copy->dim_count > KILN_VTA_COPY_DIMS_MAX)
        return KILN_ERROR(INVALID_ARGUMENT, "a copy of %u dimensions; at most %u", copy->dim_count,
                          KILN_VTA_COPY_DIMS_MAX);
    if (copy->memory == KILN_VTA_UOP || copy->memory >= KILN_VTA_MEMORY_COUNT)
        return KILN_ERROR(INVALID_ARGUMENT, "a copy of memory %u", copy->memory);
    if (copy->buffer == KILN_VTA_BUFFER_UOPS || copy->buffer >= r->buffer.count)
        return KILN_ERROR(INVALID_ARGUMENT, "a copy of buffer %u; there are 1 to %u", copy->buffer,
                          r->buffer.count - 1);
    const kiln_vta_buffer *buffer = &r->buffer.data[copy->buffer];
    const uint32_t limit = copy->memory == KILN_VTA_INP || copy->memory == KILN_VTA_WGT
                               ? r->sizes.tile_count[copy->memory]
                               : kiln_vta_builder_accumulators(b);
    uint64_t tiles = 1, last = copy->dram_base;
    bool is_empty = false; /* all zeros */
    for (uint32_t i = 0; i < copy->dim_count; i++) {
        const kiln_vta_copy_dim *d = &copy->dim[i];
        is_empty |= d->extent == 0;
        if (d->extent == 0 && (is_store || d->before + d->behind == 0))
            return KILN_ERROR(INVALID_ARGUMENT, "dimension %u of a copy is empty", i);
        if (is_store && (d->before || d->behind))
            return KILN_ERROR(INVALID_ARGUMENT, "a store with zeros around dimension %u", i);
        if (d->extent) last += (uint64_t)(d->extent - 1) * d->stride;
        tiles *= (uint64_t)d->before + d->extent + d->behind;
        if (tiles > limit) tiles = (uint64_t)limit + 1;
    }
    if (copy->sram_base + tiles > limit)
        return KILN_ERROR(OUT_OF_RANGE, "a copy from tile %u of %s on; there are %u",
                          copy->sram_base, kiln_vta_memory_name(copy->memory), limit);
    if (is_empty) return KILN_OK;
    const uint64_t end = (last + 1) * r->sizes.tile_bytes[copy->memory];
    if (last > UINT32_MAX || end > buffer->size_bytes)
        return KILN_ERROR(OUT_OF_RANGE, "a copy up to byte %llu of %.*s, which has %llu",
                          (unsigned long long)end, KILN_STR_ARG(buffer->name),
                          (unsigned long long)buffer->size_bytes);
    if (is_store && buffer->role == KILN_VTA_ROLE_CONSTANT)
        return KILN_ERROR(INVALID_ARGUMENT, "a store into the constant %.*s",
                          KILN_STR_ARG(buffer->name));
    if (is_store && !is_injective(copy))
        return KILN_ERROR(INVALID_ARGUMENT, "a store that writes a byte of %.*s twice",
                          KILN_STR_ARG(buffer->name));
    return KILN_OK;
}

kiln_status kiln_vta_builder_copy(kiln_vta_builder *b, const kiln_vta_copy *copy) {
    kiln_status st = check_copy(b, copy);
    if (st) return st;
    kiln_vta_moves moves = {0};
    kiln_vta_copy_split(copy, b->arena, &moves);
    for (uint32_t i = 0; i < moves.count && !st; i++) {
        st = add(b, &moves.data[i], copy->buffer);
        if (!st) record_run(b, 1, KILN_VTA_NO_KERNEL);
    }
    return st;
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* The inputs of a fold, for a given machine. */
typedef struct fold_key {
    kiln_vta_nest nest;
    uint32_t source_tiles, distance, flags;
} fold_key;

static kiln_status fold(kiln_vta_builder *b, const kiln_vta_nest *nest,
                        const kiln_vta_fold_rules *rules, kiln_vta_folded *out_folded) {
    fold_key key = {.source_tiles = rules->tiles.src,
                    .distance = rules->distance,
                    .flags = rules->reads_sources | rules->any_order << 1 |
                             rules->overwrites_first << 2};
    key.nest.base = nest->base;
    key.nest.loop_count = nest->loop_count;
    for (uint32_t i = 0; i < nest->loop_count; i++) key.nest.loop[i] = nest->loop[i];
    const kiln_str bytes = {(const char *)&key, sizeof key};
    uint64_t place = b->folded.count;
    if (!kiln_map_find(&b->folds, bytes, &place)) {
        kiln_vta_folded folded;
        kiln_status st = kiln_vta_fold(nest, rules, b->arena, &folded);
        if (st) return st;
        kiln_map_put(&b->folds, bytes, place);
        kiln_vec_push_in(b->arena, &b->folded, folded);
    }
    *out_folded = b->folded.data[place];
    return KILN_OK;
}

/* The number of the kernel with these micro-ops. */
static uint32_t find_kernel(kiln_vta_builder *b, const kiln_vta_folded *f) {
    kiln_vta_recording *r = &b->recording;
    const kiln_str key = {(const char *)f->uop, sizeof *f->uop * f->uop_count};
    uint64_t kernel;
    if (kiln_map_find(&b->kernels, key, &kernel)) return (uint32_t)kernel;
    kernel = r->kernel_first.count;
    kiln_map_put(&b->kernels, key, kernel);
    kiln_vec_push_in(b->arena, &r->kernel_first, r->uop.count);
    kiln_vec_push_in(b->arena, &r->kernel_uops, f->uop_count);
    for (uint32_t i = 0; i < f->uop_count; i++) kiln_vec_push_in(b->arena, &r->uop, f->uop[i]);
    return (uint32_t)kernel;
}

static kiln_vta_instruction looped(const kiln_vta_folded *f, uint32_t opcode) {
    return (kiln_vta_instruction){.opcode = opcode,
                                  .uop_end = f->uop_count,
                                  .iter_out = f->outer.extent,
                                  .iter_in = f->inner.extent,
                                  .dst_out = f->outer.step.dst,
                                  .dst_in = f->inner.step.dst,
                                  .src_out = f->outer.step.src,
                                  .src_in = f->inner.step.src,
                                  .wgt_out = f->outer.step.wgt,
                                  .wgt_in = f->inner.step.wgt};
}

/* Sets unused fields to 0, so that equal kernels compare equal. */
static kiln_vta_nest without(const kiln_vta_nest *nest, bool sources, bool weights) {
    kiln_vta_nest n = *nest;
    if (sources) n.base.src = 0;
    if (weights) n.base.wgt = 0;
    for (uint32_t i = 0; i < n.loop_count; i++) {
        if (sources) n.loop[i].step.src = 0;
        if (weights) n.loop[i].step.wgt = 0;
    }
    return n;
}

static kiln_vta_fold_rules rules_of(const kiln_vta_builder *b) {
    const kiln_vta_recording *r = &b->recording;
    return (kiln_vta_fold_rules){
        .tiles = {kiln_vta_builder_accumulators(b), r->sizes.tile_count[KILN_VTA_INP],
                  r->sizes.tile_count[KILN_VTA_WGT]},
        .uops_max = r->sizes.tile_count[KILN_VTA_UOP] - kiln_vta_emit_reserved(&r->config)};
}

/* State before a call, to undo the call if a part of it is refused. */
typedef struct mark {
    uint32_t events, instructions;
} mark;

static mark mark_now(const kiln_vta_builder *b) {
    return (mark){b->recording.event.count, b->recording.instruction.count};
}

static void take_back(kiln_vta_builder *b, mark to) {
    kiln_vta_recording *r = &b->recording;
    while (r->event.count > to.events) {
        const uint32_t engine = r->event.data[--r->event.count].engine;
        b->known[engine][engine]--;
    }
    r->instruction.count = r->instruction_buffer.count = to.instructions;
}

static kiln_status check_loops(const kiln_vta_nest *nest) {
    if (nest->loop_count <= KILN_VTA_NEST_LOOPS_MAX) return KILN_OK;
    return KILN_ERROR(INVALID_ARGUMENT, "a kernel of %u loops; at most %u", nest->loop_count,
                      KILN_VTA_NEST_LOOPS_MAX);
}

static kiln_status add_gemm(kiln_vta_builder *b, kiln_vta_gemm_kind kind,
                            const kiln_vta_nest *nest) {
    const bool reset = kind == KILN_VTA_GEMM_RESET;
    kiln_vta_fold_rules rules = rules_of(b);
    rules.any_order = true; /* sums wrap, so their order does not matter */
    rules.distance = reset ? 1 : b->recording.config.pipeline;
    rules.overwrites_first = kind == KILN_VTA_GEMM_OVERWRITE;
    const kiln_vta_nest needed = without(nest, reset, reset);
    kiln_vta_folded folded;
    kiln_status st = fold(b, &needed, &rules, &folded);
    if (st) return st;
    kiln_vta_instruction in = looped(&folded, KILN_VTA_GEMM);
    in.reset = reset;
    in.first = rules.overwrites_first;
    st = add(b, &in, KILN_VTA_BUFFER_UOPS);
    if (!st) record_run(b, 1, find_kernel(b, &folded));
    return st;
}

/* The outermost loop that does not move the accumulators; NULL: there is none. */
static kiln_vta_loop *staying_loop(kiln_vta_nest *nest) {
    for (uint32_t i = 0; i < nest->loop_count; i++)
        if (nest->loop[i].extent > 1 && nest->loop[i].step.dst == 0) return &nest->loop[i];
    return NULL;
}

/* `first` works for at most two loops that do not move the accumulator. With more, the first round
 * of one of them overwrites, and the others add. */
static kiln_status add_overwriting_gemm(kiln_vta_builder *b, const kiln_vta_nest *nest) {
    kiln_status st = add_gemm(b, KILN_VTA_GEMM_OVERWRITE, nest);
    kiln_vta_nest once = *nest, others = *nest;
    kiln_vta_loop *loop = staying_loop(&once);
    if (!st || !loop || kiln_status_code(st) != KILN_FAILED_PRECONDITION) return st;
    kiln_status_free(st); /* try it in parts */
    others.base.src += loop->step.src;
    others.base.wgt += loop->step.wgt;
    staying_loop(&others)->extent--;
    loop->extent = 1;
    st = add_overwriting_gemm(b, &once);
    return st ? st : add_gemm(b, KILN_VTA_GEMM_ADD, &others);
}

kiln_status kiln_vta_builder_gemm(kiln_vta_builder *b, kiln_vta_gemm_kind kind,
                                  const kiln_vta_nest *nest) {
    const mark before = mark_now(b);
    kiln_status st = check_loops(nest);
    if (!st)
        st = kind == KILN_VTA_GEMM_OVERWRITE ? add_overwriting_gemm(b, nest)
                                             : add_gemm(b, kind, nest);
    if (!st) return KILN_OK;
    take_back(b, before);
    return kiln_status_note(st, "a gemm");
}

/* How an ALU kernel's accumulators lie. */
typedef struct alu_shape {
    bool reads_sources;
    bool is_apart; /* no source is another operation's result */
    bool is_once;  /* no result is another operation's */
} alu_shape;

static alu_shape shape_of(const kiln_vta_nest *nest, const kiln_vta_operation *operation,
                          uint32_t count) {
    alu_shape shape = {.is_once = kiln_vta_nest_is_injective(nest)};
    uint64_t dst = nest->base.dst, src = nest->base.src; /* the last ones */
    bool is_same = dst == src;
    for (uint32_t i = 0; i < count; i++) shape.reads_sources |= !operation[i].use_imm;
    for (uint32_t i = 0; i < nest->loop_count; i++) {
        const kiln_vta_loop *l = &nest->loop[i];
        if (l->extent == 0) continue; /* refused later */
        dst += (uint64_t)(l->extent - 1) * l->step.dst;
        src += (uint64_t)(l->extent - 1) * l->step.src;
        is_same &= l->extent == 1 || l->step.dst == l->step.src;
    }
    shape.is_apart = !shape.reads_sources || dst < nest->base.src || src < nest->base.dst ||
                     (is_same && shape.is_once);
    return shape;
}

/* Whether the operations of different rounds may be reordered. */
static bool is_free(const alu_shape *shape, const kiln_vta_operation *operation, uint32_t count) {
    if (!shape->reads_sources) return true; /* all rounds do the same */
    if (!shape->is_apart) return false;
    return shape->is_once || (count == 1 && operation->op != KILN_VTA_ALU_SHR);
}

static uint32_t divide_up(uint32_t a, uint32_t b) { return (a + b - 1) / b; }

/* One pass, `count` operations as a chain. */
static kiln_status add_pass(kiln_vta_builder *b, const kiln_vta_nest *nest,
                            const kiln_vta_operation *operation, uint32_t count) {
    const kiln_vta_config *config = &b->recording.config;
    const alu_shape shape = shape_of(nest, operation, count);
    kiln_vta_fold_rules rules = rules_of(b);
    rules.tiles.src = rules.tiles.dst;
    rules.any_order = is_free(&shape, operation, count);
    rules.reads_sources = !shape.is_apart;
    rules.distance = divide_up(KILN_VTA_ALU_PIPELINE + count - 1,
                               divide_up(config->batch * config->block_out, config->alu_lanes) *
                                   config->alu_cycles);
    const kiln_vta_nest needed = without(nest, !shape.reads_sources, true);
    kiln_vta_folded folded;
    kiln_status st = fold(b, &needed, &rules, &folded);
    for (uint32_t i = 0; i < count && !st; i++) {
        kiln_vta_instruction in = looped(&folded, KILN_VTA_ALU);
        in.op = operation[i].op;
        in.use_imm = operation[i].use_imm;
        in.imm = operation[i].use_imm ? operation[i].imm : 0;
        in.chain = i + 1 < count;
        st = add(b, &in, KILN_VTA_BUFFER_UOPS);
    }
    if (!st) record_run(b, count, find_kernel(b, &folded));
    return st;
}

static kiln_status add_passes(kiln_vta_builder *b, const kiln_vta_nest *nest,
                              const kiln_vta_operation *operation, uint32_t count) {
    const bool chain = kiln_vta_config_has(&b->recording.config, KILN_VTA_CHAIN);
    const uint32_t most = chain ? KILN_VTA_CHAIN_MAX : 1;
    const alu_shape shape = shape_of(nest, operation, count);
    if (count > most && !(shape.is_apart && shape.is_once))
        return KILN_ERROR(FAILED_PRECONDITION,
                          "%u operations at each tile, where tiles are used in several rounds; the "
                          "machine does %u in a pass",
                          count, most);
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; i < count && !st; i += most)
        st = add_pass(b, nest, operation + i, count - i < most ? count - i : most);
    return st;
}

kiln_status kiln_vta_builder_alu(kiln_vta_builder *b, const kiln_vta_nest *nest,
                                 const kiln_vta_operation *operation, uint32_t operation_count) {
    const mark before = mark_now(b);
    kiln_status st = check_loops(nest);
    if (!st) st = add_passes(b, nest, operation, operation_count);
    if (!st) return KILN_OK;
    take_back(b, before);
    return kiln_status_note(st, "operations of the alu");
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static bool are_neighbours(const kiln_vta_builder *b, kiln_vta_engine a, kiln_vta_engine c) {
    kiln_vta_engine other;
    return (kiln_vta_engine_before(&b->recording.config, a, &other) && other == c) ||
           (kiln_vta_engine_behind(&b->recording.config, a, &other) && other == c);
}

static void record_token(kiln_vta_builder *b, kiln_vta_event_kind kind, uint32_t engine,
                         uint32_t token) {
    const kiln_vta_event event = {.kind = kind, .engine = engine, .token = token};
    kiln_vec_push_in(b->arena, &b->recording.event, event);
}

/* A token for all that has happened before `from` gives it. */
static uint32_t give(kiln_vta_builder *b, uint32_t from, uint32_t to) {
    kiln_vta_recorded_token token = {.from = from, .to = to};
    memcpy(token.steps, b->known[from], sizeof token.steps);
    kiln_vec_push_in(b->arena, &b->recording.token, token);
    record_token(b, KILN_VTA_EVENT_GIVE, from, b->recording.token.count - 1);
    return b->recording.token.count - 1;
}

/* Takes the token, unless the engine knows all that it orders: then it is left out. */
static void take(kiln_vta_builder *b, uint32_t engine, uint32_t number) {
    kiln_vta_recorded_token *token = &b->recording.token.data[number];
    bool is_new = false;
    for (uint32_t e = 0; e < KILN_VTA_ENGINE_COUNT; e++) {
        if (token->steps[e] <= b->known[engine][e]) continue;
        b->known[engine][e] = token->steps[e];
        is_new = true;
    }
    if (!is_new) return;
    token->taken = b->recording.event.count;
    record_token(b, KILN_VTA_EVENT_TAKE, engine, number);
}

void kiln_vta_builder_signal(kiln_vta_builder *b, kiln_vta_engine from, kiln_vta_engine to) {
    KILN_CHECK(are_neighbours(b, from, to));
    const uint32_t number = give(b, from, to);
    kiln_vec_push_in(b->arena, &b->given[from][to].token, number);
}

kiln_status kiln_vta_builder_wait(kiln_vta_builder *b, kiln_vta_engine engine, kiln_vta_engine on) {
    KILN_CHECK(are_neighbours(b, engine, on));
    token_list *list = &b->given[on][engine];
    if (list->begin == list->token.count)
        return KILN_ERROR(FAILED_PRECONDITION, "%s waits for a signal of %s that was not given",
                          kiln_vta_engine_name(engine), kiln_vta_engine_name(on));
    take(b, engine, list->token.data[list->begin++]);
    return KILN_OK;
}

/* Unused signals order less than this token, so they are dropped. */
static void pass_on(kiln_vta_builder *b, kiln_vta_engine from, kiln_vta_engine to) {
    take(b, to, give(b, from, to));
}

/* Makes all earlier calls happen before the next instruction of COMPUTE. */
static void gather(kiln_vta_builder *b) {
    const kiln_vta_config *config = &b->recording.config;
    kiln_vta_engine at = KILN_VTA_ENGINE_LOAD, next;
    for (; kiln_vta_engine_behind(config, at, &next); at = next) pass_on(b, at, next);
    for (; at != KILN_VTA_ENGINE_COMPUTE && kiln_vta_engine_before(config, at, &next); at = next)
        pass_on(b, at, next);
    record_token(b, KILN_VTA_EVENT_SYNC, KILN_VTA_ENGINE_COMPUTE, 0);
}

void kiln_vta_builder_sync(kiln_vta_builder *b) {
    gather(b);
    const uint32_t sync = b->recording.event.count - 1;
    pass_on(b, KILN_VTA_ENGINE_COMPUTE, KILN_VTA_ENGINE_LOAD);
    b->recording.event.data[sync].count = b->recording.event.count - 1 - sync;
}

kiln_status kiln_vta_builder_finish(kiln_vta_builder *b, const kiln_vta_limits *limits,
                                    kiln_vta_stream *out_stream) {
    gather(b);
    return kiln_vta_emit(&b->recording, limits, b->arena, out_stream);
}
