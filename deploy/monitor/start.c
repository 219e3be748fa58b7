/* The vector table of the processor. The linker script defines the end of the stack. */
#include <stdint.h>

extern uint32_t kiln_stack_top;

void kiln_monitor_main(void);
void kiln_contain_done(void);
void kiln_contain_fault(void);
void kiln_contain_interrupt(void);
void kiln_contain_tick(void);

#define EIGHT(function) \
    function, function, function, function, function, function, function, function

/* Interrupts beyond these stay disabled. */
__attribute__((section(".vectors"), used)) static void (*const vectors[16 + 64])(void) = {
    (void (*)(void))(uintptr_t)&kiln_stack_top,
    kiln_monitor_main,
    kiln_contain_fault, /* faults that no handler below could take */
    kiln_contain_fault,
    kiln_contain_fault,
    kiln_contain_fault,
    kiln_contain_fault,
    kiln_contain_fault,
    0,
    0,
    0,
    kiln_contain_done, /* svc */
    kiln_contain_fault,
    0,
    kiln_contain_fault,
    kiln_contain_tick,
    EIGHT(kiln_contain_interrupt),
    EIGHT(kiln_contain_interrupt),
    EIGHT(kiln_contain_interrupt),
    EIGHT(kiln_contain_interrupt),
    EIGHT(kiln_contain_interrupt),
    EIGHT(kiln_contain_interrupt),
    EIGHT(kiln_contain_interrupt),
    EIGHT(kiln_contain_interrupt),
};
