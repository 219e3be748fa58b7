/* The front end: turns model files into graphs. A kind of file is a row of frontends.def and a
 * folder; its types and numbers are private to that folder. It needs base, graph and ops; programs
 * that only send graphs elsewhere link nothing else of the compiler.
 *
 * Models are hostile input: every size, count and depth is checked before it is used. Everything
 * that is not supported is reported at once, one line per finding (node, operator, version,
 * attribute, reason). */
#ifndef KILN_COMPILER_CORE_FRONTEND_FRONTEND_H
#define KILN_COMPILER_CORE_FRONTEND_FRONTEND_H

#include "base/file.h"
#include "base/model_size.h"
#include "base/status.h"
#include "base/tensor.h"
#include "compiler-core/graph/graph.h"

/* An LSTM of one layer, 64 and 256 wide, runs 7 and 3 % longer as a loop over 16 steps, 1 %
 * over 32. */
#define KILN_UNROLL_MAX 32u

typedef struct kiln_named_tensor {
    kiln_str name;
    kiln_tensor tensor;
} kiln_named_tensor;

typedef struct kiln_import_options {
    /* Values of graph inputs by name. An input that some operator needs as a value (shape, axes,
     * pads, ...) is taken from here and becomes a constant; the others stay inputs, and only their
     * open dimensions are taken from here. */
    uint32_t known_count;
    const kiln_named_tensor *known;
    /* Values of open dimensions of inputs by name ("batch"; one that the model leaves unnamed is
     * called by its input and place, "x.0"): [dim_count]. An open dimension that is not listed is
     * an error; so is a name that no input has. */
    uint32_t dim_count;
    const kiln_str *dim_name;
    const int64_t *dim_value;
    /* Set to the number of inputs that became constants; may be NULL. */
    uint32_t *out_bound_count;
    /* Loops and recurrent layers of at most so many iterations are unrolled; 0: KILN_UNROLL_MAX. */
    uint32_t unroll_max;
    /* The most iterations of loops whose length is known at run time only; a run that wants more
     * fails. 0: what the model says. Stacked results of iterations need one of the two limits: it
     * is the size of their buffers. */
    uint64_t loop_max;
    /* Opens an external data file, for an importer that may not; NULL: kiln_file_open_inside its
     * folder. */
    kiln_status (*open)(const char *path, int *out_fd, size_t *out_size);
    /* MiB of memory that kiln_import_isolated (frontend/isolated.h) may take; 0:
     * KILN_ISOLATED_MEMORY_BYTES.
     */
    uint64_t memory_mib;
} kiln_import_options;

/* Imports a file of any kind in frontends.def, recognised by its content. Tensor data in files
 * beside it is read from the file's own folder only (no absolute path, no "..", no symbolic link
 * that leaves it). `options` may be NULL. Tensor data is copied into `arena`. INVALID_ARGUMENT: not
 * a model, or one that contradicts itself. UNIMPLEMENTED: the list of what is not supported.
 * NOT_FOUND, PERMISSION_DENIED, OUT_OF_RANGE: the file or its external data. */
KILN_MUST_USE kiln_status kiln_import_file(const char *path, const kiln_import_options *options,
                                           kiln_arena *arena, kiln_graph **out_graph);
/* The same from memory; `folder`: where external data may lie (NULL: no external data). */
KILN_MUST_USE kiln_status kiln_import_bytes(kiln_str bytes, const char *folder,
                                            const kiln_import_options *options, kiln_arena *arena,
                                            kiln_graph **out_graph);
/* Maps a model's file. OUT_OF_RANGE: it has more than KILN_MODEL_FILE_BYTES_MAX; errors of
 * kiln_file_map. */
KILN_MUST_USE kiln_status kiln_model_file_map(const char *path, kiln_mapping *out_file);
/* Name of the row of frontends.def that reads these bytes; NULL: none does. Static. */
const char *kiln_import_kind(kiln_str bytes);
/* The folder of a path: the part before its last slash, or "."; in `arena`. */
char *kiln_folder_of(const char *path, kiln_arena *arena);

#endif
