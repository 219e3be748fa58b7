/* registers: every index into a REGISTER buffer must be constant once loops are unrolled, and all
 * buffers that live at once must fit the machine. */
#include "compiler-core/lower/registers.h"

#include "base/gpu.h"
#include "base/integer.h"
#include "compiler-core/facts/loads.h"
#include "compiler-core/ir/device.h"
#include "compiler-core/ir/intrinsic.h"
#include "compiler-core/lower/pass.h"

typedef kiln_status (*access_visitor)(kiln_program *p, kiln_stmt stmt, const kiln_affine *offset,
                                      void *context);

typedef struct access_walk {
    kiln_buffer buffer;
    access_visitor visit;
    void *context;
    kiln_status status;
} access_walk;

static void visit_access(kiln_program *p, kiln_stmt stmt, const kiln_expr *index, access_walk *w) {
    kiln_affine offset;
    if (w->status) return;
    kiln_expr e = kiln_buffer_offset(p, w->buffer, index);
    if (!kiln_affine_of(p, e, NULL, &offset))
        offset = (kiln_affine){.term_count = 1, .term = {e}, .coefficient = {1}};
    w->status = w->visit(p, stmt, &offset, w->context);
}

static void visit_load(kiln_program *p, kiln_stmt stmt, kiln_expr load, void *context) {
    access_walk *w = context;
    kiln_expr index[KILN_RANK_MAX];
    (void)kiln_load_index(p, load, index);
    visit_access(p, stmt, index, w);
}

static void walk_accesses(kiln_program *p, kiln_stmt stmt, access_walk *w) {
    const kiln_stmt_info *s = &p->stmt.data[stmt];
    if (s->kind == KILN_STMT_STORE && s->buffer == w->buffer) visit_access(p, stmt, s->index, w);
    kiln_lower_visit_loads(p, stmt, w->buffer, visit_load, w);
    for (uint32_t i = 0; i < s->child.count; i++) walk_accesses(p, s->child.data[i], w);
}

/* ---- width ----------------------------------------------------------------------------------- */

/* The loop whose variable becomes lanes at `stmt`: the outermost vectorized one. */
static kiln_stmt lane_loop(const kiln_program *p, kiln_stmt stmt) {
    kiln_stmt found = 0;
    for (kiln_stmt at = stmt; at; at = p->stmt.data[at].parent) {
        const kiln_stmt_info *s = &p->stmt.data[at];
        if (s->kind == KILN_STMT_FOR && s->loop_kind == KILN_LOOP_VECTORIZE && s->extent > 1)
            found = at;
    }
    return found;
}

typedef struct width_walk {
    int64_t width; /* 0: no vector access so far */
} width_walk;

static kiln_status narrow_width(kiln_program *p, kiln_stmt stmt, const kiln_affine *offset,
                                void *context) {
    width_walk *w = context;
    kiln_stmt loop = lane_loop(p, stmt);
    if (!loop) return KILN_OK;
    const kiln_stmt_info *s = &p->stmt.data[loop];
    int64_t stride = kiln_affine_coefficient(p, offset, s->var);
    if (stride != 1) return KILN_OK;
    int64_t width = w->width ? kiln_gcd(w->width, s->extent) : s->extent;
    width = kiln_gcd(width, offset->constant + s->first);
    for (uint32_t i = 0; i < offset->term_count; i++) {
        const kiln_expr_node *node = kiln_expr_get(p, offset->term[i]);
        bool is_lane = node->op == KILN_EXPR_VAR && node->payload.id == s->var;
        if (!is_lane) width = kiln_gcd(width, offset->coefficient[i]);
    }
    w->width = width;
    return KILN_OK;
}

/* Elements of a block of rows of lanes in a layout of number_elements; 0: it has no blocks. */
static uint32_t block_of(const kiln_layout *layout) {
    const kiln_layout_piece *last = &layout->piece[layout->piece_count - 1];
    if (layout->piece_count < 2 || !last[0].modulus || !last[-1].modulus) return 0;
    return (uint32_t)(last[-1].modulus * last[0].modulus);
}

uint32_t kiln_register_width(kiln_program *p, kiln_stmt scope, kiln_buffer buffer) {
    width_walk width = {.width = block_of(&p->buffer.data[buffer].layout)};
    if (width.width) return (uint32_t)width.width;
    access_walk w = {.buffer = buffer, .visit = narrow_width, .context = &width};
    walk_accesses(p, scope, &w);
    return width.width ? (uint32_t)width.width : 1;
}

/* ---- numbering ------------------------------------------------------------------------------- */

/* The dimension of lanes and their number; and that of rows, if instructions take several rows at
 * once. */
typedef struct lane_walk {
    kiln_buffer buffer;
    uint32_t dim, row_dim;
    int64_t lanes; /* 0: none found */
    int64_t rows;  /* 0: one at a time */
} lane_walk;

/* The dimension of the buffer that the loop's variable steps along one by one; rank: none. */
static uint32_t dim_along(kiln_program *p, const kiln_expr *index, kiln_stmt loop, uint32_t rank) {
    uint32_t d = 0;
    for (kiln_affine form; d < rank; d++)
        if (kiln_affine_of(p, index[d], NULL, &form) &&
            kiln_affine_coefficient(p, &form, p->stmt.data[loop].var) == 1)
            break;
    return d;
}

static void find_lanes(kiln_program *p, kiln_stmt stmt, const kiln_expr *index, lane_walk *w) {
    kiln_stmt loop = lane_loop(p, stmt);
    if (!loop) return;
    for (uint32_t d = 0; d < p->buffer.data[w->buffer].shape.rank; d++) {
        kiln_affine form;
        const kiln_stmt_info *s = &p->stmt.data[loop];
        if (!kiln_affine_of(p, index[d], NULL, &form) ||
            kiln_affine_coefficient(p, &form, s->var) != 1)
            continue;
        if (w->lanes && w->dim != d) continue;
        w->dim = d;
        w->lanes = w->lanes ? kiln_gcd(w->lanes, s->extent) : s->extent;
    }
}

static kiln_stmt loop_around(const kiln_program *p, kiln_stmt stmt) {
    do stmt = p->stmt.data[stmt].parent;
    while (stmt && p->stmt.data[stmt].kind != KILN_STMT_FOR);
    return stmt;
}

/* Of a store by a tensor intrinsic of several rows. */
static void find_rows(kiln_program *p, kiln_stmt store, const kiln_expr *index, lane_walk *w) {
    const kiln_stmt steps = loop_around(p, store);
    const kiln_intrinsic *by = steps ? kiln_intrinsic_of_loop(p, steps) : NULL;
    const bool fills = by && by->rows > 1 && by->rows * by->rows == by->lanes; /* a vector */
    const kiln_stmt lanes = fills ? loop_around(p, steps) : 0,
                    rows = lanes ? loop_around(p, lanes) : 0;
    const uint32_t rank = p->buffer.data[w->buffer].shape.rank;
    if (!rows || p->stmt.data[rows].extent != by->rows) return;
    w->row_dim = dim_along(p, index, rows, rank);
    w->rows = w->row_dim < rank ? by->rows : 0;
}

static void find_lanes_of_load(kiln_program *p, kiln_stmt stmt, kiln_expr load, void *context) {
    lane_walk *w = context;
    kiln_expr index[KILN_RANK_MAX];
    (void)kiln_load_index(p, load, index);
    find_lanes(p, stmt, index, w);
}

static void find_lanes_below(kiln_program *p, kiln_stmt stmt, lane_walk *w) {
    const kiln_stmt_info *s = &p->stmt.data[stmt];
    if (s->kind == KILN_STMT_STORE && s->buffer == w->buffer) {
        find_lanes(p, stmt, s->index, w);
        find_rows(p, stmt, s->index, w);
    }
    kiln_lower_visit_loads(p, stmt, w->buffer, find_lanes_of_load, w);
    for (uint32_t i = 0; i < s->child.count; i++) find_lanes_below(p, s->child.data[i], w);
}

static void add_piece(kiln_layout *layout, uint32_t dim, int64_t divisor, int64_t modulus) {
    layout->piece[layout->piece_count++] =
        (kiln_layout_piece){.dim = dim, .divisor = divisor, .modulus = modulus};
}

/* A register buffer has no memory, so its layout only numbers its elements: so that lanes are
 * neighbours, or, if an instruction takes several rows, the lanes of one row and then those of the
 * next. */
static void number_elements(kiln_program *p, kiln_stmt stmt) {
    const kiln_stmt_info s = p->stmt.data[stmt];
    if (s.kind == KILN_STMT_ALLOC && p->buffer.data[s.buffer].scope == KILN_SCOPE_REGISTER) {
        kiln_buffer_info *info = &p->buffer.data[s.buffer];
        lane_walk w = {.buffer = s.buffer};
        find_lanes_below(p, stmt, &w);
        info->layout = (kiln_layout){0};
        if (w.rows && w.row_dim != w.dim && info->shape.rank + 2 <= KILN_RANK_MAX) {
            for (uint32_t d = 0; d < info->shape.rank; d++)
                add_piece(&info->layout, d, d == w.dim || d == w.row_dim ? w.rows : 1, 0);
            add_piece(&info->layout, w.row_dim, 1, w.rows);
            add_piece(&info->layout, w.dim, 1, w.rows);
        } else if (w.lanes > 1 && info->shape.rank < KILN_RANK_MAX) {
            for (uint32_t d = 0; d < info->shape.rank; d++)
                add_piece(&info->layout, d, d == w.dim ? w.lanes : 1, 0);
            add_piece(&info->layout, w.dim, 1, w.lanes);
        }
    }
    for (uint32_t i = 0; i < s.child.count; i++) number_elements(p, s.child.data[i]);
}

/* ---- promotion ------------------------------------------------------------------------------- */

typedef struct check_walk {
    kiln_stmt alloc;
    kiln_buffer buffer;
} check_walk;

static kiln_status check_var(kiln_program *p, kiln_stmt stmt, kiln_var var, const check_walk *c) {
    kiln_stmt loop = kiln_lower_loop_of(p, stmt, var);
    uint8_t kind = p->stmt.data[loop].loop_kind;
    if (kind == KILN_LOOP_UNROLL || kind == KILN_LOOP_VECTORIZE) return KILN_OK;
    return KILN_ERROR(ILLEGAL_SCHEDULE,
                      "buffer %.*s is in registers but its elements are chosen by loop %.*s, which "
                      "is not unrolled",
                      KILN_STR_ARG(p->buffer.data[c->buffer].name),
                      KILN_STR_ARG(p->var.data[var].name));
}

static kiln_status check_term(kiln_program *p, kiln_stmt stmt, kiln_expr term,
                              const check_walk *c) {
    const kiln_expr_node node = *kiln_expr_get(p, term);
    if (node.op == KILN_EXPR_VAR) return check_var(p, stmt, node.payload.id, c);
    if (node.op == KILN_EXPR_LOAD)
        return KILN_ERROR(ILLEGAL_SCHEDULE,
                          "buffer %.*s is in registers but its elements are chosen by data",
                          KILN_STR_ARG(p->buffer.data[c->buffer].name));
    kiln_status st = NULL;
    for (uint32_t i = 0; !st && i < node.operand_count; i++)
        st = check_term(p, stmt, kiln_expr_operand(p, term, i), c);
    return st;
}

static kiln_status check_access(kiln_program *p, kiln_stmt stmt, const kiln_affine *offset,
                                void *context) {
    const check_walk *c = context;
    kiln_status st = NULL;
    for (uint32_t i = 0; !st && i < offset->term_count; i++)
        st = check_term(p, stmt, offset->term[i], c);
    for (kiln_stmt at = stmt; !st && at != c->alloc; at = p->stmt.data[at].parent)
        if (p->stmt.data[at].kind == KILN_STMT_FOR &&
            p->stmt.data[at].loop_kind == KILN_LOOP_PARALLEL)
            st = KILN_ERROR(
                ILLEGAL_SCHEDULE,
                "buffer %.*s is in registers but shared by the iterations of parallel loop %.*s",
                KILN_STR_ARG(p->buffer.data[c->buffer].name),
                KILN_STR_ARG(p->var.data[p->stmt.data[at].var].name));
    return st;
}

/* Registers of one thread of a launch unless the target says otherwise, and those that addresses,
 * counters and values being loaded need besides REGISTER buffers (of kernels that ptxas compiled
 * for sm_80 and sm_90, 22 and a few). */
#define THREAD_REGISTERS 255
#define THREAD_REGISTERS_BESIDE 22

/* Machine registers of `register_bytes` that the buffer takes. */
static uint64_t register_count(kiln_program *p, uint64_t register_bytes, kiln_stmt alloc) {
    kiln_buffer buffer = p->stmt.data[alloc].buffer;
    const kiln_buffer_info *info = &p->buffer.data[buffer];
    uint64_t width = kiln_register_width(p, alloc, buffer);
    kiln_shape numbered = kiln_layout_physical(&info->layout, &info->shape);
    return kiln_buffer_registers(info->dtype, (uint64_t)kiln_shape_count(&numbered), width,
                                 register_bytes);
}

typedef struct count_walk {
    kiln_program *p;
    const kiln_target *target;
    bool by_threads; /* registers of 4 bytes, of one thread of a group; else vectors */
    uint64_t widest;
} count_walk;

/* A unit's registers are divided among the threads of a group, which it holds at once. */
static kiln_status check_count(const count_walk *c, kiln_buffer buffer, uint64_t live,
                               uint64_t threads) {
    const kiln_str name = c->p->buffer.data[buffer].name;
    if (!c->by_threads) /* At least one register is needed for operands being loaded. */
        return live + 1 > c->target->vector_registers
                   ? KILN_ERROR(ILLEGAL_SCHEDULE,
                                "buffer %.*s needs %llu vector registers with those around it; the "
                                "target has %u",
                                KILN_STR_ARG(name), (unsigned long long)live,
                                c->target->vector_registers)
                   : KILN_OK;
    const kiln_gpu *gpu = c->target->gpu;
    uint64_t most = gpu && gpu->thread_registers ? gpu->thread_registers : THREAD_REGISTERS;
    if (gpu && gpu->unit_registers) most = KILN_MIN(most, gpu->unit_registers / threads);
    return live + THREAD_REGISTERS_BESIDE > most
               ? KILN_ERROR(ILLEGAL_SCHEDULE,
                            "buffer %.*s needs %llu registers of a thread with those around it, "
                            "and %d more are needed; a thread of a group of %llu has %llu",
                            KILN_STR_ARG(name), (unsigned long long)live, THREAD_REGISTERS_BESIDE,
                            (unsigned long long)threads, (unsigned long long)most)
               : KILN_OK;
}

static kiln_status count_tree(count_walk *c, kiln_stmt stmt, uint64_t live, uint64_t threads) {
    kiln_program *p = c->p;
    kiln_status st = NULL;
    if (p->stmt.data[stmt].kind == KILN_STMT_ALLOC &&
        p->buffer.data[p->stmt.data[stmt].buffer].scope == KILN_SCOPE_REGISTER) {
        check_walk check = {stmt, p->stmt.data[stmt].buffer};
        access_walk w = {.buffer = check.buffer, .visit = check_access, .context = &check};
        walk_accesses(p, stmt, &w);
        st = w.status;
        if (!st) live += register_count(p, c->by_threads ? 4 : c->target->vector_bytes, stmt);
        if (!st) st = check_count(c, check.buffer, live, threads);
    }
    if (kiln_stmt_level(p, stmt) == KILN_LEVEL_GROUP)
        threads *= (uint64_t)p->stmt.data[stmt].extent;
    c->widest = KILN_MAX(c->widest, live);
    for (uint32_t i = 0; !st && i < p->stmt.data[stmt].child.count; i++)
        st = count_tree(c, p->stmt.data[stmt].child.data[i], live, threads);
    return st;
}

static bool is_by_warps(kiln_program *p, kiln_stmt stmt) {
    const kiln_stmt_info s = p->stmt.data[stmt];
    const kiln_intrinsic *in = kiln_intrinsic_of_loop(p, stmt);
    bool found = in && kiln_intrinsic_of_threads(in);
    for (uint32_t i = 0; i < s.child.count && !found; i++) found = is_by_warps(p, s.child.data[i]);
    return found;
}

static uint64_t count_below(kiln_program *p, kiln_stmt stmt) {
    const kiln_stmt_info s = p->stmt.data[stmt];
    const bool is_register =
        s.kind == KILN_STMT_ALLOC && p->buffer.data[s.buffer].scope == KILN_SCOPE_REGISTER;
    uint64_t widest = 0;
    for (uint32_t i = 0; i < s.child.count; i++) {
        const uint64_t below = count_below(p, s.child.data[i]); /* KILN_MAX would evaluate the call
                                                                 * twice */
        widest = KILN_MAX(widest, below);
    }
    return widest + (is_register ? register_count(p, 4, stmt) : 0);
}

bool kiln_registers_many(kiln_program *p, kiln_stmt nest) {
    return count_below(p, nest) >= KILN_REGISTERS_MANY && !is_by_warps(p, nest);
}

kiln_status kiln_registers_check(kiln_program *p, const kiln_target *target, bool by_threads,
                                 uint32_t *out_registers) {
    if (p->root) number_elements(p, p->root);
    count_walk c = {.p = p, .target = target, .by_threads = by_threads};
    kiln_status st = p->root ? count_tree(&c, p->root, 0, 1) : KILN_OK;
    if (!st) *out_registers = (uint32_t)c.widest;
    return st;
}

kiln_status kiln_lower_registers(kiln_lowering *l) {
    uint32_t prepare = 0;
    const bool by_threads = l->list == KILN_LOWER_GRID;
    kiln_status st = kiln_registers_check(l->run, l->target, by_threads, &l->registers);
    if (!st && l->prepare) st = kiln_registers_check(l->prepare, l->target, by_threads, &prepare);
    l->registers = KILN_MAX(l->registers, prepare);
    return st;
}
