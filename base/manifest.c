#include "base/manifest.h"

#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/kernel_abi.h"
#include "base/mpack.h"

/* An artefact's bytes: 8 of magic, the sizes of manifest and payload (little-endian, 32 and 64
 * bits, with 32 zero bits between), the manifest, zeros up to PAYLOAD_ALIGNMENT, the payload. */
#define MAGIC "KILNART1"
#define MAGIC_BYTES 8
#define HEADER_BYTES 24
#define PAYLOAD_ALIGNMENT 16

#define TEXT_MAX 1024
#define THREADS_MAX 4096
#define SCRATCH_BYTES_MAX ((uint64_t)1 << 34)

/* Keys of the msgpack maps. Never reused; readers skip the ones that they do not know. */
enum manifest_key {
    KEY_ABI_VERSION = 1,
    KEY_PAYLOAD_KIND,
    KEY_TARGET,
    KEY_CODEGEN_VERSION,
    KEY_TASK_KEY,
    KEY_ALGORITHM,
    KEY_HAS_PREPARE,
    KEY_THREADS_MAX,
    KEY_SCRATCH_BYTES,
    KEY_SCRATCH_WORKER_BYTES,
    KEY_FLOPS,
    KEY_ARGS,
    KEY_COUNT = KEY_ARGS,
};

enum arg_key {
    ARG_NAME = 1,
    ARG_DTYPE,
    ARG_ROLE,
    ARG_SHAPE,
    ARG_LAYOUT,
    ARG_FILL,
    ARG_READ_BY_RUN,
    ARG_KEY_COUNT = ARG_READ_BY_RUN,
};

static const char *const role_name[] = {[KILN_ROLE_INPUT] = "input",
                                        [KILN_ROLE_CONSTANT] = "constant",
                                        [KILN_ROLE_OUTPUT] = "output",
                                        [KILN_ROLE_PACKED] = "packed"};

static const char *const payload_name[] = {[KILN_PAYLOAD_ELF] = "elf",
                                           [KILN_PAYLOAD_PTX] = "ptx",
                                           [KILN_PAYLOAD_OPENCL] = "opencl",
                                           [KILN_PAYLOAD_VTA] = "vta"};

static const kiln_payload_kind payload_of[] = {
#define X(NAME, name, rules, PAYLOAD, executor, doc) [KILN_TARGET_##NAME] = KILN_PAYLOAD_##PAYLOAD,
#include "base/target_kinds.def"
#undef X
};

const char *kiln_payload_name(kiln_payload_kind payload) { return payload_name[payload]; }

kiln_payload_kind kiln_payload_of(kiln_target_kind kind) {
    KILN_CHECK((unsigned)kind < KILN_TARGET_KIND_COUNT);
    return payload_of[kind];
}

static void write_arg(const kiln_manifest_arg *arg, kiln_strbuf *out) {
    kiln_strbuf layout = {0};
    kiln_layout_print(&arg->layout, &layout);
    kiln_mpack_write_map(out, ARG_KEY_COUNT);
    kiln_mpack_write_u64(out, ARG_NAME);
    kiln_mpack_write_str(out, arg->name);
    kiln_mpack_write_u64(out, ARG_DTYPE);
    kiln_mpack_write_u64(out, arg->dtype);
    kiln_mpack_write_u64(out, ARG_ROLE);
    kiln_mpack_write_u64(out, arg->role);
    kiln_mpack_write_u64(out, ARG_SHAPE);
    kiln_mpack_write_array(out, arg->shape.rank);
    for (uint32_t i = 0; i < arg->shape.rank; i++) kiln_mpack_write_i64(out, arg->shape.dim[i]);
    kiln_mpack_write_u64(out, ARG_LAYOUT);
    kiln_mpack_write_str(out, kiln_strbuf_view(&layout));
    kiln_mpack_write_u64(out, ARG_FILL);
    kiln_mpack_write_u64(out, arg->fill);
    kiln_mpack_write_u64(out, ARG_READ_BY_RUN);
    kiln_mpack_write_bool(out, arg->read_by_run);
    kiln_strbuf_deinit(&layout);
}

static void write_manifest(const kiln_manifest *m, kiln_strbuf *out) {
    kiln_mpack_write_map(out, KEY_COUNT);
    kiln_mpack_write_u64(out, KEY_ABI_VERSION);
    kiln_mpack_write_u64(out, m->abi_version);
    kiln_mpack_write_u64(out, KEY_PAYLOAD_KIND);
    kiln_mpack_write_u64(out, m->payload_kind);
    kiln_mpack_write_u64(out, KEY_TARGET);
    kiln_mpack_write_str(out, m->target);
    kiln_mpack_write_u64(out, KEY_CODEGEN_VERSION);
    kiln_mpack_write_str(out, m->codegen_version);
    kiln_mpack_write_u64(out, KEY_TASK_KEY);
    kiln_mpack_write_str(out, m->task_key);
    kiln_mpack_write_u64(out, KEY_ALGORITHM);
    kiln_mpack_write_str(out, m->algorithm);
    kiln_mpack_write_u64(out, KEY_HAS_PREPARE);
    kiln_mpack_write_bool(out, m->has_prepare);
    kiln_mpack_write_u64(out, KEY_THREADS_MAX);
    kiln_mpack_write_u64(out, m->threads_max);
    kiln_mpack_write_u64(out, KEY_SCRATCH_BYTES);
    kiln_mpack_write_u64(out, m->scratch_bytes);
    kiln_mpack_write_u64(out, KEY_SCRATCH_WORKER_BYTES);
    kiln_mpack_write_u64(out, m->scratch_worker_bytes);
    kiln_mpack_write_u64(out, KEY_FLOPS);
    kiln_mpack_write_f64(out, m->flops);
    kiln_mpack_write_u64(out, KEY_ARGS);
    kiln_mpack_write_array(out, m->arg_count);
    for (uint32_t i = 0; i < m->arg_count; i++) write_arg(&m->arg[i], out);
}

static void append_number(kiln_strbuf *out, uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) kiln_strbuf_char(out, (char)(value >> (8 * i) & 255));
}

static size_t padding_after(size_t manifest_bytes) {
    return (0 - (HEADER_BYTES + manifest_bytes)) % PAYLOAD_ALIGNMENT;
}

void kiln_artefact_encode(const kiln_artefact *artefact, kiln_strbuf *out) {
    kiln_strbuf manifest = {0};
    write_manifest(&artefact->manifest, &manifest);
    kiln_strbuf_append(out, MAGIC, MAGIC_BYTES);
    append_number(out, manifest.size, 4);
    append_number(out, 0, 4);
    append_number(out, artefact->payload.size, 8);
    kiln_strbuf_str(out, kiln_strbuf_view(&manifest));
    for (size_t i = padding_after(manifest.size); i > 0; i--) kiln_strbuf_char(out, '\0');
    kiln_strbuf_str(out, artefact->payload);
    kiln_strbuf_deinit(&manifest);
}

static kiln_status read_text(kiln_mpack_reader *r, kiln_str *out) {
    kiln_str text;
    kiln_status st = kiln_mpack_read_str(r, &text);
    if (st) return st;
    if (text.size > TEXT_MAX)
        return KILN_ERROR(DATA_LOSS, "a text of %zu bytes; at most %d", text.size, TEXT_MAX);
    *out = text;
    return KILN_OK;
}

/* A number from `low` to `high`. */
static kiln_status read_number(kiln_mpack_reader *r, uint64_t low, uint64_t high, uint64_t *out) {
    uint64_t number = 0;
    kiln_status st = kiln_mpack_read_u64(r, &number);
    if (st) return st;
    if (number < low || number > high)
        return KILN_ERROR(DATA_LOSS, "%llu is not in [%llu, %llu]", (unsigned long long)number,
                          (unsigned long long)low, (unsigned long long)high);
    *out = number;
    return KILN_OK;
}

static kiln_status read_shape(kiln_mpack_reader *r, kiln_shape *out) {
    kiln_shape shape = {0};
    kiln_status st = kiln_mpack_read_array(r, &shape.rank);
    if (!st && shape.rank > KILN_RANK_MAX)
        st = KILN_ERROR(DATA_LOSS, "%u dimensions; at most %d", shape.rank, KILN_RANK_MAX);
    for (uint32_t i = 0; i < shape.rank && !st; i++) st = kiln_mpack_read_i64(r, &shape.dim[i]);
    if (!st) *out = shape;
    return st;
}

/* Called for each known key of a map in turn. */
typedef kiln_status (*read_field)(kiln_mpack_reader *r, uint64_t key, kiln_arena *arena,
                                  void *object);

/* Reads a map in which every key from 1 to `key_count` occurs exactly once; other keys are skipped.
 */
static kiln_status read_fields(kiln_mpack_reader *r, uint64_t key_count, read_field read,
                               kiln_arena *arena, void *object) {
    uint32_t count = 0;
    uint64_t seen = 0;
    kiln_status st = kiln_mpack_read_map(r, &count);
    for (uint32_t i = 0; i < count && !st; i++) {
        uint64_t key = 0;
        st = kiln_mpack_read_u64(r, &key);
        if (st) break;
        if (key == 0 || key > key_count) {
            st = kiln_mpack_skip(r);
            continue;
        }
        if (seen >> key & 1)
            st = KILN_ERROR(DATA_LOSS, "key %llu occurs twice", (unsigned long long)key);
        else
            st = kiln_status_note(read(r, key, arena, object), "key %llu", (unsigned long long)key);
        seen |= UINT64_C(1) << key;
    }
    if (!st && seen != (UINT64_C(2) << key_count) - 2)
        st = KILN_ERROR(DATA_LOSS, "a required key is missing");
    return st;
}

/* The layout's text needs the rank, which may come later in the map: it is kept until the map is
 * read. */
typedef struct arg_reading {
    kiln_manifest_arg arg;
    kiln_str layout;
} arg_reading;

static kiln_status read_arg_field(kiln_mpack_reader *r, uint64_t key, kiln_arena *arena,
                                  void *object) {
    (void)arena;
    arg_reading *reading = object;
    kiln_manifest_arg *arg = &reading->arg;
    uint64_t number = 0;
    kiln_status st = KILN_OK;
    switch ((enum arg_key)key) {
    case ARG_NAME: return read_text(r, &arg->name);
    case ARG_DTYPE:
        st = read_number(r, 1, KILN_DTYPE_COUNT - 1, &number);
        arg->dtype = (kiln_dtype)number;
        return st;
    case ARG_ROLE:
        st = read_number(r, KILN_ROLE_INPUT, KILN_ROLE_PACKED, &number);
        arg->role = (kiln_role)number;
        return st;
    case ARG_SHAPE: return read_shape(r, &arg->shape);
    case ARG_LAYOUT: return read_text(r, &reading->layout);
    case ARG_FILL:
        st = read_number(r, KILN_FILL_UNIFORM, KILN_FILL_ZERO, &number);
        arg->fill = (kiln_fill)number;
        return st;
    case ARG_READ_BY_RUN: return kiln_mpack_read_bool(r, &arg->read_by_run);
    }
    return KILN_ERROR(INTERNAL, "argument key %llu has no reader", (unsigned long long)key);
}

static kiln_status read_arg(kiln_mpack_reader *r, kiln_manifest_arg *out) {
    arg_reading reading = {0};
    kiln_status st = read_fields(r, ARG_KEY_COUNT, read_arg_field, NULL, &reading);
    if (!st) st = kiln_layout_parse(reading.layout, reading.arg.shape.rank, &reading.arg.layout);
    size_t bytes = 0;
    if (!st) st = kiln_shape_bytes(&reading.arg.shape, reading.arg.dtype, &bytes);
    if (st) return st;
    kiln_shape physical = kiln_layout_physical(&reading.arg.layout, &reading.arg.shape);
    st = kiln_shape_bytes(&physical, reading.arg.dtype, &bytes);
    if (!st) *out = reading.arg;
    return st;
}

static kiln_status read_args(kiln_mpack_reader *r, kiln_arena *arena, kiln_manifest *m) {
    kiln_status st = kiln_mpack_read_array(r, &m->arg_count);
    if (!st && m->arg_count > KILN_MANIFEST_ARGS_MAX)
        st =
            KILN_ERROR(DATA_LOSS, "%u arguments; at most %d", m->arg_count, KILN_MANIFEST_ARGS_MAX);
    if (st) return st;
    m->arg = KILN_ARENA_ARRAY(arena, kiln_manifest_arg, m->arg_count);
    for (uint32_t i = 0; i < m->arg_count && !st; i++)
        st = kiln_status_note(read_arg(r, &m->arg[i]), "argument %u", i);
    return st;
}

static kiln_status read_manifest_field(kiln_mpack_reader *r, uint64_t key, kiln_arena *arena,
                                       void *object) {
    kiln_manifest *m = object;
    uint64_t number = 0;
    kiln_status st = KILN_OK;
    switch ((enum manifest_key)key) {
    case KEY_ABI_VERSION:
        st = read_number(r, 1, UINT32_MAX, &number);
        m->abi_version = (uint32_t)number;
        return st;
    case KEY_PAYLOAD_KIND:
        st = read_number(r, KILN_PAYLOAD_ELF, KILN_PAYLOAD_VTA, &number);
        m->payload_kind = (kiln_payload_kind)number;
        return st;
    case KEY_TARGET: return read_text(r, &m->target);
    case KEY_CODEGEN_VERSION: return read_text(r, &m->codegen_version);
    case KEY_TASK_KEY: return read_text(r, &m->task_key);
    case KEY_ALGORITHM: return read_text(r, &m->algorithm);
    case KEY_HAS_PREPARE: return kiln_mpack_read_bool(r, &m->has_prepare);
    case KEY_THREADS_MAX:
        st = read_number(r, 1, THREADS_MAX, &number);
        m->threads_max = (uint32_t)number;
        return st;
    case KEY_SCRATCH_BYTES: return read_number(r, 0, SCRATCH_BYTES_MAX, &m->scratch_bytes);
    case KEY_SCRATCH_WORKER_BYTES:
        return read_number(r, 0, SCRATCH_BYTES_MAX, &m->scratch_worker_bytes);
    case KEY_FLOPS: return kiln_mpack_read_f64(r, &m->flops);
    case KEY_ARGS: return read_args(r, arena, m);
    }
    return KILN_ERROR(INTERNAL, "manifest key %llu has no reader", (unsigned long long)key);
}

/* What single fields cannot tell: order of the roles, and who writes packed buffers. */
static kiln_status check_manifest(const kiln_manifest *m) {
    if (m->abi_version != KILN_KERNEL_ABI_VERSION)
        return KILN_ERROR(UNIMPLEMENTED, "kernel ABI %u; this version runs %d", m->abi_version,
                          KILN_KERNEL_ABI_VERSION);
    if (!(isfinite(m->flops) && m->flops >= 0))
        return KILN_ERROR(DATA_LOSS, "flops is %g", m->flops);
    uint32_t of_role[KILN_ROLE_PACKED + 1] = {0};
    for (uint32_t i = 0; i < m->arg_count; i++) {
        if (i > 0 && m->arg[i].role < m->arg[i - 1].role)
            return KILN_ERROR(DATA_LOSS, "argument %u: an %s after the %ss", i,
                              role_name[m->arg[i].role], role_name[m->arg[i - 1].role]);
        of_role[m->arg[i].role]++;
    }
    if (of_role[KILN_ROLE_OUTPUT] == 0) return KILN_ERROR(DATA_LOSS, "no argument is an output");
    if (of_role[KILN_ROLE_PACKED] > 0 && !m->has_prepare)
        return KILN_ERROR(DATA_LOSS, "packed arguments, but nothing that prepares them");
    return KILN_OK;
}

static kiln_status read_manifest(kiln_str bytes, kiln_arena *arena, kiln_manifest *out) {
    kiln_manifest manifest = {0};
    kiln_mpack_reader r;
    kiln_mpack_reader_init(&r, bytes.data, bytes.size);
    kiln_status st = read_fields(&r, KEY_COUNT, read_manifest_field, arena, &manifest);
    if (!st && r.offset != r.size)
        st = KILN_ERROR(DATA_LOSS, "%zu bytes follow the manifest", r.size - r.offset);
    if (!st) st = check_manifest(&manifest);
    if (!st) *out = manifest;
    return kiln_status_note(st, "manifest");
}

static uint64_t take_number(const char *at, size_t bytes) {
    uint64_t value = 0;
    for (size_t i = bytes; i-- > 0;) value = value << 8 | (uint8_t)at[i];
    return value;
}

kiln_status kiln_artefact_decode(kiln_str bytes, kiln_arena *arena, kiln_artefact *out_artefact) {
    if (bytes.size < HEADER_BYTES || memcmp(bytes.data, MAGIC, MAGIC_BYTES) != 0)
        return KILN_ERROR(DATA_LOSS, "not an artefact");
    size_t left = bytes.size - HEADER_BYTES;
    uint64_t manifest_bytes = take_number(bytes.data + 8, 4),
             payload_bytes = take_number(bytes.data + 16, 8);
    size_t padding = padding_after((size_t)manifest_bytes);
    if (take_number(bytes.data + 12, 4) != 0 || manifest_bytes + padding > left ||
        payload_bytes != left - manifest_bytes - padding)
        return KILN_ERROR(DATA_LOSS, "an artefact of %zu bytes does not hold what its header says",
                          bytes.size);
    size_t payload_at = HEADER_BYTES + (size_t)manifest_bytes + padding;
    for (size_t i = payload_at - padding; i < payload_at; i++)
        if (bytes.data[i] != 0)
            return KILN_ERROR(DATA_LOSS, "the bytes before the payload are not zero");

    kiln_artefact artefact = {.payload = kiln_str_slice(bytes, payload_at, bytes.size)};
    kiln_str manifest = kiln_str_slice(bytes, HEADER_BYTES, HEADER_BYTES + (size_t)manifest_bytes);
    kiln_status st = read_manifest(manifest, arena, &artefact.manifest);
    if (!st) *out_artefact = artefact;
    return st;
}

static void print_arg(const kiln_manifest_arg *arg, kiln_strbuf *out) {
    kiln_strbuf_printf(out, "  %-8s %.*s: %s", role_name[arg->role], KILN_STR_ARG(arg->name),
                       kiln_dtype_name(arg->dtype));
    kiln_shape_print(&arg->shape, out);
    kiln_strbuf_text(out, " layout ");
    kiln_layout_print(&arg->layout, out);
    kiln_strbuf_text(out, arg->read_by_run ? "\n" : " (prepare only)\n");
}

void kiln_manifest_print(const kiln_manifest *m, kiln_strbuf *out) {
    kiln_strbuf_printf(out, "abi %u, %s\n", m->abi_version, payload_name[m->payload_kind]);
    kiln_strbuf_printf(out, "target %.*s\n", KILN_STR_ARG(m->target));
    kiln_strbuf_printf(out, "codegen %.*s\n", KILN_STR_ARG(m->codegen_version));
    kiln_strbuf_printf(out, "task %.*s\n", KILN_STR_ARG(m->task_key));
    kiln_strbuf_printf(out, "algorithm %.*s\n", KILN_STR_ARG(m->algorithm));
    kiln_strbuf_printf(out, "prepare %s\n", m->has_prepare ? "yes" : "no");
    kiln_strbuf_printf(out, "threads %u\n", m->threads_max);
    kiln_strbuf_printf(out, "scratch %llu + %llu per worker\n",
                       (unsigned long long)m->scratch_bytes,
                       (unsigned long long)m->scratch_worker_bytes);
    kiln_strbuf_printf(out, "flops %.9g\n", m->flops);
    kiln_strbuf_text(out, "arguments\n");
    for (uint32_t i = 0; i < m->arg_count; i++) print_arg(&m->arg[i], out);
}
