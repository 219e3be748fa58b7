/* The FMA peak of one core: what share_of_peak divides by, and the roofline below which a time is a lie. */
#ifndef KILN_DEPLOY_PEAK_H
#define KILN_DEPLOY_PEAK_H

/* Float32 operations per second (a multiply-add counts two) of the calling thread's core, with the widest
 * vectors it has. Takes about a millisecond. 0 on processors that have no kernel here. */
double kiln_peak_flops(void);

#endif
