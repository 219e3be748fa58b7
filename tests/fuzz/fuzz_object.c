/* Fuzzes the object loader's parser and linker. Code is linked into ordinary memory, never called.
 */
#include "base/status.h"
#include "deploy/runtime/load.h"
#include "tests/fuzz/fuzz.h"

int kiln_fuzz_one(const uint8_t *data, size_t size) {
    static const char *const entries[] = {"kiln_run", NULL};
    kiln_status_free(
        kiln_object_check((kiln_str){(const char *)data, size}, KILN_ARCH_X86_64, entries));
    return 0;
}
