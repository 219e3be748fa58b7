/* Writes plans whose kernels are WebAssembly as one .wasm file that js/kiln.js loads in browsers
 * and node. Every address is fixed here, so that the loader need not plan memory.
 *
 * The file is a module of WebAssembly (docs/reference/wasm.md):
 *   memory              exported as "memory", never grows: weights, activations, ports, stacks
 *   data                weights, and the kernels' arguments in the form of base/kernel_abi.h
 *   section kiln.kernel once for each kernel: the module that code generation made, which imports
 *                       the memory
 *   section kiln.plan   JSON: ports, steps and where they find their arguments */
#ifndef KILN_DEPLOY_PACK_WASM_MODULE_H
#define KILN_DEPLOY_PACK_WASM_MODULE_H

#include "base/str.h"
#include "deploy/format.h"

/* Of the section kiln.plan; js/kiln.js refuses greater ones. Modules are written in the oldest
 * version that can express them: version 1 has one size, and outputs of known length. */
#define KILN_WASM_MODULE_VERSION 2u
#define KILN_WASM_MODULE_VERSION_PLAIN 1u
/* Each thread has a stack below its end, which __stack_pointer begins with. */
#define KILN_WASM_STACK_BYTES 65536u

/* Appends the file to `out`; same plans, same bytes. Equal kernels and constants of several sizes
 * are stored once; ports, activations and scratch of all sizes share their memory. `arena` is
 * scratch.
 *
 * OUT_OF_RANGE   more than 2 GB of memory
 * Others are those of kiln_module_sizes_check. */
KILN_MUST_USE kiln_status kiln_wasm_module_encode(const kiln_module_sizes *sizes, kiln_arena *arena,
                                                  kiln_strbuf *out);

#endif
