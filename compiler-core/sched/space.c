/* Spaces: sketches made by rules, and ways to draw closed traces from them. */
#include "compiler-core/sched/space.h"

#include "base/check.h"
#include "compiler-core/ir/eval.h"
#include "compiler-core/lower/lower.h"
#include "compiler-core/sched/rules.h"

#define SAMPLE_ATTEMPTS 256

static double trace_size(const kiln_maker *m) {
    double size = 1;
    for (uint32_t i = 0; i < m->replay.closed.count; i++)
        if (m->replay.result[i].ways > 0) size *= (double)m->replay.result[i].ways;
    return size;
}

static void add_sketch(kiln_space *space, const kiln_maker *m, kiln_arena *arena) {
    kiln_trace preferred = kiln_trace_copy(&m->trace, arena);
    kiln_trace open = kiln_trace_copy(&m->trace, arena);
    for (uint32_t i = 0; i < open.count; i++) {
        open.instruction[i].decided = false;
        open.instruction[i].decision_count = 0;
    }
    space->sketch[space->sketch_count] = open;
    space->preferred[space->sketch_count] = preferred;
    space->size[space->sketch_count++] = trace_size(m);
}

static bool uses_registers(const kiln_program *p) {
    for (kiln_buffer b = 1; b < p->buffer.count; b++)
        if (p->buffer.data[b].scope == KILN_SCOPE_REGISTER) return true;
    return false;
}

/* Whether lowering takes the sketch as the rule would close it. Rules count registers as well, but
 * lowering has the last word, and what it refuses cannot be a default schedule. Without registers
 * there is nothing to refuse. */
static bool can_be_default(const kiln_maker *m) {
    kiln_lowered lowered;
    if (!uses_registers(m->replay.p)) return true;
    kiln_status st = kiln_lower(m->replay.p, m->target, m->arena, &lowered);
    bool can = st == NULL;
    kiln_status_free(st); /* the next sketch, or the next rule */
    return can;
}

/* From here on no rule can change a given layout: its lines that try are illegal and left out. */
static kiln_status give_layouts(kiln_maker *m, const kiln_layout *const *layout) {
    kiln_program *p = m->replay.p;
    kiln_buffer arg[KILN_PROGRAM_BUFFERS_MAX];
    uint32_t count = layout ? kiln_program_args(p, arg) : 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!layout[i] || p->buffer.data[arg[i]].role == KILN_ROLE_CONSTANT) continue;
        if (!kiln_layout_equal(layout[i], &p->buffer.data[arg[i]].layout)) {
            kiln_strbuf text = {0};
            kiln_layout_print(layout[i], &text);
            bool applied = kiln_make(m, "transform_layout(%s, \"%s\")",
                                     kiln_make_buffer_name(m, arg[i]), text.data);
            kiln_strbuf_deinit(&text);
            if (!applied)
                return KILN_ERROR(ILLEGAL_SCHEDULE,
                                  "argument %.*s of %.*s cannot have the layout it is given",
                                  KILN_STR_ARG(p->buffer.data[arg[i]].name), KILN_STR_ARG(p->name));
        }
        p->buffer.data[arg[i]].pinned = true;
    }
    return KILN_OK;
}

const kiln_rule_set kiln_rules_none = {0};

static const kiln_rule_set *const rules_of[] = {
#define X(NAME, name, rules, PAYLOAD, executor, doc) [KILN_TARGET_##NAME] = &kiln_rules_##rules,
#include "base/target_kinds.def"
#undef X
};

kiln_status kiln_space_check_target(const kiln_target *target) {
    if (rules_of[target->kind]->count > 0) return KILN_OK;
    return KILN_ERROR(UNIMPLEMENTED, "there are no schedule rules for %s targets",
                      kiln_target_kind_name(target->kind));
}

static kiln_status create(const kiln_program *te, const kiln_target *target,
                          const kiln_layout *const *layout, bool row_major, kiln_arena *arena,
                          kiln_space *out_space) {
    kiln_space space = {.te = te, .target = target};
    const kiln_rule_set *rules = rules_of[target->kind];
    kiln_status st = kiln_space_check_target(target);
    if (st) return st;
    kiln_arena scratch;
    kiln_arena_init(&scratch, (size_t)1 << 20);
    for (uint32_t a = 0; !st && a < KILN_ALGORITHM_COUNT; a++) {
        const uint32_t before = space.sketch_count;
        for (uint32_t r = 0; !st && r < rules->count && space.sketch_count == before; r++) {
            const kiln_rule *rule = &rules->rule[r];
            for (uint32_t v = 0;
                 !st && v < rule->variants && space.sketch_count < KILN_SKETCHES_MAX; v++) {
                kiln_maker m = kiln_maker_begin(te, target, &scratch);
                m.row_major = row_major;
                if (a != KILN_ALGORITHM_DIRECT &&
                    !kiln_make(&m, "algorithm(\"%s\")", kiln_algorithm_name((kiln_algorithm)a)))
                    break;
                st = give_layouts(&m, layout);
                if (!st && rule->make(&m, v) && (space.sketch_count > before || can_be_default(&m)))
                    add_sketch(&space, &m, arena);
                kiln_arena_reset(&scratch);
            }
            if (space.sketch_count && !space.rule) space.rule = rule->name;
        }
    }
    kiln_arena_deinit(&scratch);
    if (st) return st;
    KILN_CHECK(space.sketch_count > 0); /* the last rule always applies */
    *out_space = space;
    return NULL;
}

kiln_status kiln_space_create(const kiln_program *te, const kiln_target *target, kiln_arena *arena,
                              kiln_space *out_space) {
    return create(te, target, NULL, false, arena, out_space);
}

kiln_status kiln_space_create_on(const kiln_program *te, const kiln_target *target,
                                 const kiln_layout *const *layout, kiln_arena *arena,
                                 kiln_space *out_space) {
    return create(te, target, layout, false, arena, out_space);
}

kiln_status kiln_space_create_row_major(const kiln_program *te, const kiln_target *target,
                                        kiln_arena *arena, kiln_space *out_space) {
    return create(te, target, NULL, true, arena, out_space);
}

kiln_status kiln_space_sample(const kiln_space *space, kiln_rand *rand, kiln_arena *arena,
                              kiln_trace *out_trace, kiln_program **out_program) {
    kiln_status st = NULL;
    kiln_arena scratch;
    kiln_arena_init(&scratch, (size_t)1 << 20);
    for (uint32_t i = 0; i < SAMPLE_ATTEMPTS; i++) {
        kiln_status_free(st); /* a draw that is illegal is drawn again */
        const kiln_trace *sketch = &space->sketch[kiln_rand_below(rand, space->sketch_count)];
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
    return kiln_trace_replay(&space->preferred[0], space->te, NULL, arena, out_program, out_trace);
}

double kiln_space_size(const kiln_space *space) {
    double size = 0;
    for (uint32_t i = 0; i < space->sketch_count; i++) size += space->size[i];
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
    while (sketch + 1 < space->sketch_count && (double)index >= space->size[sketch])
        index -= (uint64_t)space->size[sketch++];
    if ((double)index >= space->size[sketch])
        return KILN_ERROR(OUT_OF_RANGE, "the space of %.*s has %.0f traces",
                          KILN_STR_ARG(space->te->name), kiln_space_size(space));
    return kiln_trace_replay_choosing(&space->sketch[sketch], space->te, choose_digit, &index,
                                      arena, out_program, out_trace);
}

void kiln_space_print(const kiln_space *space, kiln_strbuf *out) {
    kiln_strbuf_printf(out, "rule %s: %u sketches, %.6g traces\n", space->rule, space->sketch_count,
                       kiln_space_size(space));
    for (uint32_t i = 0; i < space->sketch_count; i++) {
        kiln_strbuf_printf(out, "\nsketch %u: %.6g traces\n", i, space->size[i]);
        kiln_trace_print(&space->sketch[i], out);
    }
}
