/* NVIDIA's management library: readings of a device's clocks, heat, power and memory. It is loaded
 * when a device is listed or opened, like drivers (driver.h), and is optional. Used by
 * device_cuda.c.
 *
 * Types, constants and functions have the names of NVIDIA's header with Kiln's prefix, so that
 * building needs no package. Source: NVML API Reference Guide, version 12; all of it exists since
 * 11.0. */
#ifndef KILN_DEPLOY_NVML_H
#define KILN_DEPLOY_NVML_H

#include "base/status.h"
#include "base/str.h"
#include "deploy/runtime/device.h"

typedef struct kiln_nvml_device *kiln_nvml_device;

typedef struct kiln_nvml_memory {
    unsigned long long total, free, used; /* bytes */
} kiln_nvml_memory;

enum {
    KILN_NVML_SUCCESS = 0,
    KILN_NVML_CLOCK_SM = 1,
    KILN_NVML_CLOCK_MEMORY = 2,
    KILN_NVML_TEMPERATURE_GPU = 0
};

/* Reasons why a device's clock is lower than it could be: NVML_CLOCKS_THROTTLE_REASON_*. */
enum {
    KILN_NVML_REASON_POWER_CAP = 0x04, /* the work itself draws the maximum power */
    KILN_NVML_REASON_HARDWARE = 0x08,
    KILN_NVML_REASON_THERMAL = 0x20,
    KILN_NVML_REASON_HARDWARE_THERMAL = 0x40,
    KILN_NVML_REASON_POWER_BRAKE = 0x80
};

/* X(name, symbol, parameters); every one returns an nvmlReturn_t, an int. */
#define KILN_NVML_FUNCTIONS(X)                                                            \
    X(Init, "nvmlInit_v2", (void))                                                        \
    X(Shutdown, "nvmlShutdown", (void))                                                   \
    X(DriverVersion, "nvmlSystemGetDriverVersion", (char *, unsigned))                    \
    X(ByPciBusId, "nvmlDeviceGetHandleByPciBusId_v2", (const char *, kiln_nvml_device *)) \
    X(Uuid, "nvmlDeviceGetUUID", (kiln_nvml_device, char *, unsigned))                    \
    X(Clock, "nvmlDeviceGetClockInfo", (kiln_nvml_device, int, unsigned *))               \
    X(ClockMax, "nvmlDeviceGetMaxClockInfo", (kiln_nvml_device, int, unsigned *))         \
    X(Temperature, "nvmlDeviceGetTemperature", (kiln_nvml_device, int, unsigned *))       \
    X(Reasons, "nvmlDeviceGetCurrentClocksThrottleReasons",                               \
      (kiln_nvml_device, unsigned long long *))                                           \
    X(Power, "nvmlDeviceGetPowerUsage", (kiln_nvml_device, unsigned *))                   \
    X(Memory, "nvmlDeviceGetMemoryInfo", (kiln_nvml_device, kiln_nvml_memory *))

/* The functions by shorter names. */
typedef struct kiln_nvml {
#define X(name, symbol, parameters) int(*name) parameters;
    KILN_NVML_FUNCTIONS(X)
#undef X
} kiln_nvml;

/* Loads and starts it. Close each start once. Errors of kiln_driver_load, UNAVAILABLE: it does
 * not start. */
KILN_MUST_USE kiln_status kiln_nvml_open(kiln_nvml *nvml);
void kiln_nvml_close(const kiln_nvml *nvml);

/* The device at that PCI address, in the driver's form. UNAVAILABLE: the library does not show
 * it. */
KILN_MUST_USE kiln_status kiln_nvml_find(const kiln_nvml *nvml, const char *pci_bus_id,
                                         kiln_nvml_device *out_device);
/* Readings that the library lacks stay 0. */
kiln_device_reading kiln_nvml_read(const kiln_nvml *nvml, kiln_nvml_device device);
/* "driver 550.54.15", empty when unknown. */
void kiln_nvml_print_version(const kiln_nvml *nvml, kiln_strbuf *out);
/* The current readings for people: "GPU-5a.., 1980 of 1980 MHz, memory 3201 of 3201 MHz, 31
 * degrees, 74 W, 0.5 of 140.4 GiB used". */
void kiln_nvml_print(const kiln_nvml *nvml, kiln_nvml_device device, kiln_strbuf *out);

#endif
