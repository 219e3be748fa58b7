#include "deploy/pack/module_write.h"

#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/integer.h"
#include "base/map.h"
#include "base/mpack.h"

/* Where each constant buffer lies in the constants section: equal bytes share a place. */
typedef struct constant_places {
    uint64_t *offset; /* [buffer_count] */
    uint32_t *order;  /* [order_count] the buffers whose bytes are stored, in file order */
    uint32_t order_count;
    uint64_t size;
} constant_places;

static void place_constants(const kiln_module_plan *plan, constant_places *places) {
    kiln_map seen;
    kiln_map_init(&seen);
    for (uint32_t i = 0; i < plan->buffer_count; i++) {
        const kiln_plan_buffer *b = &plan->buffer[i];
        if (b->storage != KILN_STORAGE_CONSTANT) continue;
        kiln_digest digest;
        kiln_digest_of(b->data, (size_t)b->size_bytes, &digest);
        kiln_str key = {(const char *)digest.byte, sizeof digest.byte};
        if (kiln_map_find(&seen, key, &places->offset[i])) continue;
        places->offset[i] = KILN_ALIGN_UP(places->size, KILN_MODULE_SECTION_ALIGNMENT);
        places->size = places->offset[i] + b->size_bytes;
        places->order[places->order_count++] = i;
        (void)kiln_map_put(&seen, key, places->offset[i]);
    }
    kiln_map_deinit(&seen);
}

static void write_metadata(const kiln_module_plan *plan, const constant_places *places,
                           kiln_strbuf *out) {
    (void)places;
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

static void write_signature(const kiln_module_plan *plan, const constant_places *places,
                            kiln_strbuf *out) {
    (void)places;
    kiln_mpack_write_array(out, 2);
    write_ports(plan->input, plan->input_count, out);
    write_ports(plan->output, plan->output_count, out);
}

static void write_kernels(const kiln_module_plan *plan, const constant_places *places,
                          kiln_strbuf *out) {
    (void)places;
    kiln_mpack_write_array(out, plan->kernel_count);
    for (uint32_t i = 0; i < plan->kernel_count; i++)
        kiln_mpack_write_bin(out, plan->kernel[i].data, plan->kernel[i].size);
}

/* What version 2 has beyond version 1, each as an array behind the fields of before. */
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

static void write_step(const kiln_plan_step *step, bool plain, kiln_strbuf *out) {
    kiln_mpack_write_array(out, plain ? KILN_MODULE_STEP_FIELDS_PLAIN : KILN_MODULE_STEP_FIELDS);
    kiln_mpack_write_u64(out, (uint64_t)step->action);
    kiln_mpack_write_str(out, step->name);
    kiln_mpack_write_str(out, step->op);
    kiln_mpack_write_str(out, step->task);
    kiln_mpack_write_u64(out, step->kernel);
    kiln_mpack_write_u64(out, step->output_count);
    kiln_mpack_write_array(out, step->arg_count);
    for (uint32_t i = 0; i < step->arg_count; i++) kiln_mpack_write_u64(out, step->arg[i]);
    if (!plain) write_control(step, out);
}

static void write_plan(const kiln_module_plan *plan, const constant_places *places,
                       kiln_strbuf *out) {
    const bool plain = kiln_module_plan_is_plain(plan);
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
        kiln_mpack_write_u64(out,
                             b->storage == KILN_STORAGE_CONSTANT ? places->offset[i] : b->offset);
        kiln_mpack_write_u64(out, b->source);
        if (!plain) write_movement(b, out);
    }
    kiln_mpack_write_array(out, plan->step_count);
    for (uint32_t i = 0; i < plan->step_count; i++) write_step(&plan->step[i], plain, out);
    if (plain) return;
    kiln_mpack_write_array(out, plan->device_count);
    for (uint32_t i = 0; i < plan->device_count; i++) write_device(&plan->device[i], out);
}

/* Appends zero bytes until `out` has `size` bytes since `begin`. */
static void pad_to(kiln_strbuf *out, size_t begin, uint64_t size) {
    static const char zero[64];
    while (out->size - begin < size) {
        uint64_t missing = size - (out->size - begin);
        kiln_strbuf_append(out, zero, (size_t)KILN_MIN(missing, sizeof zero));
    }
}

static void write_constants(const kiln_module_plan *plan, const constant_places *places,
                            kiln_strbuf *out) {
    size_t begin = out->size;
    for (uint32_t i = 0; i < places->order_count; i++) {
        const kiln_plan_buffer *b = &plan->buffer[places->order[i]];
        pad_to(out, begin, places->offset[places->order[i]]);
        kiln_strbuf_append(out, b->data, (size_t)b->size_bytes);
    }
}

typedef void (*section_writer)(const kiln_module_plan *plan, const constant_places *places,
                               kiln_strbuf *out);

static const struct {
    uint32_t number, alignment;
    section_writer write;
} section_table[KILN_MODULE_SECTION_COUNT] = {
    {KILN_MODULE_METADATA, KILN_MODULE_SECTION_ALIGNMENT, write_metadata},
    {KILN_MODULE_SIGNATURE, KILN_MODULE_SECTION_ALIGNMENT, write_signature},
    {KILN_MODULE_KERNELS, KILN_MODULE_SECTION_ALIGNMENT, write_kernels},
    {KILN_MODULE_PLAN, KILN_MODULE_SECTION_ALIGNMENT, write_plan},
    {KILN_MODULE_CONSTANTS, KILN_MODULE_CONSTANT_ALIGNMENT, write_constants},
};

static void put_u32(char *at, uint32_t value) { memcpy(at, &value, sizeof value); }
static void put_u64(char *at, uint64_t value) { memcpy(at, &value, sizeof value); }

/* Appends the file's sections behind room for header and table, then fills those in. */
static void encode(const kiln_module_plan *plan, const constant_places *places, kiln_strbuf *out) {
    const size_t table_bytes =
        KILN_MODULE_HEADER_BYTES + KILN_MODULE_SECTION_COUNT * KILN_MODULE_ENTRY_BYTES;
    size_t begin = out->size;
    pad_to(out, begin, table_bytes);
    for (uint32_t i = 0; i < KILN_MODULE_SECTION_COUNT; i++) {
        pad_to(out, begin, KILN_ALIGN_UP(out->size - begin, section_table[i].alignment));
        size_t offset = out->size - begin;
        section_table[i].write(plan, places, out);
        size_t size = out->size - begin - offset;
        char *entry = out->data + begin + KILN_MODULE_HEADER_BYTES + i * KILN_MODULE_ENTRY_BYTES;
        put_u32(entry + KILN_MODULE_ENTRY_AT_KIND, section_table[i].number);
        put_u32(entry + KILN_MODULE_ENTRY_AT_ALIGNMENT, section_table[i].alignment);
        put_u64(entry + KILN_MODULE_ENTRY_AT_OFFSET, offset);
        put_u64(entry + KILN_MODULE_ENTRY_AT_SIZE, size);
        put_u64(entry + KILN_MODULE_ENTRY_AT_CHECKSUM,
                kiln_hash64(out->data + begin + offset, size, 0));
    }
    char *header = out->data + begin;
    memcpy(header + KILN_MODULE_AT_MAGIC, KILN_MODULE_MAGIC, 8);
    put_u32(header + KILN_MODULE_AT_VERSION,
            kiln_module_plan_is_plain(plan) ? KILN_MODULE_VERSION_PLAIN : KILN_MODULE_VERSION);
    put_u32(header + KILN_MODULE_AT_SECTION_COUNT, KILN_MODULE_SECTION_COUNT);
    put_u64(header + KILN_MODULE_AT_FILE_BYTES, out->size - begin);
    put_u64(header + KILN_MODULE_AT_CHECKSUM,
            kiln_hash64(header, table_bytes, 0)); /* while it is zero */
}

kiln_status kiln_module_encode(const kiln_module_plan *plan, kiln_strbuf *out) {
    kiln_status st = kiln_module_plan_check(plan);
    if (st) return st;
    constant_places places = {
        .offset = kiln_alloc(plan->buffer_count * sizeof(uint64_t)),
        .order = kiln_alloc(plan->buffer_count * sizeof(uint32_t)),
    };
    place_constants(plan, &places);
    encode(plan, &places, out);
    kiln_free(places.order);
    kiln_free(places.offset);
    return KILN_OK;
}

kiln_status kiln_module_write(const kiln_module_plan *plan, const char *path) {
    kiln_strbuf bytes = {0};
    kiln_status st = kiln_module_encode(plan, &bytes);
    if (!st) st = kiln_file_write(path, kiln_strbuf_view(&bytes), 0644);
    kiln_strbuf_deinit(&bytes);
    return kiln_status_note(st, "writing module %s", path);
}
