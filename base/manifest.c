#include "base/manifest.h"

#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/kernel_abi.h"
#include "base/macros.h"
#include "base/manifest_map.h"
#include "base/mpack.h"

/* An artefact's bytes: 8 of magic, the sizes of manifest and payloads (little-endian, 32 and 64
 * bits, with 32 zero bits between), the manifest, zeros up to KILN_PAYLOAD_ALIGNMENT, the payloads.
 */
#define MAGIC "KILNART1"
#define MAGIC_BYTES 8
#define HEADER_BYTES 24

#define TEXT_MAX 1024
#define THREADS_MAX 4096
#define SCRATCH_BYTES_MAX ((uint64_t)1 << 34)
#define GRID_MAX INT32_MAX /* along one axis, groups and threads of a group */
#define ERROR_FACTOR_MAX 1e6

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
    KEY_REQUIRED = KEY_ARGS,
    /* Beyond the plain form: each is written only where it differs from it. */
    KEY_EXECUTED_FLOPS,
    KEY_ERROR_FACTOR,
    KEY_PAYLOADS,
    KEY_LAUNCHES,
    KEY_COUNT = KEY_LAUNCHES,
};

enum arg_key {
    ARG_NAME = 1,
    ARG_DTYPE,
    ARG_ROLE,
    ARG_SHAPE,
    ARG_LAYOUT,
    ARG_FILL,
    ARG_READ_BY_RUN,
    ARG_REQUIRED = ARG_READ_BY_RUN,
    ARG_DATA,  /* tables have it, nothing else */
    ARG_RANGE, /* [low, high, step]; with KILN_FILL_RANGE alone */
    ARG_KEY_COUNT = ARG_RANGE,
};

enum payload_key {
    PAYLOAD_KIND = 1,
    PAYLOAD_SIZE_BYTES,
    PAYLOAD_KEY_COUNT = PAYLOAD_SIZE_BYTES,
};

enum launch_key {
    LAUNCH_PHASE = 1,
    LAUNCH_ENTRY,
    LAUNCH_PAYLOAD,
    LAUNCH_GRID,
    LAUNCH_GROUP,
    LAUNCH_SCRATCH, /* map: number of a space -> bytes */
    LAUNCH_ARGS,
    LAUNCH_REQUIRED = LAUNCH_ARGS,
    LAUNCH_CLUSTER, /* where it is more than one group */
    LAUNCH_MAPS,    /* array: base/manifest_map.h */
    LAUNCH_KEY_COUNT = LAUNCH_MAPS,
};

static const char *const role_name[] = {
    [KILN_ROLE_INPUT] = "input",   [KILN_ROLE_CONSTANT] = "constant", [KILN_ROLE_OUTPUT] = "output",
    [KILN_ROLE_PACKED] = "packed", [KILN_ROLE_TEMP] = "temp",         [KILN_ROLE_TABLE] = "table"};

static const char *const payload_name[] = {
#define X(NAME, number, name, doc) [number] = name,
#include "base/payloads.def"
#undef X
};
#define PAYLOAD_MAX (KILN_ARRAY_COUNT(payload_name) - 1)

static const kiln_payload_kind payload_of[] = {
#define X(NAME, name, rules, lowering, features, PAYLOAD, executor, doc) \
    [KILN_TARGET_##NAME] = KILN_PAYLOAD_##PAYLOAD,
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
    const bool table = arg->role == KILN_ROLE_TABLE, ranges = arg->fill == KILN_FILL_RANGE;
    kiln_mpack_write_map(out, (uint32_t)ARG_REQUIRED + table + ranges);
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
    if (table) {
        kiln_mpack_write_u64(out, ARG_DATA);
        kiln_mpack_write_bin(out, arg->data.data, arg->data.size);
    }
    if (ranges) {
        kiln_mpack_write_u64(out, ARG_RANGE);
        kiln_mpack_write_array(out, 3);
        kiln_mpack_write_i64(out, arg->range.low);
        kiln_mpack_write_i64(out, arg->range.high);
        kiln_mpack_write_i64(out, arg->range.step);
    }
    kiln_strbuf_deinit(&layout);
}

/* ---- the plain form -------------------------------------------------------------------------- */

static const kiln_manifest_launch plain_launch[] = {
    {.phase = KILN_LAUNCH_PREPARE,
     .entry = {KILN_ENTRY_PREPARE, sizeof KILN_ENTRY_PREPARE - 1},
     .grid = {1, 1, 1},
     .group = {1, 1, 1},
     .cluster = 1},
    {.phase = KILN_LAUNCH_RUN,
     .entry = {KILN_ENTRY_RUN, sizeof KILN_ENTRY_RUN - 1},
     .grid = {1, 1, 1},
     .group = {1, 1, 1},
     .cluster = 1},
};

/* The launches of a plain manifest, `out_count` of them, without arguments. */
static const kiln_manifest_launch *plain_launches(const kiln_manifest *m, uint32_t *out_count) {
    *out_count = m->has_prepare ? 2 : 1;
    return m->has_prepare ? plain_launch : plain_launch + 1;
}

static bool launches_alike(const kiln_manifest_launch *a, const kiln_manifest_launch *b) {
    return a->phase == b->phase && kiln_str_equal(a->entry, b->entry) && a->payload == b->payload &&
           memcmp(a->grid, b->grid, sizeof a->grid) == 0 &&
           memcmp(a->group, b->group, sizeof a->group) == 0 &&
           memcmp(a->scratch_bytes, b->scratch_bytes, sizeof a->scratch_bytes) == 0 &&
           !kiln_launch_has_cluster_or_maps(a) && !kiln_launch_has_cluster_or_maps(b);
}

static bool launches_are_plain(const kiln_manifest *m) {
    if (m->launch_count == 0) return true;
    uint32_t count;
    const kiln_manifest_launch *plain = plain_launches(m, &count);
    bool same = m->launch_count == count;
    for (uint32_t i = 0; same && i < count; i++) {
        same = launches_alike(&m->launch[i], &plain[i]) && m->launch[i].arg_count == m->arg_count;
        for (uint32_t k = 0; same && k < m->arg_count; k++) same = m->launch[i].arg[k] == k;
    }
    return same;
}

static bool executes_what_it_needs(const kiln_manifest *m) {
    return m->executed_flops == 0 || m->executed_flops == m->flops;
}

static bool error_is_plain(const kiln_manifest *m) {
    return m->error_factor == 0 || m->error_factor == 1;
}

void kiln_manifest_arg_fill(const kiln_manifest_arg *arg, uint64_t seed, void *data) {
    const size_t count = (size_t)kiln_shape_count(&arg->shape);
    if (arg->fill == KILN_FILL_RANGE)
        kiln_fill_range(data, arg->dtype, count, seed, &arg->range);
    else
        kiln_fill_data(data, arg->dtype, count, seed, arg->fill);
}

bool kiln_manifest_is_plain(const kiln_manifest *m) {
    for (uint32_t i = 0; i < m->arg_count; i++)
        if (m->arg[i].role > KILN_ROLE_PACKED) return false;
    return executes_what_it_needs(m) && error_is_plain(m) && m->payload_count <= 1 &&
           launches_are_plain(m);
}

/* The lowest ABI version whose readers understand the manifest. */
static uint32_t needed_abi(const kiln_manifest *m) {
    for (uint32_t i = 0; i < m->launch_count; i++)
        if (kiln_launch_has_cluster_or_maps(&m->launch[i])) return KILN_MANIFEST_ABI_MAPS;
    return kiln_manifest_is_plain(m) ? KILN_KERNEL_ABI_VERSION : KILN_MANIFEST_ABI_LAUNCHES;
}

kiln_status kiln_manifest_refuse_cluster_or_maps(const kiln_manifest *m, const char *who) {
    for (uint32_t i = 0; i < m->launch_count; i++)
        if (kiln_launch_has_cluster_or_maps(&m->launch[i]))
            return KILN_ERROR(UNIMPLEMENTED,
                              "launch %u has clusters of %u groups and %u tensor maps; %s runs "
                              "neither clusters nor tensor maps",
                              i, m->launch[i].cluster, m->launch[i].map_count, who);
    return KILN_OK;
}

/* Fills the fields that a decoded plain manifest lacks. */
static void fill_in_plain(kiln_manifest *m, uint64_t payload_bytes, kiln_arena *arena) {
    if (m->executed_flops == 0) m->executed_flops = m->flops;
    if (m->error_factor == 0) m->error_factor = 1;
    if (m->payload_count == 0) {
        kiln_manifest_payload *payload = KILN_ARENA_NEW(arena, kiln_manifest_payload);
        *payload = (kiln_manifest_payload){m->payload_kind, payload_bytes};
        m->payload_count = 1;
        m->payload = payload;
    }
    if (m->launch_count > 0) return;
    const kiln_manifest_launch *plain = plain_launches(m, &m->launch_count);
    uint32_t *all = KILN_ARENA_ARRAY(arena, uint32_t, m->arg_count);
    for (uint32_t i = 0; i < m->arg_count; i++) all[i] = i;
    kiln_manifest_launch *launch = kiln_arena_copy(arena, plain, m->launch_count * sizeof *launch);
    for (uint32_t i = 0; i < m->launch_count; i++) {
        launch[i].arg_count = m->arg_count;
        launch[i].arg = all;
    }
    m->launch = launch;
}

/* ---- encoding -------------------------------------------------------------------------------- */

static void write_payload(const kiln_manifest_payload *payload, kiln_strbuf *out) {
    kiln_mpack_write_map(out, PAYLOAD_KEY_COUNT);
    kiln_mpack_write_u64(out, PAYLOAD_KIND);
    kiln_mpack_write_u64(out, payload->kind);
    kiln_mpack_write_u64(out, PAYLOAD_SIZE_BYTES);
    kiln_mpack_write_u64(out, payload->size_bytes);
}

static void write_axes(const uint32_t axis[3], kiln_strbuf *out) {
    kiln_mpack_write_array(out, 3);
    for (uint32_t i = 0; i < 3; i++) kiln_mpack_write_u64(out, axis[i]);
}

static void write_scratch(const kiln_manifest_launch *launch, kiln_strbuf *out) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < KILN_MEMORY_SPACES_END; i++) count += launch->scratch_bytes[i] > 0;
    kiln_mpack_write_map(out, count);
    for (uint32_t i = 0; i < KILN_MEMORY_SPACES_END; i++) {
        if (launch->scratch_bytes[i] == 0) continue;
        kiln_mpack_write_u64(out, i);
        kiln_mpack_write_u64(out, launch->scratch_bytes[i]);
    }
}

/* Writes what launches of ABI 2 do not have. */
static void write_maps(const kiln_manifest_launch *launch, kiln_strbuf *out) {
    if (launch->cluster > 1) {
        kiln_mpack_write_u64(out, LAUNCH_CLUSTER);
        kiln_mpack_write_u64(out, launch->cluster);
    }
    if (launch->map_count == 0) return;
    kiln_mpack_write_u64(out, LAUNCH_MAPS);
    kiln_mpack_write_array(out, launch->map_count);
    for (uint32_t i = 0; i < launch->map_count; i++) kiln_manifest_map_write(&launch->map[i], out);
}

static void write_launch(const kiln_manifest_launch *launch, kiln_strbuf *out) {
    kiln_mpack_write_map(out, (uint32_t)LAUNCH_REQUIRED + (launch->cluster > 1) +
                                  (launch->map_count > 0));
    kiln_mpack_write_u64(out, LAUNCH_PHASE);
    kiln_mpack_write_u64(out, launch->phase);
    kiln_mpack_write_u64(out, LAUNCH_ENTRY);
    kiln_mpack_write_str(out, launch->entry);
    kiln_mpack_write_u64(out, LAUNCH_PAYLOAD);
    kiln_mpack_write_u64(out, launch->payload);
    kiln_mpack_write_u64(out, LAUNCH_GRID);
    write_axes(launch->grid, out);
    kiln_mpack_write_u64(out, LAUNCH_GROUP);
    write_axes(launch->group, out);
    kiln_mpack_write_u64(out, LAUNCH_SCRATCH);
    write_scratch(launch, out);
    kiln_mpack_write_u64(out, LAUNCH_ARGS);
    kiln_mpack_write_array(out, launch->arg_count);
    for (uint32_t i = 0; i < launch->arg_count; i++) kiln_mpack_write_u64(out, launch->arg[i]);
    write_maps(launch, out);
}

/* Writes the fields beyond the plain form. */
static void write_beyond(const kiln_manifest *m, kiln_strbuf *out) {
    if (!executes_what_it_needs(m)) {
        kiln_mpack_write_u64(out, KEY_EXECUTED_FLOPS);
        kiln_mpack_write_f64(out, m->executed_flops);
    }
    if (!error_is_plain(m)) {
        kiln_mpack_write_u64(out, KEY_ERROR_FACTOR);
        kiln_mpack_write_f64(out, m->error_factor);
    }
    if (m->payload_count > 1) {
        kiln_mpack_write_u64(out, KEY_PAYLOADS);
        kiln_mpack_write_array(out, m->payload_count);
        for (uint32_t i = 0; i < m->payload_count; i++) write_payload(&m->payload[i], out);
    }
    if (!launches_are_plain(m)) {
        kiln_mpack_write_u64(out, KEY_LAUNCHES);
        kiln_mpack_write_array(out, m->launch_count);
        for (uint32_t i = 0; i < m->launch_count; i++) write_launch(&m->launch[i], out);
    }
}

static void write_manifest(const kiln_manifest *m, kiln_strbuf *out) {
    int beyond = !executes_what_it_needs(m) + !error_is_plain(m) + (m->payload_count > 1) +
                 !launches_are_plain(m);
    kiln_mpack_write_map(out, KEY_REQUIRED + (uint32_t)beyond);
    kiln_mpack_write_u64(out, KEY_ABI_VERSION);
    kiln_mpack_write_u64(out, KILN_MAX(m->abi_version, needed_abi(m)));
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
    write_beyond(m, out);
}

static void append_number(kiln_strbuf *out, uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) kiln_strbuf_char(out, (char)(value >> (8 * i) & 255));
}

static size_t padding_after(size_t manifest_bytes) {
    return (0 - (HEADER_BYTES + manifest_bytes)) % KILN_PAYLOAD_ALIGNMENT;
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

/* Reads a map in which every key from 1 to `required` occurs exactly once, those after them up to
 * `key_count` at most once; other keys are skipped. */
static kiln_status read_fields(kiln_mpack_reader *r, uint64_t required, uint64_t key_count,
                               read_field read, kiln_arena *arena, void *object) {
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
    const uint64_t wanted = (UINT64_C(2) << required) - 2;
    if (!st && (seen & wanted) != wanted) st = KILN_ERROR(DATA_LOSS, "a required key is missing");
    return st;
}

static kiln_status read_range(kiln_mpack_reader *r, kiln_range *out) {
    uint32_t count = 0;
    kiln_status st = kiln_mpack_read_array(r, &count);
    if (!st && count != 3) st = KILN_ERROR(DATA_LOSS, "a range of %u numbers", count);
    if (!st) st = kiln_mpack_read_i64(r, &out->low);
    if (!st) st = kiln_mpack_read_i64(r, &out->high);
    if (!st) st = kiln_mpack_read_i64(r, &out->step);
    return st;
}

/* Keeps the layout's text until the map is read, because it needs the rank, which may come later.
 */
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
        st = read_number(r, KILN_ROLE_INPUT, KILN_ROLE_TABLE, &number);
        arg->role = (kiln_role)number;
        return st;
    case ARG_SHAPE: return read_shape(r, &arg->shape);
    case ARG_LAYOUT: return read_text(r, &reading->layout);
    case ARG_FILL:
        st = read_number(r, KILN_FILL_UNIFORM, KILN_FILL_RANGE, &number);
        arg->fill = (kiln_fill)number;
        return st;
    case ARG_READ_BY_RUN: return kiln_mpack_read_bool(r, &arg->read_by_run);
    case ARG_DATA: return kiln_mpack_read_bin(r, &arg->data);
    case ARG_RANGE: return read_range(r, &arg->range);
    }
    return KILN_ERROR(INTERNAL, "argument key %llu has no reader", (unsigned long long)key);
}

static kiln_status read_arg(kiln_mpack_reader *r, kiln_manifest_arg *out) {
    arg_reading reading = {0};
    kiln_status st = read_fields(r, ARG_REQUIRED, ARG_KEY_COUNT, read_arg_field, NULL, &reading);
    if (!st) st = kiln_layout_parse(reading.layout, reading.arg.shape.rank, &reading.arg.layout);
    size_t bytes = 0;
    if (!st) st = kiln_shape_bytes(&reading.arg.shape, reading.arg.dtype, &bytes);
    if (st) return st;
    kiln_shape physical = kiln_layout_physical(&reading.arg.layout, &reading.arg.shape);
    st = kiln_shape_bytes(&physical, reading.arg.dtype, &bytes);
    if (st) return st;
    bool table = reading.arg.role == KILN_ROLE_TABLE;
    if (reading.arg.data.size != (table ? bytes : 0) ||
        bytes * table > KILN_MANIFEST_TABLE_BYTES_MAX)
        return KILN_ERROR(DATA_LOSS, "a %s of %zu bytes that brings along %zu",
                          role_name[reading.arg.role], bytes, reading.arg.data.size);
    const bool ranges = reading.arg.fill == KILN_FILL_RANGE;
    if (ranges ? !kiln_range_fits(&reading.arg.range, reading.arg.dtype) : reading.arg.range.step)
        return KILN_ERROR(DATA_LOSS, "a range of %s that it cannot have",
                          kiln_dtype_name(reading.arg.dtype));
    *out = reading.arg;
    return KILN_OK;
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

static kiln_status read_payload_field(kiln_mpack_reader *r, uint64_t key, kiln_arena *arena,
                                      void *object) {
    (void)arena;
    kiln_manifest_payload *payload = object;
    uint64_t number = 0;
    kiln_status st = KILN_OK;
    switch ((enum payload_key)key) {
    case PAYLOAD_KIND:
        st = read_number(r, KILN_PAYLOAD_ELF, PAYLOAD_MAX, &number);
        payload->kind = (kiln_payload_kind)number;
        return st;
    case PAYLOAD_SIZE_BYTES:
        return read_number(r, 0, KILN_ARTEFACT_BYTES_MAX, &payload->size_bytes);
    }
    return KILN_ERROR(INTERNAL, "payload key %llu has no reader", (unsigned long long)key);
}

/* The length of an array from 1 to `max`. */
static kiln_status read_length(kiln_mpack_reader *r, uint32_t max, const char *what,
                               uint32_t *out_count) {
    uint32_t count = 0;
    kiln_status st = kiln_mpack_read_array(r, &count);
    if (!st && (count == 0 || count > max))
        st = KILN_ERROR(DATA_LOSS, "%u %s; from 1 to %u are allowed", count, what, max);
    if (!st) *out_count = count;
    return st;
}

static kiln_status read_payloads(kiln_mpack_reader *r, kiln_arena *arena, kiln_manifest *m) {
    kiln_status st = read_length(r, KILN_MANIFEST_PAYLOADS_MAX, "payloads", &m->payload_count);
    if (st) return st;
    kiln_manifest_payload *payload =
        KILN_ARENA_ARRAY(arena, kiln_manifest_payload, m->payload_count);
    for (uint32_t i = 0; i < m->payload_count && !st; i++)
        st = kiln_status_note(read_fields(r, PAYLOAD_KEY_COUNT, PAYLOAD_KEY_COUNT,
                                          read_payload_field, arena, &payload[i]),
                              "payload %u", i);
    m->payload = payload;
    return st;
}

static kiln_status read_axes(kiln_mpack_reader *r, uint32_t out_axis[3]) {
    uint32_t count = 0;
    uint64_t number = 0;
    kiln_status st = kiln_mpack_read_array(r, &count);
    if (!st && count != 3) st = KILN_ERROR(DATA_LOSS, "%u axes", count);
    for (uint32_t i = 0; i < 3 && !st; i++) {
        st = read_number(r, 1, GRID_MAX, &number);
        out_axis[i] = (uint32_t)number;
    }
    return st;
}

/* Keys are in ascending order, so that there is one form. */
static kiln_status read_scratch(kiln_mpack_reader *r, kiln_manifest_launch *launch) {
    uint32_t count = 0;
    uint64_t space = 0;
    kiln_status st = kiln_mpack_read_map(r, &count);
    for (uint32_t i = 0; i < count && !st; i++) {
        st = read_number(r, space + 1, KILN_MEMORY_SPACES_END - 1, &space);
        const kiln_memory_row *row = st ? NULL : kiln_memory_row_of((kiln_memory_space)space);
        if (!st && (!row || space == KILN_MEMORY_HOST || space == KILN_MEMORY_WORKER))
            st = KILN_ERROR(DATA_LOSS, "scratch in space %llu", (unsigned long long)space);
        if (!st) st = read_number(r, 1, SCRATCH_BYTES_MAX, &launch->scratch_bytes[space]);
    }
    return st;
}

static kiln_status read_launch_args(kiln_mpack_reader *r, kiln_arena *arena,
                                    kiln_manifest_launch *launch) {
    kiln_status st = read_length(r, KILN_MANIFEST_ARGS_MAX, "arguments", &launch->arg_count);
    if (st) return st;
    uint32_t *arg = KILN_ARENA_ARRAY(arena, uint32_t, launch->arg_count);
    for (uint32_t i = 0; i < launch->arg_count && !st; i++) {
        uint64_t number = 0;
        st = read_number(r, 0, KILN_MANIFEST_ARGS_MAX - 1, &number);
        arg[i] = (uint32_t)number;
    }
    launch->arg = arg;
    return st;
}

static kiln_status read_maps(kiln_mpack_reader *r, kiln_arena *arena,
                             kiln_manifest_launch *launch) {
    kiln_status st = read_length(r, KILN_LAUNCH_MAPS_MAX, "tensor maps", &launch->map_count);
    if (st) return st;
    kiln_manifest_map *map = KILN_ARENA_ARRAY(arena, kiln_manifest_map, launch->map_count);
    for (uint32_t i = 0; i < launch->map_count && !st; i++)
        st = kiln_status_note(kiln_manifest_map_read(r, &map[i]), "tensor map %u", i);
    launch->map = map;
    return st;
}

static kiln_status read_launch_field(kiln_mpack_reader *r, uint64_t key, kiln_arena *arena,
                                     void *object) {
    kiln_manifest_launch *launch = object;
    uint64_t number = 0;
    kiln_status st = KILN_OK;
    switch ((enum launch_key)key) {
    case LAUNCH_PHASE:
        st = read_number(r, KILN_LAUNCH_PREPARE, KILN_LAUNCH_RUN, &number);
        launch->phase = (kiln_launch_phase)number;
        return st;
    case LAUNCH_ENTRY: return read_text(r, &launch->entry);
    case LAUNCH_PAYLOAD:
        st = read_number(r, 0, KILN_MANIFEST_PAYLOADS_MAX - 1, &number);
        launch->payload = (uint32_t)number;
        return st;
    case LAUNCH_GRID: return read_axes(r, launch->grid);
    case LAUNCH_GROUP: return read_axes(r, launch->group);
    case LAUNCH_SCRATCH: return read_scratch(r, launch);
    case LAUNCH_ARGS: return read_launch_args(r, arena, launch);
    case LAUNCH_CLUSTER:
        st = read_number(r, 2, KILN_LAUNCH_CLUSTER_MAX, &number);
        launch->cluster = (uint32_t)number;
        return st;
    case LAUNCH_MAPS: return read_maps(r, arena, launch);
    }
    return KILN_ERROR(INTERNAL, "launch key %llu has no reader", (unsigned long long)key);
}

static kiln_status read_launches(kiln_mpack_reader *r, kiln_arena *arena, kiln_manifest *m) {
    kiln_status st = read_length(r, KILN_MANIFEST_LAUNCHES_MAX, "launches", &m->launch_count);
    if (st) return st;
    kiln_manifest_launch *launch = KILN_ARENA_ARRAY(arena, kiln_manifest_launch, m->launch_count);
    for (uint32_t i = 0; i < m->launch_count && !st; i++) {
        launch[i].cluster = 1;
        st = kiln_status_note(
            read_fields(r, LAUNCH_REQUIRED, LAUNCH_KEY_COUNT, read_launch_field, arena, &launch[i]),
            "launch %u", i);
    }
    m->launch = launch;
    return st;
}

/* A positive number of at most `max`. */
static kiln_status read_positive(kiln_mpack_reader *r, double max, double *out) {
    double number = 0;
    kiln_status st = kiln_mpack_read_f64(r, &number);
    if (!st && !(number > 0 && number <= max))
        st = KILN_ERROR(DATA_LOSS, "%g is not in (0, %g]", number, max);
    if (!st) *out = number;
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
        st = read_number(r, KILN_PAYLOAD_ELF, PAYLOAD_MAX, &number);
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
    case KEY_EXECUTED_FLOPS: return read_positive(r, 1e300, &m->executed_flops);
    case KEY_ERROR_FACTOR: return read_positive(r, ERROR_FACTOR_MAX, &m->error_factor);
    case KEY_PAYLOADS: return read_payloads(r, arena, m);
    case KEY_LAUNCHES: return read_launches(r, arena, m);
    }
    return KILN_ERROR(INTERNAL, "manifest key %llu has no reader", (unsigned long long)key);
}

static kiln_status check_map(const kiln_manifest *m, const kiln_manifest_launch *launch,
                             const kiln_manifest_map *map) {
    if (map->arg >= launch->arg_count)
        return KILN_ERROR(DATA_LOSS, "argument %u of the launch's %u", map->arg, launch->arg_count);
    return kiln_manifest_map_check(map, &m->arg[launch->arg[map->arg]]);
}

static kiln_status check_launch(const kiln_manifest *m, const kiln_manifest_launch *launch) {
    if (launch->payload >= m->payload_count)
        return KILN_ERROR(DATA_LOSS, "payload %u of %u", launch->payload, m->payload_count);
    for (uint32_t i = 0; i < launch->arg_count; i++)
        if (launch->arg[i] >= m->arg_count)
            return KILN_ERROR(DATA_LOSS, "argument %u of %u", launch->arg[i], m->arg_count);
    if (launch->grid[0] % launch->cluster != 0)
        return KILN_ERROR(DATA_LOSS, "%u groups along x in clusters of %u", launch->grid[0],
                          launch->cluster);
    for (uint32_t i = 0; i < launch->map_count; i++) {
        kiln_status st = check_map(m, launch, &launch->map[i]);
        if (st) return kiln_status_note(st, "tensor map %u", i);
    }
    return KILN_OK;
}

/* Checks that launches use existing parts, that preparing ones come first, and that has_prepare is
 * right. */
static kiln_status check_launches(const kiln_manifest *m) {
    uint32_t of_phase[KILN_LAUNCH_RUN + 1] = {0};
    for (uint32_t i = 0; i < m->launch_count; i++) {
        const kiln_manifest_launch *launch = &m->launch[i];
        kiln_status st = check_launch(m, launch);
        if (!st && i > 0 && launch->phase < m->launch[i - 1].phase)
            st = KILN_ERROR(DATA_LOSS, "it prepares after one that runs");
        if (st) return kiln_status_note(st, "launch %u", i);
        of_phase[launch->phase]++;
    }
    if (of_phase[KILN_LAUNCH_RUN] == 0) return KILN_ERROR(DATA_LOSS, "no launch runs the kernel");
    if ((of_phase[KILN_LAUNCH_PREPARE] > 0) != m->has_prepare)
        return KILN_ERROR(DATA_LOSS, "%u launches prepare, has_prepare says otherwise",
                          of_phase[KILN_LAUNCH_PREPARE]);
    return KILN_OK;
}

static kiln_status check_payloads(const kiln_manifest *m, uint64_t payload_bytes) {
    uint64_t end = 0;
    for (uint32_t i = 0; i < m->payload_count; i++)
        end = end + (0 - end) % KILN_PAYLOAD_ALIGNMENT + m->payload[i].size_bytes;
    if (end != payload_bytes || m->payload[0].kind != m->payload_kind)
        return KILN_ERROR(DATA_LOSS, "the payloads need %llu bytes, there are %llu",
                          (unsigned long long)end, (unsigned long long)payload_bytes);
    return KILN_OK;
}

/* Checks across fields: order of the roles, writers of packed buffers and temps, and launches. */
static kiln_status check_manifest(const kiln_manifest *m, uint64_t payload_bytes) {
    if (!(isfinite(m->flops) && m->flops >= 0))
        return KILN_ERROR(DATA_LOSS, "flops is %g", m->flops);
    const uint32_t needed = needed_abi(m);
    if (m->abi_version < needed || m->abi_version > KILN_MANIFEST_ABI_MAPS)
        return KILN_ERROR(UNIMPLEMENTED, "kernel ABI %u; this version reads %u to %d of it",
                          m->abi_version, needed, KILN_MANIFEST_ABI_MAPS);
    uint32_t of_role[KILN_ROLE_TABLE + 1] = {0};
    for (uint32_t i = 0; i < m->arg_count; i++) {
        if (i > 0 && m->arg[i].role < m->arg[i - 1].role)
            return KILN_ERROR(DATA_LOSS, "argument %u: an %s after the %ss", i,
                              role_name[m->arg[i].role], role_name[m->arg[i - 1].role]);
        of_role[m->arg[i].role]++;
    }
    if (of_role[KILN_ROLE_OUTPUT] == 0) return KILN_ERROR(DATA_LOSS, "no argument is an output");
    if (of_role[KILN_ROLE_PACKED] > 0 && !m->has_prepare)
        return KILN_ERROR(DATA_LOSS, "packed arguments, but nothing that prepares them");
    kiln_status st = check_payloads(m, payload_bytes);
    return st ? st : check_launches(m);
}

static kiln_status read_manifest(kiln_str bytes, uint64_t payload_bytes, kiln_arena *arena,
                                 kiln_manifest *out) {
    kiln_manifest manifest = {0};
    kiln_mpack_reader r;
    kiln_mpack_reader_init(&r, bytes.data, bytes.size);
    kiln_status st =
        read_fields(&r, KEY_REQUIRED, KEY_COUNT, read_manifest_field, arena, &manifest);
    if (!st && r.offset != r.size)
        st = KILN_ERROR(DATA_LOSS, "%zu bytes follow the manifest", r.size - r.offset);
    if (!st) {
        fill_in_plain(&manifest, payload_bytes, arena);
        st = check_manifest(&manifest, payload_bytes);
    }
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
    kiln_status st = read_manifest(manifest, payload_bytes, arena, &artefact.manifest);
    if (!st) *out_artefact = artefact;
    return st;
}

kiln_str kiln_artefact_payload(const kiln_artefact *artefact, uint32_t index) {
    const kiln_manifest *m = &artefact->manifest;
    KILN_CHECK(index < m->payload_count);
    size_t begin = 0;
    for (uint32_t i = 0;; i++) {
        begin += (0 - begin) % KILN_PAYLOAD_ALIGNMENT;
        if (i == index) break;
        begin += (size_t)m->payload[i].size_bytes;
    }
    return kiln_str_slice(artefact->payload, begin, begin + (size_t)m->payload[index].size_bytes);
}

static void print_arg(const kiln_manifest_arg *arg, kiln_strbuf *out) {
    kiln_strbuf_printf(out, "  %-8s %.*s: %s", role_name[arg->role], KILN_STR_ARG(arg->name),
                       kiln_dtype_name(arg->dtype));
    kiln_shape_print(&arg->shape, out);
    kiln_strbuf_text(out, " layout ");
    kiln_layout_print(&arg->layout, out);
    kiln_strbuf_text(out, arg->read_by_run ? "\n" : " (prepare only)\n");
}

static void print_payloads(const kiln_manifest *m, kiln_strbuf *out) {
    kiln_strbuf_text(out, "payloads\n");
    for (uint32_t i = 0; i < m->payload_count; i++)
        kiln_strbuf_printf(out, "  %s of %llu bytes\n", payload_name[m->payload[i].kind],
                           (unsigned long long)m->payload[i].size_bytes);
}

static void print_axes(const char *what, const uint32_t axis[3], kiln_strbuf *out) {
    kiln_strbuf_printf(out, " %s %ux%ux%u", what, axis[0], axis[1], axis[2]);
}

static void print_launch(const kiln_manifest *m, const kiln_manifest_launch *launch,
                         kiln_strbuf *out) {
    kiln_strbuf_printf(out, "  %s %u:%.*s(",
                       launch->phase == KILN_LAUNCH_PREPARE ? "prepare" : "run", launch->payload,
                       KILN_STR_ARG(launch->entry));
    for (uint32_t i = 0; i < launch->arg_count; i++)
        kiln_strbuf_printf(out, "%s%.*s", i ? ", " : "", KILN_STR_ARG(m->arg[launch->arg[i]].name));
    kiln_strbuf_char(out, ')');
    print_axes("grid", launch->grid, out);
    print_axes("group", launch->group, out);
    if (launch->cluster > 1) kiln_strbuf_printf(out, " cluster %u", launch->cluster);
    for (uint32_t i = 0; i < KILN_MEMORY_SPACES_END; i++)
        if (launch->scratch_bytes[i] > 0)
            kiln_strbuf_printf(out, ", %llu bytes of %s",
                               (unsigned long long)launch->scratch_bytes[i],
                               kiln_memory_row_of((kiln_memory_space)i)->name);
    kiln_strbuf_char(out, '\n');
    for (uint32_t i = 0; i < launch->map_count; i++) {
        const kiln_manifest_map *map = &launch->map[i];
        kiln_strbuf_printf(out,
                           "    map of %.*s: ", KILN_STR_ARG(m->arg[launch->arg[map->arg]].name));
        kiln_manifest_map_print(map, out);
        kiln_strbuf_char(out, '\n');
    }
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
    if (!executes_what_it_needs(m))
        kiln_strbuf_printf(out, "executed flops %.9g\n", m->executed_flops);
    if (!error_is_plain(m)) kiln_strbuf_printf(out, "error factor %.9g\n", m->error_factor);
    kiln_strbuf_text(out, "arguments\n");
    for (uint32_t i = 0; i < m->arg_count; i++) print_arg(&m->arg[i], out);
    if (m->payload_count > 1) print_payloads(m, out);
    if (launches_are_plain(m)) return;
    kiln_strbuf_text(out, "launches\n");
    for (uint32_t i = 0; i < m->launch_count; i++) print_launch(m, &m->launch[i], out);
}
