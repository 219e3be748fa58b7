/* The check of kernels for WebAssembly, which engines load and this loader does not. Private to the
 * loader. */
#ifndef KILN_DEPLOY_OBJECT_WASM_H
#define KILN_DEPLOY_OBJECT_WASM_H

#include "base/status.h"
#include "base/str.h"

/* Whether js/kernel.js can instantiate a module: as kiln_object_check says it. */
KILN_MUST_USE kiln_status kiln_object_wasm_check(kiln_str module, const char *const *entries);

#endif
