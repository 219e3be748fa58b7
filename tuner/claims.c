/* Claims on jobs, where tuners share a database. The tracker hands each job to one tuner; but one
 * that it lost sight of may still be storing what it has. The next one waits for the end of its
 * claim before it reads what is stored, so that nothing is measured twice; and who does not hear
 * from the tracker lets its claims run out. */
#include "base/clock.h"
#include "base/log.h"
#include "tuner/shell.h"

#define ASK_NS (UINT64_C(250) * KILN_NS_PER_MS) /* between two looks at a claim of another */
#define RENEW_NS (KILN_DB_CLAIM_NS / 4)

static void claim(kiln_shell_job *job) {
    kiln_shell *shell = job->shell;
    bool had = job->claimed, has = false;
    kiln_status st =
        kiln_db_claim(shell->db, kiln_str_from(job->identity), kiln_str_from(shell->node), &has);
    if (st && had) { /* the next renewal may reach the server again */
        kiln_log(KILN_LOG_WARN, "job %s: %s", job->identity, kiln_status_text(st));
        kiln_status_free(st);
        return;
    }
    if (!st && has == had) return;
    if (!st && had) {
        /* Its trials belong to the other now, and the tracker says so when it is heard again. */
        kiln_log(KILN_LOG_WARN, "job %s: another tuner claimed it", job->identity);
        return;
    }
    job->claimed = true;
    kiln_shell_part_done(job, st);
}

void kiln_shell_claim(void *context) {
    kiln_shell *shell = context;
    uint64_t next_ns = RENEW_NS;
    for (kiln_shell_job *job = shell->jobs; job; job = job->next) {
        if (job->forgotten || !job->wants_claim) continue;
        if (shell->open) claim(job);
        if (!job->claimed) next_ns = ASK_NS;
    }
    if (shell->jobs) kiln_timer_start(shell->claims, next_ns);
}

void kiln_shell_unclaim(kiln_shell_job *job) {
    if (!job->claimed) return;
    kiln_status st = kiln_db_unclaim(job->shell->db, kiln_str_from(job->identity),
                                     kiln_str_from(job->shell->node));
    kiln_status_free(st); /* it runs out */
    job->claimed = false;
}
