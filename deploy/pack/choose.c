/* Records and default schedules, handed to the layout assignment. */
#include "deploy/pack/choose.h"

#include "base/map.h"

typedef struct chooser {
    const kiln_graph *graph;
    const kiln_pack_options *options;
    kiln_arena *arena;
    kiln_str target;
    kiln_map conversions; /* "shape from to" -> index into ns */
    KILN_VEC(double) ns;
    kiln_status failure; /* of a callback; the first counts */
} chooser;

static kiln_db_filter fastest_of(const chooser *c, kiln_str task_key) {
    return (kiln_db_filter){.task_key = task_key,
                            .target = c->target,
                            .order = KILN_DB_FASTEST,
                            .codegen_version = kiln_str_from(kiln_codegen_version())};
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
    kiln_str name = kiln_str_from(kiln_str_dup(c->arena, kiln_strbuf_view(&text)));
    kiln_strbuf_deinit(&text);
    return name;
}

static double look_up_ns(chooser *c, const kiln_value_info *info, const kiln_layout *from,
                         const kiln_layout *to) {
    kiln_db_record *record = NULL;
    uint32_t count = 0;
    if (c->options->db && !c->failure) {
        kiln_program *te = kiln_conversion_te(info->dtype, &info->shape, from, to, c->arena);
        kiln_db_filter filter = fastest_of(c, kiln_task_key(te, c->arena));
        filter.limit = 1;
        c->failure = kiln_db_records(c->options->db, &filter, c->arena, &record, &count);
    }
    return count ? record[0].median_ns
                 : kiln_conversion_estimate_ns(info->dtype, &info->shape, from, to);
}

static double conversion_ns(void *context, kiln_value value, const kiln_layout *from,
                            const kiln_layout *to) {
    chooser *c = context;
    const kiln_value_info *info = &c->graph->value.data[value];
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

/* The fastest record of each combination of layouts, fastest first. */
static kiln_status add_records(const chooser *c, const kiln_task *task, kiln_alternatives *list) {
    kiln_arg_buffers args = kiln_program_args(task->te);
    uint32_t count = 0;
    kiln_db_record *record = NULL;
    kiln_db_filter filter = fastest_of(c, task->key);
    kiln_status st = kiln_db_records(c->options->db, &filter, c->arena, &record, &count);
    for (uint32_t i = 0; !st && i < count; i++) {
        kiln_alternative way = {.trace = record[i].trace,
                                .cost_ns = record[i].median_ns,
                                .median_ns = record[i].median_ns,
                                .is_default = kiln_str_is(record[i].searcher, "default"),
                                .layout = KILN_ARENA_ARRAY(c->arena, kiln_layout, args.count)};
        st = parse_layouts(record[i].layout_in, task->te, KILN_ROLE_INPUT, way.layout);
        if (!st) st = parse_layouts(record[i].layout_out, task->te, KILN_ROLE_OUTPUT, way.layout);
        if (!st) kiln_alternatives_add(list, task, &way, c->arena);
    }
    return kiln_status_note(st, "records of %.*s", KILN_STR_ARG(task->op));
}

kiln_status kiln_choose(const kiln_graph *graph, const kiln_plan *plan,
                        const kiln_pack_options *options, kiln_arena *arena,
                        const kiln_alternative **out_way, kiln_layout *out_layout) {
    kiln_strbuf target = {0};
    kiln_target_print(options->target, &target);
    chooser c = {
        .graph = graph, .options = options, .arena = arena, .target = kiln_strbuf_view(&target)};
    kiln_map_init(&c.conversions);
    kiln_alternatives *list = KILN_ARENA_ARRAY(arena, kiln_alternatives, plan->tasks.count);
    for (uint32_t t = 0; !c.failure && options->db && t < plan->tasks.count; t++)
        c.failure = add_records(&c, &plan->tasks.task[t], &list[t]);
    bool packed = !(options->without >> KILN_PLANNER_LAYOUT & 1),
         exchange = packed && !(options->without >> KILN_PLANNER_EXCHANGE & 1);
    if (!c.failure && exchange)
        c.failure = kiln_alternatives_add_defaults(plan, options->target, arena, list);
    else if (!c.failure)
        c.failure = kiln_alternatives_make_row_major(plan, options->target, packed, arena, list);
    if (!c.failure && !(options->without >> KILN_PLANNER_WINDOWS & 1))
        kiln_alternatives_free_windows(plan, arena, list);
    if (!c.failure) {
        const kiln_assignment assignment = {graph, plan, list, conversion_ns, &c};
        uint32_t *way = KILN_ARENA_ARRAY(arena, uint32_t, plan->step_count);
        kiln_layout_assign(&assignment, arena, way);
        kiln_layout_of_values(&assignment, way, out_layout);
        for (uint32_t s = 0; s < plan->step_count; s++)
            out_way[s] = plan->step[s].kind == KILN_STEP_KERNEL
                             ? &list[plan->step[s].task].way.data[way[s]]
                             : NULL;
    }
    kiln_map_deinit(&c.conversions);
    kiln_strbuf_deinit(&target);
    return kiln_status_note(c.failure, "choosing schedules");
}
