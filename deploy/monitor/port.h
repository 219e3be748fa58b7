/* What the monitor needs of a board: a C file like mps.c and a linker script like mps.ld.
 * Everything else is that of every Cortex-M with an MPU. Nothing here may use the floating-point
 * unit. */
#ifndef KILN_DEPLOY_MONITOR_PORT_H
#define KILN_DEPLOY_MONITOR_PORT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct kiln_port {
    const char *target, *board; /* base/target.h, and a name for people */
    /* For candidates: a power of two, aligned to its size, and no memory of the monitor's. */
    uint32_t memory_begin, memory_bytes;
    /* Where the monitor's code and constants lie, which candidates may read and call; as above. */
    uint32_t flash_begin, flash_bytes;
    uint32_t tick_hz;        /* of the processor's clock, which SysTick counts */
    uint32_t line_interrupt; /* of the line: a byte has come */
} kiln_port;

extern const kiln_port kiln_port_here;

/* Clocks, pins and the line, which interrupts when a byte has come. */
void kiln_port_start(void);
/* False: no byte has come. */
bool kiln_port_receive(uint8_t *out_byte);
/* Waits until there is room. */
void kiln_port_send(uint8_t byte);
/* Ends the interrupts of bytes that came before. False: one of them is still to be received, and
 * the next one may raise no interrupt. */
bool kiln_port_arm(void);

#endif
