/* The only source of time. Real time is CLOCK_BOOTTIME (monotonic, counts suspend); wall time is
 * for people and records only and is never compared. The simulator passes its own virtual time into
 * the step functions, which take `now_ns` and never read a clock. */
#ifndef KILN_BASE_CLOCK_H
#define KILN_BASE_CLOCK_H

#include <stdint.h>

#define KILN_NS_PER_US UINT64_C(1000)
#define KILN_NS_PER_MS UINT64_C(1000000)
#define KILN_NS_PER_S UINT64_C(1000000000)

uint64_t kiln_clock_ns(void);                     /* monotonic */
uint64_t kiln_clock_precise_ns(void);             /* CLOCK_MONOTONIC_RAW, for timing kernels */
uint64_t kiln_clock_thread_ns(void);              /* CPU time of the calling thread */
uint64_t kiln_clock_process_ns(void);             /* CPU time of all threads of the process */
uint64_t kiln_clock_wall_ns(void);                /* since 1970, for records */
void kiln_clock_wait_until(uint64_t deadline_ns); /* absolute, of kiln_clock_ns; not for tests */

#endif
