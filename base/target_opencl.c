/* Targets of kinds opencl and OpenCL CPU:
 * "opencl[:NAME][,group=THREADS][,shared=BYTES][,units=N][,vector=BYTES][,features=+f16-f64]
 * [,emulated]", with the device's name from its driver (docs/reference/target.md). A device that is
 * a processor has `emulated`, and a kind of its own. */
#include "base/macros.h"
#include "base/target_kind.h"

#define GROUP_THREADS_MAX 1024u
#define SHARED_BYTES_MAX (1u << 20)
#define UNITS_MAX 4096u
#define VECTOR_BYTES_MAX 64u

static const kiln_gpu *row_of(const kiln_target *target) {
    return kiln_gpu_find(target->emulated ? KILN_STR("opencl-cpu") : KILN_STR("opencl"));
}

void kiln_target_spell_device(kiln_str name, kiln_strbuf *out) {
    for (size_t i = 0; i < name.size; i++) {
        const char c = name.data[i];
        const bool upper = c >= 'A' && c <= 'Z';
        const bool kept = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        kiln_strbuf_printf(out, "%c", upper ? c - 'A' + 'a' : kept ? c : '-');
    }
}

/* As kiln_target_spell_device writes it. */
static kiln_status parse_head(kiln_target *target) {
    if (kiln_str_is(target->triple, "emulated"))
        return KILN_ERROR(INVALID_ARGUMENT,
                          "'emulated' is not the name of a device; write opencl,emulated");
    for (size_t i = 0; i < target->triple.size; i++)
        if (target->triple.data[i] >= 'A' && target->triple.data[i] <= 'Z')
            return KILN_ERROR(INVALID_ARGUMENT,
                              "'%.*s': names of OpenCL devices are written in lower case",
                              KILN_STR_ARG(target->triple));
    target->cores = 0; /* set from the row below, which depends on `emulated` */
    return KILN_OK;
}

static bool mentions(kiln_str features, const char *item) {
    while (features.size)
        if (kiln_str_is(kiln_str_cut(&features, ','), item)) return true;
    return false;
}

/* Parses "+f16-f64" in any order; keeps the features that differ from the row's. */
static kiln_status parse_features(kiln_str text, kiln_target *target) {
    bool f16 = mentions(target->features, "+f16"), lacks_f64 = mentions(target->features, "-f64");
    while (text.size) {
        kiln_str item = kiln_str_slice(text, 0, KILN_MIN((size_t)4, text.size));
        if (kiln_str_is(item, "+f16") || kiln_str_is(item, "-f16"))
            f16 = item.data[0] == '+';
        else if (kiln_str_is(item, "+f64") || kiln_str_is(item, "-f64"))
            lacks_f64 = item.data[0] == '-';
        else
            return KILN_ERROR(INVALID_ARGUMENT, "unknown feature '%.*s'; known here: f16 f64",
                              KILN_STR_ARG(text));
        text = kiln_str_slice(text, 4, text.size);
    }
    target->features = f16         ? lacks_f64 ? KILN_STR("+f16,-f64") : KILN_STR("+f16")
                               : lacks_f64 ? KILN_STR("-f64")
                                   : (kiln_str){0};
    return KILN_OK;
}

static kiln_status parse_vector(kiln_str key, kiln_str value, kiln_target *target) {
    uint32_t bytes;
    kiln_status st = kiln_target_parse_count(key, value, VECTOR_BYTES_MAX, &bytes);
    if (st) return st;
    if (bytes < 4 || (bytes & (bytes - 1)))
        return KILN_ERROR(INVALID_ARGUMENT, "vector=%u is not 4, 8, 16, 32 or 64", bytes);
    target->vector_bytes = bytes;
    return KILN_OK;
}

static kiln_status parse_part(kiln_str part, kiln_arena *arena, kiln_target *target) {
    (void)arena;
    kiln_str value = part;
    kiln_str key = kiln_str_cut(&value, '=');
    if (kiln_str_is(key, "group"))
        return kiln_target_parse_count(key, value, GROUP_THREADS_MAX, &target->group_threads);
    if (kiln_str_is(key, "shared"))
        return kiln_target_parse_count(key, value, SHARED_BYTES_MAX, &target->shared_bytes);
    if (kiln_str_is(key, "units"))
        return kiln_target_parse_count(key, value, UNITS_MAX, &target->cores);
    if (kiln_str_is(key, "vector")) return parse_vector(key, value, target);
    if (kiln_str_is(key, "features")) return parse_features(value, target);
    if (!kiln_str_is(part, "emulated")) return kiln_target_unknown_part(target, part);
    target->emulated = true;
    return KILN_OK;
}

static void print_parts(const kiln_target *target, kiln_strbuf *out) {
    const kiln_gpu *gpu = row_of(target);
    if (target->group_threads != gpu->group_threads)
        kiln_strbuf_printf(out, ",group=%u", target->group_threads);
    if (target->shared_bytes != gpu->group_shared_bytes)
        kiln_strbuf_printf(out, ",shared=%u", target->shared_bytes);
    if (target->cores != gpu->units) kiln_strbuf_printf(out, ",units=%u", target->cores);
    if (target->vector_bytes != gpu->load_bytes)
        kiln_strbuf_printf(out, ",vector=%u", target->vector_bytes);
    kiln_str features = target->features;
    if (features.size) kiln_strbuf_text(out, ",features=");
    while (features.size) kiln_strbuf_str(out, kiln_str_cut(&features, ','));
    if (target->emulated) kiln_strbuf_text(out, ",emulated");
}

/* Fills what rules for processors need, from the x86-64 level with such vectors. Cores are the
 * driver's units, all of which a kernel uses. */
static void derive_processor(kiln_target *target) {
    kiln_target like = {.kind = KILN_TARGET_CPU,
                        .arch = KILN_ARCH_X86_64,
                        .mcpu = target->vector_bytes == 64   ? KILN_STR("x86-64-v4")
                                : target->vector_bytes == 32 ? KILN_STR("x86-64-v3")
                                                             : KILN_STR("x86-64-v2")};
    kiln_target_form_cpu.derive(&like);
    target->kind = KILN_TARGET_OPENCL_CPU;
    target->threads = target->cores;
    target->vector_registers = like.vector_registers;
    target->l1_bytes = like.l1_bytes;
    target->l2_bytes = like.l2_bytes;
    target->l3_bytes = like.l3_bytes;
    target->line_bytes = like.line_bytes;
    target->core = like.core;
}

static void derive(kiln_target *target) {
    const kiln_gpu *gpu = row_of(target);
    kiln_target_derive_gpu(target, gpu);
    if (!target->cores) target->cores = gpu->units;
    if (!target->group_threads) target->group_threads = gpu->group_threads;
    if (!target->shared_bytes) target->shared_bytes = gpu->group_shared_bytes;
    if (!target->vector_bytes) target->vector_bytes = gpu->load_bytes;
    target->vector_registers = gpu->thread_registers;
    if (gpu->is_cpu) derive_processor(target);
}

static bool runs_on(const kiln_target *wanted, const kiln_target *device, kiln_strbuf *out_reason) {
    if (wanted->triple.size && !kiln_target_same_head(wanted, device, out_reason)) return false;
    return kiln_target_fits_gpu(wanted, device, out_reason);
}

const kiln_target_form kiln_target_form_opencl = {
    .parts = "group= shared= units= vector= features= emulated",
    .parse_head = parse_head,
    .parse_part = parse_part,
    .print_parts = print_parts,
    .derive = derive,
    .runs_on = runs_on,
};
