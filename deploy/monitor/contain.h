/* Calls untrusted code on a Cortex-M: without privileges, on its own stack. The memory protection
 * unit allows access only to the memory for candidates and to the monitor's constants and code. The
 * call ends when the code returns, when the processor raises a fault, or when a byte comes over the
 * line. */
#ifndef KILN_DEPLOY_MONITOR_CONTAIN_H
#define KILN_DEPLOY_MONITOR_CONTAIN_H

#include <stdint.h>

#include "base/kernel_abi.h"
#include "deploy/monitor/frames.h"

/* Once, before the first call: coprocessors, faults, the MPU. */
void kiln_contain_start(void);
/* `stack_top`: aligned to 8, in the memory for candidates. */
kiln_frame_call_answer kiln_contain_call(kiln_kernel_entry entry, kiln_kernel_tensor *const *args,
                                         const kiln_kernel_services *services, uint32_t stack_top);

#endif
