/* A plan whose kernels are WebAssembly, as one .wasm file that js/kiln.js loads in browsers and
 * node. Every address is decided here, so that the loader has nothing to lay out.
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

/* Of the plan; js/kiln.js refuses greater ones. */
#define KILN_WASM_MODULE_VERSION 1u
/* Each thread has a stack below its end, which __stack_pointer begins with. */
#define KILN_WASM_STACK_BYTES 65536u

/* Appends the file to `out`; same plan, same bytes. `arena`: for what is needed meanwhile.
 *
 * UNIMPLEMENTED  an output whose length is known at run time only
 * OUT_OF_RANGE   more than 2 GB of memory
 * Others are those of kiln_module_plan_check. */
KILN_MUST_USE kiln_status kiln_wasm_module_encode(const kiln_module_plan *plan, kiln_arena *arena,
                                                  kiln_strbuf *out);

#endif
