#include "rpc-server/executor.h"

#include "base/check.h"
#include "base/kernel_abi.h"
#include "base/layout.h"

#define X(name, code, lifetime, sandbox, exact, doc) \
    extern const kiln_executor_vtable kiln_executor_##code;
#include "rpc-server/executors.def"
#undef X

#define FULL(name) NULL
#define DRIVER(name) &kiln_driver_##name

static const kiln_executor executor_table[] = {
#define X(name, code, lifetime, sandbox, exact, doc) \
    {#name, doc, KILN_LIFETIME_##lifetime, sandbox(name), exact, &kiln_executor_##code},
#include "rpc-server/executors.def"
#undef X
};

/* [kiln_target_kind] a row of executor_table, or "none". */
static const char *const kind_executor[] = {
#define X(NAME, name, rules, lowering, features, PAYLOAD, executor, doc) \
    [KILN_TARGET_##NAME] = #executor,
#include "base/target_kinds.def"
#undef X
};

uint32_t kiln_executor_count(void) { return KILN_ARRAY_COUNT(executor_table); }

const kiln_executor *kiln_executor_at(uint32_t index) {
    KILN_CHECK(index < kiln_executor_count());
    return &executor_table[index];
}

const kiln_executor *kiln_executor_find(kiln_str name) {
    for (uint32_t i = 0; i < kiln_executor_count(); i++)
        if (kiln_str_is(name, executor_table[i].name)) return &executor_table[i];
    return NULL;
}

const kiln_executor *kiln_executor_for(kiln_payload_kind payload) {
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(kind_executor); i++)
        if (kiln_payload_of((kiln_target_kind)i) == payload)
            return kiln_executor_find(kiln_str_from(kind_executor[i]));
    return NULL;
}

bool kiln_executor_is_of_kind(const kiln_executor *executor) {
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(kind_executor); i++)
        if (kiln_executor_find(kiln_str_from(kind_executor[i])) == executor) return true;
    return false;
}

uint64_t kiln_executor_arg_bytes(const kiln_manifest_arg *arg) {
    kiln_shape physical = kiln_layout_physical(&arg->layout, &arg->shape);
    return (uint64_t)kiln_shape_count(&physical) * kiln_dtype_size(arg->dtype);
}

uint64_t kiln_executor_output_bytes(const kiln_manifest *manifest) {
    uint64_t total = 0;
    for (uint32_t i = 0; i < manifest->arg_count; i++) {
        if (manifest->arg[i].role != KILN_ROLE_OUTPUT) continue;
        uint64_t bytes = kiln_executor_arg_bytes(&manifest->arg[i]);
        total +=
            (bytes + KILN_KERNEL_ALIGNMENT - 1) / KILN_KERNEL_ALIGNMENT * KILN_KERNEL_ALIGNMENT;
    }
    return total;
}
