/* Schedules being written: operands in the order of prims.def, applied and recorded. */
#include "compiler-core/sched/schedule.h"

#include "base/check.h"
#include "base/macros.h"
#include "compiler-core/facts/nest.h"
#include "compiler-core/ir/device.h"
#include "compiler-core/sched/nest.h"
#include "compiler-core/sched/prim.h"

/* ---- begin and end ---- */

kiln_sched kiln_sched_begin(const kiln_program *te, const kiln_target *target, kiln_arena *arena) {
    kiln_sched s = {.arena = arena,
                    .target = target,
                    .te = te,
                    .replay = kiln_replay_begin(te, NULL, NULL, arena)};
    s.program = s.replay.p;
    return s;
}

kiln_sched *kiln_sched_try(kiln_sched *s) {
    s->trying = true;
    return s;
}

const kiln_trace *kiln_sched_trace(const kiln_sched *s) { return &s->replay.closed; }

double kiln_sched_size(const kiln_sched *s) {
    double size = 1;
    for (uint32_t i = 0; i < s->replay.closed.count; i++)
        if (s->replay.result[i].ways > 0) size *= (double)s->replay.result[i].ways;
    return size;
}

kiln_status kiln_sched_end(kiln_sched *s) {
    kiln_status bug = s->bug;
    s->bug = NULL;
    return bug;
}

/* ---- operands ---- */

static kiln_operand of_block(const kiln_sched *s, kiln_block block) {
    return (kiln_operand){.text = s->program->block.data[block].name};
}

static kiln_operand of_buffer(const kiln_sched *s, kiln_buffer buffer) {
    return (kiln_operand){.text = s->program->buffer.data[buffer].name};
}

static kiln_operand of_loop(const kiln_sched *s, kiln_sched_loop loop) {
    if (loop.location) return kiln_operand_ref(loop.location, 0);
    return (kiln_operand){.text = s->program->var.data[loop.var].name};
}

static kiln_operand of_iter(const kiln_sched *s, kiln_block block, uint32_t iter) {
    const kiln_block_info *b = &s->program->block.data[block];
    if (iter >= b->iter_count) return (kiln_operand){.factor_count = 0};
    return (kiln_operand){.text = kiln_iter_name(s->program, &b->iter[iter])};
}

static kiln_operand of_scope(kiln_scope scope) {
    return kiln_operand_name(kiln_scopes[scope].text);
}

/* ---- one instruction ---- */

typedef struct call {
    kiln_sched *s;
    kiln_instruction in;
    bool tried;
} call;

/* The instruction with its first operands; `listed` more are added, of the list that the row ends
 * with. */
static call begin(kiln_sched *s, kiln_prim prim, const kiln_operand *operand, uint32_t count,
                  uint32_t listed) {
    call c = {.s = s, .in = {.prim = prim, .operand_count = count}, .tried = s->trying};
    c.in.operand = KILN_ARENA_ARRAY(s->arena, kiln_operand, count + listed);
    for (uint32_t i = 0; i < count; i++) c.in.operand[i] = operand[i];
    s->trying = false;
    return c;
}

/* begin with these operands, each of which is evaluated once. */
#define BEGIN(s, prim, listed, ...)                                 \
    begin(s, KILN_PRIM_##prim, (const kiln_operand[]){__VA_ARGS__}, \
          KILN_ARRAY_COUNT(((const kiln_operand[]){__VA_ARGS__})), listed)

/* All of its operands. */
#define CALL(s, prim, ...) BEGIN(s, prim, 0, __VA_ARGS__)

static void add(call *c, kiln_operand operand) { c->in.operand[c->in.operand_count++] = operand; }

static void add_ints(call *c, const kiln_sched_int *value, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) add(c, value[i].operand);
}

static void add_constants(call *c, const int64_t *value, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) add(c, kiln_operand_int(value[i]));
}

static call begin_on_loops(kiln_sched *s, kiln_prim prim, const kiln_sched_loops *loops) {
    call c = begin(s, prim, NULL, 0, loops->count);
    for (uint32_t i = 0; i < loops->count; i++) add(&c, of_loop(s, loops->loop[i]));
    return c;
}

static const char *instruction_text(const call *c) {
    kiln_strbuf text = {0};
    kiln_trace_print_instruction(&c->s->replay.closed, &c->in, &text);
    return kiln_strbuf_end(&text, c->s->arena).data;
}

/* Applies the steps anew, on another program: a refused step that is no try leaves a half-changed
 * one behind. */
static void restore(kiln_sched *s) {
    const kiln_trace done = s->replay.closed;
    s->replay = kiln_replay_begin(s->te, NULL, NULL, s->arena);
    for (uint32_t i = 0; i < done.count; i++) {
        kiln_status st = kiln_replay_step(&s->replay, &done.instruction[i]);
        KILN_CHECK(st == NULL); /* the step applied before */
    }
    s->program = s->replay.p;
}

kiln_sched kiln_sched_fork(const kiln_sched *s) {
    kiln_sched fork = *s;
    KILN_CHECK(!s->trying);
    fork.bug = NULL;
    fork.keeps_refused = false;
    fork.refused.data = NULL;
    fork.refused.count = fork.refused.capacity = 0;
    restore(&fork);
    return fork;
}

/* Takes the status. */
static bool refuse(call *c, kiln_status st) {
    kiln_sched *s = c->s;
    if (c->tried && s->keeps_refused) {
        const char *reason = kiln_str_dup(s->arena, kiln_str_from(kiln_status_text(st)));
        const kiln_sched_refusal refusal = {instruction_text(c), reason};
        kiln_vec_push_in(s->arena, &s->refused, refusal);
    } else if (!c->tried) {
        if (s->replay.closed.count == KILN_TRACE_INSTRUCTIONS_MAX)
            s->bug = KILN_ERROR(RESOURCE_EXHAUSTED, "the schedule has more than %d instructions",
                                KILN_TRACE_INSTRUCTIONS_MAX);
        else
            s->bug =
                KILN_ERROR(INTERNAL, "instruction %u, %s, which a rule relies on, is refused: %s",
                           s->replay.closed.count + 1, instruction_text(c), kiln_status_text(st));
        restore(s);
    }
    kiln_status_free(st); /* kept above, or of a try, whose reason is not needed */
    return false;
}

static bool apply(call c) {
    kiln_sched *s = c.s;
    if (s->bug) return false;
    s->replay.ends_early = !c.tried;
    kiln_status st = kiln_replay_step(&s->replay, &c.in);
    return st ? refuse(&c, st) : true;
}

/* Applies an instruction that makes a block. */
static kiln_block apply_for_block(call c) {
    kiln_block made = c.s->program->block.count;
    return apply(c) ? made : 0;
}

/* Applies an instruction that makes `count` loops. */
static kiln_sched_loops apply_for_loops(call c, uint32_t count) {
    kiln_var first = c.s->program->var.count;
    kiln_sched_loops made = {0};
    for (bool applied = apply(c); applied && made.count < count; made.count++)
        made.loop[made.count].var = first + made.count;
    return made;
}

/* ---- handles and integers ---- */

kiln_sched_loops kiln_sched_loops_around(const kiln_sched *s, kiln_block block) {
    kiln_sched_loops list = {0};
    const kiln_loops around = kiln_block_loops(s->program, block);
    for (uint32_t i = 0; i < around.count && i < KILN_SCHED_LOOPS_MAX; i++)
        list.loop[list.count++].var = s->program->stmt.data[around.loop[i]].var;
    return list;
}

kiln_sched_loop kiln_sched_loop_around(const kiln_sched *s, kiln_block block, int position) {
    const kiln_loops around = kiln_block_loops(s->program, block);
    const int at = position < 0 ? (int)around.count + position : position;
    if (at < 0 || at >= (int)around.count) return (kiln_sched_loop){0};
    return (kiln_sched_loop){.var = s->program->stmt.data[around.loop[at]].var};
}

/* Loops are named "BLOCK.ITER" as they are made for an iterator (kiln_block_make_nest). */
static bool is_loop_of(kiln_str loop, kiln_str block, kiln_str iter) {
    return loop.size == block.size + 1 + iter.size && loop.data[block.size] == '.' &&
           kiln_str_equal(kiln_str_slice(loop, 0, block.size), block) &&
           kiln_str_equal(kiln_str_slice(loop, block.size + 1, loop.size), iter);
}

kiln_sched_loop kiln_sched_loop_of(const kiln_sched *s, kiln_block block, uint32_t iter) {
    const kiln_program *p = s->program;
    const kiln_block_info *b = &p->block.data[block];
    const kiln_loops around = kiln_block_loops(p, block);
    for (uint32_t i = 0; i < around.count && iter < b->iter_count; i++) {
        kiln_var var = p->stmt.data[around.loop[i]].var;
        if (is_loop_of(p->var.data[var].name, b->name, kiln_iter_name(p, &b->iter[iter])))
            return (kiln_sched_loop){.var = var};
    }
    return (kiln_sched_loop){0};
}

bool kiln_sched_loop_is_none(kiln_sched_loop loop) { return !loop.var && !loop.location; }

int64_t kiln_sched_extent(const kiln_sched *s, kiln_sched_loop loop) {
    kiln_stmt stmt =
        loop.var ? kiln_program_find_loop(s->program, s->program->var.data[loop.var].name) : 0;
    return stmt ? s->program->stmt.data[stmt].extent : 1;
}

void kiln_sched_loops_add(kiln_sched_loops *list, kiln_sched_loop loop) {
    if (kiln_sched_loop_is_none(loop)) return;
    KILN_CHECK(list->count < KILN_SCHED_LOOPS_MAX);
    list->loop[list->count++] = loop;
}

kiln_sched_int kiln_sched_const(int64_t value) { return (kiln_sched_int){kiln_operand_int(value)}; }

kiln_sched_int kiln_sched_rest(void) { return kiln_sched_const(-1); }

kiln_sched_int kiln_sched_element(kiln_sched_sample sample, uint32_t element) {
    if (!sample.instruction) return (kiln_sched_int){{.factor_count = 0}}; /* refused where used */
    return (kiln_sched_int){kiln_operand_ref(sample.instruction, element)};
}

int64_t kiln_sched_decided(const kiln_sched *s, kiln_sched_sample sample, uint32_t element) {
    const kiln_replay_result *from =
        sample.instruction ? &s->replay.result[sample.instruction - 1] : NULL;
    return from && element < from->count ? from->value[element] : 0;
}

kiln_sched_int kiln_sched_times(kiln_sched_int a, kiln_sched_int b) {
    return (kiln_sched_int){kiln_operand_times(a.operand, b.operand)};
}

/* ---- the algorithm ---- */

bool kiln_sched_algorithm(kiln_sched *s, kiln_algorithm algorithm) {
    bool applied = apply(CALL(s, ALGORITHM, kiln_operand_name(kiln_algorithm_name(algorithm))));
    s->program = s->replay.p;
    return applied;
}

/* ---- samplers ---- */

static kiln_sched_sample sampled(call c, const int64_t *decision, uint32_t count) {
    c.in.decided = true;
    c.in.decision_count = count;
    for (uint32_t i = 0; i < count; i++) c.in.decision[i] = decision[i];
    return (kiln_sched_sample){apply(c) ? c.s->replay.closed.count : 0};
}

kiln_sched_sample kiln_sched_perfect_tile(kiln_sched *s, kiln_sched_loop loop, uint32_t parts,
                                          int64_t innermost_max, const int64_t *preferred) {
    KILN_CHECK(parts <= KILN_DECISIONS_MAX);
    return sampled(CALL(s, PERFECT_TILE, of_loop(s, loop), kiln_operand_int(parts),
                        kiln_operand_int(innermost_max)),
                   preferred, parts);
}

kiln_sched_sample kiln_sched_categorical(kiln_sched *s, const int64_t *value, uint32_t count,
                                         uint32_t preferred) {
    call c = begin(s, KILN_PRIM_CATEGORICAL, NULL, 0, count);
    add_constants(&c, value, count);
    return sampled(c, &(int64_t){preferred}, 1);
}

kiln_sched_sample kiln_sched_choice(kiln_sched *s, uint32_t width, const int64_t *value,
                                    uint32_t rows, uint32_t preferred) {
    call c = BEGIN(s, CHOICE, width * rows, kiln_operand_int(width));
    add_constants(&c, value, width * rows);
    return sampled(c, &(int64_t){preferred}, 1);
}

kiln_sched_loop kiln_sched_location(kiln_sched *s, kiln_block block, uint32_t places,
                                    uint32_t preferred) {
    call c = CALL(s, LOCATION, of_block(s, block), kiln_operand_int(places));
    return (kiln_sched_loop){.location = sampled(c, &(int64_t){preferred}, 1).instruction};
}

/* ---- loops ---- */

kiln_sched_loops kiln_sched_split(kiln_sched *s, kiln_sched_loop loop, const kiln_sched_int *factor,
                                  uint32_t count) {
    call c = BEGIN(s, SPLIT, count, of_loop(s, loop));
    add_ints(&c, factor, count);
    return apply_for_loops(c, count);
}

kiln_sched_loop kiln_sched_fuse(kiln_sched *s, const kiln_sched_loops *loops) {
    return apply_for_loops(begin_on_loops(s, KILN_PRIM_FUSE, loops), 1).loop[0];
}

bool kiln_sched_reorder(kiln_sched *s, const kiln_sched_loops *order) {
    return apply(begin_on_loops(s, KILN_PRIM_REORDER, order));
}

bool kiln_sched_vectorize(kiln_sched *s, kiln_sched_loop loop) {
    return apply(CALL(s, VECTORIZE, of_loop(s, loop)));
}

bool kiln_sched_unroll(kiln_sched *s, kiln_sched_loop loop) {
    return apply(CALL(s, UNROLL, of_loop(s, loop)));
}

bool kiln_sched_parallel(kiln_sched *s, kiln_sched_loop loop) {
    return apply(CALL(s, PARALLEL, of_loop(s, loop)));
}

bool kiln_sched_bind(kiln_sched *s, kiln_sched_loop loop, kiln_loop_axis axis) {
    return apply(CALL(s, BIND, of_loop(s, loop), kiln_operand_name(kiln_axes[axis].text)));
}

bool kiln_sched_vthread(kiln_sched *s, kiln_sched_loop loop) {
    return apply(CALL(s, VTHREAD, of_loop(s, loop)));
}

bool kiln_sched_annotate(kiln_sched *s, kiln_sched_loop loop, const char *key_and_value) {
    return apply(CALL(s, ANNOTATE, of_loop(s, loop), kiln_operand_name(key_and_value)));
}

bool kiln_sched_tensorize(kiln_sched *s, kiln_sched_loop lanes, const kiln_intrinsic *intrinsic) {
    return apply(CALL(s, TENSORIZE, of_loop(s, lanes), kiln_operand_name(intrinsic->name)));
}

kiln_sched_loops kiln_sched_divide(kiln_sched *s, kiln_block block, uint32_t iter,
                                   kiln_sched_int inner) {
    return apply_for_loops(
        CALL(s, DIVIDE, of_block(s, block), of_iter(s, block, iter), inner.operand), 2);
}

bool kiln_sched_merge(kiln_sched *s, kiln_block block, const uint32_t *iter, uint32_t count) {
    kiln_strbuf names = {0};
    for (uint32_t i = 0; i < count; i++)
        kiln_strbuf_printf(&names, "%s%.*s", i ? "," : "",
                           KILN_STR_ARG(of_iter(s, block, iter[i]).text));
    return apply(CALL(s, MERGE, of_block(s, block),
                      kiln_operand_name(kiln_strbuf_end(&names, s->arena).data)));
}

/* ---- places ---- */

bool kiln_sched_compute_at(kiln_sched *s, kiln_block block, kiln_sched_loop at) {
    return apply(CALL(s, COMPUTE_AT, of_block(s, block), of_loop(s, at)));
}

bool kiln_sched_reverse_compute_at(kiln_sched *s, kiln_block block, kiln_sched_loop at) {
    return apply(CALL(s, REVERSE_COMPUTE_AT, of_block(s, block), of_loop(s, at)));
}

bool kiln_sched_inline(kiln_sched *s, kiln_block block) {
    return apply(CALL(s, INLINE, of_block(s, block)));
}

kiln_block kiln_sched_decompose_reduction(kiln_sched *s, kiln_block block, kiln_sched_loop at) {
    return apply_for_block(CALL(s, DECOMPOSE_REDUCTION, of_block(s, block), of_loop(s, at)));
}

kiln_block kiln_sched_rfactor(kiln_sched *s, kiln_block block, uint32_t iter,
                              kiln_sched_int parts) {
    return apply_for_block(
        CALL(s, RFACTOR, of_block(s, block), of_iter(s, block, iter), parts.operand));
}

/* ---- memory ---- */

kiln_block kiln_sched_cache_read(kiln_sched *s, kiln_block block, kiln_buffer buffer,
                                 kiln_scope scope) {
    return apply_for_block(
        CALL(s, CACHE_READ, of_block(s, block), of_buffer(s, buffer), of_scope(scope)));
}

kiln_block kiln_sched_gather(kiln_sched *s, kiln_block block, kiln_buffer buffer,
                             kiln_scope scope) {
    return apply_for_block(
        CALL(s, GATHER, of_block(s, block), of_buffer(s, buffer), of_scope(scope)));
}

kiln_block kiln_sched_unit_product(kiln_sched *s, kiln_block block, kiln_buffer buffer,
                                   uint32_t iter, kiln_sched_int size) {
    return apply_for_block(CALL(s, UNIT_PRODUCT, of_block(s, block), of_buffer(s, buffer),
                                of_iter(s, block, iter), size.operand));
}

kiln_block kiln_sched_cache_write(kiln_sched *s, kiln_block block, kiln_scope scope) {
    return apply_for_block(CALL(s, CACHE_WRITE, of_block(s, block), of_scope(scope)));
}

bool kiln_sched_set_scope(kiln_sched *s, kiln_buffer buffer, kiln_scope scope) {
    return apply(CALL(s, SET_SCOPE, of_buffer(s, buffer), of_scope(scope)));
}

static void print_extent(kiln_strbuf *out, char sign, int64_t value) {
    if (value < 0)
        kiln_strbuf_printf(out, "%c{%lld}", sign, (long long)(-1 - value));
    else
        kiln_strbuf_printf(out, "%c%lld", sign, (long long)value);
}

/* As kiln_layout_print, with "{k}" for integers of the schedule. */
static const char *layout_text(kiln_arena *arena, const kiln_layout *layout) {
    kiln_strbuf text = {0};
    if (layout->piece_count == 0) kiln_strbuf_text(&text, "row");
    for (uint32_t i = 0; i < layout->piece_count; i++) {
        const kiln_layout_piece *piece = &layout->piece[i];
        kiln_strbuf_printf(&text, "%sd%u", i ? "," : "", piece->dim);
        if (piece->divisor != 1) print_extent(&text, '/', piece->divisor);
        if (piece->modulus != 0) print_extent(&text, '%', piece->modulus);
    }
    return kiln_strbuf_end(&text, arena).data;
}

bool kiln_sched_transform_layout(kiln_sched *s, kiln_buffer buffer, const kiln_layout *layout,
                                 const kiln_sched_int *given, uint32_t count) {
    call c = BEGIN(s, TRANSFORM_LAYOUT, count, of_buffer(s, buffer),
                   kiln_operand_name(layout_text(s->arena, layout)));
    add_ints(&c, given, count);
    if (s->row_major && s->program->buffer.data[buffer].scope == KILN_SCOPE_GLOBAL && !s->bug)
        return refuse(&c, ILLEGAL("everything in memory stays row-major in this space"));
    return apply(c);
}

bool kiln_sched_swizzle(kiln_sched *s, kiln_buffer buffer, kiln_sched_int pitch,
                        kiln_sched_int unit, kiln_sched_int ways, kiln_sched_int step) {
    return apply(CALL(s, SWIZZLE, of_buffer(s, buffer), pitch.operand, unit.operand, ways.operand,
                      step.operand));
}

bool kiln_sched_pipeline(kiln_sched *s, kiln_sched_loop loop, kiln_sched_int stages) {
    return apply(CALL(s, PIPELINE, of_loop(s, loop), stages.operand));
}

bool kiln_sched_producer(kiln_sched *s, kiln_sched_loop loop, kiln_sched_int on) {
    return apply(CALL(s, PRODUCER, of_loop(s, loop), on.operand));
}

bool kiln_sched_resident(kiln_sched *s, kiln_sched_loop loop, kiln_sched_int groups) {
    return apply(CALL(s, RESIDENT, of_loop(s, loop), groups.operand));
}

bool kiln_sched_pad(kiln_sched *s, kiln_block block, uint32_t iter, kiln_sched_int multiple) {
    return apply(CALL(s, PAD, of_block(s, block), of_iter(s, block, iter), multiple.operand));
}

bool kiln_sched_prefetch(kiln_sched *s, kiln_buffer buffer, kiln_sched_loop loop,
                         kiln_sched_int on) {
    return apply(CALL(s, PREFETCH, of_buffer(s, buffer), of_loop(s, loop), on.operand));
}
