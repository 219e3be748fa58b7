/* Tensor intrinsics: the loop that `tensorize` marked becomes one instruction over all lanes.
 *
 * Both operands are brought into one form, a word of four bytes per lane that holds the steps of
 * the lane's sum: read as a vector where the steps of neighbouring lanes lie behind one another,
 * joined of vectors where lanes do, one for each step, or one word for all lanes. Where the bytes
 * lie otherwise the loop is emitted as it stands. */
#include <string.h>

#include "base/check.h"
#include "compiler-core/codegen/walk.h"

#define GROUP_BYTES                                                              \
    16 /* words for all lanes are loaded by so many bytes where they are aligned \
        */

/* One use of an intrinsic: result += sum of a * b. */
typedef struct use {
    const kiln_intrinsic *intrinsic;
    const kiln_stmt_info *loop;
    kiln_stmt store;
    bool never;                              /* it does nothing here */
    kiln_expr before;                        /* load of the result */
    kiln_expr load[KILN_INTRINSIC_OPERANDS]; /* a, b */
} use;

/* ---- what the loop does ---------------------------------------------------------------------- */

const kiln_program *kiln_walk_meaning(kiln_walk *w, const kiln_intrinsic *intrinsic) {
    const kiln_program **known = &w->meaning[intrinsic - kiln_intrinsics];
    if (!*known) *known = kiln_intrinsic_program(intrinsic, w->arena);
    return *known;
}

/* What a loop does under conditions that are known here, as those of a tile's rest are once its
 * points are unrolled; 0: not known. `*out_never`: nothing. */
static kiln_stmt under_known(kiln_walk *w, const kiln_stmt_info *loop, bool *out_never) {
    kiln_stmt at = loop->child.data[0];
    *out_never = false;
    for (const kiln_stmt_info *s = &w->p->stmt.data[at]; s->kind == KILN_STMT_IF;
         s = &w->p->stmt.data[at]) {
        int64_t holds;
        if (kiln_expr_uses_var(w->p, s->condition, loop->var)) return 0;
        w->stamp = ++w->last_stamp;
        if (!w->b->ops->known_integer(w->b, kiln_walk_expr(w, s->condition), &holds)) return 0;
        *out_never |= !holds;
        at = s->child.data[0];
    }
    return at;
}

/* store = load of the same element + value of the intrinsic. */
static bool find_use(kiln_walk *w, kiln_stmt stmt, use *out) {
    const kiln_program *p = w->p;
    const kiln_stmt_info *loop = &p->stmt.data[stmt];
    const kiln_intrinsic *intrinsic = kiln_intrinsic_of_loop(p, stmt);
    if (!intrinsic || kiln_intrinsic_in_tiles(intrinsic) || w->lanes != intrinsic->lanes ||
        w->mask || loop->extent != intrinsic->steps)
        return false;
    bool never;
    kiln_stmt store = under_known(w, loop, &never);
    const kiln_stmt_info *s = &p->stmt.data[store];
    if (!store || s->kind != KILN_STMT_STORE || kiln_expr_get(p, s->value)->op != KILN_EXPR_ADD)
        return false;
    *out = (use){.intrinsic = intrinsic, .loop = loop, .store = store, .never = never};
    for (uint32_t i = 0; i < 2; i++) {
        kiln_expr before = kiln_expr_operand(p, s->value, i);
        const kiln_expr_node *node = kiln_expr_get(p, before);
        if (node->op != KILN_EXPR_LOAD || node->payload.id != s->buffer) continue;
        out->before = before;
        return kiln_intrinsic_matches(kiln_walk_meaning(w, intrinsic), p,
                                      kiln_expr_operand(p, s->value, 1 - i), out->load);
    }
    return false;
}

/* Where an operand lies: that of step 0, and how far the next step is from it. */
typedef struct place {
    kiln_walk_address at;
    int64_t step_stride; /* elements */
} place;

/* Finds it, where steps of each lane lie behind one another, or lanes of each step do. */
static bool find_place(kiln_walk *w, const use *u, kiln_expr load, place *out) {
    kiln_buffer buffer = kiln_expr_get(w->p, load)->payload.id;
    const kiln_affine *offset = kiln_walk_load_offset(w, load);
    const uint32_t steps = u->intrinsic->steps;
    if (w->p->buffer.data[buffer].scope == KILN_SCOPE_REGISTER) return false;
    for (uint32_t step = steps; step-- > 0;) {
        kiln_walk_bind(w, u->loop->var, u->loop->first + step);
        kiln_walk_address at = kiln_walk_address_of(w, buffer, offset);
        const int64_t stride = step + 1 < steps ? out->at.constant - at.constant : 0;
        if (!at.linear ||
            (step + 1 < steps &&
             (at.pointer != out->at.pointer || at.lane_stride != out->at.lane_stride)) ||
            (step + 2 < steps && stride != out->step_stride))
            return false;
        *out = (place){at, stride};
    }
    const int64_t lane_stride = out->at.lane_stride;
    return lane_stride == 1 ||
           (out->step_stride == 1 && (lane_stride == 0 || lane_stride == steps));
}

/* ---- operands -------------------------------------------------------------------------------- */

/* Elements from memory, bytes or halves, remembered until the buffer is written. */
static kiln_ssa load_elements(kiln_walk *w, kiln_buffer buffer, const kiln_walk_address *at,
                              int64_t first, uint32_t count, uint32_t align) {
    const kiln_dtype dtype = w->p->buffer.data[buffer].dtype;
    const kiln_ssa_scalar scalar = kiln_dtype_size(dtype) == 1 ? KILN_SSA_I8 : KILN_SSA_I16;
    uint64_t key[4] = {(uint64_t)buffer << 32 | w->epoch[buffer], (uint64_t)(uintptr_t)at->pointer,
                       (uint64_t)first, UINT64_MAX - count};
    kiln_ssa v = kiln_walk_table_find(&w->loads, key);
    if (v) return v;
    kiln_ssa pointer = kiln_walk_pointer(w, at, dtype, first - at->constant);
    v = w->b->ops->load(w->b, kiln_type_vector(scalar, count), pointer, align, NULL);
    kiln_walk_table_put(w, &w->loads, key, v);
    return v;
}

/* Elements as words, each with those that the instruction takes. */
static kiln_ssa as_words(kiln_walk *w, const use *u, uint32_t operand, kiln_ssa bytes) {
    const kiln_intrinsic *in = u->intrinsic;
    uint32_t count = kiln_walk_type(w, bytes).lanes;
    if (operand == 0 && in->bias)
        bytes = kiln_walk_compute(w, KILN_BUILD_XOR, bytes,
                                  kiln_walk_integer(w, bytes, (int8_t)in->bias));
    if (kiln_intrinsic_widens(in))
        bytes = kiln_walk_convert(
            w, in->operand[operand] == KILN_I8 ? KILN_CONVERT_SIGNED : KILN_CONVERT_UNSIGNED, bytes,
            KILN_SSA_I16);
    return w->b->ops->convert(w->b, KILN_CONVERT_BITS, bytes,
                              kiln_type_vector(KILN_SSA_I32, count / in->steps));
}

/* One word for all lanes. Words that lie together are loaded together: what unrolled steps need
 * next is there already, and some processors multiply by an element of a register. The group is
 * aligned as a whole, so that it lies in one page with the word that is asked for. */
static kiln_ssa word_for_all(kiln_walk *w, const use *u, uint32_t operand,
                             const kiln_walk_address *at) {
    kiln_buffer buffer = kiln_expr_get(w->p, u->load[operand])->payload.id;
    uint32_t steps = u->intrinsic->steps, lane = 0;
    const uint32_t group = GROUP_BYTES / (uint32_t)kiln_dtype_size(u->intrinsic->operand[operand]);
    int64_t rest = (at->constant % group + group) % group;
    bool wanted = w->target->factor_lanes > 1 || kiln_intrinsic_widens(u->intrinsic);
    kiln_ssa words;
    if (wanted && at->pointer_align >= GROUP_BYTES && rest % steps == 0) {
        lane = (uint32_t)rest / steps;
        words = as_words(w, u, operand,
                         load_elements(w, buffer, at, at->constant - rest, group, GROUP_BYTES));
    } else {
        words =
            as_words(w, u, operand, load_elements(w, buffer, at, at->constant, steps, at->align));
    }
    int32_t number[KILN_LOWER_LANES_MAX];
    for (uint32_t i = 0; i < u->intrinsic->lanes; i++) number[i] = (int32_t)lane;
    return w->b->ops->shuffle(w->b, words, NULL, number, u->intrinsic->lanes);
}

#define ELEMENTS_MAX 64 /* of an operand: lanes times steps */

/* Elements of `a` and `b` by turns, `unit` at a time. */
static kiln_ssa interleaved(kiln_walk *w, kiln_ssa a, kiln_ssa b, uint32_t unit) {
    int32_t number[ELEMENTS_MAX];
    const uint32_t count = kiln_walk_type(w, a).lanes;
    for (uint32_t i = 0; i < 2 * count; i++)
        number[i] = (int32_t)(i / (2 * unit) * unit + i % unit + i / unit % 2 * count);
    return w->b->ops->shuffle(w->b, a, b, number, 2 * count);
}

/* Lanes of each step lie behind one another: with the next step's in one piece, or apart. */
static kiln_ssa joined_steps(kiln_walk *w, kiln_buffer buffer, const kiln_intrinsic *in,
                             const place *x) {
    int32_t number[ELEMENTS_MAX];
    kiln_ssa part[KILN_INTRINSIC_STEPS_MAX];
    KILN_CHECK(in->lanes * in->steps <= ELEMENTS_MAX);
    if (x->step_stride == in->lanes) {
        for (uint32_t i = 0; i < in->lanes * in->steps; i++)
            number[i] = (int32_t)(i % in->steps * in->lanes + i / in->steps);
        kiln_ssa all =
            load_elements(w, buffer, &x->at, x->at.constant, in->lanes * in->steps, x->at.align);
        return w->b->ops->shuffle(w->b, all, NULL, number, in->lanes * in->steps);
    }
    for (uint32_t i = 0; i < in->steps; i++) {
        const int64_t first = x->at.constant + i * x->step_stride;
        part[i] = load_elements(w, buffer, &x->at, first, in->lanes,
                                (uint32_t)kiln_dtype_size(in->operand[0]));
    }
    for (uint32_t unit = 1; unit < in->steps; unit *= 2)
        for (uint32_t i = 0; i < in->steps / unit; i += 2)
            part[i / 2] = interleaved(w, part[i], part[i + 1], unit);
    return part[0];
}

/* Those that were made for another use, if the buffer was not written since. */
static kiln_ssa known_joined(kiln_walk *w, kiln_buffer buffer, const kiln_intrinsic *in,
                             const place *x) {
    uint64_t key[4] = {(uint64_t)buffer << 32 | w->epoch[buffer],
                       (uint64_t)(uintptr_t)x->at.pointer, (uint64_t)x->at.constant,
                       UINT64_MAX - ((uint64_t)x->step_stride << 8 | in->steps)};
    kiln_ssa v = kiln_walk_table_find(&w->loads, key);
    if (v) return v;
    v = joined_steps(w, buffer, in, x);
    kiln_walk_table_put(w, &w->loads, key, v);
    return v;
}

static kiln_ssa operand_words(kiln_walk *w, const use *u, uint32_t operand, const place *x) {
    const kiln_intrinsic *in = u->intrinsic;
    kiln_buffer buffer = kiln_expr_get(w->p, u->load[operand])->payload.id;
    if (x->at.lane_stride == 0) return word_for_all(w, u, operand, &x->at);
    if (x->at.lane_stride == 1) return as_words(w, u, operand, known_joined(w, buffer, in, x));
    return as_words(
        w, u, operand,
        load_elements(w, buffer, &x->at, x->at.constant, in->lanes * in->steps, x->at.align));
}

/* ---- the instruction ------------------------------------------------------------------------- */

/* What the bias of `a` adds: the same for all results that use these bytes of `b`, so instruction
 * selection keeps one. */
static kiln_ssa bias_sum(kiln_walk *w, const kiln_intrinsic *in, kiln_ssa b) {
    kiln_ssa bias = kiln_walk_integer(w, b, (int64_t)(in->bias * 0x01010101u));
    return w->b->ops->intrinsic(w->b, in, kiln_walk_integer(w, b, 0), bias, b);
}

static kiln_ssa opaque(kiln_walk *w, kiln_ssa v) {
    return w->b->ops->opaque ? w->b->ops->opaque(w->b, v) : v;
}

/* sum + a * b. */
static kiln_ssa accumulate(kiln_walk *w, const kiln_intrinsic *in, kiln_ssa sum, kiln_ssa a,
                           kiln_ssa b) {
    if (in->bias) sum = opaque(w, kiln_walk_compute(w, KILN_BUILD_SUB, sum, bias_sum(w, in, b)));
    if (in->accumulates) return w->b->ops->intrinsic(w->b, in, sum, a, b);
    kiln_ssa product = w->b->ops->intrinsic(w->b, in, NULL, a, b);
    return opaque(w, kiln_walk_compute(w, KILN_BUILD_ADD, sum, product));
}

/* Where operands may change places the one word for all lanes comes second: some instructions take
 * it out of a register there. */
static bool wants_swap(const kiln_intrinsic *in, const place *x) {
    return in->operand[0] == in->operand[1] && !in->bias && x[0].at.lane_stride == 0;
}

bool kiln_walk_tensor(kiln_walk *w, kiln_stmt stmt) {
    use u;
    place x[KILN_INTRINSIC_OPERANDS] = {{.step_stride = 0}};
    if (!w->b->ops->intrinsic || w->lanes == 0 || !find_use(w, stmt, &u)) return false;
    if (u.never) return true;
    bool found = find_place(w, &u, u.load[0], &x[0]) && find_place(w, &u, u.load[1], &x[1]);
    if (found) {
        w->stamp = ++w->last_stamp;
        const kiln_intrinsic *in = u.intrinsic;
        bool swap = wants_swap(in, x);
        kiln_ssa operand[] = {operand_words(w, &u, 0, &x[0]), operand_words(w, &u, 1, &x[1])},
                 sum = kiln_walk_expr(w, u.before);
        sum = accumulate(w, in, sum, operand[swap], operand[!swap]);
        kiln_walk_store(w, u.store, sum);
    }
    kiln_walk_unbind(w, u.loop->var);
    return found;
}
