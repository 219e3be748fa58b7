#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/file.h"
#include "proto/depot/parts.h"

void kiln_depot_sink_begin(kiln_depot_sink *sink, const char *path, uint64_t bytes_max) {
    *sink = (kiln_depot_sink){.path = path, .fd = -1, .bytes_max = bytes_max};
    kiln_hasher_begin(&sink->hasher);
}

bool kiln_depot_sink_write(kiln_depot_sink *sink, const void *data, size_t size) {
    if (sink->failure) return false;
    if (size > sink->bytes_max - sink->size) {
        sink->failure = KILN_ERROR(OUT_OF_RANGE, "a blob of more than %llu bytes",
                                   (unsigned long long)sink->bytes_max);
        return false;
    }
    if (sink->fd < 0) sink->fd = open(sink->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (sink->fd < 0 || !kiln_file_write_fully(sink->fd, (kiln_str){data, size}))
        sink->failure = KILN_SYSTEM_ERROR(errno, "writing", sink->path);
    sink->size += size;
    kiln_hasher_add(&sink->hasher, data, size);
    return !sink->failure;
}

kiln_status kiln_depot_sink_end(kiln_depot_sink *sink, const kiln_digest *digest,
                                kiln_status transfer) {
    kiln_digest got;
    kiln_hasher_end(&sink->hasher, &got);
    kiln_status st = sink->failure;
    if (st)
        kiln_status_free(transfer); /* a consequence of the failure */
    else
        st = transfer;
    if (!st && sink->fd < 0) (void)kiln_depot_sink_write(sink, "", 0), st = sink->failure;
    if (!st && !kiln_digest_equal(&got, digest))
        st = KILN_ERROR(DATA_LOSS, "the depot's blob has another content than its name says");
    if (!st && fsync(sink->fd) != 0) st = KILN_SYSTEM_ERROR(errno, "syncing", sink->path);
    if (sink->fd >= 0) {
        close(sink->fd);
        if (st) unlink(sink->path);
    }
    return st;
}
