#include "cli/plan.h"

#include "base/mpack.h"
#include "base/stats.h"
#include "cli/common/json.h"
#include "cli/common/model_work.h"
#include "cli/common/task_names.h"
#include "deploy/pack/choose.h"

#define LAYERS_MAX 65536u

/* A kernel's place in the model. */
typedef struct layer {
    kiln_str name, label, task;
    kiln_str algorithm, precision;
    kiln_str layout;          /* in which it writes */
    double stated, measured;  /* errors over the largest magnitude; 0: none, not known */
    double median_ns;         /* 0: not measured */
    bool is_default, on_host; /* on_host: not on the device that the model is for */
} layer;

/* Kernels that may be one, and were measured as one. */
typedef struct joint {
    kiln_str name, kernels; /* of the first of them; "conv+relu > max_pool" */
    bool chosen;
    double joined_ns, apart_ns;
} joint;

typedef struct layers {
    layer *item;
    uint32_t count;
    joint *joint;
    uint32_t joint_count;
} layers;

static void code_joints(kiln_mpack_coder *m, kiln_arena *arena, layers *l) {
    kiln_mpack_code_count(m, LAYERS_MAX, "joins", &l->joint_count);
    if (!m->out && !m->st) l->joint = KILN_ARENA_ARRAY(arena, joint, l->joint_count);
    for (uint32_t i = 0; !m->st && i < l->joint_count; i++) {
        joint *of = &l->joint[i];
        kiln_mpack_code_fields(m, 5);
        kiln_mpack_code_str(m, &of->name);
        kiln_mpack_code_str(m, &of->kernels);
        kiln_mpack_code_bool(m, &of->chosen);
        kiln_mpack_code_f64(m, &of->joined_ns);
        kiln_mpack_code_f64(m, &of->apart_ns);
    }
}

static void code_layers(kiln_mpack_coder *m, kiln_arena *arena, layers *l) {
    kiln_mpack_code_count(m, LAYERS_MAX, "layers", &l->count);
    if (!m->out && !m->st) l->item = KILN_ARENA_ARRAY(arena, layer, l->count);
    for (uint32_t i = 0; !m->st && i < l->count; i++) {
        layer *of = &l->item[i];
        kiln_str *text[] = {&of->name,      &of->label,     &of->task,
                            &of->algorithm, &of->precision, &of->layout};
        double *number[] = {&of->stated, &of->measured, &of->median_ns};
        kiln_mpack_code_fields(m, KILN_ARRAY_COUNT(text) + KILN_ARRAY_COUNT(number) + 2);
        for (size_t k = 0; k < KILN_ARRAY_COUNT(text); k++) kiln_mpack_code_str(m, text[k]);
        for (size_t k = 0; k < KILN_ARRAY_COUNT(number); k++) kiln_mpack_code_f64(m, number[k]);
        kiln_mpack_code_bool(m, &of->is_default);
        kiln_mpack_code_bool(m, &of->on_host);
    }
    code_joints(m, arena, l);
}

/* ---- in the process without rights ----------------------------------------------------------- */

/* The direct form computes in the type of what it reads. */
static const char *precision_of(kiln_algorithm algorithm, const kiln_task *task) {
    const kiln_arg_buffers arg = kiln_program_args(task->te);
    return algorithm == KILN_ALGORITHM_DIRECT
               ? kiln_dtype_name(task->te->buffer.data[arg.buffer[0]].dtype)
               : kiln_precision_name(kiln_algorithm_precision(algorithm));
}

static kiln_status layer_of(const kiln_compilation *c, uint32_t s, kiln_arena *arena, layer *out) {
    const kiln_step *step = &c->plan.step[s];
    const kiln_task *task = &c->plan.tasks.task[step->task];
    const kiln_way *way = c->way[s];
    kiln_strbuf layout = {0};
    kiln_trace trace;
    kiln_status st = kiln_trace_decode(way->trace, arena, &trace);
    if (st) return st;
    const kiln_algorithm algorithm = kiln_trace_algorithm(&trace);
    kiln_layout_print(&c->layout[step->arg[step->arg_count - 1]], &layout);
    *out = (layer){.name = step->name,
                   .label = kiln_str_from(kiln_task_label(task, arena)),
                   .task = task->key,
                   .algorithm = kiln_str_from(kiln_algorithm_name(algorithm)),
                   .precision = kiln_str_from(precision_of(algorithm, task)),
                   .layout = kiln_strbuf_end(&layout, arena),
                   .stated = kiln_algorithm_relative_error(algorithm),
                   .measured = way->relative_error,
                   .median_ns = way->median_ns,
                   .is_default = way->is_default,
                   .on_host = way->on_host};
    return KILN_OK;
}

static void find_joints(const kiln_compilation *c, kiln_arena *arena, layers *out) {
    out->joint = KILN_ARENA_ARRAY(arena, joint, c->joins.count);
    for (uint32_t j = 0; j < c->joins.count; j++) {
        const kiln_join *join = &c->joins.join[j];
        const kiln_join_times *times = &c->join_times[j];
        kiln_strbuf kernels = {0};
        if (times->joined_ns <= 0) continue;
        kiln_step_row_print(&join->row, &c->base, &kernels);
        out->joint[out->joint_count++] = (joint){.name = join->step.name,
                                                 .kernels = kiln_strbuf_end(&kernels, arena),
                                                 .chosen = c->joined[j],
                                                 .joined_ns = times->joined_ns,
                                                 .apart_ns = times->apart_ns};
    }
}

static kiln_status run(const kiln_model_call *call, kiln_graph *graph, kiln_arena *arena,
                       kiln_isolated_result *out_result) {
    const kiln_stage_options *o = call->work->context;
    const kiln_pack_stored stored = kiln_model_stored(call);
    const kiln_pack_options options = {.stored = stored.find ? &stored : NULL,
                                       .accuracy = o->accuracy};
    kiln_compilation *c = NULL;
    layers found = {0};
    kiln_strbuf bytes = {0};
    kiln_status st = kiln_compilation_of_model(graph, o->target, &o->accuracy, arena, &c);
    if (!st) st = kiln_choose(c, &options);
    if (!st) found.item = KILN_ARENA_ARRAY(arena, layer, c->plan.step_count);
    for (uint32_t s = 0; !st && s < c->plan.step_count; s++)
        if (c->plan.step[s].kind == KILN_STEP_KERNEL && !c->windows.step[s])
            st = layer_of(c, s, arena, &found.item[found.count++]);
    if (!st) find_joints(c, arena, &found);
    kiln_mpack_coder m = {.out = &bytes, .st = st};
    if (!st) code_layers(&m, arena, &found);
    *out_result = kiln_model_result(kiln_strbuf_end(&bytes, arena), arena);
    return m.st;
}

/* ---- in the command -------------------------------------------------------------------------- */

static void print_json(const layers *l, const kiln_accuracy *accuracy) {
    json_t *list = json_array(), *joins = json_array();
    for (uint32_t i = 0; i < l->joint_count; i++) {
        const joint *of = &l->joint[i];
        json_array_append_new(
            joins, json_pack("{s:o, s:o, s:b, s:f, s:f}", "name", kiln_json_str(of->name),
                             "kernels", kiln_json_str(of->kernels), "chosen", of->chosen,
                             "joined_ms", of->joined_ns / 1e6, "apart_ms", of->apart_ns / 1e6));
    }
    for (uint32_t i = 0; i < l->count; i++) {
        const layer *of = &l->item[i];
        json_array_append_new(
            list, json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:f, s:f, s:f, s:b, s:b}", "name",
                            kiln_json_str(of->name), "label", kiln_json_str(of->label), "task",
                            kiln_json_str(of->task), "algorithm", kiln_json_str(of->algorithm),
                            "precision", kiln_json_str(of->precision), "layout",
                            kiln_json_str(of->layout), "stated_error", of->stated, "measured_error",
                            of->measured, "median_ms", of->median_ns / 1e6, "default",
                            of->is_default, "on_host", of->on_host));
    }
    kiln_json_line(json_pack("{s:s, s:s, s:s, s:f, s:b, s:o, s:o}", "event", "explain", "stage",
                             "plan", "precision", kiln_precision_name(accuracy->precision),
                             "error_max", kiln_accuracy_error_max(accuracy), "exact",
                             accuracy->exact, "layers", list, "joins", joins));
}

static void print_error(double error, kiln_strbuf *out) {
    if (error > 0)
        kiln_strbuf_printf(out, "  %8.1e", error);
    else
        kiln_strbuf_printf(out, "  %8s", "-");
}

static void print_text(const layers *l, const kiln_accuracy *accuracy, kiln_strbuf *out) {
    double sum_ns = 0;
    kiln_accuracy_print(accuracy, out);
    kiln_strbuf_printf(out, "\n%-36s  %-25s  %-9s  %8s  %8s  %10s  %s\n", "layer", "algorithm",
                       "precision", "stated", "measured", "time", "writes");
    for (uint32_t i = 0; i < l->count; i++) {
        const layer *of = &l->item[i];
        kiln_strbuf time = {0};
        if (of->median_ns > 0)
            kiln_print_time(of->median_ns, &time);
        else
            kiln_strbuf_text(&time, "-");
        sum_ns += of->median_ns;
        kiln_strbuf_printf(out, "%-36.*s  %-25.*s  %-9.*s", KILN_STR_ARG(of->label),
                           KILN_STR_ARG(of->algorithm), KILN_STR_ARG(of->precision));
        print_error(of->stated, out);
        print_error(of->measured, out);
        kiln_strbuf_printf(out, "  %10s  %.*s%s%s\n", time.data, KILN_STR_ARG(of->layout),
                           of->is_default ? ", default" : "", of->on_host ? ", on the host" : "");
        kiln_strbuf_deinit(&time);
    }
    kiln_strbuf_printf(out, "%u kernel%s", l->count, l->count == 1 ? "" : "s");
    if (sum_ns > 0) {
        kiln_strbuf_text(out, ", measured ones together ");
        kiln_print_time(sum_ns, out);
    }
    kiln_strbuf_char(out, '\n');
    for (uint32_t i = 0; i < l->joint_count; i++) {
        const joint *of = &l->joint[i];
        kiln_strbuf_printf(out, "%s %.*s at %.*s: as one kernel ",
                           of->chosen ? "joined" : "not joined", KILN_STR_ARG(of->kernels),
                           KILN_STR_ARG(of->name));
        kiln_print_time(of->joined_ns, out);
        kiln_strbuf_text(out, ", apart ");
        kiln_print_time(of->apart_ns, out);
        kiln_strbuf_char(out, '\n');
    }
}

kiln_status kiln_plan_print(const char *model_path, const kiln_stage_options *options, bool json,
                            kiln_arena *process, kiln_strbuf *out) {
    kiln_mapping result = {0};
    kiln_mpack_coder m = {0};
    layers found = {0};
    kiln_status st = kiln_model_explain(model_path, options, run, process, &result);
    if (st) return st;
    kiln_mpack_reader_init(&m.in, result.data, result.size);
    code_layers(&m, process, &found);
    if (!m.st && json) print_json(&found, &options->accuracy);
    if (!m.st && !json) print_text(&found, &options->accuracy, out);
    return m.st;
}
