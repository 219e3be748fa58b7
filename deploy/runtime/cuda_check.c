#include "deploy/runtime/cuda_check.h"

#include <string.h>

#include "base/check.h"
#include "base/macros.h"
#include "deploy/runtime/text_payload.h"

#define GRID_YZ_MAX 65535u
#define GROUP_Z_MAX 64u
#define CAPABILITY_OF_CLUSTERS 90u /* the first that has clusters and tensor maps */

/* ---- what the code's text says --------------------------------------------------------------- */

static bool has(kiln_str text, const char *word) {
    const size_t size = strlen(word);
    for (size_t i = 0; i + size <= text.size; i++)
        if (!memcmp(text.data + i, word, size)) return true;
    return false;
}

typedef enum parameter_kind { POINTER, MAP, OTHER } parameter_kind;

/* ".param .u64 NAME", or ".param .align 64 .b8 NAME[128]". */
static parameter_kind kind_of(kiln_str parameter) {
    const bool is_array = has(parameter, "[");
    if (has(parameter, ".u64") && !is_array) return POINTER;
    if (has(parameter, ".align 64 ") && has(parameter, ".b8") && has(parameter, "[128]"))
        return MAP;
    return OTHER;
}

/* Where the text goes on behind an entry's parameters: directives and the body, or ";" of a
 * declaration. */
static kiln_str behind(kiln_str payload, kiln_str parameters) {
    size_t at = (size_t)(parameters.data - payload.data) + parameters.size;
    at += at < payload.size; /* the parenthesis */
    while (at < payload.size && (payload.data[at] == ' ' || payload.data[at] == '\n')) at++;
    return kiln_str_slice(payload, at, payload.size);
}

/* The parameters of the entry's definition, which compilers may declare before. The payload has the
 * entry. */
static kiln_str parameters_of(kiln_str payload, kiln_str entry) {
    kiln_str parameters, next;
    KILN_CHECK(kiln_text_payload_find(payload, ".entry", entry, &parameters));
    for (;; parameters = next) {
        const kiln_str rest = behind(payload, parameters);
        const bool is_declaration = rest.size > 0 && rest.data[0] == ';';
        if (!is_declaration || !kiln_text_payload_find(rest, ".entry", entry, &next))
            return parameters;
    }
}

/* Takes the next parameter from the front of those that are left; false: there is none. */
static bool next_parameter(kiln_str *left, parameter_kind *out_kind) {
    const char word[] = ".param";
    const size_t size = sizeof word - 1;
    size_t begin = 0;
    while (begin + size <= left->size && memcmp(left->data + begin, word, size) != 0) begin++;
    if (begin + size > left->size) return false;
    size_t end = begin + size;
    while (end < left->size && left->data[end] != ',') end++;
    *out_kind = kind_of(kiln_str_slice(*left, begin, end));
    *left = kiln_str_slice(*left, end, left->size);
    return true;
}

/* The number of groups of a cluster along each axis, "NX, NY, NZ" with NY and NZ left out or not.
 */
static uint32_t read_cluster(kiln_str text) {
    uint64_t product = 1;
    for (uint32_t axis = 0; axis < 3; axis++) {
        size_t i = 0;
        uint64_t number = 0;
        while (i < text.size && (text.data[i] == ' ' || text.data[i] == '\t')) i++;
        const size_t first = i;
        for (; i < text.size && text.data[i] >= '0' && text.data[i] <= '9' && i < first + 9; i++)
            number = 10 * number + (uint64_t)(text.data[i] - '0');
        if (i == first) break;
        product = axis > 0 && number != 1 ? 0 : product * number;
        if (i == text.size || text.data[i] != ',') break;
        text = kiln_str_slice(text, i + 1, text.size);
    }
    return (uint32_t)product;
}

/* Groups along x in a cluster of the code, from the directives between parameters and body; 1:
 * without clusters; 0: clusters along other axes. */
static uint32_t cluster_of(kiln_str payload, kiln_str parameters) {
    const char word[] = ".reqnctapercluster";
    const size_t size = sizeof word - 1;
    kiln_str directives = behind(payload, parameters);
    directives.size = kiln_str_find_char(directives, '{');
    for (size_t i = 0; i + size <= directives.size; i++)
        if (!memcmp(directives.data + i, word, size))
            return read_cluster(kiln_str_slice(directives, i + size, directives.size));
    return 1;
}

/* ---- checks ---------------------------------------------------------------------------------- */

/* A launch must pass exactly the parameters that the code has: the driver reads as many bytes of
 * each as the code says. */
static kiln_status check_parameters(kiln_str text, const kiln_manifest_launch *launch) {
    const uint32_t pointers = launch->arg_count + (launch->scratch_bytes[KILN_MEMORY_DEVICE] > 0);
    uint32_t count = 0, of_kind[OTHER + 1] = {0};
    bool in_order = true;
    parameter_kind kind;
    while (next_parameter(&text, &kind)) {
        in_order &= count++ < pointers || kind != POINTER;
        of_kind[kind]++;
    }
    if (of_kind[OTHER] > 0 || of_kind[POINTER] != pointers || of_kind[MAP] != launch->map_count)
        return KILN_ERROR(DATA_LOSS,
                          "the code has %u parameters: %u pointers and %u tensor maps; the launch "
                          "passes %u pointers and %u tensor maps",
                          count, of_kind[POINTER], of_kind[MAP], pointers, launch->map_count);
    if (!in_order) return KILN_ERROR(DATA_LOSS, "the code has tensor maps in front of pointers");
    return KILN_OK;
}

static kiln_status check_clusters(uint32_t cluster, const kiln_manifest_launch *launch,
                                  const kiln_target *target) {
    const uint32_t wanted = KILN_MAX(launch->cluster, 1);
    if (cluster != wanted)
        return KILN_ERROR(DATA_LOSS,
                          "the code is for clusters of %u groups along x, the launch for %u",
                          cluster, wanted);
    if (kiln_launch_has_cluster_or_maps(launch) &&
        (!target->gpu || target->gpu->capability < CAPABILITY_OF_CLUSTERS))
        return KILN_ERROR(FAILED_PRECONDITION,
                          "it has clusters or tensor maps, which devices before sm_%u lack; the "
                          "target is sm_%u",
                          CAPABILITY_OF_CLUSTERS, target->gpu ? target->gpu->capability : 0);
    return KILN_OK;
}

static kiln_status check_axes(const kiln_manifest_launch *launch) {
    if (launch->grid[1] > GRID_YZ_MAX || launch->grid[2] > GRID_YZ_MAX)
        return KILN_ERROR(FAILED_PRECONDITION,
                          "%u by %u groups along y and z; CUDA has at most %u each",
                          launch->grid[1], launch->grid[2], GRID_YZ_MAX);
    if (launch->group[2] > GROUP_Z_MAX)
        return KILN_ERROR(FAILED_PRECONDITION, "a group of %u threads along z; CUDA has at most %u",
                          launch->group[2], GROUP_Z_MAX);
    return KILN_OK;
}

static kiln_status check_launch(const kiln_artefact *artefact, const kiln_manifest_launch *launch,
                                const kiln_target *target) {
    const kiln_str payload = kiln_artefact_payload(artefact, launch->payload);
    const kiln_str parameters = parameters_of(payload, launch->entry);
    kiln_status st = check_axes(launch);
    if (!st) st = check_parameters(parameters, launch);
    return st ? st : check_clusters(cluster_of(payload, parameters), launch, target);
}

kiln_status kiln_cuda_check(const kiln_artefact *artefact, const kiln_target *target) {
    const kiln_manifest *manifest = &artefact->manifest;
    kiln_status st = kiln_text_payload_check(artefact, target, KILN_PAYLOAD_PTX, ".entry");
    for (uint32_t i = 0; !st && i < manifest->launch_count; i++)
        st = kiln_status_note(check_launch(artefact, &manifest->launch[i], target), "launch %u", i);
    return st;
}
