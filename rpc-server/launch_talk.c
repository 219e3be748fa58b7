#include "rpc-server/launch_talk.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/macros.h"
#include "rpc-server/helper_socket.h"

static const char *const words[] = {
#define X(NAME, word) word,
    KILN_LAUNCH_SAYINGS(X)
#undef X
};

bool kiln_launch_say(int socket, const kiln_launch_message *message) {
    char bytes[KILN_LAUNCH_MESSAGE_BYTES];
    const int head = snprintf(bytes, sizeof bytes, "%s %" PRIu64 " %" PRIu64 "\n",
                              words[message->saying], message->number, message->seconds);
    const size_t size = KILN_MIN(message->text.size, sizeof bytes - (size_t)head);
    if (size) memcpy(bytes + head, message->text.data, size);
    return kiln_helper_socket_send(socket, bytes, (size_t)head + size, &message->fd,
                                   message->fd >= 0);
}

static kiln_launch_saying find(kiln_str word) {
    uint32_t i = 0;
    while (i < KILN_ARRAY_COUNT(words) && !kiln_str_is(word, words[i])) i++;
    return (kiln_launch_saying)i;
}

bool kiln_launch_hear(int socket, char buffer[KILN_LAUNCH_MESSAGE_BYTES],
                      kiln_launch_message *out_message) {
    int fd[KILN_HELPER_SOCKET_FDS_MAX];
    uint32_t fd_count = 0;
    kiln_launch_message message = {.saying = KILN_LAUNCH_SAYING_COUNT, .fd = -1};
    const size_t size =
        kiln_helper_socket_receive(socket, buffer, KILN_LAUNCH_MESSAGE_BYTES, fd, &fd_count);
    if (size == 0) return false;
    for (uint32_t i = 1; i < fd_count; i++) close(fd[i]);
    if (fd_count) message.fd = fd[0];
    if (size != SIZE_MAX) {
        kiln_str rest = {buffer, size};
        kiln_str head = kiln_str_cut(&rest, '\n');
        message.saying = find(kiln_str_cut(&head, ' '));
        if (!kiln_str_to_u64(kiln_str_cut(&head, ' '), &message.number) ||
            !kiln_str_to_u64(kiln_str_cut(&head, ' '), &message.seconds))
            message.saying = KILN_LAUNCH_SAYING_COUNT;
        message.text = rest;
    }
    *out_message = message;
    return true;
}
