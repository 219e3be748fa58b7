/* The compiler of a server built with -Dserver_build=enabled: the tuner's builders. They inherit
 * this process' cores, on which nothing is timed. */
#include "rpc-server/board_builder.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "compiler-core/core.h"
#include "compiler-core/worker/builder.h"

/* A build that has not ended. */
typedef struct build {
    kiln_board_builder *builder;
    struct build *next;
    uint64_t run;
} build;

struct kiln_board_builder {
    kiln_board_builder_options options;
    kiln_builders *builders;
    build *pending;
};

const char *kiln_board_builder_codegen(void) { return kiln_codegen_version(); }

static void post(kiln_board_builder *builder, uint64_t run, kiln_outcome outcome, kiln_status st,
                 kiln_server_event event) {
    event.kind = KILN_SERVER_BUILT;
    event.run = run;
    event.outcome = outcome;
    event.text = st ? kiln_status_text(st) : NULL;
    builder->options.post(builder->options.context, &event);
    kiln_status_free(st);
}

static uint64_t end_build(build *e) {
    const uint64_t run = e->run;
    build **at = &e->builder->pending;
    while (*at != e) at = &(*at)->next;
    *at = e->next;
    kiln_free(e);
    return run;
}

static kiln_msg_assembled assembled_of(const kiln_work_reply *reply) {
    const kiln_assembled *said = &reply->assembled;
    return (kiln_msg_assembled){.registers = said->registers,
                                .spill_bytes = said->spill_bytes,
                                .stack_bytes = said->stack_bytes,
                                .shared_bytes = said->shared_bytes};
}

static void on_built(void *context, const kiln_work_reply *reply, kiln_outcome outcome,
                     const char *text) {
    kiln_board_builder *builder = ((build *)context)->builder;
    const uint64_t run = end_build(context);
    kiln_msg_built built = {0};
    kiln_server_event event = {.built = &built, .spent_ns = reply ? reply->elapsed_ns : 0};
    if (reply) event.assembled = assembled_of(reply);
    kiln_fail_pass(KILN_FAIL_BOARD_BUILT);
    outcome = kiln_builders_outcome(reply, outcome);
    kiln_status st = kiln_builders_status(reply, text);
    if (!st) st = kiln_blob_store_put(builder->options.store, reply->bytes, &built.artefact.digest);
    if (st && outcome == KILN_OUTCOME_OK) outcome = KILN_OUTCOME_INFRA;
    if (!st) {
        built.artefact.size = reply->bytes.size;
        built.algorithm = reply->algorithm;
        built.layout_in = reply->layout_in;
        built.layout_out = reply->layout_out;
    }
    post(builder, run, outcome, st, event);
}

static kiln_status read_program(kiln_board_builder *builder, const kiln_msg_recipe *recipe,
                                kiln_arena *scratch, kiln_str *out_text) {
    if (!kiln_str_is(recipe->codegen, kiln_codegen_version()))
        return KILN_ERROR(FAILED_PRECONDITION,
                          "the recipe is for codegen version %.*s; this server builds with %s",
                          KILN_STR_ARG(recipe->codegen), kiln_codegen_version());
    return kiln_blob_store_get(builder->options.store, &recipe->program.digest, scratch, out_text);
}

void kiln_board_builder_build(kiln_board_builder *builder, const kiln_server_action *action) {
    const kiln_msg_recipe *recipe = &action->trial->recipe;
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    kiln_work_request request = {.work = KILN_WORK_BUILD,
                                 .target = recipe->target,
                                 .task_key = recipe->task,
                                 .trace = recipe->trace};
    kiln_status st = kiln_fail_at(KILN_FAIL_BOARD_BUILD);
    if (!st) st = read_program(builder, recipe, &scratch, &request.te);
    if (st) {
        post(builder, action->run, KILN_OUTCOME_INFRA, st, (kiln_server_event){0});
    } else {
        build *e = kiln_alloc(sizeof *e);
        *e = (build){builder, builder->pending, action->run};
        builder->pending = e;
        kiln_builders_submit(builder->builders, &request, false, action->deadline_ns, on_built, e);
    }
    kiln_arena_deinit(&scratch);
}

kiln_board_builder *kiln_board_builder_create(const kiln_board_builder_options *options) {
    if (options->builders == 0) return NULL;
    kiln_board_builder *builder = kiln_alloc(sizeof *builder);
    builder->options = *options;
    builder->builders = kiln_builders_create(
        options->loop, &(kiln_builders_options){.program = options->program,
                                                .worker_count = options->builders,
                                                .memory_max = KILN_BOARD_BUILDER_MEMORY_BYTES});
    return builder;
}

void kiln_board_builder_destroy(kiln_board_builder *builder) {
    if (!builder) return;
    kiln_builders_destroy(builder->builders);
    while (builder->pending) end_build(builder->pending);
    kiln_free(builder);
}

bool kiln_board_builder_is_asked(int argc, char **argv) { return kiln_worker_is_asked(argc, argv); }

int kiln_board_builder_main(int argc, char **argv) { return kiln_worker_main(argc, argv); }
