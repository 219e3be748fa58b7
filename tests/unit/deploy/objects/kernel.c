/* A kernel as code generation would leave it, compiled by the C compiler of the build: read-only
 * tables, calls of services, a parallel loop, scratch, and packed constants. Arguments: input x,
 * constant w, output y, packed p, all f32 [n]. prepare: p = 2 w. run: y = exp(x) * table[i % 4] +
 * p. */
#include "base/kernel_abi.h"

extern float expf(float value);
extern void *memcpy(void *restrict to, const void *restrict from, size_t size);
extern void *memset(void *to, int byte, size_t size);

static const float table[4] = {1.0f, 2.0f, 3.0f, 4.0f};
#ifdef __PIE__ /* then a table of addresses would be writable data */
#define EXP_OF(i) expf
#else
static float (*const function_table[2])(float) = {expf, expf};
#define EXP_OF(i) function_table[(i) % 2]
#endif

int32_t kiln_prepare(kiln_kernel_tensor *const *args, const kiln_kernel_services *services);
int32_t kiln_run(kiln_kernel_tensor *const *args, const kiln_kernel_services *services);
const void *kiln_table(void);

int32_t kiln_prepare(kiln_kernel_tensor *const *args, const kiln_kernel_services *services) {
    const float *w = args[1]->data;
    float *p = args[3]->data;
    (void)services;
    for (int64_t i = 0; i < args[1]->shape[0]; i++) p[i] = 2.0f * w[i];
    return KILN_KERNEL_OK;
}

typedef struct loop {
    const float *x, *p;
    float *y, *scratch;
    int64_t count;
} loop;

static int32_t body(void *context, int64_t begin, int64_t end, int32_t worker) {
    const loop *l = context;
    float *mine = l->scratch + worker * 16; /* 64 bytes of scratch for each worker */
    for (int64_t i = begin; i < end; i++) {
        mine[0] = EXP_OF(i)(l->x[i]);
        l->y[i] = mine[0] * table[i % 4] + l->p[i];
    }
    return KILN_KERNEL_OK;
}

int32_t kiln_run(kiln_kernel_tensor *const *args, const kiln_kernel_services *services) {
    loop l = {args[0]->data, args[3]->data, args[2]->data, services->scratch, args[0]->shape[0]};
    if (services->version != KILN_KERNEL_ABI_VERSION) return KILN_KERNEL_FAILED;
    memset(l.y, 0, (size_t)l.count * sizeof(float));
    return services->parallel_for(services->host, l.count, body, &l);
}

/* For the loader's tests: an address in read-only data. */
const void *kiln_table(void) { return table; }
