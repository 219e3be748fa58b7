#include "deploy/runtime/module_read.h"

#include <string.h>

#include "base/hash.h"
#include "base/manifest.h"
#include "base/mpack.h"
#include "base/wasm.h"

#define TABLE_BYTES (KILN_MODULE_HEADER_BYTES + KILN_MODULE_SECTION_COUNT * KILN_MODULE_ENTRY_BYTES)

static const struct {
    uint32_t number;
    const char *text;
} section_table[KILN_MODULE_SECTION_COUNT] = {
#define X(name, number, text) {number, text},
#include "deploy/sections.def"
#undef X
};

static uint32_t u32_at(const char *data) {
    uint32_t value;
    memcpy(&value, data, sizeof value);
    return value;
}

static uint64_t u64_at(const char *data) {
    uint64_t value;
    memcpy(&value, data, sizeof value);
    return value;
}

static bool all_zero(const char *data, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (data[i] != 0) return false;
    return true;
}

static kiln_status check_header(kiln_str bytes, uint32_t *out_version) {
    if (bytes.size >= 4 && memcmp(bytes.data, KILN_WASM_HEAD, 4) == 0)
        return KILN_ERROR(FAILED_PRECONDITION,
                          "a module for WebAssembly, which browsers and node run, "
                          "not this machine");
    if (bytes.size < TABLE_BYTES || memcmp(bytes.data, KILN_MODULE_MAGIC, 8) != 0)
        return KILN_ERROR(DATA_LOSS, "not a module file (%zu bytes)", bytes.size);
    /* Header and table are small: they are copied, to compute the checksum with its own field zero.
     * The count is not trusted before the checksum matches, but the table starts at the same place
     * in every version. */
    char table[TABLE_BYTES];
    memcpy(table, bytes.data, sizeof table);
    memset(table + KILN_MODULE_AT_CHECKSUM, 0, 8);
    uint32_t version = u32_at(table + KILN_MODULE_AT_VERSION);
    if (kiln_hash64(table, sizeof table, 0) != u64_at(bytes.data + KILN_MODULE_AT_CHECKSUM))
        return KILN_ERROR(DATA_LOSS, "header is damaged (or of version %u; this program reads %u)",
                          version, KILN_MODULE_VERSION);
    if (version < KILN_MODULE_VERSION_PLAIN || version > KILN_MODULE_VERSION)
        return KILN_ERROR(UNIMPLEMENTED, "module has format %u%s; this program reads 1 to %u",
                          version,
                          version > KILN_MODULE_VERSION ? ", of a newer version of Kiln" : "",
                          KILN_MODULE_VERSION);
    if (u32_at(table + KILN_MODULE_AT_SECTION_COUNT) != KILN_MODULE_SECTION_COUNT ||
        u64_at(table + KILN_MODULE_AT_FILE_BYTES) != bytes.size ||
        !all_zero(table + KILN_MODULE_AT_CHECKSUM,
                  KILN_MODULE_HEADER_BYTES - KILN_MODULE_AT_CHECKSUM))
        return KILN_ERROR(DATA_LOSS, "header does not fit a file of %zu bytes", bytes.size);
    *out_version = version;
    return KILN_OK;
}

/* Checks section `index`, which must begin at `*end` rounded up to its alignment. */
static kiln_status check_section(kiln_str bytes, uint32_t index, size_t *end,
                                 kiln_str *out_section) {
    const char *entry = bytes.data + KILN_MODULE_HEADER_BYTES + index * KILN_MODULE_ENTRY_BYTES;
    const char *text = section_table[index].text;
    uint32_t alignment = index == KILN_MODULE_INDEX_CONSTANTS ? KILN_MODULE_CONSTANT_ALIGNMENT
                                                              : KILN_MODULE_SECTION_ALIGNMENT;
    uint64_t offset = u64_at(entry + KILN_MODULE_ENTRY_AT_OFFSET);
    uint64_t size = u64_at(entry + KILN_MODULE_ENTRY_AT_SIZE);
    if (u32_at(entry + KILN_MODULE_ENTRY_AT_KIND) != section_table[index].number ||
        u32_at(entry + KILN_MODULE_ENTRY_AT_ALIGNMENT) != alignment || !all_zero(entry + 32, 16))
        return KILN_ERROR(DATA_LOSS, "entry of section %s is malformed", text);
    if (offset > bytes.size || size > bytes.size - offset || offset % alignment != 0 ||
        offset < *end || offset - *end >= alignment ||
        !all_zero(bytes.data + *end, (size_t)offset - *end))
        return KILN_ERROR(DATA_LOSS, "section %s is misplaced", text);
    kiln_str section = {bytes.data + offset, (size_t)size};
    if (kiln_hash64(section.data, section.size, 0) != u64_at(entry + KILN_MODULE_ENTRY_AT_CHECKSUM))
        return KILN_ERROR(DATA_LOSS, "section %s is damaged", text);
    *end = (size_t)(offset + size);
    *out_section = section;
    return KILN_OK;
}

/* The decoders below read arrays of fixed length: `count` items, in the order of the structs'
 * comments in docs/reference/module.md. */
static kiln_status expect_array(kiln_mpack_reader *r, uint32_t count) {
    uint32_t found = 0;
    kiln_status st = kiln_mpack_read_array(r, &found);
    if (!st && found != count)
        st = KILN_ERROR(DATA_LOSS, "an array of %u items, not %u", found, count);
    return st;
}

static kiln_status read_count(kiln_mpack_reader *r, uint32_t max, uint32_t *out_count) {
    uint32_t found = 0;
    kiln_status st = kiln_mpack_read_array(r, &found);
    if (!st && found > max)
        st = KILN_ERROR(DATA_LOSS, "%u items, at most %u are allowed", found, max);
    if (!st) *out_count = found;
    return st;
}

static kiln_status read_u32(kiln_mpack_reader *r, uint32_t *out) {
    uint64_t value = 0;
    kiln_status st = kiln_mpack_read_u64(r, &value);
    if (!st && value > UINT32_MAX) st = KILN_ERROR(DATA_LOSS, "a number is too large");
    if (!st) *out = (uint32_t)value;
    return st;
}

/* Contents of the sections, before they are distributed to the plans. */
typedef struct contents {
    uint32_t version;
    kiln_module_sizes sizes;
    uint32_t metadata_count, kernel_count;
    kiln_plan_pair *metadata;
    kiln_str *kernel;
} contents;

static kiln_status read_metadata(kiln_mpack_reader *r, kiln_arena *arena, contents *c) {
    uint32_t count = 0;
    kiln_status st = kiln_mpack_read_map(r, &count);
    if (!st && count > KILN_MODULE_METADATA_MAX) st = KILN_ERROR(DATA_LOSS, "%u entries", count);
    if (st) return st;
    c->metadata = KILN_ARENA_ARRAY(arena, kiln_plan_pair, count);
    for (; !st && c->metadata_count < count; c->metadata_count++) {
        kiln_plan_pair *pair = &c->metadata[c->metadata_count];
        st = kiln_mpack_read_str(r, &pair->key);
        if (!st) st = kiln_mpack_read_str(r, &pair->value);
    }
    return st;
}

static kiln_status read_port(kiln_mpack_reader *r, kiln_plan_port *port) {
    uint32_t dtype = 0;
    kiln_status st = expect_array(r, 4);
    if (!st) st = kiln_mpack_read_str(r, &port->name);
    if (!st) st = read_u32(r, &dtype);
    if (!st && (dtype == KILN_DTYPE_NONE || dtype >= KILN_DTYPE_COUNT))
        st = KILN_ERROR(DATA_LOSS, "dtype %u", dtype);
    if (!st) st = read_count(r, KILN_RANK_MAX, &port->shape.rank);
    if (st) return st;
    port->dtype = (kiln_dtype)dtype;
    for (uint32_t i = 0; !st && i < port->shape.rank; i++) {
        st = kiln_mpack_read_i64(r, &port->shape.dim[i]);
        if (!st && port->shape.dim[i] < 0) st = KILN_ERROR(DATA_LOSS, "a negative dimension");
    }
    if (!st) st = read_u32(r, &port->buffer);
    return st;
}

static kiln_status read_ports(kiln_mpack_reader *r, kiln_arena *arena, kiln_plan_port **out_port,
                              uint32_t *out_count) {
    kiln_status st = read_count(r, KILN_MODULE_PORTS_MAX, out_count);
    if (!st) *out_port = KILN_ARENA_ARRAY(arena, kiln_plan_port, *out_count);
    for (uint32_t i = 0; !st && i < *out_count; i++) st = read_port(r, &(*out_port)[i]);
    return st;
}

static kiln_status read_both_ports(kiln_mpack_reader *r, kiln_arena *arena,
                                   kiln_module_plan *plan) {
    kiln_status st = read_ports(r, arena, &plan->input, &plan->input_count);
    return st ? st : read_ports(r, arena, &plan->output, &plan->output_count);
}

static kiln_status read_bucket(kiln_mpack_reader *r, kiln_arena *arena,
                               kiln_module_bucket *bucket) {
    kiln_status st = expect_array(r, KILN_MODULE_SIZE_FIELDS);
    if (!st) st = kiln_mpack_read_i64(r, &bucket->size);
    if (!st) st = kiln_mpack_read_u64(r, &bucket->median_ns);
    return st ? st : read_both_ports(r, arena, &bucket->plan);
}

static kiln_status read_sizes(kiln_mpack_reader *r, kiln_arena *arena, kiln_module_sizes *sizes) {
    uint32_t by_rows = 0;
    kiln_status st = expect_array(r, KILN_MODULE_SIZES_FIELDS);
    if (!st) st = kiln_mpack_read_str(r, &sizes->dim);
    if (!st) st = read_u32(r, &by_rows);
    if (!st && by_rows > 1) st = KILN_ERROR(DATA_LOSS, "rows %u", by_rows);
    if (!st) st = read_count(r, KILN_MODULE_BUCKETS_MAX, &sizes->bucket_count);
    if (st) return st;
    sizes->by_rows = by_rows == 1;
    sizes->bucket = KILN_ARENA_ARRAY(arena, kiln_module_bucket, sizes->bucket_count);
    for (uint32_t i = 0; !st && i < sizes->bucket_count; i++)
        st = read_bucket(r, arena, &sizes->bucket[i]);
    return st;
}

static kiln_status read_signature(kiln_mpack_reader *r, kiln_arena *arena, contents *c) {
    if (c->version == KILN_MODULE_VERSION_SIZES) return read_sizes(r, arena, &c->sizes);
    c->sizes.bucket_count = 1;
    c->sizes.bucket = KILN_ARENA_NEW(arena, kiln_module_bucket);
    kiln_status st = expect_array(r, 2);
    return st ? st : read_both_ports(r, arena, &c->sizes.bucket->plan);
}

static kiln_status read_kernels(kiln_mpack_reader *r, kiln_arena *arena, contents *c) {
    kiln_status st = read_count(r, KILN_MODULE_KERNELS_MAX, &c->kernel_count);
    if (!st) c->kernel = KILN_ARENA_ARRAY(arena, kiln_str, c->kernel_count);
    for (uint32_t i = 0; !st && i < c->kernel_count; i++)
        st = kiln_mpack_read_bin(r, &c->kernel[i]);
    return st;
}

static kiln_status read_movement(kiln_mpack_reader *r, kiln_plan_buffer *buffer) {
    kiln_status st = read_u32(r, &buffer->device);
    if (!st) st = kiln_mpack_read_i64(r, &buffer->stride);
    if (!st) st = read_u32(r, &buffer->loop);
    return st;
}

static kiln_status read_buffer(kiln_mpack_reader *r, kiln_plan_buffer *buffer, bool plain) {
    uint32_t storage = 0;
    kiln_status st =
        expect_array(r, plain ? KILN_MODULE_BUFFER_FIELDS_PLAIN : KILN_MODULE_BUFFER_FIELDS);
    if (!st) st = read_u32(r, &storage);
    if (!st && (storage < KILN_STORAGE_ARENA || storage > KILN_STORAGE_ALIAS))
        st = KILN_ERROR(DATA_LOSS, "storage %u", storage);
    if (!st) st = kiln_mpack_read_u64(r, &buffer->size_bytes);
    if (!st) st = kiln_mpack_read_u64(r, &buffer->offset);
    if (!st) st = read_u32(r, &buffer->source);
    if (!st && !plain) st = read_movement(r, buffer);
    if (!st) buffer->storage = (kiln_module_storage)storage;
    return st;
}

static kiln_status read_control(kiln_mpack_reader *r, kiln_plan_step *step) {
    kiln_status st = read_u32(r, &step->device);
    if (!st) st = read_u32(r, &step->after);
    if (!st) st = read_u32(r, &step->body_count);
    if (!st) st = kiln_mpack_read_u64(r, &step->trip_max);
    if (!st) st = read_u32(r, &step->count);
    if (!st) st = read_u32(r, &step->condition);
    if (!st) st = read_u32(r, &step->index);
    return st;
}

static kiln_status read_device(kiln_mpack_reader *r, kiln_plan_device *device) {
    kiln_status st = expect_array(r, 3);
    if (!st) st = read_u32(r, &device->kind);
    if (!st) st = read_u32(r, &device->index);
    if (!st) st = kiln_mpack_read_u64(r, &device->arena_bytes);
    return st;
}

static kiln_status read_step(kiln_mpack_reader *r, kiln_arena *arena, kiln_plan_step *step,
                             bool plain) {
    uint32_t action = 0;
    kiln_status st =
        expect_array(r, plain ? KILN_MODULE_STEP_FIELDS_PLAIN : KILN_MODULE_STEP_FIELDS);
    if (!st) st = read_u32(r, &action);
    if (!st && (action < KILN_ACTION_KERNEL ||
                action > (uint32_t)(plain ? KILN_ACTION_COPY : KILN_ACTION_CARRY)))
        st = KILN_ERROR(DATA_LOSS, "action %u", action);
    if (!st) st = kiln_mpack_read_str(r, &step->name);
    if (!st) st = kiln_mpack_read_str(r, &step->op);
    if (!st) st = kiln_mpack_read_str(r, &step->task);
    if (!st) st = read_u32(r, &step->kernel);
    if (!st) st = read_u32(r, &step->output_count);
    if (!st) st = read_count(r, KILN_MANIFEST_ARGS_MAX, &step->arg_count);
    if (st) return st;
    step->action = (kiln_plan_action)action;
    uint32_t *arg = KILN_ARENA_ARRAY(arena, uint32_t, step->arg_count);
    for (uint32_t i = 0; !st && i < step->arg_count; i++) st = read_u32(r, &arg[i]);
    step->arg = arg;
    return st || plain ? st : read_control(r, step);
}

static kiln_status read_one_plan(kiln_mpack_reader *r, kiln_arena *arena, kiln_module_plan *plan,
                                 bool plain) {
    kiln_status st =
        expect_array(r, plain ? KILN_MODULE_PLAN_FIELDS_PLAIN : KILN_MODULE_PLAN_FIELDS);
    if (!st) st = read_u32(r, &plan->threads);
    if (!st) st = kiln_mpack_read_u64(r, &plan->arena_bytes);
    if (!st) st = read_count(r, KILN_MODULE_BUFFERS_MAX, &plan->buffer_count);
    if (!st) plan->buffer = KILN_ARENA_ARRAY(arena, kiln_plan_buffer, plan->buffer_count);
    for (uint32_t i = 0; !st && i < plan->buffer_count; i++)
        st = read_buffer(r, &plan->buffer[i], plain);
    if (!st) st = read_count(r, KILN_MODULE_STEPS_MAX, &plan->step_count);
    if (!st) plan->step = KILN_ARENA_ARRAY(arena, kiln_plan_step, plan->step_count);
    for (uint32_t i = 0; !st && i < plan->step_count; i++)
        st = read_step(r, arena, &plan->step[i], plain);
    if (st || plain) return st;
    st = read_count(r, KILN_MODULE_DEVICES_MAX, &plan->device_count);
    if (!st) plan->device = KILN_ARENA_ARRAY(arena, kiln_plan_device, plan->device_count);
    for (uint32_t i = 0; !st && i < plan->device_count; i++) st = read_device(r, &plan->device[i]);
    return st;
}

static kiln_status read_plan(kiln_mpack_reader *r, kiln_arena *arena, contents *c) {
    const bool plain = c->version == KILN_MODULE_VERSION_PLAIN;
    kiln_status st =
        c->version == KILN_MODULE_VERSION_SIZES ? expect_array(r, c->sizes.bucket_count) : KILN_OK;
    for (uint32_t i = 0; !st && i < c->sizes.bucket_count; i++)
        st = read_one_plan(r, arena, &c->sizes.bucket[i].plan, plain);
    return st;
}

/* Sets the bytes of constant buffers. */
static kiln_status place_constants(kiln_module_plan *plan, kiln_str section) {
    for (uint32_t i = 0; i < plan->buffer_count; i++) {
        kiln_plan_buffer *b = &plan->buffer[i];
        if (b->storage != KILN_STORAGE_CONSTANT) continue;
        if (b->offset % KILN_MODULE_SECTION_ALIGNMENT != 0 || b->offset > section.size ||
            b->size_bytes > section.size - b->offset)
            return KILN_ERROR(DATA_LOSS, "constant buffer %u lies outside its section", i);
        b->data = section.data + b->offset;
    }
    return KILN_OK;
}

/* The kernels in the file that the plan calls, in the same order. */
static kiln_status take_kernels(const contents *c, kiln_arena *arena, kiln_module_plan *plan) {
    uint32_t *number = KILN_ARENA_ARRAY(arena, uint32_t, c->kernel_count); /* in the plan, plus 1 */
    plan->kernel = KILN_ARENA_ARRAY(arena, kiln_str, c->kernel_count);
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const kiln_plan_step *step = &plan->step[i];
        if (step->action != KILN_ACTION_KERNEL) continue;
        if (step->kernel >= c->kernel_count)
            return KILN_ERROR(DATA_LOSS, "step %u: there is no kernel %u", i, step->kernel);
        number[step->kernel] = 1;
    }
    for (uint32_t k = 0; k < c->kernel_count; k++) {
        if (!number[k]) continue;
        plan->kernel[plan->kernel_count++] = c->kernel[k];
        number[k] = plan->kernel_count;
    }
    for (uint32_t i = 0; i < plan->step_count; i++)
        if (plan->step[i].action == KILN_ACTION_KERNEL)
            plan->step[i].kernel = number[plan->step[i].kernel] - 1;
    return KILN_OK;
}

/* Gives each plan the data that all plans share. */
static kiln_status share(contents *c, kiln_str constants, kiln_arena *arena) {
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; !st && i < c->sizes.bucket_count; i++) {
        kiln_module_plan *plan = &c->sizes.bucket[i].plan;
        plan->metadata = c->metadata;
        plan->metadata_count = c->metadata_count;
        plan->kernel = c->kernel;
        plan->kernel_count = c->kernel_count;
        if (c->version == KILN_MODULE_VERSION_SIZES) {
            plan->kernel_count = 0;
            st = take_kernels(c, arena, plan);
        }
        if (!st) st = place_constants(plan, constants);
    }
    return st;
}

typedef kiln_status (*section_reader)(kiln_mpack_reader *r, kiln_arena *arena, contents *c);

static kiln_status decode_sections(const kiln_str *section, kiln_arena *arena, contents *c) {
    static const section_reader readers[KILN_MODULE_SECTION_COUNT] = {
        [KILN_MODULE_INDEX_METADATA] = read_metadata,
        [KILN_MODULE_INDEX_SIGNATURE] = read_signature,
        [KILN_MODULE_INDEX_KERNELS] = read_kernels,
        [KILN_MODULE_INDEX_PLAN] = read_plan,
        [KILN_MODULE_INDEX_CONSTANTS] = NULL,
    };
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; !st && i < KILN_MODULE_SECTION_COUNT; i++) {
        if (!readers[i]) continue;
        kiln_mpack_reader r;
        kiln_mpack_reader_init(&r, section[i].data, section[i].size);
        st = readers[i](&r, arena, c);
        if (!st && kiln_mpack_peek(&r) != KILN_MPACK_END)
            st = KILN_ERROR(DATA_LOSS, "more bytes than expected");
        st = kiln_status_note(st, "section %s", section_table[i].text);
    }
    return st;
}

kiln_status kiln_module_damage(kiln_status st) {
    kiln_code code = kiln_status_code(st);
    if (code != KILN_INVALID_ARGUMENT && code != KILN_NOT_FOUND && code != KILN_OUT_OF_RANGE)
        return st;
    kiln_status damage = KILN_ERROR(DATA_LOSS, "%s", kiln_status_text(st));
    kiln_status_free(st);
    return damage;
}

kiln_status kiln_module_split(kiln_str file, kiln_str *out_module, kiln_str *out_block) {
    *out_module = file;
    *out_block = (kiln_str){0};
    if (file.size < TABLE_BYTES + KILN_MODULE_SIGNED_BYTES ||
        u64_at(file.data + KILN_MODULE_AT_FILE_BYTES) != file.size - KILN_MODULE_SIGNED_BYTES)
        return KILN_OK;
    out_module->size = file.size - KILN_MODULE_SIGNED_BYTES;
    *out_block = kiln_str_slice(file, out_module->size, file.size);
    if (memcmp(out_block->data, KILN_MODULE_SIGNED_MAGIC, 8) != 0 ||
        kiln_hash64(out_block->data, KILN_MODULE_SIGNED_AT_CHECKSUM, 0) !=
            u64_at(out_block->data + KILN_MODULE_SIGNED_AT_CHECKSUM))
        return KILN_ERROR(DATA_LOSS, "the signature block is damaged");
    return KILN_OK;
}

kiln_status kiln_module_decode(kiln_str file, kiln_arena *arena, kiln_module_sizes *out_sizes,
                               size_t *out_constant_bytes) {
    kiln_str bytes, block, section[KILN_MODULE_SECTION_COUNT] = {{0}};
    size_t end = TABLE_BYTES;
    contents c = {0};
    kiln_status st = kiln_module_split(file, &bytes, &block);
    if (!st) st = check_header(bytes, &c.version);
    for (uint32_t i = 0; !st && i < KILN_MODULE_SECTION_COUNT; i++)
        st = check_section(bytes, i, &end, &section[i]);
    if (!st && end != bytes.size)
        st = KILN_ERROR(DATA_LOSS, "%zu bytes after the last section", bytes.size - end);
    if (st) return st;

    st = decode_sections(section, arena, &c);
    if (!st) st = share(&c, section[KILN_MODULE_INDEX_CONSTANTS], arena);
    if (!st) st = kiln_module_sizes_check(&c.sizes);
    if (st) return kiln_module_damage(st);
    *out_sizes = c.sizes;
    *out_constant_bytes = section[KILN_MODULE_INDEX_CONSTANTS].size;
    return KILN_OK;
}
