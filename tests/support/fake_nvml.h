/* A management library for GPUs that manages none: the functions of deploy/runtime/nvml.h, chosen
 * with KILN_NVML_LIBRARY, with values that a test sets. It knows the devices of
 * tests/support/fake_cuda.h by their places on the bus. What it finds wrong is in `complaints`.
 *
 * A test in the same process finds `fake_nvml_state` with dlsym. Other programs read their
 * environment: KILN_NVML_FAKE_REASONS=HEX are the reasons why clocks are low,
 * KILN_NVML_FAKE_CELSIUS the temperature; KILN_NVML_FAKE_FAIL=SYMBOL:CODE is what a function
 * returns. */
#ifndef KILN_TESTS_SUPPORT_FAKE_NVML_H
#define KILN_TESTS_SUPPORT_FAKE_NVML_H

#define FAKE_NVML_DEVICES 4

typedef struct fake_nvml {
    const char *driver;
    unsigned clock_mhz, clock_max_mhz, memory_mhz, memory_max_mhz, celsius, milliwatts;
    unsigned long long used_bytes, all_bytes, reasons;
    const char *fail_symbol; /* every call of this function returns `fail_code` */
    int fail_code;
    int starts; /* that were not ended */
    int asked;  /* the device that was read last */
    int complaints;
} fake_nvml;

#endif
