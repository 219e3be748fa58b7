/* Registers: Arm v7-M Architecture Reference Manual, B3.2 (system control), B3.3 (SysTick), B3.5
 * (MPU); Arm v8-M, D1.2. The monitor's loop runs privileged on the main stack with interrupts
 * masked; a candidate in thread mode without privileges on the process stack, with interrupts.
 * Every exception except SysTick, which counts, ends the candidate: the handler drops the
 * candidate's state and returns into kiln_contain_call. */
#include "deploy/monitor/contain.h"

#include "deploy/monitor/port.h"

#define REGISTER(address) (*(volatile uint32_t *)(address))
#define SYSTICK_CONTROL REGISTER(0xe000e010)
#define SYSTICK_RELOAD REGISTER(0xe000e014)
#define SYSTICK_VALUE REGISTER(0xe000e018)
#define SYSTICK_MAX 0x00ffffffu
#define INTERRUPT_ENABLE(n) REGISTER(0xe000e100 + 4 * ((n) / 32))
#define INTERRUPT_FORGET(n) REGISTER(0xe000e280 + 4 * ((n) / 32))
#define ICSR REGISTER(0xe000ed04)
#define ICSR_SYSTICK_FORGET (1u << 25)
#define ICSR_SYSTICK_PENDING (1u << 26)
#define SHCSR REGISTER(0xe000ed24)
#define SHCSR_FAULTS (7u << 16) /* memory, bus and usage faults have their own handlers */
#define CFSR REGISTER(0xe000ed28)
#define CPACR REGISTER(0xe000ed88)
#define CPACR_FPU (0xfu << 20)
#define MPU_CONTROL REGISTER(0xe000ed94)
#define MPU_NUMBER REGISTER(0xe000ed98)
#define MPU_BASE REGISTER(0xe000ed9c)
#define MPU_SIZE REGISTER(0xe000eda0)
#define MPU_MEMORY REGISTER(0xe000edc0)
#define MPU_ON 5u /* and the monitor sees everything */
#define FPCCR REGISTER(0xe000ef34)
#define FPCCR_SAVES (3u << 30) /* exceptions push registers of the floating-point unit */

/* Used by the handlers in assembly. */
uint32_t kiln_contain_sp, kiln_contain_wraps;

void kiln_contain_done(void);
void kiln_contain_fault(void);
void kiln_contain_interrupt(void);
void kiln_contain_tick(void);
uint32_t kiln_contain_enter(kiln_kernel_entry entry, kiln_kernel_tensor *const *args,
                            const kiln_kernel_services *services, uint32_t stack_top,
                            int32_t *out_result);

/* Code and data that both may be read and run; written where `writable`. */
static void show(uint32_t number, uint32_t begin, uint32_t bytes, uint32_t writable) {
    MPU_NUMBER = number;
#if __ARM_ARCH >= 8
    MPU_BASE = begin | (writable ? 1u : 3u) << 1;
    MPU_SIZE = (begin + bytes - 32) | 1;
#else
    MPU_BASE = begin;
    MPU_SIZE =
        (writable ? 3u : 6u) << 24 | 1u << 17 | (uint32_t)(30 - __builtin_clz(bytes)) << 1 | 1;
#endif
}

void kiln_contain_start(void) {
    CPACR |= CPACR_FPU;
    SHCSR |= SHCSR_FAULTS;
    __asm__ volatile("dsb\n\tisb" ::: "memory");
    FPCCR &= ~FPCCR_SAVES;
#if __ARM_ARCH >= 8
    MPU_MEMORY = 0xff; /* attributes 0: write-back */
#endif
    const kiln_port *p = &kiln_port_here;
    show(0, p->flash_begin, p->flash_bytes, 0);
    show(1, p->memory_begin, p->memory_bytes, 1);
    MPU_CONTROL = MPU_ON;
    INTERRUPT_ENABLE(p->line_interrupt) = 1u << p->line_interrupt % 32;
    __asm__ volatile("dsb\n\tisb" ::: "memory");
}

/* r0 to r3 and a pointer on the stack. The last five instructions run without privileges. */
__attribute__((naked)) uint32_t kiln_contain_enter(kiln_kernel_entry entry,
                                                   kiln_kernel_tensor *const *args,
                                                   const kiln_kernel_services *services,
                                                   uint32_t stack_top, int32_t *out_result) {
    __asm__("push {r3-r11, lr}\n"
            "ldr r12, =kiln_contain_sp\n"
            "str sp, [r12]\n"
            "msr psp, r3\n"
            "mov r4, r0\n"
            "mov r0, r1\n"
            "mov r1, r2\n"
            "mov r2, #3\n"
            "cpsie i\n"
            "msr control, r2\n"
            "isb\n"
            "blx r4\n"
            "mov r4, r0\n"
            "svc #0\n"
            ".ltorg");
}

/* Resets FPSCR (rounding; the number of MVE lanes: the monitor's loops fail with fewer than all)
 * and VPR (the lanes that are skipped), which the candidate may have changed. */
#define FORGET_FPSCR "ldr r2, =0xe000ef3c\nldr r2, [r2]\n.inst.w 0xeee12a10\n" /* FPDSCR; vmsr */
#ifdef __ARM_ARCH_8_1M_MAIN__
#define FORGET_VPR "mov r2, #0\n.inst.w 0xeeec2a10\n" /* vmsr vpr, r2 */
#else
#define FORGET_VPR
#endif

/* Ends the candidate with the kiln_frame_status in r0: pushes the frame of an exception in
 * kiln_contain_leave on the main stack. r4: the entry's result, for kiln_contain_done. */
__attribute__((naked, used)) static void finish(void) {
    __asm__("cpsid i\n" FORGET_FPSCR FORGET_VPR "mov r1, #0\n"
            "msr control, r1\n"
            "isb\n"
            "ldr r2, =kiln_contain_sp\n"
            "ldr r2, [r2]\n"
            "sub r2, #32\n"
            "str r0, [r2]\n"
            "str r4, [r2, #4]\n"
            "ldr r3, =kiln_contain_leave\n"
            "bic r3, #1\n"
            "str r3, [r2, #24]\n"
            "mov r3, #0x01000000\n"
            "str r3, [r2, #28]\n"
            "msr msp, r2\n"
            "ldr lr, =0xfffffff9\n"
            "bx lr\n"
            ".ltorg\n"
            ".thumb_func\n"
            "kiln_contain_leave:\n"
            "ldr r2, [sp, #40]\n"
            "str r1, [r2]\n"
            "pop {r3-r11, pc}");
}

__attribute__((naked)) void kiln_contain_done(void) {
    __asm__("mov r0, %0\n"
            "b finish" ::"i"(KILN_FRAME_OK));
}
__attribute__((naked)) void kiln_contain_fault(void) {
    __asm__("mov r0, %0\n"
            "mov r4, #0\n"
            "b finish" ::"i"(KILN_FRAME_FAULT));
}
__attribute__((naked)) void kiln_contain_interrupt(void) {
    __asm__("mov r0, %0\n"
            "mov r4, #0\n"
            "b finish" ::"i"(KILN_FRAME_STOPPED));
}

void kiln_contain_tick(void) { kiln_contain_wraps++; }

/* The address of the instruction that was refused: 24 bytes behind the candidate's stack pointer,
 * where the processor pushed its state. */
static uint32_t find_fault(void) {
    uint32_t psp;
    __asm__("mrs %0, psp" : "=r"(psp));
    const kiln_port *p = &kiln_port_here;
    const uint32_t at = psp + 24;
    if (psp < p->memory_begin || at - p->memory_begin > p->memory_bytes - 4 || at % 4 != 0)
        return 0;
    return REGISTER(at);
}

kiln_frame_call_answer kiln_contain_call(kiln_kernel_entry entry, kiln_kernel_tensor *const *args,
                                         const kiln_kernel_services *services, uint32_t stack_top) {
    const uint32_t line = kiln_port_here.line_interrupt;
    kiln_frame_call_answer answer = {0};
    answer.status = KILN_FRAME_STOPPED;
    (void)kiln_port_arm(); /* clears earlier interrupts; a byte from here on ends the call */
    INTERRUPT_FORGET(line) = 1u << line % 32;
    if (!kiln_port_arm()) return answer;
    kiln_contain_wraps = 0;
    SYSTICK_RELOAD = SYSTICK_MAX;
    SYSTICK_VALUE = 0;
    SYSTICK_CONTROL = 7; /* on, with the interrupt, by the processor's clock */
    answer.status = kiln_contain_enter(entry, args, services, stack_top, &answer.result);
    const uint32_t left = SYSTICK_VALUE;
    const uint32_t wrapped = ICSR & ICSR_SYSTICK_PENDING && left > SYSTICK_MAX / 2;
    SYSTICK_CONTROL = 0;
    ICSR = ICSR_SYSTICK_FORGET;
    answer.ticks = (uint64_t)(kiln_contain_wraps + wrapped) << 24 | (SYSTICK_MAX - left);
    if (answer.status == KILN_FRAME_FAULT) {
        answer.fault_status = CFSR;
        answer.fault_address = find_fault();
        CFSR = answer.fault_status; /* written bits are cleared */
    }
    return answer;
}
