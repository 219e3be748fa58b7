/* Frames of the line to a microcontroller, and what becomes of them on a bad one: a thread stands
 * for the monitor, damages what it is told to, and remembers how often it was asked. */
#include "deploy/runtime/line.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "tests/support/test.h"

#define WORD 0x11223344u
#define SHORT_NS (KILN_NS_PER_S / 3) /* where an answer stays away */
#define LONG_NS (60 * KILN_NS_PER_S)

/* What is wrong with the answers, in turn; behind the list nothing is. */
typedef enum fault {
    GOOD,
    CUT,     /* the last bytes stay away */
    FLIPPED, /* a bit of the body */
    LENGTH,  /* a body longer than any */
    NOISE,   /* bytes before the frame that begin none */
    STALE,   /* an answer to somebody else before it */
    SILENT,
    CUT_REQUEST, /* the monitor gets half of it */
} fault;

typedef struct monitor {
    char folder[32], path[64];
    int listener;
    const fault *faults; /* [fault_count] */
    uint32_t fault_count, asked;
    pthread_t thread;
} monitor;

static void put(int fd, const void *data, size_t size) {
    KILN_CHECK(send(fd, data, size, MSG_NOSIGNAL) == (ssize_t)size);
}

static void answer(int fd, fault f, const kiln_frame *request) {
    static const char noise[] = "noise KK K";
    uint32_t body[2] = {KILN_FRAME_OK, WORD};
    const uint8_t number = (uint8_t)(request->number + (f == STALE));
    kiln_frame_ends ends =
        kiln_frame_seal(request->kind | KILN_FRAME_ANSWER, number, body, 4, body + 1, 4);
    if (f == SILENT) return;
    if (f == NOISE) put(fd, noise, sizeof noise);
    if (f == FLIPPED) body[1] ^= 1u << 9;
    if (f == LENGTH) ends.head[6] = 1;
    put(fd, ends.head, sizeof ends.head);
    put(fd, body, f == CUT ? 3 : sizeof body);
    if (f != CUT) put(fd, ends.crc, sizeof ends.crc);
    if (f == STALE) answer(fd, GOOD, request);
}

static void *serve(void *context) {
    monitor *m = context;
    static kiln_frame frame;
    const int fd = accept(m->listener, NULL, NULL);
    uint8_t byte;
    uint32_t dropped = 0;
    frame.received = 0;
    while (read(fd, &byte, 1) == 1) {
        const fault f = m->asked < m->fault_count ? m->faults[m->asked] : GOOD;
        if (f == CUT_REQUEST && ++dropped > 4) { /* gone; the rest of it waits for the next bytes */
            while (dropped++ < 12) KILN_CHECK(read(fd, &byte, 1) == 1);
            m->asked++;
            continue;
        }
        if (kiln_frame_take(&frame, byte) != KILN_FRAME_WHOLE) continue;
        m->asked++;
        answer(fd, f, &frame);
    }
    close(fd);
    return NULL;
}

static void start(monitor *m, const fault *faults, uint32_t count) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    *m = (monitor){.folder = "/tmp/kiln-line-XXXXXX", .faults = faults, .fault_count = count};
    assert_non_null(mkdtemp(m->folder));
    snprintf(m->path, sizeof m->path, "%s/line", m->folder);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", m->path);
    m->listener = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(m->listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(m->listener, 1), 0);
    assert_int_equal(pthread_create(&m->thread, NULL, serve, m), 0);
}

static void end(monitor *m) {
    pthread_join(m->thread, NULL);
    close(m->listener);
    unlink(m->path);
    rmdir(m->folder);
}

/* Asks once; how often the monitor heard it. */
static uint32_t ask(const fault *faults, uint32_t count, const char *error) {
    const bool stays_away = faults[0] == SILENT || faults[0] == CUT_REQUEST;
    const kiln_line_request request = {.kind = KILN_FRAME_FIND,
                                       .first = "name",
                                       .first_bytes = 4,
                                       .deadline_ns = stays_away ? SHORT_NS : LONG_NS};
    monitor m;
    kiln_line *line = NULL;
    uint32_t body[2] = {0};
    start(&m, faults, count);
    expect_ok(kiln_line_open(m.path, 115200, &line));
    const void *got = kiln_line_ask(line, &request, sizeof body);
    if (error) {
        assert_null(got);
        assert_string_equal(kiln_line_error(line), error);
    } else {
        assert_non_null(got);
        memcpy(body, got, sizeof body);
        assert_int_equal(body[1], WORD);
        assert_int_equal(kiln_line_answer_bytes(line), sizeof body);
        assert_null(kiln_line_error(line));
    }
    kiln_line_close(line);
    end(&m);
    return m.asked;
}

static void what_is_damaged_cut_or_lost_is_asked_again(void **state) {
    (void)state;
    static const fault again[] = {CUT, FLIPPED, LENGTH, SILENT};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(again); i++) assert_true(ask(&again[i], 1, NULL) >= 2);
}

static void a_request_that_was_cut_swallows_no_other_one(void **state) {
    (void)state;
    static const fault cut[] = {CUT_REQUEST};
    assert_true(ask(cut, 1, NULL) >= 2);
}

static void noise_and_answers_to_others_are_passed_over(void **state) {
    (void)state;
    static const fault passed[] = {NOISE, STALE};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(passed); i++)
        assert_int_equal(ask(&passed[i], 1, NULL), 1);
}

static void a_line_that_stays_bad_is_given_up(void **state) {
    (void)state;
    static const fault silent[] = {SILENT, SILENT, SILENT, SILENT, SILENT},
                       flipped[] = {FLIPPED, FLIPPED, FLIPPED, FLIPPED, FLIPPED};
    ask(silent, 5, "the microcontroller does not answer");
    assert_int_equal(ask(flipped, 5, "the microcontroller's answers are damaged"), 4);
}

static void what_is_no_line_is_refused_by_name(void **state) {
    (void)state;
    kiln_line *line = NULL;
    expect_error(kiln_line_open("/nonexistent/line", 115200, &line), UNAVAILABLE,
                 "/nonexistent/line: No such file");
    expect_error(kiln_line_open("/dev/null", 115200, &line), INVALID_ARGUMENT,
                 "/dev/null is neither a terminal nor a Unix socket");
    expect_error(kiln_line_open("/dev/null", 123, &line), INVALID_ARGUMENT,
                 "there is no rate of 123 baud");
    assert_null(line);
}

/* Every single damaged bit is seen, wherever it is. */
static void a_flipped_bit_never_passes(void **state) {
    (void)state;
    static kiln_frame frame;
    const uint8_t body[5] = {1, 2, 3, 4, 5};
    const kiln_frame_ends ends = kiln_frame_seal(KILN_FRAME_WRITE, 7, body, 2, body + 2, 3);
    uint8_t good[17], bad[17];
    memcpy(good, ends.head, 8);
    memcpy(good + 8, body, 5);
    memcpy(good + 13, ends.crc, 4);
    for (uint32_t bit = 0; bit <= 8 * sizeof good; bit++) {
        uint32_t whole = 0;
        memcpy(bad, good, sizeof good);
        if (bit < 8 * sizeof good) bad[bit / 8] ^= (uint8_t)(1u << bit % 8);
        frame.received = 0;
        for (size_t i = 0; i < sizeof bad; i++)
            whole += kiln_frame_take(&frame, bad[i]) == KILN_FRAME_WHOLE;
        assert_int_equal(whole, bit == 8 * sizeof good);
    }
    assert_int_equal(frame.body_bytes, 5);
    assert_memory_equal(frame.body, body, 5);
}

/* What zlib and Python's binascii say of "12\0\0\0\0": kind, number and the length of no body. */
static void the_crc_is_that_of_everybody(void **state) {
    (void)state;
    uint32_t crc = 0;
    const kiln_frame_ends ends = kiln_frame_seal('1', '2', NULL, 0, NULL, 0);
    memcpy(&crc, ends.crc, sizeof crc);
    assert_int_equal(crc, 0xa5059e4du);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_damaged_cut_or_lost_is_asked_again),
        cmocka_unit_test(a_request_that_was_cut_swallows_no_other_one),
        cmocka_unit_test(noise_and_answers_to_others_are_passed_over),
        cmocka_unit_test(a_line_that_stays_bad_is_given_up),
        cmocka_unit_test(what_is_no_line_is_refused_by_name),
        cmocka_unit_test(a_flipped_bit_never_passes),
        cmocka_unit_test(the_crc_is_that_of_everybody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
