/* Routes of the compile service: GET and DELETE /compile/ID, the modules, and calls that wait for
 * an end. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "web/compile.h"

#define OK 200u
#define ACCEPTED 202u

/* ---- answers --------------------------------------------------------------------------------- */

static const char *state_name(kiln_part_state state) {
    static const char *const name[] = {[KILN_PART_WAITING] = "waiting",
                                       [KILN_PART_RUNNING] = "running",
                                       [KILN_PART_DONE] = "done",
                                       [KILN_PART_FAILED] = "failed",
                                       [KILN_PART_CANCELLED] = "cancelled"};
    return name[state];
}

static json_t *part_json(const kiln_part *part, bool is_cancelled) {
    json_t *object = json_pack(
        "{s:s, s:s, s:s}", "target", part->target, "state",
        is_cancelled && part->state != KILN_PART_DONE ? "cancelled" : state_name(part->state),
        "job", part->job);
    if (part->state == KILN_PART_DONE) {
        char digest[KILN_DIGEST_TEXT];
        kiln_digest_print(&part->module, digest);
        json_object_set_new(object, "module", json_string(digest));
        json_object_set_new(object, "bytes", json_integer((json_int_t)part->bytes));
    }
    if (part->report) json_object_set(object, "report", part->report);
    if (part->progress) json_object_set(object, "progress", part->progress);
    if (part->worker)
        json_object_set_new(object, "position",
                            json_integer((json_int_t)kiln_worker_position(part->worker)));
    if (part->error)
        json_object_set_new(
            object, "error",
            json_pack("{s:s, s:s}", "code", kiln_code_name(part->code), "message", part->error));
    return object;
}

static const char *state_of(const kiln_compile_question *q) {
    kiln_part_state worst = KILN_PART_DONE;
    if (q->is_cancelled) return "cancelled";
    for (uint32_t i = 0; i < q->part_count; i++) {
        const kiln_part_state state = q->part[i]->state;
        if (state == KILN_PART_RUNNING || state == KILN_PART_WAITING) return "running";
        worst = KILN_MAX(worst, state);
    }
    return state_name(worst);
}

static void answer_question(kiln_call *call, const kiln_compile_question *q) {
    json_t *parts = json_array();
    const bool has_ended = q->is_cancelled || kiln_compile_has_ended(q);
    for (uint32_t i = 0; i < q->part_count; i++)
        json_array_append_new(parts, part_json(q->part[i], q->is_cancelled));
    kiln_http_add_header(call->request, "Cache-Control", "no-store");
    kiln_http_add_header(call->request, "Location",
                         kiln_arena_printf(kiln_call_arena(call), "/api/v1/compile/%s", q->id));
    kiln_http_answer_json(
        call->request, has_ended ? OK : ACCEPTED,
        json_pack("{s:s, s:s, s:o}", "id", q->id, "state", state_of(q), "targets", parts));
}

/* Calls that wait for the end of a question; their list is that of the server. */
typedef struct waiting {
    struct waiting *next;
    kiln_call *call;
    char id[KILN_DIGEST_TEXT];
    uint64_t until_ns;
} waiting;

struct kiln_compile_waits {
    kiln_web *web;
    waiting *first;
    kiln_timer *timer;
};

/* Answers those whose question has ended or whose time is over. */
static void check_waits(void *context) {
    kiln_compile_waits *waits = context;
    uint64_t next_ns = UINT64_MAX;
    const uint64_t now_ns = kiln_clock_ns();
    for (waiting **at = &waits->first; *at;) {
        waiting *one = *at;
        const kiln_compile_question *q = kiln_compile_find(
            waits->web->compile, one->call->session.who.name, kiln_str_from(one->id));
        const bool is_over = kiln_http_is_over(one->call->request);
        if (q && !is_over && !kiln_compile_has_ended(q) && now_ns < one->until_ns) {
            next_ns = KILN_MIN(next_ns, one->until_ns - now_ns);
            at = &one->next;
            continue;
        }
        *at = one->next;
        if (q)
            answer_question(one->call, q);
        else
            kiln_http_answer_error(one->call->request,
                                   KILN_ERROR(NOT_FOUND, "it was forgotten meanwhile"));
    }
    if (waits->first) kiln_timer_start(waits->timer, KILN_MIN(next_ns, KILN_NS_PER_S));
}

static void on_change(void *context) {
    kiln_compile_waits *waits = context;
    if (waits->first) kiln_timer_start(waits->timer, 0);
}

kiln_compile_waits *kiln_compile_waits_create(kiln_web *web) {
    kiln_compile_waits *waits = kiln_alloc(sizeof *waits);
    *waits = (kiln_compile_waits){.web = web};
    waits->timer = kiln_timer_create(web->loop, check_waits, waits);
    kiln_compile_on_change(web->compile, on_change, waits);
    return waits;
}

void kiln_compile_waits_destroy(kiln_compile_waits *waits) {
    if (!waits) return;
    kiln_timer_destroy(waits->timer);
    kiln_free(waits);
}

void kiln_compile_answer(kiln_call *call, const kiln_compile_question *q) {
    const uint64_t wait_s = kiln_call_u64(call, "wait", 0);
    if (!wait_s || q->is_cancelled || kiln_compile_has_ended(q)) {
        answer_question(call, q);
        return;
    }
    kiln_compile_waits *waits = call->web->compile_waits;
    waiting *one = KILN_ARENA_NEW(kiln_call_arena(call), waiting);
    *one = (waiting){
        .next = waits->first, .call = call, .until_ns = kiln_clock_ns() + wait_s * KILN_NS_PER_S};
    memcpy(one->id, q->id, sizeof one->id);
    waits->first = one;
    kiln_http_set_deadline(call->request, (wait_s + 10) * KILN_NS_PER_S);
    kiln_timer_start(waits->timer, 0);
}

/* ---- the routes ------------------------------------------------------------------------------ */

static kiln_compile_question *find_question(kiln_call *call) {
    kiln_compile_question *q =
        kiln_compile_find(call->web->compile, call->session.who.name, kiln_call_text(call, "id"));
    if (!q)
        kiln_http_answer_error(call->request,
                               KILN_ERROR(NOT_FOUND, "you have asked nothing of this identity"));
    return q;
}

void kiln_web_compile_show(kiln_call *call) {
    const kiln_compile_question *q = find_question(call);
    if (q) kiln_compile_answer(call, q);
}

void kiln_web_compile_cancel(kiln_call *call) {
    kiln_compile_question *q = find_question(call);
    if (!q) return;
    kiln_compile_cancel(q);
    answer_question(call, q);
}

const char *kiln_compile_module_of(kiln_call *call) {
    const kiln_identity_of_person *who = &call->session.who;
    const char *path =
        kiln_compile_module(call->web->compile, who->is_admin || who->is_owner ? NULL : who->name,
                            &kiln_call_param(call, "digest")->digest, kiln_call_arena(call));
    if (!path)
        kiln_http_answer_error(call->request,
                               KILN_ERROR(NOT_FOUND, "there is no module with this SHA-256"));
    return path;
}

/* A module's name is its content. */
void kiln_web_module(kiln_call *call) {
    struct stat info;
    const char *path = kiln_compile_module_of(call);
    if (!path) return;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info) != 0) {
        if (fd >= 0) close(fd);
        kiln_http_answer_error(call->request, KILN_ERROR(NOT_FOUND, "the module is gone"));
        return;
    }
    kiln_http_add_header(call->request, "Cache-Control", "private, max-age=31536000, immutable");
    kiln_http_add_header(call->request, "Content-Disposition",
                         "attachment; filename=\"module.kiln\"");
    kiln_http_answer_file(call->request, OK, "application/octet-stream", fd, 0,
                          (uint64_t)info.st_size);
}
