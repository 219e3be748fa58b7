/* The board-specific part of the monitor: a C file like mps.c and a linker script like mps.ld. All
 * other code runs on every Cortex-M with an MPU. These functions may not use the floating-point
 * unit. */
#ifndef KILN_DEPLOY_MONITOR_PORT_H
#define KILN_DEPLOY_MONITOR_PORT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct kiln_port {
    const char *target, *board; /* base/target.h, and a name for people */
    /* For candidates: a power of two, aligned to its size, not used by the monitor. */
    uint32_t memory_begin, memory_bytes;
    /* Where the monitor's code and constants lie, which candidates may read and call; as above. */
    uint32_t flash_begin, flash_bytes;
    uint32_t tick_hz;        /* of the processor's clock, which SysTick counts */
    uint32_t line_interrupt; /* of the line: a byte has come */
} kiln_port;

extern const kiln_port kiln_port_here;

/* Starts clocks, pins and the line, which interrupts when a byte has come. */
void kiln_port_start(void);
/* False: no byte has come. */
bool kiln_port_receive(uint8_t *out_byte);
/* Waits until there is room. */
void kiln_port_send(uint8_t byte);
/* Clears the interrupts of earlier bytes. False: one of these bytes is not received yet, and the
 * next one may raise no interrupt. */
bool kiln_port_arm(void);

#endif
