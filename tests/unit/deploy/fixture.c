#include "tests/unit/deploy/fixture.h"

#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/file.h"
#include "base/kernel_abi.h"
#include "base/null_code.h"
#include "deploy/runtime/load.h"
#include "tests/support/targets.h"

static const char *object_folder = "."; /* set once in main */

void fixture_init(int argc, char **argv) {
    if (argc > 1) object_folder = argv[1];
}

kiln_str fixture_object(kiln_arena *arena, const char *name) {
    kiln_str bytes;
    kiln_status st = kiln_file_read(kiln_arena_printf(arena, "%s/%s", object_folder, name),
                                    KILN_OBJECT_BYTES_MAX, arena, &bytes);
    KILN_CHECK(st == NULL);
    return bytes;
}

kiln_manifest fixture_manifest(kiln_arena *arena) {
    kiln_target plain = plain_target(arena);
    static const struct {
        const char *name;
        kiln_role role;
    } row[] = {{"x", KILN_ROLE_INPUT},
               {"w", KILN_ROLE_CONSTANT},
               {"y", KILN_ROLE_OUTPUT},
               {"p", KILN_ROLE_PACKED}};
    kiln_manifest_arg *arg = KILN_ARENA_ARRAY(arena, kiln_manifest_arg, KILN_ARRAY_COUNT(row));
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++)
        arg[i] = (kiln_manifest_arg){
            .name = kiln_str_from(row[i].name),
            .dtype = KILN_F32,
            .role = row[i].role,
            .shape = {.rank = 1, .dim = {FIXTURE_COUNT}},
            .fill = KILN_FILL_UNIFORM,
            .read_by_run = row[i].role != KILN_ROLE_CONSTANT,
        };
    return (kiln_manifest){
        .abi_version = KILN_KERNEL_ABI_VERSION,
        .payload_kind = KILN_PAYLOAD_ELF,
        .target = text_of_target(&plain, arena),
        .codegen_version = KILN_STR("1"),
        .task_key = KILN_STR("k"),
        .algorithm = KILN_STR("direct"),
        .has_prepare = true,
        .threads_max = FIXTURE_THREADS,
        .scratch_worker_bytes = 64,
        .flops = 2.0 * FIXTURE_COUNT,
        .arg_count = KILN_ARRAY_COUNT(row),
        .arg = arg,
    };
}

kiln_str fixture_launches(kiln_arena *arena) {
    static const float table[] = {0.5f, 1.0f, 2.0f, 4.0f};
    enum { X, W, Y, P, T, TABLE, ARG_COUNT };
    static const uint32_t doubles[] = {W, P}, scales[] = { TABLE, X, P, T }, squares[] = {T, Y};
    kiln_manifest m = fixture_manifest(arena);
    kiln_manifest_arg *arg = KILN_ARENA_ARRAY(arena, kiln_manifest_arg, ARG_COUNT);
    memcpy(arg, m.arg, m.arg_count * sizeof *arg);
    arg[T] = arg[TABLE] = arg[P];
    arg[T].name = KILN_STR("t");
    arg[T].role = KILN_ROLE_TEMP;
    arg[TABLE].name = KILN_STR("table");
    arg[TABLE].role = KILN_ROLE_TABLE;
    arg[TABLE].shape.dim[0] = (int64_t)KILN_ARRAY_COUNT(table);
    arg[TABLE].data = (kiln_str){(const char *)table, sizeof table};
    const kiln_manifest_launch launch[] = {
        {.phase = KILN_LAUNCH_PREPARE,
         .entry = KILN_STR("double_weights"),
         .arg_count = 2,
         .arg = doubles},
        {.phase = KILN_LAUNCH_RUN, .entry = KILN_STR("scale"), .arg_count = 4, .arg = scales},
        {.phase = KILN_LAUNCH_RUN,
         .entry = KILN_STR("square"),
         .payload = 1,
         .arg_count = 2,
         .arg = squares},
    };
    m.launch_count = KILN_ARRAY_COUNT(launch);
    kiln_manifest_launch *copy = kiln_arena_copy(arena, launch, sizeof launch);
    for (uint32_t i = 0; i < m.launch_count; i++)
        for (uint32_t axis = 0; axis < 3; axis++) copy[i].grid[axis] = copy[i].group[axis] = 1;
    m.launch = copy;
    m.arg = arg;
    m.arg_count = ARG_COUNT;
    kiln_str object = fixture_object(arena, "launches.o");
    const kiln_manifest_payload payload[] = {{KILN_PAYLOAD_ELF, object.size},
                                             {KILN_PAYLOAD_ELF, object.size}};
    m.payload_count = 2;
    m.payload = payload;
    kiln_strbuf both = {0};
    kiln_strbuf_str(&both, object);
    while (both.size % KILN_PAYLOAD_ALIGNMENT != 0) kiln_strbuf_char(&both, 0);
    kiln_strbuf_str(&both, object);
    kiln_str artefact = fixture_artefact_of(arena, &m, kiln_strbuf_view(&both));
    kiln_strbuf_deinit(&both);
    return artefact;
}

kiln_str fixture_artefact(kiln_arena *arena, const kiln_manifest *manifest, const char *object) {
    return fixture_artefact_of(arena, manifest, fixture_object(arena, object));
}

kiln_str fixture_artefact_of(kiln_arena *arena, const kiln_manifest *manifest, kiln_str object) {
    kiln_artefact artefact = {*manifest, object};
    kiln_strbuf bytes = {0};
    kiln_artefact_encode(&artefact, &bytes);
    kiln_str copy = {kiln_arena_copy(arena, bytes.data, bytes.size), bytes.size};
    kiln_strbuf_deinit(&bytes);
    return copy;
}

static void make_weights(float *w0, float *w1) {
    for (int i = 0; i < FIXTURE_COUNT; i++) {
        w0[i] = -0.5f - 0.001f * (float)(i % 17);
        w1[i] = -1.0f - 0.002f * (float)(i % 13);
    }
}

static uint32_t *numbers(kiln_arena *arena, uint32_t count, const uint32_t *from) {
    return kiln_arena_copy(arena, from, count * sizeof *from);
}

kiln_module_plan fixture_plan(kiln_arena *arena, const char *object) {
    float *w0 = kiln_arena_alloc(arena, FIXTURE_BYTES),
          *w1 = kiln_arena_alloc(arena, FIXTURE_BYTES);
    make_weights(w0, w1);
    const uint64_t slot = 4032; /* FIXTURE_BYTES rounded up to 64 */
    const kiln_plan_buffer buffer[FIXTURE_BUFFER_COUNT] = {
        [FIXTURE_X] = {.storage = KILN_STORAGE_INPUT, .size_bytes = FIXTURE_BYTES},
        [FIXTURE_W0] = {.storage = KILN_STORAGE_CONSTANT, .size_bytes = FIXTURE_BYTES, .data = w0},
        [FIXTURE_W1] = {.storage = KILN_STORAGE_CONSTANT, .size_bytes = FIXTURE_BYTES, .data = w1},
        [FIXTURE_A0] = {.storage = KILN_STORAGE_ARENA, .size_bytes = FIXTURE_BYTES, .offset = 0},
        [FIXTURE_A1] = {.storage = KILN_STORAGE_ARENA, .size_bytes = FIXTURE_BYTES, .offset = slot},
        [FIXTURE_A1_ALIAS] = {.storage = KILN_STORAGE_ALIAS,
                              .size_bytes = FIXTURE_BYTES,
                              .source = FIXTURE_A1},
        [FIXTURE_OUT0] = {.storage = KILN_STORAGE_OUTPUT, .size_bytes = FIXTURE_BYTES, .source = 0},
        [FIXTURE_OUT1] = {.storage = KILN_STORAGE_OUTPUT, .size_bytes = FIXTURE_BYTES, .source = 1},
        [FIXTURE_W0_AGAIN] = {.storage = KILN_STORAGE_CONSTANT,
                              .size_bytes = FIXTURE_BYTES,
                              .data = w0},
    };
    const kiln_plan_step step[FIXTURE_STEP_COUNT] = {
        {.action = KILN_ACTION_KERNEL,
         .name = KILN_STR("first"),
         .op = KILN_STR("exp+add"),
         .task = KILN_STR("k"),
         .arg_count = 3,
         .output_count = 1,
         .arg = numbers(arena, 3, (uint32_t[]){FIXTURE_X, FIXTURE_W0, FIXTURE_A0})},
        {.action = KILN_ACTION_KERNEL,
         .name = KILN_STR("second"),
         .op = KILN_STR("exp+add"),
         .task = KILN_STR("k"),
         .arg_count = 3,
         .output_count = 1,
         .arg = numbers(arena, 3, (uint32_t[]){FIXTURE_A0, FIXTURE_W1, FIXTURE_A1})},
        {.action = KILN_ACTION_ALIAS,
         .name = KILN_STR("flat"),
         .op = KILN_STR("reshape"),
         .arg_count = 2,
         .arg = numbers(arena, 2, (uint32_t[]){FIXTURE_A1, FIXTURE_A1_ALIAS})},
        {.action = KILN_ACTION_KERNEL,
         .name = KILN_STR("third"),
         .op = KILN_STR("exp+add"),
         .task = KILN_STR("k"),
         .arg_count = 3,
         .output_count = 1,
         .arg = numbers(arena, 3, (uint32_t[]){FIXTURE_A1_ALIAS, FIXTURE_W0_AGAIN, FIXTURE_OUT0})},
        {.action = KILN_ACTION_COPY,
         .name = KILN_STR("same"),
         .op = KILN_STR("identity"),
         .arg_count = 2,
         .output_count = 1,
         .arg = numbers(arena, 2, (uint32_t[]){FIXTURE_A1_ALIAS, FIXTURE_OUT1})},
    };
    const kiln_plan_port port[3] = {
        {.name = KILN_STR("x"),
         .dtype = KILN_F32,
         .shape = {.rank = 2, .dim = {10, 100}},
         .buffer = FIXTURE_X},
        {.name = KILN_STR("y"),
         .dtype = KILN_F32,
         .shape = {.rank = 1, .dim = {1000}},
         .buffer = FIXTURE_OUT0},
        {.name = KILN_STR("z"),
         .dtype = KILN_F32,
         .shape = {.rank = 1, .dim = {1000}},
         .buffer = FIXTURE_OUT1},
    };
    const kiln_plan_pair metadata[] = {{KILN_STR("model"), KILN_STR("fixture")},
                                       {KILN_STR("note"), KILN_STR("")}};
    kiln_manifest manifest = fixture_manifest(arena);
    kiln_str artefact = fixture_artefact(arena, &manifest, object);
    kiln_plan_port *ports = kiln_arena_copy(arena, port, sizeof port);
    return (kiln_module_plan){
        .metadata_count = 2,
        .input_count = 1,
        .output_count = 2,
        .kernel_count = 1,
        .buffer_count = FIXTURE_BUFFER_COUNT,
        .step_count = FIXTURE_STEP_COUNT,
        .metadata = kiln_arena_copy(arena, metadata, sizeof metadata),
        .input = ports,
        .output = ports + 1,
        .kernel = kiln_arena_copy(arena, &artefact, sizeof artefact),
        .buffer = kiln_arena_copy(arena, buffer, sizeof buffer),
        .step = kiln_arena_copy(arena, step, sizeof step),
        .arena_bytes = 2 * slot,
        .threads = 1,
    };
}

/* The same operations in the same order as objects/kernel.c, so results are equal to the last bit.
 */
static void kernel(const float *x, const float *w, float *y) {
    static const float table[4] = {1.0f, 2.0f, 3.0f, 4.0f};
    for (int i = 0; i < FIXTURE_COUNT; i++) {
        volatile float scaled =
            expf(x[i]) * table[i % 4]; /* volatile: never fused with the addition */
        y[i] = scaled + 2.0f * w[i];
    }
}

void fixture_expected(const float *x, float *out0, float *out1) {
    float w0[FIXTURE_COUNT], w1[FIXTURE_COUNT], a0[FIXTURE_COUNT];
    make_weights(w0, w1);
    kernel(x, w0, a0);
    kernel(a0, w1, out1);
    kernel(out1, w0, out0);
}

/* ---- loops ----------------------------------------------------------------------------------- */

static kiln_str loop_artefact(kiln_arena *arena) {
    static const struct {
        const char *name;
        kiln_role role;
    } row[] = {{"x", KILN_ROLE_INPUT},
               {"s", KILN_ROLE_INPUT},
               {"t", KILN_ROLE_OUTPUT},
               {"y", KILN_ROLE_OUTPUT},
               {"go", KILN_ROLE_OUTPUT}};
    kiln_manifest m = fixture_manifest(arena);
    m.arg = KILN_ARENA_ARRAY(arena, kiln_manifest_arg, KILN_ARRAY_COUNT(row));
    m.arg_count = KILN_ARRAY_COUNT(row);
    m.has_prepare = false;
    m.scratch_worker_bytes = 0;
    for (uint32_t i = 0; i < m.arg_count; i++)
        m.arg[i] = (kiln_manifest_arg){.name = kiln_str_from(row[i].name),
                                       .dtype = i == 4 ? KILN_BOOL : KILN_F32,
                                       .role = row[i].role,
                                       .shape = {1, {i == 4 ? 1 : LOOP_ROW}},
                                       .fill = KILN_FILL_UNIFORM,
                                       .read_by_run = true};
    return fixture_artefact(arena, &m, "loop.o");
}

kiln_module_plan fixture_loop_plan(kiln_arena *arena) {
    const uint64_t row = LOOP_ROW_BYTES, all = LOOP_TRIPS * row;
    const kiln_plan_buffer buffer[LOOP_BUFFER_COUNT] = {
        [LOOP_X] = {.storage = KILN_STORAGE_INPUT, .size_bytes = all},
        [LOOP_S0] = {.storage = KILN_STORAGE_INPUT, .size_bytes = row, .source = 1},
        [LOOP_Y] = {.storage = KILN_STORAGE_OUTPUT, .size_bytes = all},
        [LOOP_SUM] = {.storage = KILN_STORAGE_OUTPUT, .size_bytes = row, .source = 1},
        [LOOP_IDX] = {.storage = KILN_STORAGE_OUTPUT,
                      .size_bytes = LOOP_TRIPS * sizeof(int64_t),
                      .source = 2},
        [LOOP_STATE] = {.storage = KILN_STORAGE_ARENA, .size_bytes = row, .offset = 0},
        [LOOP_NEXT] = {.storage = KILN_STORAGE_ARENA, .size_bytes = row, .offset = 256},
        [LOOP_GO] = {.storage = KILN_STORAGE_ARENA, .size_bytes = 1, .offset = 512},
        [LOOP_INDEX] = {.storage = KILN_STORAGE_ARENA,
                        .size_bytes = sizeof(int64_t),
                        .offset = 768},
        [LOOP_X_ROW] = {.storage = KILN_STORAGE_ALIAS,
                        .size_bytes = row,
                        .source = LOOP_X,
                        .stride = (int64_t)row,
                        .loop = LOOP_STEP_LOOP},
        [LOOP_Y_ROW] = {.storage = KILN_STORAGE_ALIAS,
                        .size_bytes = row,
                        .source = LOOP_Y,
                        .stride = (int64_t)row,
                        .loop = LOOP_STEP_LOOP},
        [LOOP_IDX_ROW] = {.storage = KILN_STORAGE_ALIAS,
                          .size_bytes = sizeof(int64_t),
                          .source = LOOP_IDX,
                          .stride = sizeof(int64_t),
                          .loop = LOOP_STEP_LOOP},
        [LOOP_SPARE] = {.storage = KILN_STORAGE_ARENA, .size_bytes = row, .offset = 1024},
    };
    const kiln_plan_step step[LOOP_STEP_COUNT] = {
        [LOOP_STEP_INIT] = {.action = KILN_ACTION_COPY,
                            .name = KILN_STR("init"),
                            .op = KILN_STR("copy"),
                            .arg_count = 2,
                            .output_count = 1,
                            .arg = numbers(arena, 2, (uint32_t[]){LOOP_S0, LOOP_STATE})},
        [LOOP_STEP_LOOP] = {.action = KILN_ACTION_LOOP,
                            .name = KILN_STR("sums"),
                            .op = KILN_STR("loop"),
                            .body_count = 3,
                            .trip_max = LOOP_TRIPS,
                            .count = KILN_PLAN_NONE,
                            .condition = KILN_PLAN_NONE,
                            .index = LOOP_INDEX},
        [LOOP_STEP_KERNEL] = {.action = KILN_ACTION_KERNEL,
                              .name = KILN_STR("add"),
                              .op = KILN_STR("add"),
                              .task = KILN_STR("k"),
                              .arg_count = 5,
                              .output_count = 3,
                              .arg = numbers(arena, 5,
                                             (uint32_t[]){LOOP_X_ROW, LOOP_STATE, LOOP_NEXT,
                                                          LOOP_Y_ROW, LOOP_GO})},
        [LOOP_STEP_INDEX] = {.action = KILN_ACTION_COPY,
                             .arg_count = 2,
                             .output_count = 1,
                             .arg = numbers(arena, 2, (uint32_t[]){LOOP_INDEX, LOOP_IDX_ROW})},
        [LOOP_STEP_CARRY] = {.action = KILN_ACTION_CARRY,
                             .arg_count = 2,
                             .output_count = 1,
                             .arg = numbers(arena, 2, (uint32_t[]){LOOP_NEXT, LOOP_STATE})},
        [LOOP_STEP_SUM] = {.action = KILN_ACTION_COPY,
                           .arg_count = 2,
                           .output_count = 1,
                           .arg = numbers(arena, 2, (uint32_t[]){LOOP_STATE, LOOP_SUM})},
    };
    const kiln_plan_port input[] =
        {
            {.name = KILN_STR("x"),
             .dtype = KILN_F32,
             .shape = {2, {LOOP_TRIPS, LOOP_ROW}},
             .buffer = LOOP_X},
            {.name = KILN_STR("s0"),
             .dtype = KILN_F32,
             .shape = {1, {LOOP_ROW}},
             .buffer = LOOP_S0},
        },
                         output[] = {
                             {.name = KILN_STR("y"),
                              .dtype = KILN_F32,
                              .shape = {2, {LOOP_TRIPS, LOOP_ROW}},
                              .buffer = LOOP_Y},
                             {.name = KILN_STR("sum"),
                              .dtype = KILN_F32,
                              .shape = {1, {LOOP_ROW}},
                              .buffer = LOOP_SUM},
                             {.name = KILN_STR("idx"),
                              .dtype = KILN_I64,
                              .shape = {1, {LOOP_TRIPS}},
                              .buffer = LOOP_IDX},
                         };
    kiln_str kernel = loop_artefact(arena);
    return (kiln_module_plan){
        .input_count = KILN_ARRAY_COUNT(input),
        .output_count = KILN_ARRAY_COUNT(output),
        .kernel_count = 1,
        .buffer_count = LOOP_BUFFER_COUNT,
        .step_count = LOOP_STEP_COUNT,
        .input = kiln_arena_copy(arena, input, sizeof input),
        .output = kiln_arena_copy(arena, output, sizeof output),
        .kernel = kiln_arena_copy(arena, &kernel, sizeof kernel),
        .buffer = kiln_arena_copy(arena, buffer, sizeof buffer),
        .step = kiln_arena_copy(arena, step, sizeof step),
        .arena_bytes = 2048,
        .threads = 1,
    };
}

kiln_module_plan fixture_device_plan(kiln_arena *arena) {
    kiln_module_plan plan = fixture_loop_plan(arena);
    kiln_plan_buffer *buffer = KILN_ARENA_ARRAY(arena, kiln_plan_buffer, LOOP_DEVICE_BUFFER_COUNT);
    memcpy(buffer, plan.buffer, LOOP_BUFFER_COUNT * sizeof *buffer);
    const uint64_t all = LOOP_TRIPS * LOOP_ROW_BYTES;
    buffer[LOOP_DEVICE_X] = (kiln_plan_buffer){
        .storage = KILN_STORAGE_ARENA, .size_bytes = all, .offset = 1024, .device = 1};
    buffer[LOOP_DEVICE_Y] = (kiln_plan_buffer){
        .storage = KILN_STORAGE_ARENA, .size_bytes = all, .offset = 1536, .device = 1};
    static const uint32_t moved[] = {LOOP_STATE, LOOP_NEXT, LOOP_GO, LOOP_X_ROW, LOOP_Y_ROW};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(moved); i++) buffer[moved[i]].device = 1;
    buffer[LOOP_X_ROW].source = LOOP_DEVICE_X;
    buffer[LOOP_Y_ROW].source = LOOP_DEVICE_Y;
    for (uint32_t i = LOOP_X_ROW; i <= LOOP_IDX_ROW; i++) buffer[i].loop = LOOP_DEVICE_STEP_LOOP;
    kiln_plan_step *step = KILN_ARENA_ARRAY(arena, kiln_plan_step, LOOP_DEVICE_STEP_COUNT);
    const kiln_plan_step copy = {
        .action = KILN_ACTION_COPY, .device = 1, .arg_count = 2, .output_count = 1};
    step[LOOP_DEVICE_STEP_X] = step[LOOP_DEVICE_STEP_Y] = copy;
    step[LOOP_DEVICE_STEP_X].arg = numbers(arena, 2, (uint32_t[]){LOOP_X, LOOP_DEVICE_X});
    step[LOOP_DEVICE_STEP_Y].arg = numbers(arena, 2, (uint32_t[]){LOOP_DEVICE_Y, LOOP_Y});
    memcpy(&step[LOOP_DEVICE_STEP_INIT], plan.step, LOOP_STEP_COUNT * sizeof *step);
    step[LOOP_DEVICE_STEP_INIT].device = step[LOOP_DEVICE_STEP_KERNEL].device = 1;
    step[LOOP_DEVICE_STEP_CARRY].device = step[LOOP_DEVICE_STEP_SUM].device = 1;
    step[LOOP_DEVICE_STEP_EVENT] = (kiln_plan_step){.action = KILN_ACTION_EVENT,
                                                    .device = 1,
                                                    .after = LOOP_DEVICE_STEP_Y,
                                                    .name = KILN_STR("y"),
                                                    .op = KILN_STR("event")};
    static const kiln_plan_device further = {.kind = 1, .arena_bytes = 2048};
    plan.buffer = buffer;
    plan.step = step;
    plan.buffer_count = LOOP_DEVICE_BUFFER_COUNT;
    plan.step_count = LOOP_DEVICE_STEP_COUNT;
    plan.device = kiln_arena_copy(arena, &further, sizeof further);
    plan.device_count = 1;
    return plan;
}

kiln_str fixture_null_artefact(kiln_arena *arena) {
    static kiln_null_instruction add_one[] = {
        {KILN_NULL_SET, 6, 0, 0, 0, 0},
        {KILN_NULL_SET, 8, 0, 0, 0, 1},
        {KILN_NULL_LOOP, 7, 0, 0, 0, 0},
        {KILN_NULL_LOAD, 9, 6, 7, 0, 1},
        {KILN_NULL_ADD, 9, 9, 8, 0, 0},
        {KILN_NULL_STORE, 9, 6, 7, 1, 1},
        {KILN_NULL_LOOP_END, 7, 0, 0, 0, LOOP_ROW},
        {KILN_NULL_END, 0, 0, 0, 0, 0},
    };
    kiln_null_buffer buffer[] = {{KILN_NULL_ARGUMENT, KILN_I32, 0, 0, LOOP_ROW},
                                 {KILN_NULL_ARGUMENT, KILN_I32, 1, 0, LOOP_ROW}};
    kiln_null_function f = {.name = KILN_STR("kiln_run"),
                            .register_count = 10,
                            .buffer_count = 2,
                            .buffer = buffer,
                            .instruction_count = KILN_ARRAY_COUNT(add_one),
                            .instruction = add_one};
    kiln_strbuf code = {0};
    kiln_null_code_encode(&(kiln_null_code){1, &f}, &code);
    kiln_manifest m = fixture_manifest(arena);
    m.payload_kind = KILN_PAYLOAD_NULL_CODE;
    m.target = KILN_STR("null");
    m.has_prepare = false;
    m.scratch_worker_bytes = 0;
    m.arg_count = 2;
    m.arg[1].name = KILN_STR("y");
    m.arg[1].role = KILN_ROLE_OUTPUT;
    for (uint32_t i = 0; i < m.arg_count; i++) {
        m.arg[i].dtype = KILN_I32;
        m.arg[i].shape = (kiln_shape){1, {LOOP_ROW}};
        m.arg[i].read_by_run = true;
    }
    kiln_str artefact = fixture_artefact_of(arena, &m, kiln_strbuf_view(&code));
    kiln_strbuf_deinit(&code);
    return artefact;
}
