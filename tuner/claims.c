/* Claims on jobs, where tuners share a database. The tracker gives each job to one tuner, but a
 * tuner that it lost may still be storing results. The next one waits for the end of its claim
 * before it reads what is stored, so that nothing is measured twice. A tuner without a tracker does
 * not renew its claims; a tuner that finds another one's claim stops within a heartbeat. */
#include "base/clock.h"
#include "base/log.h"
#include "tuner/shell.h"

#define ASK_NS (UINT64_C(250) * KILN_NS_PER_MS) /* between two looks at a claim of another */
#define RENEW_NS KILN_LINK_HEARTBEAT_NS

static void ask(kiln_shell_io *e) {
    const kiln_shell *shell = e->job->shell;
    e->status = kiln_db_claim(shell->db, kiln_str_from(e->job->identity),
                              kiln_str_from(shell->node), &e->yes);
}

static void on_answer(kiln_shell_io *e) {
    kiln_shell_job *job = e->job;
    const bool had = job->claim.held;
    job->claim.asked = false;
    if (e->status && had) { /* the next renewal may reach the server again */
        kiln_log(KILN_LOG_WARN, "job %s: %s", job->identity, kiln_status_text(e->status));
        return;
    }
    if (!e->status && e->yes == had) return;
    if (!e->status && had) {
        kiln_log(KILN_LOG_WARN, "job %s: another tuner claimed it", job->identity);
        job->claim.held = false;
        kiln_shell_post(job->shell,
                        &(kiln_tuner_event){.kind = KILN_TUNER_CLAIM_LOST, .job = job->handle});
        return;
    }
    job->claim.held = true;
    kiln_shell_part_done(job, kiln_shell_take_status(e));
}

static void claim(kiln_shell_job *job) {
    if (job->claim.asked) return;
    job->claim.asked = true;
    const kiln_shell_io io = {.job = job, .run = ask, .done = on_answer};
    kiln_shell_io_submit(&io, "a claim");
}

void kiln_shell_claim_all(void *context) {
    kiln_shell *shell = context;
    uint64_t next_ns = RENEW_NS;
    for (kiln_shell_job *job = shell->jobs; job; job = job->next) {
        if (job->forgotten || !job->claim.wanted) continue;
        if (shell->open) claim(job);
        if (!job->claim.held) next_ns = ASK_NS;
    }
    if (shell->jobs) kiln_timer_start(shell->claims, next_ns);
}

void kiln_shell_claim_begin(kiln_shell_job *job) {
    job->claim.wanted = true;
    kiln_shell_part_add(job);
    kiln_shell_claim_all(job->shell);
}

static void give_up(kiln_shell_io *e) {
    const kiln_shell *shell = e->job->shell;
    kiln_status st =
        kiln_db_unclaim(shell->db, kiln_str_from(e->job->identity), kiln_str_from(shell->node));
    kiln_status_free(st); /* it runs out */
}

void kiln_shell_unclaim(kiln_shell_job *job) {
    if (!job->claim.held) return;
    job->claim.held = false;
    const kiln_shell_io io = {.job = job, .run = give_up};
    kiln_shell_io_submit(&io, "the end of a claim");
}
