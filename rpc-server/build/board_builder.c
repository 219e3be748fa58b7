/* A server with a compiler: the same builders as the tuner's, off the cores that are timed on,
 * which this process has left. */
#include "rpc-server/board_builder.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "compiler-core/core.h"
#include "compiler-core/worker/builder.h"

/* A build under way. */
typedef struct errand {
    kiln_board_builder *shop;
    struct errand *next;
    uint64_t run;
} errand;

struct kiln_board_builder {
    kiln_board_builder_options options;
    kiln_builders *builders;
    errand *errands;
};

const char *kiln_board_builder_codegen(void) { return kiln_codegen_version(); }

static void post(kiln_board_builder *shop, uint64_t run, kiln_outcome outcome, kiln_status st,
                 kiln_server_event event) {
    event.kind = KILN_SERVER_BUILT;
    event.run = run;
    event.outcome = outcome;
    event.text = st ? kiln_status_text(st) : NULL;
    shop->options.post(shop->options.context, &event);
    kiln_status_free(st);
}

static uint64_t end_errand(errand *e) {
    const uint64_t run = e->run;
    errand **at = &e->shop->errands;
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
    kiln_board_builder *shop = ((errand *)context)->shop;
    const uint64_t run = end_errand(context);
    kiln_msg_built built = {0};
    kiln_server_event event = {.built = &built, .spent_ns = reply ? reply->elapsed_ns : 0};
    if (reply) event.assembled = assembled_of(reply);
    kiln_fail_pass(KILN_FAIL_WORKSHOP_BUILT);
    outcome = kiln_builders_outcome(reply, outcome);
    kiln_status st = kiln_builders_status(reply, text);
    if (!st) st = kiln_blob_store_put(shop->options.store, reply->bytes, &built.artefact.digest);
    if (st && outcome == KILN_OUTCOME_OK) outcome = KILN_OUTCOME_INFRA;
    if (!st) {
        built.artefact.size = reply->bytes.size;
        built.algorithm = reply->algorithm;
        built.layout_in = reply->layout_in;
        built.layout_out = reply->layout_out;
    }
    post(shop, run, outcome, st, event);
}

static kiln_status read_program(kiln_board_builder *shop, const kiln_msg_recipe *recipe,
                                kiln_arena *scratch, kiln_str *out_text) {
    if (!kiln_str_is(recipe->codegen, kiln_codegen_version()))
        return KILN_ERROR(FAILED_PRECONDITION,
                          "the recipe is for codegen version %.*s; this server builds with %s",
                          KILN_STR_ARG(recipe->codegen), kiln_codegen_version());
    return kiln_blob_store_get(shop->options.store, &recipe->program.digest, scratch, out_text);
}

void kiln_board_builder_build(kiln_board_builder *shop, const kiln_server_action *action) {
    const kiln_msg_recipe *recipe = &action->trial->recipe;
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    kiln_work_request request = {.work = KILN_WORK_BUILD,
                                 .target = recipe->target,
                                 .task_key = recipe->task,
                                 .trace = recipe->trace};
    kiln_status st = kiln_fail_at(KILN_FAIL_WORKSHOP_BUILD);
    if (!st) st = read_program(shop, recipe, &scratch, &request.te);
    if (st) {
        post(shop, action->run, KILN_OUTCOME_INFRA, st, (kiln_server_event){0});
    } else {
        errand *e = kiln_alloc(sizeof *e);
        *e = (errand){shop, shop->errands, action->run};
        shop->errands = e;
        kiln_builders_submit(shop->builders, &request, false, action->deadline_ns, on_built, e);
    }
    kiln_arena_deinit(&scratch);
}

kiln_board_builder *kiln_board_builder_create(const kiln_board_builder_options *options) {
    if (options->builders == 0) return NULL;
    kiln_board_builder *shop = kiln_alloc(sizeof *shop);
    shop->options = *options;
    shop->builders = kiln_builders_create(
        options->loop, &(kiln_builders_options){.program = options->program,
                                                .worker_count = options->builders,
                                                .memory_max = KILN_BOARD_BUILDER_MEMORY_BYTES});
    return shop;
}

void kiln_board_builder_destroy(kiln_board_builder *shop) {
    if (!shop) return;
    kiln_builders_destroy(shop->builders);
    while (shop->errands) end_errand(shop->errands);
    kiln_free(shop);
}

bool kiln_board_builder_is_asked(int argc, char **argv) { return kiln_worker_is_asked(argc, argv); }

int kiln_board_builder_main(int argc, char **argv) { return kiln_worker_main(argc, argv); }
