#include "base/program/ready.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "base/opt.h"

static const char ready[] = "READY=1";

/* False: it is no path of a socket. An '@' stands for the null byte of an abstract address. */
static bool fill_address(const char *path, struct sockaddr_un *out_address, socklen_t *out_size) {
    const size_t size = strlen(path);
    if ((path[0] != '/' && path[0] != '@') || size >= sizeof out_address->sun_path) return false;
    *out_address = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(out_address->sun_path, path, size);
    if (path[0] == '@') out_address->sun_path[0] = '\0';
    *out_size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size);
    return true;
}

void kiln_ready_tell(void) {
    const char *path = kiln_env("NOTIFY_SOCKET");
    struct sockaddr_un address;
    socklen_t size = 0;
    if (!path || !path[0]) return;
    if (!fill_address(path, &address, &size)) {
        kiln_log(KILN_LOG_WARN, "NOTIFY_SOCKET=%s is no path of a socket", path);
        return;
    }
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 ||
        sendto(fd, ready, sizeof ready - 1, MSG_NOSIGNAL, (struct sockaddr *)&address, size) < 0)
        kiln_log(KILN_LOG_WARN, "telling the service manager at %s that this program is ready: %s",
                 path, strerror(errno));
    if (fd >= 0) close(fd);
}
