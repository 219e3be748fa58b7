/* Moves on closed traces, within a space and into another: decisions change, and replay checks
 * them. */
#include "compiler-core/rules/mutate.h"

#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/macros.h"
#include "compiler-core/sched/prim.h"
#include "compiler-core/sched/replay.h"

#define SKETCH_MOVES 12u /* one move in this many changes to another sketch */
#define MOVES_MAX 8u     /* tried before the trace counts as one that cannot change */

/* ---- decisions ---- */

static uint32_t rows_of(const kiln_instruction *in) {
    if (in->prim == KILN_PRIM_CATEGORICAL) return in->operand_count;
    int64_t width = in->operand_count ? in->operand[0].factor[0].value : 0;
    return width > 0 ? (in->operand_count - 1) / (uint32_t)width : 0;
}

/* A prime factor of one part moves to another part; false when all parts are 1. */
static bool move_tile(kiln_instruction *in, kiln_rand *rand) {
    uint32_t from[KILN_DECISIONS_MAX], count = 0;
    for (uint32_t i = 0; i < in->decision_count; i++)
        if (in->decision[i] > 1) from[count++] = i;
    if (count == 0 || in->decision_count < 2) return false;
    uint32_t source = from[kiln_rand_below(rand, count)];
    uint32_t target = (uint32_t)kiln_rand_below(rand, in->decision_count - 1);
    target += target >= source;
    int64_t prime[64];
    uint32_t primes = 0;
    int64_t rest = in->decision[source];
    for (int64_t p = 2; p * p <= rest; p++)
        for (; rest % p == 0; rest /= p) prime[primes++] = p;
    if (rest > 1) prime[primes++] = rest;
    int64_t moved = prime[kiln_rand_below(rand, primes)];
    in->decision[source] /= moved;
    in->decision[target] *= moved;
    return true;
}

/* Another of `ways`: the next or the one before, or any. Tables are sorted by expected time or
 * size, so neighbours are alike. */
static bool move_index(kiln_instruction *in, uint64_t ways, kiln_rand *rand) {
    if (ways < 2) return false;
    int64_t now = in->decision[0], next = (int64_t)kiln_rand_below(rand, ways - 1);
    next += next >= now;
    if (kiln_rand_below(rand, 2)) next = now + (kiln_rand_below(rand, 2) ? 1 : -1);
    if (next < 0) next = 1;
    if ((uint64_t)next >= ways) next = (int64_t)ways - 2;
    in->decision[0] = next;
    return true;
}

static bool move(kiln_instruction *in, kiln_rand *rand) {
    switch (in->prim) {
    case KILN_PRIM_PERFECT_TILE: return move_tile(in, rand);
    case KILN_PRIM_CATEGORICAL:
    case KILN_PRIM_CHOICE: return move_index(in, rows_of(in), rand);
    case KILN_PRIM_LOCATION: {
        int64_t places = in->operand_count > 1 ? in->operand[1].factor[0].value : 0;
        return move_index(in, (uint64_t)KILN_MAX(places, 0) + 1, rand);
    }
    default: return false;
    }
}

static uint32_t samplers_of(const kiln_trace *trace, uint32_t out_at[KILN_TRACE_INSTRUCTIONS_MAX]) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < trace->count; i++)
        if (kiln_prim_is_sampler(trace->instruction[i].prim)) out_at[count++] = i;
    return count;
}

/* A copy whose decisions may be changed; operands stay those of `trace`. */
static kiln_trace shallow_copy(const kiln_trace *trace, kiln_arena *arena) {
    kiln_trace copy = *trace;
    copy.capacity = trace->count;
    copy.instruction =
        kiln_arena_copy(arena, trace->instruction, trace->count * sizeof *trace->instruction);
    return copy;
}

static void take_decision(kiln_instruction *to, const kiln_instruction *from) {
    if (to->prim != from->prim || !from->decided) return;
    to->decided = true;
    to->decision_count = from->decision_count;
    memcpy(to->decision, from->decision, sizeof to->decision);
}

/* ---- comparing ---- */

static bool same_operand(const kiln_operand *a, const kiln_operand *b) {
    if (!kiln_str_equal(a->text, b->text) || a->factor_count != b->factor_count) return false;
    for (uint32_t i = 0; i < a->factor_count; i++)
        if (a->factor[i].sampler != b->factor[i].sampler ||
            a->factor[i].value != b->factor[i].value)
            return false;
    return true;
}

static bool same_sketch(const kiln_trace *a, const kiln_trace *b) {
    if (a->count != b->count) return false;
    for (uint32_t i = 0; i < a->count; i++) {
        const kiln_instruction *x = &a->instruction[i], *y = &b->instruction[i];
        if (x->prim != y->prim || x->operand_count != y->operand_count) return false;
        for (uint32_t k = 0; k < x->operand_count; k++)
            if (!same_operand(&x->operand[k], &y->operand[k])) return false;
    }
    return true;
}

bool kiln_space_holds(const kiln_space *space, const kiln_trace *trace) {
    for (uint32_t i = 0; i < space->sketch_count; i++)
        if (same_sketch(&space->sketch[i].open, trace)) return true;
    return false;
}

static double decision_distance(const kiln_instruction *a, const kiln_instruction *b) {
    if (a->prim != b->prim || a->decision_count != b->decision_count) return 1;
    uint32_t differ = 0;
    for (uint32_t i = 0; i < a->decision_count; i++) differ += a->decision[i] != b->decision[i];
    return a->decision_count ? (double)differ / a->decision_count : 0;
}

double kiln_trace_distance(const kiln_trace *a, const kiln_trace *b) {
    uint32_t at_a[KILN_TRACE_INSTRUCTIONS_MAX], at_b[KILN_TRACE_INSTRUCTIONS_MAX];
    uint32_t count_a = samplers_of(a, at_a), count_b = samplers_of(b, at_b);
    uint32_t both = KILN_MIN(count_a, count_b);
    double distance = (double)(KILN_MAX(count_a, count_b) - both) + !same_sketch(a, b);
    for (uint32_t i = 0; i < both; i++)
        distance += decision_distance(&a->instruction[at_a[i]], &b->instruction[at_b[i]]);
    return distance;
}

/* ---- moves ---- */

/* The decisions of `parent` in another sketch; decisions that only that sketch has are drawn. */
static bool move_sketch(const kiln_space *space, const kiln_trace *parent, kiln_rand *rand,
                        kiln_arena *arena, kiln_trace *out) {
    const kiln_trace *other = &space->sketch[kiln_rand_below(rand, space->sketch_count)].open;
    if (same_sketch(other, parent)) return false;
    uint32_t from[KILN_TRACE_INSTRUCTIONS_MAX], to[KILN_TRACE_INSTRUCTIONS_MAX];
    uint32_t count = KILN_MIN(samplers_of(parent, from), samplers_of(other, to));
    *out = shallow_copy(other, arena);
    for (uint32_t i = 0; i < count; i++)
        take_decision(&out->instruction[to[i]], &parent->instruction[from[i]]);
    return true;
}

static bool move_decision(const kiln_trace *parent, kiln_rand *rand, kiln_arena *arena,
                          kiln_trace *out) {
    uint32_t at[KILN_TRACE_INSTRUCTIONS_MAX];
    uint32_t count = samplers_of(parent, at);
    if (count == 0) return false;
    *out = shallow_copy(parent, arena);
    return move(&out->instruction[at[kiln_rand_below(rand, count)]], rand);
}

static bool same_decisions(const kiln_trace *a, const kiln_trace *b) {
    return a->count == b->count && kiln_trace_distance(a, b) == 0;
}

static kiln_status replay_moved(const kiln_space *space, const kiln_trace *moved,
                                const kiln_trace *parent, kiln_rand *rand, kiln_arena *arena,
                                kiln_trace *out_trace, kiln_program **out_program) {
    kiln_trace closed;
    kiln_status st =
        kiln_trace_replay_snapping(moved, space->te, rand, arena, out_program, &closed);
    if (!st && same_decisions(&closed, parent))
        st = KILN_ERROR(ILLEGAL_SCHEDULE, "the decision snapped back");
    if (!st) *out_trace = closed;
    return st;
}

kiln_status kiln_space_mutate(const kiln_space *space, const kiln_trace *parent, kiln_rand *rand,
                              kiln_arena *arena, kiln_trace *out_trace,
                              kiln_program **out_program) {
    kiln_trace moved;
    bool found = false;
    for (uint32_t i = 0; i < MOVES_MAX && !found; i++) {
        bool sketch = space->sketch_count > 1 && kiln_rand_below(rand, SKETCH_MOVES) == 0;
        found = sketch ? move_sketch(space, parent, rand, arena, &moved)
                       : move_decision(parent, rand, arena, &moved);
    }
    if (!found) return KILN_ERROR(ILLEGAL_SCHEDULE, "the trace has no decision to change");
    return replay_moved(space, &moved, parent, rand, arena, out_trace, out_program);
}

kiln_status kiln_space_cross(const kiln_space *space, const kiln_trace *first,
                             const kiln_trace *second, kiln_rand *rand, kiln_arena *arena,
                             kiln_trace *out_trace, kiln_program **out_program) {
    uint32_t to[KILN_TRACE_INSTRUCTIONS_MAX], from[KILN_TRACE_INSTRUCTIONS_MAX];
    uint32_t count = KILN_MIN(samplers_of(first, to), samplers_of(second, from));
    kiln_trace mixed = shallow_copy(first, arena);
    for (uint32_t i = 0; i < count; i++)
        if (kiln_rand_below(rand, 2))
            take_decision(&mixed.instruction[to[i]], &second->instruction[from[i]]);
    return replay_moved(space, &mixed, first, rand, arena, out_trace, out_program);
}

/* ---- from the space of another target ---- */

static bool same_texts(const kiln_instruction *a, const kiln_instruction *b) {
    if (a->prim != b->prim) return false;
    for (uint32_t i = 0; i < KILN_MIN(a->operand_count, b->operand_count); i++)
        if (!kiln_str_equal(a->operand[i].text, b->operand[i].text)) return false;
    return true;
}

/* Number of instructions of `a` that are in `b` as well, apart from numbers, less that of the
 * others. */
static int64_t likeness(const kiln_trace *a, const kiln_trace *b) {
    int64_t alike = 0;
    for (uint32_t i = 0; i < a->count; i++)
        for (uint32_t k = 0; k < b->count; k++)
            if (same_texts(&a->instruction[i], &b->instruction[k])) {
                alike++;
                break;
            }
    return 2 * alike - (int64_t)a->count - (int64_t)b->count;
}

/* A sampler's table: rows of `width` numbers, each a constant. */
typedef struct table {
    const kiln_operand *first;
    uint32_t width, rows;
} table;

static table table_of(const kiln_instruction *in) {
    bool plain = in->prim == KILN_PRIM_CATEGORICAL;
    table t = {plain ? in->operand : in->operand + 1, 1, rows_of(in)};
    if (!plain && in->operand_count) t.width = (uint32_t)in->operand[0].factor[0].value;
    return t;
}

static double row_distance(const table *a, uint32_t row_a, const table *b, uint32_t row_b) {
    double distance = 0;
    for (uint32_t i = 0; i < a->width; i++) {
        int64_t x = a->first[row_a * a->width + i].factor[0].value;
        int64_t y = b->first[row_b * b->width + i].factor[0].value;
        distance += fabs(log2((double)(KILN_MAX(x, 0) + 1) / (double)(KILN_MAX(y, 0) + 1)));
    }
    return distance;
}

/* The row of `to` whose numbers are nearest to those that `from` decided on; the first of several.
 */
static void take_row(kiln_instruction *to, const kiln_instruction *from) {
    table theirs = table_of(from), ours = table_of(to);
    bool comparable = theirs.width == ours.width && from->decision_count == 1 && ours.rows > 0 &&
                      from->decision[0] >= 0 && from->decision[0] < theirs.rows;
    if (!comparable) return; /* the index as it is: it snaps */
    uint32_t best = 0;
    for (uint32_t row = 1; row < ours.rows; row++)
        if (row_distance(&ours, row, &theirs, (uint32_t)from->decision[0]) <
            row_distance(&ours, best, &theirs, (uint32_t)from->decision[0]))
            best = row;
    to->decision[0] = best;
}

/* Takes decisions of `foreign` for those of `sketch`, in their order, if it has the same ones. */
static uint32_t take_answers(kiln_trace *sketch, const kiln_trace *foreign) {
    uint32_t to[KILN_TRACE_INSTRUCTIONS_MAX], from[KILN_TRACE_INSTRUCTIONS_MAX];
    uint32_t count = samplers_of(sketch, to), theirs = samplers_of(foreign, from), taken = 0;
    for (uint32_t i = 0, next = 0; i < count; i++) {
        kiln_instruction *in = &sketch->instruction[to[i]];
        uint32_t k = next;
        while (k < theirs && !same_texts(in, &foreign->instruction[from[k]])) k++;
        if (k == theirs) continue;
        take_decision(in, &foreign->instruction[from[k]]);
        if (in->prim == KILN_PRIM_CATEGORICAL || in->prim == KILN_PRIM_CHOICE)
            take_row(in, &foreign->instruction[from[k]]);
        next = k + 1;
        taken++;
    }
    return taken;
}

kiln_status kiln_space_adopt(const kiln_space *space, const kiln_trace *foreign, kiln_arena *arena,
                             kiln_trace *out_trace, kiln_program **out_program) {
    uint32_t best = 0, at[KILN_TRACE_INSTRUCTIONS_MAX];
    for (uint32_t i = 1; i < space->sketch_count; i++)
        if (likeness(&space->sketch[i].open, foreign) >
            likeness(&space->sketch[best].open, foreign))
            best = i;
    kiln_trace adopted = shallow_copy(&space->sketch[best].preferred, arena);
    uint32_t taken = take_answers(&adopted, foreign), asked = samplers_of(&adopted, at);
    if (taken == 0 || taken * 2 < asked)
        return KILN_ERROR(ILLEGAL_SCHEDULE, "only %u of %u decisions of %.*s are made there", taken,
                          asked, KILN_STR_ARG(space->te->name));
    kiln_rand rand; /* draws nothing: every decision is made */
    kiln_rand_init(&rand, 0);
    return kiln_trace_replay_snapping(&adopted, space->te, &rand, arena, out_program, out_trace);
}
