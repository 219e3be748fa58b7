/* The check of kernels for WebAssembly, which engines load, not this loader. Private to the
 * loader. */
#ifndef KILN_DEPLOY_OBJECT_WASM_H
#define KILN_DEPLOY_OBJECT_WASM_H

#include "base/status.h"
#include "base/str.h"

/* Checks whether js/kernel.js can instantiate a module; errors as kiln_object_check. */
KILN_MUST_USE kiln_status kiln_object_wasm_check(kiln_str module, const char *const *entries);

#endif
