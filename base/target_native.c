/* Writes this machine's target as text. */
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macros.h"
#include "base/opt.h"
#include "base/target.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#else
#include <sys/auxv.h>
#endif

#define SIBLINGS_BYTES_MAX 4096

/* Number of physical cores: processors that are the first of their hardware threads; all online
 * ones if the kernel does not report it. */
static uint32_t count_cores(kiln_arena *scratch) {
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t cores = 0;
    for (long cpu = 0; cpu < sysconf(_SC_NPROCESSORS_CONF); cpu++) {
        char *path = kiln_arena_printf(
            scratch, "/sys/devices/system/cpu/cpu%ld/topology/thread_siblings_list", cpu);
        kiln_str siblings;
        kiln_status st = kiln_file_read(path, SIBLINGS_BYTES_MAX, scratch, &siblings);
        if (st) {
            kiln_status_free(st); /* offline, or no topology here */
            continue;
        }
        uint64_t first = 0;
        size_t digits = strspn(siblings.data, "0123456789");
        if (kiln_str_to_u64(kiln_str_slice(siblings, 0, digits), &first) && first == (uint64_t)cpu)
            cores++;
    }
    return cores ? cores : online > 0 ? (uint32_t)online : 1;
}

/* [level]; x86-64 has no name for level 0. */
static const char *const level_name[] = {NULL, "x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"};

static uint32_t level_called(kiln_str name) {
    for (uint32_t level = 1; level < KILN_ARRAY_COUNT(level_name); level++)
        if (kiln_str_is(name, level_name[level])) return level;
    return 0;
}

#if defined(__x86_64__)
#define NATIVE_TRIPLE "x86_64-unknown-linux-gnu"

typedef struct cpuid_bit {
    kiln_arch arch; /* rows of other architectures have no CPUID bits */
    const char *name;
    unsigned level, leaf, subleaf, reg, bit, xcr0;
} cpuid_bit;

static const cpuid_bit cpuid_table[] = {
#define X(arch, name, level, leaf, subleaf, reg, bit, xcr0) \
    {KILN_ARCH_##arch, name, level, leaf, subleaf, reg, bit, xcr0},
#include "base/cpu_features.def"
#undef X
};

static uint64_t enabled_state(void) {
    unsigned eax, ebx, ecx, edx, high;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & (1u << 27))) return 0; /* OSXSAVE */
    __asm__("xgetbv" : "=a"(eax), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | eax;
}

/* AMX tiles are 8 KiB of state, which the system saves for processes that request it: once for all
 * of their threads and children, until another program is executed (Linux,
 * Documentation/arch/x86/xstate.rst). Without it the instructions fault. */
#define TILE_DATA 18 /* bit of XCR0 */
static bool may_use_tiles(void) {
    enum { ARCH_REQ_XCOMP_PERM = 0x1023 };
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, TILE_DATA) == 0;
}

static bool processor_has(const cpuid_bit *feature) {
    unsigned reg[4] = {0};
    return feature->arch == KILN_ARCH_X86_64 &&
           __get_cpuid_count(feature->leaf, feature->subleaf, &reg[0], &reg[1], &reg[2], &reg[3]) &&
           reg[feature->reg] >> feature->bit & 1;
}

static bool machine_has(const cpuid_bit *feature, uint64_t state) {
    return !(feature->xcr0 & ~state) && processor_has(feature) &&
           (!(feature->xcr0 >> TILE_DATA & 1) || may_use_tiles());
}

/* Whether the processor has a feature that needs the state of tiles. */
static bool processor_has_tiles(void) {
    bool has = false;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(cpuid_table); i++)
        if (cpuid_table[i].xcr0 >> TILE_DATA & 1) has |= processor_has(&cpuid_table[i]);
    return has;
}

const char *kiln_target_native_tiles(void) {
    const bool has = processor_has_tiles();
    return kiln_target_tiles_missing(has, enabled_state() >> TILE_DATA & 1, has && may_use_tiles());
}

/* The machine's level, and its further features. */
static void spell_machine(kiln_strbuf *out) {
    uint64_t state = enabled_state();
    unsigned level = KILN_ARRAY_COUNT(level_name) - 1;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(cpuid_table); i++)
        if (cpuid_table[i].level > 1 && cpuid_table[i].level <= level &&
            !machine_has(&cpuid_table[i], state))
            level = cpuid_table[i].level - 1;
    kiln_strbuf_printf(out, ",mcpu=%s,features=", level_name[level]);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(cpuid_table); i++)
        if ((cpuid_table[i].level == 0 || cpuid_table[i].level > level) &&
            machine_has(&cpuid_table[i], state))
            kiln_strbuf_printf(out, "+%s", cpuid_table[i].name);
}
#else
const char *kiln_target_native_tiles(void) { return NULL; }

#if defined(__aarch64__)
#define NATIVE_TRIPLE "aarch64-unknown-linux-gnu"
#define NATIVE_ARCH KILN_ARCH_AARCH64
#elif defined(__arm__)
#define NATIVE_TRIPLE "armv7-unknown-linux-gnueabihf"
#define NATIVE_ARCH KILN_ARCH_ARM
#elif defined(__riscv) && __riscv_xlen == 64
#define NATIVE_TRIPLE "riscv64-unknown-linux-gnu"
#define NATIVE_ARCH KILN_ARCH_RISCV64
#endif

static const struct {
    kiln_arch arch;
    unsigned long vector;
    unsigned bit;
    const char *name;
} hwcap_table[] = {
#define X(arch, vector, bit, name) {KILN_ARCH_##arch, vector, bit, name},
#include "base/hwcaps.def"
#undef X
};

/* The architecture's default processor, and this one's features. */
static void spell_machine(kiln_strbuf *out) {
    kiln_strbuf_text(out, ",features=");
    for (size_t i = 0; i < KILN_ARRAY_COUNT(hwcap_table); i++)
        if (hwcap_table[i].arch == NATIVE_ARCH &&
            getauxval(hwcap_table[i].vector) >> hwcap_table[i].bit & 1)
            kiln_strbuf_printf(out, "+%s", hwcap_table[i].name);
}
#endif

const char *kiln_target_tiles_missing(bool processor, bool system, bool process) {
    if (!processor || (system && process)) return NULL;
    return system ? "has AMX, but Linux refuses this process the state of its tiles (arch_prctl, "
                    "ARCH_REQ_XCOMP_PERM): kernels do without"
                  : "has AMX, but this system does not save its tiles (Linux does from 5.16 on): "
                    "kernels do without";
}

kiln_status kiln_target_hold(const kiln_target *machine, kiln_str level, kiln_arena *arena,
                             kiln_target *out_target) {
    kiln_target held;
    kiln_strbuf missing = {0};
    if (machine->arch != KILN_ARCH_X86_64) {
        *out_target = *machine;
        return KILN_OK;
    }
    if (!level_called(level))
        return KILN_ERROR(INVALID_ARGUMENT, "'%.*s' is no level of x86-64; known: %s %s %s %s",
                          KILN_STR_ARG(level), level_name[1], level_name[2], level_name[3],
                          level_name[4]);
    kiln_status st = kiln_target_parse(level, arena, &held);
    if (!st && !kiln_target_runs_on(&held, machine, &missing))
        st = KILN_ERROR(FAILED_PRECONDITION, "this machine cannot be %.*s: %s", KILN_STR_ARG(level),
                        missing.data);
    kiln_strbuf_deinit(&missing);
    if (st) return st;
    held.cores = machine->cores;
    *out_target = held;
    return KILN_OK;
}

uint32_t kiln_target_native_limit(void) {
    const char *level = kiln_env(KILN_NATIVE_VARIABLE);
    return level ? level_called(kiln_str_from(level)) : 0;
}

kiln_status kiln_target_native(kiln_arena *arena, kiln_target *out_target) {
    kiln_strbuf text = {0};
    kiln_target machine;
    uint32_t cores = count_cores(arena);
    kiln_strbuf_text(&text, "cpu:" NATIVE_TRIPLE);
    spell_machine(&text);
    kiln_strbuf_printf(&text, ",cores=%u", KILN_MIN(cores, KILN_TARGET_CORES_MAX));
    kiln_status st = kiln_target_parse(kiln_strbuf_view(&text), arena, &machine);
    kiln_strbuf_deinit(&text);
    if (st) return st;
    const char *level = kiln_env(KILN_NATIVE_VARIABLE);
    if (level)
        return kiln_status_note(kiln_target_hold(&machine, kiln_str_from(level), arena, out_target),
                                "holding this machine to " KILN_NATIVE_VARIABLE);
    *out_target = machine;
    return KILN_OK;
}
