/* Running artefacts on devices with memory of their own, as support.h does on this machine. */
#ifndef KILN_TESTS_UNIT_COMPILER_CORE_CODEGEN_DEVICE_BOARD_H
#define KILN_TESTS_UNIT_COMPILER_CORE_CODEGEN_DEVICE_BOARD_H

#include "deploy/runtime/device.h"
#include "tests/unit/compiler-core/codegen/support.h"

/* An artefact_runner whose context is an open kiln_device. */
kiln_status run_on_device(void *device, const kiln_artefact *artefact, const kiln_program *te,
                          const kiln_tensor *args, uint32_t workers);

/* The same on the null device. What a run cost by its clock is added to the uint64_t that `context`
 * points to; NULL: nobody asks. */
kiln_status run_on_null(void *context, const kiln_artefact *artefact, const kiln_program *te,
                        const kiln_tensor *args, uint32_t workers);

/* The same from a scheduled program on, on a device whose groups may be as large as any: a
 * schedule_fuzz_device. */
kiln_status build_and_run_on_null(const kiln_program *te, const kiln_program *scheduled,
                                  const kiln_tensor *args);

/* The first OpenCL device, opened once in a program, with a cache of its driver's in a folder of
 * the program's own. NOT_FOUND names the packages that are missing. A driver may not survive a
 * second device in one process, so it stays open until opencl_board_close. */
kiln_status opencl_board_open(kiln_device **out_device);
void opencl_board_close(void);

/* As build_and_run_on_null, on that device: a schedule_fuzz_device. What `opencl_board_open` gives
 * fails it. */
kiln_status build_and_run_on_opencl(const kiln_program *te, const kiln_program *scheduled,
                                    const kiln_tensor *args);
/* The same within the limits of small GPUs: groups of 256 threads, 32 KiB. */
kiln_status build_and_run_on_small_opencl(const kiln_program *te, const kiln_program *scheduled,
                                          const kiln_tensor *args);

#endif
