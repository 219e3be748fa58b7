/* What machines say of themselves, from files as they have them. */
#include "rpc-server/discover.h"

#include <string.h>

#include "base/file.h"
#include "tests/support/test.h"

#define CPU "/sys/devices/system/cpu"

typedef struct file {
    const char *path, *content;
} file;

static void put(kiln_arena *arena, const char *root, const char *path, const char *content) {
    char *whole = kiln_arena_printf(arena, "%s%s", root, path);
    char *folder = kiln_arena_printf(arena, "%s", whole);
    *strrchr(folder, '/') = '\0';
    expect_ok(kiln_folder_create(folder, 0700));
    expect_ok(kiln_file_write(whole, kiln_str_from(content), 0600));
}

static char *make_machine(kiln_arena *arena, const file *files, size_t count) {
    char *root = make_folder(arena);
    for (size_t i = 0; i < count; i++) put(arena, root, files[i].path, files[i].content);
    return root;
}

/* A core that only /proc/cpuinfo names, as kernels of 32 bits do. */
#define CPUINFO(number, part) \
    "processor\t: " number "\nCPU implementer\t: 0x41\nCPU part\t: " part "\n\n"

static const file pi3[] = {
    {"/proc/cpuinfo", CPUINFO("0", "0xd03") CPUINFO("1", "0xd03") "Model\t\t: a board\n"},
    {"/proc/device-tree/model", "Raspberry Pi 3 Model B Plus Rev 1.3"},
    {"/proc/meminfo", "MemTotal:         944264 kB\nMemFree:  1 kB\n"},
    {"/proc/sys/kernel/osrelease", "6.1.21-v7+\n"},
    {"/proc/loadavg", "0.25 0.10 0.05 1/123 4567\n"},
    {"/lib/ld-linux-armhf.so.3", ""},
    {CPU "/present", "0-1\n"},
    {CPU "/cpu0/cpufreq/cpuinfo_max_freq", "1400000\n"},
    {CPU "/cpu0/cpufreq/scaling_cur_freq", "600000\n"},
    {CPU "/cpu0/cpufreq/scaling_governor", "ondemand\n"},
    {CPU "/cpu1/cpufreq/cpuinfo_max_freq", "1400000\n"},
    {"/sys/class/thermal/thermal_zone0/type", "cpu-thermal\n"},
    {"/sys/class/thermal/thermal_zone0/temp", "48312\n"},
    {"/sys/devices/platform/soc/soc:firmware/get_throttled", "50005\n"},
};

static const file pi4[] = {
    {"/proc/cpuinfo", CPUINFO("0", "0xd08")},
    {"/proc/device-tree/model", "Raspberry Pi 4 Model B Rev 1.4"},
    {"/proc/meminfo", "MemTotal:        3884360 kB\n"},
    {"/lib/ld-linux-aarch64.so.1", ""},
    {CPU "/present", "0-3\n"},
    {CPU "/cpu0/regs/identification/midr_el1", "0x00000000410fd083\n"},
    {CPU "/cpu1/regs/identification/midr_el1", "0x00000000410fd083\n"},
    {CPU "/cpu2/regs/identification/midr_el1", "0x00000000410fd083\n"},
    {CPU "/cpu3/regs/identification/midr_el1", "0x00000000410fd083\n"},
    {CPU "/cpu0/cpufreq/scaling_governor", "performance\n"},
    {CPU "/cpu0/cache/index0/level", "1\n"},
    {CPU "/cpu0/cache/index0/type", "Data\n"},
    {CPU "/cpu0/cache/index0/size", "32K\n"},
    {CPU "/cpu0/cache/index0/coherency_line_size", "64\n"},
    {CPU "/cpu0/cache/index1/level", "1\n"},
    {CPU "/cpu0/cache/index1/type", "Instruction\n"},
    {CPU "/cpu0/cache/index1/size", "48K\n"},
    {CPU "/cpu0/cache/index2/level", "2\n"},
    {CPU "/cpu0/cache/index2/type", "Unified\n"},
    {CPU "/cpu0/cache/index2/size", "1M\n"},
    {CPU "/cpu0/cache/index2/coherency_line_size", "64\n"},
    {"/sys/devices/platform/soc/soc:firmware/get_throttled", "0\n"},
};

/* Four small cores, three big ones, one that may go faster; one zone is off, another below zero. */
#define CORE(n, midr, khz)                                  \
    {CPU "/cpu" n "/regs/identification/midr_el1", midr}, { \
        CPU "/cpu" n "/cpufreq/cpuinfo_max_freq", khz       \
    }
#define LITTLE "0x00000000410fd050\n"
#define BIG "0x00000000410fd0b0\n"
static const file phone[] = {
    {"/proc/cpuinfo", "Processor\t: AArch64\nCPU part\t: 0xd05\nHardware\t: Some Vendor SoC 800\n"},
    {"/system/bin/linker64", ""},
    {CPU "/present", "0-3,4-7\n"},
    CORE("0", LITTLE, "1800000\n"),
    CORE("1", LITTLE, "1800000\n"),
    CORE("2", LITTLE, "1800000\n"),
    CORE("3", LITTLE, "1800000\n"),
    CORE("4", BIG, "2400000\n"),
    CORE("5", BIG, "2400000\n"),
    CORE("6", BIG, "2400000\n"),
    CORE("7", BIG, "2800000\n"),
    {"/sys/class/thermal/thermal_zone0/type", "battery\n"},
    {"/sys/class/thermal/thermal_zone0/temp", "31000\n"},
    {"/sys/class/thermal/thermal_zone1/type", "modem\n"},
    {"/sys/class/thermal/thermal_zone2/type", "off\n"},
    {"/sys/class/thermal/thermal_zone2/temp", "-273000\n"},
    {"/sys/class/thermal/thermal_zone3/type", "big\n"},
    {"/sys/class/thermal/thermal_zone3/temp", "52500\n"},
};

static const char *fact(kiln_arena *arena, const kiln_machine *machine, const char *name) {
    kiln_msg_label *facts = NULL;
    uint32_t count = kiln_machine_facts(machine, arena, &facts);
    for (uint32_t i = 0; i < count; i++)
        if (kiln_str_is(facts[i].key, name)) return kiln_str_dup(arena, facts[i].value);
    return "";
}

static void a_pi_3_of_32_bits_is_described(void **state) {
    kiln_arena *arena = *state;
    char *root = make_machine(arena, pi3, KILN_ARRAY_COUNT(pi3));
    kiln_machine machine;
    kiln_machine_discover(root, arena, &machine);
    assert_string_equal(fact(arena, &machine, "model"), "Raspberry Pi 3 Model B Plus Rev 1.3");
    assert_string_equal(fact(arena, &machine, "clusters"), "cortex-a53:0-1@1400");
    assert_string_equal(fact(arena, &machine, "libc"), "glibc armhf");
    assert_string_equal(fact(arena, &machine, "memory"), "922");
    assert_string_equal(fact(arena, &machine, "kernel"), "6.1.21-v7+");
    assert_string_equal(fact(arena, &machine, "governor"), "ondemand");
    assert_string_equal(fact(arena, &machine, "throttled"), "under-voltage, throttling");
    assert_string_equal(fact(arena, &machine, "l1"), ""); /* its kernel does not tell */
    kiln_msg_env env = kiln_machine_read_env(root, 0, arena);
    assert_int_equal(env.frequency_khz, 600000);
    assert_int_equal(env.temperature_mc, 48312);
    assert_int_equal(env.throttle_bits, 5); /* now: under-voltage, throttled */
    assert_int_equal(env.load_milli, 250);
    expect_str(env.governor, "ondemand");
    remove_folder(root);
}

static void a_pi_4_tells_its_caches(void **state) {
    kiln_arena *arena = *state;
    char *root = make_machine(arena, pi4, KILN_ARRAY_COUNT(pi4));
    kiln_machine machine;
    kiln_machine_discover(root, arena, &machine);
    assert_string_equal(fact(arena, &machine, "clusters"), "cortex-a72:0-3");
    assert_string_equal(fact(arena, &machine, "l1"), "32");
    assert_string_equal(fact(arena, &machine, "l2"), "1024");
    assert_string_equal(fact(arena, &machine, "l3"), "");
    assert_int_equal(machine.line_bytes, 64);
    assert_string_equal(fact(arena, &machine, "libc"), "glibc arm64");
    assert_string_equal(fact(arena, &machine, "throttled"), "");
    remove_folder(root);
}

static void a_phone_has_clusters_by_name(void **state) {
    kiln_arena *arena = *state;
    char *root = make_machine(arena, phone, KILN_ARRAY_COUNT(phone));
    kiln_machine machine;
    kiln_machine_discover(root, arena, &machine);
    assert_string_equal(fact(arena, &machine, "clusters"),
                        "cortex-a55:0-3@1800,cortex-a76:4-6@2400,cortex-a76:7@2800");
    assert_string_equal(fact(arena, &machine, "model"), "Some Vendor SoC 800");
    assert_string_equal(fact(arena, &machine, "libc"), "bionic 64-bit");
    assert_string_equal(fact(arena, &machine, "zones"), "2");
    assert_int_equal(kiln_machine_read_env(root, 7, arena).temperature_mc, 52500);
    const kiln_cluster *little = kiln_machine_find_cluster(&machine, KILN_STR("little"));
    const kiln_cluster *big = kiln_machine_find_cluster(&machine, KILN_STR("big"));
    assert_int_equal(little->core_count, 4);
    assert_int_equal(little->core[3], 3);
    assert_int_equal(big->core_count, 1);
    assert_int_equal(big->core[0], 7);
    assert_int_equal(kiln_machine_find_cluster(&machine, KILN_STR("cortex-a76"))->core[0], 4);
    assert_null(kiln_machine_find_cluster(&machine, KILN_STR("cortex-m0")));
    remove_folder(root);
}

static void a_machine_that_says_nothing_is_described_by_nothing(void **state) {
    kiln_arena *arena = *state;
    char *root = make_folder(arena);
    kiln_machine machine;
    kiln_msg_label *facts = NULL;
    kiln_machine_discover(root, arena, &machine);
    assert_int_equal(kiln_machine_facts(&machine, arena, &facts), 0);
    assert_null(kiln_machine_find_cluster(&machine, KILN_STR("big")));
    kiln_msg_env env = kiln_machine_read_env(root, 0, arena);
    assert_int_equal(env.temperature_mc + env.frequency_khz + env.throttle_bits, 0);
    remove_folder(root);
}

static void nonsense_in_the_files_is_survived(void **state) {
    kiln_arena *arena = *state;
    static const char *const text[] = {
        "-", ",,", "7-3\n", "99999999999999999999-1", "0-4294967295", "\n\n:\n"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(text); i++) {
        const file files[] = {{CPU "/present", text[i]},
                              {"/proc/cpuinfo", text[i]},
                              {"/proc/meminfo", text[i]},
                              {CPU "/cpu0/cache/index0/level", "1"},
                              {CPU "/cpu0/cache/index0/size", text[i]},
                              {"/sys/devices/platform/soc/soc:firmware/get_throttled", text[i]}};
        char *root = make_machine(arena, files, KILN_ARRAY_COUNT(files));
        kiln_machine machine;
        kiln_machine_discover(root, arena, &machine);
        assert_true(machine.cluster_count <= KILN_MACHINE_CLUSTERS_MAX);
        for (uint32_t c = 0; c < machine.cluster_count; c++)
            assert_true(machine.cluster[c].core_count <= KILN_MACHINE_CORES_MAX);
        remove_folder(root);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(a_pi_3_of_32_bits_is_described),
        test_with_arena(a_pi_4_tells_its_caches),
        test_with_arena(a_phone_has_clusters_by_name),
        test_with_arena(a_machine_that_says_nothing_is_described_by_nothing),
        test_with_arena(nonsense_in_the_files_is_survived),
    };
    return cmocka_run_group_tests_name("rpc-server/discover", tests, NULL, NULL);
}
