/* Records and default schedules, handed to the layout assignment. */
#include "deploy/pack/choose.h"

#include "base/map.h"

typedef struct chooser {
    const kiln_pack_options *options;
    kiln_arena *arena;
    kiln_str target;
    kiln_map conversions; /* "shape from to" -> index into ns */
    KILN_VEC(double) ns;
    kiln_status failure; /* the first failure of a callback */
} chooser;

static kiln_db_filter fastest_of(const chooser *c, kiln_str task_key) {
    const kiln_accuracy *accuracy = &c->options->accuracy;
    return (kiln_db_filter){
        .task_key = task_key,
        .target = c->target,
        .allowed = {kiln_algorithm_allowed(accuracy, c->arena), kiln_accuracy_error_max(accuracy)},
        .order = KILN_DB_FASTEST,
        .codegen_version = kiln_str_from(kiln_codegen_version())};
}

static kiln_status find_in_db(void *context, const kiln_db_filter *filter, kiln_arena *arena,
                              kiln_db_record **out_records, uint32_t *out_count) {
    return kiln_db_records(context, filter, arena, out_records, out_count);
}

kiln_pack_stored kiln_pack_stored_in(kiln_db *db) { return (kiln_pack_stored){find_in_db, db}; }

static kiln_status find_records(const chooser *c, const kiln_db_filter *filter, kiln_arena *arena,
                                kiln_db_record **out_records, uint32_t *out_count) {
    const kiln_pack_stored *stored = c->options->stored;
    return stored->find(stored->context, filter, arena, out_records, out_count);
}

/* ---- conversions ----------------------------------------------------------------------------- */

static kiln_str conversion_name(const chooser *c, const kiln_value_info *info,
                                const kiln_layout *from, const kiln_layout *to) {
    kiln_strbuf text = {0};
    kiln_strbuf_printf(&text, "%u", (unsigned)info->dtype);
    for (uint32_t d = 0; d < info->shape.rank; d++)
        kiln_strbuf_printf(&text, ",%lld", (long long)info->shape.dim[d]);
    kiln_strbuf_text(&text, " ");
    kiln_layout_print(from, &text);
    kiln_strbuf_text(&text, " ");
    kiln_layout_print(to, &text);
    return kiln_strbuf_end(&text, c->arena);
}

static double look_up_ns(chooser *c, const kiln_value_info *info, const kiln_layout *from,
                         const kiln_layout *to) {
    kiln_db_record *record = NULL;
    uint32_t count = 0;
    if (c->options->stored && !c->failure) {
        kiln_program *te = kiln_conversion_te(info->dtype, &info->shape, from, to, c->arena);
        kiln_db_filter filter = fastest_of(c, kiln_task_key(te, c->arena));
        filter.limit = 1;
        c->failure = find_records(c, &filter, c->arena, &record, &count);
    }
    return count ? record[0].median_ns
                 : kiln_conversion_estimate_ns(info->dtype, &info->shape, from, to);
}

static double conversion_ns(void *context, const kiln_value_info *info, const kiln_layout *from,
                            const kiln_layout *to) {
    chooser *c = context;
    kiln_str name = conversion_name(c, info, from, to);
    uint64_t index = 0;
    if (!kiln_map_find(&c->conversions, name, &index)) {
        index = c->ns.count;
        kiln_vec_push_in(c->arena, &c->ns, look_up_ns(c, info, from, to));
        kiln_map_put(&c->conversions, name, index);
    }
    return c->ns.data[index];
}

/* ---- records --------------------------------------------------------------------------------- */

/* The layouts of one role from a record's text ("row;d0,d1/8,d2,d3,d1%8"), into their places. */
static kiln_status parse_layouts(kiln_str text, const kiln_program *te, kiln_role role,
                                 kiln_layout *layout) {
    kiln_arg_buffers args = kiln_program_args(te);
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; !st && i < args.count; i++) {
        const kiln_buffer_info *buffer = &te->buffer.data[args.buffer[i]];
        if (buffer->role == role)
            st = kiln_layout_parse(kiln_str_cut(&text, ';'), buffer->shape.rank, &layout[i]);
    }
    return st;
}

static bool is_among(const kiln_str *key, uint32_t count, kiln_str task_key) {
    for (uint32_t i = 0; i < count; i++)
        if (kiln_str_equal(key[i], task_key)) return true;
    return false;
}

static bool is_exact(void *context, const kiln_task *task) {
    const kiln_pack_options *o = ((const chooser *)context)->options;
    return is_among(o->exact, o->exact_count, task->key);
}

/* ---- schedules given by the user --------------------------------------------------------------
 */

static const kiln_pack_given *find_given(const kiln_pack_options *options, kiln_str task_key) {
    for (uint32_t i = 0; i < options->given_count; i++)
        if (kiln_str_equal(options->given[i].task_key, task_key)) return &options->given[i];
    return NULL;
}

static kiln_status add_given(const kiln_pack_given *given, const kiln_task *task, kiln_arena *arena,
                             kiln_ways *list) {
    kiln_program *program = NULL;
    kiln_strbuf bytes = {0};
    kiln_status st = kiln_trace_replay(&given->trace, task->te, NULL, arena, &program, NULL);
    if (st)
        return kiln_status_note(st, "the schedule that is given for %.*s", KILN_STR_ARG(task->key));
    const kiln_arg_buffers arg = kiln_program_args(program);
    kiln_trace_encode(&given->trace, &bytes);
    kiln_way way = {.trace = kiln_strbuf_end(&bytes, arena),
                    .is_given = true,
                    .layout = KILN_ARENA_ARRAY(arena, kiln_layout, arg.count)};
    for (uint32_t i = 0; i < arg.count; i++)
        if (program->buffer.data[arg.buffer[i]].role != KILN_ROLE_CONSTANT)
            way.layout[i] = program->buffer.data[arg.buffer[i]].layout;
    kiln_ways_add(list, task, &way, arena);
    return KILN_OK;
}

static kiln_status check_given(const kiln_compilation *compilation,
                               const kiln_pack_options *options) {
    for (uint32_t i = 0; i < options->given_count; i++) {
        bool known = false;
        for (uint32_t t = 0; t < compilation->plan.tasks.count; t++)
            known |=
                kiln_str_equal(compilation->plan.tasks.task[t].key, options->given[i].task_key);
        if (!known)
            return KILN_ERROR(NOT_FOUND,
                              "a schedule is given for task %.*s, which the model does not have "
                              "(kiln explain MODEL --stage tasks lists them)",
                              KILN_STR_ARG(options->given[i].task_key));
    }
    return KILN_OK;
}

/* ---- ways -------------------------------------------------------------------------------------
 */

/* The fastest record of each combination of layouts, fastest first. */
static kiln_status add_records(const chooser *c, const kiln_task *task, kiln_arena *arena,
                               kiln_ways *list) {
    uint32_t arg_count = kiln_program_args(task->te).count, count = 0;
    kiln_db_record *record = NULL;
    kiln_db_filter filter = fastest_of(c, task->key);
    const kiln_pack_options *o = c->options;
    if (is_among(o->exact, o->exact_count, task->key))
        filter.allowed.algorithms = kiln_algorithm_allowed(&(kiln_accuracy){.exact = true}, arena);
    kiln_status st = find_records(c, &filter, arena, &record, &count);
    const bool taken_back = is_among(o->taken_back, o->taken_back_count, task->key);
    for (uint32_t i = 0; !st && i < count; i++) {
        kiln_way way = {.trace = record[i].trace,
                        .cost_ns = record[i].median_ns,
                        .median_ns = record[i].median_ns,
                        .relative_error = record[i].relative_error,
                        .is_default = kiln_str_is(record[i].searcher, "default"),
                        .layout = KILN_ARENA_ARRAY(arena, kiln_layout, arg_count)};
        st = parse_layouts(record[i].layout_in, task->te, KILN_ROLE_INPUT, way.layout);
        if (!st) st = parse_layouts(record[i].layout_out, task->te, KILN_ROLE_OUTPUT, way.layout);
        if (!st && (way.is_default || !taken_back)) kiln_ways_add(list, task, &way, arena);
    }
    return kiln_status_note(st, "records of %.*s", KILN_STR_ARG(task->op));
}

static kiln_status add_ways(void *context, const kiln_task *task, kiln_arena *arena,
                            kiln_ways *list) {
    const chooser *c = context;
    const kiln_pack_given *given = find_given(c->options, task->key);
    if (given) return add_given(given, task, arena, list);
    return c->options->stored ? add_records(c, task, arena, list) : KILN_OK;
}

static bool may_join(void *context, const kiln_task *task) {
    const kiln_pack_options *o = ((const chooser *)context)->options;
    return !is_among(o->taken_back, o->taken_back_count, task->key);
}

static bool leaves_out(const kiln_pack_options *options, kiln_planner planner) {
    return options->without >> planner & 1;
}

kiln_status kiln_choose(kiln_compilation *compilation, const kiln_pack_options *options) {
    kiln_strbuf target = {0};
    kiln_target_print(&compilation->target, &target);
    chooser c = {
        .options = options, .arena = compilation->arena, .target = kiln_strbuf_view(&target)};
    const kiln_choice choice = {
        .row_major = leaves_out(options, KILN_PLANNER_LAYOUT),
        .apart = leaves_out(options, KILN_PLANNER_EXCHANGE),
        .no_windows = leaves_out(options, KILN_PLANNER_WINDOWS),
        .compact = options->as_c,
        .no_joins = leaves_out(options, KILN_PLANNER_JOINS) || options->given_count > 0,
        .accuracy = options->accuracy,
        .is_exact = is_exact,
        .measured = options->stored || options->given_count ? add_ways : NULL,
        .may_join = may_join,
        .conversion_ns = conversion_ns,
        .context = &c};
    kiln_map_init(&c.conversions);
    kiln_status st = check_given(compilation, options);
    if (!st) st = kiln_compilation_choose(compilation, &choice);
    kiln_map_deinit(&c.conversions);
    kiln_strbuf_deinit(&target);
    if (!c.failure) return st;
    kiln_status_free(st); /* the first error is kept */
    return kiln_status_note(c.failure, "choosing schedules");
}
