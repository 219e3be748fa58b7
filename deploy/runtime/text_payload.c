#include "deploy/runtime/text_payload.h"

#include <string.h>

#define LOG_BYTES_MAX 600u
#define LOG_LINES_MAX 6u
#define GRID_MAX UINT64_C(2147483647) /* groups of a launch; CUDA has no more along x */

static bool is_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static bool is_entry_name(kiln_str name) {
    if (name.size == 0 || name.size > KILN_TEXT_ENTRY_BYTES_MAX) return false;
    for (size_t i = 0; i < name.size; i++)
        if (!is_name(name.data[i])) return false;
    return name.data[0] > '9';
}

static kiln_status check_text(kiln_str text, uint32_t payload) {
    if (text.size > KILN_TEXT_PAYLOAD_BYTES_MAX)
        return KILN_ERROR(OUT_OF_RANGE, "payload %u has %zu bytes of text; at most %zu", payload,
                          text.size, KILN_TEXT_PAYLOAD_BYTES_MAX);
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];
        if ((c < ' ' || c > '~') && c != '\n' && c != '\t')
            return KILN_ERROR(DATA_LOSS, "payload %u is no text: byte %zu is %u", payload, i,
                              (unsigned)(unsigned char)c);
    }
    return KILN_OK;
}

static bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t'; }

/* The position of the parameters if `word`, space, `name` and a parenthesis are at `at`; else 0. */
static size_t parameters_at(kiln_str text, size_t at, kiln_str word, kiln_str name) {
    size_t i = at + word.size;
    if (at > 0 && !is_space(text.data[at - 1])) return 0;
    const size_t space = i;
    while (i < text.size && is_space(text.data[i])) i++;
    if (i == space || name.size > text.size - i || memcmp(text.data + i, name.data, name.size) != 0)
        return 0;
    i += name.size;
    while (i < text.size && is_space(text.data[i])) i++;
    return i < text.size && text.data[i] == '(' ? i + 1 : 0;
}

bool kiln_text_payload_find(kiln_str text, const char *before_entry, kiln_str entry,
                            kiln_str *out_parameters) {
    const kiln_str word = kiln_str_from(before_entry);
    for (size_t i = 0; i + word.size <= text.size; i++) {
        const char *next = memchr(text.data + i, word.data[0], text.size - word.size - i + 1);
        if (!next) return false;
        i = (size_t)(next - text.data);
        const size_t begin =
            memcmp(next, word.data, word.size) == 0 ? parameters_at(text, i, word, entry) : 0;
        if (begin == 0) continue;
        *out_parameters = kiln_str_slice(text, begin, text.size);
        out_parameters->size = kiln_str_find_char(*out_parameters, ')');
        return true;
    }
    return false;
}

static kiln_status check_limits(const kiln_manifest_launch *launch, const kiln_target *target) {
    uint64_t threads = 1, groups = 1;
    for (uint32_t axis = 0; axis < 3; axis++) {
        threads *= launch->group[axis];
        groups *= launch->grid[axis];
        if (threads > target->group_threads)
            return KILN_ERROR(FAILED_PRECONDITION, "a group of %llu threads; the device runs %u",
                              (unsigned long long)threads, target->group_threads);
        if (groups > GRID_MAX)
            return KILN_ERROR(OUT_OF_RANGE, "%llu groups; a launch has at most %llu",
                              (unsigned long long)groups, (unsigned long long)GRID_MAX);
    }
    const uint64_t shared = launch->scratch_bytes[KILN_MEMORY_SHARED];
    if (shared > target->shared_bytes)
        return KILN_ERROR(FAILED_PRECONDITION, "%llu bytes shared by a group; the device has %u",
                          (unsigned long long)shared, target->shared_bytes);
    return KILN_OK;
}

static kiln_status check_launch(const kiln_artefact *artefact, uint32_t index,
                                const kiln_target *target, const char *before_entry) {
    const kiln_manifest_launch *launch = &artefact->manifest.launch[index];
    kiln_str parameters;
    kiln_status st = KILN_OK;
    if (!is_entry_name(launch->entry))
        st = KILN_ERROR(DATA_LOSS, "'%.*s' is no name of an entry", KILN_STR_ARG(launch->entry));
    else if (!kiln_text_payload_find(kiln_artefact_payload(artefact, launch->payload), before_entry,
                                     launch->entry, &parameters))
        st = KILN_ERROR(NOT_FOUND, "there is no entry %.*s", KILN_STR_ARG(launch->entry));
    if (!st) st = check_limits(launch, target);
    return kiln_status_note(st, "launch %u", index);
}

kiln_status kiln_text_payload_check(const kiln_artefact *artefact, const kiln_target *target,
                                    kiln_payload_kind kind, const char *before_entry) {
    const kiln_manifest *manifest = &artefact->manifest;
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; !st && i < manifest->payload_count; i++) {
        if (manifest->payload[i].kind != kind)
            return KILN_ERROR(UNIMPLEMENTED, "payload %u is not %s", i, kiln_payload_name(kind));
        st = check_text(kiln_artefact_payload(artefact, i), i);
    }
    for (uint32_t i = 0; !st && i < manifest->launch_count; i++)
        st = check_launch(artefact, i, target, before_entry);
    return st;
}

const char *kiln_text_payload_log(const char *log, kiln_arena *arena) {
    size_t size = 0;
    uint32_t lines = 0;
    while (log[size] && size < LOG_BYTES_MAX && lines < LOG_LINES_MAX) lines += log[size++] == '\n';
    while (size > 0 && is_space(log[size - 1])) size--;
    return kiln_str_dup(arena, (kiln_str){log, size});
}
