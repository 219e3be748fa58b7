#include "deploy/pack/wasm_module.h"

#include <string.h>

#include "base/integer.h"
#include "base/kernel_abi.h"
#include "base/manifest.h"
#include "base/text.h"
#include "base/wasm.h"
#include "deploy/pack/flatten.h"
#include "deploy/pack/prepared.h"

/* kiln_kernel_tensor and kiln_kernel_services where pointers have 32 bits: their sizes, and the
 * fields that are not zero. */
#define TENSOR_BYTES 40u
#define TENSOR_AT_DATA 0u
#define SERVICES_BYTES 20u
#define SERVICES_AT_VERSION 0u
#define SERVICES_AT_WORKERS 4u
#define SERVICES_AT_SCRATCH 16u

/* The data's address is a signed number of 32 bits in the file. */
#define MEMORY_BYTES_MAX (UINT64_C(1) << 31)
#define OPCODE_I32_CONST 0x41
#define OPCODE_END 0x0b

typedef struct writer {
    const kiln_module_sizes *sizes;
    const kiln_flat *flat;
    const kiln_module_plan *plan; /* the flat one */
    kiln_arena *arena;
    kiln_artefact *kernel;    /* [kernel_count] */
    uint32_t *first_payload;  /* [kernel_count] the section kiln.kernel of its payload 0 */
    uint32_t *packer;         /* [step_count] */
    const uint32_t *grown_by; /* [buffer_count] */
    uint64_t used;            /* bytes of memory placed so far */
    uint64_t data_at;         /* address of the first byte of `data` */
    uint64_t services, scratch;
    uint64_t *address;   /* [buffer_count] addresses; not of aliases */
    uint64_t **own;      /* [step_count][arguments of its kernel] of packed ones and temps */
    uint64_t **table;    /* [kernel_count][arguments] */
    kiln_strbuf data;    /* the end of the memory */
    kiln_strbuf prepare; /* JSON: calls */
    kiln_strbuf steps;   /* JSON */
} writer;

static uint64_t arg_bytes(const kiln_manifest_arg *arg) {
    kiln_shape physical = kiln_layout_physical(&arg->layout, &arg->shape);
    return (uint64_t)kiln_shape_count(&physical) * kiln_dtype_size(arg->dtype);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static uint64_t take(writer *w, uint64_t bytes) {
    const uint64_t at = KILN_ALIGN_UP(w->used, (uint64_t)KILN_KERNEL_ALIGNMENT);
    w->used = at + bytes;
    return at;
}

/* Memory that begins with these bytes. */
static uint64_t put(writer *w, const void *bytes, uint64_t size) {
    static const char zero[KILN_KERNEL_ALIGNMENT];
    const uint64_t at = take(w, size);
    const uint64_t missing = at - w->data_at - w->data.size;
    kiln_strbuf_append(&w->data, zero, (size_t)missing);
    kiln_strbuf_append(&w->data, bytes, (size_t)size);
    return at;
}

static void write_u32(char *at, uint64_t value) {
    const uint32_t word = (uint32_t)value;
    memcpy(at, &word, sizeof word);
}

static void place_constants(writer *w) {
    for (uint32_t i = 0; i < w->plan->buffer_count; i++) {
        const kiln_plan_buffer *b = &w->plan->buffer[i];
        if (b->storage == KILN_STORAGE_CONSTANT) w->address[i] = put(w, b->data, b->size_bytes);
    }
    for (uint32_t k = 0; k < w->plan->kernel_count; k++) {
        const kiln_manifest *m = &w->kernel[k].manifest;
        w->table[k] = KILN_ARENA_ARRAY(w->arena, uint64_t, m->arg_count);
        for (uint32_t i = 0; i < m->arg_count; i++)
            if (m->arg[i].role == KILN_ROLE_TABLE)
                w->table[k][i] = put(w, m->arg[i].data.data, m->arg[i].data.size);
    }
}

/* Places a step's packed arguments and temps: packed arguments belong to the step that packs, temps
 * to all steps of the kernel, which run one after the other. */
static void place_owned(writer *w, uint32_t s) {
    const kiln_plan_step *step = &w->plan->step[s];
    const kiln_manifest *m = &w->kernel[step->kernel].manifest;
    if (w->packer[s] != s) {
        w->own[s] = w->own[w->packer[s]];
        return;
    }
    w->own[s] = KILN_ARENA_ARRAY(w->arena, uint64_t, m->arg_count);
    for (uint32_t i = 0; i < m->arg_count; i++)
        if (m->arg[i].role == KILN_ROLE_PACKED || m->arg[i].role == KILN_ROLE_TEMP)
            w->own[s][i] = take(w, arg_bytes(&m->arg[i]));
}

/* Ports of all sizes lie at the same place, as one size runs at a time. */
static void place_ports(writer *w, kiln_module_storage storage, uint32_t count) {
    uint64_t *bytes = KILN_ARENA_ARRAY(w->arena, uint64_t, count + 1),
             *at = KILN_ARENA_ARRAY(w->arena, uint64_t, count + 1);
    for (uint32_t i = 0; i < w->plan->buffer_count; i++) {
        const kiln_plan_buffer *b = &w->plan->buffer[i];
        if (b->storage == storage) bytes[b->source] = KILN_MAX(bytes[b->source], b->size_bytes);
    }
    for (uint32_t p = 0; p < count; p++) at[p] = take(w, bytes[p]);
    for (uint32_t i = 0; i < w->plan->buffer_count; i++)
        if (w->plan->buffer[i].storage == storage) w->address[i] = at[w->plan->buffer[i].source];
}

static void place_zeros(writer *w) {
    uint64_t scratch = 0;
    for (uint32_t k = 0; k < w->plan->kernel_count; k++) {
        const kiln_manifest *m = &w->kernel[k].manifest;
        const uint64_t shared = KILN_ALIGN_UP(m->scratch_bytes, (uint64_t)KILN_KERNEL_ALIGNMENT);
        const uint64_t own =
            KILN_ALIGN_UP(m->scratch_worker_bytes, (uint64_t)KILN_KERNEL_ALIGNMENT);
        scratch = KILN_MAX(scratch, shared + own * w->plan->threads);
    }
    w->scratch = take(w, scratch);
    const uint64_t activations = take(w, w->plan->arena_bytes);
    for (uint32_t i = 0; i < w->plan->buffer_count; i++) {
        const kiln_plan_buffer *b = &w->plan->buffer[i];
        if (b->storage == KILN_STORAGE_ARENA) w->address[i] = activations + b->offset;
    }
    place_ports(w, KILN_STORAGE_INPUT, w->plan->input_count);
    place_ports(w, KILN_STORAGE_OUTPUT, w->plan->output_count);
    for (uint32_t s = 0; s < w->plan->step_count; s++)
        if (w->plan->step[s].action == KILN_ACTION_KERNEL) place_owned(w, s);
}

static uint64_t address_of(const writer *w, uint32_t buffer) {
    return w->address[kiln_module_plan_root(w->plan, buffer)] +
           kiln_module_plan_offset(w->plan, buffer);
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* Writes the array of pointers to tensors for a launch, with its own tensors behind it. If one of
 * them moves with a loop, adds a row to `moves`. */
static uint64_t put_args(writer *w, uint32_t s, const kiln_manifest_launch *launch,
                         kiln_strbuf *moves) {
    const kiln_plan_step *step = &w->plan->step[s];
    const kiln_manifest *m = &w->kernel[step->kernel].manifest;
    const size_t size = launch->arg_count * (sizeof(uint32_t) + TENSOR_BYTES);
    char *args = KILN_ARENA_ARRAY(w->arena, char, size + 1);
    const uint64_t at = KILN_ALIGN_UP(w->used, (uint64_t)KILN_KERNEL_ALIGNMENT);
    uint64_t tensor = launch->arg_count * sizeof(uint32_t);
    for (uint32_t i = 0; i < launch->arg_count; i++, tensor += TENSOR_BYTES) {
        const uint32_t arg = launch->arg[i];
        const kiln_role role = m->arg[arg].role;
        uint64_t data;
        if (role == KILN_ROLE_TABLE)
            data = w->table[step->kernel][arg];
        else if (kiln_role_is_owned(role))
            data = w->own[s][arg];
        else
            data = address_of(w, step->arg[arg]);
        write_u32(args + i * sizeof(uint32_t), at + tensor);
        write_u32(args + tensor + TENSOR_AT_DATA, data);
        if (kiln_role_is_owned(role)) continue;
        const kiln_plan_buffer *b = &w->plan->buffer[step->arg[arg]];
        if (b->stride)
            kiln_strbuf_printf(moves, "%s[%llu,%llu,%lld,%u]", moves->size ? "," : "",
                               (unsigned long long)(at + tensor + TENSOR_AT_DATA),
                               (unsigned long long)data, (long long)b->stride, b->loop);
    }
    return put(w, args, size);
}

static void write_call(writer *w, uint32_t s, const kiln_manifest_launch *launch,
                       kiln_strbuf *moves, kiln_strbuf *out) {
    kiln_strbuf_printf(out, "%s[%u,\"", out->size ? "," : "",
                       w->first_payload[w->plan->step[s].kernel] + launch->payload);
    kiln_text_append_json(out, launch->entry);
    kiln_strbuf_printf(out, "\",%llu]", (unsigned long long)put_args(w, s, launch, moves));
}

static void write_kernel(writer *w, uint32_t s, kiln_strbuf *out) {
    const kiln_manifest *m = &w->kernel[w->plan->step[s].kernel].manifest;
    kiln_strbuf calls = {0}, moves = {0};
    for (uint32_t i = 0; i < m->launch_count; i++) {
        const kiln_manifest_launch *launch = &m->launch[i];
        if (launch->phase == KILN_LAUNCH_RUN)
            write_call(w, s, launch, &moves, &calls);
        else if (w->packer[s] == s)
            write_call(w, s, launch, &moves, &w->prepare);
    }
    kiln_strbuf_printf(out, ",\"flops\":%.17g,\"calls\":[%s]", m->flops,
                       calls.size ? calls.data : "");
    if (moves.size) kiln_strbuf_printf(out, ",\"moves\":[%s]", moves.data);
    kiln_strbuf_deinit(&calls);
    kiln_strbuf_deinit(&moves);
}

/* [address, bytes that it moves with each iteration, the loop]; null for no buffer. */
static void write_place(const writer *w, const char *name, uint32_t buffer, kiln_strbuf *out) {
    if (buffer == KILN_PLAN_NONE) return;
    const kiln_plan_buffer *b = &w->plan->buffer[buffer];
    kiln_strbuf_printf(out, ",\"%s\":[%llu,%lld,%u]", name,
                       (unsigned long long)address_of(w, buffer), (long long)b->stride, b->loop);
}

static void write_copy(const writer *w, const kiln_plan_step *step, kiln_strbuf *out) {
    write_place(w, "from", step->arg[0], out);
    write_place(w, "to", step->arg[1], out);
    kiln_strbuf_printf(out, ",\"bytes\":%llu",
                       (unsigned long long)w->plan->buffer[step->arg[0]].size_bytes);
}

static void write_loop(const writer *w, const kiln_plan_step *step, kiln_strbuf *out) {
    kiln_strbuf_printf(out, ",\"body\":%u,\"trips\":%llu", step->body_count,
                       (unsigned long long)step->trip_max);
    write_place(w, "count", step->count, out);
    write_place(w, "condition", step->condition, out);
    write_place(w, "index", step->index, out);
}

static void write_text(const char *name, kiln_str text, kiln_strbuf *out) {
    kiln_strbuf_printf(out, ",\"%s\":\"", name);
    kiln_text_append_json(out, text);
    kiln_strbuf_char(out, '"');
}

static void write_step(writer *w, uint32_t s) {
    const kiln_plan_step *step = &w->plan->step[s];
    kiln_strbuf *out = &w->steps;
    static const char *const name[] = {
        [KILN_ACTION_KERNEL] = "kernel", [KILN_ACTION_ALIAS] = "alias",
        [KILN_ACTION_COPY] = "copy",     [KILN_ACTION_EVENT] = "alias",
        [KILN_ACTION_LOOP] = "loop",     [KILN_ACTION_CARRY] = "copy",
    };
    kiln_strbuf_printf(out, "%s{\"action\":\"%s\"", s ? "," : "", name[step->action]);
    write_text("name", step->name, out);
    write_text("op", step->op, out);
    write_text("task", step->task, out);
    if (step->action == KILN_ACTION_KERNEL) write_kernel(w, s, out);
    if (step->action == KILN_ACTION_COPY || step->action == KILN_ACTION_CARRY)
        write_copy(w, step, out);
    if (step->action == KILN_ACTION_LOOP) write_loop(w, step, out);
    kiln_strbuf_char(out, '}');
}

/* ---- the plan -------------------------------------------------------------------------------- */

static void write_shape(const kiln_shape *shape, kiln_strbuf *out) {
    kiln_strbuf_text(out, ",\"shape\":[");
    for (uint32_t d = 0; d < shape->rank; d++)
        kiln_strbuf_printf(out, "%s%lld", d ? "," : "", (long long)shape->dim[d]);
    kiln_strbuf_char(out, ']');
}

static void write_port(const writer *w, const kiln_flat_bucket *bucket, bool is_output,
                       uint32_t index, kiln_strbuf *out) {
    const kiln_plan_port *port = is_output ? &bucket->output[index] : &bucket->input[index];
    kiln_module_axis axis = {.axis = KILN_MODULE_NO_AXIS};
    kiln_strbuf_printf(out, "{\"address\":%llu,\"dtype\":\"%s\"",
                       (unsigned long long)w->address[port->buffer], kiln_dtype_name(port->dtype));
    write_shape(&port->shape, out);
    if (w->sizes->dim.size && kiln_module_find_axis(w->sizes, is_output, index, &axis) &&
        axis.axis != KILN_MODULE_NO_AXIS)
        kiln_strbuf_printf(out, ",\"axis\":%u,\"factor\":%lld", axis.axis, (long long)axis.factor);
    if (is_output && w->grown_by[port->buffer] != KILN_PLAN_NONE)
        kiln_strbuf_printf(out, ",\"rows\":%u", w->grown_by[port->buffer]);
    write_text("name", port->name, out);
    kiln_strbuf_char(out, '}');
}

static void write_ports(const writer *w, const kiln_flat_bucket *bucket, kiln_strbuf *out) {
    kiln_strbuf_text(out, "\"inputs\":[");
    for (uint32_t i = 0; i < w->plan->input_count; i++) {
        if (i) kiln_strbuf_char(out, ',');
        write_port(w, bucket, false, i, out);
    }
    kiln_strbuf_text(out, "],\"outputs\":[");
    for (uint32_t i = 0; i < w->plan->output_count; i++) {
        if (i) kiln_strbuf_char(out, ',');
        write_port(w, bucket, true, i, out);
    }
    kiln_strbuf_char(out, ']');
}

static void write_metadata(const kiln_module_plan *plan, kiln_strbuf *out) {
    kiln_strbuf_text(out, "\"metadata\":{");
    for (uint32_t i = 0; i < plan->metadata_count; i++) {
        kiln_strbuf_text(out, i ? ",\"" : "\"");
        kiln_text_append_json(out, plan->metadata[i].key);
        kiln_strbuf_text(out, "\":\"");
        kiln_text_append_json(out, plan->metadata[i].value);
        kiln_strbuf_char(out, '"');
    }
    kiln_strbuf_char(out, '}');
}

static void write_buckets(const writer *w, kiln_strbuf *out) {
    write_text("dim", w->sizes->dim, out);
    kiln_strbuf_printf(out, ",\"by_rows\":%s,\"buckets\":[", w->sizes->by_rows ? "true" : "false");
    for (uint32_t i = 0; i < w->flat->bucket_count; i++) {
        const kiln_flat_bucket *bucket = &w->flat->bucket[i];
        kiln_strbuf_printf(out, "%s{\"size\":%lld,\"ns\":%llu,\"begin\":%u,\"end\":%u,",
                           i ? "," : "", (long long)bucket->size,
                           (unsigned long long)bucket->median_ns, bucket->first_step,
                           bucket->first_step + bucket->step_count);
        write_ports(w, bucket, out);
        kiln_strbuf_char(out, '}');
    }
    kiln_strbuf_char(out, ']');
}

/* The oldest version that can express the module, so that older loaders can read it. */
static uint32_t version_of(const writer *w) {
    bool grows = false;
    for (uint32_t i = 0; i < w->plan->buffer_count; i++) grows |= w->grown_by[i] != KILN_PLAN_NONE;
    return grows || w->sizes->dim.size ? KILN_WASM_MODULE_VERSION : KILN_WASM_MODULE_VERSION_PLAIN;
}

static void write_plan(const writer *w, kiln_strbuf *out) {
    kiln_strbuf_printf(out, "{\"version\":%u,\"threads\":%u,\"stack\":%u,\"services\":%llu,",
                       version_of(w), w->plan->threads, KILN_WASM_STACK_BYTES,
                       (unsigned long long)w->services);
    write_metadata(w->plan, out);
    if (w->sizes->dim.size) {
        write_buckets(w, out);
    } else {
        kiln_strbuf_char(out, ',');
        write_ports(w, &w->flat->bucket[0], out);
    }
    kiln_strbuf_printf(out, ",\"prepare\":[%s],\"steps\":[%s]}",
                       w->prepare.size ? w->prepare.data : "", w->steps.size ? w->steps.data : "");
}

/* ---- the file -------------------------------------------------------------------------------- */

static void write_custom(kiln_strbuf *out, kiln_str name, kiln_str content) {
    kiln_strbuf section = {0};
    kiln_wasm_write_bytes(&section, name);
    kiln_strbuf_str(&section, content);
    kiln_wasm_write_section(out, KILN_WASM_CUSTOM, kiln_strbuf_view(&section));
    kiln_strbuf_deinit(&section);
}

static void write_signed(kiln_strbuf *out, int32_t value) {
    for (;; value >>= 7) {
        const bool last = value >= -0x40 && value < 0x40;
        kiln_strbuf_char(out, (char)((value & 0x7f) | (last ? 0 : 0x80)));
        if (last) return;
    }
}

static void write_memory(const writer *w, kiln_strbuf *out) {
    const uint32_t pages = (uint32_t)((w->used + KILN_WASM_PAGE_BYTES - 1) / KILN_WASM_PAGE_BYTES);
    const bool shared = w->plan->threads > 1;
    kiln_strbuf section = {0};
    kiln_wasm_write_u32(&section, 1);
    kiln_strbuf_char(&section, shared ? 3 : 1); /* with a maximum */
    kiln_wasm_write_u32(&section, pages);
    kiln_wasm_write_u32(&section, pages);
    kiln_wasm_write_section(out, KILN_WASM_MEMORY, kiln_strbuf_view(&section));
    kiln_strbuf_reset(&section);
    kiln_wasm_write_u32(&section, 1);
    kiln_wasm_write_bytes(&section, KILN_STR("memory"));
    kiln_strbuf_char(&section, KILN_WASM_OF_MEMORY);
    kiln_wasm_write_u32(&section, 0);
    kiln_wasm_write_section(out, KILN_WASM_EXPORT, kiln_strbuf_view(&section));
    kiln_strbuf_reset(&section);
    kiln_wasm_write_u32(&section, 1);
    kiln_strbuf_char(&section, 0); /* active, of memory 0 */
    kiln_strbuf_char(&section, OPCODE_I32_CONST);
    write_signed(&section, (int32_t)w->data_at);
    kiln_strbuf_char(&section, OPCODE_END);
    kiln_wasm_write_bytes(&section, kiln_strbuf_view(&w->data));
    kiln_wasm_write_section(out, KILN_WASM_DATA, kiln_strbuf_view(&section));
    kiln_strbuf_deinit(&section);
}

static void write_file(const writer *w, kiln_strbuf *out) {
    kiln_strbuf plan = {0};
    kiln_strbuf_str(out, KILN_STR(KILN_WASM_HEAD));
    write_plan(w, &plan);
    write_custom(out, KILN_STR("kiln.plan"), kiln_strbuf_view(&plan));
    kiln_strbuf_deinit(&plan);
    for (uint32_t k = 0; k < w->plan->kernel_count; k++)
        for (uint32_t i = 0; i < w->kernel[k].manifest.payload_count; i++)
            write_custom(out, KILN_STR("kiln.kernel"), kiln_artefact_payload(&w->kernel[k], i));
    write_memory(w, out);
}

static kiln_status decode_kernels(writer *w) {
    uint32_t payloads = 0;
    w->kernel = KILN_ARENA_ARRAY(w->arena, kiln_artefact, w->plan->kernel_count + 1);
    w->first_payload = KILN_ARENA_ARRAY(w->arena, uint32_t, w->plan->kernel_count + 1);
    for (uint32_t i = 0; i < w->plan->kernel_count; i++) {
        kiln_status st = kiln_artefact_decode(w->plan->kernel[i], w->arena, &w->kernel[i]);
        if (!st)
            st = kiln_status_note(
                kiln_manifest_refuse_cluster_or_maps(&w->kernel[i].manifest, "WebAssembly"),
                "kernel %u", i);
        if (st) return st;
        w->first_payload[i] = payloads;
        payloads += w->kernel[i].manifest.payload_count;
    }
    return KILN_OK;
}

/* Memory of zeros first, then the data, whose arguments refer to both. */
static void lay_out(writer *w) {
    char services[SERVICES_BYTES] = {0};
    w->used = (uint64_t)KILN_WASM_STACK_BYTES * w->plan->threads;
    w->packer = kiln_prepared_find(w->plan, w->kernel, w->arena);
    place_zeros(w);
    w->used = w->data_at = KILN_ALIGN_UP(w->used, (uint64_t)KILN_KERNEL_ALIGNMENT);
    write_u32(services + SERVICES_AT_VERSION, KILN_KERNEL_ABI_VERSION);
    write_u32(services + SERVICES_AT_WORKERS, w->plan->threads);
    write_u32(services + SERVICES_AT_SCRATCH, w->scratch);
    w->services = put(w, services, sizeof services);
    place_constants(w);
    for (uint32_t s = 0; s < w->plan->step_count; s++) write_step(w, s);
}

kiln_status kiln_wasm_module_encode(const kiln_module_sizes *sizes, kiln_arena *arena,
                                    kiln_strbuf *out) {
    kiln_flat flat;
    kiln_status st = kiln_module_sizes_check(sizes);
    if (st) return st;
    kiln_flatten(sizes, arena, &flat);
    const kiln_module_plan *plan = &flat.plan;
    writer w = {.sizes = sizes,
                .flat = &flat,
                .plan = plan,
                .arena = arena,
                .grown_by = kiln_module_plan_find_grown(plan, arena),
                .address = KILN_ARENA_ARRAY(arena, uint64_t, plan->buffer_count + 1),
                .own = KILN_ARENA_ARRAY(arena, uint64_t *, plan->step_count + 1),
                .table = KILN_ARENA_ARRAY(arena, uint64_t *, plan->kernel_count + 1)};
    st = decode_kernels(&w);
    if (st) return st;
    lay_out(&w);
    if (w.used > MEMORY_BYTES_MAX)
        st = KILN_ERROR(OUT_OF_RANGE, "it takes %llu MB of memory; WebAssembly has %llu",
                        (unsigned long long)(w.used >> 20),
                        (unsigned long long)(MEMORY_BYTES_MAX >> 20));
    else
        write_file(&w, out);
    kiln_strbuf_deinit(&w.data);
    kiln_strbuf_deinit(&w.prepare);
    kiln_strbuf_deinit(&w.steps);
    return st;
}
