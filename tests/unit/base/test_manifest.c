#include "base/manifest.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/kernel_abi.h"
#include "base/rand.h"
#include "tests/support/test.h"

static kiln_layout layout_of(const char *text, uint32_t rank) {
    kiln_layout layout;
    expect_ok(kiln_layout_parse(kiln_str_from(text), rank, &layout));
    return layout;
}

static kiln_manifest_arg arg_of(const char *name, kiln_role role, kiln_shape shape,
                                const char *layout) {
    return (kiln_manifest_arg){.name = kiln_str_from(name),
                               .dtype = KILN_F32,
                               .role = role,
                               .shape = shape,
                               .layout = layout_of(layout, shape.rank),
                               .fill = KILN_FILL_UNIFORM,
                               .read_by_run = true};
}

/* A convolution with packed weights; every field differs from its default. */
static kiln_artefact example(kiln_manifest_arg arg[4]) {
    arg[0] =
        arg_of("data", KILN_ROLE_INPUT, (kiln_shape){4, {1, 64, 56, 56}}, "d0,d1/16,d2,d3,d1%16");
    arg[1] = arg_of("weight", KILN_ROLE_CONSTANT, (kiln_shape){4, {64, 64, 3, 3}}, "row");
    arg[1].read_by_run = false;
    arg[2] =
        arg_of("out", KILN_ROLE_OUTPUT, (kiln_shape){4, {1, 64, 56, 56}}, "d0,d1/16,d2,d3,d1%16");
    arg[3] = arg_of("weight.packed", KILN_ROLE_PACKED, (kiln_shape){1, {36864}}, "row");
    return (kiln_artefact){
        .manifest = {.abi_version = KILN_KERNEL_ABI_VERSION,
                     .payload_kind = KILN_PAYLOAD_ELF,
                     .target = KILN_STR("cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v3"),
                     .codegen_version = KILN_STR("1/19.1.7"),
                     .task_key = KILN_STR("1:0123"),
                     .algorithm = KILN_STR("direct"),
                     .has_prepare = true,
                     .threads_max = 2,
                     .scratch_bytes = 1 << 20,
                     .scratch_worker_bytes = 4096,
                     .flops = 231211008.0,
                     .arg_count = 4,
                     .arg = arg},
        .payload = KILN_STR("\177ELF payload"),
    };
}

/* Three launches on a device over two payloads, with a temp and a table between them. */
static kiln_artefact example_of_launches(kiln_manifest_arg arg[6], kiln_manifest_launch launch[3]) {
    static const uint32_t prepares[] = {1, 3}, first[] = {0, 4, 5}, second[] = {5, 3, 2};
    static const kiln_manifest_payload payload[] = {{KILN_PAYLOAD_PTX, 5}, {KILN_PAYLOAD_PTX, 3}};
    static const float table[] = {0.5f, 1.0f, 2.0f};
    kiln_artefact artefact = example(arg);
    arg[4] = arg_of("transformed", KILN_ROLE_TEMP, (kiln_shape){2, {36, 64}}, "row");
    arg[5] = arg_of("matrix", KILN_ROLE_TABLE, (kiln_shape){1, {3}}, "row");
    arg[5].data = (kiln_str){(const char *)table, sizeof table};
    launch[0] = (kiln_manifest_launch){.phase = KILN_LAUNCH_PREPARE,
                                       .entry = KILN_STR("weights"),
                                       .grid = {4, 1, 1},
                                       .group = {32, 1, 1},
                                       .arg_count = 2,
                                       .arg = prepares};
    launch[1] = (kiln_manifest_launch){.phase = KILN_LAUNCH_RUN,
                                       .entry = KILN_STR("forward"),
                                       .grid = {8, 2, 1},
                                       .group = {32, 4, 1},
                                       .arg_count = 3,
                                       .arg = first};
    launch[1].scratch_bytes[KILN_MEMORY_SHARED] = 4096;
    launch[2] = (kiln_manifest_launch){.phase = KILN_LAUNCH_RUN,
                                       .entry = KILN_STR("product"),
                                       .payload = 1,
                                       .grid = {8, 8, 8},
                                       .group = {256, 1, 1},
                                       .arg_count = 3,
                                       .arg = second};
    kiln_manifest *m = &artefact.manifest;
    m->payload_kind = KILN_PAYLOAD_PTX;
    m->arg_count = 6;
    m->executed_flops = 102760448.0;
    m->error_factor = 4.5;
    m->payload_count = 2;
    m->payload = payload;
    m->launch_count = 3;
    m->launch = launch;
    artefact.payload = KILN_STR("first\0\0\0\0\0\0\0\0\0\0\0two");
    return artefact;
}

/* The same; the last one copies boxes of "transformed" and of the packed weights, in clusters of 4.
 */
static kiln_artefact example_of_maps(kiln_manifest_arg arg[6], kiln_manifest_launch launch[3]) {
    static const kiln_manifest_map map[] = {
        {.arg = 0, .rank = 1, .dtype = KILN_F32, .size = {3}, .stride_bytes = {4}, .box = {4}},
        {.arg = 1,
         .offset_bytes = 4096,
         .rank = 2,
         .dtype = KILN_F32,
         .size = {64, 16},
         .stride_bytes = {4, 256},
         .box = {32, 8},
         .is_permuted = true}};
    const kiln_artefact artefact = example_of_launches(arg, launch);
    launch[2].cluster = 4;
    launch[2].map_count = 2;
    launch[2].map = map;
    return artefact;
}

static void encode(const kiln_artefact *artefact, kiln_strbuf *out) {
    kiln_strbuf_reset(out);
    kiln_artefact_encode(artefact, out);
}

static void artefact_round_trips_and_is_deterministic(void **state) {
    kiln_arena *arena = *state;
    kiln_manifest_arg arg[4];
    kiln_artefact artefact = example(arg), decoded;
    kiln_strbuf bytes = {0}, again = {0}, text = {0}, text_again = {0};
    encode(&artefact, &bytes);
    expect_ok(kiln_artefact_decode(kiln_strbuf_view(&bytes), arena, &decoded));
    encode(&decoded, &again);
    assert_true(kiln_str_equal(kiln_strbuf_view(&bytes), kiln_strbuf_view(&again)));
    kiln_manifest_print(&artefact.manifest, &text);
    kiln_manifest_print(&decoded.manifest, &text_again);
    assert_string_equal(text.data, text_again.data);
    expect_contains(text.data, "constant weight: f32[64,64,3,3] layout row (prepare only)");
    assert_true(kiln_str_equal(decoded.payload, artefact.payload));
    assert_false(decoded.manifest.arg[1].read_by_run);
    assert_int_equal((uintptr_t)(decoded.payload.data - bytes.data) % 16, 0);
    kiln_strbuf_deinit(&bytes);
    kiln_strbuf_deinit(&again);
    kiln_strbuf_deinit(&text);
    kiln_strbuf_deinit(&text_again);
}

static void expect_digest(const kiln_artefact *artefact, const char *expected) {
    kiln_strbuf bytes = {0};
    kiln_digest digest;
    char text[KILN_DIGEST_TEXT];
    encode(artefact, &bytes);
    kiln_digest_of(bytes.data, bytes.size, &digest);
    kiln_digest_print(&digest, text);
    assert_string_equal(text, expected);
    kiln_strbuf_deinit(&bytes);
}

/* Artefacts are named by their hash, in databases and recorded sessions. */
static void artefacts_of_before_keep_their_bytes(void **state) {
    (void)state;
    kiln_manifest_arg arg[6];
    kiln_manifest_launch launch[3];
    const kiln_artefact plain = example(arg);
    expect_digest(&plain, "a998e4a9a8d57f5f3e74d6656c1055cb224c0506d25ea55d6f89201a1eede77e");
    const kiln_artefact launches = example_of_launches(arg, launch);
    expect_digest(&launches, "7e2f09a4897d034798ee6cec845ad172a3dd00d9cfdc823bae2cd430387e0ac0");
}

/* Readers of before know no such fill, so they refuse it. */
static void ranges_round_trip(void **state) {
    kiln_arena *arena = *state;
    kiln_manifest_arg arg[4];
    kiln_artefact artefact = example(arg), decoded;
    arg[1].dtype = KILN_I8;
    arg[1].fill = KILN_FILL_RANGE;
    arg[1].range = (kiln_range){-3, 3, 2};
    kiln_strbuf bytes = {0};
    encode(&artefact, &bytes);
    expect_ok(kiln_artefact_decode(kiln_strbuf_view(&bytes), arena, &decoded));
    assert_int_equal(decoded.manifest.arg[1].fill, KILN_FILL_RANGE);
    assert_memory_equal(&decoded.manifest.arg[1].range, &arg[1].range, sizeof arg[1].range);
    kiln_strbuf_deinit(&bytes);
}

static void plain_artefacts_are_one_launch_per_phase(void **state) {
    kiln_arena *arena = *state;
    kiln_manifest_arg arg[4];
    kiln_artefact artefact = example(arg), decoded;
    kiln_strbuf bytes = {0};
    encode(&artefact, &bytes);
    expect_ok(kiln_artefact_decode(kiln_strbuf_view(&bytes), arena, &decoded));
    const kiln_manifest *m = &decoded.manifest;
    assert_true(kiln_manifest_is_plain(m) && m->executed_flops == m->flops && m->error_factor == 1);
    assert_true(kiln_str_equal(kiln_artefact_payload(&decoded, 0), artefact.payload));
    assert_int_equal(m->payload[0].kind, KILN_PAYLOAD_ELF);
    assert_int_equal(m->launch_count, 2);
    assert_true(kiln_str_is(m->launch[0].entry, KILN_ENTRY_PREPARE));
    assert_int_equal(m->launch[0].phase, KILN_LAUNCH_PREPARE);
    assert_true(kiln_str_is(m->launch[1].entry, KILN_ENTRY_RUN));
    assert_int_equal(m->launch[1].arg_count, 4);
    for (uint32_t i = 0; i < 4; i++) assert_int_equal(m->launch[1].arg[i], i);
    for (uint32_t i = 0; i < 3; i++)
        assert_true(m->launch[1].grid[i] == 1 && m->launch[1].group[i] == 1);
    kiln_strbuf_deinit(&bytes);
}

static void launches_round_trip(void **state) {
    kiln_arena *arena = *state;
    kiln_manifest_arg arg[6];
    kiln_manifest_launch launch[3];
    kiln_artefact artefact = example_of_launches(arg, launch), decoded;
    kiln_strbuf bytes = {0}, again = {0}, text = {0};
    encode(&artefact, &bytes);
    expect_ok(kiln_artefact_decode(kiln_strbuf_view(&bytes), arena, &decoded));
    encode(&decoded, &again);
    assert_true(kiln_str_equal(kiln_strbuf_view(&bytes), kiln_strbuf_view(&again)));
    assert_false(kiln_manifest_is_plain(&decoded.manifest));
    assert_true(kiln_str_is(kiln_artefact_payload(&decoded, 0), "first"));
    assert_true(kiln_str_is(kiln_artefact_payload(&decoded, 1), "two"));
    assert_memory_equal(decoded.manifest.arg[5].data.data, arg[5].data.data, arg[5].data.size);
    kiln_manifest_print(&decoded.manifest, &text);
    expect_contains(text.data, "executed flops 102760448\nerror factor 4.5\n");
    expect_contains(text.data, "payloads\n  ptx of 5 bytes\n  ptx of 3 bytes\n");
    expect_contains(text.data,
                    "  prepare 0:weights(weight, weight.packed) grid 4x1x1 group 32x1x1\n");
    expect_contains(text.data,
                    "  run 0:forward(data, transformed, matrix) grid 8x2x1 group 32x4x1, "
                    "4096 bytes of shared\n");
    kiln_strbuf_deinit(&bytes);
    kiln_strbuf_deinit(&again);
    kiln_strbuf_deinit(&text);
}

static void maps_and_clusters_round_trip(void **state) {
    kiln_arena *arena = *state;
    kiln_manifest_arg arg[6];
    kiln_manifest_launch launch[3];
    kiln_artefact artefact = example_of_maps(arg, launch), decoded;
    kiln_strbuf bytes = {0}, again = {0}, text = {0};
    encode(&artefact, &bytes);
    expect_ok(kiln_artefact_decode(kiln_strbuf_view(&bytes), arena, &decoded));
    encode(&decoded, &again);
    assert_true(kiln_str_equal(kiln_strbuf_view(&bytes), kiln_strbuf_view(&again)));
    const kiln_manifest_launch *got = decoded.manifest.launch;
    assert_true(got[0].cluster == 1 && got[0].map_count == 0 && got[1].cluster == 1);
    assert_true(got[2].cluster == 4 && got[2].map_count == 2);
    assert_memory_equal(got[2].map[0].size, launch[2].map[0].size, sizeof got[2].map[0].size);
    assert_int_equal(got[2].map[1].arg, 1);
    assert_true(got[2].map[1].is_permuted);
    kiln_manifest_print(&decoded.manifest, &text);
    expect_contains(text.data, "abi 3, ptx\n");
    expect_contains(text.data,
                    "grid 8x8x8 group 256x1x1 cluster 4\n"
                    "    map of matrix: f32 from byte 0 size 3 box 4\n"
                    "    map of weight.packed: f32 from byte 4096 size 64x16 stride 256 box 32x8 "
                    "permuted\n");
    kiln_strbuf_deinit(&bytes);
    kiln_strbuf_deinit(&again);
    kiln_strbuf_deinit(&text);
}

/* Readers of before skip keys that they do not know, so the version must tell them; and a manifest
 * must not hide its maps behind an old one. */
static void only_maps_and_clusters_raise_the_version(void **state) {
    kiln_arena *arena = *state;
    kiln_manifest_arg arg[6];
    kiln_manifest_launch launch[3];
    kiln_strbuf bytes = {0};
    for (int k = 0; k < 4; k++) {
        kiln_artefact artefact = example_of_maps(arg, launch), decoded;
        if (k % 2 == 0) launch[2].cluster = 0;
        if (k < 2) launch[2].map_count = 0;
        encode(&artefact, &bytes);
        expect_ok(kiln_artefact_decode(kiln_strbuf_view(&bytes), arena, &decoded));
        assert_int_equal(decoded.manifest.abi_version,
                         k ? KILN_MANIFEST_ABI_MAPS : KILN_MANIFEST_ABI_LAUNCHES);
        /* The version is the first value of the manifest, behind 24 bytes of header, 3 of a map and
         * a key. */
        assert_int_equal(bytes.data[28], decoded.manifest.abi_version);
        bytes.data[28]--;
        expect_error(kiln_artefact_decode(kiln_strbuf_view(&bytes), arena, &decoded), UNIMPLEMENTED,
                     k ? "kernel ABI 2; this version reads 3 to 3"
                       : "kernel ABI 1; this version reads 2 to 3");
    }
    kiln_strbuf_deinit(&bytes);
}

static void every_truncation_is_refused(void **state) {
    kiln_arena *arena = *state;
    kiln_manifest_arg arg[6];
    kiln_manifest_launch launch[3];
    kiln_artefact artefact = example_of_maps(arg, launch), decoded;
    kiln_strbuf bytes = {0};
    encode(&artefact, &bytes);
    for (size_t size = 0; size < bytes.size; size++)
        expect_error(kiln_artefact_decode((kiln_str){bytes.data, size}, arena, &decoded), DATA_LOSS,
                     "");
    kiln_strbuf_char(&bytes, 'x');
    expect_error(kiln_artefact_decode(kiln_strbuf_view(&bytes), arena, &decoded), DATA_LOSS,
                 "header");
    kiln_strbuf_deinit(&bytes);
}

static void mutations_are_refused_or_mean_what_they_say(void **state) {
    kiln_arena *arena = *state;
    kiln_manifest_arg arg[6];
    kiln_manifest_launch launch[3];
    kiln_artefact plain = example(arg), launches = example_of_maps(arg, launch), decoded, again;
    kiln_strbuf bytes = {0}, encoded = {0};
    kiln_rand r;
    kiln_rand_init(&r, 11);
    size_t refused = 0;
    for (int round = 0; round < 20000; round++) {
        kiln_arena_reset(arena);
        encode(round % 2 ? &plain : &launches, &bytes);
        for (uint64_t flips = 1 + kiln_rand_below(&r, 4); flips > 0; flips--)
            bytes.data[kiln_rand_below(&r, bytes.size)] = (char)kiln_rand_u64(&r);
        kiln_status st = kiln_artefact_decode(kiln_strbuf_view(&bytes), arena, &decoded);
        refused += st != NULL;
        if (st) {
            kiln_status_free(st); /* any error is fine; a crash is not */
            continue;
        }
        kiln_strbuf text = {0}, text_again = {0};
        encode(&decoded, &encoded);
        expect_ok(kiln_artefact_decode(kiln_strbuf_view(&encoded), arena, &again));
        kiln_manifest_print(&decoded.manifest, &text);
        kiln_manifest_print(&again.manifest, &text_again);
        assert_string_equal(text.data, text_again.data);
        kiln_strbuf_deinit(&text);
        kiln_strbuf_deinit(&text_again);
    }
    assert_in_range(refused, 5000, 20000);
    kiln_strbuf_deinit(&bytes);
    kiln_strbuf_deinit(&encoded);
}

typedef void (*spoil)(kiln_artefact *a);
static void spoil_abi(kiln_artefact *a) { a->manifest.abi_version = 4; }
static void spoil_kind(kiln_artefact *a) { a->manifest.payload_kind = (kiln_payload_kind)9; }
static void spoil_threads(kiln_artefact *a) { a->manifest.threads_max = 0; }
static void spoil_scratch(kiln_artefact *a) { a->manifest.scratch_bytes = UINT64_MAX; }
static void spoil_flops(kiln_artefact *a) { a->manifest.flops = (double)NAN; }
static void spoil_order(kiln_artefact *a) { a->manifest.arg[0].role = KILN_ROLE_PACKED; }
static void spoil_outputs(kiln_artefact *a) { a->manifest.arg_count = 2; }
static void spoil_prepare(kiln_artefact *a) { a->manifest.has_prepare = false; }
static void spoil_shape(kiln_artefact *a) { a->manifest.arg[1].shape.dim[0] = INT64_MAX; }
static void spoil_sign(kiln_artefact *a) { a->manifest.arg[1].shape.dim[0] = -1; }
static void spoil_layout(kiln_artefact *a) { a->manifest.arg[0].layout.piece[0].dim = 7; }
static void spoil_padding(kiln_artefact *a) {
    a->manifest.arg[3].layout = layout_of("d0/2147483648,d0/1048576%2048,d0%1048576,d1", 2);
    a->manifest.arg[3].shape = (kiln_shape){2, {5, 2}};
    a->manifest.arg[3].dtype = KILN_F64;
}
static void spoil_fill(kiln_artefact *a) { a->manifest.arg[0].fill = (kiln_fill)0; }
static void spoil_range(kiln_artefact *a) {
    a->manifest.arg[0].dtype = KILN_I8;
    a->manifest.arg[0].fill = KILN_FILL_RANGE;
    a->manifest.arg[0].range = (kiln_range){0, 300, 1};
}
static void spoil_dtype(kiln_artefact *a) { a->manifest.arg[0].dtype = (kiln_dtype)99; }

static void contradictory_fields_are_refused_by_name(void **state) {
    kiln_arena *arena = *state;
    static const struct {
        spoil spoil;
        kiln_code code;
        const char *complaint;
    } row[] = {
        {spoil_abi, KILN_UNIMPLEMENTED, "kernel ABI 4; this version reads 1 to 3"},
        {spoil_kind, KILN_DATA_LOSS, "key 2"},
        {spoil_threads, KILN_DATA_LOSS, "key 8"},
        {spoil_scratch, KILN_DATA_LOSS, "key 9"},
        {spoil_flops, KILN_DATA_LOSS, "flops"},
        {spoil_order, KILN_DATA_LOSS, "argument 1"},
        {spoil_outputs, KILN_DATA_LOSS, "no argument is an output"},
        {spoil_prepare, KILN_DATA_LOSS, "packed"},
        {spoil_shape, KILN_OUT_OF_RANGE, "argument 1"},
        {spoil_sign, KILN_OUT_OF_RANGE, "argument 1"},
        {spoil_layout, KILN_INVALID_ARGUMENT, "argument 0"},
        {spoil_padding, KILN_OUT_OF_RANGE, "argument 3"},
        {spoil_fill, KILN_DATA_LOSS, "key 6"},
        {spoil_range, KILN_DATA_LOSS, "a range of i8"},
        {spoil_dtype, KILN_DATA_LOSS, "key 2"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_manifest_arg arg[4];
        kiln_artefact artefact = example(arg), decoded;
        kiln_strbuf bytes = {0};
        row[i].spoil(&artefact);
        encode(&artefact, &bytes);
        expect_error_at(kiln_artefact_decode(kiln_strbuf_view(&bytes), arena, &decoded),
                        row[i].code, row[i].complaint, __FILE__, __LINE__);
        kiln_strbuf_deinit(&bytes);
    }
}

typedef void (*spoil_launches)(kiln_artefact *a, kiln_manifest_launch launch[3]);
static void spoil_phase(kiln_artefact *a, kiln_manifest_launch launch[3]) {
    (void)a;
    launch[2].phase = KILN_LAUNCH_PREPARE;
}
static void spoil_no_run(kiln_artefact *a, kiln_manifest_launch launch[3]) {
    (void)launch;
    a->manifest.launch_count = 1;
}
static void spoil_has_prepare(kiln_artefact *a, kiln_manifest_launch launch[3]) {
    launch[0].phase = KILN_LAUNCH_RUN;
    (void)a;
}
static void spoil_payload(kiln_artefact *a, kiln_manifest_launch launch[3]) {
    (void)a;
    launch[1].payload = 2;
}
static void spoil_payload_size(kiln_artefact *a, kiln_manifest_launch launch[3]) {
    (void)launch;
    a->payload = KILN_STR("first\0\0\0\0\0\0\0\0\0\0\0tw");
}
static void spoil_first_kind(kiln_artefact *a, kiln_manifest_launch launch[3]) {
    (void)launch;
    a->manifest.payload_kind = KILN_PAYLOAD_ELF;
}
static void spoil_argument(kiln_artefact *a, kiln_manifest_launch launch[3]) {
    static const uint32_t far[] = {6};
    (void)a;
    launch[1].arg = far;
    launch[1].arg_count = 1;
}
static void spoil_grid(kiln_artefact *a, kiln_manifest_launch launch[3]) {
    (void)a;
    launch[2].grid[1] = 0;
}
static void spoil_space(kiln_artefact *a, kiln_manifest_launch launch[3]) {
    (void)a;
    launch[1].scratch_bytes[KILN_MEMORY_HOST] = 64;
}
static void spoil_factor(kiln_artefact *a, kiln_manifest_launch launch[3]) {
    (void)launch;
    a->manifest.error_factor = -1;
}
static void spoil_executed(kiln_artefact *a, kiln_manifest_launch launch[3]) {
    (void)launch;
    a->manifest.executed_flops = (double)NAN;
}
static void spoil_table(kiln_artefact *a, kiln_manifest_launch launch[3]) {
    (void)launch;
    a->manifest.arg[5].data.size = 8;
}
static void spoil_launch_count(kiln_artefact *a, kiln_manifest_launch launch[3]) {
    static kiln_manifest_launch many[KILN_MANIFEST_LAUNCHES_MAX + 1];
    for (size_t i = 0; i < KILN_ARRAY_COUNT(many); i++) many[i] = launch[2];
    many[0] = launch[0];
    a->manifest.launch = many;
    a->manifest.launch_count = KILN_ARRAY_COUNT(many);
}

static void spoil_cluster(kiln_artefact *a, kiln_manifest_launch launch[3]) {
    (void)a;
    launch[2].cluster = 3;
}
static void spoil_large_cluster(kiln_artefact *a, kiln_manifest_launch launch[3]) {
    (void)a;
    launch[1].cluster = KILN_LAUNCH_CLUSTER_MAX + 1;
}
static void spoil_map_count(kiln_artefact *a, kiln_manifest_launch launch[3]) {
    static const kiln_manifest_map many[KILN_LAUNCH_MAPS_MAX + 1];
    (void)a;
    launch[1].map = many;
    launch[1].map_count = KILN_ARRAY_COUNT(many);
}
static kiln_manifest_map spoilt_map;
static void spoil_map_arg(kiln_artefact *a, kiln_manifest_launch launch[3]) {
    (void)a;
    spoilt_map = launch[2].map[1];
    spoilt_map.arg = 3;
    launch[2].map = &spoilt_map;
    launch[2].map_count = 1;
}
static void spoil_map_size(kiln_artefact *a, kiln_manifest_launch launch[3]) {
    spoil_map_arg(a, launch);
    spoilt_map.arg = 0; /* a table of 12 bytes */
}
static void spoil_map_type(kiln_artefact *a, kiln_manifest_launch launch[3]) {
    spoil_map_arg(a, launch);
    spoilt_map.dtype = (kiln_dtype)99;
}

static void contradictory_launches_are_refused_by_name(void **state) {
    kiln_arena *arena = *state;
    static const struct {
        spoil_launches spoil;
        const char *complaint;
    } row[] = {
        {spoil_phase, "launch 2: it prepares"},
        {spoil_no_run, "no launch runs"},
        {spoil_has_prepare, "0 launches prepare"},
        {spoil_payload, "launch 1: payload 2 of 2"},
        {spoil_payload_size, "payloads need 19 bytes, there are 18"},
        {spoil_first_kind, "payloads need"},
        {spoil_argument, "launch 1: argument 6 of 6"},
        {spoil_grid, "launch 2: key 4"},
        {spoil_space, "scratch in space 1"},
        {spoil_factor, "key 14"},
        {spoil_executed, "key 13"},
        {spoil_table, "argument 5: a table of 12 bytes that brings along 8"},
        {spoil_launch_count, "513 launches"},
        {spoil_cluster, "launch 2: 8 groups along x in clusters of 3"},
        {spoil_large_cluster, "launch 1: key 8: 9 is not in [2, 8]"},
        {spoil_map_count, "launch 1: key 9: 9 tensor maps; from 1 to 8"},
        {spoil_map_arg, "launch 2: tensor map 0: argument 3 of the launch's 3"},
        {spoil_map_size, "launch 2: tensor map 0: it begins at byte 4096 of the argument's 12"},
        {spoil_map_type, "launch 2: key 9: tensor map 0"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_manifest_arg arg[6];
        kiln_manifest_launch launch[3];
        kiln_artefact artefact = example_of_maps(arg, launch), decoded;
        kiln_strbuf bytes = {0};
        row[i].spoil(&artefact, launch);
        encode(&artefact, &bytes);
        expect_error_at(kiln_artefact_decode(kiln_strbuf_view(&bytes), arena, &decoded),
                        KILN_DATA_LOSS, row[i].complaint, __FILE__, __LINE__);
        kiln_strbuf_deinit(&bytes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(artefact_round_trips_and_is_deterministic),
        test_with_arena(artefacts_of_before_keep_their_bytes),
        test_with_arena(ranges_round_trip),
        test_with_arena(plain_artefacts_are_one_launch_per_phase),
        test_with_arena(launches_round_trip),
        test_with_arena(maps_and_clusters_round_trip),
        test_with_arena(only_maps_and_clusters_raise_the_version),
        test_with_arena(contradictory_launches_are_refused_by_name),
        test_with_arena(every_truncation_is_refused),
        test_with_arena(mutations_are_refused_or_mean_what_they_say),
        test_with_arena(contradictory_fields_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
