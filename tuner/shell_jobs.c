/* Jobs of the shell: where they are found, what they have done at the io_thread, and when they may
 * go.
 */
#include "base/alloc.h"
#include "base/check.h"
#include "tuner/shell.h"

void kiln_shell_post(kiln_shell *shell, const kiln_tuner_event *event) {
    kiln_event_queue_post(shell->events, event);
}

/* ---- Jobs and candidates ---- */

kiln_shell_job *kiln_shell_find_job(kiln_shell *shell, uint64_t handle) {
    for (kiln_shell_job *job = shell->jobs; job; job = job->next)
        if (job->handle == handle) return job;
    return NULL;
}

kiln_candidate *kiln_shell_find_candidate(kiln_shell_job *job, uint32_t task, uint32_t index) {
    for (uint32_t i = 0; i < job->candidate.count; i++)
        if (job->candidate.data[i]->task == task && job->candidate.data[i]->index == index)
            return job->candidate.data[i];
    return NULL;
}

void kiln_candidate_destroy(kiln_candidate *candidate) {
    if (!candidate) return;
    kiln_arena_deinit(&candidate->arena);
    kiln_free(candidate);
}

/* ---- Errands ---- */

static void run_errand(void *context) {
    kiln_shell_errand *e = context;
    e->run(e);
}

static void free_job(void *context) {
    kiln_shell_job *job = context;
    for (uint32_t i = 0; i < job->candidate.count; i++)
        kiln_candidate_destroy(job->candidate.data[i]);
    for (uint32_t i = 0; i < job->task_count; i++) kiln_searcher_destroy(job->task[i].searcher);
    kiln_cost_model_destroy(job->model);
    kiln_vec_deinit(&job->candidate);
    kiln_vec_deinit(&job->order);
    kiln_vec_deinit(&job->now);
    kiln_status_free(job->failure);
    kiln_arena_deinit(&job->arena);
    kiln_free(job);
}

static void on_freed(void *context) { (void)context; }

/* Searchers and models are large: they are freed at the io_thread. */
void kiln_shell_job_destroy(kiln_shell_job *job) {
    job->forgotten = true;
    if (job->searching || job->at_desk > 0) return; /* when they are done */
    kiln_io_thread_submit(job->shell->io_thread, free_job, on_freed, job);
}

static void end_errand(void *context) {
    kiln_shell_errand *e = context;
    kiln_shell_job *job = e->job;
    job->at_desk--;
    if (job->forgotten)
        kiln_shell_job_destroy(job);
    else if (e->done)
        e->done(e);
    kiln_strbuf_deinit(&e->bytes);
    kiln_status_free(e->status);
    kiln_free(e);
}

void kiln_shell_send_out(const kiln_shell_errand *errand, const char *name) {
    kiln_shell_errand *e = kiln_alloc(sizeof *e);
    *e = *errand;
    e->job->at_desk++;
    kiln_io_thread_submit_named(e->job->shell->io_thread, name, run_errand, end_errand, e);
}

void kiln_shell_keep_artefact(kiln_shell_errand *e) {
    e->status = kiln_blob_store_put(e->job->shell->store, kiln_strbuf_view(&e->bytes), &e->digest);
}

kiln_status kiln_shell_take_status(kiln_shell_errand *e) {
    kiln_status st = e->status;
    e->status = NULL;
    return st;
}
