/* How large models may be. Everything on a model's way has its bound here: importers, uploads to a
 * web server, blobs between programs, and what is sent to a board that runs its module.
 *
 * A model whose weights lie beside it may be larger than its file: its graph, which contains them,
 * is what is compiled (as much as memory allows) or sent. */
#ifndef KILN_BASE_MODEL_SIZE_H
#define KILN_BASE_MODEL_SIZE_H

#include <stddef.h>
#include <stdint.h>

/* A model's file, without weights that lie beside it. An ONNX file is a message of protobuf, which
 * has less than 2 GiB. */
#define KILN_MODEL_FILE_BYTES_MAX ((size_t)2 << 30)
/* What is sent as one piece: a file of that size as a graph or a module, with names, plan, and
 * kernels. */
#define KILN_MODEL_SENT_BYTES_MAX ((uint64_t)2304 << 20)

#endif
