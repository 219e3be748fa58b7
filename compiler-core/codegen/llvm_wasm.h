/* From LLVM's object for WebAssembly to a module that an engine instantiates as it is. Inside
 * codegen/. */
#ifndef KILN_COMPILER_CORE_CODEGEN_LLVM_WASM_H
#define KILN_COMPILER_CORE_CODEGEN_LLVM_WASM_H

#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"

/* The object is such a module, except that it exports nothing: exports its functions with global
 * names and drops the sections that only linkers read. `shared`: it imports a memory that several
 * threads share.
 *
 * UNIMPLEMENTED  the object has data in memory, which kernels do not have
 * INTERNAL       the object is not what LLVM 19 writes */
KILN_MUST_USE kiln_status kiln_llvm_wasm_module(kiln_str object, bool shared, kiln_arena *arena,
                                                kiln_str *out_module);

#endif
