/* Spaces: sketches made by rules, and ways to draw closed traces from them. */
#include "compiler-core/rules/space.h"

#include <string.h>

#include <math.h>

#include "base/macros.h"
#include "base/vec.h"
#include "compiler-core/ir/eval.h"
#include "compiler-core/lower/lower.h"
#include "compiler-core/rules/expected.h"
#include "compiler-core/rules/rules.h"

#define SAMPLE_ATTEMPTS 256

static const kiln_rule_set *const rules_of[] = {
#define X(NAME, name, rules, lowering, features, PAYLOAD, executor, doc) \
    [KILN_TARGET_##NAME] = &kiln_rules_##rules,
#include "base/target_kinds.def"
#undef X
};

kiln_dtype kiln_space_storage(const kiln_target *target, const kiln_accuracy *accuracy) {
    bool rounds = false; /* some algorithm rounds both factors of its products to bf16 */
    for (uint32_t a = 0; a < KILN_ALGORITHM_COUNT; a++)
        rounds |= kiln_algorithm_rounds_both((kiln_algorithm)a) &&
                  kiln_algorithm_precision((kiln_algorithm)a) == KILN_PRECISION_BF16 &&
                  kiln_algorithm_is_allowed((kiln_algorithm)a, accuracy);
    return rounds && kiln_expected_halves(target) ? KILN_BF16 : KILN_DTYPE_NONE;
}

/* ---- making sketches ---- */

typedef struct maker {
    const kiln_program *te;
    const kiln_target *target;
    const kiln_space_options *options;
    kiln_arena *arena;   /* of the space */
    kiln_arena *scratch; /* of one sketch */
    kiln_algorithm algorithm;
    bool applies;        /* the algorithm, to this task */
    uint32_t first;      /* sketch that may become the default */
    uint32_t start;      /* first sketch of the algorithm */
    double least;        /* cycles that it is expected to take; 0: its rule does not say */
    double least_direct; /* the same of the direct form */
    bool fits;           /* the algorithm fits the layouts of the task's arguments */
    kiln_layout *direct; /* [arguments] of the direct form's first sketch; NULL: it has none */
    const char *why;     /* the last rule made no sketch of the direct form; NULL: none tried */
    KILN_VEC(kiln_sketch) sketch;
    KILN_VEC(kiln_refused) refused;
} maker;

/* The algorithm, unless it is the direct form, and the names of the options whose bits are set. */
static const char *options_text(const maker *m, const kiln_rule *rule, uint32_t options) {
    const char *text = m->algorithm ? kiln_algorithm_name(m->algorithm) : "";
    for (uint32_t i = 0; i < rule->option_count; i++)
        if (options >> i & 1)
            text = kiln_arena_printf(m->arena, "%s%s%s", text, *text ? ", " : "", rule->option[i]);
    return text;
}

static void add_refused(maker *m, const kiln_rule *rule, uint32_t options, const char *instruction,
                        const char *reason) {
    if (!m->options->keeps_refused) return;
    const kiln_refused refused = {rule->name, options_text(m, rule, options),
                                  kiln_str_dup(m->arena, kiln_str_from(instruction)),
                                  kiln_str_dup(m->arena, kiln_str_from(reason))};
    kiln_vec_push_in(m->arena, &m->refused, refused);
}

static const char *kept(const maker *m, const char *reason) {
    return reason ? kiln_str_dup(m->arena, kiln_str_from(reason)) : NULL;
}

static void add_sketch(maker *m, const kiln_rule *rule, uint32_t options, const kiln_sched *s,
                       const kiln_sketch_result *result) {
    const kiln_trace preferred = kiln_trace_copy(kiln_sched_trace(s), m->arena);
    kiln_trace open = preferred; /* the copy shares operands, but not instructions */
    open.instruction = kiln_arena_copy(m->arena, preferred.instruction,
                                       preferred.count * sizeof *preferred.instruction);
    for (uint32_t i = 0; i < open.count; i++) {
        open.instruction[i].decided = false;
        open.instruction[i].decision_count = 0;
    }
    const kiln_sketch sketch = {open,
                                preferred,
                                kiln_sched_size(s),
                                options_text(m, rule, options),
                                result->cycles,
                                kept(m, result->reason)};
    kiln_vec_push_in(m->arena, &m->sketch, sketch);
}

/* The last sketch becomes the algorithm's first. */
static void put_last_first(maker *m) {
    const uint32_t last = m->sketch.count - 1;
    const kiln_sketch best = m->sketch.data[last];
    for (uint32_t i = last; i > m->start; i--) m->sketch.data[i] = m->sketch.data[i - 1];
    m->sketch.data[m->start] = best;
}

static bool uses_registers(const kiln_program *p) {
    for (kiln_buffer b = 1; b < p->buffer.count; b++)
        if (p->buffer.data[b].scope == KILN_SCOPE_REGISTER) return true;
    return false;
}

/* Whether lowering accepts the sketch as the rule would close it. Rules count registers as well,
 * but lowering decides, and a sketch that it refuses cannot be a default schedule; the same holds
 * for limits of groups. Without registers and groups there is nothing to refuse. */
static kiln_sketch_result check_default(kiln_sched *s) {
    kiln_lowered lowered;
    if (!s->target->group_threads && !uses_registers(s->program)) return kiln_sketch_made();
    kiln_status st = kiln_lower(s->program, s->target, s->arena, &lowered);
    kiln_sketch_result result = kiln_sketch_made();
    if (st) result = kiln_sketch_none(kiln_str_dup(s->arena, kiln_str_from(kiln_status_text(st))));
    kiln_status_free(st); /* the next sketch, or the next rule */
    return result;
}

/* From here on no rule can change a given layout: its tries are refused. */
static kiln_status give_layouts(kiln_sched *s, const kiln_layout *const *layout) {
    kiln_program *p = s->program;
    kiln_arg_buffers arg = kiln_program_args(p);
    uint32_t count = layout ? arg.count : 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!layout[i] || p->buffer.data[arg.buffer[i]].role == KILN_ROLE_CONSTANT) continue;
        if (!kiln_layout_equal(layout[i], &p->buffer.data[arg.buffer[i]].layout) &&
            !kiln_sched_transform_layout(kiln_sched_try(s), arg.buffer[i], layout[i], NULL, 0))
            return KILN_ERROR(
                ILLEGAL_SCHEDULE, "argument %.*s of %.*s cannot have the layout it is given",
                KILN_STR_ARG(p->buffer.data[arg.buffer[i]].name), KILN_STR_ARG(p->name));
        p->buffer.data[arg.buffer[i]].pinned = true;
    }
    return KILN_OK;
}

/* An alternative that rounds both factors, or widens bytes, is worth it only for an instruction.
 */
static bool has_instructions_for(const kiln_target *target, const kiln_program *alternative) {
    for (kiln_block b = 1; b < alternative->block.count; b++) {
        if (alternative->block.data[b].removed) continue;
        const kiln_dtype factors = kiln_rounded_multiplied(alternative, b);
        if (factors != KILN_DTYPE_NONE) return kiln_expected_multiplies(target, factors);
        if (kiln_multiplies_wide(alternative, b)) return kiln_expected_wide(target) != NULL;
    }
    return true;
}

/* The task in the algorithm, if that applies, with the layouts that are given. */
static kiln_status begin_sketch(maker *m, kiln_sched *s) {
    *s = kiln_sched_begin(m->te, m->target, m->scratch);
    s->row_major = m->options->row_major;
    s->compact = m->options->compact;
    s->keeps_refused = m->options->keeps_refused;
    m->applies = !m->algorithm || (kiln_sched_algorithm(kiln_sched_try(s), m->algorithm) &&
                                   has_instructions_for(m->target, s->program));
    return m->applies ? give_layouts(s, m->options->layout) : KILN_OK;
}

#define IMAGE_RANK 4 /* channels of images are not contiguous, unless they are blocked */

/* Whether vectors are contiguous in every argument that changes from run to run. */
static bool has_vectors(const kiln_program *p, const kiln_target *target) {
    const kiln_arg_buffers arg = kiln_program_args(p);
    for (uint32_t i = 0; i < arg.count; i++) {
        const kiln_buffer_info *b = &p->buffer.data[arg.buffer[i]];
        const kiln_layout *layout = &b->layout;
        const int64_t lanes = (int64_t)(target->vector_bytes / kiln_dtype_size(b->dtype));
        const uint32_t rank = b->shape.rank;
        const int64_t row = rank > 0 && rank < IMAGE_RANK ? b->shape.dim[rank - 1] : 0;
        const int64_t block =
            layout->piece_count ? layout->piece[layout->piece_count - 1].modulus : row;
        if (b->role != KILN_ROLE_CONSTANT && (block == 0 || lanes == 0 || block % lanes != 0))
            return false;
    }
    return true;
}

static void keep_layouts(maker *m, const kiln_program *p) {
    const kiln_arg_buffers arg = kiln_program_args(p);
    m->direct = KILN_ARENA_ARRAY(m->arena, kiln_layout, arg.count);
    for (uint32_t i = 0; i < arg.count; i++) m->direct[i] = p->buffer.data[arg.buffer[i]].layout;
}

/* Whether every argument that changes from run to run has the direct form's layout. */
static bool lies_as_direct(const maker *m, const kiln_program *p) {
    const kiln_arg_buffers arg = kiln_program_args(p);
    bool same = m->direct != NULL;
    for (uint32_t i = 0; same && i < arg.count; i++) {
        const kiln_buffer_info *b = &p->buffer.data[arg.buffer[i]];
        same = b->role == KILN_ROLE_CONSTANT || kiln_layout_equal(&b->layout, &m->direct[i]);
    }
    return same;
}

/* Whether the algorithm can have the layouts of its sketch, of program `p`: transforms need
 * vectors, others the layouts of the direct form. */
static bool fits(const maker *m, kiln_program *p) {
    bool transforms = false;
    for (kiln_block b = 1; b < p->block.count; b++)
        transforms |= !p->block.data[b].removed && kiln_sketch_picks(p, b, NULL);
    const bool halves = kiln_algorithm_precision(m->algorithm) != KILN_PRECISION_F32;
    return has_vectors(p, m->target) || (!transforms && (halves || lies_as_direct(m, p)));
}

/* One sketch, or why there is none. */
static kiln_status make_sketch(maker *m, const kiln_rule *rule, uint32_t options,
                               kiln_sketch_result *out_result) {
    kiln_sched s;
    kiln_status st = begin_sketch(m, &s);
    if (st) return st;
    kiln_sketch_result result =
        m->applies ? rule->make(&s, options) : kiln_sketch_never("the algorithm does not apply");
    st = kiln_sched_end(&s);
    if (kiln_status_code(st) == KILN_RESOURCE_EXHAUSTED) {
        result = kiln_sketch_none("the program has too many blocks for one trace");
        kiln_status_free(st); /* the next rule may need fewer instructions */
        st = KILN_OK;
    }
    if (st)
        return kiln_status_note(st, "rule %s (%s) on %.*s", rule->name,
                                options_text(m, rule, options), KILN_STR_ARG(m->te->name));
    const bool leads = m->sketch.count == m->start || result.cycles < m->least;
    const kiln_sketch_result made = result;
    if (result.end == KILN_SKETCH_MADE && leads && m->first == m->start) {
        result = check_default(&s);
        m->fits = fits(m, s.program);
        if (!m->algorithm) keep_layouts(m, s.program);
    }
    for (uint32_t i = 0; i < s.refused.count; i++)
        add_refused(m, rule, options, s.refused.data[i].instruction, s.refused.data[i].reason);
    if (result.end != KILN_SKETCH_MADE && result.end != KILN_SKETCH_SAME && result.reason &&
        !m->algorithm)
        m->why = kiln_str_dup(m->arena, kiln_str_from(result.reason));
    if (result.end == KILN_SKETCH_MADE) {
        add_sketch(m, rule, options, &s, &made);
        if (leads) m->least = made.cycles;
        if (leads) put_last_first(m);
    } else {
        add_refused(m, rule, options, "", result.reason);
    }
    *out_result = result;
    return KILN_OK;
}

/* The rule's sketches with all its options that make a difference. */
static kiln_status make_sketches(maker *m, const kiln_rule *rule) {
    uint32_t idle = 0; /* options that make none */
    kiln_status st = KILN_OK;
    kiln_sketch_result result = {.end = KILN_SKETCH_MADE};
    for (uint32_t v = 0; !st && v < 1u << rule->option_count && result.end != KILN_SKETCH_NEVER;
         v++) {
        if (v & idle) continue;
        st = make_sketch(m, rule, v, &result);
        if (!st && result.end == KILN_SKETCH_SAME) idle |= 1u << result.option;
        kiln_arena_reset(m->scratch);
    }
    return st;
}

/* Sketches of one algorithm, by the first rule that makes any; its name. */
static kiln_status apply_rules(maker *m, const kiln_rule_set *rules, const char **out_rule) {
    kiln_status st = KILN_OK;
    const uint32_t others = m->sketch.count;
    m->start = others;
    m->applies = true;
    for (uint32_t r = 0; !st && r < rules->count && m->sketch.count == others && m->applies; r++) {
        st = make_sketches(m, &rules->rule[r]);
        *out_rule = rules->rule[r].name;
    }
    return st;
}

/* Products per instruction if the sketch uses a tensor intrinsic, or counts ones instead of
 * multiplying; 0: neither. An addition, and widening bytes, are instructions as well. */
static double products_at_once(maker *m, const kiln_sketch *sketch) {
    for (uint32_t i = 0; i < sketch->preferred.count; i++) {
        const kiln_instruction *in = &sketch->preferred.instruction[i];
        if (in->prim != KILN_PRIM_TENSORIZE) continue;
        const kiln_intrinsic *used = kiln_intrinsic_find(in->operand[1].text);
        return used->rows * used->lanes * used->steps /
               (1.0 + !used->accumulates + kiln_intrinsic_widens(used));
    }
    const kiln_instruction *first = sketch->preferred.instruction;
    if (!sketch->preferred.count || first->prim != KILN_PRIM_ALGORITHM) return 0;
    kiln_program *te = kiln_program_copy(m->te, m->scratch);
    kiln_program *p =
        kiln_algorithm_apply(kiln_algorithm_find(first->operand[0].text), te, m->scratch);
    const double products = kiln_expected_bit_products(te, p, m->target);
    kiln_arena_reset(m->scratch);
    return products;
}

/* Sketches from `first` on are of an algorithm made for an instruction: they are moved before the
 * others, and so become the default, if that does more products at once. False: they stay
 * behind. */
static bool put_first(maker *m, uint32_t first) {
    const uint32_t count = m->sketch.count, added = count - first;
    if (!added || !first ||
        products_at_once(m, &m->sketch.data[first]) <= products_at_once(m, &m->sketch.data[0]) ||
        (m->least_direct > 0 && m->least > m->least_direct))
        return false;
    kiln_sketch *order = KILN_ARENA_ARRAY(m->arena, kiln_sketch, count);
    for (uint32_t i = 0; i < count; i++) order[(i + added) % count] = m->sketch.data[i];
    memcpy(m->sketch.data, order, count * sizeof *order);
    return true;
}

/* Whether the algorithm multiplies halves and the sketch does so without an instruction for them:
 * each would be widened separately, as in the phases of a transposed convolution. */
static bool lacks_instruction(maker *m, const kiln_sketch *sketch) {
    bool halves = false;
    const kiln_program *p =
        kiln_algorithm_apply(m->algorithm, kiln_program_copy(m->te, m->scratch), m->scratch);
    for (kiln_block b = 1; b < p->block.count; b++)
        halves |= !p->block.data[b].removed && kiln_rounded_multiplied(p, b) != KILN_DTYPE_NONE;
    kiln_arena_reset(m->scratch);
    return halves && products_at_once(m, sketch) == 0;
}

/* With less work than this, on constants that the second cache holds, the choice does not
 * matter. */
#define RIVALS_WORK_MIN 2e6

/* Whether the algorithm's expected time is far enough below the direct form's that it may be the
 * default, and not above the best one so far. */
static bool is_rival(maker *m, double cycles, double direct, double best) {
    const kiln_algorithm_default *needs = kiln_algorithm_default_of(m->algorithm);
    bool image = false;
    kiln_program *p = kiln_program_copy(m->te, m->scratch);
    const kiln_arg_buffers arg = kiln_program_args(p);
    for (uint32_t i = 0; i < arg.count; i++)
        image |= p->buffer.data[arg.buffer[i]].shape.rank >= IMAGE_RANK;
    const bool applies = (needs->images || !image) && kiln_expected_steps(p) >= needs->steps;
    kiln_arena_reset(m->scratch);
    return applies && cycles < needs->share * direct && cycles < KILN_MAX(needs->share, 1) * best;
}

/* Expected cycles of the algorithm; infinite when it does not apply. */
static double expected_cycles(maker *m, kiln_algorithm algorithm) {
    kiln_program *p = kiln_algorithm_apply(algorithm, m->te, m->scratch);
    const double cycles = p ? kiln_expected_cycles(p, m->target) : INFINITY;
    kiln_arena_reset(m->scratch);
    return cycles;
}

/* Whether the target has vectors, which the estimate counts. */
static bool has_rivals(const maker *m) {
    return !m->options->compact && m->target->vector_bytes && m->target->core.vector > 0;
}

/* Whether a choice among transforms is worth a model. */
static bool has_work(maker *m) {
    kiln_program *p = kiln_program_copy(m->te, m->scratch);
    const bool has =
        kiln_expected_work(p) >= RIVALS_WORK_MIN || kiln_expected_streams(p, m->target);
    kiln_arena_reset(m->scratch);
    return has;
}

/* Sketches of all algorithms that are allowed, and which of them is preferred. */
static kiln_status make_all(maker *m, const char **out_rule, uint32_t *out_preferred) {
    const kiln_rule_set *rules = rules_of[m->target->kind];
    const bool rivals = has_rivals(m), works = rivals && has_work(m);
    const char *other = NULL;
    kiln_status st = KILN_OK;
    const double direct = rivals ? expected_cycles(m, KILN_ALGORITHM_DIRECT) : 0;
    double best = direct;
    for (uint32_t a = 0; !st && a < KILN_ALGORITHM_COUNT; a++) {
        const uint32_t others = m->sketch.count;
        m->algorithm = (kiln_algorithm)a;
        if (!kiln_algorithm_is_allowed(m->algorithm, &m->options->accuracy)) continue;
        const bool by_instruction = kiln_algorithm_default_of(m->algorithm)->instruction,
                   halves = kiln_algorithm_precision(m->algorithm) != KILN_PRECISION_F32;
        const double cycles = (halves ? rivals : works) && !by_instruction
                                  ? expected_cycles(m, m->algorithm)
                                  : INFINITY;
        const bool rival = is_rival(m, cycles, direct, best);
        m->first = by_instruction || rival ? others : 0;
        st = apply_rules(m, rules, a == KILN_ALGORITHM_DIRECT ? out_rule : &other);
        if (a == KILN_ALGORITHM_DIRECT) m->least_direct = m->least;
        if (!st && by_instruction && put_first(m, others)) *out_preferred = 0;
        if (st || !rival || m->sketch.count == others || !m->fits) continue;
        if (lacks_instruction(m, &m->sketch.data[others])) continue;
        best = cycles;
        *out_preferred = others;
    }
    return st;
}

/* Halves are kept as integers and computed in f32, so every device has those. */
static kiln_status check_types(const kiln_program *te, const kiln_target *target) {
    for (kiln_buffer b = 1; b < te->buffer.count; b++) {
        const kiln_buffer_info *buffer = &te->buffer.data[b];
        if (target->lacks_floats && !kiln_target_computes(target, buffer->dtype))
            return KILN_ERROR(FAILED_PRECONDITION,
                              "rules for %s have no schedule for %.*s: the device lacks %s, the "
                              "type of %.*s",
                              kiln_target_kind_name(target->kind), KILN_STR_ARG(te->name),
                              kiln_dtype_name(buffer->dtype), KILN_STR_ARG(buffer->name));
        if (buffer->dtype == KILN_F64 && !kiln_target_computes(target, KILN_F64))
            return KILN_ERROR(UNIMPLEMENTED, "the device lacks f64, the type of %.*s in %.*s",
                              KILN_STR_ARG(buffer->name), KILN_STR_ARG(te->name));
    }
    return KILN_OK;
}

kiln_status kiln_space_create_with(const kiln_program *te, const kiln_target *target,
                                   const kiln_space_options *options, kiln_arena *arena,
                                   kiln_space *out_space) {
    kiln_status st = check_types(te, target);
    if (st) return st;
    kiln_arena scratch;
    kiln_arena_init(&scratch, (size_t)1 << 20);
    maker m = {.te = te, .target = target, .options = options, .arena = arena, .scratch = &scratch};
    const char *rule = NULL;
    uint32_t preferred = 0;
    st = make_all(&m, &rule, &preferred);
    kiln_arena_deinit(&scratch);
    if (st) return st;
    if (m.sketch.count == 0)
        return KILN_ERROR(FAILED_PRECONDITION, "rules for %s have no schedule for %.*s: %s",
                          kiln_target_kind_name(target->kind), KILN_STR_ARG(te->name),
                          m.why ? m.why : "none applies");
    *out_space = (kiln_space){te,
                              target,
                              rule,
                              preferred,
                              m.sketch.count,
                              m.sketch.data,
                              m.refused.count,
                              m.refused.data};
    return KILN_OK;
}

kiln_status kiln_space_create(const kiln_program *te, const kiln_target *target, kiln_arena *arena,
                              kiln_space *out_space) {
    const kiln_space_options options = {0};
    return kiln_space_create_with(te, target, &options, arena, out_space);
}

/* ---- drawing from them ---- */

kiln_status kiln_space_sample(const kiln_space *space, kiln_rand *rand, kiln_arena *arena,
                              kiln_trace *out_trace, kiln_program **out_program) {
    kiln_status st = NULL;
    kiln_arena scratch;
    kiln_arena_init(&scratch, (size_t)1 << 20);
    for (uint32_t i = 0; i < SAMPLE_ATTEMPTS; i++) {
        kiln_status_free(st); /* a draw that is illegal is drawn again */
        const kiln_trace *sketch = &space->sketch[kiln_rand_below(rand, space->sketch_count)].open;
        kiln_trace closed;
        kiln_program *program = NULL;
        st = kiln_trace_replay(sketch, space->te, rand, &scratch, &program, &closed);
        if (!st) {
            *out_trace = kiln_trace_copy(&closed, arena);
            if (out_program) *out_program = kiln_program_copy(program, arena);
        }
        kiln_arena_reset(&scratch);
        if (kiln_status_code(st) != KILN_ILLEGAL_SCHEDULE) break;
    }
    kiln_arena_deinit(&scratch);
    return kiln_status_note(st, "drawing from the space of %.*s", KILN_STR_ARG(space->te->name));
}

kiln_status kiln_space_default(const kiln_space *space, kiln_arena *arena, kiln_trace *out_trace,
                               kiln_program **out_program) {
    return kiln_trace_replay(&space->sketch[space->preferred].preferred, space->te, NULL, arena,
                             out_program, out_trace);
}

double kiln_space_size(const kiln_space *space) {
    double size = 0;
    for (uint32_t i = 0; i < space->sketch_count; i++) size += space->sketch[i].size;
    return size;
}

/* Digits of a number in the mixed base that the ways of each decision make. */
static uint64_t choose_digit(void *context, uint64_t ways) {
    uint64_t *rest = context;
    uint64_t digit = *rest % ways;
    *rest /= ways;
    return digit;
}

kiln_status kiln_space_at(const kiln_space *space, uint64_t index, kiln_arena *arena,
                          kiln_trace *out_trace, kiln_program **out_program) {
    uint32_t sketch = 0;
    while (sketch + 1 < space->sketch_count && (double)index >= space->sketch[sketch].size)
        index -= (uint64_t)space->sketch[sketch++].size;
    if ((double)index >= space->sketch[sketch].size)
        return KILN_ERROR(OUT_OF_RANGE, "the space of %.*s has %.0f traces",
                          KILN_STR_ARG(space->te->name), kiln_space_size(space));
    return kiln_trace_replay_choosing(&space->sketch[sketch].open, space->te, choose_digit, &index,
                                      arena, out_program, out_trace);
}

void kiln_space_print(const kiln_space *space, kiln_strbuf *out) {
    kiln_strbuf_printf(out, "rule %s: %u sketches, %.6g traces\n", space->rule, space->sketch_count,
                       kiln_space_size(space));
    for (uint32_t i = 0; i < space->sketch_count; i++) {
        const kiln_sketch *sketch = &space->sketch[i];
        kiln_strbuf_printf(out, "\nsketch %u%s%s%s: %.6g traces\n", i, *sketch->options ? " (" : "",
                           sketch->options, *sketch->options ? ")" : "", sketch->size);
        kiln_trace_print(&sketch->open, out);
    }
}

void kiln_space_print_refused(const kiln_space *space, kiln_strbuf *out) {
    for (uint32_t i = 0; i < space->refused_count; i++) {
        const kiln_refused *r = &space->refused[i];
        kiln_strbuf_printf(out, "rule %s%s%s%s: ", r->rule, *r->options ? " (" : "", r->options,
                           *r->options ? ")" : "");
        if (*r->instruction)
            kiln_strbuf_printf(out, "%s is refused: %s\n", r->instruction, r->reason);
        else
            kiln_strbuf_printf(out, "no sketch: %s\n", r->reason);
    }
    if (space->refused_count == 0) kiln_strbuf_text(out, "nothing was refused\n");
}
