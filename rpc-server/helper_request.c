#include "rpc-server/helper_request.h"

#include <stdbool.h>
#include <string.h>

#include "rpc-server/driver.h"

typedef struct row {
    bool child, cores, address, driver, text, fd;
} row;

static const row table[] = {
#define X(NAME, child, cores, address, driver, text, fd, doc) \
    {child, cores, address, driver, text, fd},
#include "rpc-server/helper_requests.def"
#undef X
};

static bool is_zero(const void *bytes, size_t size) {
    const unsigned char *byte = bytes;
    for (size_t i = 0; i < size; i++)
        if (byte[i]) return false;
    return true;
}

static bool are_cores(const kiln_helper_request *request, const kiln_helper_limits *limits) {
    const uint32_t count = request->core_count;
    if (count == 0 || count > KILN_EXECUTOR_CORES_MAX) return false;
    for (uint32_t i = 0; i < count; i++) {
        if (request->core[i] >= limits->cores) return false;
        for (uint32_t k = 0; k < i; k++)
            if (request->core[k] == request->core[i]) return false;
    }
    return is_zero(request->core + count,
                   (KILN_EXECUTOR_CORES_MAX - count) * sizeof request->core[0]);
}

/* Printable up to its NUL, and zeros after it. */
static bool is_text(const char text[KILN_HELPER_TEXT_BYTES]) {
    const size_t size = strnlen(text, KILN_HELPER_TEXT_BYTES);
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7f) return false;
    return size < KILN_HELPER_TEXT_BYTES && is_zero(text + size, KILN_HELPER_TEXT_BYTES - size);
}

const char *kiln_helper_request_check(const void *bytes, size_t size, uint32_t fd_count,
                                      const kiln_helper_limits *limits) {
    kiln_helper_request request;
    if (size != sizeof request) return "the request has another size";
    memcpy(&request, bytes, sizeof request);
    if (request.magic != KILN_HELPER_MAGIC) return "the request is of another version";
    if (request.ask >= KILN_HELPER_ASK_COUNT) return "an unknown request";
    const row *has = &table[request.ask];
    if (fd_count != has->fd) return "the request has a wrong number of descriptors";
    if (has->child ? request.child == 0 : request.child != 0)
        return "the request has a wrong number of a child";
    if (has->address ? request.address >= limits->addresses : request.address != 0)
        return "the request has a wrong address of the tracker";
    if (request.driver > (has->driver ? kiln_driver_count() : 0))
        return "the request has a wrong driver";
    if (has->cores ? !are_cores(&request, limits)
                   : request.core_count != 0 || !is_zero(request.core, sizeof request.core))
        return "the request has wrong cores";
    if (has->text ? !is_text(request.text) : !is_zero(request.text, sizeof request.text))
        return "the request has a wrong text";
    return NULL;
}
