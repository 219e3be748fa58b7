#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/macros.h"
#include "proto/depot/parts.h"

static const kiln_depot_row *const rows[] = {
#define DEPOT(name) &kiln_depot_##name,
#include "proto/depot/depots.def"
#undef DEPOT
};

static const kiln_depot_row *row_of(kiln_str text) {
    for (size_t i = 0; i < KILN_ARRAY_COUNT(rows); i++)
        if (kiln_str_starts(text, rows[i]->prefix)) return rows[i];
    return NULL;
}

bool kiln_depot_is_named(kiln_str text) { return row_of(text) != NULL; }

kiln_status kiln_depot_open(kiln_str text, kiln_depot **out_depot) {
    const kiln_depot_row *row = row_of(text);
    if (row)
        return kiln_status_note(
            row->open(kiln_str_slice(text, strlen(row->prefix), text.size), out_depot), "%.*s",
            KILN_STR_ARG(text));
    kiln_strbuf forms = {0};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(rows); i++)
        kiln_strbuf_printf(&forms, "%s%s", i ? ", " : "", rows[i]->form);
    kiln_status st = KILN_ERROR(INVALID_ARGUMENT, "'%.*s' names no depot of blobs; one is: %s",
                                KILN_STR_ARG(text), forms.data);
    kiln_strbuf_deinit(&forms);
    return st;
}

void kiln_depot_close(kiln_depot *depot) {
    if (depot) depot->row->close(depot);
}

kiln_status kiln_depot_error(const char *what, const char *path) {
    return kiln_status_make(kiln_code_from_errno(errno), __FILE__, __LINE__, "%s %s: %s", what,
                            path, strerror(errno));
}

void kiln_depot_sink_begin(kiln_depot_sink *sink, const char *path, uint64_t bytes_max) {
    *sink = (kiln_depot_sink){.path = path, .fd = -1, .bytes_max = bytes_max};
    kiln_hasher_begin(&sink->hasher);
}

static bool write_all(kiln_depot_sink *sink, const char *data, size_t size) {
    while (size > 0) {
        ssize_t written = write(sink->fd, data, size);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return false;
        data += written;
        size -= (size_t)written;
    }
    return true;
}

bool kiln_depot_sink_write(kiln_depot_sink *sink, const void *data, size_t size) {
    if (sink->failure) return false;
    if (size > sink->bytes_max - sink->size) {
        sink->failure = KILN_ERROR(OUT_OF_RANGE, "a blob of more than %llu bytes",
                                   (unsigned long long)sink->bytes_max);
        return false;
    }
    if (sink->fd < 0) sink->fd = open(sink->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (sink->fd < 0 || !write_all(sink, data, size))
        sink->failure = kiln_depot_error("writing", sink->path);
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
        kiln_status_free(transfer); /* it broke off for that */
    else
        st = transfer;
    if (!st && sink->fd < 0) (void)kiln_depot_sink_write(sink, "", 0), st = sink->failure;
    if (!st && !kiln_digest_equal(&got, digest))
        st = KILN_ERROR(DATA_LOSS, "the depot's blob has another content than its name says");
    if (!st && fsync(sink->fd) != 0) st = kiln_depot_error("syncing", sink->path);
    if (sink->fd >= 0) {
        close(sink->fd);
        if (st) unlink(sink->path);
    }
    return st;
}
