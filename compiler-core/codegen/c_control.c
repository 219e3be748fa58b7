/* Control in C-family text: marks, loops, branches, functions of the kernel ABI. */
#include <string.h>

#include "base/check.h"
#include "compiler-core/codegen/c_builder.h"

static kiln_c_builder *of(kiln_builder *b) { return (kiln_c_builder *)b; }
#define TEXT(b, ...) kiln_arena_printf((b)->arena, __VA_ARGS__)

static kiln_ssa_type pointer(void) { return kiln_type_scalar(KILN_SSA_POINTER); }
static kiln_ssa_type pointer_to(kiln_ssa_space space) {
    return (kiln_ssa_type){.scalar = KILN_SSA_POINTER, .space = space};
}

/* Inserts a line that is no definition before `at`. */
static kiln_c_line *put(kiln_c_builder *b, kiln_c_line *at, const char *text, kiln_ssa operand) {
    return kiln_c_insert(b, at, text, NULL, &operand, operand ? 1 : 0);
}

/* A line that declares or assigns the variable `to`. */
static void put_variable(kiln_c_builder *b, kiln_c_line *at, const char *text, kiln_ssa to,
                         kiln_ssa operand) {
    kiln_c_insert(b, at, text, to, &operand, operand ? 1 : 0);
}

/* A variable that lines assign to; one per lane if vectors of the type have no name. */
static kiln_ssa variable(kiln_c_builder *b, kiln_ssa_type type) {
    kiln_ssa v = kiln_c_node(b, type, NULL);
    if (kiln_c_is_named(b, type)) {
        v->text = kiln_c_name(b);
        v->defined = true;
        return v;
    }
    v->element = KILN_ARENA_ARRAY(b->arena, kiln_ssa, type.lanes);
    for (uint32_t i = 0; i < type.lanes; i++)
        v->element[i] = variable(b, kiln_type_scalar(type.scalar));
    return v;
}

static kiln_ssa lane_of(kiln_c_builder *b, kiln_ssa v, uint32_t lane) {
    return b->base.ops->extract(&b->base, v, lane);
}

/* Declares a variable, with `v` as its first value or, where that is NULL, without one. */
static void declare(kiln_c_builder *b, kiln_c_line *at, kiln_ssa to, kiln_ssa v) {
    if (to->text) {
        const char *type = kiln_c_type(b, to->type);
        put_variable(b, at,
                     v ? TEXT(b, "%s %s = %s;", type, to->text, kiln_c_whole(b, v))
                       : TEXT(b, "%s %s;", type, to->text),
                     to, v);
        return;
    }
    for (uint32_t i = 0; i < to->type.lanes; i++)
        declare(b, at, to->element[i], v ? lane_of(b, v, i) : NULL);
}

static void assign(kiln_c_builder *b, kiln_c_line *at, kiln_ssa to, kiln_ssa v) {
    if (to->text) put_variable(b, at, TEXT(b, "%s = %s;", to->text, kiln_c_whole(b, v)), to, v);
    for (uint32_t i = 0; !to->text && i < to->type.lanes; i++)
        assign(b, at, to->element[i], lane_of(b, v, i));
}

/* ---- marks ----------------------------------------------------------------------------------- */

kiln_mark kiln_c_open_mark(kiln_builder *b) { return (kiln_mark)put(of(b), of(b)->at, NULL, NULL); }

void kiln_c_close_mark(kiln_builder *b, kiln_mark mark) { (void)b, (void)mark; }

void *kiln_c_enter_mark(kiln_builder *b, kiln_mark mark) {
    kiln_c_line *here = of(b)->at;
    of(b)->at = (kiln_c_line *)mark;
    return here;
}

void kiln_c_leave(kiln_builder *b, void *place) { of(b)->at = place; }

/* ---- loops ----------------------------------------------------------------------------------- */

typedef struct stepping {
    kiln_ssa pointer;
    int64_t step_bytes;
} stepping;

struct kiln_open_loop {
    kiln_c_line *head; /* do { */
    kiln_ssa counter, first;
    KILN_VEC(kiln_ssa) carried;
    KILN_VEC(stepping) pointer;
};

kiln_loop_handle kiln_c_loop_begin(kiln_builder *base, kiln_ssa first, kiln_ssa *out_counter) {
    kiln_c_builder *b = of(base);
    struct kiln_open_loop *loop = KILN_ARENA_NEW(b->arena, struct kiln_open_loop);
    loop->first = first;
    loop->counter = variable(b, kiln_type_scalar(KILN_SSA_I64));
    put(b, b->at, TEXT(b, "u64 %s = %s;", loop->counter->text, kiln_c_whole(b, first)), first);
    loop->head = put(b, b->at, "do {", NULL);
    *out_counter = loop->counter;
    return loop;
}

kiln_ssa kiln_c_loop_carry(kiln_builder *base, kiln_loop_handle loop, kiln_ssa before) {
    kiln_c_builder *b = of(base);
    kiln_ssa v = variable(b, before->type);
    declare(b, loop->head, v, before);
    kiln_vec_push_in(b->arena, &loop->carried, v);
    return v;
}

kiln_ssa kiln_c_loop_pointer(kiln_builder *base, kiln_loop_handle loop, kiln_ssa start,
                             int64_t step_bytes) {
    kiln_c_builder *b = of(base);
    kiln_ssa v = variable(b, start->type);
    const char *from = kiln_c_whole(b, start);
    bool at_zero = loop->first->lane && loop->first->lane[0] == 0;
    kiln_ssa operand[] = {start, loop->first};
    kiln_c_insert(b, loop->head,
                  at_zero ? TEXT(b, "%s%s = %s;", kiln_c_type(b, v->type), v->text, from)
                          : TEXT(b, "%s%s = %s + (%s)%s * %lld;", kiln_c_type(b, v->type), v->text,
                                 from, b->dialect->difference, kiln_c_whole(b, loop->first),
                                 (long long)step_bytes),
                  v, operand, 2);
    kiln_vec_push_in(b->arena, &loop->pointer, ((stepping){v, step_bytes}));
    return v;
}

/* The next value of a variable. */
typedef struct assignment {
    kiln_ssa to, v;
} assignment;

typedef KILN_VEC(assignment) assignments;

static void add_assignment(kiln_c_builder *b, assignments *list, kiln_ssa to, kiln_ssa v) {
    if (to->text) kiln_vec_push_in(b->arena, list, ((assignment){to, v}));
    for (uint32_t i = 0; !to->text && i < to->type.lanes; i++)
        add_assignment(b, list, to->element[i], lane_of(b, v, i));
}

/* All values of the next iteration are computed before the first variable is assigned. */
void kiln_c_loop_end(kiln_builder *base, kiln_loop_handle loop, kiln_ssa end, kiln_ssa *carried) {
    kiln_c_builder *b = of(base);
    assignments list = {0};
    for (uint32_t i = 0; i < loop->carried.count; i++)
        add_assignment(b, &list, loop->carried.data[i], carried[i]);
    kiln_ssa *next = KILN_ARENA_ARRAY(b->arena, kiln_ssa, list.count + 1);
    for (uint32_t i = 0; i < list.count; i++) {
        kiln_ssa v = list.data[i].v;
        bool may_change = !v->text || !v->defined;
        for (uint32_t k = 0; k < list.count; k++) may_change |= v == list.data[k].to;
        next[i] = v == list.data[i].to ? NULL
                  : may_change         ? kiln_c_define(b, v->type, false, kiln_c_whole(b, v), &v, 1)
                                       : v;
    }
    for (uint32_t i = 0; i < list.count; i++)
        if (next[i]) assign(b, b->at, list.data[i].to, next[i]);
    for (uint32_t i = 0; i < loop->carried.count; i++) carried[i] = loop->carried.data[i];
    for (uint32_t i = 0; i < loop->pointer.count; i++) {
        const stepping *p = &loop->pointer.data[i];
        put_variable(b, b->at, TEXT(b, "%s += %lld;", p->pointer->text, (long long)p->step_bytes),
                     p->pointer, NULL);
    }
    put(b, b->at, TEXT(b, "} while (++%s != %s);", loop->counter->text, kiln_c_whole(b, end)), end);
}

/* ---- branches -------------------------------------------------------------------------------- */

struct kiln_open_branch {
    kiln_c_line *head, *otherwise, *end; /* otherwise NULL: no else side */
};

kiln_branch_handle kiln_c_branch_begin(kiln_builder *base, kiln_ssa condition, bool has_else) {
    kiln_c_builder *b = of(base);
    struct kiln_open_branch *branch = KILN_ARENA_NEW(b->arena, struct kiln_open_branch);
    (void)has_else;
    branch->head = put(b, b->at, TEXT(b, "if (%s) {", kiln_c_whole(b, condition)), condition);
    return branch;
}

void kiln_c_branch_else(kiln_builder *b, kiln_branch_handle branch) {
    branch->otherwise = put(of(b), of(b)->at, "} else {", NULL);
}

void *kiln_c_branch_enter_then(kiln_builder *b, kiln_branch_handle branch) {
    return kiln_c_enter_mark(b, (kiln_mark)branch->otherwise);
}

void kiln_c_branch_end(kiln_builder *b, kiln_branch_handle branch) {
    branch->end = put(of(b), of(b)->at, "}", NULL);
}

kiln_ssa kiln_c_branch_join(kiln_builder *base, kiln_branch_handle branch, kiln_ssa yes,
                            kiln_ssa no) {
    kiln_c_builder *b = of(base);
    kiln_ssa v = variable(b, yes->type);
    declare(b, branch->head, v, NULL);
    assign(b, branch->otherwise ? branch->otherwise : branch->end, v, yes);
    assign(b, branch->otherwise ? branch->end : branch->head, v, no);
    return v;
}

/* ---- functions ------------------------------------------------------------------------------- */

/* Names of functions in C. */
static const char *plain_name(kiln_c_builder *b, const char *name) {
    char *copy = kiln_str_dup(b->arena, kiln_str_from(name));
    for (char *at = copy; *at; at++)
        if (*at == '.') *at = '_';
    return copy;
}

static void begin_function(kiln_c_builder *b, const char *head) {
    kiln_c_line *end = KILN_ARENA_NEW(b->arena, kiln_c_line);
    end->before = end->after = end;
    b->function = (kiln_c_function){head, end};
    b->at = end;
}

static void end_function(kiln_c_builder *b, const char *behind) {
    put(b, b->at, "return 0;", NULL);
    b->function.end->text = behind;
    kiln_vec_push_in(b->arena, &b->done, b->function);
}

/* static int32_t NAME_with(services, scratch, a0, a1, ...), and behind it the ABI's function of
 * that name, which takes scratch and data from its arguments. */
void kiln_c_entry_begin(kiln_builder *base, const char *name, uint32_t arg_count,
                        const bool *touched, kiln_entry_values *out) {
    kiln_c_builder *b = of(base);
    kiln_strbuf head = {0}, tail = {0};
    kiln_strbuf_printf(
        &head, "static int32_t %s_with(const kiln_kernel_services *services, char *scratch", name);
    kiln_strbuf_printf(&tail,
                       "#ifndef KILN_STATIC\nint32_t %s(char *const *const *args, const "
                       "kiln_kernel_services *services) {\n    (void)args;\n    return "
                       "%s_with(services, services->scratch",
                       name, name);
    out->data = KILN_ARENA_ARRAY(b->arena, kiln_ssa, arg_count + 1);
    for (uint32_t i = 0; i < arg_count; i++) {
        if (!touched[i]) continue;
        out->data[i] = kiln_c_node(b, pointer(), TEXT(b, "a%u", i));
        kiln_strbuf_printf(&head, ", char *a%u", i);
        kiln_strbuf_printf(&tail, ", *args[%u]", i);
    }
    kiln_strbuf_text(&head, ") {");
    kiln_strbuf_text(&tail, ");\n}\n#endif\n");
    begin_function(b, kiln_str_dup(b->arena, kiln_strbuf_view(&head)));
    b->tail = kiln_str_dup(b->arena, kiln_strbuf_view(&tail));
    kiln_strbuf_deinit(&head);
    kiln_strbuf_deinit(&tail);
    put(b, b->at, "(void)services, (void)scratch;", NULL);
    out->scratch = kiln_c_node(b, pointer(), "scratch");
}

void kiln_c_entry_end(kiln_builder *b) { end_function(of(b), of(b)->tail); }

/* The captured values travel in a structure on the caller's stack. */
void kiln_c_parallel_begin(kiln_builder *base, const char *name, kiln_mark entry,
                           const kiln_ssa *captured, uint32_t captured_count,
                           kiln_body_values *out) {
    kiln_c_builder *b = of(base);
    const char *plain = plain_name(b, name), *context = kiln_c_name(b);
    kiln_strbuf head = {0}, values = {0};
    (void)entry;
    kiln_strbuf_printf(&head, "struct %s {\n    const kiln_kernel_services *services;\n", plain);
    kiln_strbuf_printf(&values, "struct %s %s = {services", plain, context);
    out->captured = KILN_ARENA_ARRAY(b->arena, kiln_ssa, captured_count + 1);
    for (uint32_t i = 0; i < captured_count; i++) {
        kiln_ssa_type type = captured[i]->type;
        bool is_pointer = type.scalar == KILN_SSA_POINTER;
        kiln_strbuf_printf(&head, "    %s%sc%u;\n", kiln_c_type(b, type), is_pointer ? "" : " ", i);
        kiln_strbuf_printf(&values, ", %s", kiln_c_whole(b, captured[i]));
        out->captured[i] = kiln_c_node(b, type, TEXT(b, "context->c%u", i));
    }
    kiln_strbuf_printf(
        &head,
        "};\n\nstatic int32_t %s(void *words, int64_t begin, int64_t end, int32_t "
        "worker) {\n    const struct %s *const context = words;\n    const "
        "kiln_kernel_services *const services = context->services;\n    (void)services, "
        "(void)worker;",
        plain, plain);
    kiln_strbuf_text(&values, "};");
    kiln_c_effect(b, kiln_str_dup(b->arena, kiln_strbuf_view(&values)), captured, captured_count);
    b->caller = b->function;
    b->caller_at = b->at;
    b->body_name = plain;
    b->context = context;
    begin_function(b, kiln_str_dup(b->arena, kiln_strbuf_view(&head)));
    kiln_strbuf_deinit(&head);
    kiln_strbuf_deinit(&values);
    out->begin = kiln_c_node(b, kiln_type_scalar(KILN_SSA_I64), "(u64)begin");
    out->end = kiln_c_node(b, kiln_type_scalar(KILN_SSA_I64), "(u64)end");
    out->worker = kiln_c_node(b, kiln_type_scalar(KILN_SSA_I32), "(u32)worker");
}

void kiln_c_parallel_end(kiln_builder *base, int64_t count) {
    kiln_c_builder *b = of(base);
    const char *status = kiln_c_name(b);
    end_function(b, NULL);
    b->function = b->caller;
    b->at = b->caller_at;
    put(b, b->at,
        TEXT(b, "const int32_t %s = services->parallel_for(services->host, %lld, %s, &%s);", status,
             (long long)count, b->body_name, b->context),
        NULL);
    put(b, b->at, TEXT(b, "if (%s != 0) return %s;", status, status), NULL);
}

/* ---- launches -------------------------------------------------------------------------------- */

static const char *const arg_name = "a%u", *const scratch_name = "scratch",
                         *const map_name = "map%u";

/* The declaration of the arguments, and their values. */
static void declare_args(kiln_c_builder *b, const kiln_launch_head *head, kiln_strbuf *text,
                         kiln_launch_values *out) {
    const kiln_c_kernels *words = b->dialect->kernels;
    const kiln_ssa_type global = pointer_to(KILN_SPACE_GLOBAL);
    for (uint32_t i = 0; i < head->arg_count; i++) {
        const char *name = TEXT(b, arg_name, i);
        kiln_strbuf_printf(text, "%s%s%s%s", i ? ", " : "",
                           head->arg[i].is_written ? words->written_arg : words->read_arg,
                           head->arg[i].is_alone ? words->alone : "", name);
        out->data[i] = kiln_c_node(b, global, name);
    }
    if (head->uses_scratch) {
        kiln_strbuf_printf(text, "%s%s%s%s", head->arg_count ? ", " : "", words->written_arg,
                           words->alone, scratch_name);
        out->scratch = kiln_c_node(b, global, scratch_name);
    }
    if (head->map_count) kiln_c_add_helper(b, words->map_type);
    for (uint32_t i = 0; i < head->map_count; i++) {
        const char *name = TEXT(b, map_name, i);
        kiln_strbuf_printf(text, ", %s%s", words->map_arg, name);
        out->map[i] = kiln_c_node(b, global, name);
    }
}

/* Memory of a group or a thread, as an array in the function; NULL: it has none. */
static kiln_ssa declare_memory(kiln_c_builder *b, const char *format, const char *name,
                               uint64_t bytes, kiln_ssa_space space) {
    if (bytes == 0) return NULL;
    put(b, b->at, TEXT(b, format, name, (unsigned long long)bytes), NULL);
    return kiln_c_node(b, pointer_to(space), name);
}

void kiln_c_launch_begin(kiln_builder *base, const kiln_launch_head *head,
                         kiln_launch_values *out) {
    kiln_c_builder *b = of(base);
    const kiln_c_kernels *words = b->dialect->kernels;
    const kiln_ssa_type i64 = kiln_type_scalar(KILN_SSA_I64);
    kiln_strbuf text = {0};
    KILN_CHECK(words != NULL); /* dialects without launches belong to targets without them */
    *out = (kiln_launch_values){.scratch = NULL};
    kiln_strbuf_text(&text, words->head(b, head));
    declare_args(b, head, &text, out);
    kiln_strbuf_text(&text, ") {");
    begin_function(b, kiln_strbuf_end(&text, b->arena).data);
    const bool has_matrices =
        words->shared_matrices && head->shared_alignment == KILN_GROUP_ATOM_BYTES;
    out->shared = declare_memory(b, has_matrices ? words->shared_matrices : words->shared,
                                 "group_memory", head->shared_bytes, KILN_SPACE_SHARED);
    out->local =
        declare_memory(b, words->local, "thread_memory", head->local_bytes, KILN_SPACE_LOCAL);
    for (uint32_t d = 0; d < 3; d++) {
        out->grid[d] = kiln_c_define(b, i64, false, words->grid[d], NULL, 0);
        out->group[d] = kiln_c_define(b, i64, false, words->group[d], NULL, 0);
    }
}

void kiln_c_launch_end(kiln_builder *b) {
    kiln_vec_push_in(of(b)->arena, &of(b)->done, of(b)->function);
}

void kiln_c_barrier(kiln_builder *b) {
    put(of(b), of(b)->at, of(b)->dialect->kernels->barrier, NULL);
}
