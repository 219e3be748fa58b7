#include "tuner/offline_candidates.h"

#include <string.h>

#include "base/clock.h"
#include "compiler-core/worker/builder.h"

#define REFERENCE_DEADLINE_NS (UINT64_C(600) * KILN_NS_PER_S) /* serial, fp64 */
#define BUILD_DEADLINE_NS (UINT64_C(20) * KILN_NS_PER_S)

typedef struct generation generation;

/* What a worker is to make, and made. */
typedef struct work {
    generation *d;
    const kiln_point *point; /* NULL: a reference */
    uint64_t search_ns;
    kiln_outcome outcome;
    kiln_str bytes, algorithm, layout_in, layout_out, text;
    kiln_assembled assembled;
    uint64_t build_ns;
} work;

struct generation {
    const kiln_offline_candidates_options *options;
    const kiln_offline_candidates_sink *sink;
    kiln_loop *loop;
    kiln_builders *builders;
    kiln_cost_model *model; /* NULL: the searcher asks none */
    kiln_strbuf target;
    /* Of the task under way. */
    kiln_arena arena;
    const kiln_task *task;
    kiln_strbuf text;
    uint32_t waiting; /* for so many workers' answers */
};

static kiln_str keep(generation *d, kiln_str bytes) {
    return (kiln_str){kiln_arena_copy(&d->arena, bytes.data, bytes.size), bytes.size};
}

/* ---- Workers ---- */

static void on_done(void *context, const kiln_work_reply *reply, kiln_outcome outcome,
                    const char *text) {
    work *w = context;
    generation *d = w->d;
    kiln_status st = kiln_builders_status(reply, text);
    d->waiting--;
    w->outcome = kiln_builders_outcome(reply, outcome);
    if (reply) w->assembled = reply->assembled;
    if (st) {
        if (w->outcome == KILN_OUTCOME_OK) w->outcome = KILN_OUTCOME_INFRA;
        w->text = keep(d, kiln_str_from(kiln_status_text(st)));
        kiln_status_free(st); /* in the record, or told of the task */
        return;
    }
    w->bytes = keep(d, reply->bytes);
    w->algorithm = keep(d, reply->algorithm);
    w->layout_in = keep(d, reply->layout_in);
    w->layout_out = keep(d, reply->layout_out);
    w->build_ns = reply->elapsed_ns;
}

static void submit(generation *d, work *w) {
    kiln_work_request request = {.work = w->point ? KILN_WORK_BUILD : KILN_WORK_REFERENCE,
                                 .target = kiln_strbuf_view(&d->target),
                                 .te = kiln_strbuf_view(&d->text),
                                 .task_key = d->task->key,
                                 .seed = d->options->seed};
    if (w->point) request.trace = w->point->trace;
    d->waiting++;
    kiln_builders_submit(d->builders, &request, !w->point,
                         w->point ? BUILD_DEADLINE_NS : REFERENCE_DEADLINE_NS, on_done, w);
}

/* ---- Candidates of a task ---- */

/* Records of the task for this target; those that failed by no fault of their own say nothing. */
static kiln_status know(const generation *d, kiln_searcher *searcher) {
    const kiln_db_filter filter = {
        .task_key = d->task->key, .target = kiln_strbuf_view(&d->target), .whose = KILN_DB_ANY};
    kiln_db_record *record = NULL;
    uint32_t count = 0;
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    kiln_status st = kiln_db_records(d->options->db, &filter, &scratch, &record, &count);
    for (uint32_t i = 0; !st && i < count; i++)
        if (kiln_str_is(record[i].outcome, "ok") || kiln_str_is(record[i].blame, "candidate")) {
            const kiln_assembled assembled = kiln_record_assembled(&record[i]);
            kiln_searcher_know(searcher, record[i].trace, record[i].trace_hash, &assembled,
                               record[i].min_ns);
        }
    kiln_arena_deinit(&scratch);
    return st;
}

static kiln_status open_searcher(generation *d, const kiln_layout *const *agreed,
                                 kiln_searcher **out_searcher) {
    const kiln_offline_candidates_options *o = d->options;
    const kiln_searcher_options options = {
        .kind = o->searcher,
        .seed = kiln_hash64(d->task->key.data, d->task->key.size, o->seed),
        .task = d->task->key,
        .model = d->model};
    const kiln_space_options space = {.layout = agreed, .accuracy = o->accuracy};
    kiln_points *points = NULL;
    kiln_status st = kiln_points_of_space(
        d->task->te, o->target, &space,
        d->model ? kiln_cost_model_kind(d->model) : KILN_MODEL_ANALYTIC, &points);
    return st ? st : kiln_searcher_create(&options, points, out_searcher);
}

static kiln_status give_candidate(const generation *d, const kiln_searcher *searcher,
                                  uint32_t index, const work *w) {
    const kiln_offline_candidates_options *o = d->options;
    const bool is_default =
        kiln_str_is(kiln_str_from(w->point->hash), kiln_searcher_default_hash(searcher));
    static const char *const searcher_name[] = {
#define X(name, text, plan, learns, doc) text,
#include "tuner/search/searchers.def"
#undef X
    };
    char digest[KILN_DIGEST_TEXT] = "";
    kiln_digest of_bytes;
    kiln_digest_of(w->bytes.data, w->bytes.size, &of_bytes);
    if (w->bytes.size) kiln_digest_print(&of_bytes, digest);
    kiln_db_record record = {
        .attempt = 1,
        .task_key = d->task->key,
        .target = kiln_strbuf_view(&d->target),
        .trial_index = index,
        .trace = w->point->trace,
        .trace_hash = kiln_str_from(w->point->hash),
        .codegen_version = kiln_str_from(kiln_codegen_version()),
        .artefact_kind = kiln_str_from(kiln_payload_name(kiln_payload_of(o->target->kind))),
        .artefact_digest = kiln_str_from(digest),
        .algorithm = w->algorithm,
        .threads = o->target->threads,
        .layout_in = w->layout_in,
        .layout_out = w->layout_out,
        .searcher = kiln_str_from(is_default ? "default" : searcher_name[o->searcher]),
        .outcome = kiln_str_from(kiln_outcome_name(w->outcome)),
        .blame = kiln_str_from(kiln_blame_name(kiln_outcome_blame(w->outcome))),
        .detail = w->text,
        .stop_reason = kiln_str_from(kiln_stop_name(KILN_STOP_NONE)),
        .cache_state = KILN_STR("warm"),
        .flops = kiln_program_flops_with_zeros(d->task->te),
        .build_ns = (double)w->build_ns,
        .search_ns = (double)w->search_ns,
        .stored_wall_ns = (int64_t)kiln_clock_wall_ns()};
    kiln_record_set_assembled(&record, &w->assembled);
    return d->sink->candidate(d->sink->context, d->task, &record, w->bytes);
}

/* Proposes, and waits for what workers make of it: out_work[0] is the reference. */
static uint32_t make_all(generation *d, kiln_searcher *searcher, work *out_work) {
    uint32_t count = 0;
    kiln_status st = NULL;
    out_work[0] = (work){.d = d};
    submit(d, &out_work[0]);
    while (!st && count < d->options->candidates) {
        work *w = &out_work[1 + count];
        const uint64_t began_ns = kiln_clock_precise_ns();
        *w = (work){.d = d};
        st = kiln_searcher_propose(searcher, &w->point);
        if (st) break;
        w->search_ns = kiln_clock_precise_ns() - began_ns;
        submit(d, w);
        count++;
    }
    kiln_status_free(st); /* the space is used up */
    while (d->waiting > 0) kiln_loop_run_once(d->loop);
    return count;
}

static kiln_status generate_task(generation *d, const kiln_layout *const *agreed) {
    kiln_searcher *searcher = NULL;
    kiln_strbuf_reset(&d->text);
    kiln_program_print(d->task->te, &d->text);
    kiln_status st = open_searcher(d, agreed, &searcher);
    if (st) {
        d->sink->refused(d->sink->context, d->task, kiln_status_text(st));
        kiln_status_free(st);
        return NULL;
    }
    if (d->options->db) st = know(d, searcher);
    work *made = KILN_ARENA_ARRAY(&d->arena, work, d->options->candidates + 1);
    const uint32_t count = st ? 0 : make_all(d, searcher, made);
    if (!st && made[0].text.size) {
        d->sink->refused(d->sink->context, d->task,
                         kiln_str_dup(&d->arena, made[0].text)); /* nothing could be checked */
    } else {
        if (!st && count > 0) st = d->sink->reference(d->sink->context, d->task, made[0].bytes);
        for (uint32_t i = 0; !st && i < count; i++)
            st = give_candidate(d, searcher, i, &made[i + 1]);
    }
    kiln_searcher_destroy(searcher);
    kiln_arena_reset(&d->arena);
    return st;
}

static bool is_wanted(const kiln_task *task, const char *part) {
    if (!part) return true;
    return memmem(task->key.data, task->key.size, part, strlen(part)) ||
           memmem(task->op.data, task->op.size, part, strlen(part));
}

static kiln_status generate_all(generation *d) {
    const kiln_offline_candidates_options *o = d->options;
    const kiln_tasks *tasks = &o->compilation->searched;
    kiln_status st = NULL;
    uint32_t wanted = 0;
    for (uint32_t i = 0; !st && i < tasks->count; i++) {
        if (!is_wanted(&tasks->task[i], o->tasks)) continue;
        wanted++;
        d->task = &tasks->task[i];
        st = generate_task(d, o->compilation->agreed[i]);
    }
    if (!st && !wanted)
        st = KILN_ERROR(NOT_FOUND, "none of the model's %u tasks matches", tasks->count);
    return st;
}

kiln_status kiln_offline_candidates_make(const kiln_offline_candidates_options *options,
                                         const kiln_offline_candidates_sink *sink) {
    generation d = {.options = options, .sink = sink};
    const kiln_builders_options builders = {.program = options->program,
                                            .worker_count = options->builder_count};
    kiln_status st = kiln_loop_create(&d.loop);
    if (st) return st;
    kiln_arena_init(&d.arena, 0);
    kiln_target_print(options->target, &d.target);
    if (kiln_searcher_learns(options->searcher))
        d.model = kiln_cost_model_create(&(kiln_cost_model_options){.seed = options->seed});
    d.builders = kiln_builders_create(d.loop, &builders);
    st = generate_all(&d);
    kiln_builders_destroy(d.builders);
    kiln_loop_destroy(d.loop);
    kiln_cost_model_destroy(d.model);
    kiln_strbuf_deinit(&d.target);
    kiln_strbuf_deinit(&d.text);
    kiln_arena_deinit(&d.arena);
    return st;
}
