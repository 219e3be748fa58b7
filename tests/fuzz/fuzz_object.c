/* Fuzzes the object loader's parser and linker, for every processor. Code is linked into ordinary
 * memory, never called. */
#include "base/status.h"
#include "deploy/runtime/load.h"
#include "deploy/runtime/object_arch.h"
#include "tests/fuzz/fuzz.h"

int kiln_fuzz_one(const uint8_t *data, size_t size) {
    static const char *const entries[] = {"kiln_run", NULL};
    const kiln_object_arch *arch;
    for (uint32_t row = 0; (arch = kiln_object_arch_at(row)); row++)
        kiln_status_free(
            kiln_object_check((kiln_str){(const char *)data, size}, arch->arch, entries));
    return 0;
}
