#include "deploy/pack/module_write.h"

#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/integer.h"
#include "base/map.h"
#include "base/mpack.h"
#include "base/vec.h"

/* Places in the file of data shared by the plans: equal constants and kernels have one place. */
typedef struct places {
    uint64_t **offset;        /* [bucket][buffer] of constants, in their section */
    const kiln_str *constant; /* [constant_count] the bytes that are stored, in file order */
    uint64_t *constant_offset;
    uint32_t constant_count;
    uint32_t **kernel; /* [bucket][kernel] its number in the file */
    kiln_str *stored;  /* [stored_count] kernels in the file */
    uint32_t stored_count;
} places;

/* The place among `stored` of equal bytes; false: there are none yet, and then they belong at the
 * end. Other bytes of the same hash are never found by it. */
static bool find_equal(kiln_map *seen, const kiln_str *stored, uint32_t count, kiln_str bytes,
                       uint32_t *out_place) {
    const kiln_hash128 hash = kiln_hash128_of(bytes.data, bytes.size);
    const kiln_str key = {(const char *)&hash, sizeof hash};
    uint64_t place = count;
    *out_place = count;
    if (!kiln_map_find(seen, key, &place)) {
        (void)kiln_map_put(seen, key, count);
        return false;
    }
    if (!kiln_str_equal(stored[place], bytes)) return false;
    *out_place = (uint32_t)place;
    return true;
}

static void place_constants(const kiln_module_sizes *sizes, kiln_arena *arena, places *p) {
    kiln_map seen;
    KILN_VEC(kiln_str) constant = {0};
    KILN_VEC(uint64_t) offset = {0};
    uint64_t size = 0;
    kiln_map_init(&seen);
    p->offset = KILN_ARENA_ARRAY(arena, uint64_t *, sizes->bucket_count);
    for (uint32_t k = 0; k < sizes->bucket_count; k++) {
        const kiln_module_plan *plan = &sizes->bucket[k].plan;
        p->offset[k] = KILN_ARENA_ARRAY(arena, uint64_t, plan->buffer_count);
        for (uint32_t i = 0; i < plan->buffer_count; i++) {
            const kiln_plan_buffer *b = &plan->buffer[i];
            const kiln_str bytes = {b->data, (size_t)b->size_bytes};
            uint32_t place;
            if (b->storage != KILN_STORAGE_CONSTANT) continue;
            if (!find_equal(&seen, constant.data, constant.count, bytes, &place)) {
                kiln_vec_push_in(arena, &constant, bytes);
                kiln_vec_push_in(arena, &offset,
                                 KILN_ALIGN_UP(size, KILN_MODULE_SECTION_ALIGNMENT));
                size = offset.data[place] + b->size_bytes;
            }
            p->offset[k][i] = offset.data[place];
        }
    }
    kiln_map_deinit(&seen);
    p->constant = constant.data;
    p->constant_offset = offset.data;
    p->constant_count = constant.count;
}

static void place_kernels(const kiln_module_sizes *sizes, kiln_arena *arena, places *p) {
    kiln_map seen;
    KILN_VEC(kiln_str) stored = {0};
    kiln_map_init(&seen);
    p->kernel = KILN_ARENA_ARRAY(arena, uint32_t *, sizes->bucket_count);
    for (uint32_t k = 0; k < sizes->bucket_count; k++) {
        const kiln_module_plan *plan = &sizes->bucket[k].plan;
        p->kernel[k] = KILN_ARENA_ARRAY(arena, uint32_t, plan->kernel_count);
        for (uint32_t i = 0; i < plan->kernel_count; i++) {
            if (!find_equal(&seen, stored.data, stored.count, plan->kernel[i], &p->kernel[k][i]))
                kiln_vec_push_in(arena, &stored, plan->kernel[i]);
        }
    }
    kiln_map_deinit(&seen);
    p->stored = stored.data;
    p->stored_count = stored.count;
}

static uint32_t version_of(const kiln_module_sizes *sizes) {
    if (sizes->dim.size) return KILN_MODULE_VERSION_SIZES;
    return kiln_module_plan_is_plain(&sizes->bucket->plan) ? KILN_MODULE_VERSION_PLAIN
                                                           : KILN_MODULE_VERSION_FULL;
}

static void write_metadata(const kiln_module_sizes *sizes, const places *p, kiln_strbuf *out) {
    const kiln_module_plan *plan = &sizes->bucket->plan;
    (void)p;
    kiln_mpack_write_map(out, plan->metadata_count);
    for (uint32_t i = 0; i < plan->metadata_count; i++) {
        kiln_mpack_write_str(out, plan->metadata[i].key);
        kiln_mpack_write_str(out, plan->metadata[i].value);
    }
}

static void write_ports(const kiln_plan_port *port, uint32_t count, kiln_strbuf *out) {
    kiln_mpack_write_array(out, count);
    for (uint32_t i = 0; i < count; i++) {
        kiln_mpack_write_array(out, 4);
        kiln_mpack_write_str(out, port[i].name);
        kiln_mpack_write_u64(out, (uint64_t)port[i].dtype);
        kiln_mpack_write_array(out, port[i].shape.rank);
        for (uint32_t d = 0; d < port[i].shape.rank; d++)
            kiln_mpack_write_i64(out, port[i].shape.dim[d]);
        kiln_mpack_write_u64(out, port[i].buffer);
    }
}

static void write_both_ports(const kiln_module_plan *plan, kiln_strbuf *out) {
    write_ports(plan->input, plan->input_count, out);
    write_ports(plan->output, plan->output_count, out);
}

static void write_signature(const kiln_module_sizes *sizes, const places *p, kiln_strbuf *out) {
    (void)p;
    if (!sizes->dim.size) {
        kiln_mpack_write_array(out, 2);
        write_both_ports(&sizes->bucket->plan, out);
        return;
    }
    kiln_mpack_write_array(out, KILN_MODULE_SIZES_FIELDS);
    kiln_mpack_write_str(out, sizes->dim);
    kiln_mpack_write_u64(out, sizes->by_rows);
    kiln_mpack_write_array(out, sizes->bucket_count);
    for (uint32_t i = 0; i < sizes->bucket_count; i++) {
        kiln_mpack_write_array(out, KILN_MODULE_SIZE_FIELDS);
        kiln_mpack_write_i64(out, sizes->bucket[i].size);
        kiln_mpack_write_u64(out, sizes->bucket[i].median_ns);
        write_both_ports(&sizes->bucket[i].plan, out);
    }
}

static void write_kernels(const kiln_module_sizes *sizes, const places *p, kiln_strbuf *out) {
    (void)sizes;
    kiln_mpack_write_array(out, p->stored_count);
    for (uint32_t i = 0; i < p->stored_count; i++)
        kiln_mpack_write_bin(out, p->stored[i].data, p->stored[i].size);
}

/* The additions of version 2, each an array behind the fields of version 1. */
static void write_device(const kiln_plan_device *device, kiln_strbuf *out) {
    kiln_mpack_write_array(out, 3);
    kiln_mpack_write_u64(out, device->kind);
    kiln_mpack_write_u64(out, device->index);
    kiln_mpack_write_u64(out, device->arena_bytes);
}

static void write_movement(const kiln_plan_buffer *buffer, kiln_strbuf *out) {
    kiln_mpack_write_u64(out, buffer->device);
    kiln_mpack_write_i64(out, buffer->stride);
    kiln_mpack_write_u64(out, buffer->loop);
}

static void write_control(const kiln_plan_step *step, kiln_strbuf *out) {
    bool loop = step->action == KILN_ACTION_LOOP;
    kiln_mpack_write_u64(out, step->device);
    kiln_mpack_write_u64(out, step->action == KILN_ACTION_EVENT ? step->after : 0);
    kiln_mpack_write_u64(out, loop ? step->body_count : 0);
    kiln_mpack_write_u64(out, loop ? step->trip_max : 0);
    kiln_mpack_write_u64(out, loop ? step->count : KILN_PLAN_NONE);
    kiln_mpack_write_u64(out, loop ? step->condition : KILN_PLAN_NONE);
    kiln_mpack_write_u64(out, loop ? step->index : KILN_PLAN_NONE);
}

/* `kernel`: its number in the file. */
static void write_step(const kiln_plan_step *step, uint32_t kernel, bool plain, kiln_strbuf *out) {
    kiln_mpack_write_array(out, plain ? KILN_MODULE_STEP_FIELDS_PLAIN : KILN_MODULE_STEP_FIELDS);
    kiln_mpack_write_u64(out, (uint64_t)step->action);
    kiln_mpack_write_str(out, step->name);
    kiln_mpack_write_str(out, step->op);
    kiln_mpack_write_str(out, step->task);
    kiln_mpack_write_u64(out, kernel);
    kiln_mpack_write_u64(out, step->output_count);
    kiln_mpack_write_array(out, step->arg_count);
    for (uint32_t i = 0; i < step->arg_count; i++) kiln_mpack_write_u64(out, step->arg[i]);
    if (!plain) write_control(step, out);
}

static void write_one_plan(const kiln_module_plan *plan, const uint64_t *offset,
                           const uint32_t *kernel, bool plain, kiln_strbuf *out) {
    kiln_mpack_write_array(out, plain ? KILN_MODULE_PLAN_FIELDS_PLAIN : KILN_MODULE_PLAN_FIELDS);
    kiln_mpack_write_u64(out, plan->threads);
    kiln_mpack_write_u64(out, plan->arena_bytes);
    kiln_mpack_write_array(out, plan->buffer_count);
    for (uint32_t i = 0; i < plan->buffer_count; i++) {
        const kiln_plan_buffer *b = &plan->buffer[i];
        kiln_mpack_write_array(out,
                               plain ? KILN_MODULE_BUFFER_FIELDS_PLAIN : KILN_MODULE_BUFFER_FIELDS);
        kiln_mpack_write_u64(out, (uint64_t)b->storage);
        kiln_mpack_write_u64(out, b->size_bytes);
        kiln_mpack_write_u64(out, b->storage == KILN_STORAGE_CONSTANT ? offset[i] : b->offset);
        kiln_mpack_write_u64(out, b->source);
        if (!plain) write_movement(b, out);
    }
    kiln_mpack_write_array(out, plan->step_count);
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const kiln_plan_step *step = &plan->step[i];
        const bool calls = step->action == KILN_ACTION_KERNEL;
        write_step(step, calls ? kernel[step->kernel] : step->kernel, plain, out);
    }
    if (plain) return;
    kiln_mpack_write_array(out, plan->device_count);
    for (uint32_t i = 0; i < plan->device_count; i++) write_device(&plan->device[i], out);
}

static void write_plan(const kiln_module_sizes *sizes, const places *p, kiln_strbuf *out) {
    const uint32_t version = version_of(sizes);
    if (version == KILN_MODULE_VERSION_SIZES) kiln_mpack_write_array(out, sizes->bucket_count);
    for (uint32_t i = 0; i < sizes->bucket_count; i++)
        write_one_plan(&sizes->bucket[i].plan, p->offset[i], p->kernel[i],
                       version == KILN_MODULE_VERSION_PLAIN, out);
}

/* Appends zero bytes until `out` has `size` bytes. */
static void pad_to(kiln_strbuf *out, uint64_t size) {
    static const char zero[64];
    while (out->size < size)
        kiln_strbuf_append(out, zero, (size_t)KILN_MIN(size - out->size, sizeof zero));
}

typedef void (*section_writer)(const kiln_module_sizes *sizes, const places *p, kiln_strbuf *out);

static const struct {
    uint32_t number, alignment;
    section_writer write; /* NULL: constants, which are not copied */
} section_table[KILN_MODULE_SECTION_COUNT] = {
    {KILN_MODULE_METADATA, KILN_MODULE_SECTION_ALIGNMENT, write_metadata},
    {KILN_MODULE_SIGNATURE, KILN_MODULE_SECTION_ALIGNMENT, write_signature},
    {KILN_MODULE_KERNELS, KILN_MODULE_SECTION_ALIGNMENT, write_kernels},
    {KILN_MODULE_PLAN, KILN_MODULE_SECTION_ALIGNMENT, write_plan},
    {KILN_MODULE_CONSTANTS, KILN_MODULE_CONSTANT_ALIGNMENT, NULL},
};
_Static_assert(KILN_MODULE_INDEX_CONSTANTS == KILN_MODULE_SECTION_COUNT - 1,
               "constants follow everything that is copied");

static void put_u32(char *at, uint32_t value) { memcpy(at, &value, sizeof value); }
static void put_u64(char *at, uint64_t value) { memcpy(at, &value, sizeof value); }

/* Adds the constants to the parts, with zeros before each up to its offset. */
static void add_constants(const places *p, kiln_module_bytes *bytes) {
    static const char zeros[KILN_MODULE_SECTION_ALIGNMENT];
    uint64_t end = 0;
    for (uint32_t i = 0; i < p->constant_count; i++) {
        const kiln_str gap = {zeros, (size_t)(p->constant_offset[i] - end)};
        if (gap.size) bytes->part[bytes->part_count++] = gap;
        bytes->part[bytes->part_count++] = p->constant[i];
        end = p->constant_offset[i] + p->constant[i].size;
    }
    bytes->size += (size_t)end;
}

static void put_entry(char *head, uint32_t index, size_t offset, size_t size, uint64_t checksum) {
    char *entry = head + KILN_MODULE_HEADER_BYTES + index * KILN_MODULE_ENTRY_BYTES;
    put_u32(entry + KILN_MODULE_ENTRY_AT_KIND, section_table[index].number);
    put_u32(entry + KILN_MODULE_ENTRY_AT_ALIGNMENT, section_table[index].alignment);
    put_u64(entry + KILN_MODULE_ENTRY_AT_OFFSET, offset);
    put_u64(entry + KILN_MODULE_ENTRY_AT_SIZE, size);
    put_u64(entry + KILN_MODULE_ENTRY_AT_CHECKSUM, checksum);
}

/* Makes the sections behind room for header and table, then fills those in. */
static kiln_module_bytes encode(const kiln_module_sizes *sizes, const places *p,
                                kiln_arena *arena) {
    const size_t table_bytes =
        KILN_MODULE_HEADER_BYTES + KILN_MODULE_SECTION_COUNT * KILN_MODULE_ENTRY_BYTES;
    kiln_module_bytes bytes = {
        .part_count = 1,
        .part = KILN_ARENA_ARRAY(arena, kiln_str, 1 + 2 * (size_t)p->constant_count)};
    kiln_strbuf head = {0};
    pad_to(&head, table_bytes);
    for (uint32_t i = 0; i < KILN_MODULE_SECTION_COUNT; i++) {
        pad_to(&head, KILN_ALIGN_UP(head.size, section_table[i].alignment));
        const size_t offset = head.size;
        if (!section_table[i].write) continue;
        section_table[i].write(sizes, p, &head);
        put_entry(head.data, i, offset, head.size - offset,
                  kiln_hash64(head.data + offset, head.size - offset, 0));
    }
    add_constants(p, &bytes);
    put_entry(head.data, KILN_MODULE_INDEX_CONSTANTS, head.size, bytes.size,
              kiln_hash64_of_parts(bytes.part + 1, bytes.part_count - 1, 0));
    bytes.size += head.size;
    memcpy(head.data + KILN_MODULE_AT_MAGIC, KILN_MODULE_MAGIC, 8);
    put_u32(head.data + KILN_MODULE_AT_VERSION, version_of(sizes));
    put_u32(head.data + KILN_MODULE_AT_SECTION_COUNT, KILN_MODULE_SECTION_COUNT);
    put_u64(head.data + KILN_MODULE_AT_FILE_BYTES, bytes.size);
    put_u64(head.data + KILN_MODULE_AT_CHECKSUM,
            kiln_hash64(head.data, table_bytes, 0)); /* the field is zero while hashing */
    bytes.part[0] = kiln_strbuf_end(&head, arena);
    return bytes;
}

kiln_status kiln_module_encode_parts(const kiln_module_sizes *sizes, kiln_arena *arena,
                                     kiln_module_bytes *out_bytes) {
    places p;
    kiln_status st = kiln_module_sizes_check(sizes);
    if (st) return st;
    place_constants(sizes, arena, &p);
    place_kernels(sizes, arena, &p);
    if (p.stored_count > KILN_MODULE_KERNELS_MAX)
        return KILN_ERROR(INVALID_ARGUMENT, "%u kernels, at most %u are allowed", p.stored_count,
                          KILN_MODULE_KERNELS_MAX);
    *out_bytes = encode(sizes, &p, arena);
    return KILN_OK;
}

kiln_status kiln_module_encode_sizes(const kiln_module_sizes *sizes, kiln_strbuf *out) {
    kiln_arena scratch;
    kiln_module_bytes bytes = {0};
    kiln_arena_init(&scratch, 0);
    kiln_status st = kiln_module_encode_parts(sizes, &scratch, &bytes);
    for (uint32_t i = 0; i < bytes.part_count; i++) kiln_strbuf_str(out, bytes.part[i]);
    kiln_arena_deinit(&scratch);
    return st;
}

kiln_status kiln_module_encode(const kiln_module_plan *plan, kiln_strbuf *out) {
    kiln_module_bucket only = {.plan = *plan};
    return kiln_module_encode_sizes(&(kiln_module_sizes){.bucket_count = 1, .bucket = &only}, out);
}

kiln_status kiln_module_write(const kiln_module_plan *plan, const char *path) {
    kiln_strbuf bytes = {0};
    kiln_status st = kiln_module_encode(plan, &bytes);
    if (!st) st = kiln_file_write(path, kiln_strbuf_view(&bytes), 0644);
    kiln_strbuf_deinit(&bytes);
    return kiln_status_note(st, "writing module %s", path);
}
