/* Modules for several sizes: `--dim batch=1,4,8` of `kiln compile` and `kiln tune`. */
#ifndef KILN_CLI_COMMON_SIZES_H
#define KILN_CLI_COMMON_SIZES_H

#include <jansson.h>

#include "base/opt.h"
#include "base/target.h"
#include "compiler-core/frontend/frontend.h"
#include "deploy/pack/gather.h"

typedef struct kiln_sizes {
    kiln_str dim;   /* empty: --dim names one size of each dimension */
    uint32_t count; /* 2 or more, growing */
    int64_t size[KILN_MODULE_BUCKETS_MAX];
    double weight[KILN_MODULE_BUCKETS_MAX]; /* the share of calls that have it; all 0: not said */
    size_t option;                          /* which --dim it is */
} kiln_sizes;

extern const char kiln_sizes_help[]; /* of --dim, where it may list sizes */
/* The --dim that lists sizes (1,4,8) or has a range (1..8: powers of two, and both ends).
 * INVALID_ARGUMENT: two of them, or a list of another form. */
KILN_MUST_USE kiln_status kiln_sizes_option(const kiln_opt_list *dim, kiln_sizes *out_sizes);
/* --weights 1:80,8:20. INVALID_ARGUMENT: another form, or a size that is not there. NULL: none. */
extern const char kiln_weights_help[];
KILN_MUST_USE kiln_status kiln_weights_option(const char *weights, kiln_sizes *sizes);
/* The --dim options of one bucket, in `process`. */
kiln_opt_list kiln_sizes_dim(const kiln_opt_list *dim, const kiln_sizes *sizes, uint32_t bucket,
                             kiln_arena *process);

/* A model, and how it is read. */
typedef struct kiln_sizes_model {
    const char *path;
    const kiln_sizes *sizes;
    const kiln_opt_list *dim;          /* all --dim */
    const kiln_import_options *import; /* as for any size */
} kiln_sizes_model;
/* Whether rows of the dimension are independent (compiler-core/task/rows.h). Reads the model in
 * processes without rights, so before any database is open. */
bool kiln_sizes_have_rows(const kiln_sizes_model *model, kiln_arena *process);

/* Joins `module` [sizes->count], bytes of a part for each size (kiln_pack_options, is_part). */
KILN_MUST_USE kiln_status kiln_sizes_join(const kiln_sizes *sizes, bool has_rows,
                                          const kiln_str *module, kiln_arena *process,
                                          kiln_module_sizes *out_sizes);
/* Writes the file that `target` takes. */
KILN_MUST_USE kiln_status kiln_sizes_write(const kiln_module_sizes *module,
                                           const kiln_target *target, const char *path,
                                           kiln_arena *process, size_t *out_bytes);
/* What was written, as an object of JSON: the result `event` of a request. */
json_t *kiln_sizes_json(const kiln_module_sizes *sizes, const char *event, const char *path,
                        size_t size);

#endif
