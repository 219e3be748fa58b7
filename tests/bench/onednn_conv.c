/* Times oneDNN's direct convolution on one thread, in the layouts it prefers: the peer of `./dev
 * bench conv`.
 *
 *     onednn_conv IC H W OC KH KW SH SW PT PL PB PR DH DW G    (dilation 1 = dense)
 *
 * Prints {"median_us": ..., "min_us": ..., "implementation": ...}. */
#include <dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define RUNS_MAX 400
#define SECONDS 0.3

static void must(dnnl_status_t status, const char *what) {
    if (status == dnnl_success) return;
    fprintf(stderr, "%s: oneDNN status %d\n", what, (int)status);
    exit(1);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static dnnl_memory_t make_memory(const_dnnl_primitive_desc_t pd, dnnl_query_t what,
                                 dnnl_engine_t engine) {
    const dnnl_memory_desc_t *md = dnnl_primitive_desc_query_md(pd, what, 0);
    dnnl_memory_t memory;
    void *data;
    must(dnnl_memory_create(&memory, md, engine, DNNL_MEMORY_ALLOCATE), "memory");
    must(dnnl_memory_get_data_handle(memory, &data), "data");
    for (size_t i = 0; i < dnnl_memory_desc_get_size(md) / sizeof(float); i++)
        ((float *)data)[i] = (float)(i % 17) / 8 - 1;
    return memory;
}

int main(int argc, char **argv) {
    if (argc != 16) {
        fprintf(stderr, "usage: onednn_conv IC H W OC KH KW SH SW PT PL PB PR DH DW G\n");
        return 2;
    }
    dnnl_dim_t v[15];
    for (int i = 0; i < 15; i++) v[i] = atoll(argv[i + 1]);
    dnnl_dim_t ic = v[0], h = v[1], w = v[2], oc = v[3], kh = v[4], kw = v[5], g = v[14];
    dnnl_dims_t strides = {v[6], v[7]}, left = {v[8], v[9]}, right = {v[10], v[11]},
                dilates = {v[12] - 1, v[13] - 1};
    dnnl_dim_t oh = (h + v[8] + v[10] - ((kh - 1) * v[12] + 1)) / v[6] + 1;
    dnnl_dim_t ow = (w + v[9] + v[11] - ((kw - 1) * v[13] + 1)) / v[7] + 1;
    dnnl_dims_t src_dims = {1, ic, h, w}, dst_dims = {1, oc, oh, ow};
    dnnl_dims_t dense = {oc, ic, kh, kw}, grouped = {g, oc / g, ic / g, kh, kw};

    dnnl_engine_t engine;
    dnnl_stream_t stream;
    must(dnnl_engine_create(&engine, dnnl_cpu, 0), "engine");
    must(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags), "stream");
    dnnl_memory_desc_t src, weights, dst;
    must(dnnl_memory_desc_init_by_tag(&src, 4, src_dims, dnnl_f32, dnnl_format_tag_any), "source");
    must(dnnl_memory_desc_init_by_tag(&weights, g > 1 ? 5 : 4, g > 1 ? grouped : dense, dnnl_f32,
                                      dnnl_format_tag_any),
         "weights");
    must(dnnl_memory_desc_init_by_tag(&dst, 4, dst_dims, dnnl_f32, dnnl_format_tag_any),
         "destination");
    dnnl_convolution_desc_t desc;
    must(dnnl_dilated_convolution_forward_desc_init(&desc, dnnl_forward_inference,
                                                    dnnl_convolution_direct, &src, &weights, NULL,
                                                    &dst, strides, dilates, left, right),
         "convolution");
    dnnl_primitive_desc_t pd;
    dnnl_primitive_t primitive;
    must(dnnl_primitive_desc_create(&pd, &desc, NULL, engine, NULL), "primitive");
    must(dnnl_primitive_create(&primitive, pd), "primitive");
    const char *implementation = "";
    must(dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &implementation), "name");
    dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, make_memory(pd, dnnl_query_src_md, engine)},
                              {DNNL_ARG_WEIGHTS, make_memory(pd, dnnl_query_weights_md, engine)},
                              {DNNL_ARG_DST, make_memory(pd, dnnl_query_dst_md, engine)}};
    static double sample[RUNS_MAX];
    int runs = 0;
    double end = now() + SECONDS;
    for (int warm = 0; warm < 5; warm++)
        must(dnnl_primitive_execute(primitive, stream, 3, args), "run");
    while (runs < RUNS_MAX && (runs < 10 || now() < end)) {
        double start = now();
        must(dnnl_primitive_execute(primitive, stream, 3, args), "run");
        must(dnnl_stream_wait(stream), "wait");
        sample[runs++] = (now() - start) * 1e6;
    }
    qsort(sample, (size_t)runs, sizeof *sample, ascending);
    printf("{\"median_us\": %.3f, \"min_us\": %.3f, \"implementation\": \"%s\"}\n",
           sample[runs / 2], sample[0], implementation);
    return 0;
}
