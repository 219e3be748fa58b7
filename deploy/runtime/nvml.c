#include "deploy/runtime/nvml.h"

#include "base/macros.h"
#include "deploy/runtime/driver.h"

#define TEXT_BYTES 96u /* of versions and identities */
#define GIB ((double)(UINT64_C(1) << 30))

/* Without the power cap: work that draws so much power is never faster. */
#define SLOWED                                                        \
    ((unsigned)KILN_NVML_REASON_HARDWARE | KILN_NVML_REASON_THERMAL | \
     KILN_NVML_REASON_HARDWARE_THERMAL | KILN_NVML_REASON_POWER_BRAKE)

static const kiln_driver_library library = {.file = "libnvidia-ml.so.1",
                                            .variable = "KILN_NVML_LIBRARY",
                                            .install = "it comes with NVIDIA's driver"};

kiln_status kiln_nvml_open(kiln_nvml *nvml) {
    const kiln_driver_function function[] = {
#define X(name, symbol, parameters) {symbol, &nvml->name},
        KILN_NVML_FUNCTIONS(X)
#undef X
    };
    kiln_status st = kiln_driver_load(&library, function, KILN_ARRAY_COUNT(function));
    const int code = st ? KILN_NVML_SUCCESS : nvml->Init();
    if (code)
        return KILN_ERROR(UNAVAILABLE, "the management library does not start: error %d", code);
    return st;
}

void kiln_nvml_close(const kiln_nvml *nvml) { (void)nvml->Shutdown(); }

kiln_status kiln_nvml_find(const kiln_nvml *nvml, const char *pci_bus_id,
                           kiln_nvml_device *out_device) {
    const int code = nvml->ByPciBusId(pci_bus_id, out_device);
    if (code)
        return KILN_ERROR(UNAVAILABLE, "the management library does not show %s: error %d",
                          pci_bus_id, code);
    return KILN_OK;
}

static uint64_t clock_khz(int (*ask)(kiln_nvml_device, int, unsigned *), kiln_nvml_device device,
                          int which) {
    unsigned mhz = 0;
    return ask(device, which, &mhz) ? 0 : (uint64_t)mhz * 1000;
}

kiln_device_reading kiln_nvml_read(const kiln_nvml *nvml, kiln_nvml_device device) {
    kiln_device_reading r = {
        .clock_khz = clock_khz(nvml->Clock, device, KILN_NVML_CLOCK_SM),
        .clock_max_khz = clock_khz(nvml->ClockMax, device, KILN_NVML_CLOCK_SM),
        .memory_clock_khz = clock_khz(nvml->Clock, device, KILN_NVML_CLOCK_MEMORY),
        .memory_clock_max_khz = clock_khz(nvml->ClockMax, device, KILN_NVML_CLOCK_MEMORY),
    };
    kiln_nvml_memory memory;
    unsigned value = 0;
    unsigned long long reasons = 0;
    if (!nvml->Temperature(device, KILN_NVML_TEMPERATURE_GPU, &value))
        r.temperature_mc = (uint64_t)value * 1000;
    if (!nvml->Power(device, &value)) r.power_mw = value;
    if (!nvml->Reasons(device, &reasons)) r.throttle_bits = (uint32_t)(reasons & SLOWED);
    if (!nvml->Memory(device, &memory)) {
        r.memory_used_bytes = memory.used;
        r.memory_bytes = memory.total;
    }
    return r;
}

void kiln_nvml_print_version(const kiln_nvml *nvml, kiln_strbuf *out) {
    char version[TEXT_BYTES] = "";
    if (!nvml->DriverVersion(version, sizeof version))
        kiln_strbuf_printf(out, "driver %s", version);
}

static void print_clock(const char *name, uint64_t now_khz, uint64_t max_khz, kiln_strbuf *out) {
    if (now_khz == 0) return;
    kiln_strbuf_printf(out, ", %s%llu", name, (unsigned long long)now_khz / 1000);
    if (max_khz) kiln_strbuf_printf(out, " of %llu", (unsigned long long)max_khz / 1000);
    kiln_strbuf_text(out, " MHz");
}

void kiln_nvml_print(const kiln_nvml *nvml, kiln_nvml_device device, kiln_strbuf *out) {
    const kiln_device_reading r = kiln_nvml_read(nvml, device);
    char uuid[TEXT_BYTES] = "";
    const bool is_known = !nvml->Uuid(device, uuid, sizeof uuid);
    kiln_strbuf_text(out, is_known ? uuid : "its identity is not known");
    print_clock("", r.clock_khz, r.clock_max_khz, out);
    print_clock("memory ", r.memory_clock_khz, r.memory_clock_max_khz, out);
    if (r.temperature_mc)
        kiln_strbuf_printf(out, ", %llu degrees", (unsigned long long)r.temperature_mc / 1000);
    if (r.power_mw) kiln_strbuf_printf(out, ", %.0f W", (double)r.power_mw / 1e3);
    if (r.memory_bytes)
        kiln_strbuf_printf(out, ", %.1f of %.1f GiB used", (double)r.memory_used_bytes / GIB,
                           (double)r.memory_bytes / GIB);
    if (r.throttle_bits) kiln_strbuf_printf(out, ", slowed down (0x%x)", r.throttle_bits);
}
