/* Modules of several sizes: checks of their plans, and the choice of the plan for a run. */
#include "deploy/runtime/sizes.h"

#include <string.h>

#include "base/check.h"
#include "base/macros.h"

/* The list of ports, and how many there are. */
static const kiln_plan_port *ports_of(const kiln_module_plan *plan, bool is_output,
                                      uint32_t *out_count) {
    *out_count = is_output ? plan->output_count : plan->input_count;
    return is_output ? plan->output : plan->input;
}

static const kiln_shape *shape_of(const kiln_module_sizes *sizes, uint32_t bucket, bool is_output,
                                  uint32_t port) {
    uint32_t count;
    return &ports_of(&sizes->bucket[bucket].plan, is_output, &count)[port].shape;
}

/* Whether the extent along `axis` is `factor` times the size in each bucket, and all else is
 * equal. */
static bool fits(const kiln_module_sizes *sizes, bool is_output, uint32_t port, uint32_t axis,
                 int64_t factor) {
    const kiln_shape *first = shape_of(sizes, 0, is_output, port);
    for (uint32_t b = 0; b < sizes->bucket_count; b++) {
        const kiln_shape *shape = shape_of(sizes, b, is_output, port);
        for (uint32_t d = 0; d < shape->rank; d++) {
            const int64_t wanted = d == axis ? factor * sizes->bucket[b].size : first->dim[d];
            if (shape->dim[d] != wanted) return false;
        }
    }
    return true;
}

bool kiln_module_find_axis(const kiln_module_sizes *sizes, bool is_output, uint32_t port,
                           kiln_module_axis *out_axis) {
    const kiln_shape *first = shape_of(sizes, 0, is_output, port);
    kiln_module_axis found = {.axis = KILN_MODULE_NO_AXIS};
    if (!fits(sizes, is_output, port, KILN_MODULE_NO_AXIS, 0)) {
        found.axis = 0;
        while (found.axis < first->rank) {
            found.factor = first->dim[found.axis] / sizes->bucket[0].size;
            if (found.factor > 0 && fits(sizes, is_output, port, found.axis, found.factor)) break;
            found.axis++;
        }
        if (found.axis == first->rank) return false;
    }
    *out_axis = found;
    return true;
}

static kiln_status check_ports(const kiln_module_sizes *sizes, uint32_t bucket, bool is_output) {
    uint32_t count, other_count;
    const kiln_plan_port *first = ports_of(&sizes->bucket[0].plan, is_output, &count),
                         *other = ports_of(&sizes->bucket[bucket].plan, is_output, &other_count);
    const char *what = is_output ? "output" : "input";
    if (count != other_count)
        return KILN_ERROR(INVALID_ARGUMENT, "size %lld has %u %ss, size %lld %u",
                          (long long)sizes->bucket[bucket].size, other_count, what,
                          (long long)sizes->bucket[0].size, count);
    for (uint32_t i = 0; i < count; i++) {
        kiln_module_axis axis;
        if (!kiln_str_equal(first[i].name, other[i].name) || first[i].dtype != other[i].dtype ||
            first[i].shape.rank != other[i].shape.rank)
            return KILN_ERROR(INVALID_ARGUMENT, "size %lld has another %s %u",
                              (long long)sizes->bucket[bucket].size, what, i);
        if (sizes->by_rows && !kiln_module_find_axis(sizes, is_output, i, &axis))
            return KILN_ERROR(INVALID_ARGUMENT, "%s %u has no axis of rows", what, i);
    }
    return KILN_OK;
}

static kiln_status check_bucket(const kiln_module_sizes *sizes, uint32_t index) {
    const kiln_module_bucket *bucket = &sizes->bucket[index];
    const int64_t before = index > 0 ? bucket[-1].size : 0;
    if (bucket->size <= before || bucket->size > KILN_MODULE_SIZE_MAX)
        return KILN_ERROR(INVALID_ARGUMENT, "size %lld after size %lld", (long long)bucket->size,
                          (long long)before);
    if (index == 0) return KILN_OK;
    kiln_status st = check_ports(sizes, index, false);
    return st ? st : check_ports(sizes, index, true);
}

kiln_status kiln_module_sizes_check(const kiln_module_sizes *sizes) {
    kiln_status st = KILN_OK;
    if (sizes->bucket_count == 0 || sizes->bucket_count > KILN_MODULE_BUCKETS_MAX)
        return KILN_ERROR(INVALID_ARGUMENT, "%u sizes, 1 to %u are allowed", sizes->bucket_count,
                          KILN_MODULE_BUCKETS_MAX);
    if (sizes->dim.size > KILN_MODULE_NAME_MAX ||
        memchr(sizes->dim.data ? sizes->dim.data : "", 0, sizes->dim.size))
        return KILN_ERROR(INVALID_ARGUMENT, "the dimension's name is too long or has a NUL in it");
    for (uint32_t i = 0; !st && i < sizes->bucket_count; i++) {
        st = kiln_module_plan_check(&sizes->bucket[i].plan);
        if (sizes->dim.size && !st) st = check_bucket(sizes, i);
        if (sizes->dim.size)
            st = kiln_status_note(st, "size %lld", (long long)sizes->bucket[i].size);
    }
    if (!st && !sizes->dim.size && sizes->bucket_count > 1)
        st = KILN_ERROR(INVALID_ARGUMENT, "%u sizes of no dimension", sizes->bucket_count);
    return st;
}

/* ---- running --------------------------------------------------------------------------------- */

uint32_t kiln_sizes_choose(const kiln_module_sizes *sizes, int64_t size) {
    uint32_t best = 0;
    uint64_t best_ns = UINT64_MAX;
    bool known = true;
    while (best + 1 < sizes->bucket_count && sizes->bucket[best].size < size) best++;
    if (!sizes->by_rows || sizes->bucket[best].size == size) return best;
    const uint32_t pads = best;
    for (uint32_t i = 0; i < sizes->bucket_count; i++) {
        const kiln_module_bucket *b = &sizes->bucket[i];
        const uint64_t parts = (uint64_t)((size + b->size - 1) / b->size);
        known = known && b->median_ns > 0 && b->median_ns < UINT64_MAX / parts;
        if (!known) return pads;
        if (b->median_ns * parts < best_ns) {
            best = i;
            best_ns = b->median_ns * parts;
        }
    }
    return best;
}

void kiln_sizes_copy_rows(const kiln_rows *from, int64_t first_from, const kiln_rows *to,
                          int64_t first_to, int64_t count) {
    const size_t bytes = (size_t)count * from->row_bytes;
    KILN_CHECK(from->row_bytes == to->row_bytes && from->outer == to->outer);
    for (size_t o = 0; o < from->outer; o++)
        memcpy(to->data + (o * (size_t)to->extent + (size_t)first_to) * to->row_bytes,
               from->data + (o * (size_t)from->extent + (size_t)first_from) * from->row_bytes,
               bytes);
}

void kiln_sizes_clear_rows(const kiln_rows *in, int64_t first) {
    const size_t bytes = (size_t)(in->extent - first) * in->row_bytes;
    for (size_t o = 0; o < in->outer; o++)
        memset(in->data + (o * (size_t)in->extent + (size_t)first) * in->row_bytes, 0, bytes);
}
