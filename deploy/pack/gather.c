#include "deploy/pack/gather.h"

#include <string.h>

#include "deploy/runtime/module_read.h"

static const kiln_plan_pair *find(const kiln_module_plan *plan, const char *key) {
    for (uint32_t i = 0; i < plan->metadata_count; i++)
        if (kiln_str_is(plan->metadata[i].key, key)) return &plan->metadata[i];
    return NULL;
}

static uint64_t number_of(const kiln_module_plan *plan, const char *key) {
    const kiln_plan_pair *pair = find(plan, key);
    uint64_t number = 0;
    return pair && kiln_str_to_u64(pair->value, &number) ? number : 0;
}

static kiln_str sum_of(const kiln_module_sizes *sizes, const char *key, kiln_arena *arena) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < sizes->bucket_count; i++)
        sum += number_of(&sizes->bucket[i].plan, key);
    return kiln_str_from(kiln_arena_printf(arena, "%llu", (unsigned long long)sum));
}

/* Copies the first part's metadata for all parts. */
static void share_metadata(kiln_module_sizes *sizes, kiln_arena *arena) {
    const kiln_module_plan *first = &sizes->bucket[0].plan;
    kiln_plan_pair *shared = KILN_ARENA_ARRAY(arena, kiln_plan_pair, first->metadata_count);
    uint32_t count = 0;
    for (uint32_t i = 0; i < first->metadata_count; i++) {
        kiln_plan_pair pair = first->metadata[i];
        if (kiln_str_is(pair.key, "median_ns")) continue;
        if (kiln_str_is(pair.key, "tasks")) pair.value = sum_of(sizes, "tasks", arena);
        if (kiln_str_is(pair.key, "tuned")) pair.value = sum_of(sizes, "tuned", arena);
        shared[count++] = pair;
    }
    for (uint32_t i = 0; i < sizes->bucket_count; i++) {
        sizes->bucket[i].plan.metadata = shared;
        sizes->bucket[i].plan.metadata_count = count;
    }
}

kiln_status kiln_module_gather(const kiln_gather_part *part, uint32_t count, kiln_str dim,
                               kiln_arena *arena, kiln_module_sizes *out_sizes) {
    kiln_module_sizes sizes = {.dim = dim,
                               .bucket_count = count,
                               .bucket = KILN_ARENA_ARRAY(arena, kiln_module_bucket, count)};
    for (uint32_t i = 0; i < count; i++) {
        kiln_module_sizes read;
        size_t constant_bytes;
        kiln_status st = kiln_module_decode(part[i].bytes, arena, &read, &constant_bytes);
        if (!st && read.dim.size) st = KILN_ERROR(INVALID_ARGUMENT, "it has several sizes already");
        if (st) return kiln_status_note(st, "size %lld", (long long)part[i].size);
        sizes.bucket[i] = (kiln_module_bucket){
            part[i].size, number_of(&read.bucket->plan, "median_ns"), read.bucket->plan};
    }
    share_metadata(&sizes, arena);
    kiln_status st = kiln_module_sizes_check(&sizes);
    if (!st) *out_sizes = sizes;
    return st;
}
