#include "cli/wasm_file.h"

#include <jansson.h>
#include <string.h>

#include "base/dtype.h"
#include "base/wasm.h"
#include "deploy/runtime/module_open.h"

#define PLAN_SECTION "kiln.plan"
#define ELEMENTS_MAX ((int64_t)1 << 31) /* of a port: addresses have 32 bits */

bool kiln_wasm_file_is(kiln_str bytes) {
    return bytes.size >= 4 && memcmp(bytes.data, KILN_WASM_HEAD, 4) == 0;
}

/* The plan, or NULL. */
static json_t *plan_of(kiln_str bytes) {
    kiln_str plan;
    return kiln_wasm_find_custom(bytes, PLAN_SECTION, &plan)
               ? json_loadb(plan.data, plan.size, 0, NULL)
               : NULL;
}

static kiln_str text_of(const json_t *object, const char *name, kiln_arena *arena) {
    const char *text = json_string_value(json_object_get(object, name));
    return kiln_str_from(text ? kiln_str_dup(arena, kiln_str_from(text)) : "");
}

static bool read_shape(const json_t *list, kiln_shape *shape) {
    int64_t elements = 1;
    shape->rank = (uint32_t)json_array_size(list);
    if (!json_is_array(list) || shape->rank > KILN_RANK_MAX) return false;
    for (uint32_t d = 0; d < shape->rank; d++) {
        const int64_t extent = json_integer_value(json_array_get(list, d));
        if (extent < 0 || extent > ELEMENTS_MAX || (extent && elements > ELEMENTS_MAX / extent))
            return false;
        shape->dim[d] = extent;
        elements *= extent;
    }
    return true;
}

/* A port, and the buffer that it has alone. */
static bool read_port(const json_t *json, uint32_t index, kiln_module_storage storage,
                      kiln_arena *arena, kiln_module_plan *plan, kiln_plan_port *port) {
    port->name = text_of(json, "name", arena);
    port->buffer = plan->buffer_count++;
    if (!port->name.size || port->name.size > KILN_MODULE_NAME_MAX ||
        !kiln_dtype_find(text_of(json, "dtype", arena), &port->dtype) ||
        !read_shape(json_object_get(json, "shape"), &port->shape))
        return false;
    plan->buffer[port->buffer] = (kiln_plan_buffer){
        .storage = storage,
        .size_bytes = (uint64_t)kiln_shape_count(&port->shape) * kiln_dtype_size(port->dtype),
        .source = index};
    return true;
}

static bool read_ports(const json_t *list, kiln_module_storage storage, kiln_arena *arena,
                       kiln_module_plan *plan, kiln_plan_port **out_port, uint32_t *out_count) {
    const size_t count = json_array_size(list);
    if (!json_is_array(list) || count > KILN_MODULE_PORTS_MAX) return false;
    *out_port = KILN_ARENA_ARRAY(arena, kiln_plan_port, count + 1);
    *out_count = (uint32_t)count;
    for (uint32_t i = 0; i < count; i++)
        if (!read_port(json_array_get(list, i), i, storage, arena, plan, &(*out_port)[i]))
            return false;
    return true;
}

static bool read_metadata(const json_t *object, kiln_arena *arena, kiln_module_plan *plan) {
    const size_t count = json_object_size(object);
    const char *key;
    json_t *value;
    if (count > KILN_MODULE_METADATA_MAX) return false;
    plan->metadata = KILN_ARENA_ARRAY(arena, kiln_plan_pair, count + 1);
    json_object_foreach((json_t *)(uintptr_t)object, key, value) {
        plan->metadata[plan->metadata_count++] = (kiln_plan_pair){
            kiln_str_from(kiln_str_dup(arena, kiln_str_from(key))), text_of(object, key, arena)};
    }
    return true;
}

/* `ports`: the object that has them, of a bucket or the whole. */
static bool read_bucket(const json_t *json, const json_t *ports, kiln_arena *arena,
                        kiln_module_bucket *bucket) {
    kiln_module_plan *plan = &bucket->plan;
    const int64_t threads = json_integer_value(json_object_get(json, "threads"));
    bucket->size = json_integer_value(json_object_get(ports, "size"));
    plan->threads = (uint32_t)threads;
    plan->buffer = KILN_ARENA_ARRAY(arena, kiln_plan_buffer, 2 * KILN_MODULE_PORTS_MAX);
    return threads >= 1 && threads <= 1024 && bucket->size >= 0 &&
           bucket->size <= KILN_MODULE_SIZE_MAX &&
           read_metadata(json_object_get(json, "metadata"), arena, plan) &&
           read_ports(json_object_get(ports, "inputs"), KILN_STORAGE_INPUT, arena, plan,
                      &plan->input, &plan->input_count) &&
           read_ports(json_object_get(ports, "outputs"), KILN_STORAGE_OUTPUT, arena, plan,
                      &plan->output, &plan->output_count);
}

static bool belong_together(const kiln_module_sizes *sizes) {
    for (uint32_t i = 0; i < sizes->bucket_count; i++) {
        const kiln_module_plan *first = &sizes->bucket[0].plan, *plan = &sizes->bucket[i].plan;
        if (sizes->bucket[i].size <= (i ? sizes->bucket[i - 1].size : 0) ||
            plan->input_count != first->input_count || plan->output_count != first->output_count)
            return false;
    }
    return true;
}

static bool read_module(const json_t *json, kiln_arena *arena, kiln_module_sizes *sizes) {
    const json_t *buckets = json_object_get(json, "buckets");
    const size_t count = buckets ? json_array_size(buckets) : 1;
    if (count < 1 || count > KILN_MODULE_BUCKETS_MAX) return false;
    sizes->dim = text_of(json, "dim", arena);
    sizes->by_rows = json_is_true(json_object_get(json, "by_rows"));
    sizes->bucket_count = (uint32_t)count;
    sizes->bucket = KILN_ARENA_ARRAY(arena, kiln_module_bucket, count);
    for (uint32_t i = 0; i < count; i++)
        if (!read_bucket(json, buckets ? json_array_get(buckets, i) : json, arena,
                         &sizes->bucket[i]))
            return false;
    return buckets ? sizes->dim.size && belong_together(sizes) : !sizes->dim.size;
}

kiln_status kiln_wasm_file_inspect(kiln_str bytes, kiln_arena *process, kiln_module **out_module) {
    kiln_module_sizes sizes = {0};
    json_t *json = plan_of(bytes);
    const bool is_right = json && read_module(json, process, &sizes);
    json_decref(json);
    if (!is_right)
        return KILN_ERROR(DATA_LOSS, "this WebAssembly is no module of Kiln, or is damaged");
    return kiln_module_of_ports(&sizes, out_module);
}
