/* Times CLBlast's single-precision product on the first OpenCL device that is a processor: a peer
 * of
 * `./dev bench gpu`. It is tuned as its package is; its kernels are compiled before the first time.
 *
 *     clblast M N K
 *
 * Prints {"median_us": ..., "min_us": ...}. */
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <clblast_c.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/bench/peer_times.h"

#define PLATFORMS_MAX 8

typedef struct product {
    size_t m, n, k;
    cl_mem a, b, c;
    cl_command_queue queue;
} product;

static void must(int code, const char *what) {
    if (code == 0) return;
    fprintf(stderr, "%s: error %d\n", what, code);
    exit(1);
}

static cl_device_id processor(void) {
    cl_platform_id platform[PLATFORMS_MAX];
    cl_uint count = 0;
    cl_device_id device;
    must(clGetPlatformIDs(PLATFORMS_MAX, platform, &count), "platforms of OpenCL");
    for (cl_uint i = 0; i < count && i < PLATFORMS_MAX; i++)
        if (clGetDeviceIDs(platform[i], CL_DEVICE_TYPE_CPU, 1, &device, NULL) == CL_SUCCESS)
            return device;
    fprintf(stderr, "no OpenCL device is a processor\n");
    exit(1);
}

static cl_mem matrix(cl_context context, size_t count) {
    cl_int error = 0;
    float *data = malloc(count * sizeof *data);
    if (!data) exit(1);
    for (size_t i = 0; i < count; i++) data[i] = (float)(i % 17) / 8 - 1;
    const cl_mem made = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                       count * sizeof *data, data, &error);
    must(error, "a buffer");
    free(data);
    return made;
}

static void multiply(void *context) {
    product *p = context;
    must(CLBlastSgemm(CLBlastLayoutRowMajor, CLBlastTransposeNo, CLBlastTransposeNo, p->m, p->n,
                      p->k, 1, p->a, 0, p->k, p->b, 0, p->n, 0, p->c, 0, p->n, &p->queue, NULL),
         "the product");
    must(clFinish(p->queue), "waiting");
}

int main(int argc, char **argv) {
    cl_int error = 0;
    if (argc != 4) {
        fprintf(stderr, "usage: clblast M N K\n");
        return 2;
    }
    const cl_device_id device = processor();
    const cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
    must(error, "a context");
    product p = {strtoull(argv[1], NULL, 10), strtoull(argv[2], NULL, 10),
                 strtoull(argv[3], NULL, 10)};
    p.queue = clCreateCommandQueue(context, device, 0, &error);
    must(error, "a queue");
    p.a = matrix(context, p.m * p.k);
    p.b = matrix(context, p.k * p.n);
    p.c = matrix(context, p.m * p.n);
    const peer_times times = peer_time(multiply, &p);
    printf("{\"median_us\": %.3f, \"min_us\": %.3f}\n", times.median_us, times.min_us);
    return 0;
}
