/* Searching off the loop: orders of a job are carried out one after another on a pool thread, so
 * that builds, transfers and measurements go on while a model is trained and traces are replayed.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/child.h"
#include "base/clock.h"
#include "base/log.h"
#include "tuner/shell.h"

/* ---- on the pool thread ---- */

static uint64_t trained_so_far(const kiln_shell_job *job) {
    return job->model ? kiln_cost_model_trained_ns(job->model) : 0;
}

static kiln_candidate *propose(kiln_shell_job *job, const kiln_search_order *order) {
    kiln_searcher *searcher = job->task[order->task].searcher;
    const kiln_point *point = NULL;
    uint64_t began_ns = kiln_clock_precise_ns(), trained_ns = trained_so_far(job);
    /* At the end of a space the step may ask once more for each proposal under way. */
    if (!searcher || kiln_searcher_proposed(searcher) < order->index) return NULL;
    kiln_status st = kiln_searcher_propose(searcher, &point);
    if (st) {
        if (kiln_status_code(st) != KILN_OUT_OF_RANGE)
            kiln_log(KILN_LOG_ERROR, "%s", kiln_status_text(st));
        kiln_status_free(st);
        return NULL;
    }
    kiln_candidate *candidate = kiln_alloc(sizeof *candidate);
    *candidate = (kiln_candidate){
        .task = order->task, .index = order->index, .train_ns = trained_so_far(job) - trained_ns};
    candidate->adopted = point->adopted;
    candidate->by_hand = point->by_hand;
    candidate->search_ns = kiln_clock_precise_ns() - began_ns;
    candidate->search_ns -= KILN_MIN(candidate->search_ns, candidate->train_ns);
    kiln_arena_init(&candidate->arena, 4096);
    candidate->trace.data =
        kiln_arena_copy(&candidate->arena, point->trace.data, point->trace.size);
    candidate->trace.size = point->trace.size;
    memcpy(candidate->hash, point->hash, sizeof candidate->hash);
    return candidate;
}

static void carry_out_orders(void *context) {
    kiln_child_give_way(); /* kernels may be timed on all cores of this machine */
    kiln_shell_job *job = context;
    if (!job->search.taught) kiln_shell_teach(job);
    job->search.taught = true;
    for (uint32_t i = 0; i < job->search.now.count; i++) {
        kiln_search_order *order = &job->search.now.data[i];
        kiln_searcher *searcher = job->task[order->task].searcher;
        if (!order->observes)
            order->candidate = propose(job, order);
        else if (searcher)
            kiln_searcher_observe(searcher, order->index, order->outcome, &order->assembled,
                                  order->least_ns);
    }
}

/* ---- on the loop ---- */

static void start(kiln_shell_job *job);

static void on_orders_done(void *context) {
    kiln_shell_job *job = context;
    job->search.running = false;
    job->shell->searches.running--;
    for (uint32_t i = 0; i < job->search.now.count; i++) {
        const kiln_search_order *order = &job->search.now.data[i];
        if (order->observes) continue;
        kiln_searcher *searcher = job->task[order->task].searcher;
        if (order->candidate) kiln_vec_push(&job->search.candidate, order->candidate);
        kiln_tuner_event event = {.kind = KILN_TUNER_PROPOSED,
                                  .job = job->handle,
                                  .task = order->task,
                                  .index = order->index,
                                  .exhausted = !order->candidate};
        if (order->candidate) event.trace = order->candidate->trace;
        if (order->candidate)
            event.is_default = kiln_str_is(kiln_str_from(order->candidate->hash),
                                           kiln_searcher_default_hash(searcher));
        if (!job->forgotten) kiln_shell_post(job->shell, &event);
    }
    job->search.now.count = 0;
    if (job->forgotten)
        kiln_shell_job_destroy(job);
    else
        start(job);
}

/* Hands over the waiting orders up to the first proposal, which is built while the next is
 * searched. */
static void start(kiln_shell_job *job) {
    if (job->search.running || job->search.order.count == 0) return;
    uint32_t count = 0;
    while (count < job->search.order.count &&
           (count == 0 || job->search.order.data[count - 1].observes))
        kiln_vec_push(&job->search.now, job->search.order.data[count++]);
    job->search.order.count -= count;
    memmove(job->search.order.data, job->search.order.data + count,
            job->search.order.count * sizeof *job->search.order.data);
    job->search.running = true;
    job->shell->searches.running++;
    kiln_loop_work(job->shell->loop, carry_out_orders, on_orders_done, job);
}

void kiln_shell_propose(kiln_shell *shell, const kiln_tuner_action *action) {
    kiln_shell_job *job = kiln_shell_find_job(shell, action->job);
    if (!job) return;
    kiln_search_order order = {.task = action->task, .index = action->index};
    kiln_vec_push(&job->search.order, order);
    start(job);
}

void kiln_shell_observe(kiln_shell *shell, const kiln_tuner_action *action) {
    kiln_shell_job *job = kiln_shell_find_job(shell, action->job);
    if (!job) return;
    kiln_search_order order = {.observes = true,
                               .task = action->task,
                               .index = action->index,
                               .outcome = action->outcome,
                               .assembled = action->assembled,
                               .least_ns = action->least_ns};
    kiln_vec_push(&job->search.order, order);
    for (uint32_t i = 0; i < job->search.candidate.count; i++) {
        kiln_candidate *candidate = job->search.candidate.data[i];
        if (candidate->task != action->task || candidate->index != action->index) continue;
        job->search.candidate.data[i] = kiln_vec_pop(&job->search.candidate);
        kiln_candidate_destroy(candidate);
        break;
    }
    start(job);
}

void kiln_shell_search_wait(kiln_shell *shell) {
    for (kiln_shell_job *job = shell->jobs; job; job = job->next) job->search.order.count = 0;
    while (shell->searches.running > 0) kiln_loop_run_once(shell->loop);
}
