/* The MPS2 and MPS3 boards of Arm with a Cortex-M, as qemu-system-arm emulates them, and the
 * template for other boards. Their serial line is a UART of the Cortex-M System Design Kit (its
 * Technical Reference Manual, 4.3); addresses, interrupts and clocks: Application Notes AN386
 * (Cortex-M4), AN500 (Cortex-M7) and AN547 (Cortex-M55, which stays in the secure state).
 *
 * Built with TARGET (base/target.h; the emulator's say `emulated`), BOARD, MEMORY_BEGIN, TICK_HZ,
 * UART_BEGIN and LINE_INTERRUPT. */
#include "deploy/monitor/contain.h"
#include "deploy/monitor/port.h"

#define UART(offset) (*(volatile uint32_t *)(UART_BEGIN + (offset)))
#define UART_DATA UART(0x0)
#define UART_STATE UART(0x4)
#define UART_CONTROL UART(0x8)
#define UART_INTERRUPT UART(0xc)
#define UART_DIVISOR UART(0x10)
#define STATE_SEND_FULL 1u
#define STATE_RECEIVED 2u
#define CONTROL_ON 0xbu /* sends, receives, interrupts for what it receives */
#define INTERRUPT_RECEIVED 2u
#define UART_HZ 25000000u
#define BAUD 115200u

const kiln_port kiln_port_here = {.target = TARGET,
                                  .board = BOARD,
                                  .memory_begin = MEMORY_BEGIN,
                                  .memory_bytes = 16u << 20,
                                  .flash_begin = 0,
                                  .flash_bytes = 512u << 10,
                                  .tick_hz = TICK_HZ,
                                  .line_interrupt = LINE_INTERRUPT};

void kiln_port_start(void) {
    UART_DIVISOR = UART_HZ / BAUD;
    UART_CONTROL = CONTROL_ON;
}

bool kiln_port_arm(void) {
    UART_INTERRUPT = INTERRUPT_RECEIVED;
    return !(UART_STATE & STATE_RECEIVED);
}

bool kiln_port_receive(uint8_t *out_byte) {
    if (kiln_port_arm()) return false;
    *out_byte = (uint8_t)UART_DATA;
    return true;
}

void kiln_port_send(uint8_t byte) {
    while (UART_STATE & STATE_SEND_FULL) {}
    UART_DATA = byte;
}
