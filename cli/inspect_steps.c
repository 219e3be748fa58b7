#include "cli/inspect_steps.h"

#include <stdio.h>

#include "base/macros.h"
#include "base/manifest.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/common/json.h"
#include "deploy/runtime/kernel.h"
#include "deploy/runtime/module_open.h"
#include "deploy/runtime/plan_flow.h"
#include "deploy/runtime/services.h"

typedef struct inspection {
    const kiln_module *module;
    const kiln_module_plan *plan;
    kiln_plan_flow flow;
    const kiln_manifest **manifest; /* [kernel_count] */
    kiln_arena arena;
} inspection;

static const char *const action_text[] = {
    [KILN_ACTION_KERNEL] = "kernel", [KILN_ACTION_ALIAS] = "alias", [KILN_ACTION_COPY] = "copy",
    [KILN_ACTION_EVENT] = "event",   [KILN_ACTION_LOOP] = "loop",   [KILN_ACTION_CARRY] = "carry"};

static const char *const kind_text[] = {[KILN_STORAGE_ARENA] = "workspace",
                                        [KILN_STORAGE_CONSTANT] = "constant",
                                        [KILN_STORAGE_INPUT] = "input",
                                        [KILN_STORAGE_OUTPUT] = "output"};

static kiln_status decode_manifests(inspection *i) {
    const uint32_t count = i->plan->kernel_count;
    kiln_status st = KILN_OK;
    i->manifest = KILN_ARENA_ARRAY(&i->arena, const kiln_manifest *, count);
    for (uint32_t k = 0; !st && k < count; k++) {
        kiln_artefact *artefact = KILN_ARENA_NEW(&i->arena, kiln_artefact);
        st = kiln_status_note(kiln_artefact_decode(i->plan->kernel[k], &i->arena, artefact),
                              "kernel %u", k);
        i->manifest[k] = &artefact->manifest;
    }
    return st;
}

/* NULL: the step calls no kernel. */
static const kiln_manifest *manifest_of(const inspection *i, const kiln_plan_step *step) {
    return step->action == KILN_ACTION_KERNEL ? i->manifest[step->kernel] : NULL;
}

/* Memory that a kernel has for itself while it runs, with as many workers as the module takes. */
static uint64_t scratch_of(const inspection *i, const kiln_manifest *manifest) {
    if (!manifest) return 0;
    const uint32_t workers = KILN_MIN(manifest->threads_max, kiln_module_threads(i->module));
    uint64_t bytes = kiln_services_scratch_bytes(manifest, KILN_MAX(workers, 1u));
    for (uint32_t k = 0; k < manifest->arg_count; k++) {
        size_t size = 0;
        if (manifest->arg[k].role != KILN_ROLE_TEMP) continue;
        kiln_status unknown = kiln_manifest_arg_bytes(&manifest->arg[k], &size);
        if (!unknown) bytes += size;
        kiln_status_free(unknown); /* decoding has checked it */
    }
    return bytes;
}

/* Physical layouts of the arguments of one role, joined by ';', as records have them; "" without a
 * kernel. */
static const char *layouts_of(inspection *i, const kiln_manifest *manifest, kiln_role role) {
    kiln_strbuf text = {0};
    for (uint32_t k = 0; manifest && k < manifest->arg_count; k++) {
        if (manifest->arg[k].role != role) continue;
        if (text.size) kiln_strbuf_char(&text, ';');
        kiln_layout_print(&manifest->arg[k].layout, &text);
    }
    return kiln_str_dup(&i->arena, kiln_strbuf_end(&text, &i->arena));
}

/* Buffers that the step reads, or that are its results. Loops read and write elements that are no
 * arguments. */
typedef struct buffers {
    uint32_t count;
    uint32_t *of;
} buffers;

static void add_element(buffers *list, uint32_t buffer) {
    if (buffer != KILN_PLAN_NONE) list->of[list->count++] = buffer;
}

static void find_buffers(inspection *i, uint32_t index, buffers *in, buffers *out) {
    const kiln_plan_step *step = &i->plan->step[index];
    const uint32_t first_output = step->arg_count - step->output_count;
    *in = *out = (buffers){0};
    in->of = KILN_ARENA_ARRAY(&i->arena, uint32_t, step->arg_count + 2);
    out->of = KILN_ARENA_ARRAY(&i->arena, uint32_t, step->arg_count + 1);
    for (uint32_t k = 0; k < step->arg_count; k++) {
        const uint32_t buffer = step->arg[k];
        const bool is_result = step->action == KILN_ACTION_ALIAS
                                   ? i->flow.buffer[buffer].renamed_by == index
                                   : k >= first_output;
        add_element(is_result ? out : in, buffer);
    }
    if (step->action != KILN_ACTION_LOOP) return;
    add_element(in, step->count);
    add_element(in, step->condition);
    add_element(out, step->index);
}

static uint64_t in_use_of_devices(const inspection *i, uint32_t index) {
    uint64_t bytes = 0;
    for (uint32_t d = 1; d <= i->plan->device_count; d++) bytes += i->flow.step[index].in_use[d];
    return bytes;
}

static const kiln_plan_buffer *root_of(const inspection *i, uint32_t buffer) {
    return &i->plan->buffer[kiln_module_plan_root(i->plan, buffer)];
}

/* The name of the port whose memory it is; NULL: the file has no name of other buffers. */
static const kiln_str *name_of(const inspection *i, uint32_t buffer) {
    const kiln_plan_buffer *b = &i->plan->buffer[buffer];
    if (b->storage == KILN_STORAGE_INPUT) return &i->plan->input[b->source].name;
    return b->storage == KILN_STORAGE_OUTPUT ? &i->plan->output[b->source].name : NULL;
}

/* ---- text ------------------------------------------------------------------------------------ */

/* ", after steps 0 1" */
static void print_numbers(const char *what, uint32_t count, const uint32_t *number) {
    if (count == KILN_PLAN_NONE) printf(", %ss unknown", what);
    if (count == KILN_PLAN_NONE || count == 0) return;
    printf(", %s%s", what, count == 1 ? "" : "s");
    for (uint32_t k = 0; k < count; k++) printf(" %u", number[k]);
}

static void print_step(inspection *i, uint32_t index) {
    const kiln_module_step *step = kiln_module_step_at(i->module, index);
    const kiln_plan_step_flow *flow = &i->flow.step[index];
    buffers in, out;
    find_buffers(i, index, &in, &out);
    printf("  %-4u ", index);
    kiln_print_text(kiln_str_from(step->op), KILN_TEXT_LINE, stdout);
    if (step->action == KILN_MODULE_STEP_KERNEL)
        printf("  %s, %.4g MFLOP, task %.16s", step->algorithm, step->flops / 1e6, step->task);
    printf("  (");
    kiln_print_text(kiln_str_from(step->name), KILN_TEXT_LINE, stdout);
    printf(")\n       %s", action_text[step->action]);
    print_numbers("after step", flow->source_count, flow->source);
    print_numbers("reads buffer", in.count, in.of);
    print_numbers("gives buffer", out.count, out.of);
    if (flow->loop != KILN_PLAN_NONE) printf(", in loop %u", flow->loop);
    printf(", %.1f KB in use", (double)flow->in_use[0] / 1024);
    if (i->plan->device_count > 0)
        printf(" and %.1f KB on devices", (double)in_use_of_devices(i, index) / 1024);
    putchar('\n');
}

static void print_buffer(const inspection *i, uint32_t index) {
    const kiln_plan_buffer *b = &i->plan->buffer[index];
    const kiln_plan_buffer_flow *flow = &i->flow.buffer[index];
    const kiln_str *name = name_of(i, index);
    printf("  %-4u %s", index, kind_text[root_of(i, index)->storage]);
    if (name) {
        putchar(' ');
        kiln_print_text(*name, KILN_TEXT_LINE, stdout);
    }
    printf(", %llu bytes", (unsigned long long)b->size_bytes);
    if (b->storage == KILN_STORAGE_ARENA) printf(" at %llu", (unsigned long long)b->offset);
    if (b->storage == KILN_STORAGE_ALIAS)
        printf(" at %llu of buffer %u", (unsigned long long)b->offset, b->source);
    if (b->device > 0) printf(" on device %u", b->device);
    if (flow->first == KILN_PLAN_NONE)
        printf(", unused\n");
    else
        printf(", steps %u to %u\n", flow->first, flow->last);
}

static void print_text(inspection *i) {
    printf("steps\n");
    for (uint32_t k = 0; k < i->plan->step_count; k++) print_step(i, k);
    printf("buffers\n");
    for (uint32_t k = 0; k < i->plan->buffer_count; k++) print_buffer(i, k);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static json_t *json_number_or_null(uint32_t number) {
    return number == KILN_PLAN_NONE ? json_null() : json_integer(number);
}

static json_t *json_numbers(uint32_t count, const uint32_t *number) {
    if (count == KILN_PLAN_NONE) return json_null();
    json_t *list = json_array();
    for (uint32_t k = 0; k < count; k++) json_array_append_new(list, json_integer(number[k]));
    return list;
}

static void print_json_step(inspection *i, uint32_t index) {
    const kiln_module_step *step = kiln_module_step_at(i->module, index);
    const kiln_plan_step *planned = &i->plan->step[index];
    const kiln_plan_step_flow *flow = &i->flow.step[index];
    const kiln_manifest *manifest = manifest_of(i, planned);
    buffers in, out;
    find_buffers(i, index, &in, &out);
    json_t *line = json_pack("{s:s, s:i, s:o, s:o, s:s, s:s, s:f}", "event", "step", "number",
                             (int)index, "name", kiln_json_str(kiln_str_from(step->name)), "op",
                             kiln_json_str(kiln_str_from(step->op)), "algorithm", step->algorithm,
                             "task", step->task, "flops", step->flops);
    json_t *more = json_pack(
        "{s:s, s:i, s:o, s:o, s:o, s:o, s:s, s:s, s:I, s:I, s:I}", "action",
        action_text[step->action], "device", (int)planned->device, "loop",
        json_number_or_null(flow->loop), "sources", json_numbers(flow->source_count, flow->source),
        "inputs", json_numbers(in.count, in.of), "outputs", json_numbers(out.count, out.of),
        "layout_in", layouts_of(i, manifest, KILN_ROLE_INPUT), "layout_out",
        layouts_of(i, manifest, KILN_ROLE_OUTPUT), "in_use", (json_int_t)flow->in_use[0],
        "device_in_use", (json_int_t)in_use_of_devices(i, index), "scratch_bytes",
        (json_int_t)scratch_of(i, manifest));
    json_object_update(line, more);
    json_decref(more);
    kiln_json_line(line);
}

static void print_json_buffer(const inspection *i, uint32_t index) {
    const kiln_plan_buffer *b = &i->plan->buffer[index];
    const kiln_plan_buffer_flow *flow = &i->flow.buffer[index];
    const kiln_str *name = name_of(i, index);
    const bool is_part = b->storage == KILN_STORAGE_ALIAS,
               is_planned = b->storage == KILN_STORAGE_ARENA;
    kiln_json_line(json_pack(
        "{s:s, s:i, s:s, s:o, s:I, s:i, s:o, s:o, s:o, s:o, s:o}", "event", "tensor", "buffer",
        (int)index, "kind", kind_text[root_of(i, index)->storage], "name",
        name ? kiln_json_str(*name) : json_null(), "bytes", (json_int_t)b->size_bytes, "device",
        (int)b->device, "offset", is_planned ? json_integer((json_int_t)b->offset) : json_null(),
        "part_of", is_part ? json_integer(b->source) : json_null(), "part_at",
        is_part ? json_integer((json_int_t)b->offset) : json_null(), "first",
        json_number_or_null(flow->first), "last", json_number_or_null(flow->last)));
}

static void print_json(inspection *i) {
    for (uint32_t k = 0; k < i->plan->step_count; k++) print_json_step(i, k);
    for (uint32_t k = 0; k < i->plan->buffer_count; k++) print_json_buffer(i, k);
}

kiln_status kiln_inspect_steps(const kiln_module *module, bool json) {
    const kiln_module_sizes *sizes = kiln_module_sizes_of(module);
    inspection i = {.module = module, .plan = &sizes->bucket[sizes->bucket_count - 1].plan};
    kiln_arena_init(&i.arena, 0);
    kiln_status st = decode_manifests(&i);
    if (!st) st = kiln_module_plan_follow(i.plan, &i.arena, &i.flow);
    if (!st) json ? print_json(&i) : print_text(&i);
    kiln_arena_deinit(&i.arena);
    return st;
}
