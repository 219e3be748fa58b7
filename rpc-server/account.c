#include "rpc-server/account.h"

#include <signal.h>
#include <string.h>

void kiln_account_open(kiln_account *account, uint32_t kernel_count, bool waits, uint64_t now_ns) {
    *account = (kiln_account){
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

static void count_time(kiln_account *account, uint64_t now_ns) {
    uint64_t *time = time_of(&account->times_ns, account->phase);
    if (time) *time += now_ns - account->since_ns;
    account->since_ns = now_ns;
}

/* One after the other, from LOAD on, and to WARM when it was let. */
static bool is_next_phase(const kiln_account *account, uint32_t phase) {
    if (phase == KILN_PHASE_WARM && !account->may_time) return false;
    return phase <= KILN_PHASE_CHECK &&
           phase == (account->phase == KILN_PHASE_NONE ? KILN_PHASE_LOAD : account->phase + 1U);
}

static bool is_due(const kiln_account *account, const kiln_inmate_note *note) {
    if (note->magic != KILN_INMATE_MAGIC || account->is_told ||
        !memchr(note->text, 0, sizeof note->text))
        return false;
    switch ((kiln_inmate_said)note->said) {
    case KILN_INMATE_READY: return account->phase == KILN_PHASE_NONE && !account->is_ready;
    case KILN_INMATE_PHASE: return is_next_phase(account, note->phase);
    case KILN_INMATE_LOADED:
        return account->phase == KILN_PHASE_LOAD && !account->is_loaded && !account->may_time;
    case KILN_INMATE_REFUSED: return account->phase == KILN_PHASE_LOAD && !account->is_loaded;
    case KILN_INMATE_FAILED:
        return account->phase > KILN_PHASE_LOAD && note->code >= KILN_RAN_ERROR &&
               note->code <= (account->may_lose ? KILN_RAN_LOST : KILN_RAN_STALE);
    case KILN_INMATE_DEVICE: return false;
    case KILN_INMATE_MEASURED:
        return account->phase == KILN_PHASE_CHECK && note->kernel == account->measured;
    }
    return false;
}

bool kiln_account_take(kiln_account *account, const kiln_inmate_note *note, uint64_t now_ns) {
    account->broke_rules = account->broke_rules || !is_due(account, note);
    if (account->broke_rules) return false;
    account->note = *note;
    count_time(account, now_ns);
    switch ((kiln_inmate_said)note->said) {
    case KILN_INMATE_READY: account->is_ready = true; break;
    case KILN_INMATE_LOADED: account->is_loaded = true; break;
    case KILN_INMATE_PHASE: account->phase = (kiln_phase)note->phase; break;
    case KILN_INMATE_DEVICE: break; /* never due */
    case KILN_INMATE_REFUSED:
    case KILN_INMATE_FAILED: account->is_told = true; break;
    case KILN_INMATE_MEASURED:
        account->is_told = ++account->measured == account->kernel_count;
        break;
    }
    return true;
}

void kiln_account_let_time(kiln_account *account, uint64_t now_ns) {
    account->may_time = true;
    account->began_ns = account->since_ns = now_ns;
}

/* ---- The end ---- */

static const char *describe_death(const kiln_account *account, const kiln_child_exit *end,
                                  kiln_arena *arena) {
    const char *phase = kiln_phase_name(account->phase);
    if (account->broke_rules)
        return kiln_arena_printf(arena, "the child broke its protocol in phase %s", phase);
    if (end->signal)
        return kiln_arena_printf(
            arena, "signal %d (%s) in phase %s%s", end->signal, strsignal(end->signal), phase,
            end->signal == SIGSYS ? ": a system call that kernels may not make" : "");
    return kiln_arena_printf(arena, "exit code %d in phase %s", end->code, phase);
}

/* What its last words mean. */
static kiln_ending read_last_note(const kiln_inmate_note *note, kiln_arena *arena) {
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
    if (note->said == KILN_INMATE_FAILED)
        return (kiln_ending){
            KILN_ENDED_DECIDED, failure[note->code].outcome, failure[note->code].blame,
            note->text[0] ? kiln_arena_printf(arena, "%s: %s", failure[note->code].text, note->text)
                          : failure[note->code].text};
    if (note->said != KILN_INMATE_REFUSED) return (kiln_ending){.how = KILN_ENDED_MEASURED};
    if (note->code == KILN_FAILED_PRECONDITION || note->code == KILN_RESOURCE_EXHAUSTED ||
        note->code == KILN_UNAVAILABLE)
        return (kiln_ending){KILN_ENDED_DECIDED, KILN_OUTCOME_INFRA, KILN_BLAME_BOARD, note->text};
    return (kiln_ending){KILN_ENDED_DECIDED, KILN_OUTCOME_LINK_ERROR, KILN_BLAME_CANDIDATE,
                         note->text};
}

kiln_ending kiln_account_ending(const kiln_account *account, const kiln_child_exit *end,
                                kiln_arena *arena) {
    const bool by_itself = end->signal == 0 && !account->broke_rules;
    if (by_itself && account->is_told && end->code == 0)
        return read_last_note(&account->note, arena);
    const char *text = describe_death(account, end, arena);
    /* No code of the candidate ran, and ours gave up: no memory, no sandbox. */
    if (by_itself && account->phase <= KILN_PHASE_LOAD)
        return (kiln_ending){KILN_ENDED_DECIDED, KILN_OUTCOME_INFRA, KILN_BLAME_BOARD, text};
    return (kiln_ending){.how = KILN_ENDED_DIED, .text = text};
}
