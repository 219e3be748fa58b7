/* A network of `kiln compile --emit static-c` on a Cortex-M without an operating system: start-up
 * code, and its outputs as hexadecimal lines through semihosting (Arm's Semihosting specification,
 * sections 6.9 and 6.22). net.c is compiled beside it; net.h and data.h (inputs, outputs,
 * output_bytes) are included by the command that compiles this file, and made by
 * tests/unit/deploy/test_static_c.c. */
#include <stddef.h>
#include <stdint.h>

#define SYS_WRITE0 0x04
#define SYS_EXIT 0x18
#define APPLICATION_EXIT 0x20026 /* success */
#define RUN_TIME_ERROR 0x20023
#define STACK_TOP 0x20080000 /* cortex_m.ld */
/* Coprocessor access control: both halves of the floating-point unit, for everybody. */
#define CPACR (*(volatile uint32_t *)0xe000ed88)
#define CPACR_FPU (0xfu << 20)

void reset(void);
void fault(void);

static uint32_t semihost(uint32_t operation, uint32_t argument) {
    register uint32_t r0 __asm__("r0") = operation;
    register uint32_t r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

/* What compilers call on their own. */
void *memcpy(void *to, const void *from, size_t count) {
    for (size_t i = 0; i < count; i++) ((volatile char *)to)[i] = ((const char *)from)[i];
    return to;
}
void *memset(void *to, int value, size_t count) {
    for (size_t i = 0; i < count; i++) ((volatile char *)to)[i] = (char)value;
    return to;
}

/* Division of 64 bits, which the core has not: quotient in r0 and r1, remainder in r2 and r3
 * (Run-time ABI for the Arm Architecture, 4.3.1). */
uint64_t divide(uint64_t n, uint64_t d, uint64_t *remainder);
uint64_t divide(uint64_t n, uint64_t d, uint64_t *remainder) {
    uint64_t quotient = 0, rest = 0;
    for (int bit = 63; bit >= 0; bit--) {
        rest = rest << 1 | (n >> bit & 1);
        if (rest >= d) {
            rest -= d;
            quotient |= (uint64_t)1 << bit;
        }
    }
    *remainder = rest;
    return quotient;
}
__attribute__((naked)) void __aeabi_uldivmod(void);
void __aeabi_uldivmod(void) {
    __asm__("push {r11, lr}\n"
            "sub sp, #16\n"
            "add r12, sp, #8\n"
            "str r12, [sp]\n"
            "bl divide\n"
            "ldr r2, [sp, #8]\n"
            "ldr r3, [sp, #12]\n"
            "add sp, #16\n"
            "pop {r11, pc}");
}

static void print_hex(const unsigned char *data, uint32_t count) {
    static const char digit[] = "0123456789abcdef";
    static char text[3];
    for (uint32_t i = 0; i < count; i++) {
        text[0] = digit[data[i] >> 4];
        text[1] = digit[data[i] & 15];
        semihost(SYS_WRITE0, (uint32_t)text);
    }
    semihost(SYS_WRITE0, (uint32_t)"\n");
}

__attribute__((noreturn)) static void end(uint32_t reason) {
    for (;;) semihost(SYS_EXIT, reason);
}

void fault(void) { end(RUN_TIME_ERROR); }

/* Twice: what a run leaves in static buffers must not matter to the next. */
void reset(void) {
    CPACR |= CPACR_FPU;
    __asm__ volatile("dsb\n\tisb" ::: "memory");
    for (int round = 0; round < 2; round++)
        if (net_run(inputs, outputs) != 0) end(RUN_TIME_ERROR);
    for (uint32_t i = 0; i < net_output_count; i++) print_hex(outputs[i], output_bytes[i]);
    end(APPLICATION_EXIT);
}

__attribute__((section(".vectors"), used)) static const uintptr_t vectors[16] = {
    STACK_TOP,        (uintptr_t)reset, (uintptr_t)fault, (uintptr_t)fault,
    (uintptr_t)fault, (uintptr_t)fault, (uintptr_t)fault};
