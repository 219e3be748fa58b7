/* Modules for WebAssembly as far as this machine can look at them: ports, sizes and metadata, from
 * the JSON that they carry (docs/reference/wasm.md). For `kiln run --on`, whose board is a page. */
#ifndef KILN_CLI_WASM_FILE_H
#define KILN_CLI_WASM_FILE_H

#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"
#include "deploy/module.h"

/* Whether these bytes are of WebAssembly. */
bool kiln_wasm_file_is(kiln_str bytes);
/* A module that answers what it takes and gives but has no steps, and cannot run here. It refers to
 * `process`. DATA_LOSS: no module of Kiln, or one with ports that none has. */
KILN_MUST_USE kiln_status kiln_wasm_file_inspect(kiln_str bytes, kiln_arena *process,
                                                 kiln_module **out_module);

#endif
