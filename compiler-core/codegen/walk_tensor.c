/* Tensor intrinsics: the loop that `tensorize` marked becomes one instruction over all lanes, or
 * several with a loop over rows around the lanes.
 *
 * Both operands get one form, a word of four bytes per lane (with Helium, four words) that holds
 * the steps of the lane's sum: read as a vector if the steps of neighbouring lanes are contiguous,
 * joined from vectors if lanes are contiguous for each step, or one word for all lanes. Otherwise
 * an ordinary loop is emitted.
 *
 * An instruction with two rows multiplies a word of eight bytes of each of two rows by those of two
 * lanes: a vector of sums holds both rows of two lanes, and uses half of the lanes' words. */
#include <string.h>

#include "base/check.h"
#include "base/macros.h"
#include "compiler-core/codegen/walk.h"

#define GROUP_BYTES                                                                     \
    16 /* words for all lanes are loaded in groups of so many bytes if they are aligned \
        */

/* One use of an intrinsic: result += sum of a * b. */
typedef struct use {
    const kiln_intrinsic *intrinsic;
    const kiln_stmt_info *loop;
    kiln_stmt store;
    bool never;                              /* its condition is false here */
    kiln_expr before;                        /* load of the result */
    kiln_expr load[KILN_INTRINSIC_OPERANDS]; /* a, b */
} use;

/* ---- recognition of the loop
 * ---------------------------------------------------------------------- */

const kiln_program *kiln_walk_meaning(kiln_walk *w, const kiln_intrinsic *intrinsic) {
    const kiln_program **known = &w->meaning[intrinsic - kiln_intrinsics];
    if (!*known) *known = kiln_intrinsic_program(intrinsic, w->arena);
    return *known;
}

/* The statement of a loop under conditions that are known here, such as those of a tile's rest once
 * its points are unrolled; 0: not known. `*out_never`: it is never executed. */
static kiln_stmt under_known(kiln_walk *w, kiln_stmt loop, bool *out_never) {
    const kiln_var var = w->p->stmt.data[loop].var;
    kiln_stmt at = w->p->stmt.data[loop].child.data[0];
    for (const kiln_stmt_info *s = &w->p->stmt.data[at]; s->kind == KILN_STMT_IF;
         s = &w->p->stmt.data[at]) {
        int64_t holds;
        if (w->slot[var].binding == KILN_WALK_UNBOUND &&
            kiln_expr_uses_var(w->p, s->condition, var))
            return 0;
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
    bool never = false;
    kiln_stmt store = under_known(w, stmt, &never);
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

/* The place of an operand: of step 0, and the distance of the next step. */
typedef struct place {
    kiln_walk_address at;
    int64_t step_stride; /* elements */
} place;

/* Finds it, if steps of each lane are contiguous, or lanes of each step are. */
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

/* Elements from memory, bytes or halves, kept until the buffer is written. */
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

/* Elements as words of the instruction. */
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
    return w->b->ops->convert(
        w->b, KILN_CONVERT_BITS, bytes,
        kiln_type_vector(KILN_SSA_I32, count / in->steps * kiln_intrinsic_words(in)));
}

/* One word for all lanes. Adjacent words are loaded together, because unrolled steps need them
 * next, and some processors multiply by an element of a register. The group is aligned as a whole,
 * so that it lies in one page with the needed word. */
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
    const uint32_t a_lane = kiln_intrinsic_words(u->intrinsic);
    const uint32_t count = u->intrinsic->lanes * a_lane;
    for (uint32_t i = 0; i < count; i++) number[i] = (int32_t)(lane * a_lane + i % a_lane);
    return w->b->ops->shuffle(w->b, words, NULL, number, count);
}

#define ELEMENTS_MAX 64 /* of an operand: lanes times steps */

/* Interleaves `a` and `b`, `unit` elements at a time. */
static kiln_ssa interleaved(kiln_walk *w, kiln_ssa a, kiln_ssa b, uint32_t unit) {
    int32_t number[ELEMENTS_MAX];
    const uint32_t count = kiln_walk_type(w, a).lanes;
    for (uint32_t i = 0; i < 2 * count; i++)
        number[i] = (int32_t)(i / (2 * unit) * unit + i % unit + i / unit % 2 * count);
    return w->b->ops->shuffle(w->b, a, b, number, 2 * count);
}

/* Joins words if lanes of each step are contiguous, adjacent to the next step's or not. */
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

/* The joined words of an earlier use, if the buffer was not written since. */
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

/* The sum added by the bias of `a`: the same for all results that use these bytes of `b`, so
 * instruction selection keeps one. */
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

/* If operands can be swapped the word for all lanes comes second: some instructions take it from a
 * lane of a register there. */
static bool wants_swap(const kiln_intrinsic *in, const place *x) {
    return in->operand[0] == in->operand[1] && !in->bias && x[0].at.lane_stride == 0;
}

static bool emit_lanes(kiln_walk *w, kiln_stmt stmt) {
    use u;
    place x[KILN_INTRINSIC_OPERANDS] = {{.step_stride = 0}};
    if (!find_use(w, stmt, &u) || u.intrinsic->rows > 1) return false;
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

/* ---- several rows ---------------------------------------------------------------------------- */

#define ROWS 2    /* of all such instructions, and as many lanes */
#define COLUMNS 4 /* lanes of the loop, ROWS a time */

/* The loops of a piece with rows, and the use in each row. */
typedef struct matrix {
    kiln_stmt rows, lanes;
    use u[ROWS]; /* the same but for `never` */
    place x[ROWS][KILN_INTRINSIC_OPERANDS];
    uint32_t by_row; /* index of the operand with words of rows; the other one has those of lanes */
    int64_t element[ROWS][COLUMNS]; /* register elements of the sums */
} matrix;

/* Whether a loop over rows contains a vector loop whose steps are marked with an intrinsic with
 * rows.
 */
static bool has_rows(const kiln_program *p, kiln_stmt rows) {
    kiln_stmt at = rows;
    for (uint32_t depth = 0; depth < 2; depth++) {
        do at = p->stmt.data[at].child.data[0];
        while (p->stmt.data[at].kind == KILN_STMT_IF);
        if (p->stmt.data[at].kind != KILN_STMT_FOR) return false;
        if (depth == 0 && p->stmt.data[at].loop_kind != KILN_LOOP_VECTORIZE) return false;
    }
    const kiln_intrinsic *in = kiln_intrinsic_of_loop(p, at);
    const kiln_stmt_info *s = &p->stmt.data[rows];
    return in && in->rows == ROWS && in->lanes == COLUMNS && s->extent == ROWS &&
           s->loop_kind == KILN_LOOP_UNROLL;
}

static bool in_registers(const kiln_walk *w, const use *u) {
    return w->p->buffer.data[w->p->stmt.data[u->store].buffer].scope == KILN_SCOPE_REGISTER;
}

/* Enters the lanes of one row. False: the row is under an unknown condition. */
static bool open_row(kiln_walk *w, matrix *m, uint32_t row, bool *out_never) {
    kiln_walk_bind(w, w->p->stmt.data[m->rows].var, w->p->stmt.data[m->rows].first + row);
    m->lanes = under_known(w, m->rows, out_never);
    if (m->lanes) kiln_walk_open_lanes(w, m->lanes);
    return m->lanes != 0;
}

static void close_row(kiln_walk *w, const matrix *m) {
    if (w->lanes) kiln_walk_close_lanes(w);
    kiln_walk_unbind(w, w->p->stmt.data[m->rows].var);
}

static bool find_row(kiln_walk *w, matrix *m, uint32_t row) {
    bool never = false;
    use *u = &m->u[row];
    bool found = open_row(w, m, row, &never);
    const kiln_stmt steps = found ? under_known(w, m->lanes, &never) : 0;
    found = steps && find_use(w, steps, u);
    if (found) u->never |= never;
    for (uint32_t i = 0; found && i < KILN_INTRINSIC_OPERANDS && !u->never; i++)
        found = find_place(w, u, u->load[i], &m->x[row][i]);
    for (uint32_t lane = 0; found && lane < COLUMNS && in_registers(w, u); lane++)
        m->element[row][lane] =
            kiln_walk_constant_offset(w, kiln_walk_store_offset(w, u->store), lane);
    if (steps) kiln_walk_unbind(w, w->p->stmt.data[steps].var);
    close_row(w, m);
    return found;
}

static bool same_place(const place *a, const place *b) {
    return a->at.pointer == b->at.pointer && a->at.constant == b->at.constant &&
           a->step_stride == b->step_stride && a->at.lane_stride == b->at.lane_stride;
}

/* Whether one operand is the same for all lanes and the other for both rows, in the instruction's
 * order. With an odd number of rows the missing last row reads the operands of the one before
 * it. */
static bool find_matrix(kiln_walk *w, kiln_stmt rows, matrix *out) {
    *out = (matrix){.rows = rows};
    for (uint32_t row = 0; row < ROWS; row++)
        if (!find_row(w, out, row)) return false;
    if (out->u[0].never) return out->u[1].never;
    if (out->u[1].never) memcpy(out->x[1], out->x[0], sizeof out->x[0]);
    const kiln_intrinsic *in = out->u[0].intrinsic;
    out->by_row = out->x[0][0].at.lane_stride != 0;
    const uint32_t by_lane = 1 - out->by_row;
    return out->x[0][out->by_row].at.lane_stride == 0 &&
           out->x[1][out->by_row].at.lane_stride == 0 && out->x[0][by_lane].at.lane_stride != 0 &&
           same_place(&out->x[0][by_lane], &out->x[1][by_lane]) &&
           (out->by_row == 0 || in->operand[0] == in->operand[1]);
}

/* Elements of a row of an operand from a group that is aligned as a whole, so that it lies in one
 * page with the needed elements; or only these, if the alignment is unknown. `*out_first`: their
 * first lane.
 */
static kiln_ssa row_group(kiln_walk *w, kiln_buffer buffer, const place *x, uint32_t steps,
                          int32_t *out_first) {
    const int64_t group = ROWS * steps, rest = (x->at.constant % group + group) % group;
    const bool whole = x->at.pointer_align >= GROUP_BYTES && rest % steps == 0;
    *out_first = whole ? (int32_t)rest : 0;
    if (whole)
        return load_elements(w, buffer, &x->at, x->at.constant - rest, ROWS * steps, GROUP_BYTES);
    kiln_ssa own = load_elements(w, buffer, &x->at, x->at.constant, steps, x->at.align);
    int32_t number[ELEMENTS_MAX];
    for (uint32_t i = 0; i < ROWS * steps; i++) number[i] = i < steps ? (int32_t)i : -1;
    return w->b->ops->shuffle(w->b, own, NULL, number, ROWS * steps);
}

/* The words of both rows. */
static kiln_ssa words_of_rows(kiln_walk *w, const matrix *m) {
    const place *x[ROWS] = {&m->x[0][m->by_row], &m->x[1][m->by_row]};
    const uint32_t steps = m->u[0].intrinsic->steps;
    const kiln_buffer buffer = kiln_expr_get(w->p, m->u[0].load[m->by_row])->payload.id;
    if (x[0]->at.pointer == x[1]->at.pointer && x[1]->at.constant == x[0]->at.constant + steps)
        return load_elements(w, buffer, &x[0]->at, x[0]->at.constant, ROWS * steps, x[0]->at.align);
    uint64_t key[4] = {(uint64_t)buffer << 32 | w->epoch[buffer],
                       (uint64_t)(uintptr_t)x[0]->at.pointer, (uint64_t)(uintptr_t)x[1]->at.pointer,
                       (uint64_t)x[0]->at.constant << 32 ^ (uint64_t)x[1]->at.constant};
    kiln_ssa v = kiln_walk_table_find(&w->loads, key);
    if (v) return v;
    int32_t number[ELEMENTS_MAX], first[ROWS];
    kiln_ssa row[ROWS];
    for (uint32_t r = 0; r < ROWS; r++) row[r] = row_group(w, buffer, x[r], steps, &first[r]);
    for (uint32_t i = 0; i < ROWS * steps; i++)
        number[i] = first[i / steps] + (int32_t)(i % steps + i / steps * ROWS * steps);
    v = w->b->ops->shuffle(w->b, row[0], row[1], number, ROWS * steps);
    kiln_walk_table_put(w, &w->loads, key, v);
    return v;
}

/* The words of two lanes, from `lane` on. */
static kiln_ssa words_of_lanes(kiln_walk *w, const matrix *m, uint32_t lane) {
    const kiln_intrinsic *in = m->u[0].intrinsic;
    const place *x = &m->x[0][1 - m->by_row];
    const kiln_buffer buffer = kiln_expr_get(w->p, m->u[0].load[1 - m->by_row])->payload.id;
    if (x->at.lane_stride != 1) {
        const uint32_t align = KILN_MIN(x->at.align, GROUP_BYTES);
        return load_elements(w, buffer, &x->at, x->at.constant + lane * in->steps, ROWS * in->steps,
                             align);
    }
    int32_t number[ELEMENTS_MAX];
    for (uint32_t i = 0; i < ROWS * in->steps; i++) number[i] = (int32_t)(lane * in->steps + i);
    return w->b->ops->shuffle(w->b, known_joined(w, buffer, in, x), NULL, number, ROWS * in->steps);
}

/* Lanes [2 * half, 2 * half + 2) of `a`, and then of `b`. */
static kiln_ssa halves(kiln_walk *w, kiln_ssa a, kiln_ssa b, uint32_t half) {
    int32_t number[COLUMNS];
    for (uint32_t i = 0; i < COLUMNS; i++)
        number[i] = (int32_t)(i / ROWS * COLUMNS + half * ROWS + i % ROWS);
    return w->b->ops->shuffle(w->b, a, b, number, COLUMNS);
}

/* Adds the products to two vectors of sums, each both rows of two lanes. */
static void add_products(kiln_walk *w, const matrix *m, kiln_ssa sum[COLUMNS / ROWS]) {
    const kiln_intrinsic *in = m->u[0].intrinsic;
    kiln_ssa rows = words_of_rows(w, m);
    for (uint32_t i = 0; i < COLUMNS / ROWS; i++)
        sum[i] = w->b->ops->intrinsic(w->b, in, sum[i], rows, words_of_lanes(w, m, i * ROWS));
}

static void add_in_registers(kiln_walk *w, const matrix *m) {
    const kiln_buffer buffer = w->p->stmt.data[m->u[0].store].buffer;
    int64_t element[COLUMNS / ROWS][COLUMNS];
    kiln_ssa sum[COLUMNS / ROWS];
    for (uint32_t i = 0; i < COLUMNS / ROWS; i++) {
        for (uint32_t e = 0; e < COLUMNS; e++)
            element[i][e] = m->element[e / ROWS][i * ROWS + e % ROWS];
        sum[i] = kiln_walk_registers_take(w, buffer, element[i], COLUMNS);
    }
    add_products(w, m, sum);
    for (uint32_t i = 0; i < COLUMNS / ROWS; i++)
        kiln_walk_registers_put(w, buffer, element[i], COLUMNS, sum[i]);
}

static void add_in_memory(kiln_walk *w, matrix *m) {
    kiln_ssa row[ROWS], sum[COLUMNS / ROWS];
    const uint32_t rows = m->u[1].never ? 1 : ROWS;
    bool never;
    for (uint32_t r = 0; r < rows; r++) {
        open_row(w, m, r, &never);
        w->stamp = ++w->last_stamp;
        row[r] = kiln_walk_expr(w, m->u[r].before);
        close_row(w, m);
    }
    if (rows < ROWS) row[1] = row[0];
    for (uint32_t i = 0; i < COLUMNS / ROWS; i++) sum[i] = halves(w, row[0], row[1], i);
    add_products(w, m, sum);
    for (uint32_t r = 0; r < rows; r++) {
        open_row(w, m, r, &never);
        kiln_walk_store(w, m->u[r].store, halves(w, sum[0], sum[1], r));
        close_row(w, m);
    }
}

static bool emit_rows(kiln_walk *w, kiln_stmt stmt) {
    matrix m;
    if (!has_rows(w->p, stmt) || !find_matrix(w, stmt, &m)) return false;
    if (m.u[0].never) return true;
    if (in_registers(w, &m.u[0]))
        add_in_registers(w, &m);
    else
        add_in_memory(w, &m);
    return true;
}

bool kiln_walk_tensor(kiln_walk *w, kiln_stmt stmt) {
    if (!w->b->ops->intrinsic) return false;
    return w->lanes == 0 ? emit_rows(w, stmt) : emit_lanes(w, stmt);
}
