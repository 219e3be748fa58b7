#include "tests/support/fake_nvml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "deploy/runtime/nvml.h"

fake_nvml fake_nvml_state = {
    .driver = "550.54.15",
    .clock_mhz = 1830,
    .clock_max_mhz = 1980,
    .memory_mhz = 3201,
    .memory_max_mhz = 3202,
    .celsius = 41,
    .milliwatts = 74500,
    .used_bytes = 512ull << 20,
    .all_bytes = 143771ull << 20,
};

#define S fake_nvml_state

static char device[FAKE_NVML_DEVICES]; /* their addresses are their handles */

static int complain(const char *symbol, const char *what) {
    S.complaints++;
    fprintf(stderr, "fake NVML: %s: %s\n", symbol, what);
    return 2; /* INVALID_ARGUMENT */
}

static int begin(const char *symbol) {
    if (S.fail_symbol && strcmp(S.fail_symbol, symbol) == 0) return S.fail_code;
    return S.starts > 0 ? 0 : complain(symbol, "called before nvmlInit_v2");
}

static int begin_with(const char *symbol, kiln_nvml_device handle) {
    const int code = begin(symbol);
    if (code) return code;
    S.asked = -1;
    for (int i = 0; i < FAKE_NVML_DEVICES; i++)
        if ((char *)handle == &device[i]) S.asked = i;
    return S.asked >= 0 ? 0 : complain(symbol, "no device");
}

static int put(int code, unsigned value, unsigned *out) {
    if (!code) *out = value;
    return code;
}

/* The functions; each is declared by its first line, as the library's header would. */
#define EXPORT(symbol, ...)  \
    int symbol(__VA_ARGS__); \
    int symbol(__VA_ARGS__)

EXPORT(nvmlInit_v2, void) {
    S.starts++;
    const int code = begin("nvmlInit_v2");
    if (code) S.starts--;
    return code;
}

EXPORT(nvmlShutdown, void) {
    const int code = begin("nvmlShutdown");
    S.starts -= !code;
    return code;
}

EXPORT(nvmlSystemGetDriverVersion, char *out, unsigned out_bytes) {
    const int code = begin("nvmlSystemGetDriverVersion");
    if (!code) (void)snprintf(out, out_bytes, "%s", S.driver);
    return code;
}

EXPORT(nvmlDeviceGetHandleByPciBusId_v2, const char *place, kiln_nvml_device *out) {
    const int code = begin("nvmlDeviceGetHandleByPciBusId_v2");
    unsigned bus = 0;
    if (code) return code;
    if (sscanf(place, "0000:%x:00.0", &bus) != 1 || bus < 1 || bus > FAKE_NVML_DEVICES)
        return 6; /* NOT_FOUND */
    *out = (kiln_nvml_device)&device[bus - 1];
    return 0;
}

EXPORT(nvmlDeviceGetUUID, kiln_nvml_device handle, char *out, unsigned out_bytes) {
    const int code = begin_with("nvmlDeviceGetUUID", handle);
    if (!code) (void)snprintf(out, out_bytes, "GPU-5a5a5a5a-0000-0000-0000-00000000000%d", S.asked);
    return code;
}

EXPORT(nvmlDeviceGetClockInfo, kiln_nvml_device handle, int kind, unsigned *out) {
    return put(begin_with("nvmlDeviceGetClockInfo", handle),
               kind == KILN_NVML_CLOCK_SM ? S.clock_mhz : S.memory_mhz, out);
}

EXPORT(nvmlDeviceGetMaxClockInfo, kiln_nvml_device handle, int kind, unsigned *out) {
    return put(begin_with("nvmlDeviceGetMaxClockInfo", handle),
               kind == KILN_NVML_CLOCK_SM ? S.clock_max_mhz : S.memory_max_mhz, out);
}

EXPORT(nvmlDeviceGetTemperature, kiln_nvml_device handle, int sensor, unsigned *out) {
    if (sensor != KILN_NVML_TEMPERATURE_GPU)
        return complain("nvmlDeviceGetTemperature", "no sensor");
    return put(begin_with("nvmlDeviceGetTemperature", handle), S.celsius, out);
}

EXPORT(nvmlDeviceGetCurrentClocksThrottleReasons, kiln_nvml_device handle,
       unsigned long long *out) {
    const int code = begin_with("nvmlDeviceGetCurrentClocksThrottleReasons", handle);
    if (!code) *out = S.reasons;
    return code;
}

EXPORT(nvmlDeviceGetPowerUsage, kiln_nvml_device handle, unsigned *out) {
    return put(begin_with("nvmlDeviceGetPowerUsage", handle), S.milliwatts, out);
}

EXPORT(nvmlDeviceGetMemoryInfo, kiln_nvml_device handle, kiln_nvml_memory *out) {
    const int code = begin_with("nvmlDeviceGetMemoryInfo", handle);
    if (!code)
        *out = (kiln_nvml_memory){
            .total = S.all_bytes, .free = S.all_bytes - S.used_bytes, .used = S.used_bytes};
    return code;
}

/* Programs that no test looks into are told by their environment. */
__attribute__((constructor)) static void read_environment(void) {
    const char *fail = getenv("KILN_NVML_FAKE_FAIL"), *reasons = getenv("KILN_NVML_FAKE_REASONS"),
               *celsius = getenv("KILN_NVML_FAKE_CELSIUS");
    static char symbol[64];
    if (fail && sscanf(fail, "%63[^:]:%d", symbol, &S.fail_code) == 2) S.fail_symbol = symbol;
    if (reasons) (void)sscanf(reasons, "%llx", &S.reasons);
    if (celsius) (void)sscanf(celsius, "%u", &S.celsius);
}
