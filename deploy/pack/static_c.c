#include "deploy/pack/static_c.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/manifest.h"
#include "compiler-core/core.h"
#include "deploy/pack/flatten.h"
#include "deploy/pack/prepared.h"

typedef struct writer {
    const kiln_module_sizes *module;
    const kiln_flat *flat;
    const kiln_flat_bucket *bucket; /* whose run is written */
    const kiln_module_plan *plan;   /* the flat one */
    kiln_str name;
    kiln_arena *arena;
    kiln_strbuf *out;
    kiln_artefact *kernel;    /* [kernel_count] */
    uint32_t *packer;         /* [step_count] the step whose packed constants it uses */
    const uint32_t *grown_by; /* [buffer_count] */
    bool grows;               /* the number of rows of an output is known at run time only */
    kiln_static_c_sizes sizes;
} writer;

/* ---- kernels --------------------------------------------------------------------------------- */

static const char *split_of(kiln_str payload) { return strstr(payload.data, kiln_c_text_split); }

/* The text of a kernel with its functions named after it: kiln_run_with -> NAME_k3_run_with. */
static void write_kernel(writer *w, uint32_t index) {
    static const char *const entry[] = {KILN_ENTRY_RUN, KILN_ENTRY_PREPARE};
    const size_t prefix = strlen("kiln_");
    const char *at = split_of(w->kernel[index].payload) + strlen(kiln_c_text_split);
    for (; *at; at++) {
        bool found = false;
        for (size_t i = 0; i < KILN_ARRAY_COUNT(entry); i++)
            found |= strncmp(at, entry[i], strlen(entry[i])) == 0;
        if (found) {
            kiln_strbuf_printf(w->out, "%.*s_k%u_", KILN_STR_ARG(w->name), index);
            at += prefix;
        }
        kiln_strbuf_char(w->out, *at);
    }
}

/* Whether the function `entry` of a kernel takes argument `arg`, according to its head. */
static bool takes(const kiln_artefact *kernel, const char *entry, uint32_t arg) {
    char wanted[32];
    const char *head = strstr(split_of(kernel->payload), entry);
    size_t size = head ? strcspn(head, "{") : 0;
    snprintf(wanted, sizeof wanted, " *a%u", arg);
    for (const char *at = head; size && (at = strstr(at, wanted)) && at < head + size; at++)
        if (!isdigit((unsigned char)at[strlen(wanted)])) return true;
    return false;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static uint64_t arg_bytes(const kiln_manifest_arg *arg) {
    kiln_shape physical = kiln_layout_physical(&arg->layout, &arg->shape);
    return (uint64_t)kiln_shape_count(&physical) * kiln_dtype_size(arg->dtype);
}

static void write_bytes(writer *w, const uint8_t *data, uint64_t count) {
    for (uint64_t i = 0; i < count; i++)
        kiln_strbuf_printf(w->out, "%s%u,", i % 24 ? "" : "\n    ", data[i]);
}

static void write_constants(writer *w) {
    for (uint32_t i = 0; i < w->plan->buffer_count; i++) {
        const kiln_plan_buffer *b = &w->plan->buffer[i];
        if (b->storage != KILN_STORAGE_CONSTANT) continue;
        kiln_strbuf_printf(w->out, "static const KILN_ALIGNED unsigned char c%u[%llu] = {", i,
                           (unsigned long long)KILN_MAX(b->size_bytes, 1u));
        write_bytes(w, b->data, b->size_bytes);
        kiln_strbuf_text(w->out, "\n};\n");
        w->sizes.constant_bytes += b->size_bytes;
    }
}

static void write_buffer(writer *w, const char *name, uint64_t bytes) {
    kiln_strbuf_printf(w->out, "static KILN_ALIGNED char %s[%llu];\n", name,
                       (unsigned long long)KILN_MAX(bytes, 1u));
}

/* Packed arguments of each step that packs. */
static void write_packed(writer *w) {
    for (uint32_t s = 0; s < w->plan->step_count; s++) {
        const kiln_plan_step *step = &w->plan->step[s];
        if (step->action != KILN_ACTION_KERNEL || w->packer[s] != s) continue;
        const kiln_manifest *m = &w->kernel[step->kernel].manifest;
        for (uint32_t i = 0; i < m->arg_count; i++) {
            if (m->arg[i].role != KILN_ROLE_PACKED) continue;
            write_buffer(w, kiln_arena_printf(w->arena, "p%u_%u", s, i), arg_bytes(&m->arg[i]));
            w->sizes.packed_bytes += arg_bytes(&m->arg[i]);
        }
    }
}

static void write_address(writer *w, uint32_t buffer) {
    const kiln_plan_buffer *b = &w->plan->buffer[buffer];
    if (b->storage == KILN_STORAGE_ALIAS) {
        write_address(w, b->source);
        if (b->offset) kiln_strbuf_printf(w->out, " + %llu", (unsigned long long)b->offset);
        if (b->stride)
            kiln_strbuf_printf(w->out, " + (ptrdiff_t)i%u * %lld", b->loop, (long long)b->stride);
        return;
    }
    if (b->storage == KILN_STORAGE_ARENA)
        kiln_strbuf_printf(w->out, "arena + %llu", (unsigned long long)b->offset);
    else if (b->storage == KILN_STORAGE_CONSTANT)
        kiln_strbuf_printf(w->out, "(char *)c%u", buffer);
    else
        kiln_strbuf_printf(w->out, "(char *)%s[%u]",
                           b->storage == KILN_STORAGE_INPUT ? "inputs" : "outputs", b->source);
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* Packed arguments follow those of the step. */
static void write_call(writer *w, uint32_t index, const char *entry) {
    const kiln_plan_step *step = &w->plan->step[index];
    const kiln_artefact *kernel = &w->kernel[step->kernel];
    kiln_strbuf_printf(w->out, "    if (%.*s_k%u_%s_with(0, scratch", KILN_STR_ARG(w->name),
                       step->kernel, entry + strlen("kiln_"));
    for (uint32_t i = 0; i < kernel->manifest.arg_count; i++) {
        if (!takes(kernel, entry, i)) continue;
        kiln_strbuf_text(w->out, ", ");
        if (kernel->manifest.arg[i].role == KILN_ROLE_PACKED)
            kiln_strbuf_printf(w->out, "p%u_%u", w->packer[index], i);
        else
            write_address(w, step->arg[i]);
    }
    kiln_strbuf_text(w->out, ")) return 1;\n");
}

static void write_copy(writer *w, const kiln_plan_step *step) {
    kiln_strbuf_text(w->out, "    copy_bytes(");
    write_address(w, step->arg[1]);
    kiln_strbuf_text(w->out, ", ");
    write_address(w, step->arg[0]);
    kiln_strbuf_printf(w->out, ", %llu);\n",
                       (unsigned long long)w->plan->buffer[step->arg[0]].size_bytes);
}

/* Writes an element in memory, as read by a loop. */
static void write_element(writer *w, const char *type, uint32_t buffer) {
    kiln_strbuf_printf(w->out, "*(%s *)(", type);
    write_address(w, buffer);
    kiln_strbuf_text(w->out, ")");
}

/* A loop that needs more iterations than its maximum is an error. Its count is read once, because
 * values of the body may reuse its memory. */
static void write_loop(writer *w, uint32_t index) {
    const kiln_plan_step *step = &w->plan->step[index];
    if (step->count != KILN_PLAN_NONE) {
        kiln_strbuf_printf(w->out, "    const s64 times%u = (s64)", index);
        write_element(w, "const u64_m", step->count);
        kiln_strbuf_text(w->out, ";\n");
    }
    kiln_strbuf_printf(w->out, "    for (u64 i%u = 0; ", index);
    if (step->count != KILN_PLAN_NONE)
        kiln_strbuf_printf(w->out, "(s64)i%u < times%u", index, index);
    else
        kiln_strbuf_printf(w->out, "i%u < %lluu", index, (unsigned long long)step->trip_max);
    if (step->condition != KILN_PLAN_NONE) {
        kiln_strbuf_text(w->out, " && ");
        write_element(w, "const u8_m", step->condition);
    }
    kiln_strbuf_printf(w->out, "; i%u++) {\n", index);
    if (step->count != KILN_PLAN_NONE)
        kiln_strbuf_printf(w->out, "    if (i%u == %lluu) return 1;\n", index,
                           (unsigned long long)step->trip_max);
    if (step->index == KILN_PLAN_NONE) return;
    kiln_strbuf_text(w->out, "    ");
    write_element(w, "u64_m", step->index);
    kiln_strbuf_printf(w->out, " = i%u;\n", index);
}

/* Whether the loop decides how many rows an output has. Such a loop is an outermost one. */
static bool decides_rows(const writer *w, uint32_t loop) {
    for (uint32_t i = 0; i < w->plan->output_count; i++)
        if (w->grown_by[w->bucket->output[i].buffer] == loop) return true;
    return false;
}

/* Behind the loop: stores the number of rows, and zeros behind them. */
static void write_rows(writer *w, uint32_t loop) {
    for (uint32_t i = 0; i < w->plan->output_count; i++) {
        const uint32_t buffer = w->bucket->output[i].buffer;
        if (w->grown_by[buffer] != loop) continue;
        const uint64_t size = w->plan->buffer[buffer].size_bytes;
        kiln_strbuf_printf(
            w->out,
            "    %.*s_rows[%u] = (unsigned long)n%u;\n"
            "    for (u64 i = n%u * %llu; i < %llu; i++) ((char *)outputs[%u])[i] = 0;\n",
            KILN_STR_ARG(w->name), i, loop, loop,
            (unsigned long long)(size / w->plan->step[loop].trip_max), (unsigned long long)size, i);
    }
}

static void write_steps(writer *w, uint32_t from, uint32_t to);

static void write_whole_loop(writer *w, uint32_t index) {
    const bool counts = decides_rows(w, index);
    if (counts) kiln_strbuf_printf(w->out, "    u64 n%u = 0;\n", index);
    write_loop(w, index);
    write_steps(w, index + 1, index + 1 + w->plan->step[index].body_count);
    if (counts) kiln_strbuf_printf(w->out, "    n%u++;\n", index);
    kiln_strbuf_text(w->out, "    }\n");
    if (counts) write_rows(w, index);
}

/* Steps [from, to), loops with their bodies. */
static void write_steps(writer *w, uint32_t from, uint32_t to) {
    for (uint32_t i = from; i < to; i++) {
        const kiln_plan_step *step = &w->plan->step[i];
        switch (step->action) {
        case KILN_ACTION_KERNEL: write_call(w, i, KILN_ENTRY_RUN); break;
        case KILN_ACTION_COPY:
        case KILN_ACTION_CARRY: write_copy(w, step); break;
        case KILN_ACTION_LOOP:
            write_whole_loop(w, i);
            i += step->body_count;
            break;
        case KILN_ACTION_ALIAS:
        case KILN_ACTION_EVENT: break; /* nothing to do, nothing to wait for */
        }
    }
}

/* For outputs whose number of rows does not depend on the run. */
static void write_fixed_rows(writer *w) {
    for (uint32_t i = 0; w->grows && i < w->plan->output_count; i++) {
        const kiln_plan_port *port = &w->bucket->output[i];
        const int64_t rows = port->shape.rank ? port->shape.dim[0] : 1;
        if (w->grown_by[port->buffer] == KILN_PLAN_NONE)
            kiln_strbuf_printf(w->out, "    %.*s_rows[%u] = %lld;\n", KILN_STR_ARG(w->name), i,
                               (long long)rows);
    }
}

/* Packs the weights of all sizes, once. */
static void write_prepare(writer *w) {
    kiln_strbuf_text(w->out, "static int prepare(void) {\n    static unsigned char is_done;\n"
                             "    if (is_done) return 0;\n");
    for (uint32_t s = 0; s < w->plan->step_count; s++) {
        const kiln_plan_step *step = &w->plan->step[s];
        if (step->action == KILN_ACTION_KERNEL && w->packer[s] == s &&
            w->kernel[step->kernel].manifest.has_prepare)
            write_call(w, s, KILN_ENTRY_PREPARE);
    }
    kiln_strbuf_text(w->out, "    is_done = 1;\n    return 0;\n}\n");
}

/* static int run_SIZE(inputs, outputs); run_0 if there is one size. */
static void write_bucket(writer *w, const kiln_flat_bucket *bucket) {
    w->bucket = bucket;
    kiln_strbuf_printf(w->out,
                       "static int run_%lld(const void *const *inputs, void *const *outputs) {\n"
                       "    (void)inputs, (void)outputs, (void)arena, (void)scratch;\n",
                       (long long)bucket->size);
    write_fixed_rows(w);
    write_steps(w, bucket->first_step, bucket->first_step + bucket->step_count);
    kiln_strbuf_text(w->out, "    return 0;\n}\n");
}

/* ---- several sizes --------------------------------------------------------------------------- */

static const kiln_flat_bucket *largest(const writer *w) {
    return &w->flat->bucket[w->flat->bucket_count - 1];
}

/* Static memory of a port in the largest size, for runs that are padded; false: the port is the
 * same in all sizes. */
static bool write_stage(writer *w, bool is_output, uint32_t port) {
    const kiln_plan_port *of = is_output ? &largest(w)->output[port] : &largest(w)->input[port];
    kiln_module_axis axis;
    if (!kiln_module_find_axis(w->module, is_output, port, &axis) ||
        axis.axis == KILN_MODULE_NO_AXIS)
        return false;
    const uint64_t bytes = w->plan->buffer[of->buffer].size_bytes;
    write_buffer(w, kiln_arena_printf(w->arena, "%s%u", is_output ? "out" : "in", port), bytes);
    w->sizes.arena_bytes += bytes;
    return true;
}

/* Copies the rows of a port to or from its stage. */
static void write_row_copy(writer *w, bool is_output, uint32_t port) {
    const kiln_plan_port *of = is_output ? &largest(w)->output[port] : &largest(w)->input[port];
    kiln_module_axis axis = {0};
    uint64_t outer = 1;
    (void)kiln_module_find_axis(w->module, is_output, port, &axis);
    for (uint32_t d = 0; d < axis.axis; d++) outer *= (uint64_t)of->shape.dim[d];
    const uint64_t row =
        w->plan->buffer[of->buffer].size_bytes / outer / (uint64_t)largest(w)->size;
    kiln_strbuf_printf(w->out,
                       is_output ? "    copy_rows(outputs[%u], size, out%u, most, %llu, %llu);\n"
                                 : "    copy_rows(in%u, most, inputs[%u], size, %llu, %llu);\n",
                       port, port, (unsigned long long)outer, (unsigned long long)row);
    if (is_output && w->grows && axis.axis == 0)
        kiln_strbuf_printf(w->out, "    %.*s_rows[%u] = (unsigned long)size * %lld;\n",
                           KILN_STR_ARG(w->name), port, (long long)axis.factor);
}

/* A run in the next larger size, with zeros behind the rows. */
static void write_padded(writer *w) {
    const kiln_module_plan *plan = w->plan;
    bool *in = KILN_ARENA_ARRAY(w->arena, bool, plan->input_count + 1),
         *out = KILN_ARENA_ARRAY(w->arena, bool, plan->output_count + 1);
    for (uint32_t i = 0; i < plan->input_count; i++) in[i] = write_stage(w, false, i);
    for (uint32_t i = 0; i < plan->output_count; i++) out[i] = write_stage(w, true, i);
    kiln_strbuf_text(
        w->out, "static void copy_rows(char *to, long to_rows, const char *from, long "
                "from_rows, size_t outer, size_t row) {\n"
                "    const size_t rows = (size_t)(to_rows < from_rows ? to_rows : from_rows);\n"
                "    for (size_t o = 0; o < outer; o++) {\n"
                "        copy_bytes(to + o * (size_t)to_rows * row, from + o * "
                "(size_t)from_rows * row, rows * row);\n"
                "        for (size_t i = rows * row; i < (size_t)to_rows * row; i++) to[o * "
                "(size_t)to_rows * row + i] = 0;\n    }\n}\n"
                "static int run_padded(long size, long most, const void *const *inputs, void "
                "*const *outputs) {\n    const void *const in[] = {");
    for (uint32_t i = 0; i < plan->input_count; i++)
        kiln_strbuf_printf(w->out, in[i] ? "in%u, " : "inputs[%u], ", i);
    kiln_strbuf_text(w->out, "0};\n    void *const out[] = {");
    for (uint32_t i = 0; i < plan->output_count; i++)
        kiln_strbuf_printf(w->out, out[i] ? "out%u, " : "outputs[%u], ", i);
    kiln_strbuf_text(w->out, "0};\n");
    for (uint32_t i = 0; i < plan->input_count; i++)
        if (in[i]) write_row_copy(w, false, i);
    kiln_strbuf_text(w->out, "    const int status = run_exactly(most, in, out);\n"
                             "    if (status) return status;\n");
    for (uint32_t i = 0; i < plan->output_count; i++)
        if (out[i]) write_row_copy(w, true, i);
    kiln_strbuf_text(w->out, "    return 0;\n}\n");
}

static void write_run_of_sizes(writer *w) {
    kiln_strbuf_text(w->out, "static int run_exactly(long size, const void *const *inputs, void "
                             "*const *outputs) {\n    switch (size) {\n");
    for (uint32_t i = 0; i < w->flat->bucket_count; i++)
        kiln_strbuf_printf(w->out, "    case %lld: return run_%lld(inputs, outputs);\n",
                           (long long)w->flat->bucket[i].size, (long long)w->flat->bucket[i].size);
    kiln_strbuf_text(w->out, "    default: return 2;\n    }\n}\n");
    if (w->module->by_rows) write_padded(w);
    kiln_strbuf_printf(w->out,
                       "int %.*s_run(long size, const void *const *inputs, void *const *outputs) "
                       "{\n    if (prepare()) return 1;\n",
                       KILN_STR_ARG(w->name));
    for (uint32_t i = 0; w->module->by_rows && i < w->flat->bucket_count; i++)
        kiln_strbuf_printf(
            w->out,
            "    if (size > %lld && size < %lld) return run_padded(size, %lld, inputs, outputs);\n",
            (long long)(i ? w->flat->bucket[i - 1].size : 0), (long long)w->flat->bucket[i].size,
            (long long)w->flat->bucket[i].size);
    kiln_strbuf_text(w->out, "    return run_exactly(size, inputs, outputs);\n}\n");
}

static void write_run(writer *w) {
    if (w->grows)
        kiln_strbuf_printf(w->out, "unsigned long %.*s_rows[%u];\n", KILN_STR_ARG(w->name),
                           w->plan->output_count);
    write_prepare(w);
    for (uint32_t i = 0; i < w->flat->bucket_count; i++) write_bucket(w, &w->flat->bucket[i]);
    if (w->module->dim.size)
        write_run_of_sizes(w);
    else
        kiln_strbuf_printf(w->out,
                           "int %.*s_run(const void *const *inputs, void *const *outputs) {\n"
                           "    return prepare() ? 1 : run_0(inputs, outputs);\n}\n",
                           KILN_STR_ARG(w->name));
}

/* ---- files ----------------------------------------------------------------------------------- */

static void write_port(writer *w, const char *what, uint32_t index, const kiln_plan_port *port) {
    kiln_strbuf_printf(w->out, " *     %s[%u]: %.*s, %s", what, index, KILN_STR_ARG(port->name),
                       kiln_dtype_name(port->dtype));
    kiln_shape_print(&port->shape, w->out);
    kiln_strbuf_printf(w->out, ", %llu bytes\n",
                       (unsigned long long)w->plan->buffer[port->buffer].size_bytes);
}

/* The supported sizes, as a sentence. */
static void write_sizes(writer *w) {
    kiln_strbuf_printf(w->out, " *\n * `size` is that of %.*s: ", KILN_STR_ARG(w->module->dim));
    if (w->module->by_rows)
        kiln_strbuf_printf(w->out, "1 to %lld; there are kernels for ",
                           (long long)largest(w)->size);
    for (uint32_t i = 0; i < w->flat->bucket_count; i++)
        kiln_strbuf_printf(w->out, "%s%lld", i ? ", " : "", (long long)w->flat->bucket[i].size);
    kiln_strbuf_printf(w->out,
                       ". Above stands size %lld. Gives 2 for a size that it does not take.\n",
                       (long long)largest(w)->size);
}

static void write_header(writer *w) {
    const kiln_module_plan *plan = w->plan;
    const kiln_flat_bucket *shown = largest(w);
    const int size = (int)w->name.size;
    const char *name = w->name.data;
    kiln_strbuf_printf(w->out,
                       "/* A neural network, made by Kiln.\n *\n * %.*s_run computes its outputs "
                       "from its inputs, all row-major and aligned to their elements:\n",
                       size, name);
    for (uint32_t i = 0; i < plan->input_count; i++) write_port(w, "inputs", i, &shown->input[i]);
    for (uint32_t i = 0; i < plan->output_count; i++)
        write_port(w, "outputs", i, &shown->output[i]);
    if (w->module->dim.size) write_sizes(w);
    kiln_strbuf_printf(w->out,
                       " *\n * Buffers are static: one call at a time. Gives 0, or 1 where a "
                       "kernel fails or a loop runs too long. */\n#ifndef "
                       "KILN_%.*s_H\n#define KILN_%.*s_H\n#ifdef __cplusplus\nextern \"C\" "
                       "{\n#endif\n#define %.*s_input_count %u\n#define %.*s_output_count %u\nint "
                       "%.*s_run(%sconst void *const *inputs, void *const *outputs);\n",
                       size, name, size, name, size, name, plan->input_count, size, name,
                       plan->output_count, size, name, w->module->dim.size ? "long size, " : "");
    if (w->grows)
        kiln_strbuf_printf(w->out,
                           "/* How many rows, of its first dimension, the last call gave each "
                           "output: where they are fewer than there\n * is room for, zeros stand "
                           "behind them. */\nextern unsigned long %.*s_rows[%u];\n",
                           size, name, plan->output_count);
    kiln_strbuf_text(w->out, "#ifdef __cplusplus\n}\n#endif\n#endif\n");
}

static void write_source(writer *w) {
    kiln_strbuf_text(w->out, "/* Made by Kiln. */\n#define KILN_STATIC\n");
    if (w->plan->kernel_count > 0) {
        kiln_str first = w->kernel[0].payload;
        kiln_strbuf_str(w->out, kiln_str_slice(first, 0, (size_t)(split_of(first) - first.data)));
    }
    kiln_strbuf_printf(w->out,
                       "#include \"%.*s.h\"\n#include <stddef.h>\n"
                       "#define KILN_ALIGNED __attribute__((aligned(64)))\n",
                       KILN_STR_ARG(w->name));
    kiln_strbuf_text(w->out,
                     "static inline __attribute__((unused)) void copy_bytes(char *to, const char "
                     "*from, size_t count) {\n    while (count--) *to++ = *from++;\n}\n\n");
    for (uint32_t i = 0; i < w->plan->kernel_count; i++) {
        const kiln_manifest *m = &w->kernel[i].manifest;
        uint64_t scratch = m->scratch_bytes + m->scratch_worker_bytes;
        w->sizes.scratch_bytes = KILN_MAX(w->sizes.scratch_bytes, scratch);
        write_kernel(w, i);
    }
    w->packer = kiln_prepared_find(w->plan, w->kernel, w->arena);
    w->sizes.arena_bytes = w->plan->arena_bytes;
    write_buffer(w, "arena", w->sizes.arena_bytes);
    write_buffer(w, "scratch", w->sizes.scratch_bytes);
    write_constants(w);
    write_packed(w);
    write_run(w);
}

static kiln_status check(const kiln_module_plan *plan) {
    if (plan->threads > 1)
        return KILN_ERROR(UNIMPLEMENTED, "static C has no threads; take a target with one");
    for (uint32_t i = 0; i < plan->step_count; i++)
        if (plan->step[i].device != 0)
            return KILN_ERROR(UNIMPLEMENTED,
                              "static C runs on the processor alone; step %u does not", i);
    return KILN_OK;
}

static kiln_status decode_kernels(writer *w) {
    kiln_status st = KILN_OK;
    w->kernel = KILN_ARENA_ARRAY(w->arena, kiln_artefact, w->plan->kernel_count + 1);
    for (uint32_t i = 0; !st && i < w->plan->kernel_count; i++) {
        st = kiln_artefact_decode(w->plan->kernel[i], w->arena, &w->kernel[i]);
        if (st) break;
        kiln_str text = w->kernel[i].payload;
        w->kernel[i].payload.data = kiln_str_dup(w->arena, text); /* ends with a NUL */
        if (w->kernel[i].manifest.payload_kind != KILN_PAYLOAD_C)
            st = KILN_ERROR(UNIMPLEMENTED, "kernel %u is no C text", i);
        else
            st = kiln_status_note(
                kiln_manifest_refuse_cluster_or_maps(&w->kernel[i].manifest, "static C"),
                "kernel %u", i);
    }
    return st;
}

kiln_status kiln_static_c(const kiln_module_sizes *sizes, kiln_str name, kiln_arena *arena,
                          kiln_strbuf *out_source, kiln_strbuf *out_header,
                          kiln_static_c_sizes *out_sizes) {
    kiln_flat flat;
    for (uint32_t i = 0; i < sizes->bucket_count; i++) {
        kiln_status st = check(&sizes->bucket[i].plan);
        if (st) return st;
    }
    kiln_flatten(sizes, arena, &flat);
    writer w = {.module = sizes,
                .flat = &flat,
                .plan = &flat.plan,
                .name = name,
                .arena = arena,
                .out = out_source,
                .grown_by = kiln_module_plan_find_grown(&flat.plan, arena)};
    for (uint32_t i = 0; i < flat.plan.buffer_count; i++)
        w.grows |= w.grown_by[i] != KILN_PLAN_NONE;
    kiln_status st = decode_kernels(&w);
    if (st) return st;
    write_source(&w);
    w.out = out_header;
    write_header(&w);
    *out_sizes = w.sizes;
    return KILN_OK;
}
