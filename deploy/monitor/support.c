#include "deploy/monitor/support.h"

void *memcpy(void *to, const void *from, size_t count) {
    size_t i = 0;
    if (((uintptr_t)to | (uintptr_t)from) % 4 == 0)
        for (; i + 4 <= count; i += 4)
            *(volatile uint32_t *)((char *)to + i) = *(const uint32_t *)((const char *)from + i);
    for (; i < count; i++) ((volatile char *)to)[i] = ((const char *)from)[i];
    return to;
}

void *memmove(void *to, const void *from, size_t count) {
    if ((uintptr_t)to <= (uintptr_t)from) return memcpy(to, from, count);
    for (size_t i = count; i-- > 0;) ((volatile char *)to)[i] = ((const char *)from)[i];
    return to;
}

void *memset(void *to, int value, size_t count) {
    for (size_t i = 0; i < count; i++) ((volatile char *)to)[i] = (char)value;
    return to;
}

/* Run-time ABI for the Arm Architecture, 4.3.4: size before value. */
void __aeabi_memset(void *to, size_t count, int value);
void __aeabi_memclr(void *to, size_t count);
void __aeabi_memset(void *to, size_t count, int value) { memset(to, value, count); }
void __aeabi_memclr(void *to, size_t count) { memset(to, 0, count); }

/* Division of 64 bits, which the processor lacks: the quotient in r0 and r1, the remainder in r2
 * and r3 (4.3.1). */
uint64_t kiln_support_divide(uint64_t n, uint64_t d, uint64_t *remainder);
uint64_t kiln_support_divide(uint64_t n, uint64_t d, uint64_t *remainder) {
    uint64_t quotient = 0, rest = 0;
    for (int bit = 63; bit >= 0; bit--) {
        rest = rest << 1 | (n >> bit & 1);
        if (rest < d) continue;
        rest -= d;
        quotient |= (uint64_t)1 << bit;
    }
    *remainder = rest;
    return quotient;
}

int64_t kiln_support_divide_signed(int64_t n, int64_t d, int64_t *remainder);
int64_t kiln_support_divide_signed(int64_t n, int64_t d, int64_t *remainder) {
    uint64_t rest;
    const uint64_t size = n < 0 ? -(uint64_t)n : (uint64_t)n,
                   by = d < 0 ? -(uint64_t)d : (uint64_t)d;
    const uint64_t quotient = kiln_support_divide(size, by, &rest);
    *remainder = n < 0 ? -(int64_t)rest : (int64_t)rest;
    return (n < 0) != (d < 0) ? -(int64_t)quotient : (int64_t)quotient;
}

#define DIVISION(name, function)             \
    __attribute__((naked)) void name(void);  \
    __attribute__((naked)) void name(void) { \
        __asm__("push {r11, lr}\n"           \
                "sub sp, #16\n"              \
                "add r12, sp, #8\n"          \
                "str r12, [sp]\n"            \
                "bl " #function "\n"         \
                "ldr r2, [sp, #8]\n"         \
                "ldr r3, [sp, #12]\n"        \
                "add sp, #16\n"              \
                "pop {r11, pc}");            \
    }
DIVISION(__aeabi_uldivmod, kiln_support_divide)
DIVISION(__aeabi_ldivmod, kiln_support_divide_signed)

int32_t kiln_support_parallel_for(void *host, int64_t count, kiln_kernel_body body, void *context) {
    (void)host;
    return count > 0 ? body(context, 0, count, 0) : KILN_KERNEL_OK;
}

typedef void (*any_function)(void);

static const struct {
    const char *name;
    any_function function;
} functions[] = {
#define X(name, function) {#name, (any_function)function},
#include "deploy/monitor/support.def"
#undef X
};

uint32_t kiln_support_find(const char *name, uint32_t size) {
    for (uint32_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        const char *own = functions[i].name;
        uint32_t at = 0;
        while (at < size && own[at] && own[at] == name[at]) at++;
        if (at == size && !own[at]) return (uint32_t)(uintptr_t)functions[i].function;
    }
    return 0;
}
