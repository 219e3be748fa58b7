/* From an ONNX model to its QDQ form, in parts that run one after the other on an edit. Private to
 * onnx/. */
#ifndef KILN_COMPILER_CORE_FRONTEND_ONNX_QUANTIZE_H
#define KILN_COMPILER_CORE_FRONTEND_ONNX_QUANTIZE_H

#include "compiler-core/frontend/onnx/edit.h"
#include "compiler-core/frontend/quantize.h"

/* Checks first whether the model can be quantised at all. FAILED_PRECONDITION as
 * kiln_quantize_read. */
KILN_MUST_USE kiln_status kiln_onnx_quantize_check(const kiln_onnx_edit *edit);
/* The operator set that the result needs. */
int64_t kiln_onnx_quantize_opset(const kiln_quantize_options *options);

/* Folds batch normalisations with constant statistics into the convolutions before them, if nothing
 * else reads the convolution. */
void kiln_onnx_fold_norms(kiln_onnx_edit *edit);

/* ---- sites: the nodes that compute on bytes, and the values that are bytes ---- */

typedef enum kiln_quantize_kind {
    KILN_QUANTIZE_KIND_NONE,
    KILN_QUANTIZE_KIND_WEIGHTS,
    KILN_QUANTIZE_KIND_OWN,
    KILN_QUANTIZE_KIND_MOVE,
    KILN_QUANTIZE_KIND_MERGE,
    KILN_QUANTIZE_KIND_FOLLOW,
} kiln_quantize_kind;

#define KILN_SITE_NONE UINT32_MAX

/* A value between nodes; constants are none. */
typedef struct kiln_site_value {
    const char *name;
    uint32_t producer;    /* node; NONE: an input of the model */
    uint32_t readers;     /* inputs of nodes that read it */
    uint32_t last_reader; /* one of those nodes */
    bool floats;          /* inputs of the model: it has f32 */
    bool pinned;          /* an output of the model, or read by a body: keeps its name, in floats */
    bool wanted;          /* read by a node that can compute on bytes */
    bool reachable;       /* made by a node that can compute on bytes, or an input of the model */
    bool quantised;
    bool few;       /* a node reads it with fewer bits than 8 */
    bool biased;    /* it is multiplied by weights, and a bias is added */
    uint32_t bits;  /* quantised: of its group, */
    bool narrowed;  /* also quantised to fewer bits, for nodes that read fewer */
    uint32_t group; /* of values of one scale: the first value of the group */
} kiln_site_value;

typedef struct kiln_site_node {
    kiln_quantize_kind kind;
    bool quantised; /* it computes on bytes */
    bool few;       /* and on fewer bits than 8 */
    uint32_t sums;  /* the input of an addition that stays in the sums of a layer with weights, or
                     * NONE */
} kiln_site_node;

typedef struct kiln_sites {
    KILN_VEC(kiln_site_value) value;
    kiln_site_node *node; /* [edit->node.count] */
    kiln_map by_name;     /* name -> index of its value */
    const kiln_quantize_options *options;
} kiln_sites;

/* Lists in the edit's arena; valid until its nodes change. */
void kiln_sites_init(kiln_sites *sites, kiln_onnx_edit *edit, const kiln_quantize_options *options);
void kiln_sites_deinit(kiln_sites *sites);
/* Index of a value by its name, or NONE. */
uint32_t kiln_sites_find(const kiln_sites *sites, const char *name);
/* Fills in observed values, layers and groups; lists in the edit's arena. FAILED_PRECONDITION:
 * there is nothing to quantise. RESOURCE_EXHAUSTED: more observed values than KILN_OBSERVED_MAX. */
KILN_MUST_USE kiln_status kiln_sites_plan(const kiln_sites *sites, const kiln_onnx_edit *edit,
                                          kiln_quantize_plan *out_plan);

/* ---- writing ---- */

/* Inserts quantisations into the edit according to its sites and plan. `*out_names`:
 * [observed_count] new names of the observed values as floats, in the edit's arena. */
void kiln_onnx_quantize(kiln_onnx_edit *edit, const kiln_sites *sites,
                        const kiln_quantize_plan *plan, const kiln_quantize_found *found,
                        const kiln_quantize_options *options, char ***out_names);

#endif
