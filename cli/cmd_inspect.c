/* `kiln inspect`: what a module is, for any machine: no code of it is loaded. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "cli/cli.h"
#include "cli/common/json.h"
#include "cli/inspect_steps.h"
#include "cli/module_trust.h"
#include "deploy/run/run.h"
#include "deploy/runtime/module_open.h"

typedef struct inspection {
    const char *path;
    kiln_str bytes;
    kiln_module *module;
    kiln_module_signed proof;
} inspection;

static uint32_t format_of(const inspection *i) {
    uint32_t version; /* the bytes were checked */
    memcpy(&version, i->bytes.data + KILN_MODULE_AT_VERSION, sizeof version);
    return version;
}

/* Of the bucket that runs: of the largest. */
static const kiln_module_plan *plan_of(const kiln_module *module) {
    const kiln_module_sizes *sizes = kiln_module_sizes_of(module);
    return &sizes->bucket[sizes->bucket_count - 1].plan;
}

static bool is_kernel(const kiln_module_step *step) {
    return step->action == KILN_MODULE_STEP_KERNEL;
}

static uint32_t count_calls(const kiln_module *module) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < kiln_module_step_count(module); i++)
        count += is_kernel(kiln_module_step_at(module, i));
    return count;
}

static const char *const state_text[] = {[KILN_MODULE_UNSIGNED] = "none",
                                         [KILN_MODULE_SIGNED] = "right",
                                         [KILN_MODULE_SIGNED_WRONG] = "wrong",
                                         [KILN_MODULE_SIGNED_UNCHECKED] = "unchecked"};

/* ---- text ------------------------------------------------------------------------------------ */

static void print_ports(const char *title, const kiln_module *module, uint32_t count,
                        const kiln_module_port *(*at)(const kiln_module *, uint32_t)) {
    printf("%s\n", title);
    for (uint32_t i = 0; i < count; i++) {
        const kiln_module_port *port = at(module, i);
        const kiln_shape shape = kiln_port_shape(port);
        kiln_strbuf text = {0};
        kiln_shape_print(&shape, &text);
        printf("  ");
        kiln_print_text(kiln_str_from(port->name), KILN_TEXT_LINE, stdout);
        printf("  %s%s, %zu bytes\n", kiln_dtype_name((kiln_dtype)port->dtype), text.data,
               port->size_bytes);
        kiln_strbuf_deinit(&text);
    }
}

static void print_sizes(const kiln_module *m) {
    const kiln_module_sizes *sizes = kiln_module_sizes_of(m);
    if (!sizes->dim.size) return;
    printf("sizes of ");
    kiln_print_text(sizes->dim, KILN_TEXT_LINE, stdout);
    printf("%s; the largest is shown\n",
           sizes->by_rows ? ", and all between them" : "; rows may depend on each other");
    for (uint32_t i = 0; i < sizes->bucket_count; i++) {
        const kiln_module_bucket *b = &sizes->bucket[i];
        printf("  %-6lld %u steps, %.1f KB of activations", (long long)b->size, b->plan.step_count,
               (double)b->plan.arena_bytes / 1024);
        if (b->median_ns) printf(", %.4g ms", (double)b->median_ns / 1e6);
        putchar('\n');
    }
}

static void print_text(const inspection *i) {
    const kiln_module *m = i->module;
    const kiln_module_plan *plan = plan_of(m);
    printf("%s: a module of format %u, %zu bytes, intact\n", i->path, format_of(i), i->bytes.size);
    for (uint32_t k = 0; k < plan->metadata_count; k++) {
        printf("  %-13.*s ", KILN_STR_ARG(plan->metadata[k].key));
        kiln_print_text(plan->metadata[k].value, KILN_TEXT_LINE, stdout);
        putchar('\n');
    }
    printf("  %-13s %s%s%s\n", "signature", state_text[i->proof.state],
           i->proof.state == KILN_MODULE_UNSIGNED ? "" : " of ", i->proof.signer);
    print_sizes(m);
    print_ports("inputs", m, kiln_module_input_count(m), kiln_module_input);
    print_ports("outputs", m, kiln_module_output_count(m), kiln_module_output);
    printf("kernels\n  %u, called %u times in %u steps, for %u thread%s\n",
           kiln_module_kernel_count(m), count_calls(m), kiln_module_step_count(m), plan->threads,
           plan->threads == 1 ? "" : "s");
    printf("memory\n  %.1f KB of activations, %.1f KB of constants in the file\n",
           (double)plan->arena_bytes / 1024, (double)kiln_module_constant_bytes(m) / 1024);
    for (uint32_t k = 0; k < plan->device_count; k++)
        printf("  %.1f KB of activations on device %u\n",
               (double)plan->device[k].arena_bytes / 1024, k + 1);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static json_t *json_shape(const kiln_module_port *port) {
    json_t *shape = json_array();
    for (uint32_t d = 0; d < port->rank; d++)
        json_array_append_new(shape, json_integer(port->shape[d]));
    return shape;
}

static void print_json_ports(const char *event, const kiln_module *module, uint32_t count,
                             const kiln_module_port *(*at)(const kiln_module *, uint32_t)) {
    for (uint32_t i = 0; i < count; i++) {
        const kiln_module_port *port = at(module, i);
        kiln_json_line(json_pack("{s:s, s:o, s:s, s:o, s:I}", "event", event, "name",
                                 kiln_json_str(kiln_str_from(port->name)), "dtype",
                                 kiln_dtype_name((kiln_dtype)port->dtype), "shape",
                                 json_shape(port), "bytes", (json_int_t)port->size_bytes));
    }
}

static json_t *json_metadata(const kiln_module_plan *plan) {
    json_t *object = json_object();
    for (uint32_t k = 0; k < plan->metadata_count; k++)
        json_object_setn_new(object, plan->metadata[k].key.data, plan->metadata[k].key.size,
                             kiln_json_str(plan->metadata[k].value));
    return object;
}

static void print_json_sizes(const kiln_module *m) {
    const kiln_module_sizes *sizes = kiln_module_sizes_of(m);
    for (uint32_t i = 0; sizes->dim.size && i < sizes->bucket_count; i++) {
        const kiln_module_bucket *b = &sizes->bucket[i];
        kiln_json_line(json_pack("{s:s, s:o, s:I, s:i, s:I, s:f, s:b}", "event", "bucket", "dim",
                                 kiln_json_str(sizes->dim), "size", (json_int_t)b->size, "steps",
                                 (int)b->plan.step_count, "arena_bytes",
                                 (json_int_t)b->plan.arena_bytes, "median_ms",
                                 (double)b->median_ns / 1e6, "takes_all", (int)sizes->by_rows));
    }
}

static void print_json(const inspection *i) {
    const kiln_module *m = i->module;
    const kiln_module_plan *plan = plan_of(m);
    uint64_t device_bytes = 0;
    for (uint32_t k = 0; k < plan->device_count; k++) device_bytes += plan->device[k].arena_bytes;
    kiln_json_line(json_pack(
        "{s:s, s:s, s:I, s:i, s:o, s:s, s:s, s:i, s:i, s:i, s:i, s:I, s:I, s:I}", "event", "module",
        "file", i->path, "bytes", (json_int_t)i->bytes.size, "format", (int)format_of(i),
        "metadata", json_metadata(plan), "signature", state_text[i->proof.state], "signer",
        i->proof.signer, "threads", (int)plan->threads, "kernels", (int)kiln_module_kernel_count(m),
        "calls", (int)count_calls(m), "steps", (int)kiln_module_step_count(m), "arena_bytes",
        (json_int_t)plan->arena_bytes, "device_bytes", (json_int_t)device_bytes, "constant_bytes",
        (json_int_t)kiln_module_constant_bytes(m)));
    print_json_sizes(m);
    print_json_ports("input", m, kiln_module_input_count(m), kiln_module_input);
    print_json_ports("output", m, kiln_module_output_count(m), kiln_module_output);
}

kiln_status kiln_cmd_inspect(kiln_arena *process, int argc, char **argv) {
    bool json = false;
    bool steps = false;
    inspection i = {0};
    kiln_opt_list trust = {0};
    const kiln_opt option[] = {
        {"steps", KILN_OPT_FLAG, &steps, NULL,
         "also print each step of a run with what it reads and gives, and each buffer with its "
         "memory and the steps that it lives for"},
        {"trust", KILN_OPT_LIST, &trust, "WHO", kiln_trust_help},
        {"json", KILN_OPT_FLAG, &json, NULL, "print one object per line"},
    };
    const kiln_opt_table table = {"kiln inspect MODULE [options]",
                                  "Checks every byte of a module for any machine and prints its "
                                  "origin (model and records), tensors, kernels and memory.",
                                  option,
                                  KILN_ARRAY_COUNT(option),
                                  1,
                                  1};
    kiln_args args;
    kiln_mapping file = {0};
    kiln_status st = kiln_args_parse(&table, argc, argv, process, &args);
    if (st || args.help) return st;
    i.path = args.positional[0];
    st = kiln_file_map(i.path, &file);
    i.bytes = (kiln_str){file.data, file.size};
    if (!st) st = kiln_status_note(kiln_module_inspect(i.bytes, 0, &i.module), "module %s", i.path);
    if (!st) st = kiln_module_signed_read(i.bytes, &i.proof);
    if (!st) json ? print_json(&i) : print_text(&i);
    if (!st && steps) st = kiln_inspect_steps(i.module, json);
    if (!st && i.proof.state == KILN_MODULE_SIGNED_WRONG)
        st = KILN_ERROR(DATA_LOSS, "module %s: it is not what %s signed", i.path, i.proof.signer);
    if (!st && trust.count)
        st = kiln_status_note(kiln_module_check_trust(i.bytes, &trust, process), "module %s",
                              i.path);
    kiln_module_close(i.module);
    kiln_file_unmap(&file);
    return st;
}
