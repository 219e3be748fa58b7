/* Schedules being written: operands in the order of prims.def, applied and recorded. */
#include "compiler-core/sched/schedule.h"

#include <string.h>

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

/* ---- one instruction ---- */

typedef struct call {
    kiln_sched *s;
    kiln_instruction in;
    const char *letter; /* of the operand that comes next, in prims.def */
    bool tried;
} call;

/* `listed`: operands of the list that the row ends with. */
static call begin(kiln_sched *s, kiln_prim prim, uint32_t listed) {
    const char *letters = kiln_prim_operands(prim);
    call c = {.s = s, .in = {.prim = prim}, .letter = letters, .tried = s->trying};
    c.in.operand = KILN_ARENA_ARRAY(s->arena, kiln_operand, strlen(letters) + listed);
    s->trying = false;
    return c;
}

/* The next operand; what the table says it is, or the function and the table have drifted apart. */
static void put(call *c, char letter, kiln_operand operand) {
    KILN_CHECK(letter == *c->letter);
    c->in.operand[c->in.operand_count++] = operand;
    if (letter != 'I' && letter != 'L') c->letter++;
}

static void put_block(call *c, kiln_block block) {
    put(c, 'b', (kiln_operand){.text = c->s->program->block.data[block].name});
}

static void put_buffer(call *c, kiln_buffer buffer) {
    put(c, 'u', (kiln_operand){.text = c->s->program->buffer.data[buffer].name});
}

static kiln_operand loop_operand(const kiln_sched *s, kiln_sched_loop loop) {
    if (loop.location) return kiln_operand_ref(loop.location, 0);
    return (kiln_operand){.text = s->program->var.data[loop.var].name};
}

static void put_loop(call *c, kiln_sched_loop loop) { put(c, 'l', loop_operand(c->s, loop)); }

static void put_loops(call *c, const kiln_sched_loops *loops) {
    for (uint32_t i = 0; i < loops->count; i++) put(c, 'L', loop_operand(c->s, loops->loop[i]));
}

static void put_iter(call *c, kiln_block block, uint32_t iter) {
    const kiln_program *p = c->s->program;
    const kiln_block_info *b = &p->block.data[block];
    put(c, 't',
        (kiln_operand){.text = iter < b->iter_count ? kiln_iter_name(p, &b->iter[iter])
                                                    : (kiln_str){0}});
}

static void put_text(call *c, const char *text) { put(c, 't', kiln_operand_name(text)); }

static void put_ints(call *c, const kiln_sched_int *value, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) put(c, 'I', value[i].operand);
}

static void put_constants(call *c, const int64_t *value, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) put(c, 'I', kiln_operand_int(value[i]));
}

static const char *instruction_text(const call *c) {
    kiln_strbuf text = {0};
    kiln_trace_print_instruction(&c->s->replay.closed, &c->in, &text);
    const char *copy = kiln_str_dup(c->s->arena, kiln_strbuf_view(&text));
    kiln_strbuf_deinit(&text);
    return copy;
}

/* A step that is no try leaves a half-changed program behind: the good ones are taken anew. */
static void restore(kiln_sched *s) {
    const kiln_trace done = s->replay.closed;
    s->replay = kiln_replay_begin(s->te, NULL, NULL, s->arena);
    for (uint32_t i = 0; i < done.count; i++) {
        kiln_status st = kiln_replay_step(&s->replay, &done.instruction[i]);
        KILN_CHECK(st == NULL); /* it applied before */
    }
    s->program = s->replay.p;
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
    kiln_status_free(st); /* kept above, or of a try that nobody asks about */
    return false;
}

static bool apply(call *c) {
    kiln_sched *s = c->s;
    KILN_CHECK(*c->letter == '\0' || *c->letter == 'I' || *c->letter == 'L');
    if (s->bug) return false;
    s->replay.ends_early = !c->tried;
    kiln_status st = kiln_replay_step(&s->replay, &c->in);
    return st ? refuse(c, st) : true;
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

static kiln_stmt stmt_of(const kiln_program *p, kiln_var var) {
    for (kiln_stmt i = 1; var && i < p->stmt.count; i++)
        if (p->stmt.data[i].kind == KILN_STMT_FOR && p->stmt.data[i].var == var &&
            kiln_stmt_is_inside(p, i, p->root))
            return i;
    return 0;
}

int64_t kiln_sched_extent(const kiln_sched *s, kiln_sched_loop loop) {
    kiln_stmt stmt = stmt_of(s->program, loop.var);
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

kiln_sched_int kiln_sched_times(kiln_sched_int a, kiln_sched_int b) {
    return (kiln_sched_int){kiln_operand_times(a.operand, b.operand)};
}

/* Variables that the last instruction made, one loop each. */
static kiln_sched_loops loops_from(kiln_var first, uint32_t count) {
    kiln_sched_loops made = {.count = count};
    for (uint32_t i = 0; i < count; i++) made.loop[i].var = first + i;
    return made;
}

/* ---- the algorithm ---- */

bool kiln_sched_algorithm(kiln_sched *s, kiln_algorithm algorithm) {
    call c = begin(s, KILN_PRIM_ALGORITHM, 0);
    put_text(&c, kiln_algorithm_name(algorithm));
    bool applied = apply(&c);
    s->program = s->replay.p;
    return applied;
}

/* ---- samplers ---- */

static kiln_sched_sample sampled(call *c, const int64_t *decision, uint32_t count) {
    c->in.decided = true;
    c->in.decision_count = count;
    for (uint32_t i = 0; i < count; i++) c->in.decision[i] = decision[i];
    return (kiln_sched_sample){apply(c) ? c->s->replay.closed.count : 0};
}

kiln_sched_sample kiln_sched_perfect_tile(kiln_sched *s, kiln_sched_loop loop, uint32_t parts,
                                          int64_t innermost_max, const int64_t *preferred) {
    call c = begin(s, KILN_PRIM_PERFECT_TILE, 0);
    KILN_CHECK(parts <= KILN_DECISIONS_MAX);
    put_loop(&c, loop);
    put(&c, 'i', kiln_operand_int(parts));
    put(&c, 'i', kiln_operand_int(innermost_max));
    return sampled(&c, preferred, parts);
}

kiln_sched_sample kiln_sched_categorical(kiln_sched *s, const int64_t *value, uint32_t count,
                                         uint32_t preferred) {
    call c = begin(s, KILN_PRIM_CATEGORICAL, count);
    put_constants(&c, value, count);
    return sampled(&c, &(int64_t){preferred}, 1);
}

kiln_sched_sample kiln_sched_choice(kiln_sched *s, uint32_t width, const int64_t *value,
                                    uint32_t rows, uint32_t preferred) {
    call c = begin(s, KILN_PRIM_CHOICE, width * rows);
    put(&c, 'i', kiln_operand_int(width));
    put_constants(&c, value, width * rows);
    return sampled(&c, &(int64_t){preferred}, 1);
}

kiln_sched_loop kiln_sched_location(kiln_sched *s, kiln_block block, uint32_t places,
                                    uint32_t preferred) {
    call c = begin(s, KILN_PRIM_LOCATION, 0);
    put_block(&c, block);
    put(&c, 'i', kiln_operand_int(places));
    return (kiln_sched_loop){.location = sampled(&c, &(int64_t){preferred}, 1).instruction};
}

/* ---- loops ---- */

kiln_sched_loops kiln_sched_split(kiln_sched *s, kiln_sched_loop loop, const kiln_sched_int *factor,
                                  uint32_t count) {
    call c = begin(s, KILN_PRIM_SPLIT, count);
    kiln_var first = s->program->var.count;
    put_loop(&c, loop);
    put_ints(&c, factor, count);
    return apply(&c) ? loops_from(first, count) : (kiln_sched_loops){0};
}

kiln_sched_loop kiln_sched_fuse(kiln_sched *s, const kiln_sched_loops *loops) {
    call c = begin(s, KILN_PRIM_FUSE, loops->count);
    kiln_var fused = s->program->var.count;
    put_loops(&c, loops);
    return (kiln_sched_loop){.var = apply(&c) ? fused : 0};
}

bool kiln_sched_reorder(kiln_sched *s, const kiln_sched_loops *order) {
    call c = begin(s, KILN_PRIM_REORDER, order->count);
    put_loops(&c, order);
    return apply(&c);
}

/* Primitives of one loop. */
static bool apply_to_loop(kiln_sched *s, kiln_prim prim, kiln_sched_loop loop) {
    call c = begin(s, prim, 0);
    put_loop(&c, loop);
    return apply(&c);
}

bool kiln_sched_vectorize(kiln_sched *s, kiln_sched_loop loop) {
    return apply_to_loop(s, KILN_PRIM_VECTORIZE, loop);
}

bool kiln_sched_unroll(kiln_sched *s, kiln_sched_loop loop) {
    return apply_to_loop(s, KILN_PRIM_UNROLL, loop);
}

bool kiln_sched_parallel(kiln_sched *s, kiln_sched_loop loop) {
    return apply_to_loop(s, KILN_PRIM_PARALLEL, loop);
}

/* Primitives of one loop and a text. */
static bool apply_text(kiln_sched *s, kiln_prim prim, kiln_sched_loop loop, const char *text) {
    call c = begin(s, prim, 0);
    put_loop(&c, loop);
    put_text(&c, text);
    return apply(&c);
}

bool kiln_sched_bind(kiln_sched *s, kiln_sched_loop loop, kiln_loop_axis axis) {
    return apply_text(s, KILN_PRIM_BIND, loop, kiln_axes[axis].text);
}

bool kiln_sched_annotate(kiln_sched *s, kiln_sched_loop loop, const char *key_and_value) {
    return apply_text(s, KILN_PRIM_ANNOTATE, loop, key_and_value);
}

bool kiln_sched_tensorize(kiln_sched *s, kiln_sched_loop lanes, const kiln_intrinsic *intrinsic) {
    return apply_text(s, KILN_PRIM_TENSORIZE, lanes, intrinsic->name);
}

/* Primitives of one iterator and an integer. */
static bool apply_to_iter(kiln_sched *s, kiln_prim prim, kiln_block block, uint32_t iter,
                          kiln_sched_int value) {
    call c = begin(s, prim, 0);
    put_block(&c, block);
    put_iter(&c, block, iter);
    put(&c, 'i', value.operand);
    return apply(&c);
}

kiln_sched_loops kiln_sched_divide(kiln_sched *s, kiln_block block, uint32_t iter,
                                   kiln_sched_int inner) {
    kiln_var first = s->program->var.count;
    return apply_to_iter(s, KILN_PRIM_DIVIDE, block, iter, inner) ? loops_from(first, 2)
                                                                  : (kiln_sched_loops){0};
}

/* ---- places ---- */

/* Primitives of a block and a loop. */
static bool apply_at(kiln_sched *s, kiln_prim prim, kiln_block block, kiln_sched_loop at) {
    call c = begin(s, prim, 0);
    put_block(&c, block);
    put_loop(&c, at);
    return apply(&c);
}

bool kiln_sched_compute_at(kiln_sched *s, kiln_block block, kiln_sched_loop at) {
    return apply_at(s, KILN_PRIM_COMPUTE_AT, block, at);
}

bool kiln_sched_reverse_compute_at(kiln_sched *s, kiln_block block, kiln_sched_loop at) {
    return apply_at(s, KILN_PRIM_REVERSE_COMPUTE_AT, block, at);
}

bool kiln_sched_inline(kiln_sched *s, kiln_block block) {
    call c = begin(s, KILN_PRIM_INLINE, 0);
    put_block(&c, block);
    return apply(&c);
}

kiln_block kiln_sched_decompose_reduction(kiln_sched *s, kiln_block block, kiln_sched_loop at) {
    kiln_block made = s->program->block.count;
    return apply_at(s, KILN_PRIM_DECOMPOSE_REDUCTION, block, at) ? made : 0;
}

kiln_block kiln_sched_rfactor(kiln_sched *s, kiln_block block, uint32_t iter,
                              kiln_sched_int parts) {
    kiln_block made = s->program->block.count;
    return apply_to_iter(s, KILN_PRIM_RFACTOR, block, iter, parts) ? made : 0;
}

/* ---- memory ---- */

kiln_block kiln_sched_cache_read(kiln_sched *s, kiln_block block, kiln_buffer buffer,
                                 kiln_scope scope) {
    call c = begin(s, KILN_PRIM_CACHE_READ, 0);
    kiln_block made = s->program->block.count;
    put_block(&c, block);
    put_buffer(&c, buffer);
    put_text(&c, kiln_scopes[scope].text);
    return apply(&c) ? made : 0;
}

kiln_block kiln_sched_cache_write(kiln_sched *s, kiln_block block, kiln_scope scope) {
    call c = begin(s, KILN_PRIM_CACHE_WRITE, 0);
    kiln_block made = s->program->block.count;
    put_block(&c, block);
    put_text(&c, kiln_scopes[scope].text);
    return apply(&c) ? made : 0;
}

bool kiln_sched_set_scope(kiln_sched *s, kiln_buffer buffer, kiln_scope scope) {
    call c = begin(s, KILN_PRIM_SET_SCOPE, 0);
    put_buffer(&c, buffer);
    put_text(&c, kiln_scopes[scope].text);
    return apply(&c);
}

static void print_extent(kiln_strbuf *out, char sign, int64_t value) {
    if (value < 0)
        kiln_strbuf_printf(out, "%c{%lld}", sign, (long long)(-1 - value));
    else
        kiln_strbuf_printf(out, "%c%lld", sign, (long long)value);
}

/* As kiln_layout_print, with "{k}" for what is given. */
static const char *layout_text(kiln_arena *arena, const kiln_layout *layout) {
    kiln_strbuf text = {0};
    if (layout->piece_count == 0) kiln_strbuf_text(&text, "row");
    for (uint32_t i = 0; i < layout->piece_count; i++) {
        const kiln_layout_piece *piece = &layout->piece[i];
        kiln_strbuf_printf(&text, "%sd%u", i ? "," : "", piece->dim);
        if (piece->divisor != 1) print_extent(&text, '/', piece->divisor);
        if (piece->modulus != 0) print_extent(&text, '%', piece->modulus);
    }
    const char *copy = kiln_str_dup(arena, kiln_strbuf_view(&text));
    kiln_strbuf_deinit(&text);
    return copy;
}

bool kiln_sched_transform_layout(kiln_sched *s, kiln_buffer buffer, const kiln_layout *layout,
                                 const kiln_sched_int *given, uint32_t count) {
    call c = begin(s, KILN_PRIM_TRANSFORM_LAYOUT, count);
    put_buffer(&c, buffer);
    put_text(&c, layout_text(s->arena, layout));
    put_ints(&c, given, count);
    if (s->row_major && s->program->buffer.data[buffer].scope == KILN_SCOPE_GLOBAL && !s->bug)
        return refuse(&c, ILLEGAL("everything in memory stays row-major in this space"));
    return apply(&c);
}

bool kiln_sched_pad(kiln_sched *s, kiln_block block, uint32_t iter, kiln_sched_int multiple) {
    return apply_to_iter(s, KILN_PRIM_PAD, block, iter, multiple);
}

bool kiln_sched_prefetch(kiln_sched *s, kiln_buffer buffer, kiln_sched_loop loop,
                         kiln_sched_int on) {
    call c = begin(s, KILN_PRIM_PREFETCH, 0);
    put_buffer(&c, buffer);
    put_loop(&c, loop);
    put(&c, 'i', on.operand);
    return apply(&c);
}
