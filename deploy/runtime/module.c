#include "deploy/module.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/check.h"
#include "base/file.h"
#include "deploy/format.h"
#include "deploy/runtime/kept_port.h"
#include "deploy/runtime/kernel.h"
#include "deploy/runtime/module_open.h"
#include "deploy/runtime/module_read.h"
#include "deploy/runtime/module_run.h"
#include "deploy/runtime/module_tensor.h"
#include "deploy/runtime/sizes.h"

#define OF_PROCESS 1 /* device_type */

/* Inputs, or outputs, of a module of several sizes. */
typedef struct ports {
    uint32_t count;
    kiln_module_port *port; /* of the current size */
    kiln_module_axis *axis; /* the axis of the dimension, if there is one */
    int64_t **shape;        /* [count] of `port` */
    void **given, **part;   /* [count] the caller's; of the running part */
} ports;

struct kiln_module {
    kiln_arena arena; /* lives as long as the module */
    kiln_mapping mapping;
    kiln_module_sizes sizes;
    size_t constant_bytes;
    kiln_variant **variant; /* [bucket_count] */
    uint32_t active;        /* the running bucket */
    bool is_linked;
    int64_t size;  /* that is set; 0 in modules of one size */
    ports in, out; /* likewise empty there */
    int64_t *bucket_size;
    char *dim, **metadata_key, **metadata_value;
    kiln_kept_port **kept; /* [kept_count], room for each input */
    uint32_t kept_count;
    const char *error; /* of the last run */
    char own_error[KILN_MODULE_ERROR_BYTES];
};

static kiln_variant *active(const kiln_module *m) { return m->variant[m->active]; }

static const kiln_module_bucket *active_bucket(const kiln_module *m) {
    return &m->sizes.bucket[m->active];
}

static const kiln_module_plan *plan_of(const kiln_module *m) { return &active_bucket(m)->plan; }

/* Whether a run is exactly one run of the variant, on the caller's memory. */
static bool is_exact(const kiln_module *m) { return active_bucket(m)->size == m->size; }

/* ---- opening --------------------------------------------------------------------------------- */

static void describe_ports(kiln_module *m, ports *p, bool is_output) {
    p->count = is_output ? plan_of(m)->output_count : plan_of(m)->input_count;
    p->port = KILN_ARENA_ARRAY(&m->arena, kiln_module_port, p->count);
    p->axis = KILN_ARENA_ARRAY(&m->arena, kiln_module_axis, p->count);
    p->shape = KILN_ARENA_ARRAY(&m->arena, int64_t *, p->count);
    p->given = KILN_ARENA_ARRAY(&m->arena, void *, p->count);
    p->part = KILN_ARENA_ARRAY(&m->arena, void *, p->count);
    for (uint32_t i = 0; i < p->count; i++) {
        p->port[i] =
            is_output ? *kiln_variant_output(active(m), i) : *kiln_variant_input(active(m), i);
        p->shape[i] = KILN_ARENA_ARRAY(&m->arena, int64_t, p->port[i].rank);
        memcpy(p->shape[i], p->port[i].shape, p->port[i].rank * sizeof(int64_t));
        p->port[i].shape = p->shape[i];
        if (!kiln_module_find_axis(&m->sizes, is_output, i, &p->axis[i]))
            p->axis[i].axis = KILN_MODULE_NO_AXIS;
    }
}

/* Fills in the description of a module whose variants exist. */
static void describe(kiln_module *m) {
    const kiln_module_plan *plan = plan_of(m);
    m->metadata_key = KILN_ARENA_ARRAY(&m->arena, char *, plan->metadata_count);
    m->metadata_value = KILN_ARENA_ARRAY(&m->arena, char *, plan->metadata_count);
    for (uint32_t i = 0; i < plan->metadata_count; i++) {
        m->metadata_key[i] = kiln_str_dup(&m->arena, plan->metadata[i].key);
        m->metadata_value[i] = kiln_str_dup(&m->arena, plan->metadata[i].value);
    }
    m->error = "";
    if (!m->sizes.dim.size) return;
    m->dim = kiln_str_dup(&m->arena, m->sizes.dim);
    m->bucket_size = KILN_ARENA_ARRAY(&m->arena, int64_t, m->sizes.bucket_count);
    for (uint32_t i = 0; i < m->sizes.bucket_count; i++)
        m->bucket_size[i] = m->sizes.bucket[i].size;
    m->size = active_bucket(m)->size;
    describe_ports(m, &m->in, false);
    describe_ports(m, &m->out, true);
}

static kiln_module *create(void) {
    kiln_module *m = kiln_alloc(sizeof *m);
    kiln_arena_init(&m->arena, 0);
    return m;
}

static void make_room(kiln_module *m) {
    m->variant = KILN_ARENA_ARRAY(&m->arena, kiln_variant *, m->sizes.bucket_count);
    m->active = m->sizes.bucket_count - 1;
}

static kiln_status decode(kiln_module *m, kiln_str bytes) {
    kiln_status st = kiln_module_decode(bytes, &m->arena, &m->sizes, &m->constant_bytes);
    if (!st) make_room(m);
    return st;
}

/* Opens the largest variant first: it has the threads. Runs no code of the module. */
static kiln_status link(kiln_module *m, kiln_str bytes, const kiln_module_options *options) {
    if ((uintptr_t)bytes.data % KILN_MODULE_SECTION_ALIGNMENT != 0)
        return KILN_ERROR(INVALID_ARGUMENT, "module in memory is not aligned to %u",
                          KILN_MODULE_SECTION_ALIGNMENT);
    kiln_status st = decode(m, bytes);
    for (uint32_t i = st ? 0 : m->sizes.bucket_count; !st && i-- > 0;)
        st = kiln_variant_link(&m->sizes.bucket[i].plan, options, i == m->active ? NULL : active(m),
                               &m->variant[i]);
    if (st) return st;
    m->is_linked = true;
    m->kept = KILN_ARENA_ARRAY(&m->arena, kiln_kept_port *, plan_of(m)->input_count);
    describe(m);
    return KILN_OK;
}

kiln_status kiln_module_pack(kiln_module *m) {
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; !st && i < m->sizes.bucket_count; i++)
        st = kiln_variant_pack(m->variant[i]);
    return st;
}

static kiln_status give(kiln_module *m, kiln_status st, kiln_module **out_module) {
    if (!st)
        *out_module = m;
    else
        kiln_module_close(m);
    return st;
}

int kiln_module_open_memory(const void *data, size_t size_bytes, const kiln_module_options *options,
                            kiln_module **out_module, char *error, size_t error_bytes) {
    kiln_module *m = create();
    kiln_status st = link(m, (kiln_str){data, size_bytes}, options);
    if (!st) st = kiln_module_pack(m);
    return kiln_status_report(give(m, st, out_module), error, error_bytes);
}

int kiln_module_open(const char *path, const kiln_module_options *options, kiln_module **out_module,
                     char *error, size_t error_bytes) {
    kiln_module *m = create();
    kiln_status st = kiln_file_map(path, &m->mapping);
    if (!st) st = link(m, (kiln_str){m->mapping.data, m->mapping.size}, options);
    if (!st) st = kiln_module_pack(m);
    return kiln_status_report(kiln_status_note(give(m, st, out_module), "module %s", path), error,
                              error_bytes);
}

kiln_status kiln_module_link(kiln_str bytes, const kiln_module_options *options,
                             kiln_module **out_module) {
    kiln_module *m = create();
    return give(m, link(m, bytes, options), out_module);
}

static kiln_status inspect(kiln_module *m, uint32_t threads) {
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; !st && i < m->sizes.bucket_count; i++)
        st = kiln_variant_inspect(&m->sizes.bucket[i].plan, threads, &m->variant[i]);
    if (!st) describe(m);
    return st;
}

kiln_status kiln_module_inspect(kiln_str bytes, uint32_t threads, kiln_module **out_module) {
    kiln_module *m = create();
    kiln_status st = decode(m, bytes);
    if (!st) st = inspect(m, threads);
    return give(m, st, out_module);
}

kiln_status kiln_module_of_ports(const kiln_module_sizes *sizes, kiln_module **out_module) {
    kiln_module *m = create();
    m->sizes = *sizes;
    make_room(m);
    return give(m, inspect(m, 0), out_module);
}

static kiln_status check_kernels(const kiln_module_plan *plan) {
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; !st && i < plan->kernel_count; i++)
        st = kiln_module_damage(
            kiln_status_note(kiln_kernel_check(plan->kernel[i]), "kernel %u", i));
    return st;
}

int kiln_module_verify(const char *path, char *error, size_t error_bytes) {
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    kiln_mapping mapping = {0};
    kiln_module_sizes sizes = {0};
    size_t constant_bytes;
    kiln_status st = kiln_file_map(path, &mapping);
    if (!st)
        st = kiln_module_decode((kiln_str){mapping.data, mapping.size}, &arena, &sizes,
                                &constant_bytes);
    for (uint32_t i = 0; !st && i < sizes.bucket_count; i++)
        st = check_kernels(&sizes.bucket[i].plan);
    kiln_file_unmap(&mapping);
    kiln_arena_deinit(&arena);
    return kiln_status_report(kiln_status_note(st, "module %s", path), error, error_bytes);
}

/* Closes the variant with the threads last. */
void kiln_module_close(kiln_module *m) {
    if (!m) return;
    for (uint32_t i = 0; m->variant && i < m->sizes.bucket_count; i++)
        kiln_variant_close(m->variant[i]);
    kiln_file_unmap(&m->mapping);
    kiln_arena_deinit(&m->arena);
    kiln_free(m);
}

/* ---- sizes ----------------------------------------------------------------------------------- */

kiln_module_size_info kiln_module_describe_sizes(const kiln_module *m) {
    const kiln_module_sizes *s = &m->sizes;
    if (!m->dim) return (kiln_module_size_info){0};
    return (kiln_module_size_info){.dim = m->dim,
                                   .size = m->size,
                                   .size_min = s->by_rows ? 1 : s->bucket[0].size,
                                   .size_max = s->bucket[s->bucket_count - 1].size,
                                   .takes_all = s->by_rows,
                                   .bucket_count = s->bucket_count,
                                   .bucket = m->bucket_size,
                                   .bucket_runs = active_bucket(m)->size};
}

static int refuse_size(kiln_module *m, int64_t size) {
    const kiln_module_size_info info = kiln_module_describe_sizes(m);
    size_t at;
    m->error = m->own_error;
    if (!info.dim) {
        (void)snprintf(m->own_error, sizeof m->own_error, "the module has one size only");
        return KILN_INVALID_ARGUMENT;
    }
    at = (size_t)snprintf(m->own_error, sizeof m->own_error,
                          "%.256s is %" PRId64 "; the module takes", info.dim, size);
    if (info.takes_all)
        (void)snprintf(m->own_error + at, sizeof m->own_error - at, " 1 to %" PRId64,
                       info.size_max);
    for (uint32_t i = 0; !info.takes_all && i < info.bucket_count; i++)
        at += (size_t)snprintf(m->own_error + at, sizeof m->own_error - at, "%s %" PRId64,
                               i ? "," : "", info.bucket[i]);
    return KILN_OUT_OF_RANGE;
}

/* Whether the module takes a size. */
static bool takes(const kiln_module *m, int64_t size) {
    const kiln_module_sizes *s = &m->sizes;
    if (!m->dim || size < 1 || size > s->bucket[s->bucket_count - 1].size) return false;
    return s->by_rows || s->bucket[kiln_sizes_choose(s, size)].size == size;
}

int kiln_module_port_at(const kiln_module *m, int is_output, uint32_t index, int64_t size,
                        int64_t *out_shape, size_t *out_bytes) {
    if (!takes(m, size)) return KILN_OUT_OF_RANGE;
    const ports *p = is_output ? &m->out : &m->in;
    KILN_CHECK(index < p->count);
    const kiln_module_bucket *bucket = &m->sizes.bucket[kiln_sizes_choose(&m->sizes, size)];
    const kiln_plan_port *planned =
        is_output ? &bucket->plan.output[index] : &bucket->plan.input[index];
    kiln_shape shape = planned->shape;
    if (bucket->size != size && p->axis[index].axis != KILN_MODULE_NO_AXIS)
        shape.dim[p->axis[index].axis] = p->axis[index].factor * size;
    memcpy(out_shape, shape.dim, shape.rank * sizeof(int64_t));
    *out_bytes = (size_t)kiln_shape_count(&shape) * kiln_dtype_size(planned->dtype);
    return KILN_OK;
}

static void set_ports(kiln_module *m, ports *p, bool is_output) {
    for (uint32_t i = 0; i < p->count; i++)
        (void)kiln_module_port_at(m, is_output, i, m->size, p->shape[i], &p->port[i].size_bytes);
}

int kiln_module_set_size(kiln_module *m, int64_t size) {
    if (!takes(m, size)) return refuse_size(m, size);
    if (size == m->size) return KILN_OK;
    m->active = kiln_sizes_choose(&m->sizes, size);
    m->size = size;
    set_ports(m, &m->in, false);
    set_ports(m, &m->out, true);
    return KILN_OK;
}

static bool is_shape(const kiln_plan_port *port, uint32_t rank, const int64_t *shape,
                     uint32_t except) {
    if (port->shape.rank != rank) return false;
    for (uint32_t d = 0; d < rank; d++)
        if (d != except && port->shape.dim[d] != shape[d]) return false;
    return true;
}

int64_t kiln_module_size_of(const kiln_module *m, uint32_t input, uint32_t rank,
                            const int64_t *shape) {
    const kiln_module_sizes *s = &m->sizes;
    KILN_CHECK(input < plan_of(m)->input_count);
    if (!m->dim) return 0;
    const kiln_module_axis a = m->in.axis[input];
    if (a.axis != KILN_MODULE_NO_AXIS)
        return is_shape(&plan_of(m)->input[input], rank, shape, a.axis) &&
                       shape[a.axis] % a.factor == 0
                   ? shape[a.axis] / a.factor
                   : 0;
    uint32_t fitting = 0;
    int64_t size = 0;
    for (uint32_t i = 0; i < s->bucket_count; i++) {
        if (!is_shape(&s->bucket[i].plan.input[input], rank, shape, KILN_MODULE_NO_AXIS)) continue;
        fitting++;
        size = s->bucket[i].size;
    }
    return fitting == 1 ? size : 0;
}

/* ---- inspecting ------------------------------------------------------------------------------ */

uint32_t kiln_module_input_count(const kiln_module *m) { return plan_of(m)->input_count; }
uint32_t kiln_module_output_count(const kiln_module *m) { return plan_of(m)->output_count; }
uint32_t kiln_module_step_count(const kiln_module *m) { return kiln_variant_step_count(active(m)); }
uint32_t kiln_module_kernel_count(const kiln_module *m) { return plan_of(m)->kernel_count; }
uint32_t kiln_module_threads(const kiln_module *m) { return kiln_variant_threads(active(m)); }
size_t kiln_module_constant_bytes(const kiln_module *m) { return m->constant_bytes; }
const char *kiln_module_error(const kiln_module *m) { return m->error; }
const kiln_module_sizes *kiln_module_sizes_of(const kiln_module *m) { return &m->sizes; }
const kiln_target *kiln_module_device(const kiln_module *m) {
    return kiln_variant_device(active(m));
}
kiln_module_device_info kiln_module_describe_device(const kiln_module *m) {
    return kiln_variant_describe_device(active(m));
}

size_t kiln_module_arena_bytes(const kiln_module *m) {
    size_t sum = 0;
    for (uint32_t i = 0; i < m->sizes.bucket_count; i++)
        sum += kiln_variant_arena_bytes(m->variant[i]);
    for (uint32_t i = 0; i < m->kept_count; i++) sum += 2 * m->kept[i]->size_bytes;
    return sum;
}

size_t kiln_module_packed_bytes(const kiln_module *m) {
    size_t sum = 0;
    for (uint32_t i = 0; i < m->sizes.bucket_count; i++)
        sum += kiln_variant_packed_bytes(m->variant[i]);
    return sum;
}

const kiln_module_port *kiln_module_input(const kiln_module *m, uint32_t index) {
    if (!m->dim) return kiln_variant_input(active(m), index);
    KILN_CHECK(index < m->in.count);
    return &m->in.port[index];
}

const kiln_module_port *kiln_module_output(const kiln_module *m, uint32_t index) {
    if (!m->dim) return kiln_variant_output(active(m), index);
    KILN_CHECK(index < m->out.count);
    return &m->out.port[index];
}

int64_t kiln_module_output_rows(const kiln_module *m, uint32_t index) {
    if (is_exact(m)) return kiln_variant_output_rows(active(m), index);
    const kiln_module_port *port = kiln_module_output(m, index);
    return port->rank ? port->shape[0] : 1;
}

const kiln_module_step *kiln_module_step_at(const kiln_module *m, uint32_t index) {
    return kiln_variant_step_at(active(m), index);
}

const void *kiln_module_step_code(const kiln_module *m, uint32_t index, size_t *out_bytes) {
    return kiln_variant_step_code(active(m), index, out_bytes);
}

const char *kiln_module_metadata(const kiln_module *m, const char *key) {
    for (uint32_t i = 0; i < plan_of(m)->metadata_count; i++)
        if (strcmp(m->metadata_key[i], key) == 0) return m->metadata_value[i];
    return NULL;
}

/* ---- what stays between runs ----------------------------------------------------------------- */

static const char no_memory[] = "there is no memory for it",
                  no_port[] = "the module has no such port",
                  not_kept[] = "it is not kept between runs";

static int refuse_port(kiln_module *m, const char *what, uint32_t index, const char *why) {
    (void)snprintf(m->own_error, sizeof m->own_error, "%s %u: %s", what, index, why);
    m->error = m->own_error;
    return KILN_INVALID_ARGUMENT;
}

static kiln_kept_port *find_kept(const kiln_module *m, bool is_output, uint32_t index) {
    for (uint32_t i = 0; i < m->kept_count; i++)
        if ((is_output ? m->kept[i]->output : m->kept[i]->input) == index) return m->kept[i];
    return NULL;
}

int64_t kiln_module_kept_with(const kiln_module *m, int is_output, uint32_t index) {
    const kiln_kept_port *kept = find_kept(m, is_output, index);
    if (!kept) return -1;
    return is_output ? kept->input : kept->output;
}

static bool is_of_one_shape(const kiln_module *m, bool is_output, uint32_t index) {
    kiln_module_axis axis;
    return kiln_module_find_axis(&m->sizes, is_output, index, &axis) &&
           axis.axis == KILN_MODULE_NO_AXIS;
}

static bool are_alike(const kiln_plan_port *a, const kiln_plan_port *b) {
    return a->dtype == b->dtype && kiln_shape_equal(&a->shape, &b->shape);
}

/* Why the two cannot be kept; NULL if they can. */
static const char *find_obstacle(const kiln_module *m, uint32_t input, uint32_t output) {
    if (find_kept(m, false, input)) return "the input is kept already";
    if (find_kept(m, true, output)) return "the output is kept already";
    if (!are_alike(&plan_of(m)->input[input], &plan_of(m)->output[output]))
        return "they must have one type and shape";
    if (m->dim && !(is_of_one_shape(m, false, input) && is_of_one_shape(m, true, output)))
        return "their shape must not depend on the size that is set";
    return NULL;
}

static int refuse_to_keep(kiln_module *m, uint32_t input, uint32_t output, kiln_code code,
                          const char *why) {
    (void)snprintf(m->own_error, sizeof m->own_error,
                   "output %u (%.256s) cannot be kept for input %u (%.256s): %s", output,
                   kiln_module_output(m, output)->name, input, kiln_module_input(m, input)->name,
                   why);
    m->error = m->own_error;
    return (int)code;
}

int kiln_module_keep(kiln_module *m, uint32_t input, uint32_t output) {
    if (input >= plan_of(m)->input_count) return refuse_port(m, "input", input, no_port);
    if (output >= plan_of(m)->output_count) return refuse_port(m, "output", output, no_port);
    const char *why = find_obstacle(m, input, output);
    kiln_kept_port *kept = NULL;
    if (!m->is_linked)
        return refuse_to_keep(m, input, output, KILN_FAILED_PRECONDITION,
                              "the module was opened for inspection only");
    if (why) return refuse_to_keep(m, input, output, KILN_INVALID_ARGUMENT, why);
    const uint32_t owner = m->sizes.bucket_count - 1; /* the variant that is closed last */
    kiln_status st = kiln_variant_keep(m->variant[owner], input, output, owner > 0, &kept);
    if (st) {
        const int code =
            refuse_to_keep(m, input, output, kiln_status_code(st), kiln_status_text(st));
        kiln_status_free(st); /* it is said */
        return code;
    }
    for (uint32_t i = 0; i < owner; i++) kiln_variant_share_kept(m->variant[i], kept);
    m->kept[m->kept_count++] = kept;
    return KILN_OK;
}

static int finish_kept(kiln_module *m, const kiln_kept_port *kept, int32_t status) {
    if (status == KILN_KERNEL_OK) return KILN_OK;
    (void)snprintf(m->own_error, sizeof m->own_error, "copying input %u, which is kept: %s",
                   kept->input, kiln_device_error(kept->on));
    m->error = m->own_error;
    return KILN_INTERNAL;
}

int kiln_module_reset(kiln_module *m) {
    int code = KILN_OK;
    for (uint32_t i = 0; !code && i < m->kept_count; i++)
        code = finish_kept(m, m->kept[i], kiln_kept_port_write(m->kept[i], NULL));
    return code;
}

int kiln_module_read_state(kiln_module *m, uint32_t input, void *data) {
    const kiln_kept_port *kept = find_kept(m, false, input);
    if (!kept) return refuse_port(m, "input", input, not_kept);
    return finish_kept(m, kept, kiln_kept_port_read(kept, data));
}

int kiln_module_write_state(kiln_module *m, uint32_t input, const void *data) {
    kiln_kept_port *kept = find_kept(m, false, input);
    if (!kept) return refuse_port(m, "input", input, not_kept);
    return finish_kept(m, kept, kiln_kept_port_write(kept, data));
}

/* ---- running: the functions below allocate only memory for ports ---------------------- */

void kiln_module_set_hook(kiln_module *m, kiln_module_hook hook, void *context) {
    for (uint32_t i = 0; i < m->sizes.bucket_count; i++)
        kiln_variant_set_hook(m->variant[i], hook, context);
}

uint64_t kiln_module_step_device_ns(const kiln_module *m) {
    return kiln_variant_step_device_ns(active(m));
}

void *kiln_module_input_memory(kiln_module *m, uint32_t index) {
    return is_exact(m) ? kiln_variant_input_memory(active(m), index) : NULL;
}

void *kiln_module_output_memory(kiln_module *m, uint32_t index) {
    return is_exact(m) ? kiln_variant_output_memory(active(m), index) : NULL;
}

/* A port's tensor of `extent` rows. */
static kiln_rows rows_of(const ports *p, uint32_t index, void *data, int64_t extent) {
    const kiln_module_port *port = &p->port[index];
    const kiln_module_axis axis = p->axis[index];
    kiln_rows rows = {.data = data, .outer = 1, .extent = extent};
    rows.row_bytes = (size_t)axis.factor * kiln_dtype_size((kiln_dtype)port->dtype);
    for (uint32_t d = 0; d < axis.axis; d++) rows.outer *= (size_t)port->shape[d];
    for (uint32_t d = axis.axis + 1; d < port->rank; d++) rows.row_bytes *= (size_t)port->shape[d];
    return rows;
}

/* Copies `count` rows of the inputs from `first` on; the rest of the bucket's rows is zero. */
static void take_part(kiln_module *m, int64_t first, int64_t count) {
    for (uint32_t i = 0; i < m->in.count; i++) {
        m->in.part[i] = m->in.given[i];
        if (m->in.axis[i].axis == KILN_MODULE_NO_AXIS) continue;
        m->in.part[i] = kiln_variant_input_stage(active(m), i);
        const kiln_rows from = rows_of(&m->in, i, m->in.given[i], m->size),
                        to = rows_of(&m->in, i, m->in.part[i], active_bucket(m)->size);
        kiln_sizes_copy_rows(&from, first, &to, 0, count);
        kiln_sizes_clear_rows(&to, count);
    }
    for (uint32_t i = 0; i < m->out.count; i++)
        m->out.part[i] = m->out.axis[i].axis == KILN_MODULE_NO_AXIS
                             ? m->out.given[i]
                             : kiln_variant_output_stage(active(m), i);
}

static void give_part(kiln_module *m, int64_t first, int64_t count) {
    for (uint32_t i = 0; i < m->out.count; i++) {
        if (m->out.axis[i].axis == KILN_MODULE_NO_AXIS) continue;
        const kiln_rows from = rows_of(&m->out, i, m->out.part[i], active_bucket(m)->size),
                        to = rows_of(&m->out, i, m->out.given[i], m->size);
        kiln_sizes_copy_rows(&from, 0, &to, first, count);
    }
}

/* Runs the bucket as often as the size needs, on `given`. */
static int run_parts(kiln_module *m) {
    const int64_t most = active_bucket(m)->size;
    int code = KILN_OK;
    for (int64_t first = 0; !code && first < m->size; first += most) {
        const int64_t count = KILN_MIN(most, m->size - first);
        take_part(m, first, count);
        code = kiln_variant_run(active(m), (const void *const *)m->in.part, m->out.part);
        if (!code) give_part(m, first, count);
    }
    return code;
}

/* Copies a variant's error text to the module. */
static int finish(kiln_module *m, int code) {
    m->error = kiln_variant_error(active(m));
    for (uint32_t i = 0; !code && i < m->kept_count; i++)
        code = finish_kept(m, m->kept[i], kiln_kept_port_advance(m->kept[i]));
    return code;
}

int kiln_module_run(kiln_module *m, const void *const *inputs, void *const *outputs) {
    if (is_exact(m) || !m->is_linked)
        return finish(m, kiln_variant_run(active(m), inputs, outputs));
    for (uint32_t i = 0; i < m->in.count; i++) {
        if (!inputs[i] && !find_kept(m, false, i)) return refuse_port(m, "input", i, no_memory);
        m->in.given[i] = (void *)(uintptr_t)inputs[i];
    }
    for (uint32_t i = 0; i < m->out.count; i++) {
        if (!outputs[i] && !find_kept(m, true, i)) return refuse_port(m, "output", i, no_memory);
        m->out.given[i] = outputs[i];
    }
    return finish(m, run_parts(m));
}

/* Parts can be taken only from memory of the process. */
static bool take_tensors(const kiln_module *m, const ports *p,
                         const kiln_module_tensor *const *tensor, uint32_t *out_index, char *why,
                         size_t why_bytes) {
    for (uint32_t i = 0; i < p->count; i++) {
        const kiln_module_tensor *t = tensor[i];
        *out_index = i;
        p->given[i] = NULL;
        if (!t && find_kept(m, p == &m->out, i)) continue;
        (void)snprintf(why, why_bytes, "%s", no_memory);
        if (!t || (!t->data && p->port[i].size_bytes > 0)) return false;
        if (!kiln_module_tensor_fits(&p->port[i], t, why, why_bytes)) return false;
        (void)snprintf(why, why_bytes,
                       "a size that is no bucket's takes tensors in memory of the process");
        if (t->device_type != OF_PROCESS) return false;
        p->given[i] = (uint8_t *)t->data + t->byte_offset;
    }
    return true;
}

int kiln_module_run_tensors(kiln_module *m, const kiln_module_tensor *const *inputs,
                            const kiln_module_tensor *const *outputs) {
    char why[KILN_MODULE_ERROR_BYTES / 2];
    uint32_t at = 0;
    if (is_exact(m) || !m->is_linked)
        return finish(m, kiln_variant_run_tensors(active(m), inputs, outputs));
    if (!take_tensors(m, &m->in, inputs, &at, why, sizeof why))
        return refuse_port(m, "input", at, why);
    if (!take_tensors(m, &m->out, outputs, &at, why, sizeof why))
        return refuse_port(m, "output", at, why);
    return finish(m, run_parts(m));
}
