#include "compiler-core/ir/device.h"

#include "base/macros.h"
#include "compiler-core/ir/intrinsic.h"
#include "compiler-core/ir/text.h"

const kiln_scope_info kiln_scopes[KILN_SCOPE_COUNT] = {
#define X(name, text, seen_by, alignment) \
    [KILN_SCOPE_##name] = {text, KILN_SEEN_BY_##seen_by, alignment},
#include "compiler-core/ir/scopes.def"
#undef X
};

const kiln_loop_axis_info kiln_axes[KILN_AXIS_COUNT] = {
#define X(name, text, level, dimension, extent_max) \
    [KILN_AXIS_##name] = {text, KILN_LEVEL_##level, dimension, extent_max},
#include "compiler-core/ir/axes.def"
#undef X
};

const char *const kiln_unit_word[KILN_UNIT_COUNT] = {
#define X(name, text) [KILN_UNIT_##name] = text,
#include "compiler-core/ir/units.def"
#undef X
};

bool kiln_scope_find(kiln_str text, kiln_scope *out_scope) {
    for (uint32_t i = 0; i < KILN_SCOPE_COUNT; i++)
        if (kiln_str_is(text, kiln_scopes[i].text)) {
            *out_scope = (kiln_scope)i;
            return true;
        }
    return false;
}

uint32_t kiln_buffer_alignment(const kiln_program *p, kiln_buffer buffer) {
    const kiln_buffer_info *b = &p->buffer.data[buffer];
    const uint32_t alignment = kiln_scopes[b->scope].alignment, n = b->layout.piece_count;
    if (b->scope != KILN_SCOPE_SHARED || n < 3) return alignment;
    const kiln_layout_piece *unit = &b->layout.piece[n - 1], *units = &b->layout.piece[n - 2];
    const bool is_exchanged =
        units->xor_modulus == KILN_GROUP_WAYS && !units->pitch && !unit->pitch &&
        unit->modulus * (int64_t)kiln_dtype_size(b->dtype) == KILN_GROUP_UNIT_BYTES;
    return is_exchanged ? KILN_GROUP_ATOM_BYTES : alignment;
}

/* Halves are computed in f32, integers in their own width. */
uint64_t kiln_buffer_registers(kiln_dtype dtype, uint64_t elements, uint64_t width,
                               uint64_t register_bytes) {
    const uint64_t own = kiln_dtype_size(dtype);
    const uint64_t computed = kiln_dtype_is_float(dtype) ? KILN_MAX(own, sizeof(float)) : own;
    return (elements + width - 1) / width *
           ((width * computed + register_bytes - 1) / register_bytes);
}

bool kiln_loop_axis_find(kiln_str text, kiln_loop_axis *out_axis) {
    for (uint32_t i = KILN_AXIS_NONE + 1; i < KILN_AXIS_COUNT; i++)
        if (kiln_str_is(text, kiln_axes[i].text)) {
            *out_axis = (kiln_loop_axis)i;
            return true;
        }
    return false;
}

kiln_axis_level kiln_stmt_level(const kiln_program *p, kiln_stmt stmt) {
    const kiln_stmt_info *s = &p->stmt.data[stmt];
    bool bound = s->kind == KILN_STMT_FOR && s->loop_kind == KILN_LOOP_BIND;
    return bound ? kiln_axes[s->axis].level : KILN_LEVEL_NONE;
}

kiln_stmt kiln_stmt_outermost(const kiln_program *p, kiln_stmt stmt, kiln_axis_level level) {
    kiln_stmt found = 0;
    for (; stmt; stmt = p->stmt.data[stmt].parent)
        if (kiln_stmt_level(p, stmt) == level) found = stmt;
    return found;
}

kiln_unit kiln_stmt_unit(const kiln_program *p, kiln_stmt stmt) {
    for (; stmt; stmt = p->stmt.data[stmt].parent) {
        const kiln_attribute *unit = kiln_stmt_attribute(p, stmt, KILN_ATTRIBUTE_UNIT);
        if (unit) return (kiln_unit)unit->row;
    }
    return KILN_UNIT_COMPUTE;
}

bool kiln_stmt_is_step(const kiln_program *p, kiln_stmt stmt) {
    const uint8_t kind = p->stmt.data[stmt].kind;
    return kind == KILN_STMT_BARRIER || kind == KILN_STMT_TOKEN_PUSH || kind == KILN_STMT_TOKEN_POP;
}

bool kiln_token_queue_exists(kiln_unit from, kiln_unit to) {
#define X(a, b) \
    if (from == KILN_UNIT_##a && to == KILN_UNIT_##b) return true;
#include "compiler-core/ir/token_queues.def"
#undef X
    return false;
}

/* ---- attributes ---- */

enum {
    VALUE_TEXT,
    VALUE_BUFFER,
    VALUE_INTRINSIC,
    VALUE_UNIT,
    VALUE_STAGES,
    VALUE_GROUPS,
    VALUE_TOKEN,
    VALUE_LANES
};

static const char *const number_word[] = {"0", "1",  "2",  "3",  "4",  "5",  "6",  "7", "8",
                                          "9", "10", "11", "12", "13", "14", "15", "16"};
_Static_assert(KILN_PIPELINE_STAGES_MAX < KILN_ARRAY_COUNT(number_word), "a word per number");
_Static_assert(KILN_COPY_TOKENS_MAX <= KILN_ARRAY_COUNT(number_word), "a word per token");
_Static_assert(KILN_WARP_LANES / 2 < KILN_ARRAY_COUNT(number_word), "a word per lane");

const char *const kiln_attribute_word[KILN_ATTRIBUTE_COUNT] = {
#define X(name, text, number, value) [KILN_ATTRIBUTE_##name] = text,
#include "compiler-core/ir/attributes.def"
#undef X
};
static const uint8_t value_kind[KILN_ATTRIBUTE_COUNT] = {
#define X(name, text, number, value) [KILN_ATTRIBUTE_##name] = VALUE_##value,
#include "compiler-core/ir/attributes.def"
#undef X
};

const kiln_attribute *kiln_stmt_attribute(const kiln_program *p, kiln_stmt stmt,
                                          kiln_attribute_id id) {
    const kiln_stmt_info *s = &p->stmt.data[stmt];
    for (uint32_t i = 0; i < s->attribute.count; i++)
        if (s->attribute.data[i].id == id) return &s->attribute.data[i];
    return NULL;
}

void kiln_stmt_set_attribute(kiln_program *p, kiln_stmt stmt, kiln_attribute attribute) {
    kiln_vec_push_in(p->arena, &p->stmt.data[stmt].attribute, attribute);
}

static bool find_number(kiln_str value, uint32_t low, uint32_t high, uint32_t *out_row) {
    for (uint32_t i = low; i <= high; i++)
        if (kiln_str_is(value, number_word[i])) {
            *out_row = i;
            return true;
        }
    return false;
}

static bool find_value(const kiln_program *p, uint8_t kind, kiln_str value, uint32_t *out_row) {
    const kiln_intrinsic *intrinsic;
    switch (kind) {
    case VALUE_BUFFER: return (*out_row = kiln_program_find_buffer(p, value)) != 0;
    case VALUE_INTRINSIC:
        intrinsic = kiln_intrinsic_find(value);
        if (intrinsic) *out_row = (uint32_t)(intrinsic - kiln_intrinsics);
        return intrinsic != NULL;
    case VALUE_UNIT:
        for (uint32_t i = 0; i < KILN_UNIT_COUNT; i++)
            if (kiln_str_is(value, kiln_unit_word[i])) {
                *out_row = i;
                return true;
            }
        return false;
    case VALUE_STAGES: return find_number(value, 2, KILN_PIPELINE_STAGES_MAX, out_row);
    case VALUE_GROUPS: return find_number(value, 1, KILN_RESIDENT_GROUPS_MAX, out_row);
    case VALUE_TOKEN: return find_number(value, 0, KILN_COPY_TOKENS_MAX - 1, out_row);
    case VALUE_LANES:
        return find_number(value, 1, KILN_WARP_LANES / 2, out_row) &&
               (*out_row & (*out_row - 1)) == 0;
    default: return false;
    }
}

bool kiln_attribute_parse(const kiln_program *p, kiln_str key, kiln_str value,
                          kiln_attribute *out) {
    for (uint32_t i = 0; i < KILN_ATTRIBUTE_COUNT; i++) {
        uint32_t row;
        if (!kiln_str_is(key, kiln_attribute_word[i]) || !find_value(p, value_kind[i], value, &row))
            continue;
        *out = (kiln_attribute){.id = (uint8_t)i, .row = row};
        return true;
    }
    return false;
}

kiln_attribute kiln_attribute_from(kiln_program *p, kiln_str text) {
    size_t equals = kiln_str_find_char(text, '=');
    kiln_str value =
        equals < text.size ? kiln_str_slice(text, equals + 1, text.size) : KILN_STR("");
    kiln_attribute a;
    if (!kiln_attribute_parse(p, kiln_str_slice(text, 0, equals), value, &a))
        a = (kiln_attribute){.id = KILN_ATTRIBUTE_REMARK,
                             .text = {kiln_str_dup(p->arena, text), text.size}};
    return a;
}

kiln_str kiln_attribute_value(const kiln_program *p, const kiln_attribute *a) {
    switch (value_kind[a->id]) {
    case VALUE_BUFFER: return p->buffer.data[a->row].name;
    case VALUE_INTRINSIC: return kiln_str_from(kiln_intrinsics[a->row].name);
    case VALUE_UNIT: return kiln_str_from(kiln_unit_word[a->row]);
    case VALUE_STAGES:
    case VALUE_GROUPS:
    case VALUE_TOKEN:
    case VALUE_LANES: return kiln_str_from(number_word[a->row]);
    default: return a->text;
    }
}

/* ---- rules ---- */

#define ILLEGAL(...) KILN_ERROR(ILLEGAL_SCHEDULE, __VA_ARGS__)
#define NAME(p, loop) KILN_STR_ARG((p)->var.data[(p)->stmt.data[loop].var].name)

/* The loops around a statement. */
typedef struct around {
    uint32_t axes;    /* bit per kiln_loop_axis */
    kiln_stmt grid;   /* the innermost grid loop; 0: none */
    kiln_stmt thread; /* the innermost thread loop */
    kiln_stmt other;  /* the innermost loop or if that is not bound */
    kiln_stmt lanes;  /* a vectorized loop */
    kiln_stmt parallel;
    int64_t threads;
} around;

/* Whether `outer` contains nothing but `inner` and allocations around it. */
static bool fills(const kiln_program *p, kiln_stmt outer, kiln_stmt inner) {
    for (kiln_stmt at = p->stmt.data[inner].parent; at != outer; at = p->stmt.data[at].parent)
        if (p->stmt.data[at].child.count != 1) return false;
    return true;
}

static kiln_status check_bound(const kiln_program *p, kiln_stmt loop, around *a) {
    const kiln_stmt_info *s = &p->stmt.data[loop];
    const kiln_loop_axis_info *axis = &kiln_axes[s->axis];
    if (axis->level == KILN_LEVEL_NONE) return ILLEGAL("loop %.*s has no axis", NAME(p, loop));
    if (s->first != 0 || s->extent > axis->extent_max)
        return ILLEGAL("loop %.*s runs from %lld over %lld; %s starts at 0 and takes %lld",
                       NAME(p, loop), (long long)s->first, (long long)s->extent, axis->text,
                       (long long)axis->extent_max);
    if (a->axes >> s->axis & 1)
        return ILLEGAL("loop %.*s is inside another loop over %s", NAME(p, loop), axis->text);
    if (a->parallel)
        return ILLEGAL("loop %.*s over %s is inside parallel loop %.*s", NAME(p, loop), axis->text,
                       NAME(p, a->parallel));
    if (a->lanes) return ILLEGAL("loop %.*s over %s is in lanes", NAME(p, loop), axis->text);
    if (s->axis == KILN_AXIS_CLUSTER && (s->extent & (s->extent - 1)) != 0)
        return ILLEGAL("loop %.*s has %lld groups; a cluster has a power of two", NAME(p, loop),
                       (long long)s->extent);
    bool is_grid = axis->level == KILN_LEVEL_GRID;
    if (is_grid && a->axes >> KILN_AXIS_CLUSTER & 1)
        return ILLEGAL("loop %.*s over %s is inside %.*s, which runs over the groups of a cluster",
                       NAME(p, loop), axis->text, NAME(p, a->grid));
    if (is_grid && (a->other || a->thread))
        return ILLEGAL("loop %.*s over %s is not directly inside grid loops", NAME(p, loop),
                       axis->text);
    kiln_stmt outer = is_grid ? a->grid : a->thread;
    if (outer && (!fills(p, outer, loop) || kiln_stmt_is_inside(p, a->other, outer)))
        return ILLEGAL("loop %.*s is not directly inside %.*s, the bound loop around it",
                       NAME(p, loop), NAME(p, outer));
    a->axes |= 1u << s->axis;
    if (is_grid) {
        a->grid = loop;
        return KILN_OK;
    }
    a->thread = loop;
    a->threads *= s->extent;
    if (a->threads > KILN_GROUP_THREADS_MAX)
        return ILLEGAL("the nest of %.*s has %lld threads; a group has %d at most", NAME(p, loop),
                       (long long)a->threads, KILN_GROUP_THREADS_MAX);
    return KILN_OK;
}

static kiln_status check_for(const kiln_program *p, kiln_stmt loop, around *a) {
    const kiln_stmt_info *s = &p->stmt.data[loop];
    if (s->loop_kind == KILN_LOOP_BIND) return check_bound(p, loop, a);
    a->other = loop;
    if (s->loop_kind == KILN_LOOP_VECTORIZE) a->lanes = loop;
    if (s->loop_kind != KILN_LOOP_PARALLEL) return KILN_OK;
    a->parallel = loop;
    return a->axes ? ILLEGAL("parallel loop %.*s is inside a bound loop", NAME(p, loop)) : KILN_OK;
}

static bool has_threads(const kiln_program *p, kiln_stmt stmt) {
    const kiln_stmt_info *s = &p->stmt.data[stmt];
    bool found = kiln_stmt_level(p, stmt) == KILN_LEVEL_GROUP;
    for (uint32_t i = 0; i < s->child.count && !found; i++)
        found = has_threads(p, s->child.data[i]);
    return found;
}

static kiln_status check_alloc(const kiln_program *p, kiln_stmt stmt, const around *a) {
    const kiln_buffer_info *b = &p->buffer.data[p->stmt.data[stmt].buffer];
    const char *place = NULL;
    switch (kiln_scopes[b->scope].seen_by) {
    case KILN_SEEN_BY_DEVICE: place = a->axes ? "inside a launch" : NULL; break;
    case KILN_SEEN_BY_GROUP:
    case KILN_SEEN_BY_CORE: place = a->thread ? "inside a thread loop" : NULL; break;
    case KILN_SEEN_BY_THREAD: place = has_threads(p, stmt) ? "around thread loops" : NULL; break;
    }
    return place ? ILLEGAL("%.*s has scope %s and is allocated %s", KILN_STR_ARG(b->name),
                           kiln_scopes[b->scope].text, place)
                 : KILN_OK;
}

static kiln_status check_barrier(const kiln_program *p, kiln_stmt stmt, const around *a) {
    const char *what = p->stmt.data[stmt].kind == KILN_STMT_BARRIER ? "barrier" : "token";
    if (a->lanes || a->parallel) return ILLEGAL("a %s is in lanes or in a parallel loop", what);
    for (kiln_stmt at = stmt; at; at = p->stmt.data[at].parent) {
        if (p->stmt.data[at].kind != KILN_STMT_IF) continue;
        for (kiln_stmt loop = at; loop; loop = p->stmt.data[loop].parent)
            if (kiln_stmt_level(p, loop) == KILN_LEVEL_GROUP &&
                kiln_expr_uses_var(p, p->stmt.data[at].condition, p->stmt.data[loop].var))
                return ILLEGAL("a %s is under a condition on thread loop %.*s, so not all "
                               "threads reach it",
                               what, NAME(p, loop));
    }
    return KILN_OK;
}

static kiln_status check_tree(const kiln_program *p, kiln_stmt stmt, around a) {
    const kiln_stmt_info *s = &p->stmt.data[stmt];
    kiln_status st = KILN_OK;
    if (s->kind == KILN_STMT_FOR) st = check_for(p, stmt, &a);
    if (s->kind == KILN_STMT_IF) a.other = stmt;
    if (s->kind == KILN_STMT_ALLOC) st = check_alloc(p, stmt, &a);
    if (kiln_stmt_is_step(p, stmt)) st = check_barrier(p, stmt, &a);
    for (uint32_t i = 0; i < s->child.count && !st; i++) st = check_tree(p, s->child.data[i], a);
    return st;
}

kiln_status kiln_device_check(const kiln_program *p) {
    return p->root ? check_tree(p, p->root, (around){.threads = 1}) : KILN_OK;
}
