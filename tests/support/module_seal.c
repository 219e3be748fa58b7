#include "tests/support/module_seal.h"

#include <string.h>

#include "base/hash.h"
#include "deploy/format.h"

void module_seal(uint8_t *data, size_t size) {
    const size_t table_bytes =
        KILN_MODULE_HEADER_BYTES + KILN_MODULE_SECTION_COUNT * KILN_MODULE_ENTRY_BYTES;
    if (size < table_bytes) return;
    for (uint32_t i = 0; i < KILN_MODULE_SECTION_COUNT; i++) {
        uint8_t *entry = data + KILN_MODULE_HEADER_BYTES + i * KILN_MODULE_ENTRY_BYTES;
        uint64_t offset, bytes;
        memcpy(&offset, entry + KILN_MODULE_ENTRY_AT_OFFSET, 8);
        memcpy(&bytes, entry + KILN_MODULE_ENTRY_AT_SIZE, 8);
        if (offset > size || bytes > size - offset) continue;
        uint64_t checksum = kiln_hash64(data + offset, (size_t)bytes, 0);
        memcpy(entry + KILN_MODULE_ENTRY_AT_CHECKSUM, &checksum, 8);
    }
    memset(data + KILN_MODULE_AT_CHECKSUM, 0, 8);
    uint64_t checksum = kiln_hash64(data, table_bytes, 0);
    memcpy(data + KILN_MODULE_AT_CHECKSUM, &checksum, 8);
}
