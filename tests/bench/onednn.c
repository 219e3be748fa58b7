/* Times one op of oneDNN, version 2 or 3, on one thread, in the layouts it prefers: a peer of
 * `./dev bench op`.
 *
 *     onednn PRECISION ALGORITHM conv IC H W OC KH KW SH SW PT PL PB PR DH DW G   (dilation 1:
 * dense) onednn PRECISION ALGORITHM gemm M N K                                      (packed
 * weights) onednn PRECISION ALGORITHM softmax|layernorm ROWS WIDTH
 *
 * PRECISION: f32, bf16, int8 (unsigned bytes times signed ones, results of bytes). ALGORITHM:
 * direct, winograd. Prints {"median_us": ..., "min_us": ..., "implementation": ...}; exit status 3:
 * the library has nothing for it. */
#include <dnnl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/peer_times.h"

#define OLD (DNNL_VERSION_MAJOR < 3)
#define ARGUMENTS_MAX 8

static void must(dnnl_status_t status, const char *what) {
    if (status == dnnl_success) return;
    fprintf(stderr, "%s: oneDNN status %d\n", what, (int)status);
    exit(status == dnnl_unimplemented ? 3 : 1);
}

/* ---- descriptions, which the versions spell differently ---- */

#if OLD
typedef const dnnl_memory_desc_t *shape_at;
#define AT(s) (&(s))
#else
typedef const_dnnl_memory_desc_t shape_at;
#define AT(s) (s)
#endif
typedef dnnl_memory_desc_t shape;

static shape describe(int rank, const dnnl_dim_t *extent, dnnl_data_type_t type,
                      dnnl_format_tag_t tag) {
    shape s;
    dnnl_dims_t dim;
    for (int d = 0; d < rank; d++) dim[d] = extent[d];
#if OLD
    must(dnnl_memory_desc_init_by_tag(&s, rank, dim, type, tag), "shape");
#else
    must(dnnl_memory_desc_create_with_tag(&s, rank, dim, type, tag), "shape");
#endif
    return s;
}

typedef struct job {
    dnnl_engine_t engine;
    dnnl_primitive_desc_t pd;
    dnnl_primitive_attr_t attributes;
    dnnl_exec_arg_t argument[ARGUMENTS_MAX];
    int argument_count;
    bool bytes;
} job;

static void add(job *j, int name, shape_at md) {
    dnnl_memory_t memory;
    void *data;
    must(dnnl_memory_create(&memory, md, j->engine, DNNL_MEMORY_ALLOCATE), "memory");
    must(dnnl_memory_get_data_handle(memory, &data), "data");
    size_t size = dnnl_memory_desc_get_size(md);
    if (j->bytes)
        for (size_t i = 0; i < size; i++) ((unsigned char *)data)[i] = (unsigned char)(i % 61);
    else /* halves read as pairs are numbers near these, too */
        for (size_t i = 0; i < size / sizeof(float); i++)
            ((float *)data)[i] = (float)(i % 17) / 8 - 1;
    j->argument[j->argument_count++] = (dnnl_exec_arg_t){name, memory};
}

static void add_queried(job *j, int name, dnnl_query_t what) {
    add(j, name, dnnl_primitive_desc_query_md(j->pd, what, 0));
}

/* Results of bytes are scaled. */
static void scale_results(job *j) {
    must(dnnl_primitive_attr_create(&j->attributes), "attributes");
    if (!j->bytes) return;
#if OLD
    static const float scale = 0.01f;
    must(dnnl_primitive_attr_set_output_scales(j->attributes, 1, 0, &scale), "scale");
#else
    must(dnnl_primitive_attr_set_scales_mask(j->attributes, DNNL_ARG_DST, 0), "scale");
#endif
}

static void add_scale(job *j) {
#if !OLD
    dnnl_dim_t one = 1;
    bool bytes = j->bytes;
    j->bytes = false;
    if (bytes) add(j, DNNL_ARG_ATTR_SCALES | DNNL_ARG_DST, AT(describe(1, &one, dnnl_f32, dnnl_a)));
    j->bytes = bytes;
#else
    (void)j;
#endif
}

typedef struct types {
    dnnl_data_type_t data, weights, result;
} types;

/* ---- operators ---- */

static void make_conv(job *j, types t, bool winograd, const dnnl_dim_t *v) {
    dnnl_dim_t ic = v[0], h = v[1], w = v[2], oc = v[3], kh = v[4], kw = v[5], g = v[14];
    dnnl_dims_t strides = {v[6], v[7]}, left = {v[8], v[9]}, right = {v[10], v[11]},
                dilates = {v[12] - 1, v[13] - 1};
    dnnl_dim_t oh = (h + v[8] + v[10] - ((kh - 1) * v[12] + 1)) / v[6] + 1;
    dnnl_dim_t ow = (w + v[9] + v[11] - ((kw - 1) * v[13] + 1)) / v[7] + 1;
    dnnl_dims_t src_dims = {1, ic, h, w}, dst_dims = {1, oc, oh, ow};
    dnnl_dims_t dense = {oc, ic, kh, kw}, grouped = {g, oc / g, ic / g, kh, kw};
    shape src = describe(4, src_dims, t.data, dnnl_format_tag_any),
          weights =
              describe(g > 1 ? 5 : 4, g > 1 ? grouped : dense, t.weights, dnnl_format_tag_any),
          dst = describe(4, dst_dims, t.result, dnnl_format_tag_any);
    dnnl_alg_kind_t algorithm = winograd ? dnnl_convolution_winograd : dnnl_convolution_direct;
#if OLD
    dnnl_convolution_desc_t desc;
    must(dnnl_dilated_convolution_forward_desc_init(&desc, dnnl_forward_inference, algorithm, &src,
                                                    &weights, NULL, &dst, strides, dilates, left,
                                                    right),
         "convolution");
    must(dnnl_primitive_desc_create(&j->pd, &desc, j->attributes, j->engine, NULL), "convolution");
#else
    must(dnnl_convolution_forward_primitive_desc_create(&j->pd, j->engine, dnnl_forward_inference,
                                                        algorithm, src, weights, NULL, dst, strides,
                                                        dilates, left, right, j->attributes),
         "convolution");
#endif
    add_queried(j, DNNL_ARG_SRC, dnnl_query_src_md);
    add_queried(j, DNNL_ARG_WEIGHTS, dnnl_query_weights_md);
    add_queried(j, DNNL_ARG_DST, dnnl_query_dst_md);
    add_scale(j);
}

static void make_gemm(job *j, types t, bool winograd, const dnnl_dim_t *v) {
    (void)winograd;
    dnnl_dims_t a = {v[0], v[2]}, b = {v[2], v[1]}, c = {v[0], v[1]};
    shape src = describe(2, a, t.data, dnnl_ab),
          weights = describe(2, b, t.weights, dnnl_format_tag_any),
          dst = describe(2, c, t.result, dnnl_ab);
#if OLD
    dnnl_matmul_desc_t desc;
    must(dnnl_matmul_desc_init(&desc, &src, &weights, NULL, &dst), "product");
    must(dnnl_primitive_desc_create(&j->pd, &desc, j->attributes, j->engine, NULL), "product");
#else
    must(dnnl_matmul_primitive_desc_create(&j->pd, j->engine, src, weights, NULL, dst,
                                           j->attributes),
         "product");
#endif
    add_queried(j, DNNL_ARG_SRC, dnnl_query_src_md);
    add_queried(j, DNNL_ARG_WEIGHTS, dnnl_query_weights_md);
    add_queried(j, DNNL_ARG_DST, dnnl_query_dst_md);
    add_scale(j);
}

static void make_softmax(job *j, types t, bool winograd, const dnnl_dim_t *v) {
    (void)winograd;
    shape rows = describe(2, v, t.data, dnnl_ab);
#if OLD
    dnnl_softmax_desc_t desc;
    must(dnnl_softmax_forward_desc_init(&desc, dnnl_forward_inference, &rows, 1), "softmax");
    must(dnnl_primitive_desc_create(&j->pd, &desc, j->attributes, j->engine, NULL), "softmax");
#else
    must(dnnl_softmax_forward_primitive_desc_create(&j->pd, j->engine, dnnl_forward_inference,
                                                    dnnl_softmax_accurate, rows, rows, 1,
                                                    j->attributes),
         "softmax");
#endif
    add(j, DNNL_ARG_SRC, AT(rows));
    add(j, DNNL_ARG_DST, AT(rows));
}

static void make_layernorm(job *j, types t, bool winograd, const dnnl_dim_t *v) {
    (void)winograd;
    shape rows = describe(2, v, t.data, dnnl_ab), scale = describe(1, &v[1], dnnl_f32, dnnl_a);
    const unsigned flags = dnnl_use_scale | dnnl_use_shift;
#if OLD
    dnnl_layer_normalization_desc_t desc;
    must(dnnl_layer_normalization_forward_desc_init(&desc, dnnl_forward_inference, &rows, NULL,
                                                    1e-5f, flags),
         "layer norm");
    must(dnnl_primitive_desc_create(&j->pd, &desc, j->attributes, j->engine, NULL), "layer norm");
#else
    must(dnnl_layer_normalization_forward_primitive_desc_create(&j->pd, j->engine,
                                                                dnnl_forward_inference, rows, rows,
                                                                NULL, 1e-5f, flags, j->attributes),
         "layer norm");
#endif
    add(j, DNNL_ARG_SRC, AT(rows));
    add(j, DNNL_ARG_DST, AT(rows));
    add(j, DNNL_ARG_SCALE, AT(scale));
    add(j, DNNL_ARG_SHIFT, AT(scale));
}

static const struct {
    const char *name;
    int numbers;
    void (*make)(job *, types, bool, const dnnl_dim_t *);
} operator_of[] = {{"conv", 15, make_conv},
                   {"gemm", 3, make_gemm},
                   {"softmax", 2, make_softmax},
                   {"layernorm", 2, make_layernorm}};

static const struct {
    const char *name;
    types types;
    bool bytes;
} precision_of[] = {{"f32", {dnnl_f32, dnnl_f32, dnnl_f32}, false},
                    {"bf16", {dnnl_bf16, dnnl_bf16, dnnl_bf16}, false},
                    {"int8", {dnnl_u8, dnnl_s8, dnnl_u8}, true}};

#define COUNT(array) (int)(sizeof(array) / sizeof((array)[0]))

typedef struct execution {
    const job *job;
    dnnl_stream_t stream;
    dnnl_primitive_t primitive;
} execution;

static void execute(void *context) {
    const execution *e = context;
    must(dnnl_primitive_execute(e->primitive, e->stream, e->job->argument_count, e->job->argument),
         "run");
    must(dnnl_stream_wait(e->stream), "wait");
}

static int time_it(const job *j) {
    execution e = {.job = j};
    const char *implementation = "";
    must(dnnl_stream_create(&e.stream, j->engine, dnnl_stream_default_flags), "stream");
    must(dnnl_primitive_create(&e.primitive, j->pd), "primitive");
    must(dnnl_primitive_desc_query(j->pd, dnnl_query_impl_info_str, 0, &implementation), "name");
    const peer_times times = peer_time(execute, &e);
    printf("{\"median_us\": %.3f, \"min_us\": %.3f, \"implementation\": \"%s\"}\n", times.median_us,
           times.min_us, implementation);
    return 0;
}

int main(int argc, char **argv) {
    int precision = 0, op = 0;
    while (argc > 3 && precision < COUNT(precision_of) &&
           strcmp(argv[1], precision_of[precision].name) != 0)
        precision++;
    while (argc > 3 && op < COUNT(operator_of) && strcmp(argv[3], operator_of[op].name) != 0) op++;
    if (argc < 4 || precision == COUNT(precision_of) || op == COUNT(operator_of) ||
        argc != 4 + operator_of[op].numbers) {
        fprintf(stderr, "usage: onednn PRECISION ALGORITHM OPERATOR NUMBER...\n");
        return 2;
    }
    dnnl_dim_t v[15];
    for (int i = 4; i < argc; i++) v[i - 4] = atoll(argv[i]);
    job j = {.bytes = precision_of[precision].bytes};
    must(dnnl_engine_create(&j.engine, dnnl_cpu, 0), "engine");
    scale_results(&j);
    operator_of[op].make(&j, precision_of[precision].types, strcmp(argv[2], "winograd") == 0, v);
    return time_it(&j);
}
