#include "compiler-core/frontend/onnx/external.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

bool kiln_onnx_is_external(const Onnx__TensorProto *tensor) {
    return tensor->has_data_location &&
           tensor->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
}

static const char *name_of(const Onnx__TensorProto *tensor) {
    return tensor->name ? tensor->name : "(unnamed)";
}

/* Where the bytes are: keys of TensorProto.external_data. */
typedef struct place {
    const char *location;
    uint64_t offset, length;
    bool has_length;
} place;

static kiln_status find_place(const Onnx__TensorProto *tensor, place *out) {
    *out = (place){0};
    for (size_t i = 0; i < tensor->n_external_data; i++) {
        const Onnx__StringStringEntryProto *entry = tensor->external_data[i];
        if (!entry->key || !entry->value) continue;
        bool good = true;
        if (strcmp(entry->key, "location") == 0)
            out->location = entry->value;
        else if (strcmp(entry->key, "offset") == 0)
            good = kiln_str_to_u64(kiln_str_from(entry->value), &out->offset);
        else if (strcmp(entry->key, "length") == 0)
            good = out->has_length = kiln_str_to_u64(kiln_str_from(entry->value), &out->length);
        if (!good)
            return KILN_ERROR(INVALID_ARGUMENT, "external data of tensor %s: %s '%s' is no number",
                              name_of(tensor), entry->key, entry->value);
    }
    if (!out->location || !out->location[0])
        return KILN_ERROR(INVALID_ARGUMENT, "external data of tensor %s names no file",
                          name_of(tensor));
    return KILN_OK;
}

static kiln_status read_at(int fd, const char *location, uint64_t offset, char *data, size_t size) {
    for (size_t done = 0; done < size;) {
        ssize_t n = pread(fd, data + done, size - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0)
            return KILN_ERROR(DATA_LOSS, "external data '%s': %s", location, strerror(errno));
        if (n == 0)
            return KILN_ERROR(OUT_OF_RANGE,
                              "external data '%s' is too short: %zu bytes at %llu are wanted",
                              location, size, (unsigned long long)offset);
        done += (size_t)n;
    }
    return KILN_OK;
}

kiln_status kiln_onnx_external_read(const kiln_onnx_files *files, const Onnx__TensorProto *tensor,
                                    size_t expected_bytes, kiln_arena *arena, kiln_str *out_data) {
    place p;
    size_t file_bytes = 0;
    int fd = -1;
    kiln_status st = find_place(tensor, &p);
    if (!st && p.has_length && p.length != expected_bytes)
        st = KILN_ERROR(INVALID_ARGUMENT,
                        "external data of tensor %s: %llu bytes, its shape says %zu",
                        name_of(tensor), (unsigned long long)p.length, expected_bytes);
    if (!st && p.offset > INT64_MAX - expected_bytes)
        st = KILN_ERROR(INVALID_ARGUMENT, "external data of tensor %s: offset %llu is out of range",
                        name_of(tensor), (unsigned long long)p.offset);
    if (!st && !files->folder)
        st = KILN_ERROR(INVALID_ARGUMENT,
                        "tensor %s has external data, which this model cannot have",
                        name_of(tensor));
    if (!st)
        st = kiln_status_note(
            files->open ? files->open(p.location, &fd, &file_bytes)
                        : kiln_file_open_inside(files->folder, p.location, &fd, &file_bytes),
            "external data of tensor %s", name_of(tensor));
    if (st) return st;
    /* Checks the size first: a wrong size in the model must not cause a large allocation. */
    if (file_bytes < p.offset + expected_bytes)
        st = KILN_ERROR(OUT_OF_RANGE, "external data '%s' has %zu bytes, %zu at %llu are wanted",
                        p.location, file_bytes, expected_bytes, (unsigned long long)p.offset);
    char *data = st ? NULL : kiln_arena_alloc_aligned(arena, 64, expected_bytes);
    if (!st) st = read_at(fd, p.location, p.offset, data, expected_bytes);
    close(fd);
    if (!st) *out_data = (kiln_str){data, expected_bytes};
    return st;
}
