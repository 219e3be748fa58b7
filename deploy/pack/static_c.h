/* Writes plans whose kernels are C text as one C file and its header: code without allocation,
 * files or threads, for any C compiler. Buffers are static, weights are constant arrays. Used by
 * `kiln compile --emit static-c`. */
#ifndef KILN_DEPLOY_STATIC_C_H
#define KILN_DEPLOY_STATIC_C_H

#include "deploy/format.h"

/* Bytes of the program without its code. */
typedef struct kiln_static_c_sizes {
    uint64_t constant_bytes; /* weights, read-only */
    uint64_t arena_bytes;    /* activations; with several sizes also rows of padded runs */
    uint64_t packed_bytes;   /* weights in the layouts of kernels, made by the first run */
    uint64_t scratch_bytes;  /* maximum of one kernel */
} kiln_static_c_sizes;

/* Appends both files. `name`: an identifier of C, the prefix of all global names. The header
 * declares
 *
 *     int NAME_run(const void *const *inputs, void *const *outputs);
 *     unsigned long NAME_rows[outputs];   where only the run knows the rows of an output
 *
 * With several sizes NAME_run takes the size (long) before the inputs; a size between two is padded
 * if rows are independent. `sizes`: plans of kiln_pack with `as_c`.
 *
 * UNIMPLEMENTED  a plan needs threads or another device than the processor, or its kernels are no
 *                C text */
KILN_MUST_USE kiln_status kiln_static_c(const kiln_module_sizes *sizes, kiln_str name,
                                        kiln_arena *arena, kiln_strbuf *out_source,
                                        kiln_strbuf *out_header, kiln_static_c_sizes *out_sizes);

#endif
