/* A loop as a whole: what happens at the two ends of each turn, and its beginning and end. */
#include "proto/loop.h"

#include <signal.h>
#ifdef KILN_STATIC
#include <nss.h>
#endif

#include "base/alloc.h"
#include "base/check.h"
#include "base/log.h"
#include "proto/net/conn_input.h"
#include "proto/net/loop_state.h"

/* A static program looks up names by its own libc: it must not load modules that the machine has
 * for another libc (mDNS, ...). */
static void look_up_names_alone(void) {
#ifdef KILN_STATIC
    __nss_configure_lookup("hosts", "files dns");
#endif
}

/* ---- Turns ---- */

static void begin_turn(kiln_loop *loop) {
    loop->conns.compress_left = KILN_NET_COMPRESS_PER_TURN;
    kiln_turn_begin(loop);
}

static void before_poll(uv_prepare_t *handle) {
    kiln_loop *loop = handle->data;
    uint64_t entered_ns = kiln_loop_enter(loop, "accepting, and writing to peers");
    kiln_listeners_go_on(loop);
    kiln_strangers_turn(loop);
    kiln_conns_flush(loop);
    kiln_loop_leave(loop, entered_ns);
    kiln_turn_end(loop);
    begin_turn(loop);
}

/* The sockets that had bytes have been read. */
static void after_poll(uv_check_t *handle) {
    kiln_loop *loop = handle->data;
    kiln_timers_fire_due(loop);
    uint64_t entered_ns = kiln_loop_enter(loop, "writing to peers");
    kiln_conns_flush(loop);
    kiln_loop_leave(loop, entered_ns);
    if (loop->listeners.waiting == 0 && loop->conns.unwritten.count == 0)
        uv_idle_stop(&loop->hurry);
}

/* Neither keeps a loop running. */
static void start_turns(kiln_loop *loop) {
    uv_prepare_init(&loop->uv, &loop->before_poll);
    uv_check_init(&loop->uv, &loop->after_poll);
    loop->before_poll.data = loop->after_poll.data = loop;
    uv_prepare_start(&loop->before_poll, before_poll);
    uv_check_start(&loop->after_poll, after_poll);
    uv_unref((uv_handle_t *)&loop->before_poll);
    uv_unref((uv_handle_t *)&loop->after_poll);
}

static bool run_turns(kiln_loop *loop, uv_run_mode mode) {
    begin_turn(loop);
    bool more = uv_run(&loop->uv, mode) != 0;
    kiln_turn_end(loop);
    return more;
}

void kiln_loop_run(kiln_loop *loop) {
    loop->has_run = true;
    run_turns(loop, UV_RUN_DEFAULT);
}

bool kiln_loop_run_once(kiln_loop *loop) { return run_turns(loop, UV_RUN_ONCE); }

/* ---- Life ---- */

kiln_status kiln_loop_create(kiln_loop **out_loop) {
    kiln_loop *loop = kiln_alloc(sizeof *loop);
    signal(SIGPIPE, SIG_IGN); /* writing to a closed peer returns an error instead */
    look_up_names_alone();
    int code = kiln_event_loop_init(loop);
    if (code == 0) code = kiln_read_scheduler_start(loop, kiln_conn_take);
    if (code) {
        kiln_free(loop);
        return kiln_net_error(code, "starting the event loop");
    }
    start_turns(loop);
    *out_loop = loop;
    return KILN_OK;
}

static void stop_on_signal(void *context, int number) {
    kiln_log(KILN_LOG_INFO, "stopping on signal %d", number);
    kiln_loop_stop(context);
}

kiln_status kiln_loop_create_stoppable(kiln_loop **out_loop) {
    kiln_status st = kiln_loop_create(out_loop);
    if (st) return st;
    (*out_loop)->is_program = true;
    kiln_loop_on_signal(*out_loop, SIGINT, stop_on_signal, *out_loop);
    kiln_loop_on_signal(*out_loop, SIGTERM, stop_on_signal, *out_loop);
    return NULL;
}

void kiln_loop_destroy(kiln_loop *loop) {
    if (!loop) return;
    kiln_event_loop_close(loop);
    run_turns(loop, UV_RUN_DEFAULT); /* last messages, close callbacks */
    if (loop->is_program && loop->has_run) {
        kiln_strbuf text = {0};
        kiln_loop_times_summary(&loop->times, &text);
        kiln_log(KILN_LOG_INFO, "%s", text.data);
        kiln_strbuf_deinit(&text);
    }
    uv_close((uv_handle_t *)&loop->before_poll, NULL);
    uv_close((uv_handle_t *)&loop->after_poll, NULL);
    kiln_read_scheduler_end(loop);
    kiln_event_loop_deinit(loop);
    kiln_tls_context_destroy(loop->conns.tls);
    kiln_rate_limit_destroy(loop->strangers.rate_limit);
    kiln_arena_deinit(&loop->conns.message);
    kiln_strbuf_deinit(&loop->conns.plain);
    kiln_strbuf_deinit(&loop->conns.body);
    kiln_vec_deinit(&loop->conns.unwritten);
    kiln_free(loop);
}
