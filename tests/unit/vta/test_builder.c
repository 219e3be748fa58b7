/* Random calls are done twice: by the builder and fsim, and by plain loops over arrays. */
#include "vta/builder.h"

#include <stdlib.h>
#include <string.h>

#include "base/rand.h"
#include "tests/support/test.h"
#include "tests/support/vta_random.h"
#include "vta/check.h"
#include "vta/csim.h"

#define TILES 256u
#define PARTS 3u
#define PART_TILES 64u
#define ELEMENTS_MAX 32u /* of a tile */
#define OUT_TILES 512u
#define NO_HOP UINT32_MAX

/* ---- plain loops ----------------------------------------------------------------------------- */

enum { BUFFER_INP = 1, BUFFER_WGT, BUFFER_ACC, BUFFER_ACC8, BUFFER_OUT, BUFFER_COUNT };

typedef struct plain {
    kiln_vta_config config;
    uint8_t *buffer[BUFFER_COUNT];
    uint32_t bytes[BUFFER_COUNT];
    int8_t inp[TILES][ELEMENTS_MAX], wgt[TILES][ELEMENTS_MAX];
    int32_t acc[TILES][ELEMENTS_MAX];
} plain;

static uint32_t acc_elements(const plain *p) { return p->config.batch * p->config.block_out; }

/* One tile; `dram` NULL: zeros. */
static void move_tile(plain *p, const kiln_vta_copy *copy, uint32_t tile, uint8_t *dram) {
    const uint32_t acc = acc_elements(p);
    switch ((kiln_vta_memory)copy->memory) {
    case KILN_VTA_INP:
        for (uint32_t i = 0; i < p->config.batch * p->config.block_in; i++)
            p->inp[tile][i] = dram ? (int8_t)dram[i] : 0;
        break;
    case KILN_VTA_WGT:
        for (uint32_t i = 0; i < p->config.block_out * p->config.block_in; i++)
            p->wgt[tile][i] = dram ? (int8_t)dram[i] : 0;
        break;
    case KILN_VTA_ACC:
        memset(p->acc[tile], 0, sizeof p->acc[tile]);
        if (dram) memcpy(p->acc[tile], dram, 4 * acc);
        break;
    case KILN_VTA_ACC_BYTES:
        for (uint32_t i = 0; i < acc; i++) p->acc[tile][i] = dram ? (int8_t)dram[i] : 0;
        break;
    case KILN_VTA_OUT:
        for (uint32_t i = 0; i < acc; i++) {
            const int32_t v = p->acc[tile][i];
            dram[i] = (uint8_t)(!copy->saturate ? v : v > 127 ? 127 : v < -128 ? -128 : v);
        }
        break;
    case KILN_VTA_UOP:
    case KILN_VTA_MEMORY_COUNT: break;
    }
}

/* Moves a dimension and all below, from `*tile` on; `inside` of all the zeros above. */
static void move_dims(plain *p, const kiln_vta_copy *copy, uint32_t depth, uint32_t *tile,
                      uint64_t dram, bool inside) {
    if (depth == copy->dim_count) {
        const uint32_t bytes = kiln_vta_tile_bytes(&p->config, copy->memory);
        move_tile(p, copy, (*tile)++, inside ? p->buffer[copy->buffer] + dram * bytes : NULL);
        return;
    }
    const kiln_vta_copy_dim *d = &copy->dim[depth];
    for (uint32_t i = 0; i < d->before + d->extent + d->behind; i++) {
        const bool is_in = inside && i >= d->before && i < d->before + d->extent;
        move_dims(p, copy, depth + 1, tile,
                  is_in ? dram + (uint64_t)(i - d->before) * d->stride : 0, is_in);
    }
}

static void plain_copy(plain *p, const kiln_vta_copy *copy) {
    uint32_t tile = copy->sram_base;
    move_dims(p, copy, 0, &tile, copy->dram_base, true);
}

static int32_t plain_operation(const kiln_vta_operation *o, int32_t a, int32_t source) {
    const int64_t x = a, y = o->use_imm ? o->imm : source;
    switch (o->op) {
    case KILN_VTA_ALU_MIN: return (int32_t)(x < y ? x : y);
    case KILN_VTA_ALU_MAX: return (int32_t)(x > y ? x : y);
    case KILN_VTA_ALU_ADD: return (int32_t)(uint32_t)(x + y);
    case KILN_VTA_ALU_MUL: return (int32_t)(uint32_t)(x * y);
    case KILN_VTA_ALU_SHR: return (int32_t)(uint32_t)(y >= 0 ? x >> y : x * (INT64_C(1) << -y));
    case KILN_VTA_ALU_OP_COUNT: break;
    }
    return 0;
}

typedef struct kernel {
    bool is_alu;
    kiln_vta_gemm_kind kind;
    kiln_vta_nest nest;
    uint32_t operation_count;
    kiln_vta_operation operation[6];
    bool *seen; /* [TILES], of OVERWRITE */
} kernel;

static void plain_tile(plain *p, const kernel *k, kiln_vta_uop at) {
    const kiln_vta_config *c = &p->config;
    int32_t *acc = p->acc[at.dst];
    for (uint32_t i = 0; k->is_alu && i < k->operation_count; i++)
        for (uint32_t e = 0; e < acc_elements(p); e++)
            acc[e] = plain_operation(&k->operation[i], acc[e], p->acc[at.src][e]);
    if (k->is_alu) return;
    if (k->kind == KILN_VTA_GEMM_RESET || (k->kind == KILN_VTA_GEMM_OVERWRITE && !k->seen[at.dst]))
        memset(acc, 0, sizeof p->acc[0]);
    k->seen[at.dst] = true;
    for (uint32_t b = 0; b < c->batch && k->kind != KILN_VTA_GEMM_RESET; b++)
        for (uint32_t o = 0; o < c->block_out; o++)
            for (uint32_t i = 0; i < c->block_in; i++)
                acc[b * c->block_out + o] =
                    (int32_t)((uint32_t)acc[b * c->block_out + o] +
                              (uint32_t)(p->inp[at.src][b * c->block_in + i] *
                                         p->wgt[at.wgt][o * c->block_in + i]));
}

static void plain_kernel(plain *p, const kernel *k, uint32_t depth, kiln_vta_uop at) {
    if (depth == k->nest.loop_count) {
        plain_tile(p, k, at);
        return;
    }
    const kiln_vta_loop *l = &k->nest.loop[depth];
    for (uint32_t i = 0; i < l->extent; i++) {
        plain_kernel(p, k, depth + 1, at);
        at = (kiln_vta_uop){at.dst + l->step.dst, at.src + l->step.src, at.wgt + l->step.wgt};
    }
}

/* ---- random calls ---------------------------------------------------------------------------- */

/* What of a part an engine uses. */
enum { PLACE_INP, PLACE_WGT, PLACE_ACC, PLACE_COUNT };

typedef struct calls {
    kiln_rand random;
    kiln_vta_builder *b;
    plain *p;
    bool used[PLACE_COUNT][PARTS][KILN_VTA_ENGINE_COUNT];
    bool is_dirty[PARTS];    /* results that nothing has stored */
    uint32_t hops, left_out; /* the hop that is left out, to see that it is noticed */
    uint32_t nests, refused;
} calls;

static uint32_t below(calls *c, uint32_t bound) {
    return (uint32_t)kiln_rand_below(&c->random, bound);
}
static bool has(const calls *c, kiln_vta_feature feature) {
    return kiln_vta_config_has(&c->p->config, feature);
}

/* What `from` was given so far happens before what `to` is given from now on. */
static void hop(calls *c, uint32_t from, uint32_t to) {
    while (from != to) {
        kiln_vta_engine next;
        assert_true(from < to ? kiln_vta_engine_behind(&c->p->config, from, &next)
                              : kiln_vta_engine_before(&c->p->config, from, &next));
        kiln_vta_builder_signal(c->b, from, next);
        expect_ok(kiln_vta_builder_wait(c->b, next, from));
        from = next;
    }
}

static void use(calls *c, uint32_t engine, uint32_t what, uint32_t part) {
    bool *used = c->used[what][part];
    for (uint32_t e = 0; e < KILN_VTA_ENGINE_COUNT; e++)
        if (used[e] && e != engine && c->hops++ != c->left_out) hop(c, e, engine);
    used[engine] = true;
}

static void add_copy(calls *c, const kiln_vta_copy *copy, uint32_t part) {
    const bool is_acc = copy->memory != KILN_VTA_INP && copy->memory != KILN_VTA_WGT;
    use(c,
        copy->memory == KILN_VTA_OUT ? KILN_VTA_ENGINE_STORE
        : is_acc                     ? KILN_VTA_ENGINE_COMPUTE
                                     : KILN_VTA_ENGINE_LOAD,
        is_acc                         ? PLACE_ACC
        : copy->memory == KILN_VTA_INP ? PLACE_INP
                                       : PLACE_WGT,
        part);
    expect_ok(kiln_vta_builder_copy(c->b, copy));
    plain_copy(c->p, copy);
}

/* So that nothing that was computed is lost. */
static void store_part(calls *c, uint32_t part) {
    const kiln_vta_copy copy = {.memory = KILN_VTA_OUT,
                                .buffer = BUFFER_OUT,
                                .sram_base = part * PART_TILES,
                                .dram_base = below(c, OUT_TILES - PART_TILES),
                                .saturate = has(c, KILN_VTA_CHAIN) && below(c, 2),
                                .dim_count = 1,
                                .dim = {{PART_TILES, 1, 0, 0}}};
    if (!c->is_dirty[part]) return;
    add_copy(c, &copy, part);
    c->is_dirty[part] = false;
}

static void load_all(calls *c) {
    static const uint32_t memory[] = {KILN_VTA_INP, KILN_VTA_WGT, KILN_VTA_ACC};
    for (uint32_t part = 0; part < PARTS; part++)
        for (uint32_t i = 0; i < 3; i++) {
            const kiln_vta_copy copy = {.memory = memory[i],
                                        .buffer = BUFFER_INP + i,
                                        .sram_base = part * PART_TILES,
                                        .dram_base = below(c, TILES - PART_TILES),
                                        .dim_count = 1,
                                        .dim = {{PART_TILES, 1, 0, 0}}};
            add_copy(c, &copy, part);
        }
}

/* Of any form, within the part: zeros around, strides of all kinds, up to four dimensions. */
static void load_some(calls *c, uint32_t part) {
    static const uint32_t memory[] = {KILN_VTA_INP, KILN_VTA_WGT, KILN_VTA_ACC, KILN_VTA_ACC_BYTES};
    const uint32_t what = below(c, has(c, KILN_VTA_BYTES) ? 4 : 3);
    kiln_vta_copy copy;
    uint64_t tiles, last;
    do {
        copy = (kiln_vta_copy){
            .memory = memory[what], .buffer = BUFFER_INP + what, .dim_count = below(c, 5)};
        tiles = 1;
        last = 0;
        for (uint32_t i = 0; i < copy.dim_count; i++) {
            const uint32_t stride[] = {0, 1, 1 + below(c, 60), 6},
                           zeros[] = {0, 0, 1, below(c, 30)};
            kiln_vta_copy_dim *d = &copy.dim[i];
            *d = (kiln_vta_copy_dim){1 + below(c, 6), stride[below(c, 4)], zeros[below(c, 4)],
                                     zeros[below(c, 4)]};
            tiles *= d->before + d->extent + d->behind;
            last += (uint64_t)(d->extent - 1) * d->stride;
        }
    } while (tiles > PART_TILES || last >= TILES);
    copy.dram_base = below(c, (uint32_t)(TILES - last));
    copy.sram_base = part * PART_TILES + below(c, (uint32_t)(PART_TILES - tiles + 1));
    if (what >= 2) store_part(c, part);
    add_copy(c, &copy, part);
}

/* Some accumulators to places that lie in any order. */
static void store_some(calls *c, uint32_t part) {
    const uint32_t rows = 1 + below(c, 6), columns = 1 + below(c, 6);
    const bool turned = below(c, 2);
    const kiln_vta_copy copy = {.memory = KILN_VTA_OUT,
                                .buffer = BUFFER_OUT,
                                .sram_base =
                                    part * PART_TILES + below(c, PART_TILES - rows * columns + 1),
                                .dram_base = below(c, 64),
                                .dim_count = 2,
                                .dim = {{rows, turned ? 1 : columns + below(c, 3), 0, 0},
                                        {columns, turned ? rows + below(c, 3) : 1, 0, 0}}};
    add_copy(c, &copy, part);
}

static kiln_vta_nest random_nest(calls *c, uint32_t part) {
    kiln_vta_nest n;
    kiln_vta_uop last;
    const uint32_t base = part * PART_TILES, end = base + PART_TILES;
    do {
        n = (kiln_vta_nest){.base = {base + below(c, 32), base + below(c, 32), base + below(c, 32)},
                            .loop_count = below(c, 6)};
        last = n.base;
        for (uint32_t i = 0; i < n.loop_count; i++) {
            const uint32_t step[] = {0, 1, 1 + below(c, 16), 4};
            kiln_vta_loop *l = &n.loop[i];
            *l = (kiln_vta_loop){1 + below(c, 4),
                                 {step[below(c, 4)], step[below(c, 4)], step[below(c, 4)]}};
            last.dst += (l->extent - 1) * l->step.dst;
            last.src += (l->extent - 1) * l->step.src;
            last.wgt += (l->extent - 1) * l->step.wgt;
        }
    } while (last.dst >= end || last.src >= end || last.wgt >= end);
    return n;
}

static kiln_vta_operation random_operation(calls *c) {
    kiln_vta_operation o = {
        .op = below(c, has(c, KILN_VTA_MUL) ? KILN_VTA_ALU_OP_COUNT : KILN_VTA_ALU_MUL)};
    o.use_imm = o.op == KILN_VTA_ALU_SHR || below(c, 2); /* sources may be no legal shift */
    o.imm = o.op == KILN_VTA_ALU_SHR ? (int32_t)below(c, 20) - 4 : (int32_t)below(c, 400) - 200;
    return o;
}

static void add_kernel(calls *c, uint32_t part) {
    bool seen[TILES] = {false};
    kernel k = {.is_alu = below(c, 2), .nest = random_nest(c, part), .seen = seen};
    kiln_status st;
    if (k.is_alu) {
        k.operation_count = 1 + below(c, below(c, 2) ? 6 : 1);
        for (uint32_t i = 0; i < k.operation_count; i++) k.operation[i] = random_operation(c);
        use(c, has(c, KILN_VTA_ENGINE) ? KILN_VTA_ENGINE_ALU : KILN_VTA_ENGINE_COMPUTE, PLACE_ACC,
            part);
        st = kiln_vta_builder_alu(c->b, &k.nest, k.operation, k.operation_count);
    } else {
        k.kind = below(c, has(c, KILN_VTA_FIRST) ? 3 : 2);
        if (k.kind == KILN_VTA_GEMM_OVERWRITE && !has(c, KILN_VTA_FIRST))
            k.kind = KILN_VTA_GEMM_RESET;
        if (k.kind != KILN_VTA_GEMM_ADD) store_part(c, part);
        for (uint32_t what = PLACE_INP; what <= PLACE_ACC; what++)
            use(c, KILN_VTA_ENGINE_COMPUTE, what, part);
        st = kiln_vta_builder_gemm(c->b, k.kind, &k.nest);
    }
    c->nests++;
    if (st) {
        c->refused++;
        if (kiln_status_code(st) != KILN_FAILED_PRECONDITION)
            expect_error(st, RESOURCE_EXHAUSTED, "micro-ops");
        else
            kiln_status_free(st);
        return;
    }
    c->is_dirty[part] = true;
    plain_kernel(c->p, &k, 0, k.nest.base);
}

static kiln_vta_config random_config(uint64_t seed) {
    kiln_rand r;
    kiln_rand_init(&r, seed);
    kiln_vta_config c = vta_random_config(seed);
    c.batch = 1 + (uint32_t)kiln_rand_below(&r, 2);
    c.block_in = 2u << kiln_rand_below(&r, 2);
    c.block_out = 2u << kiln_rand_below(&r, 2);
    c.inp_bits = c.wgt_bits = 8;
    c.uop_log = 8; /* 64 */
    uint32_t *log[] = {&c.inp_log, &c.wgt_log, &c.acc_log};
    static const kiln_vta_memory memory[] = {KILN_VTA_INP, KILN_VTA_WGT, KILN_VTA_ACC};
    for (uint32_t i = 0; i < 3; i++)
        for (*log[i] = 8; (1u << *log[i]) < TILES * kiln_vta_tile_bytes(&c, memory[i]);) ++*log[i];
    return c;
}

static void add_buffers(calls *c, kiln_arena *arena) {
    static const struct {
        const char *name;
        kiln_vta_memory memory;
        uint32_t tiles;
    } row[BUFFER_COUNT] = {[BUFFER_INP] = {"inp", KILN_VTA_INP, TILES},
                           [BUFFER_WGT] = {"wgt", KILN_VTA_WGT, TILES},
                           [BUFFER_ACC] = {"acc", KILN_VTA_ACC, TILES},
                           [BUFFER_ACC8] = {"acc8", KILN_VTA_ACC_BYTES, TILES},
                           [BUFFER_OUT] = {"out", KILN_VTA_OUT, OUT_TILES}};
    for (uint32_t i = 1; i < BUFFER_COUNT; i++) {
        uint32_t number;
        c->p->bytes[i] = row[i].tiles * kiln_vta_tile_bytes(&c->p->config, row[i].memory);
        c->p->buffer[i] = kiln_arena_alloc(arena, c->p->bytes[i]);
        for (uint32_t k = 0; k < c->p->bytes[i]; k++)
            c->p->buffer[i][k] = (uint8_t)kiln_rand_u64(&c->random);
        expect_ok(kiln_vta_builder_buffer(c->b, kiln_str_from(row[i].name), KILN_VTA_ROLE_ARGUMENT,
                                          c->p->bytes[i], (kiln_str){0}, &number));
        assert_int_equal(number, i);
    }
}

/* `before` gets the buffers' contents before the calls, `c->p` has those behind. */
static void call_all(calls *c, uint64_t seed, uint32_t left_out, kiln_arena *arena, plain *before) {
    *c = (calls){.left_out = left_out, .p = KILN_ARENA_NEW(arena, plain)};
    kiln_rand_init(&c->random, seed);
    c->p->config = random_config(seed);
    c->b = kiln_vta_builder_create(&c->p->config, arena);
    add_buffers(c, arena);
    *before = *c->p;
    for (uint32_t i = 1; i < BUFFER_COUNT; i++)
        before->buffer[i] = kiln_arena_copy(arena, c->p->buffer[i], c->p->bytes[i]);
    load_all(c);
    for (uint32_t left = 12 + below(c, 12); left > 0; left--) {
        const uint32_t what = below(c, 16), part = below(c, PARTS);
        if (what < 10) {
            add_kernel(c, part);
        } else if (what < 13) {
            load_some(c, part);
        } else if (what < 15) {
            store_some(c, part);
        } else {
            for (uint32_t i = 0; i < PARTS; i++) store_part(c, i);
            kiln_vta_builder_sync(c->b);
            load_all(c);
        }
    }
    for (uint32_t i = 0; i < PARTS; i++) store_part(c, i);
}

/* ---- what comes out -------------------------------------------------------------------------- */

/* Runs the programs one after the other on the buffers; false: one has the fault. */
static bool run_stream(const kiln_vta_stream *stream, plain *buffers, uint64_t order,
                       kiln_arena *arena, kiln_vta_fault *out_fault) {
    for (uint32_t i = 0; i < stream->program_count; i++) {
        const kiln_vta_program *program = &stream->program[i];
        uint64_t place[BUFFER_COUNT];
        const uint64_t bytes = kiln_vta_program_place(program, place);
        uint8_t *dram = kiln_arena_alloc(arena, bytes);
        kiln_vta_counts counts;
        kiln_vta_program_fill(program, place, dram);
        for (uint32_t k = 1; k < BUFFER_COUNT; k++)
            memcpy(dram + place[k], buffers->buffer[k], buffers->bytes[k]);
        if (!kiln_vta_fsim_run(program, dram, bytes, order, &counts, out_fault)) return false;
        for (uint32_t k = 1; k < BUFFER_COUNT; k++)
            memcpy(buffers->buffer[k], dram + place[k], buffers->bytes[k]);
    }
    return true;
}

static bool passes_check(const kiln_vta_stream *stream, kiln_vta_fault *out_fault) {
    for (uint32_t i = 0; i < stream->program_count; i++)
        if (!kiln_vta_check(&stream->program[i], out_fault)) return false;
    return true;
}

static void is_within(const kiln_vta_stream *stream, const kiln_vta_limits *limits) {
    for (uint32_t i = 0; i < stream->program_count; i++) {
        const kiln_vta_program *p = &stream->program[i];
        if (limits->instructions) assert_true(p->instruction_count <= limits->instructions);
        if (limits->bytes)
            assert_true(16 * p->instruction_count + 4 * p->uop_count <= limits->bytes);
    }
}

static void print_stream(const kiln_vta_stream *stream, uint64_t seed, const char *why) {
    print_message("seed %llu: %s\n", (unsigned long long)seed, why);
    for (uint32_t i = 0; i < stream->program_count; i++) {
        kiln_strbuf text = {0};
        kiln_vta_program_print(&stream->program[i], &text);
        print_message("%s\n", text.data);
        kiln_strbuf_deinit(&text);
    }
}

#define STREAMS 950u

static void random_calls_do_what_plain_loops_do(void **state) {
    uint32_t nests = 0, refused = 0, cut = 0, full = 0;
    uint64_t hits = 0;
    for (uint64_t seed = 1; seed <= STREAMS; seed++) {
        calls c;
        plain *before = KILN_ARENA_NEW(*state, plain);
        kiln_vta_stream stream = {0};
        kiln_vta_fault fault = {0};
        call_all(&c, seed, NO_HOP, *state, before);
        const kiln_vta_limits limits = {.instructions =
                                            seed % 3 == 0 ? 50 + (uint32_t)(seed % 50) : 0,
                                        .bytes = seed % 3 == 1 ? 16 * (60 + seed % 50) : 0};
        kiln_status st = kiln_vta_builder_finish(c.b, &limits, &stream);
        kiln_vta_builder_destroy(c.b);
        nests += c.nests;
        refused += c.refused;
        if (st && kiln_status_code(st) == KILN_RESOURCE_EXHAUSTED) {
            kiln_status_free(st); /* the limits, or micro-ops of the ALU's engine */
            full++;
        } else {
            expect_ok(st);
            if (!passes_check(&stream, &fault)) print_stream(&stream, seed, fault.text);
            assert_int_equal(fault.kind, KILN_VTA_FAULT_NONE);
            if (!run_stream(&stream, before, seed, *state, &fault))
                print_stream(&stream, seed, fault.text);
            assert_int_equal(fault.kind, KILN_VTA_FAULT_NONE);
            for (uint32_t k = 1; k < BUFFER_COUNT; k++)
                assert_memory_equal(before->buffer[k], c.p->buffer[k], c.p->bytes[k]);
            cut += stream.program_count > 1;
            hits += stream.uop_hits;
            is_within(&stream, &limits);
        }
        kiln_arena_reset(*state);
    }
    assert_true(nests >= 10000);
    assert_true(refused < nests / 3);
    assert_true(cut > STREAMS / 10 && full < STREAMS / 5);
    assert_true(hits > STREAMS);
}

/* Either it is a fault, or what it ordered was ordered without it. */
static void an_order_that_is_left_out_is_noticed(void **state) {
    uint32_t faults = 0, total = 0;
    for (uint64_t seed = 1; seed <= 40; seed++)
        for (uint32_t left_out = 0; left_out < 60; left_out += 3) {
            calls c;
            plain *before = KILN_ARENA_NEW(*state, plain);
            kiln_vta_stream stream = {0};
            kiln_vta_fault fault = {0};
            call_all(&c, seed, left_out, *state, before);
            kiln_status st = kiln_vta_builder_finish(c.b, &(kiln_vta_limits){0}, &stream);
            kiln_vta_builder_destroy(c.b);
            total++;
            if (st) {
                expect_error(st, FAILED_PRECONDITION, "compute");
                faults++;
            } else if (!passes_check(&stream, &fault)) {
                faults++;
            } else {
                assert_true(run_stream(&stream, before, 1 + left_out, *state, &fault));
                for (uint32_t k = 1; k < BUFFER_COUNT; k++)
                    assert_memory_equal(before->buffer[k], c.p->buffer[k], c.p->bytes[k]);
            }
            kiln_arena_reset(*state);
        }
    assert_in_range(faults, total / 20, total - 1); /* most are ordered by others, too */
}

/* ---- by hand --------------------------------------------------------------------------------- */

#define MACHINE "b1i2o2,i8w8a32,uop8,inp10,wgt10,acc11,bus32,clk100,alu2,pipe3,"

static kiln_vta_builder *builder_of(const char *features, kiln_arena *arena) {
    kiln_vta_config config;
    kiln_strbuf text = {0};
    uint32_t buffer;
    kiln_strbuf_printf(&text, MACHINE "%s", features);
    expect_ok(kiln_vta_config_parse(kiln_strbuf_view(&text), &config));
    kiln_strbuf_deinit(&text);
    kiln_vta_builder *b = kiln_vta_builder_create(&config, arena);
    expect_ok(kiln_vta_builder_buffer(b, KILN_STR("in"), KILN_VTA_ROLE_ARGUMENT, 1 << 20,
                                      (kiln_str){0}, &buffer));
    expect_ok(kiln_vta_builder_buffer(b, KILN_STR("out"), KILN_VTA_ROLE_SCRATCH, 4096,
                                      (kiln_str){0}, &buffer));
    static const char one[4] = {1};
    expect_ok(kiln_vta_builder_buffer(b, KILN_STR("one"), KILN_VTA_ROLE_CONSTANT, sizeof one,
                                      (kiln_str){one, sizeof one}, &buffer));
    return b;
}

static kiln_vta_stream finish(kiln_vta_builder *b, uint32_t instructions) {
    kiln_vta_stream stream = {0};
    expect_ok(
        kiln_vta_builder_finish(b, &(kiln_vta_limits){.instructions = instructions}, &stream));
    kiln_vta_builder_destroy(b);
    return stream;
}

static void expect_text(const kiln_vta_stream *stream, const char *wanted) {
    kiln_strbuf text = {0};
    kiln_vta_fault fault = {0};
    for (uint32_t i = 0; i < stream->program_count; i++) {
        const kiln_vta_program *p = &stream->program[i];
        if (!kiln_vta_check(p, &fault)) fail_msg("%s", fault.text);
        for (uint32_t k = 0; k < p->instruction_count; k++) {
            kiln_vta_instruction_print(&p->instruction[k], (kiln_str){0}, &text);
            kiln_strbuf_char(&text, '\n');
        }
    }
    assert_string_equal(text.data, wanted);
    kiln_strbuf_deinit(&text);
}

static void copies_become_few_instructions(void **state) {
    static const struct {
        kiln_vta_copy copy;
        const char *text;
    } row[] = {
        /* One tile; all that is one row is one row. */
        {{.memory = KILN_VTA_ACC, .buffer = 1, .dram_base = 9},
         "load memory=acc dram_base=9 y_size=1 x_size=1 x_stride=1\n"},
        {{.memory = KILN_VTA_ACC,
          .buffer = 1,
          .dim_count = 3,
          .dim = {{4, 12, 0, 0}, {3, 4, 0, 0}, {4, 1, 0, 0}}},
         "load memory=acc y_size=1 x_size=48 x_stride=48\n"},
        /* Rows with zeros around; columns that do not lie together. */
        {{.memory = KILN_VTA_ACC, .buffer = 1, .dim_count = 2, .dim = {{3, 8, 1, 2}, {4, 1, 3, 0}}},
         "load memory=acc y_size=3 x_size=4 x_stride=8 y_pad_0=1 y_pad_1=2 x_pad_0=3\n"},
        {{.memory = KILN_VTA_ACC, .buffer = 1, .dim_count = 1, .dim = {{4, 5, 0, 0}}},
         "load memory=acc y_size=4 x_size=1 x_stride=5\n"},
        /* Rows further apart, and more zeros, than a field can say. */
        {{.memory = KILN_VTA_ACC,
          .buffer = 1,
          .dim_count = 2,
          .dim = {{2, 65536, 0, 0}, {4, 1, 0, 0}}},
         "load memory=acc y_size=1 x_size=4\n"
         "load memory=acc sram_base=4 dram_base=65536 y_size=1 x_size=4\n"},
        {{.memory = KILN_VTA_ACC,
          .buffer = 1,
          .dim_count = 2,
          .dim = {{2, 8, 16, 0}, {4, 1, 0, 0}}},
         "load memory=acc x_size=64 y_pad_0=1\n"
         "load memory=acc sram_base=64 y_size=2 x_size=4 x_stride=8\n"},
        {{.memory = KILN_VTA_ACC,
          .buffer = 1,
          .dim_count = 2,
          .dim = {{2, 8, 0, 0}, {4, 1, 16, 3}}},
         "load memory=acc x_size=16 y_pad_0=1\nload memory=acc sram_base=16 y_size=1 x_size=4\n"
         "load memory=acc sram_base=20 x_size=19 y_pad_0=1\n"
         "load memory=acc sram_base=39 dram_base=8 y_size=1 x_size=4\n"
         "load memory=acc sram_base=43 x_size=3 y_pad_0=1\n"},
        /* Three dimensions, zeros between. */
        {{.memory = KILN_VTA_ACC,
          .buffer = 1,
          .dim_count = 3,
          .dim = {{2, 40, 0, 1}, {2, 8, 0, 0}, {4, 1, 0, 0}}},
         "load memory=acc y_size=2 x_size=4 x_stride=8\n"
         "load memory=acc sram_base=8 dram_base=40 y_size=2 x_size=4 x_stride=8\n"
         "load memory=acc sram_base=16 x_size=8 y_pad_0=1\n"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_vta_builder *b = builder_of("v1", *state);
        kiln_strbuf wanted = {0};
        kiln_strbuf_printf(&wanted, "%sfinish\n", row[i].text);
        expect_ok(kiln_vta_builder_copy(b, &row[i].copy));
        const kiln_vta_stream stream = finish(b, 0);
        expect_text(&stream, wanted.data);
        kiln_strbuf_deinit(&wanted);
    }
}

static const kiln_vta_nest eight = {.loop_count = 1, .loop = {{8, {1, 1, 0}}}};

/* A stream of `items` of load, gemm, alu and store, in turn on two halves; every item is called in
 * the same way, the first two with signals that order nothing. */
static void add_item(kiln_vta_builder *b, bool engine, uint32_t n) {
    const uint32_t half = n % 2 * 8;
    const kiln_vta_engine last = engine ? KILN_VTA_ENGINE_ALU : KILN_VTA_ENGINE_COMPUTE;
    const kiln_vta_operation shift = {.op = KILN_VTA_ALU_SHR, .use_imm = true, .imm = 2};
    kiln_vta_copy copy = {.memory = KILN_VTA_INP,
                          .buffer = 1,
                          .sram_base = half,
                          .dim_count = 1,
                          .dim = {{8, 1, 0, 0}}};
    kiln_vta_nest nest = eight;
    nest.base.dst = nest.base.src = half;
    expect_ok(kiln_vta_builder_wait(b, KILN_VTA_ENGINE_LOAD, KILN_VTA_ENGINE_COMPUTE));
    expect_ok(kiln_vta_builder_copy(b, &copy));
    copy.memory = KILN_VTA_WGT;
    copy.sram_base = 0;
    if (n % 4 == 0) expect_ok(kiln_vta_builder_copy(b, &copy)); /* again behind each sync */
    kiln_vta_builder_signal(b, KILN_VTA_ENGINE_LOAD, KILN_VTA_ENGINE_COMPUTE);
    expect_ok(kiln_vta_builder_wait(b, KILN_VTA_ENGINE_COMPUTE, KILN_VTA_ENGINE_LOAD));
    expect_ok(kiln_vta_builder_wait(b, KILN_VTA_ENGINE_COMPUTE,
                                    engine ? KILN_VTA_ENGINE_ALU : KILN_VTA_ENGINE_STORE));
    expect_ok(kiln_vta_builder_gemm(b, KILN_VTA_GEMM_RESET, &nest));
    expect_ok(kiln_vta_builder_gemm(b, KILN_VTA_GEMM_ADD, &nest));
    kiln_vta_builder_signal(b, KILN_VTA_ENGINE_COMPUTE, KILN_VTA_ENGINE_LOAD);
    if (engine) {
        kiln_vta_builder_signal(b, KILN_VTA_ENGINE_COMPUTE, KILN_VTA_ENGINE_ALU);
        expect_ok(kiln_vta_builder_wait(b, KILN_VTA_ENGINE_ALU, KILN_VTA_ENGINE_COMPUTE));
        expect_ok(kiln_vta_builder_wait(b, KILN_VTA_ENGINE_ALU, KILN_VTA_ENGINE_STORE));
    }
    expect_ok(kiln_vta_builder_alu(b, &nest, &shift, 1));
    if (engine) kiln_vta_builder_signal(b, KILN_VTA_ENGINE_ALU, KILN_VTA_ENGINE_COMPUTE);
    kiln_vta_builder_signal(b, last, KILN_VTA_ENGINE_STORE);
    expect_ok(kiln_vta_builder_wait(b, KILN_VTA_ENGINE_STORE, last));
    copy = (kiln_vta_copy){.memory = KILN_VTA_OUT,
                           .buffer = 2,
                           .sram_base = half,
                           .dram_base = n * 8,
                           .dim_count = 1,
                           .dim = {{8, 1, 0, 0}}};
    expect_ok(kiln_vta_builder_copy(b, &copy));
    kiln_vta_builder_signal(b, KILN_VTA_ENGINE_STORE, last);
}

static kiln_vta_builder *items_of(const char *features, uint32_t items, kiln_arena *arena) {
    kiln_vta_builder *b = builder_of(features, arena);
    const bool engine = strcmp(features, "v1") != 0;
    for (uint32_t i = 0; i < 2; i++) { /* both halves are free */
        kiln_vta_builder_signal(b, KILN_VTA_ENGINE_COMPUTE, KILN_VTA_ENGINE_LOAD);
        if (!engine) kiln_vta_builder_signal(b, KILN_VTA_ENGINE_STORE, KILN_VTA_ENGINE_COMPUTE);
    }
    if (engine) { /* the ALU's engine tells COMPUTE of an item that the one before is stored */
        kiln_vta_builder_signal(b, KILN_VTA_ENGINE_STORE, KILN_VTA_ENGINE_ALU);
        kiln_vta_builder_signal(b, KILN_VTA_ENGINE_ALU, KILN_VTA_ENGINE_COMPUTE);
    }
    for (uint32_t n = 0; n < items; n++) {
        add_item(b, engine, n);
        if (n % 4 == 3) kiln_vta_builder_sync(b);
    }
    return b;
}

static void tokens_become_bits_of_the_instructions_beside(void **state) {
    const kiln_vta_stream stream = finish(items_of("v1", 3, *state), 0);
    assert_int_equal(stream.no_ops, 0);
    expect_text(&stream,
                "load memory=inp y_size=1 x_size=8 x_stride=8\n"
                "load push_next memory=wgt y_size=1 x_size=8 x_stride=8\n"
                "load memory=uop y_size=1 x_size=3\n"
                "gemm pop_prev reset uop_end=1 iter_out=8 iter_in=1 dst_out=1\n"
                "gemm push_prev uop_end=1 iter_out=8 iter_in=1 dst_out=1 src_out=1\n"
                "alu push_next uop_end=1 iter_out=8 iter_in=1 dst_out=1 op=shr use_imm imm=2\n"
                "store pop_prev push_prev memory=out y_size=1 x_size=8 x_stride=8\n"
                "load push_next memory=inp sram_base=8 y_size=1 x_size=8 x_stride=8\n"
                "gemm pop_prev reset uop_bgn=1 uop_end=2 iter_out=8 iter_in=1 dst_out=1\n"
                "gemm uop_bgn=2 uop_end=3 iter_out=8 iter_in=1 dst_out=1 src_out=1\n"
                "alu push_next uop_bgn=1 uop_end=2 iter_out=8 iter_in=1 dst_out=1 op=shr "
                "use_imm imm=2\n"
                "store pop_prev memory=out sram_base=8 dram_base=8 y_size=1 x_size=8 "
                "x_stride=8\n"
                "load pop_next push_next memory=inp y_size=1 x_size=8 x_stride=8\n"
                "gemm pop_prev pop_next reset uop_end=1 iter_out=8 iter_in=1 dst_out=1\n"
                "gemm uop_end=1 iter_out=8 iter_in=1 dst_out=1 src_out=1\n"
                "alu push_next uop_end=1 iter_out=8 iter_in=1 dst_out=1 op=shr use_imm imm=2\n"
                "store pop_prev push_prev memory=out dram_base=16 y_size=1 x_size=8 "
                "x_stride=8\n"
                "finish pop_next\n");
}

static void streams_are_cut_at_a_sync(void **state) {
    kiln_vta_fault fault = {0};
    const kiln_vta_stream whole = finish(items_of("v1", 16, *state), 0);
    assert_int_equal(whole.program_count, 1);
    assert_true(kiln_vta_check(whole.program, &fault));
    /* Halves differ in base tiles, and a reset has the micro-ops of the ALU: three kernels, which
     * come together. */
    assert_int_equal(whole.uop_misses, 1);
    assert_int_equal(whole.uop_hits, 16 * 3 - 1);
    assert_int_equal(whole.no_ops, 3); /* COMPUTE tells LOAD that a store is over */
    const kiln_vta_stream two = finish(items_of("v1", 16, *state), 60);
    assert_int_equal(two.program_count, 2);
    assert_int_equal(two.no_ops, 2); /* of the syncs at which it is not cut */
    for (uint32_t i = 0; i < two.program_count; i++) {
        assert_in_range(two.program[i].instruction_count, 30, 60);
        assert_int_equal(two.program[i].buffer[2].role, KILN_VTA_ROLE_ARGUMENT);
        if (!kiln_vta_check(&two.program[i], &fault)) fail_msg("%s", fault.text);
    }
    kiln_vta_builder *b = items_of("v1", 16, *state);
    kiln_vta_stream none;
    expect_error(kiln_vta_builder_finish(b, &(kiln_vta_limits){.instructions = 20}, &none),
                 RESOURCE_EXHAUSTED, "up to a sync");
    kiln_vta_builder_destroy(b);
}

static void the_engine_of_the_alu_passes_tokens_on(void **state) {
    const kiln_vta_stream stream = finish(items_of("v1+engine", 2, *state), 0);
    assert_int_equal(stream.no_ops, 1);
    expect_text(&stream,
                "load memory=uop dram_base=3 y_size=1 x_size=1\n"
                "load memory=acc sram_base=255 x_size=1 y_pad_0=1\n"
                "load memory=inp y_size=1 x_size=8 x_stride=8\n"
                "load push_next memory=wgt y_size=1 x_size=8 x_stride=8\n"
                "load memory=uop sram_base=1 y_size=1 x_size=3\n"
                "gemm pop_prev reset uop_bgn=1 uop_end=2 iter_out=8 iter_in=1 dst_out=1\n"
                "gemm push_next uop_bgn=1 uop_end=2 iter_out=8 iter_in=1 dst_out=1 src_out=1\n"
                "alu pop_prev push_prev push_next uop_bgn=1 uop_end=2 iter_out=8 iter_in=1 "
                "dst_out=1 op=shr use_imm imm=2\n"
                "store pop_prev push_prev memory=out y_size=1 x_size=8 x_stride=8\n"
                "load push_next memory=inp sram_base=8 y_size=1 x_size=8 x_stride=8\n"
                "gemm pop_prev pop_next reset uop_bgn=2 uop_end=3 iter_out=8 iter_in=1 dst_out=1\n"
                "gemm push_next uop_bgn=3 uop_end=4 iter_out=8 iter_in=1 dst_out=1 src_out=1\n"
                "alu pop_prev pop_next push_next uop_bgn=2 uop_end=3 iter_out=8 iter_in=1 "
                "dst_out=1 op=shr use_imm imm=2\n"
                "store pop_prev push_prev memory=out sram_base=8 dram_base=8 y_size=1 x_size=8 "
                "x_stride=8\n"
                "alu pop_next push_prev uop_end=1 iter_out=1 iter_in=1 op=shr use_imm\n"
                "finish pop_next\n");
}

/* 32 micro-ops, of which the machine has place for one more than once. */
static void add_wide_kernel(kiln_vta_builder *b, uint32_t dst) {
    const kiln_vta_operation add = {KILN_VTA_ALU_ADD, true, 1};
    kiln_vta_nest nest = {.base.dst = dst, .loop_count = 7};
    for (uint32_t i = 0; i < nest.loop_count; i++)
        nest.loop[i] = (kiln_vta_loop){2, {(2u << i) - 1, 0, 0}}; /* no two are one */
    expect_ok(kiln_vta_builder_alu(b, &nest, &add, 1));
}

/* The ALU runs kernels for `dst`, each behind a token of COMPUTE; COMPUTE waits for it or does not.
 */
static kiln_status run_wide_kernels(const uint32_t *dst, uint32_t count, bool one_token, bool waits,
                                    kiln_arena *arena, kiln_vta_stream *out_stream) {
    kiln_vta_builder *b = builder_of("v1+engine", arena);
    const kiln_vta_engine compute = KILN_VTA_ENGINE_COMPUTE, alu = KILN_VTA_ENGINE_ALU;
    kiln_vta_copy copy = {
        .memory = KILN_VTA_ACC, .buffer = 1, .dim_count = 1, .dim = {{254, 1, 0, 0}}};
    for (uint32_t i = 0; i < count; i++) {
        if (i == 0 || !one_token) {
            expect_ok(kiln_vta_builder_copy(b, &copy));
            kiln_vta_builder_signal(b, compute, alu);
            expect_ok(kiln_vta_builder_wait(b, alu, compute));
        }
        add_wide_kernel(b, dst[i]);
        kiln_vta_builder_signal(b, alu, compute);
        if (waits) expect_ok(kiln_vta_builder_wait(b, compute, alu));
        copy.sram_base = 254; /* a tile of which the kernels know nothing */
        copy.dim[0].extent = 1;
    }
    kiln_status st = kiln_vta_builder_finish(b, &(kiln_vta_limits){0}, out_stream);
    kiln_vta_builder_destroy(b);
    return st;
}

static void micro_ops_that_the_alu_may_still_read_stay(void **state) {
    static const uint32_t dst[] = {0, 1, 0};
    kiln_vta_stream stream;
    kiln_vta_fault fault = {0};
    expect_error(run_wide_kernels(dst, 2, true, true, *state, &stream), RESOURCE_EXHAUSTED,
                 "no room for 32 micro-ops");
    expect_error(run_wide_kernels(dst, 2, false, false, *state, &stream), RESOURCE_EXHAUSTED,
                 "let compute wait for it");
    expect_ok(run_wide_kernels(dst, 3, false, true, *state, &stream));
    if (!kiln_vta_check(stream.program, &fault)) fail_msg("%s", fault.text);
    assert_int_equal(stream.uop_misses, 3); /* the first one comes again, from the same place */
    assert_int_equal(stream.program->uop_count, 64);
}

static void what_cannot_be_is_refused_by_name(void **state) {
    kiln_vta_builder *b = builder_of("v1", *state);
    kiln_vta_copy copy = {.memory = KILN_VTA_OUT, .buffer = 2, .dim_count = 1};
    expect_error(kiln_vta_builder_copy(b, &copy), INVALID_ARGUMENT, "dimension 0");
    copy.dim[0] = (kiln_vta_copy_dim){4, 1, 0, 1};
    expect_error(kiln_vta_builder_copy(b, &copy), INVALID_ARGUMENT, "zeros around");
    copy.dim[0] = (kiln_vta_copy_dim){4, 0, 0, 0};
    expect_error(kiln_vta_builder_copy(b, &copy), INVALID_ARGUMENT, "twice");
    copy.dim[0] = (kiln_vta_copy_dim){4, 1000, 0, 0};
    expect_error(kiln_vta_builder_copy(b, &copy), OUT_OF_RANGE, "of out, which has 4096");
    copy.dim[0] = (kiln_vta_copy_dim){257, 1, 0, 0};
    expect_error(kiln_vta_builder_copy(b, &copy), OUT_OF_RANGE, "there are 256");
    copy.dim[0] = (kiln_vta_copy_dim){1, 1, 0, 0};
    copy.buffer = 3;
    expect_error(kiln_vta_builder_copy(b, &copy), INVALID_ARGUMENT, "constant one");
    copy.buffer = 4;
    expect_error(kiln_vta_builder_copy(b, &copy), INVALID_ARGUMENT, "buffer 4; there are 1 to 3");
    copy.buffer = 2;
    copy.saturate = true;
    expect_error(kiln_vta_builder_copy(b, &copy), INVALID_ARGUMENT, "FEATURE");
    copy.memory = KILN_VTA_UOP;
    expect_error(kiln_vta_builder_copy(b, &copy), INVALID_ARGUMENT, "memory 0");

    expect_error(kiln_vta_builder_gemm(b, KILN_VTA_GEMM_OVERWRITE, &eight), INVALID_ARGUMENT,
                 "FEATURE");
    kiln_vta_nest nest = {.loop_count = 1, .loop = {{3, {0, 1, 0}}}};
    expect_error(kiln_vta_builder_gemm(b, KILN_VTA_GEMM_ADD, &nest), FAILED_PRECONDITION,
                 "less than 3");
    nest.base.dst = 256;
    expect_error(kiln_vta_builder_gemm(b, KILN_VTA_GEMM_ADD, &nest), OUT_OF_RANGE, "tile 256");

    nest = (kiln_vta_nest){.loop_count = 9};
    expect_error(kiln_vta_builder_gemm(b, KILN_VTA_GEMM_ADD, &nest), INVALID_ARGUMENT, "9 loops");
    expect_error(kiln_vta_builder_alu(b, &nest, NULL, 0), INVALID_ARGUMENT, "9 loops");

    /* A running sum, whose second operation would see less of it in a second pass. */
    kiln_vta_operation operation[] = {{.op = KILN_VTA_ALU_ADD}, {KILN_VTA_ALU_SHR, true, 1}};
    nest = (kiln_vta_nest){.base.dst = 8, .loop_count = 1, .loop = {{8, {1, 1, 0}}}};
    expect_ok(kiln_vta_builder_alu(b, &nest, operation, 2)); /* each tile once */
    nest.loop[0].step.dst = 0;
    expect_error(kiln_vta_builder_alu(b, &nest, operation, 2), FAILED_PRECONDITION,
                 "in several rounds");
    operation[1].imm = 32;
    nest.loop[0].step.dst = 1;
    expect_error(kiln_vta_builder_alu(b, &nest, operation, 2), INVALID_ARGUMENT, "SHIFT");

    expect_error(kiln_vta_builder_wait(b, KILN_VTA_ENGINE_LOAD, KILN_VTA_ENGINE_COMPUTE),
                 FAILED_PRECONDITION, "load waits for a signal of compute");
    kiln_vta_builder_destroy(b);

    /* The ALU's engine cannot begin alone; the builder keeps an accumulator. */
    kiln_vta_stream stream;
    b = builder_of("v1+engine", *state);
    assert_int_equal(kiln_vta_builder_accumulators(b), 255);
    nest = (kiln_vta_nest){.base.dst = 255};
    expect_error(kiln_vta_builder_gemm(b, KILN_VTA_GEMM_RESET, &nest), OUT_OF_RANGE, "tile 255");
    expect_ok(kiln_vta_builder_alu(b, &eight, operation, 1));
    expect_error(kiln_vta_builder_finish(b, &(kiln_vta_limits){0}, &stream), FAILED_PRECONDITION,
                 "before it took a token of compute");
    kiln_vta_builder_destroy(b);

    /* More tokens than there are places. */
    b = builder_of("v1,tok2", *state);
    copy = (kiln_vta_copy){.memory = KILN_VTA_INP, .buffer = 1};
    for (uint32_t i = 0; i < 3; i++) {
        expect_ok(kiln_vta_builder_copy(b, &copy));
        kiln_vta_builder_signal(b, KILN_VTA_ENGINE_LOAD, KILN_VTA_ENGINE_COMPUTE);
    }
    for (uint32_t i = 0; i < 3; i++)
        expect_ok(kiln_vta_builder_wait(b, KILN_VTA_ENGINE_COMPUTE, KILN_VTA_ENGINE_LOAD));
    expect_error(kiln_vta_builder_finish(b, &(kiln_vta_limits){0}, &stream), RESOURCE_EXHAUSTED,
                 "more than 2 tokens of load wait for compute");
    kiln_vta_builder_destroy(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(random_calls_do_what_plain_loops_do),
        test_with_arena(an_order_that_is_left_out_is_noticed),
        test_with_arena(copies_become_few_instructions),
        test_with_arena(tokens_become_bits_of_the_instructions_beside),
        test_with_arena(streams_are_cut_at_a_sync),
        test_with_arena(the_engine_of_the_alu_passes_tokens_on),
        test_with_arena(micro_ops_that_the_alu_may_still_read_stay),
        test_with_arena(what_cannot_be_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
