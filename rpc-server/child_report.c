#include "rpc-server/child_report.h"

#include <signal.h>
#include <string.h>

void kiln_child_report_open(kiln_child_report *report, uint32_t kernel_count, bool waits,
                            uint64_t now_ns) {
    *report = (kiln_child_report){
        .kernel_count = kernel_count, .may_time = !waits, .began_ns = now_ns, .since_ns = now_ns};
}

/* ---- Notes ---- */

static uint64_t *time_of(kiln_msg_phases *times, kiln_phase phase) {
    switch (phase) {
    case KILN_PHASE_FETCH: return &times->fetch;
    case KILN_PHASE_LOAD: return &times->load;
    case KILN_PHASE_WARM: return &times->warm;
    case KILN_PHASE_RUN: return &times->run;
    case KILN_PHASE_CHECK: return &times->check;
    case KILN_PHASE_BUILD: return &times->build;
    case KILN_PHASE_NONE:
    case KILN_PHASE_COUNT: break;
    }
    return NULL;
}

static void count_time(kiln_child_report *report, uint64_t now_ns) {
    uint64_t *time = time_of(&report->times_ns, report->phase);
    if (time) *time += now_ns - report->since_ns;
    report->since_ns = now_ns;
}

/* Phases follow each other from LOAD on; WARM needs the permission to time. */
static bool is_next_phase(const kiln_child_report *report, uint32_t phase) {
    if (phase == KILN_PHASE_WARM && !report->may_time) return false;
    return phase <= KILN_PHASE_CHECK &&
           phase == (report->phase == KILN_PHASE_NONE ? KILN_PHASE_LOAD : report->phase + 1U);
}

static bool is_due(const kiln_child_report *report, const kiln_child_note *note) {
    if (note->magic != KILN_CHILD_MAGIC || report->is_told ||
        !memchr(note->text, 0, sizeof note->text))
        return false;
    switch ((kiln_child_said)note->said) {
    case KILN_CHILD_READY: return report->phase == KILN_PHASE_NONE && !report->is_ready;
    case KILN_CHILD_PHASE: return is_next_phase(report, note->phase);
    case KILN_CHILD_LOADED:
        return report->phase == KILN_PHASE_LOAD && !report->is_loaded && !report->may_time;
    case KILN_CHILD_REFUSED: return report->phase == KILN_PHASE_LOAD && !report->is_loaded;
    case KILN_CHILD_FAILED:
        return report->phase > KILN_PHASE_LOAD && note->code >= KILN_RAN_ERROR &&
               note->code <= (report->may_lose ? KILN_RAN_LOST : KILN_RAN_STALE);
    case KILN_CHILD_DEVICE: return false;
    case KILN_CHILD_MEASURED:
        return report->phase == KILN_PHASE_CHECK && note->kernel == report->measured;
    }
    return false;
}

bool kiln_child_report_take(kiln_child_report *report, const kiln_child_note *note,
                            uint64_t now_ns) {
    report->broke_rules = report->broke_rules || !is_due(report, note);
    if (report->broke_rules) return false;
    report->note = *note;
    count_time(report, now_ns);
    switch ((kiln_child_said)note->said) {
    case KILN_CHILD_READY: report->is_ready = true; break;
    case KILN_CHILD_LOADED: report->is_loaded = true; break;
    case KILN_CHILD_PHASE: report->phase = (kiln_phase)note->phase; break;
    case KILN_CHILD_DEVICE: break; /* never due */
    case KILN_CHILD_REFUSED:
    case KILN_CHILD_FAILED: report->is_told = true; break;
    case KILN_CHILD_MEASURED: report->is_told = ++report->measured == report->kernel_count; break;
    }
    return true;
}

void kiln_child_report_let_time(kiln_child_report *report, uint64_t now_ns) {
    report->may_time = true;
    report->began_ns = report->since_ns = now_ns;
}

/* ---- The end ---- */

static const char *describe_death(const kiln_child_report *report, const kiln_child_exit *end,
                                  kiln_arena *arena) {
    const char *phase = kiln_phase_name(report->phase);
    if (report->broke_rules)
        return kiln_arena_printf(arena, "the child broke its protocol in phase %s", phase);
    if (end->signal)
        return kiln_arena_printf(
            arena, "signal %d (%s) in phase %s%s", end->signal, strsignal(end->signal), phase,
            end->signal == SIGSYS ? ": a system call that kernels may not make" : "");
    return kiln_arena_printf(arena, "exit code %d in phase %s", end->code, phase);
}

/* The outcome of a child that exited with code 0 after its last note. */
static kiln_ending ending_of_last_note(const kiln_child_note *note, kiln_arena *arena) {
    static const struct {
        kiln_outcome outcome;
        kiln_blame blame;
        const char *text;
    } failure[] = {
        [KILN_RAN_ERROR] = {KILN_OUTCOME_CRASH, KILN_BLAME_CANDIDATE,
                            "the kernel returned an error"},
        [KILN_RAN_STRAY] = {KILN_OUTCOME_CRASH, KILN_BLAME_CANDIDATE,
                            "the kernel wrote outside of its arguments"},
        [KILN_RAN_STALE] = {KILN_OUTCOME_WRONG_RESULT, KILN_BLAME_CANDIDATE,
                            "a timed call left an element of an output as it was before"},
        [KILN_RAN_LOST] = {KILN_OUTCOME_INFRA, KILN_BLAME_BOARD, "the device was lost"},
    };
    if (note->said == KILN_CHILD_FAILED)
        return (kiln_ending){
            KILN_ENDED_DECIDED, failure[note->code].outcome, failure[note->code].blame,
            note->text[0] ? kiln_arena_printf(arena, "%s: %s", failure[note->code].text, note->text)
                          : failure[note->code].text};
    if (note->said != KILN_CHILD_REFUSED) return (kiln_ending){.how = KILN_ENDED_MEASURED};
    if (note->code == KILN_FAILED_PRECONDITION || note->code == KILN_RESOURCE_EXHAUSTED ||
        note->code == KILN_UNAVAILABLE)
        return (kiln_ending){KILN_ENDED_DECIDED, KILN_OUTCOME_INFRA, KILN_BLAME_BOARD, note->text};
    return (kiln_ending){KILN_ENDED_DECIDED, KILN_OUTCOME_LINK_ERROR, KILN_BLAME_CANDIDATE,
                         note->text};
}

kiln_ending kiln_child_report_ending(const kiln_child_report *report, const kiln_child_exit *end,
                                     kiln_arena *arena) {
    const bool by_itself = end->signal == 0 && !report->broke_rules;
    if (by_itself && report->is_told && end->code == 0)
        return ending_of_last_note(&report->note, arena);
    const char *text = describe_death(report, end, arena);
    /* No code of the candidate ran, so ours failed: no memory, or no sandbox. */
    if (by_itself && report->phase <= KILN_PHASE_LOAD)
        return (kiln_ending){KILN_ENDED_DECIDED, KILN_OUTCOME_INFRA, KILN_BLAME_BOARD, text};
    return (kiln_ending){.how = KILN_ENDED_DIED, .text = text};
}
