#include "deploy/runtime/services.h"

#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/dtype.h"
#include "base/integer.h"
#include "base/macros.h"

/* A half is passed in the low 16 bits of the first vector register, like a float's bits. */
static float in_low_half(uint32_t bits) {
    float carrier;
    memcpy(&carrier, &bits, sizeof carrier);
    return carrier;
}

static uint16_t low_half_of(float carrier) {
    uint32_t bits;
    memcpy(&bits, &carrier, sizeof bits);
    return (uint16_t)bits;
}

/* Rounds to odd, so that rounding again to fewer bits gives the result of a single rounding. */
static float odd_float(double value) {
    float near = (float)value;
    if (isfinite(value) && (double)near != value) {
        uint32_t bits;
        memcpy(&bits, &near, sizeof bits);
        if (fabs((double)near) > fabs(value)) bits--; /* towards zero; `near` is not zero here */
        bits |= 1;
        memcpy(&near, &bits, sizeof near);
    }
    return near;
}

static float extend_f16_to_f32(float carrier) { return kiln_f16_to_f32(low_half_of(carrier)); }
static double extend_f16_to_f64(float carrier) { return (double)extend_f16_to_f32(carrier); }
static float truncate_f32_to_f16(float value) { return in_low_half(kiln_f32_to_f16(value)); }
static float truncate_f64_to_f16(double value) { return truncate_f32_to_f16(odd_float(value)); }
static float truncate_f32_to_bf16(float value) { return in_low_half(kiln_f32_to_bf16(value)); }
static float truncate_f64_to_bf16(double value) { return truncate_f32_to_bf16(odd_float(value)); }

typedef void (*any_function)(void);

/* The compiler's conversions: their types do not exist in C11, and only their addresses matter.
 */
/* Functions of the runtime library: only their addresses matter, and they exist only on ARM. */
#if defined(__arm__)
#define ARM_ADDRESS(symbol) symbol
#define X(symbol)
#define ARM_HELPER(symbol) extern void symbol(void);
#define OWN(symbol, function)
#include "deploy/runtime/kernel_services.def"
#undef X
#undef ARM_HELPER
#undef OWN
#else
#define ARM_ADDRESS(symbol) NULL
#endif

static const struct {
    const char *symbol;
    any_function function;
    kiln_arch arch; /* only code for it may name the symbol; OTHER: all code */
} service_table[] = {
#define X(symbol) {#symbol, (any_function)symbol, KILN_ARCH_OTHER},
#define ARM_HELPER(symbol) {#symbol, ARM_ADDRESS(symbol), KILN_ARCH_ARM},
#define OWN(symbol, function) {#symbol, (any_function)function, KILN_ARCH_OTHER},
#include "deploy/runtime/kernel_services.def"
#undef X
#undef ARM_HELPER
#undef OWN
};

uint32_t kiln_service_count(void) { return (uint32_t)KILN_ARRAY_COUNT(service_table); }

uint32_t kiln_service_find(kiln_arch arch, kiln_str symbol) {
    for (uint32_t i = 0; i < kiln_service_count(); i++) {
        const kiln_arch of = service_table[i].arch;
        bool named =
            of == KILN_ARCH_OTHER || of == arch || (of == KILN_ARCH_ARM && arch == KILN_ARCH_THUMB);
        if (named && kiln_str_is(symbol, service_table[i].symbol)) return i;
    }
    return KILN_SERVICE_NONE;
}

const char *kiln_service_name(uint32_t service) {
    KILN_CHECK(service < kiln_service_count());
    return service_table[service].symbol;
}

uintptr_t kiln_service_address(uint32_t service) {
    KILN_CHECK(service < kiln_service_count());
    return (uintptr_t)service_table[service].function;
}

size_t kiln_services_scratch_bytes(const kiln_manifest *manifest, uint32_t worker_count) {
    return (size_t)KILN_ALIGN_UP(manifest->scratch_bytes, KILN_KERNEL_ALIGNMENT) +
           worker_count *
               (size_t)KILN_ALIGN_UP(manifest->scratch_worker_bytes, KILN_KERNEL_ALIGNMENT);
}

/* parallel_for of the ABI; `host` is the kiln_services. */
static int32_t run_parallel(void *host, int64_t count, kiln_kernel_body body, void *context) {
    kiln_services *services = host;
    if (services->pool)
        return kiln_pool_run(services->pool, services->table.worker_count, count, body, context);
    return count > 0 ? body(context, 0, count, 0) : KILN_KERNEL_OK;
}

void kiln_services_init(kiln_services *services, kiln_pool *pool, uint32_t worker_count,
                        void *scratch) {
    KILN_CHECK(worker_count >= 1);
    KILN_CHECK(worker_count <= (pool ? kiln_pool_worker_count(pool) : 1));
    KILN_CHECK((uintptr_t)scratch % KILN_KERNEL_ALIGNMENT == 0);
    services->pool = pool;
    services->table = (kiln_kernel_services){
        .version = KILN_KERNEL_ABI_VERSION,
        .worker_count = worker_count,
        .host = services,
        .parallel_for = run_parallel,
        .scratch = scratch,
    };
}
