/* Jobs of the shell: their list, what they have done on the io_thread, and when they may go. */
#include "base/alloc.h"
#include "tuner/shell.h"

void kiln_shell_post(kiln_shell *shell, const kiln_tuner_event *event) {
    kiln_event_queue_post(shell->events, event);
}

/* ---- Jobs and candidates ---- */

void *kiln_shell_ticket_make(kiln_shell_job *job, uint32_t task, uint32_t index) {
    kiln_shell_ticket *t = kiln_alloc(sizeof *t);
    *t = (kiln_shell_ticket){job->shell, job->handle, task, index};
    return t;
}

kiln_shell_job *kiln_shell_ticket_use(void *ticket, kiln_shell_ticket *out) {
    *out = *(kiln_shell_ticket *)ticket;
    kiln_free(ticket);
    return kiln_shell_find_job(out->shell, out->job);
}

kiln_shell_job *kiln_shell_find_job(kiln_shell *shell, uint64_t handle) {
    for (kiln_shell_job *job = shell->jobs; job; job = job->next)
        if (job->handle == handle) return job;
    return NULL;
}

kiln_shell_job *kiln_shell_job_create(kiln_shell *shell, uint64_t handle) {
    kiln_shell_job *job = kiln_alloc(sizeof *job);
    *job = (kiln_shell_job){.shell = shell, .next = shell->jobs, .handle = handle};
    kiln_arena_init(&job->arena, 0);
    shell->jobs = job;
    return job;
}

kiln_candidate *kiln_shell_find_candidate(kiln_shell_job *job, uint32_t task, uint32_t index) {
    for (uint32_t i = 0; i < job->search.candidate.count; i++) {
        kiln_candidate *candidate = job->search.candidate.data[i];
        if (candidate->task == task && candidate->index == index) return candidate;
    }
    return NULL;
}

void kiln_candidate_destroy(kiln_candidate *candidate) {
    if (!candidate) return;
    kiln_arena_deinit(&candidate->arena);
    kiln_free(candidate);
}

/* ---- Errands ---- */

static void run_io(void *context) {
    kiln_shell_io *e = context;
    e->run(e);
}

static void free_job(void *context) {
    kiln_shell_job *job = context;
    for (uint32_t i = 0; i < job->search.candidate.count; i++)
        kiln_candidate_destroy(job->search.candidate.data[i]);
    for (uint32_t i = 0; i < job->task_count; i++) kiln_searcher_destroy(job->task[i].searcher);
    kiln_cost_model_destroy(job->model);
    kiln_free(job->search.candidate.data);
    kiln_free(job->search.order.data);
    kiln_free(job->search.now.data);
    kiln_status_free(job->parts.failure);
    kiln_arena_deinit(&job->arena);
    kiln_free(job);
}

static void on_freed(void *context) { (void)context; }

static void unlink_job(kiln_shell_job *job) {
    kiln_shell_job **at = &job->shell->jobs;
    while (*at != job) at = &(*at)->next;
    *at = job->next;
}

/* Searchers and models are large: they are freed on the io_thread. */
void kiln_shell_job_destroy(kiln_shell_job *job) {
    if (!job->forgotten) unlink_job(job);
    job->forgotten = true;
    if (job->search.running || job->ios > 0) return; /* when they are done */
    kiln_io_thread_submit(job->shell->io_thread, free_job, on_freed, job);
}

static void end_io(void *context) {
    kiln_shell_io *e = context;
    kiln_shell_job *job = e->job;
    job->ios--;
    if (job->forgotten)
        kiln_shell_job_destroy(job);
    else if (e->done)
        e->done(e);
    kiln_strbuf_deinit(&e->bytes);
    kiln_status_free(e->status);
    kiln_free(e);
}

void kiln_shell_io_submit(const kiln_shell_io *io, const char *name) {
    kiln_shell_io *e = kiln_alloc(sizeof *e);
    *e = *io;
    e->job->ios++;
    kiln_io_thread_submit_named(e->job->shell->io_thread, name, run_io, end_io, e);
}

void kiln_shell_io_submit_bytes(kiln_shell_io io, kiln_str bytes, const char *name) {
    kiln_strbuf_str(&io.bytes, bytes);
    kiln_shell_io_submit(&io, name);
}

void kiln_shell_keep_artefact(kiln_shell_io *e) {
    e->status = kiln_blob_store_put(e->job->shell->store, kiln_strbuf_view(&e->bytes), &e->digest);
}

kiln_status kiln_shell_take_status(kiln_shell_io *e) {
    kiln_status st = e->status;
    e->status = NULL;
    return st;
}
