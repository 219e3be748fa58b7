#include "rpc-server/discover.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/macros.h"
#include "base/vec.h"

#define ZONES_MAX 128
#define CACHES_MAX 8

/* Bits of a Raspberry Pi's firmware: the current state, and what happened since boot. */
#define THROTTLED_NOW 0xfu
#define THROTTLED_SINCE 16

typedef struct place {
    const char *root;
    kiln_arena *arena;
} place;

/* Whole content of ROOT/PATH, trimmed; empty when it cannot be read. */
KILN_PRINTF(2, 3) static kiln_str read_text(const place *p, const char *format, ...) {
    va_list args;
    va_start(args, format);
    kiln_strbuf path = {0};
    kiln_strbuf_text(&path, p->root);
    kiln_strbuf_vprintf(&path, format, args);
    va_end(args);
    kiln_str content = {0};
    kiln_status_free(
        kiln_file_read_system(path.data, p->arena, &content)); /* not on this platform */
    kiln_strbuf_deinit(&path);
    content = kiln_str_trim(content);
    if (content.size && content.data[content.size - 1] == '\0') content.size--; /* device tree */
    return content;
}

static uint64_t number_of(kiln_str text) {
    uint64_t number = 0;
    return kiln_str_to_u64(text, &number) ? number : 0;
}

/* The value after "name\t: " in /proc/cpuinfo and the like; empty when there is no such line. */
static kiln_str find_line(kiln_str text, const char *name) {
    while (text.size > 0) {
        kiln_str line = kiln_str_cut(&text, '\n');
        kiln_str key = kiln_str_trim(kiln_str_cut(&line, ':'));
        if (kiln_str_is(key, name)) return kiln_str_trim(line);
    }
    return (kiln_str){0};
}

/* ---- Cores ----------------------------------------------------------------------------------- */

static const struct {
    uint32_t implementer, part;
    const char *name;
} core_table[] = {
#define X(implementer, part, name) {implementer, part, name},
#include "rpc-server/cores.def"
#undef X
};

static kiln_str core_name(uint64_t implementer, uint64_t part) {
    for (size_t i = 0; i < KILN_ARRAY_COUNT(core_table); i++)
        if (core_table[i].implementer == implementer && core_table[i].part == part)
            return kiln_str_from(core_table[i].name);
    return (kiln_str){0};
}

/* The block of /proc/cpuinfo about processor `core`. */
static kiln_str cpuinfo_of(kiln_str text, uint32_t core) {
    while (text.size > 0) {
        const char *end = memmem(text.data, text.size, "\n\n", 2);
        size_t size = end ? (size_t)(end - text.data) + 2 : text.size;
        kiln_str block = kiln_str_slice(text, 0, size);
        kiln_str number = find_line(block, "processor");
        if (number.size && number_of(number) == core) return block;
        text = kiln_str_slice(text, size, text.size);
    }
    return (kiln_str){0};
}

/* The core's name, from its identification register if the kernel shows it, else from
 * /proc/cpuinfo. */
static kiln_str name_of(const place *p, kiln_str cpuinfo, uint32_t core) {
    uint64_t midr =
        number_of(read_text(p, "/sys/devices/system/cpu/cpu%u/regs/identification/midr_el1", core));
    if (midr) return core_name(midr >> 24 & 0xff, midr >> 4 & 0xfff);
    kiln_str block = cpuinfo_of(cpuinfo, core);
    return core_name(number_of(find_line(block, "CPU implementer")),
                     number_of(find_line(block, "CPU part")));
}

/* The cluster of such cores: an existing one, a new one, or the last if there are too many. */
static kiln_cluster *cluster_of(kiln_machine *machine, kiln_str cpu, uint64_t clock_khz) {
    for (uint32_t i = 0; i < machine->cluster_count; i++)
        if (kiln_str_equal(machine->cluster[i].cpu, cpu) &&
            machine->cluster[i].clock_khz == clock_khz)
            return &machine->cluster[i];
    if (machine->cluster_count == KILN_MACHINE_CLUSTERS_MAX)
        return &machine->cluster[KILN_MACHINE_CLUSTERS_MAX - 1];
    kiln_cluster *cluster = &machine->cluster[machine->cluster_count++];
    *cluster = (kiln_cluster){.cpu = cpu, .clock_khz = clock_khz};
    return cluster;
}

static int by_clock(const void *a, const void *b) {
    const kiln_cluster *left = a, *right = b;
    if (left->clock_khz != right->clock_khz) return left->clock_khz < right->clock_khz ? -1 : 1;
    return left->core[0] < right->core[0] ? -1 : 1;
}

/* Iterates over the numbers of a list like "0-3,6". */
static uint32_t next_core(kiln_str *list, uint32_t *at, uint32_t *end) {
    if (*at < *end) return (*at)++;
    kiln_str rest = kiln_str_cut(list, ',');
    kiln_str first = kiln_str_cut(&rest, '-');
    *at = (uint32_t)number_of(kiln_str_trim(first));
    *end = rest.size ? (uint32_t)number_of(kiln_str_trim(rest)) + 1 : *at + 1;
    return (*at)++;
}

static void find_clusters(const place *p, kiln_str cpuinfo, kiln_machine *machine) {
    kiln_str list = read_text(p, "/sys/devices/system/cpu/present");
    for (uint32_t at = 0, end = 0, count = 0;
         (list.size || at < end) && count < KILN_MACHINE_CORES_MAX; count++) {
        uint32_t core = next_core(&list, &at, &end);
        uint64_t clock_khz =
            number_of(read_text(p, "/sys/devices/system/cpu/cpu%u/cpufreq/cpuinfo_max_freq", core));
        kiln_cluster *cluster = cluster_of(machine, name_of(p, cpuinfo, core), clock_khz);
        cluster->core[cluster->core_count++] = core;
    }
    qsort(machine->cluster, machine->cluster_count, sizeof machine->cluster[0], by_clock);
}

/* "32K", "1024K", "8M". */
static uint64_t size_of(kiln_str text) {
    static const char units[] = "KMG";
    const char *unit = text.size ? memchr(units, text.data[text.size - 1], 3) : NULL;
    uint64_t number = number_of(kiln_str_slice(text, 0, unit ? text.size - 1 : text.size));
    return unit ? number << 10 * (unit - units + 1) : number;
}

static void find_caches(const place *p, uint32_t core, kiln_machine *machine) {
    uint64_t *const level_bytes[] = {&machine->l1_bytes, &machine->l2_bytes, &machine->l3_bytes};
    for (int i = 0; i < CACHES_MAX; i++) {
        const char *folder =
            kiln_arena_printf(p->arena, "/sys/devices/system/cpu/cpu%u/cache/index%d", core, i);
        uint64_t level = number_of(read_text(p, "%s/level", folder));
        if (level < 1 || level > 3 || kiln_str_is(read_text(p, "%s/type", folder), "Instruction"))
            continue;
        *level_bytes[level - 1] = size_of(read_text(p, "%s/size", folder));
        machine->line_bytes = number_of(read_text(p, "%s/coherency_line_size", folder));
    }
}

/* ---- The rest -------------------------------------------------------------------------------- */

static uint32_t throttle_bits(const place *p) {
    kiln_str bits = read_text(p, "/sys/devices/platform/soc/soc:firmware/get_throttled");
    return bits.size ? (uint32_t)number_of(
                           kiln_str_from(kiln_arena_printf(p->arena, "0x%.*s", KILN_STR_ARG(bits))))
                     : 0;
}

/* Found by the dynamic loader, because a Raspberry Pi may run 32-bit programs on a 64-bit kernel.
 */
static kiln_str find_libc(const place *p) {
    static const struct {
        const char *path, *name;
    } loader[] = {
        {"/system/bin/linker64", "bionic 64-bit"},
        {"/system/bin/linker", "bionic 32-bit"},
        {"/lib/ld-linux-aarch64.so.1", "glibc arm64"},
        {"/lib/ld-linux-armhf.so.3", "glibc armhf"},
        {"/lib64/ld-linux-x86-64.so.2", "glibc amd64"},
        {"/lib/ld-linux-riscv64-lp64d.so.1", "glibc riscv64"},
        {"/lib/ld-musl-aarch64.so.1", "musl arm64"},
        {"/lib/ld-musl-armhf.so.1", "musl armhf"},
        {"/lib/ld-musl-x86_64.so.1", "musl amd64"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(loader); i++)
        if (kiln_file_exists(kiln_arena_printf(p->arena, "%s%s", p->root, loader[i].path)))
            return kiln_str_from(loader[i].name);
    return (kiln_str){0};
}

/* The temperature of the hottest zone in thousandths of a degree. Zones are numbered without gaps;
 * one that is off cannot be read. */
static uint64_t hottest_zone(const place *p, uint32_t *out_zones) {
    uint64_t hottest = 0;
    uint32_t zones = 0;
    for (uint32_t zone = 0; zone < ZONES_MAX; zone++) {
        kiln_str type = read_text(p, "/sys/class/thermal/thermal_zone%u/type", zone);
        kiln_str text = read_text(p, "/sys/class/thermal/thermal_zone%u/temp", zone);
        uint64_t temperature = 0;
        if (type.size == 0 && text.size == 0) break;
        if (!kiln_str_to_u64(text, &temperature)) continue;
        hottest = KILN_MAX(hottest, temperature);
        zones++;
    }
    if (out_zones) *out_zones = zones;
    return hottest;
}

void kiln_machine_discover(const char *root, kiln_arena *arena, kiln_machine *out_machine) {
    const place here = {root, arena}, *p = &here;
    kiln_machine machine = {0};
    kiln_str cpuinfo = read_text(p, "/proc/cpuinfo");
    bool is_arm = memmem(cpuinfo.data ? cpuinfo.data : "", cpuinfo.size, "CPU part", 8) != NULL;
    find_clusters(p, is_arm ? cpuinfo : (kiln_str){0}, &machine);
    if (machine.cluster_count > 0) {
        uint32_t core = machine.cluster[machine.cluster_count - 1].core[0];
        find_caches(p, core, &machine);
        machine.governor =
            read_text(p, "/sys/devices/system/cpu/cpu%u/cpufreq/scaling_governor", core);
    }
    machine.model = read_text(p, "/proc/device-tree/model");
    if (machine.model.size == 0) machine.model = find_line(cpuinfo, "model name");
    if (machine.model.size == 0) machine.model = find_line(cpuinfo, "Hardware");
    kiln_str memory = find_line(read_text(p, "/proc/meminfo"), "MemTotal");
    machine.memory_bytes = number_of(kiln_str_cut(&memory, ' ')) << 10;
    machine.kernel = read_text(p, "/proc/sys/kernel/osrelease");
    machine.libc = find_libc(p);
    hottest_zone(p, &machine.zones);
    machine.throttle_bits = throttle_bits(p);
    *out_machine = machine;
}

static void print_cores(const kiln_cluster *cluster, kiln_strbuf *out) {
    for (uint32_t i = 0, end; i < cluster->core_count; i = end) {
        for (end = i + 1; end < cluster->core_count; end++)
            if (cluster->core[end] != cluster->core[end - 1] + 1) break;
        kiln_strbuf_printf(out, "%s%u", i ? "+" : "", cluster->core[i]);
        if (end > i + 1) kiln_strbuf_printf(out, "-%u", cluster->core[end - 1]);
    }
}

void kiln_machine_print_clusters(const kiln_machine *machine, kiln_strbuf *out) {
    for (uint32_t i = 0; i < machine->cluster_count; i++) {
        const kiln_cluster *cluster = &machine->cluster[i];
        kiln_str cpu = cluster->cpu.size ? cluster->cpu : KILN_STR("core");
        kiln_strbuf_printf(out, "%s%.*s:", i ? "," : "", KILN_STR_ARG(cpu));
        print_cores(cluster, out);
        if (cluster->clock_khz)
            kiln_strbuf_printf(out, "@%llu", (unsigned long long)cluster->clock_khz / 1000);
    }
}

const kiln_cluster *kiln_machine_find_cluster(const kiln_machine *machine, kiln_str name) {
    if (machine->cluster_count == 0) return NULL;
    if (kiln_str_is(name, "little")) return &machine->cluster[0];
    if (kiln_str_is(name, "big")) return &machine->cluster[machine->cluster_count - 1];
    for (uint32_t i = 0; i < machine->cluster_count; i++)
        if (kiln_str_equal(machine->cluster[i].cpu, name)) return &machine->cluster[i];
    return NULL;
}

/* ---- Facts ----------------------------------------------------------------------------------- */

static void print_number(uint64_t number, kiln_strbuf *out) {
    if (number) kiln_strbuf_printf(out, "%llu", (unsigned long long)number);
}

static void fact_model(const kiln_machine *m, kiln_strbuf *out) { kiln_strbuf_str(out, m->model); }
static void fact_clusters(const kiln_machine *m, kiln_strbuf *out) {
    kiln_machine_print_clusters(m, out);
}
static void fact_l1(const kiln_machine *m, kiln_strbuf *out) {
    print_number(m->l1_bytes >> 10, out);
}
static void fact_l2(const kiln_machine *m, kiln_strbuf *out) {
    print_number(m->l2_bytes >> 10, out);
}
static void fact_l3(const kiln_machine *m, kiln_strbuf *out) {
    print_number(m->l3_bytes >> 10, out);
}
static void fact_memory(const kiln_machine *m, kiln_strbuf *out) {
    print_number(m->memory_bytes >> 20, out);
}
static void fact_governor(const kiln_machine *m, kiln_strbuf *out) {
    kiln_strbuf_str(out, m->governor);
}
static void fact_kernel(const kiln_machine *m, kiln_strbuf *out) {
    kiln_strbuf_str(out, m->kernel);
}
static void fact_libc(const kiln_machine *m, kiln_strbuf *out) { kiln_strbuf_str(out, m->libc); }
static void fact_zones(const kiln_machine *m, kiln_strbuf *out) { print_number(m->zones, out); }

static void fact_throttled(const kiln_machine *m, kiln_strbuf *out) {
    static const char *const seen[] = {"under-voltage", "capped clock", "throttling",
                                       "soft temperature limit"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(seen); i++)
        if (m->throttle_bits >> (THROTTLED_SINCE + i) & 1)
            kiln_strbuf_printf(out, "%s%s", out->size ? ", " : "", seen[i]);
}

static const struct {
    const char *name;
    void (*print)(const kiln_machine *machine, kiln_strbuf *out);
} fact_table[] = {
#define X(name, function, doc) {name, function},
#include "rpc-server/facts.def"
#undef X
};
_Static_assert(KILN_ARRAY_COUNT(fact_table) + 2 <= KILN_MESSAGES_FACTS,
               "facts and the reference kernel's two fit into BOARD_UP");

uint32_t kiln_machine_facts(const kiln_machine *machine, kiln_arena *arena,
                            kiln_msg_label **out_facts) {
    kiln_msg_label *fact = KILN_ARENA_ARRAY(arena, kiln_msg_label, KILN_ARRAY_COUNT(fact_table));
    kiln_strbuf text = {0};
    uint32_t count = 0;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(fact_table); i++) {
        kiln_strbuf_reset(&text);
        fact_table[i].print(machine, &text);
        if (text.size == 0) continue;
        kiln_str value = kiln_str_slice(kiln_strbuf_view(&text), 0, KILN_MESSAGES_KEY);
        fact[count++] = (kiln_msg_label){kiln_str_from(fact_table[i].name),
                                         {kiln_str_dup(arena, value), value.size}};
    }
    kiln_strbuf_deinit(&text);
    *out_facts = fact;
    return count;
}

/* ---- Readings -------------------------------------------------------------------------------- */

kiln_msg_env kiln_machine_read_env(const char *root, uint32_t core, kiln_arena *arena) {
    const place here = {root, arena}, *p = &here;
    kiln_msg_env env = {0};
    const char *folder = kiln_arena_printf(arena, "/sys/devices/system/cpu/cpu%u", core);
    env.frequency_khz = number_of(read_text(p, "%s/cpufreq/scaling_cur_freq", folder));
    env.governor =
        kiln_str_slice(read_text(p, "%s/cpufreq/scaling_governor", folder), 0, KILN_MESSAGES_NAME);
    env.temperature_mc = hottest_zone(p, NULL);
    env.throttle_bits = throttle_bits(p) & THROTTLED_NOW;
    env.throttle_count = number_of(read_text(p, "%s/thermal_throttle/core_throttle_count", folder));
    kiln_str load = read_text(p, "/proc/loadavg");
    double average = 0;
    if (kiln_str_to_f64(kiln_str_cut(&load, ' '), &average))
        env.load_milli = (uint32_t)(average * 1000);
    return env;
}
