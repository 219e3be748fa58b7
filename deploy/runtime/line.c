#include "deploy/runtime/line.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <termios.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/macros.h"

#define ATTEMPTS 4u
#define CHUNK_BYTES 4096u
/* A frame is cut off after such a silence: a hundred times the time of a byte at 9600 baud, and as
 * long as a busy host may delay an emulator. */
#define SILENCE_NS (500 * UINT64_C(1000000))

struct kiln_line {
    int fd;
    uint8_t number;
    uint32_t chunk_count, chunk_at;
    uint8_t chunk[CHUNK_BYTES];
    kiln_frame frame;
    const char *error;
};

typedef enum receipt { ANSWERED, CUT, DAMAGED, LATE, CLOSED } receipt;

static const char *const receipt_text[] = {
    [CUT] = "the microcontroller's answers are cut short",
    [DAMAGED] = "the microcontroller's answers are damaged",
    [LATE] = "the microcontroller does not answer",
    [CLOSED] = "the line is closed",
};

static const struct {
    uint64_t baud;
    speed_t speed;
} speeds[] = {{9600, B9600},     {19200, B19200},     {57600, B57600},
              {115200, B115200}, {230400, B230400},   {460800, B460800},
              {921600, B921600}, {1000000, B1000000}, {2000000, B2000000}};

/* Sets raw mode at that rate. */
static kiln_status make_raw(int fd, const char *path, uint64_t baud) {
    struct termios t;
    size_t row = 0;
    while (row < KILN_ARRAY_COUNT(speeds) && speeds[row].baud != baud) row++;
    if (row == KILN_ARRAY_COUNT(speeds))
        return KILN_ERROR(INVALID_ARGUMENT, "%s: there is no rate of %llu baud; 115200 is usual",
                          path, (unsigned long long)baud);
    if (tcgetattr(fd, &t) != 0)
        return KILN_ERROR(INVALID_ARGUMENT, "%s is neither a terminal nor a Unix socket", path);
    cfmakeraw(&t);
    t.c_cflag |= CLOCAL | CREAD;
    if (cfsetispeed(&t, speeds[row].speed) != 0 || cfsetospeed(&t, speeds[row].speed) != 0 ||
        tcsetattr(fd, TCSANOW, &t) != 0)
        return KILN_ERROR(INVALID_ARGUMENT, "%s takes no %llu baud: %s", path,
                          (unsigned long long)baud, strerror(errno));
    return NULL;
}

static kiln_status connect_to(int fd, const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int size = snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    if (fd < 0 || size >= (int)sizeof address.sun_path ||
        connect(fd, (const struct sockaddr *)&address, sizeof address) != 0)
        return KILN_ERROR(UNAVAILABLE, "%s: %s", path, strerror(errno));
    return NULL;
}

kiln_status kiln_line_open(const char *path, uint64_t baud, kiln_line **out_line) {
    struct stat info;
    if (stat(path, &info) != 0) return KILN_ERROR(UNAVAILABLE, "%s: %s", path, strerror(errno));
    const bool is_socket = S_ISSOCK(info.st_mode);
    const int fd = is_socket ? socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)
                             : open(path, O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    kiln_status st = fd < 0 ? KILN_ERROR(UNAVAILABLE, "%s: %s", path, strerror(errno)) : NULL;
    if (!st) st = is_socket ? connect_to(fd, path) : make_raw(fd, path, baud);
    if (st) {
        if (fd >= 0) close(fd);
        return st;
    }
    kiln_line *line = kiln_alloc(sizeof *line);
    line->fd = fd;
    line->number = (uint8_t)(kiln_clock_precise_ns() >> 10); /* differs from numbers of an earlier
                                                              * process, whose answers may still
                                                              * come */
    *out_line = line;
    return NULL;
}

void kiln_line_close(kiln_line *line) {
    if (!line) return;
    close(line->fd);
    kiln_free(line);
}

/* Whether the descriptor is ready before `end_ns`. */
static bool await(const kiln_line *line, short what, uint64_t end_ns) {
    for (;;) {
        const uint64_t now = kiln_clock_ns();
        const uint64_t left_ms = now < end_ns ? (end_ns - now) / 1000000 + 1 : 0;
        struct pollfd p = {line->fd, what, 0};
        const int ready =
            poll(&p, 1, end_ns == KILN_LINE_FOREVER ? -1 : (int)KILN_MIN(left_ms, 60000));
        if (ready > 0) return true;
        if ((ready < 0 && errno != EINTR) || left_ms == 0) return false;
    }
}

static bool send_bytes(const kiln_line *line, const void *data, uint32_t size, uint64_t end_ns) {
    for (uint32_t at = 0; at < size;) {
        const ssize_t sent = write(line->fd, (const char *)data + at, size - at);
        if (sent > 0)
            at += (uint32_t)sent;
        else if ((errno != EAGAIN && errno != EINTR) || !await(line, POLLOUT, end_ns))
            return false;
    }
    return true;
}

static bool send_frame(const kiln_line *line, const kiln_line_request *r, uint64_t end_ns) {
    const kiln_frame_ends ends = kiln_frame_seal((uint8_t)r->kind, line->number, r->first,
                                                 r->first_bytes, r->rest, r->rest_bytes);
    return send_bytes(line, ends.head, sizeof ends.head, end_ns) &&
           send_bytes(line, r->first, r->first_bytes, end_ns) &&
           send_bytes(line, r->rest, r->rest_bytes, end_ns) &&
           send_bytes(line, ends.crc, sizeof ends.crc, end_ns);
}

/* Completes a request that was cut off, so that the monitor does not take the next one for its
 * rest: zeros begin no frame. */
static bool flush(const kiln_line *line, uint64_t end_ns) {
    static const uint8_t zeros[64];
    uint32_t left = KILN_FRAME_HEAD_BYTES + KILN_FRAME_BODY_MAX + KILN_FRAME_CRC_BYTES;
    bool sent = true;
    for (uint32_t count; sent && left > 0; left -= count) {
        count = KILN_MIN(left, (uint32_t)sizeof zeros);
        sent = send_bytes(line, zeros, count, end_ns);
    }
    return sent;
}

/* Receives bytes into the chunk. `end_ns`: of the whole answer; within a frame a silence ends it
 * earlier.
 */
static receipt receive_chunk(kiln_line *line, uint64_t end_ns) {
    const bool inside = line->frame.received > 0;
    const uint64_t silent_ns = kiln_clock_ns() + SILENCE_NS;
    if (!await(line, POLLIN, inside ? KILN_MIN(silent_ns, end_ns) : end_ns))
        return inside ? CUT : LATE;
    const ssize_t size = read(line->fd, line->chunk, sizeof line->chunk);
    if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR)) return CLOSED;
    line->chunk_at = 0;
    line->chunk_count = size > 0 ? (uint32_t)size : 0;
    return ANSWERED;
}

static receipt receive(kiln_line *line, const kiln_line_request *request, uint64_t end_ns) {
    for (;;) {
        while (line->chunk_at == line->chunk_count) {
            const receipt r = receive_chunk(line, end_ns);
            if (r != ANSWERED) return r;
        }
        const kiln_frame_event event = kiln_frame_take(&line->frame, line->chunk[line->chunk_at++]);
        if (event == KILN_FRAME_DAMAGED) return DAMAGED;
        if (event == KILN_FRAME_WHOLE && line->frame.number == line->number &&
            line->frame.kind == (request->kind | KILN_FRAME_ANSWER))
            return ANSWERED;
    }
}

const void *kiln_line_ask(kiln_line *line, const kiln_line_request *request, uint32_t least_bytes) {
    receipt r = LATE;
    line->number++;
    for (uint32_t attempt = 0; attempt < ATTEMPTS; attempt++) {
        const uint64_t now = kiln_clock_ns();
        const uint64_t end_ns = request->deadline_ns == KILN_LINE_FOREVER
                                    ? KILN_LINE_FOREVER
                                    : now + request->deadline_ns;
        line->frame.received = 0;
        const bool sent =
            (attempt == 0 || flush(line, end_ns)) && send_frame(line, request, end_ns);
        r = sent ? receive(line, request, end_ns) : errno == EAGAIN ? LATE : CLOSED;
        if (r == ANSWERED && line->frame.body_bytes >= least_bytes) return line->frame.body;
        if (r == ANSWERED) r = DAMAGED;
        if (r == CLOSED) break;
    }
    line->error = receipt_text[r];
    return NULL;
}

uint32_t kiln_line_answer_bytes(const kiln_line *line) { return line->frame.body_bytes; }

const char *kiln_line_error(const kiln_line *line) { return line->error; }
