#include "rpc-server/kernel_set.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/file.h"
#include "base/layout.h"
#include "base/macros.h"

/* ---- Artefacts ---- */

/* Checks that sizes do not overflow. */
static kiln_status check_shapes(const kiln_manifest *manifest) {
    kiln_status st = NULL;
    for (uint32_t i = 0; !st && i < manifest->arg_count; i++) {
        kiln_shape physical =
            kiln_layout_physical(&manifest->arg[i].layout, &manifest->arg[i].shape);
        size_t bytes = 0;
        st = kiln_shape_bytes(&physical, manifest->arg[i].dtype, &bytes);
    }
    return st;
}

/* Decodes a mapped artefact and finds its executor. */
static kiln_status decode(kiln_kernel_set *set, kiln_kernel_set_item *k, const kiln_executor *only,
                          kiln_target_kind kind, kiln_arena *arena) {
    kiln_status st =
        kiln_artefact_decode((kiln_str){k->file.data, k->file.size}, arena, &k->artefact);
    if (!st) st = check_shapes(&k->artefact.manifest);
    if (st) return st;
    const kiln_manifest *manifest = &k->artefact.manifest;
    if (!only && manifest->payload_kind != kiln_payload_of(kind))
        return KILN_ERROR(INVALID_ARGUMENT,
                          "the artefact has %s code, but the slot is for %s targets",
                          kiln_payload_name(manifest->payload_kind), kiln_target_kind_name(kind));
    const kiln_executor *executor = only ? only : kiln_executor_for(manifest->payload_kind);
    if (!executor)
        return KILN_ERROR(UNIMPLEMENTED, "this board has no executor for payloads of kind %d",
                          (int)manifest->payload_kind);
    if (set->executor && set->executor != executor)
        return KILN_ERROR(INVALID_ARGUMENT, "the rivals need different executors");
    set->executor = executor;
    set->threads = KILN_MAX(set->threads, manifest->threads_max);
    k->output_bytes = kiln_executor_output_bytes(manifest);
    return NULL;
}

kiln_status kiln_kernel_set_open(const char *const *path, uint32_t count, const kiln_executor *only,
                                 kiln_target_kind kind, kiln_arena *arena, kiln_kernel_set *out_set,
                                 kiln_outcome *out_outcome) {
    kiln_status st = NULL;
    *out_set = (kiln_kernel_set){.count = count, .threads = 1, .outputs_fd = -1};
    out_set->kernel = KILN_ARENA_ARRAY(arena, kiln_kernel_set_item, count);
    for (uint32_t i = 0; !st && i < count; i++) {
        kiln_kernel_set_item *k = &out_set->kernel[i];
        k->path = kiln_str_dup(arena, kiln_str_from(path[i]));
        *out_outcome = KILN_OUTCOME_INFRA;
        st = kiln_file_map(k->path, &k->file);
        if (st) return st;
        *out_outcome = KILN_OUTCOME_LINK_ERROR;
        st = decode(out_set, k, only, kind, arena);
    }
    return st;
}

kiln_status kiln_kernel_set_open_module(const char *module_path, const char *inputs_path,
                                        const kiln_msg_module_run *how, kiln_arena *arena,
                                        kiln_kernel_set *out_set) {
    const char *const path[] = {module_path, inputs_path};
    *out_set =
        (kiln_kernel_set){.count = 1, .is_module = true, .threads = how->threads, .outputs_fd = -1};
    out_set->kernel = KILN_ARENA_ARRAY(arena, kiln_kernel_set_item, KILN_ARRAY_COUNT(path));
    out_set->kernel[0].output_bytes = how->output_bytes;
    kiln_status st = NULL;
    for (uint32_t i = 0; !st && i < KILN_ARRAY_COUNT(path); i++) {
        out_set->kernel[i].path = kiln_str_dup(arena, kiln_str_from(path[i]));
        st = kiln_file_map(path[i], &out_set->kernel[i].file);
    }
    return st;
}

static uint32_t file_count(const kiln_kernel_set *set) {
    return set->count + (set->is_module ? 1u : 0u);
}

kiln_status kiln_kernel_set_open_files(const kiln_kernel_set *set, int *out_fd) {
    for (uint32_t i = 0; i < file_count(set); i++) {
        out_fd[i] = open(set->kernel[i].path, O_RDONLY | O_CLOEXEC);
        if (out_fd[i] < 0)
            return KILN_ERROR(NOT_FOUND, "%s: %s", set->kernel[i].path, strerror(errno));
    }
    return NULL;
}

void kiln_kernel_set_close(kiln_kernel_set *set) {
    for (uint32_t i = 0; set->kernel && i < file_count(set); i++)
        kiln_file_unmap(&set->kernel[i].file);
    kiln_fd_close(&set->outputs_fd);
    *set = (kiln_kernel_set){.outputs_fd = -1};
}

/* ---- Outputs ---- */

static uint64_t outputs_bytes(const kiln_kernel_set *set) {
    uint64_t total = 0;
    if (set->is_module) return set->kernel[0].output_bytes;
    for (uint32_t i = 0; i < set->count; i++) total += 2 * set->kernel[i].output_bytes;
    return total;
}

kiln_status kiln_kernel_set_create_outputs(kiln_kernel_set *set, uint64_t bytes_max) {
    kiln_status st = kiln_fail_at(KILN_FAIL_CHILD_OUTPUTS);
    if (st) return st;
    if (outputs_bytes(set) > KILN_MIN(bytes_max, SIZE_MAX / 2))
        return KILN_ERROR(RESOURCE_EXHAUSTED,
                          "the outputs take %llu bytes, more than this board has for a run",
                          (unsigned long long)outputs_bytes(set));
    set->outputs_fd = memfd_create("kiln-outputs", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (set->outputs_fd < 0 || ftruncate(set->outputs_fd, (off_t)outputs_bytes(set)) != 0 ||
        fcntl(set->outputs_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "memory for the outputs: %s", strerror(errno));
    return NULL;
}

/* ---- Judging ---- */

/* A rival's share of a result. */
static kiln_msg_rival_result rival_of(const kiln_msg_trial_result *result) {
    return (kiln_msg_rival_result){
        .outcome = result->outcome,
        .samples_ns = result->samples_ns,
        .runs = result->runs,
        .stop = result->stop,
        .error = result->error,
        .max_abs_error = result->max_abs_error,
        .relative_error = result->relative_error,
        .checked = result->checked,
        .text = kiln_str_slice(result->text, 0, KILN_MESSAGES_PROSE),
    };
}

/* Judges each kernel by its outputs. */
static void judge_kernels(const kiln_kernel_set *set, const char *outputs,
                          const kiln_evidence *shared, kiln_arena *arena,
                          kiln_msg_trial_result *result) {
    kiln_msg_rival_result *rival = KILN_ARENA_ARRAY(arena, kiln_msg_rival_result, set->count - 1);
    for (uint32_t i = 0; i < set->count; i++) {
        const kiln_kernel_set_item *k = &set->kernel[i];
        kiln_evidence evidence = *shared;
        evidence.manifest = &k->artefact.manifest;
        evidence.exact = set->executor->exact;
        evidence.first = outputs;
        evidence.last = outputs + k->output_bytes;
        evidence.timing = &k->timing;
        if (set->count > 1) evidence.race_ns = 0; /* kernels in turns are not raced out */
        kiln_msg_trial_result verdict = {0};
        kiln_verdict_of(&evidence, arena, i ? &verdict : result);
        if (i) rival[i - 1] = rival_of(&verdict);
        outputs += 2 * k->output_bytes;
    }
    result->rivals.item = rival;
    result->rivals.count = set->count - 1;
}

static kiln_status map_outputs(const kiln_kernel_set *set, kiln_str *out_outputs) {
    size_t size = KILN_MAX((size_t)outputs_bytes(set), 1);
    void *data = mmap(NULL, size, PROT_READ, MAP_SHARED, set->outputs_fd, 0);
    if (data == MAP_FAILED)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "mapping the outputs: %s", strerror(errno));
    *out_outputs = (kiln_str){data, size};
    return NULL;
}

static void unmap_outputs(kiln_str outputs) {
    munmap((void *)(uintptr_t)outputs.data, outputs.size);
}

static kiln_status judge_outputs(const kiln_kernel_set *set, const kiln_evidence *shared,
                                 kiln_arena *arena, kiln_msg_trial_result *result) {
    kiln_str outputs = {0};
    kiln_status st = map_outputs(set, &outputs);
    if (st) return st;
    judge_kernels(set, outputs.data, shared, arena, result);
    unmap_outputs(outputs);
    return NULL;
}

kiln_status kiln_kernel_set_keep(const kiln_kernel_set *set, const kiln_blob_store_options *blobs,
                                 kiln_msg_blob_ref *out_blob) {
    kiln_str outputs = {0};
    kiln_blob_store *store = NULL;
    kiln_status st = kiln_fail_at(KILN_FAIL_CHILD_JUDGE);
    if (!st) st = map_outputs(set, &outputs);
    if (st) return st;
    out_blob->size = outputs.size;
    st = kiln_blob_store_open(blobs, &store);
    if (!st) st = kiln_blob_store_put(store, outputs, &out_blob->digest);
    kiln_blob_store_close(store);
    unmap_outputs(outputs);
    return st ? kiln_status_note(st, "keeping the outputs") : NULL;
}

/* A child that forges drift gains nothing, because results out of band are marked. A ratio above
 * the bound stays out of band. */
static double believable(double ratio) {
    return ratio > 0 ? KILN_MIN(ratio, KILN_DRIFT_RATIO_MAX) : 0;
}

kiln_drift_ratio kiln_kernel_set_drift(const kiln_kernel_set *set, uint32_t *out_again) {
    kiln_drift_ratio worst = {0};
    uint32_t again = 0;
    for (uint32_t i = 0; i < set->count; i++) {
        const kiln_timing *timing = &set->kernel[i].timing;
        worst.arithmetic = KILN_MAX(worst.arithmetic, believable(timing->drift.arithmetic));
        worst.memory = KILN_MAX(worst.memory, believable(timing->drift.memory));
        again += timing->again_count;
    }
    *out_again = again;
    return worst;
}

kiln_status kiln_kernel_set_judge(const kiln_kernel_set *set, const char *reference_path,
                                  const kiln_evidence *shared, kiln_arena *arena,
                                  kiln_msg_trial_result *result) {
    kiln_mapping file = {0};
    kiln_reference reference;
    kiln_evidence evidence = *shared;
    kiln_status st = kiln_fail_at(KILN_FAIL_CHILD_JUDGE);
    if (!st) {
        evidence.reference = &reference;
        st = kiln_file_map(reference_path, &file);
        if (!st) st = kiln_reference_decode((kiln_str){file.data, file.size}, &reference);
    }
    if (!st) st = judge_outputs(set, &evidence, arena, result);
    kiln_file_unmap(&file);
    return st ? kiln_status_note(st, "judging the outputs") : NULL;
}
