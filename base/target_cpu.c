/* Targets of kind cpu: processors, their features, caches and vectors. */
#include <string.h>

#include "base/check.h"
#include "base/macros.h"
#include "base/target_kind.h"

#define FEATURES_MAX 64
#define GATHER_LOADS 2     /* a load, and an insertion into the lane */
#define F16_INSTRUCTIONS 4 /* cost of a conversion if the row has none */
#define FORK_CYCLES 6000   /* waking and joining the pool's threads */

typedef struct feature_info {
    kiln_arch arch;
    const char *name;
    unsigned level;
} feature_info;

static const feature_info feature_table[] = {
#define X(arch, name, level, leaf, subleaf, reg, bit, xcr0) {KILN_ARCH_##arch, name, level},
#include "base/cpu_features.def"
#undef X
};

typedef struct cpu_info {
    kiln_arch arch;
    const char *name;
    unsigned level;
    const char *features; /* blank-separated */
    uint32_t l1_kib, l2_kib, l3_kib, line_bytes;
    kiln_core core;
} cpu_info;

static const cpu_info cpu_table[] = {
#define X(arch, name, level, features, l1, l2, l3, line, issue_, vector_, loads_, stores_, \
          latency_, forward_, divide_, l2_rate_, l3_rate_, memory_rate_)                   \
    {KILN_ARCH_##arch,                                                                     \
     name,                                                                                 \
     level,                                                                                \
     features,                                                                             \
     l1,                                                                                   \
     l2,                                                                                   \
     l3,                                                                                   \
     line,                                                                                 \
     {.issue = issue_,                                                                     \
      .vector = vector_ / 10.0,                                                            \
      .loads = loads_ / 10.0,                                                              \
      .stores = stores_ / 10.0,                                                            \
      .latency = latency_,                                                                 \
      .forward = forward_,                                                                 \
      .divide = divide_ / 10.0,                                                            \
      .l2_rate = l2_rate_,                                                                 \
      .l3_rate = l3_rate_,                                                                 \
      .memory_rate = memory_rate_ / 10.0}},
#include "base/cpus.def"
#undef X
};

static const struct {
    kiln_arch arch;
    const char *feature;
    uint32_t bytes, registers, factor_lanes;
} vector_table[] = {
#define X(arch, feature, bytes, registers, factor_lanes) \
    {KILN_ARCH_##arch, feature, bytes, registers, factor_lanes},
#include "base/vectors.def"
#undef X
};

static const struct {
    const char *prefix; /* of the triple */
    kiln_arch arch;
    uint32_t pointer_bytes, word_bytes;
    const char *fma; /* feature with fused multiply-adds; "": always there; NULL: never */
} arch_table[] = {
    {"x86_64-", KILN_ARCH_X86_64, 8, 8, "fma"}, {"aarch64-", KILN_ARCH_AARCH64, 8, 8, ""},
    {"arm64-", KILN_ARCH_AARCH64, 8, 8, ""},    {"armv7", KILN_ARCH_ARM, 4, 4, "vfp4"},
    {"arm-", KILN_ARCH_ARM, 4, 4, "vfp4"},      {"thumbv", KILN_ARCH_THUMB, 4, 4, ""},
    {"riscv64-", KILN_ARCH_RISCV64, 8, 8, ""},  {"wasm32-", KILN_ARCH_WASM32, 4, 8, NULL},
};

/* The row of a processor; with an empty name the architecture's default. */
static const cpu_info *find_cpu(kiln_arch arch, kiln_str name) {
    for (size_t i = 0; i < KILN_ARRAY_COUNT(cpu_table); i++)
        if (cpu_table[i].arch == arch && (name.size == 0 || kiln_str_is(name, cpu_table[i].name)))
            return &cpu_table[i];
    return NULL;
}

static const feature_info *find_feature(kiln_arch arch, kiln_str name) {
    for (size_t i = 0; i < KILN_ARRAY_COUNT(feature_table); i++)
        if (feature_table[i].arch == arch && kiln_str_is(name, feature_table[i].name))
            return &feature_table[i];
    return NULL;
}

static bool cpu_has(const cpu_info *cpu, const feature_info *feature) {
    if (feature->level && feature->level <= cpu->level) return true;
    kiln_str rest = kiln_str_from(cpu->features);
    while (rest.size)
        if (kiln_str_is(kiln_str_cut(&rest, ' '), feature->name)) return true;
    return false;
}

/* "+name" or "-name" in a canonical list: +1, -1; 0 when it is not mentioned. */
static int mention_of(kiln_str features, const char *name) {
    while (features.size) {
        kiln_str item = kiln_str_cut(&features, ',');
        if (item.size && kiln_str_is(kiln_str_slice(item, 1, item.size), name))
            return item.data[0] == '+' ? 1 : -1;
    }
    return 0;
}

static bool target_has(const kiln_target *target, const feature_info *feature) {
    const cpu_info *cpu = find_cpu(target->arch, target->mcpu);
    int mention = mention_of(target->features, feature->name);
    return mention ? mention > 0 : cpu && cpu_has(cpu, feature);
}

bool kiln_target_has(const kiln_target *target, kiln_str name) {
    const feature_info *feature = find_feature(target->arch, name);
    return feature && target_has(target, feature);
}

/* Fills the fields that are not in the text. */
static void derive(kiln_target *target) {
    const cpu_info *cpu = find_cpu(target->arch, target->mcpu);
    if (!cpu) return;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(vector_table); i++) {
        const char *feature = vector_table[i].feature;
        if (vector_table[i].arch != target->arch ||
            (*feature && !kiln_target_has(target, kiln_str_from(feature))))
            continue;
        target->vector_bytes = vector_table[i].bytes;
        target->vector_registers = vector_table[i].registers;
        target->factor_lanes = vector_table[i].factor_lanes;
    }
    for (size_t i = 0; i < KILN_ARRAY_COUNT(arch_table); i++) {
        if (arch_table[i].arch != target->arch) continue;
        const char *fma = arch_table[i].fma;
        target->pointer_bytes = arch_table[i].pointer_bytes;
        target->word_bytes = arch_table[i].word_bytes;
        target->has_fma = fma && (!*fma || kiln_target_has(target, kiln_str_from(fma)));
    }
    target->l1_bytes = cpu->l1_kib << 10;
    target->l2_bytes = cpu->l2_kib << 10;
    target->l3_bytes = cpu->l3_kib << 10;
    target->line_bytes = cpu->line_bytes;
    target->core = cpu->core;
    /* Derives figures that the row leaves out. */
    kiln_core *core = &target->core;
    core->gather = GATHER_LOADS / core->loads;
    core->convert_f16 = F16_INSTRUCTIONS / core->vector;
    core->convert_bf16 = core->convert_i8 = core->dot = 1 / core->vector;
    core->fork = FORK_CYCLES;
}

static kiln_status unknown_cpu(kiln_arch arch, kiln_str name) {
    kiln_strbuf names = {0};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(cpu_table); i++)
        if (cpu_table[i].arch == arch) kiln_strbuf_printf(&names, " %s", cpu_table[i].name);
    kiln_status st = KILN_ERROR(INVALID_ARGUMENT, "unknown mcpu '%.*s'; known here:%s",
                                KILN_STR_ARG(name), names.data);
    kiln_strbuf_deinit(&names);
    return st;
}

static kiln_status unknown_feature(kiln_arch arch, kiln_str name) {
    kiln_strbuf names = {0};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(feature_table); i++)
        if (feature_table[i].arch == arch) kiln_strbuf_printf(&names, " %s", feature_table[i].name);
    kiln_status st = KILN_ERROR(INVALID_ARGUMENT, "unknown feature '%.*s'; known here:%s",
                                KILN_STR_ARG(name), names.data);
    kiln_strbuf_deinit(&names);
    return st;
}

/* Length of the feature name that starts `text`: up to the next sign, unless the sign is a hyphen
 * inside a known name ("amx-tile"). */
static size_t feature_length(kiln_arch arch, kiln_str text) {
    size_t known = 0, first_sign = text.size;
    for (size_t end = 1; end <= text.size; end++) {
        if (end < text.size && text.data[end] != '+' && text.data[end] != '-') continue;
        first_sign = KILN_MIN(first_sign, end);
        if (find_feature(arch, kiln_str_slice(text, 0, end))) known = end;
    }
    return known ? known : first_sign;
}

/* Merges "+a-b" into the target's list, later mentions replacing earlier ones, and keeps it sorted
 * by name. */
static kiln_status merge_features(kiln_target *target, kiln_str text, kiln_arena *arena) {
    kiln_str item[FEATURES_MAX];
    size_t count = 0;
    kiln_str rest = target->features;
    while (rest.size) item[count++] = kiln_str_cut(&rest, ',');
    while (text.size) {
        kiln_str name = kiln_str_slice(text, 1, text.size);
        name = kiln_str_slice(name, 0, feature_length(target->arch, name));
        if ((text.data[0] != '+' && text.data[0] != '-') || !find_feature(target->arch, name))
            return unknown_feature(target->arch, name.size ? name : text);
        kiln_str signed_name = kiln_str_slice(text, 0, name.size + 1);
        text = kiln_str_slice(text, name.size + 1, text.size);
        size_t at = 0; /* where it belongs; names are unique and all known ones fit */
        while (at < count && kiln_str_compare(kiln_str_slice(item[at], 1, item[at].size), name) < 0)
            at++;
        if (at == count || !kiln_str_equal(kiln_str_slice(item[at], 1, item[at].size), name)) {
            KILN_CHECK(count < FEATURES_MAX);
            memmove(&item[at + 1], &item[at], (count - at) * sizeof *item);
            count++;
        }
        item[at] = signed_name;
    }
    kiln_strbuf list = {0};
    for (size_t i = 0; i < count; i++)
        kiln_strbuf_printf(&list, "%s%.*s", i ? "," : "", KILN_STR_ARG(item[i]));
    target->features = (kiln_str){kiln_str_dup(arena, kiln_strbuf_view(&list)), list.size};
    kiln_strbuf_deinit(&list);
    return KILN_OK;
}

/* ---- text ------------------------------------------------------------------------------------ */

static kiln_status parse_head(kiln_target *target) {
    for (size_t i = 0; i < KILN_ARRAY_COUNT(arch_table); i++)
        if (kiln_str_starts(target->triple, arch_table[i].prefix))
            target->arch = arch_table[i].arch;
    if (target->arch == KILN_ARCH_OTHER)
        return KILN_ERROR(INVALID_ARGUMENT,
                          "unknown processor in triple '%.*s'; known: x86_64 aarch64 arm thumbv7em "
                          "thumbv8.1m.main riscv64 wasm32",
                          KILN_STR_ARG(target->triple));
    if (target->arch == KILN_ARCH_THUMB) target->kind = KILN_TARGET_MICRO;
    target->mcpu = kiln_str_from(find_cpu(target->arch, (kiln_str){0})->name);
    return KILN_OK;
}

static kiln_status parse_part(kiln_str part, kiln_arena *arena, kiln_target *target) {
    kiln_str value = part;
    kiln_str key = kiln_str_cut(&value, '=');
    if (kiln_str_is(key, "mcpu")) {
        const cpu_info *cpu = value.size ? find_cpu(target->arch, value) : NULL;
        if (!cpu) return unknown_cpu(target->arch, value);
        target->mcpu = kiln_str_from(cpu->name);
        return KILN_OK;
    }
    if (kiln_str_is(key, "features")) return merge_features(target, value, arena);
    if (kiln_str_is(key, "cores"))
        return kiln_target_parse_count(key, value, KILN_TARGET_CORES_MAX, &target->cores);
    if (kiln_str_is(key, "threads"))
        return kiln_target_parse_count(key, value, KILN_TARGET_CORES_MAX, &target->threads);
    if (kiln_str_is(part, "emulated")) {
        target->emulated = true;
        return KILN_OK;
    }
    return kiln_target_unknown_part(target, part);
}

static void print_parts(const kiln_target *target, kiln_strbuf *out) {
    if (!kiln_str_is(target->mcpu, find_cpu(target->arch, (kiln_str){0})->name))
        kiln_strbuf_printf(out, ",mcpu=%.*s", KILN_STR_ARG(target->mcpu));
    kiln_str features = target->features;
    if (features.size) kiln_strbuf_text(out, ",features=");
    while (features.size) kiln_strbuf_str(out, kiln_str_cut(&features, ','));
    if (target->cores != 1) kiln_strbuf_printf(out, ",cores=%u", target->cores);
    if (target->threads != 1) kiln_strbuf_printf(out, ",threads=%u", target->threads);
    if (target->emulated) kiln_strbuf_text(out, ",emulated");
}

void kiln_target_spell_features(const kiln_target *target, kiln_strbuf *out) {
    const cpu_info *cpu = find_cpu(target->arch, target->mcpu);
    kiln_str listed = kiln_str_from(cpu && cpu->level == 0 ? cpu->features : "");
    const char *comma = "";
    for (; listed.size; comma = ",") {
        kiln_str name = kiln_str_cut(&listed, ' ');
        kiln_strbuf_printf(out, "%s+%.*s", comma, KILN_STR_ARG(name));
    }
    if (target->features.size)
        kiln_strbuf_printf(out, "%s%.*s", comma, KILN_STR_ARG(target->features));
}

static bool runs_on(const kiln_target *wanted, const kiln_target *device, kiln_strbuf *out_reason) {
    if (wanted->arch != device->arch) {
        kiln_strbuf_printf(out_reason, "the device is %.*s, not %.*s", KILN_STR_ARG(device->triple),
                           KILN_STR_ARG(wanted->triple));
        return false;
    }
    for (size_t i = 0; i < KILN_ARRAY_COUNT(feature_table); i++) {
        const feature_info *feature = &feature_table[i];
        if (feature->arch != wanted->arch || !target_has(wanted, feature) ||
            target_has(device, feature))
            continue;
        kiln_strbuf_printf(out_reason, "the device lacks %s", feature->name);
        return false;
    }
    return true;
}

const kiln_target_form kiln_target_form_cpu = {
    .parts = "mcpu= features= cores= threads= emulated",
    .parse_head = parse_head,
    .parse_part = parse_part,
    .print_parts = print_parts,
    .derive = derive,
    .runs_on = runs_on,
};
