#include "deploy/module.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/check.h"
#include "base/file.h"
#include "deploy/format.h"
#include "deploy/runtime/kernel.h"
#include "deploy/runtime/module_open.h"
#include "deploy/runtime/module_read.h"

/* A kernel argument in the caller's memory, which changes at each run. */
typedef struct patch {
    uint32_t step, arg, buffer;
} patch;

struct kiln_module {
    kiln_arena arena; /* lives as long as the module */
    kiln_mapping mapping;
    kiln_module_plan plan;
    size_t constant_bytes;
    uint32_t thread_count;
    kiln_pool *pool;         /* NULL with one thread */
    kiln_services *services; /* [thread_count]; n-1 for kernels that may use n threads */
    kiln_device *cpu;
    kiln_kernel **kernel;           /* [kernel_count]; NULL of a module that is only looked at */
    const kiln_manifest **manifest; /* [kernel_count] */
    kiln_call **call;               /* [step_count]; NULL for steps that call no kernel */
    bool *packs;                    /* [step_count] whose constants no step before packs */
    uint32_t *call_threads;         /* [step_count] */
    kiln_region scratch, staging;
    kiln_device_memory activations, packed, temps;
    void **address;                        /* [buffer_count] by root; ports' are set at each run */
    uint8_t **input_stage, **output_stage; /* aligned copies for callers' memory that is not */
    patch *patch;
    uint32_t patch_count;
    kiln_module_port *input, *output;
    kiln_module_step *step;
    char **metadata_key, **metadata_value;
    kiln_module_hook hook;
    void *hook_context;
    char error[KILN_MODULE_ERROR_BYTES];
};

/* Turns a status into what the public functions return. */
static int report(kiln_status st, char *error, size_t error_bytes) {
    int number = (int)kiln_status_code(st);
    if (st && error && error_bytes > 0)
        (void)snprintf(error, error_bytes, "%s", kiln_status_text(st));
    kiln_status_free(st);
    return number;
}

static size_t align_up(size_t value) {
    return (value + KILN_KERNEL_ALIGNMENT - 1) & ~(size_t)(KILN_KERNEL_ALIGNMENT - 1);
}

/* ---- opening --------------------------------------------------------------------------------- */

static int32_t do_nothing(void *context, int64_t begin, int64_t end, int32_t worker) {
    (void)context, (void)begin, (void)end, (void)worker;
    return 0;
}

/* When it returns each has started and found its core, which takes system calls: none is left for
 * later. */
static kiln_status start_threads(kiln_module *m, const kiln_module_options *options) {
    m->thread_count = options && options->threads ? options->threads : m->plan.threads;
    if (m->thread_count == 1) return KILN_OK;
    kiln_pool_options pool = {.worker_count = m->thread_count,
                              .core = options ? options->core : NULL};
    kiln_status st = kiln_pool_create(&pool, &m->pool);
    if (!st) kiln_pool_run(m->pool, m->thread_count, m->thread_count, do_nothing, NULL);
    return st;
}

static kiln_status load_kernels(kiln_module *m) {
    kiln_status st = kiln_device_open(KILN_DEVICE_CPU, NULL, &m->cpu);
    m->kernel = KILN_ARENA_ARRAY(&m->arena, kiln_kernel *, m->plan.kernel_count);
    for (uint32_t i = 0; !st && i < m->plan.kernel_count; i++) {
        st = kiln_status_note(kiln_kernel_load(m->plan.kernel[i], m->cpu, &m->kernel[i]),
                              "kernel %u", i);
        if (!st) m->manifest[i] = kiln_kernel_manifest(m->kernel[i]);
    }
    return kiln_module_damage(st);
}

/* What is known of kernels that are not loaded. */
static kiln_status read_manifests(kiln_module *m) {
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; !st && i < m->plan.kernel_count; i++) {
        kiln_artefact *artefact = KILN_ARENA_NEW(&m->arena, kiln_artefact);
        st = kiln_status_note(kiln_artefact_decode(m->plan.kernel[i], &m->arena, artefact),
                              "kernel %u", i);
        m->manifest[i] = &artefact->manifest;
    }
    return kiln_module_damage(st);
}

static uint32_t threads_of(const kiln_module *m, const kiln_kernel *kernel) {
    return KILN_MIN(m->thread_count, kiln_kernel_manifest(kernel)->threads_max);
}

/* Scratch for the hungriest kernel, and a services table for each number of threads. */
static kiln_status create_services(kiln_module *m) {
    size_t scratch_bytes = 0;
    for (uint32_t i = 0; i < m->plan.kernel_count; i++) {
        const kiln_manifest *manifest = kiln_kernel_manifest(m->kernel[i]);
        size_t wanted = kiln_services_scratch_bytes(manifest, threads_of(m, m->kernel[i]));
        scratch_bytes = KILN_MAX(scratch_bytes, wanted);
    }
    kiln_status st = kiln_region_create(scratch_bytes, KILN_GUARD_NONE, &m->scratch);
    if (st) return kiln_status_note(st, "scratch");
    m->services = KILN_ARENA_ARRAY(&m->arena, kiln_services, m->thread_count);
    for (uint32_t i = 0; i < m->thread_count; i++)
        kiln_services_init(&m->services[i], m->pool, i + 1, m->scratch.data);
    return KILN_OK;
}

/* Gives each port an aligned place in the staging buffer; untouched pages of it cost nothing. */
static uint8_t **lay_out_stage(kiln_module *m, const kiln_plan_port *port, uint32_t count,
                               size_t *size) {
    uint8_t **place = KILN_ARENA_ARRAY(&m->arena, uint8_t *, count);
    for (uint32_t i = 0; i < count; i++) {
        place[i] = (uint8_t *)m->staging.data + *size;
        *size += align_up((size_t)m->plan.buffer[port[i].buffer].size_bytes);
    }
    return place;
}

/* Temps of the kernel that has most of them: kernels run one after the other. */
static kiln_status create_temps(kiln_module *m) {
    size_t bytes = 0;
    for (uint32_t i = 0; i < m->plan.kernel_count; i++)
        bytes = KILN_MAX(bytes, kiln_kernel_temp_bytes(m->kernel[i]));
    return bytes ? kiln_device_allocate(m->cpu, bytes, KILN_GUARD_NONE, &m->temps) : KILN_OK;
}

static kiln_status create_memory(kiln_module *m) {
    const kiln_module_plan *plan = &m->plan;
    size_t staging_bytes = 0;
    for (uint32_t i = 0; i < plan->input_count; i++)
        staging_bytes += align_up((size_t)plan->buffer[plan->input[i].buffer].size_bytes);
    for (uint32_t i = 0; i < plan->output_count; i++)
        staging_bytes += align_up((size_t)plan->buffer[plan->output[i].buffer].size_bytes);
    kiln_status st =
        kiln_device_allocate(m->cpu, (size_t)plan->arena_bytes, KILN_GUARD_NONE, &m->activations);
    if (!st) st = create_temps(m);
    if (!st) st = kiln_region_create(staging_bytes, KILN_GUARD_NONE, &m->staging);
    if (st) return kiln_status_note(st, "activations");
    size_t staged = 0;
    m->input_stage = lay_out_stage(m, plan->input, plan->input_count, &staged);
    m->output_stage = lay_out_stage(m, plan->output, plan->output_count, &staged);

    m->address = KILN_ARENA_ARRAY(&m->arena, void *, plan->buffer_count);
    for (uint32_t i = 0; i < plan->buffer_count; i++) {
        const kiln_plan_buffer *b = &plan->buffer[i];
        if (b->storage == KILN_STORAGE_ARENA)
            m->address[i] = (uint8_t *)m->activations.data + b->offset;
        /* The ABI has one pointer type for all roles; the plan's check lets no step write a
         * constant. */
        if (b->storage == KILN_STORAGE_CONSTANT) m->address[i] = (void *)(uintptr_t)b->data;
    }
    /* Until a run says otherwise, ports are their stages: binding wants an address. */
    for (uint32_t i = 0; i < plan->input_count; i++)
        m->address[plan->input[i].buffer] = m->input_stage[i];
    for (uint32_t i = 0; i < plan->output_count; i++)
        m->address[plan->output[i].buffer] = m->output_stage[i];
    return KILN_OK;
}

static bool is_port(const kiln_module_plan *plan, uint32_t root) {
    kiln_module_storage storage = plan->buffer[root].storage;
    return storage == KILN_STORAGE_INPUT || storage == KILN_STORAGE_OUTPUT;
}

static void *address_of(const kiln_module *m, uint32_t buffer) {
    uint8_t *root = m->address[kiln_module_plan_root(&m->plan, buffer)];
    return root + kiln_module_plan_offset(&m->plan, buffer);
}

/* Whether two steps call one kernel with the same constants, so that what it packs is the same. */
static bool packs_alike(const kiln_module *m, const kiln_plan_step *a, const kiln_plan_step *b) {
    if (a->action != KILN_ACTION_KERNEL || a->kernel != b->kernel) return false;
    const kiln_manifest *manifest = kiln_kernel_manifest(m->kernel[a->kernel]);
    for (uint32_t i = 0; i < a->arg_count; i++)
        if (manifest->arg[i].role == KILN_ROLE_CONSTANT &&
            address_of(m, a->arg[i]) != address_of(m, b->arg[i]))
            return false;
    return true;
}

/* Where each step's packed constants lie in one region: [step_count]. Steps that pack alike, as
 * those of an unrolled recurrence do, share them; `out_owner` is the first of each. */
static kiln_status place_packed(kiln_module *m, size_t *out_offset, uint32_t *out_owner) {
    size_t bytes = 0;
    for (uint32_t i = 0; i < m->plan.step_count; i++) {
        const kiln_plan_step *step = &m->plan.step[i];
        out_owner[i] = i;
        if (step->action != KILN_ACTION_KERNEL) continue;
        size_t wanted = kiln_kernel_packed_bytes(m->kernel[step->kernel]);
        for (uint32_t k = 0; wanted > 0 && out_owner[i] == i && k < i; k++)
            if (packs_alike(m, &m->plan.step[k], step)) out_owner[i] = k;
        out_offset[i] = out_owner[i] == i ? bytes : out_offset[out_owner[i]];
        if (out_owner[i] == i) bytes += wanted;
    }
    return kiln_status_note(kiln_device_allocate(m->cpu, bytes, KILN_GUARD_NONE, &m->packed),
                            "packed constants");
}

static kiln_status create_call(kiln_module *m, uint32_t index, size_t packed_offset) {
    const kiln_plan_step *step = &m->plan.step[index];
    const kiln_kernel *kernel = m->kernel[step->kernel];
    m->call_threads[index] = threads_of(m, kernel);
    kiln_status st = kiln_call_create_over(
        kernel, &(kiln_call_memory){&m->packed, packed_offset, &m->temps}, &m->call[index]);
    for (uint32_t i = 0; !st && i < step->arg_count; i++) {
        uint32_t buffer = step->arg[i];
        st = kiln_call_bind(m->call[index], i, address_of(m, buffer),
                            kiln_kernel_arg_bytes(kernel, i));
        if (is_port(&m->plan, kiln_module_plan_root(&m->plan, buffer)))
            m->patch[m->patch_count++] = (patch){index, i, buffer};
    }
    return kiln_status_note(st, "step %u", index);
}

static kiln_status create_calls(kiln_module *m) {
    const kiln_module_plan *plan = &m->plan;
    size_t arg_count = 0;
    for (uint32_t i = 0; i < plan->step_count; i++) arg_count += plan->step[i].arg_count;
    m->call = KILN_ARENA_ARRAY(&m->arena, kiln_call *, plan->step_count);
    m->call_threads = KILN_ARENA_ARRAY(&m->arena, uint32_t, plan->step_count);
    m->packs = KILN_ARENA_ARRAY(&m->arena, bool, plan->step_count);
    m->patch = KILN_ARENA_ARRAY(&m->arena, patch, arg_count);
    size_t *packed_offset = KILN_ARENA_ARRAY(&m->arena, size_t, plan->step_count);
    uint32_t *owner = KILN_ARENA_ARRAY(&m->arena, uint32_t, plan->step_count);
    kiln_status st = place_packed(m, packed_offset, owner);
    for (uint32_t i = 0; !st && i < plan->step_count; i++) {
        if (plan->step[i].action != KILN_ACTION_KERNEL) continue;
        m->packs[i] = owner[i] == i;
        st = create_call(m, i, packed_offset[i]);
    }
    return st;
}

static kiln_module_port *describe_ports(kiln_module *m, const kiln_plan_port *port,
                                        uint32_t count) {
    kiln_module_port *described = KILN_ARENA_ARRAY(&m->arena, kiln_module_port, count);
    for (uint32_t i = 0; i < count; i++)
        described[i] = (kiln_module_port){
            .name = kiln_str_dup(&m->arena, port[i].name),
            .dtype = (uint32_t)port[i].dtype,
            .rank = port[i].shape.rank,
            .shape = port[i].shape.dim,
            .size_bytes = (size_t)m->plan.buffer[port[i].buffer].size_bytes,
        };
    return described;
}

static void describe(kiln_module *m) {
    const kiln_module_plan *plan = &m->plan;
    m->input = describe_ports(m, plan->input, plan->input_count);
    m->output = describe_ports(m, plan->output, plan->output_count);
    m->step = KILN_ARENA_ARRAY(&m->arena, kiln_module_step, plan->step_count);
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const kiln_plan_step *step = &plan->step[i];
        bool calls = step->action == KILN_ACTION_KERNEL;
        const kiln_manifest *manifest = calls ? m->manifest[step->kernel] : NULL;
        m->step[i] = (kiln_module_step){
            .name = kiln_str_dup(&m->arena, step->name),
            .op = kiln_str_dup(&m->arena, step->op),
            .task = kiln_str_dup(&m->arena, step->task),
            .algorithm = calls ? kiln_str_dup(&m->arena, manifest->algorithm) : "",
            .action = step->action,
            .flops = calls ? manifest->flops : 0,
        };
    }
    m->metadata_key = KILN_ARENA_ARRAY(&m->arena, char *, plan->metadata_count);
    m->metadata_value = KILN_ARENA_ARRAY(&m->arena, char *, plan->metadata_count);
    for (uint32_t i = 0; i < plan->metadata_count; i++) {
        m->metadata_key[i] = kiln_str_dup(&m->arena, plan->metadata[i].key);
        m->metadata_value[i] = kiln_str_dup(&m->arena, plan->metadata[i].value);
    }
}

static kiln_status decode(kiln_module *m, kiln_str bytes) {
    kiln_status st = kiln_module_decode(bytes, &m->arena, &m->plan, &m->constant_bytes);
    m->manifest = KILN_ARENA_ARRAY(&m->arena, const kiln_manifest *, m->plan.kernel_count);
    return st;
}

/* No code of the module has run when it returns. */
static kiln_status link(kiln_module *m, kiln_str bytes, const kiln_module_options *options) {
    if ((uintptr_t)bytes.data % KILN_MODULE_SECTION_ALIGNMENT != 0)
        return KILN_ERROR(INVALID_ARGUMENT, "module in memory is not aligned to %u",
                          KILN_MODULE_SECTION_ALIGNMENT);
    kiln_status st = decode(m, bytes);
    if (!st) st = start_threads(m, options);
    if (!st) st = load_kernels(m);
    if (!st) st = create_services(m);
    if (!st) st = create_memory(m);
    if (!st) st = create_calls(m);
    if (!st) describe(m);
    return st;
}

kiln_status kiln_module_pack(kiln_module *m) {
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; !st && i < m->plan.step_count; i++)
        if (m->packs[i])
            st = kiln_status_note(
                kiln_call_prepare(m->call[i], &m->services[m->call_threads[i] - 1]), "step %u", i);
    return st;
}

static kiln_module *create(void) {
    kiln_module *m = kiln_alloc(sizeof *m);
    kiln_arena_init(&m->arena, 0);
    return m;
}

int kiln_module_open_memory(const void *data, size_t size_bytes, const kiln_module_options *options,
                            kiln_module **out_module, char *error, size_t error_bytes) {
    kiln_module *m = create();
    kiln_status st = link(m, (kiln_str){data, size_bytes}, options);
    if (!st) st = kiln_module_pack(m);
    if (!st)
        *out_module = m;
    else
        kiln_module_close(m);
    return report(st, error, error_bytes);
}

int kiln_module_open(const char *path, const kiln_module_options *options, kiln_module **out_module,
                     char *error, size_t error_bytes) {
    kiln_module *m = create();
    kiln_status st = kiln_file_map(path, &m->mapping);
    if (!st) st = link(m, (kiln_str){m->mapping.data, m->mapping.size}, options);
    if (!st) st = kiln_module_pack(m);
    if (!st)
        *out_module = m;
    else
        kiln_module_close(m);
    return report(kiln_status_note(st, "module %s", path), error, error_bytes);
}

kiln_status kiln_module_link(kiln_str bytes, const kiln_module_options *options,
                             kiln_module **out_module) {
    kiln_module *m = create();
    kiln_status st = link(m, bytes, options);
    if (!st)
        *out_module = m;
    else
        kiln_module_close(m);
    return st;
}

kiln_status kiln_module_inspect(const char *path, uint32_t threads, kiln_module **out_module) {
    kiln_module *m = create();
    kiln_status st = kiln_file_map(path, &m->mapping);
    if (!st) st = decode(m, (kiln_str){m->mapping.data, m->mapping.size});
    if (!st) st = read_manifests(m);
    if (!st) {
        m->thread_count = threads ? threads : m->plan.threads;
        describe(m);
        *out_module = m;
    } else {
        kiln_module_close(m);
    }
    return kiln_status_note(st, "module %s", path);
}

int kiln_module_verify(const char *path, char *error, size_t error_bytes) {
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    kiln_mapping mapping = {0};
    kiln_module_plan plan = {0};
    size_t constant_bytes;
    kiln_status st = kiln_file_map(path, &mapping);
    if (!st)
        st = kiln_module_decode((kiln_str){mapping.data, mapping.size}, &arena, &plan,
                                &constant_bytes);
    for (uint32_t i = 0; !st && i < plan.kernel_count; i++)
        st =
            kiln_module_damage(kiln_status_note(kiln_kernel_check(plan.kernel[i]), "kernel %u", i));
    kiln_file_unmap(&mapping);
    kiln_arena_deinit(&arena);
    return report(kiln_status_note(st, "module %s", path), error, error_bytes);
}

void kiln_module_close(kiln_module *m) {
    if (!m) return;
    for (uint32_t i = 0; m->call && i < m->plan.step_count; i++) kiln_call_destroy(m->call[i]);
    for (uint32_t i = 0; m->kernel && i < m->plan.kernel_count; i++)
        kiln_kernel_unload(m->kernel[i]);
    kiln_pool_destroy(m->pool);
    if (m->cpu) {
        kiln_device_release(m->cpu, &m->activations);
        kiln_device_release(m->cpu, &m->packed);
        kiln_device_release(m->cpu, &m->temps);
    }
    kiln_device_close(m->cpu);
    kiln_region_destroy(&m->scratch);
    kiln_region_destroy(&m->staging);
    kiln_file_unmap(&m->mapping);
    kiln_arena_deinit(&m->arena);
    kiln_free(m);
}

/* ---- inspecting ------------------------------------------------------------------------------ */

uint32_t kiln_module_input_count(const kiln_module *m) { return m->plan.input_count; }
uint32_t kiln_module_output_count(const kiln_module *m) { return m->plan.output_count; }
uint32_t kiln_module_step_count(const kiln_module *m) { return m->plan.step_count; }
uint32_t kiln_module_kernel_count(const kiln_module *m) { return m->plan.kernel_count; }
uint32_t kiln_module_threads(const kiln_module *m) { return m->thread_count; }
size_t kiln_module_arena_bytes(const kiln_module *m) {
    return (size_t)m->plan.arena_bytes + m->scratch.size_bytes;
}
size_t kiln_module_packed_bytes(const kiln_module *m) { return m->packed.size_bytes; }
size_t kiln_module_constant_bytes(const kiln_module *m) { return m->constant_bytes; }
const char *kiln_module_error(const kiln_module *m) { return m->error; }

const kiln_module_port *kiln_module_input(const kiln_module *m, uint32_t index) {
    KILN_CHECK(index < m->plan.input_count);
    return &m->input[index];
}

const kiln_module_port *kiln_module_output(const kiln_module *m, uint32_t index) {
    KILN_CHECK(index < m->plan.output_count);
    return &m->output[index];
}

const void *kiln_module_step_code(const kiln_module *m, uint32_t index, size_t *out_bytes) {
    KILN_CHECK(index < m->plan.step_count);
    const kiln_plan_step *step = &m->plan.step[index];
    *out_bytes = 0;
    if (step->action != KILN_ACTION_KERNEL || !m->kernel) return NULL;
    return kiln_kernel_code(m->kernel[step->kernel], out_bytes);
}

const kiln_module_step *kiln_module_step_at(const kiln_module *m, uint32_t index) {
    KILN_CHECK(index < m->plan.step_count);
    return &m->step[index];
}

const char *kiln_module_metadata(const kiln_module *m, const char *key) {
    for (uint32_t i = 0; i < m->plan.metadata_count; i++)
        if (strcmp(m->metadata_key[i], key) == 0) return m->metadata_value[i];
    return NULL;
}

/* ---- running: nothing below allocates -------------------------------------------------------- */

void kiln_module_set_hook(kiln_module *m, kiln_module_hook hook, void *context) {
    m->hook = hook;
    m->hook_context = context;
}

static bool aligned(const void *memory) { return (uintptr_t)memory % KILN_KERNEL_ALIGNMENT == 0; }

static void bind_ports(kiln_module *m, const void *const *inputs, void *const *outputs) {
    const kiln_module_plan *plan = &m->plan;
    for (uint32_t i = 0; i < plan->input_count; i++) {
        bool direct = aligned(inputs[i]);
        if (!direct) memcpy(m->input_stage[i], inputs[i], m->input[i].size_bytes);
        m->address[plan->input[i].buffer] =
            direct ? (void *)(uintptr_t)inputs[i] : m->input_stage[i];
    }
    for (uint32_t i = 0; i < plan->output_count; i++)
        m->address[plan->output[i].buffer] = aligned(outputs[i]) ? outputs[i] : m->output_stage[i];
    for (uint32_t i = 0; i < m->patch_count; i++)
        kiln_call_rebind(m->call[m->patch[i].step], m->patch[i].arg,
                         kiln_host_place(address_of(m, m->patch[i].buffer)));
}

static int32_t run_step(kiln_module *m, uint32_t index) {
    const kiln_plan_step *step = &m->plan.step[index];
    switch (step->action) {
    case KILN_ACTION_KERNEL:
        return kiln_call_run(m->call[index], &m->services[m->call_threads[index] - 1]);
    case KILN_ACTION_ALIAS: return KILN_KERNEL_OK;
    case KILN_ACTION_COPY:
        memcpy(address_of(m, step->arg[1]), address_of(m, step->arg[0]),
               (size_t)m->plan.buffer[step->arg[0]].size_bytes);
        return KILN_KERNEL_OK;
    }
    return KILN_KERNEL_FAILED;
}

static int refuse(kiln_module *m, kiln_code code, const char *what, uint32_t index) {
    (void)snprintf(m->error, sizeof m->error, "%s %u", what, index);
    return (int)code;
}

int kiln_module_run(kiln_module *m, const void *const *inputs, void *const *outputs) {
    if (!m->call)
        return refuse(m, KILN_FAILED_PRECONDITION, "the module was only looked at: no kernel of",
                      m->plan.kernel_count);
    for (uint32_t i = 0; i < m->plan.input_count; i++)
        if (!inputs[i]) return refuse(m, KILN_INVALID_ARGUMENT, "there is no memory for input", i);
    for (uint32_t i = 0; i < m->plan.output_count; i++)
        if (!outputs[i])
            return refuse(m, KILN_INVALID_ARGUMENT, "there is no memory for output", i);
    bind_ports(m, inputs, outputs);
    for (uint32_t i = 0; i < m->plan.step_count; i++) {
        if (m->hook) m->hook(m->hook_context, i, 0);
        if (run_step(m, i) != KILN_KERNEL_OK)
            return refuse(m, KILN_INTERNAL, "a kernel failed in step", i);
        if (m->hook) m->hook(m->hook_context, i, 1);
    }
    for (uint32_t i = 0; i < m->plan.output_count; i++)
        if (!aligned(outputs[i])) memcpy(outputs[i], m->output_stage[i], m->output[i].size_bytes);
    return KILN_OK;
}
