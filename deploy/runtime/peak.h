/* The FMA peak of one core: the divisor of share_of_peak, and the roofline below which a time must
 * be wrong. */
#ifndef KILN_DEPLOY_PEAK_H
#define KILN_DEPLOY_PEAK_H

#include <stddef.h>

/* Float32 operations per second (a multiply-add counts two) of the calling thread's core, with the
 * widest vectors it has (or may use: KILN_NATIVE, base/target.h). Takes a third of a millisecond. 0
 * on an ARM without NEON. */
double kiln_peak_flops(void);

/* Bytes per second that the calling thread's core reads from `data` repeatedly: the slope of the
 * roofline for the level of memory that holds so many bytes. Takes a few milliseconds, or eight
 * passes if that is longer. */
double kiln_peak_read(const void *data, size_t size_bytes);

#endif
