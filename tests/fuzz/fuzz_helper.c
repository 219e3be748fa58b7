/* Fuzzes what the helper of a server believes of a request: what passes is in its bounds in every
 * field. The first byte is the number of descriptors; short inputs are tried as they are, and over
 * a request that is right. */
#include <string.h>

#include "base/check.h"
#include "base/macros.h"
#include "rpc-server/helper_request.h"
#include "tests/fuzz/fuzz.h"

static const kiln_helper_limits limits = {.addresses = 2, .cores = 8};

static void try(const void *bytes, size_t size, uint32_t fd_count) {
    if (kiln_helper_request_check(bytes, size, fd_count, &limits)) return;
    kiln_helper_request q;
    KILN_CHECK(size == sizeof q);
    memcpy(&q, bytes, sizeof q);
    KILN_CHECK(q.magic == KILN_HELPER_MAGIC);
    KILN_CHECK(q.ask < KILN_HELPER_ASK_COUNT);
    KILN_CHECK(fd_count == (q.ask == KILN_HELPER_START ? 1 : 0));
    KILN_CHECK(q.address < limits.addresses);
    KILN_CHECK(q.core_count <= KILN_EXECUTOR_CORES_MAX);
    for (uint32_t i = 0; i < q.core_count; i++) KILN_CHECK(q.core[i] < limits.cores);
    KILN_CHECK(memchr(q.text, 0, sizeof q.text));
    for (const char *at = q.text; *at; at++) KILN_CHECK((unsigned char)*at >= ' ');
    KILN_CHECK(q.ask == KILN_HELPER_POWER || q.text[0] == 0);
    KILN_CHECK(q.child != 0 || q.ask == KILN_HELPER_START || q.ask == KILN_HELPER_CREDENTIALS ||
               q.ask == KILN_HELPER_CONNECT || q.ask == KILN_HELPER_POWER);
}

int kiln_fuzz_one(const uint8_t *data, size_t size) {
    const uint32_t fd_count = size ? data[0] % 3 : 0;
    try(data, size, fd_count);
    for (uint32_t ask = 0; ask <= KILN_HELPER_ASK_COUNT; ask++) {
        kiln_helper_request q = {.magic = KILN_HELPER_MAGIC, .ask = ask};
        const size_t own = KILN_MIN(size, sizeof q - 8);
        if (own) memcpy((char *)&q + 8, data, own);
        try(&q, sizeof q, fd_count);
    }
    return 0;
}
