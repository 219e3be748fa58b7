/* A candidate whose answer is wrong in one of many ways. Which, and where, stands in `mutation`:
 * tests overwrite those bytes of the object, so that each is a kernel of its own. Arguments as in
 * candidate.c. */
#include "base/kernel_abi.h"
#include "tests/unit/rpc-server/mutations.h"

int32_t kiln_prepare(kiln_kernel_tensor *const *args, const kiln_kernel_services *services);
int32_t kiln_run(kiln_kernel_tensor *const *args, const kiln_kernel_services *services);

typedef struct choice {
    char magic[8];
    uint32_t kind, at;
} choice;

static const choice mutation = {MUTATION_MAGIC, MUTATION_NONE, 0};

int32_t kiln_prepare(kiln_kernel_tensor *const *args, const kiln_kernel_services *services) {
    const float *w = args[1]->data;
    float *p = args[3]->data;
    (void)services;
    for (int64_t i = 0; i < args[1]->shape[0]; i++) p[i] = 2 * w[i];
    return 0;
}

static void spoil(uint32_t kind, int64_t at, int64_t count, const float *x, const float *p,
                  float *y) {
    const int64_t end = at + MUTATION_ROW < count ? at + MUTATION_ROW : count;
    switch (kind) {
    case MUTATION_ELEMENT: y[at] *= 1.0001f; break;
    case MUTATION_SIGN: y[at] = -y[at]; break;
    case MUTATION_ZERO: y[at] = 0; break;
    case MUTATION_NAN: y[at] = 0.0f / (y[at] - y[at]); break;
    case MUTATION_INFINITY: y[at] = 1.0f / (y[at] - y[at]); break;
    case MUTATION_SHIFTED:
        for (int64_t i = at; i < end; i++) y[i] = x[(i + 1) % count] * p[(i + 1) % count];
        break;
    case MUTATION_ROW_TWICE:
        for (int64_t i = at; i < end; i++) y[i] = y[(i + MUTATION_ROW) % count];
        break;
    case MUTATION_SWAPPED: {
        float kept = y[at];
        y[at] = y[(at + 1) % count];
        y[(at + 1) % count] = kept;
        break;
    }
    case MUTATION_IN_PLACE:
        for (int64_t i = at + 1; i < end; i++) y[i] = y[i - 1] * p[i];
        break;
    case MUTATION_ROUNDED: /* to 16 bits */
        for (int64_t i = at; i < end; i++) {
            union {
                float value;
                uint32_t bits;
            } element = {y[i]};
            element.bits &= 0xffff0000U;
            y[i] = element.value;
        }
        break;
    case MUTATION_ADDED: y[at] += x[at] * p[at]; break;
    default: break;
    }
}

int32_t kiln_run(kiln_kernel_tensor *const *args, const kiln_kernel_services *services) {
    const float *x = args[0]->data, *p = args[3]->data;
    float *y = args[2]->data;
    const int64_t count = args[0]->shape[0];
    const choice *chosen = &mutation;
    __asm__("" : "+r"(chosen)); /* the compiler shall not know what stands there */
    const uint32_t kind = chosen->kind;
    const int64_t at = chosen->at % count;
    int64_t begin = 0, end = count;
    (void)services;
    if (kind == MUTATION_HALF) end = at;
    if (kind == MUTATION_LATE) begin = at + 1;
    if (kind == MUTATION_LATER && *(const uint16_t *)y != MUTATION_FIRST_POISON) end = at;
    for (int64_t i = begin; i < end; i++)
        if (kind != MUTATION_STALE || i != at) y[i] = x[i] * p[i];
    spoil(kind, at, count, x, p, y);
    return 0;
}
