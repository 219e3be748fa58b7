#include "base/macros.h"
#include "tracker/state.h"

static uint32_t waiting_for(const kiln_tracker *t, const kiln_tracker_requirement *required) {
    uint32_t count = 0;
    for (uint32_t p = 0; p < t->projects.all.count; p++)
        for (uint32_t j = 0; j < t->projects.all.data[p]->queue.jobs.count; j++) {
            const kiln_tracker_job *job = t->projects.all.data[p]->queue.jobs.data[j];
            if (job->required == required) count += job->queue.requests.count;
        }
    return count;
}

/* The device of the required kind, if the board has one, else its first. */
static const kiln_target *target_to_compare(const kiln_tracker_board *board,
                                            const kiln_tracker_requirement *required) {
    for (uint32_t i = 0; i < board->device_count; i++)
        if (board->device[i].target.kind == required->target.kind) return &board->device[i].target;
    return &board->device[0].target;
}

/* "; there are rpi3 (1 of 2 in service; the device lacks dotprod), ...": the first few names, each
 * with the reason why it does not fit. */
static void list_what_there_is(const kiln_tracker *t, const kiln_tracker_requirement *required,
                               kiln_strbuf *out) {
    enum { NAMES_MAX = 8 };
    struct {
        kiln_str key;
        uint32_t boards, here;
        const kiln_target *target;
    } name[NAMES_MAX];
    uint32_t count = 0;
    bool more = false;
    kiln_thread_walks(t->boards.all.count);
    for (uint32_t i = 0; i < t->boards.all.count; i++) {
        const kiln_tracker_board *board = t->boards.all.data[i];
        uint32_t at = 0;
        if (!board->known) continue;
        while (at < count && !kiln_str_equal(name[at].key, board->up.key)) at++;
        more |= at == NAMES_MAX;
        if (at == NAMES_MAX) continue;
        if (at == count) {
            name[at].key = board->up.key;
            name[at].boards = name[at].here = 0;
            name[at].target = target_to_compare(board, required);
            count++;
        }
        name[at].boards++;
        name[at].here += board->available;
    }
    for (uint32_t i = 0; i < count; i++) {
        kiln_strbuf reason = {0};
        bool fits = kiln_target_serves(&required->target, name[i].target, &reason);
        kiln_strbuf_printf(out, "%s%.*s (%u of %u in service%s%s)", i ? ", " : "; there are ",
                           KILN_STR_ARG(name[i].key), name[i].here, name[i].boards,
                           fits ? "" : "; ", fits ? "" : reason.data);
        kiln_strbuf_deinit(&reason);
    }
    if (more) kiln_strbuf_text(out, ", ...");
}

bool kiln_tracker_requirement_describe(kiln_tracker *t, kiln_tracker_requirement *required,
                                       kiln_strbuf *out) {
    if (required->devices > 0) {
        double turns = (double)(waiting_for(t, required) + 1) / required->slots;
        kiln_strbuf_printf(out, "%u board%s", required->devices,
                           required->devices == 1 ? " fits" : "s fit");
        for (uint32_t i = 0; i < t->boards.idle.count; i++)
            if (kiln_tracker_requirement_fits(required, t->boards.idle.data[i])) return true;
        kiln_strbuf_printf(out, ", all busy; expected wait %.0f s",
                           turns * t->projects.lease_ns / 1e9);
        return true;
    }
    uint32_t away = 0;
    kiln_thread_walks(t->boards.all.count);
    for (uint32_t i = 0; i < t->boards.all.count; i++)
        for (uint32_t d = 0; d < t->boards.all.data[i]->device_count; d++)
            away += kiln_tracker_requirement_fits(required, &t->boards.all.data[i]->device[d]);
    kiln_strbuf_text(out, "no board ");
    if (required->key.size) kiln_strbuf_printf(out, "called %.*s ", KILN_STR_ARG(required->key));
    for (uint32_t i = 0; i < required->label_count; i++)
        kiln_strbuf_printf(out, "with %.*s=%.*s ", KILN_STR_ARG(required->label[i].key),
                           KILN_STR_ARG(required->label[i].value));
    kiln_strbuf_text(out, "that runs ");
    kiln_target_print(&required->target, out);
    kiln_strbuf_text(out, " is connected");
    if (away) kiln_strbuf_printf(out, " and in service (%u would fit)", away);
    list_what_there_is(t, required, out);
    return away > 0;
}

/* ---- Reservations and maintenance ---- */

static bool fits(kiln_tracker_requirement *required, kiln_tracker_board *board) {
    for (uint32_t i = 0; i < board->device_count; i++)
        if (kiln_tracker_requirement_fits(required, &board->device[i])) return true;
    return false;
}

bool kiln_tracker_job_is_held_up(kiln_tracker *t, const kiln_tracker_job *job, kiln_strbuf *out) {
    enum { SAID_MAX = 3 };
    const size_t begin = out->size;
    uint32_t held = 0;
    if (t->calendar.holds.count + t->calendar.windows.count == 0) return false;
    if (job->queue.requests.count == 0) return false;
    const kiln_tracker_request *request = job->queue.requests.data[0];
    kiln_thread_walks(t->boards.all.count);
    for (uint32_t i = 0; i < t->boards.all.count; i++) {
        kiln_tracker_board *board = t->boards.all.data[i];
        if (!board->available || !fits(request->required, board)) continue;
        if (kiln_tracker_calendar_allows(t, board, job->owner, request->asked.trials)) {
            out->size = begin; /* it waits for its turn */
            return false;
        }
        if (held++ >= SAID_MAX) continue;
        if (held > 1) kiln_strbuf_text(out, "; ");
        kiln_tracker_calendar_say_why(t, board, job->owner, out);
    }
    if (held > SAID_MAX) kiln_strbuf_printf(out, "; and %u more boards", held - SAID_MAX);
    return held > 0;
}
