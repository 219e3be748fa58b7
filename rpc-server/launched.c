#include "rpc-server/launched.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "rpc-server/launch_talk.h"

struct kiln_launched {
    kiln_launched_options options;
    kiln_watch *watch;
};

static kiln_status has_ended(void) {
    return KILN_ERROR(UNAVAILABLE, "the launcher of this server has ended");
}

kiln_status kiln_launched_begin(int socket, kiln_arena *process, kiln_server_launch *out_launch) {
    char buffer[KILN_LAUNCH_MESSAGE_BYTES];
    kiln_launch_message hello;
    if (!kiln_launch_hear(socket, buffer, &hello)) return has_ended();
    if (hello.fd >= 0) close(hello.fd);
    *out_launch = (kiln_server_launch){.number = hello.number,
                                       .is_trial = hello.saying == KILN_LAUNCH_SAYS_TRIAL};
    if (hello.saying == KILN_LAUNCH_SAYS_FAILED)
        out_launch->failure = kiln_str_dup(process, hello.text);
    return KILN_OK;
}

static void on_ready(void *context, unsigned ready_for) {
    (void)ready_for;
    kiln_launched *launched = context;
    char buffer[KILN_LAUNCH_MESSAGE_BYTES];
    kiln_launch_message message;
    if (!kiln_launch_hear(launched->options.socket, buffer, &message)) {
        kiln_watch_set(launched->watch, 0);
        launched->options.gone(launched->options.context);
        return;
    }
    if (message.fd >= 0) close(message.fd);
    if (message.saying == KILN_LAUNCH_SAYS_CONFIRMED)
        launched->options.confirmed(launched->options.context);
}

kiln_launched *kiln_launched_create(const kiln_launched_options *options) {
    kiln_launched *launched = kiln_alloc(sizeof *launched);
    launched->options = *options;
    launched->watch =
        kiln_watch_create(options->loop, options->socket, KILN_WATCH_READ, on_ready, launched);
    return launched;
}

void kiln_launched_destroy(kiln_launched *launched) {
    if (!launched) return;
    kiln_watch_destroy(launched->watch);
    kiln_free(launched);
}

kiln_status kiln_launched_restart(kiln_launched *launched, const kiln_server_action *action) {
    kiln_arena arena;
    char *path = NULL;
    kiln_arena_init(&arena, 0);
    kiln_status st = kiln_blob_store_path(launched->options.store, &action->digest, &arena, &path);
    int fd = st ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (!st && fd < 0) st = KILN_ERROR(NOT_FOUND, "opening the archive: %s", strerror(errno));
    if (!st &&
        !kiln_launch_say(launched->options.socket,
                         &(kiln_launch_message){.saying = KILN_LAUNCH_SAYS_TRY,
                                                .number = action->run,
                                                .seconds = action->deadline_ns / KILN_NS_PER_S,
                                                .text = kiln_str_from(action->text),
                                                .fd = fd}))
        st = has_ended();
    if (fd >= 0) close(fd);
    kiln_arena_deinit(&arena);
    return st;
}

/* A launcher that has ended is seen by the watch. */
void kiln_launched_confirm(kiln_launched *launched) {
    kiln_launch_say(launched->options.socket,
                    &(kiln_launch_message){.saying = KILN_LAUNCH_SAYS_CONFIRM, .fd = -1});
}

void kiln_launched_give_up(kiln_launched *launched, const char *why) {
    kiln_launch_say(launched->options.socket,
                    &(kiln_launch_message){
                        .saying = KILN_LAUNCH_SAYS_FAIL, .text = kiln_str_from(why), .fd = -1});
}
