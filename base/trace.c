#include "base/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/text.h"

#define PIECE_BYTES ((size_t)16 << 10) /* written at once */
#define PIECE_NS (KILN_NS_PER_S / 4)   /* events wait no longer while new ones come */

/* Opened once by main before any thread starts; events come from the loop's thread only. */
static int trace_fd = -1;
static kiln_strbuf piece, trace_path, trace_program;
static kiln_strbuf clock_line; /* the last one: each file needs one */
static uint64_t piece_since_ns, file_bytes, file_bytes_max;

static const struct {
    const char *category, *name;
} name_table[] = {
#define X(NAME, category, name, doc) {category, name},
#include "base/trace.def"
#undef X
};

/* Writes the buffered lines. Failures are ignored, because a trace must not stop a program. */
static void write_piece(void) {
    ssize_t size = kiln_fail_io() ? -1 : write(trace_fd, piece.data, piece.size);
    file_bytes += size > 0 ? (uint64_t)size : 0;
    piece.size = 0;
}

/* The lines with which each file begins. */
static void begin_file(void) {
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    kiln_strbuf_printf(
        &piece, "[\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%ld,\"args\":{\"name\":\"",
        (long)getpid());
    kiln_text_append_json(&piece, kiln_strbuf_view(&trace_program));
    kiln_strbuf_text(&piece, " on ");
    kiln_text_append_json(&piece, kiln_str_from(host));
    kiln_strbuf_printf(
        &piece,
        "\"}},\n{\"ph\":\"M\",\"name\":\"kiln_origin\",\"pid\":%ld,\"args\":{\"own_ns\":"
        "%llu,\"wall_ns\":%llu}},\n",
        (long)getpid(), (unsigned long long)kiln_clock_ns(),
        (unsigned long long)kiln_clock_wall_ns());
    kiln_strbuf_str(&piece, kiln_strbuf_view(&clock_line));
    write_piece();
}

static kiln_status open_file(void) {
    const char *path = trace_path.data;
    trace_fd = kiln_fail_io() ? -1 : open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (trace_fd < 0)
        return kiln_status_make(kiln_code_from_errno(errno), __FILE__, __LINE__, "the trace %s: %s",
                                path, strerror(errno));
    file_bytes = 0;
    begin_file();
    return KILN_OK;
}

static void end_file(void) {
    kiln_strbuf_text(&piece, "{}]\n");
    write_piece();
    close(trace_fd);
    trace_fd = -1;
}

/* Moves a full file aside and begins another. A program that has no right to do so any more, as a
 * board that has given up root's, traces no further. */
static void begin_next_file(void) {
    kiln_strbuf older = {0};
    end_file();
    kiln_strbuf_printf(&older, "%s.1", trace_path.data);
    const bool is_moved = rename(trace_path.data, older.data) == 0;
    kiln_strbuf_deinit(&older);
    kiln_status st =
        is_moved ? open_file()
                 : kiln_status_make(kiln_code_from_errno(errno), __FILE__, __LINE__,
                                    "moving %s aside: %s", trace_path.data, strerror(errno));
    if (st) kiln_log(KILN_LOG_WARN, "the trace ends here: %s", kiln_status_text(st));
    kiln_status_free(st);
}

static void flush(void) {
    write_piece();
    if (file_bytes_max && file_bytes >= file_bytes_max) begin_next_file();
}

static void add_fields(const kiln_log_field *field, uint32_t count) {
    const char *comma = "";
    kiln_strbuf_text(&piece, ",\"args\":{");
    for (uint32_t i = 0; i < count; i++) {
        if (!field[i].value.size) continue;
        kiln_strbuf_printf(&piece, "%s\"%s\":\"", comma, field[i].name);
        kiln_text_append_json(&piece, field[i].value);
        kiln_strbuf_char(&piece, '"');
        comma = ",";
    }
    kiln_strbuf_text(&piece, "}},\n");
}

bool kiln_trace_is_on(void) { return trace_fd >= 0; }

void kiln_trace_event(kiln_trace_phase phase, kiln_trace_name name, kiln_str id, uint64_t now_ns,
                      const kiln_log_field *field, uint32_t field_count) {
    static const char letter[] = {'b', 'e', 'n'};
    if (trace_fd < 0) return;
    if (piece.size == 0) piece_since_ns = now_ns;
    kiln_strbuf_printf(&piece, "{\"ph\":\"%c\",\"cat\":\"%s\",\"name\":\"%s\",\"id\":\"",
                       letter[phase], name_table[name].category, name_table[name].name);
    kiln_text_append_json(&piece, id);
    kiln_strbuf_printf(&piece, "\",\"pid\":%ld,\"tid\":1,\"ts\":%llu.%03u", (long)getpid(),
                       (unsigned long long)(now_ns / 1000), (unsigned)(now_ns % 1000));
    add_fields(field, field_count);
    if (piece.size >= PIECE_BYTES || now_ns - piece_since_ns >= PIECE_NS) flush();
}

void kiln_trace_clock(kiln_str their_boot, uint64_t their_ns, uint64_t now_ns) {
    if (trace_fd < 0 || their_ns == 0) return;
    kiln_strbuf_reset(&clock_line);
    kiln_strbuf_printf(&clock_line,
                       "{\"ph\":\"M\",\"name\":\"kiln_clock\",\"pid\":%ld,\"args\":{\"boot\":\"",
                       (long)getpid());
    kiln_text_append_json(&clock_line, their_boot);
    kiln_strbuf_printf(&clock_line, "\",\"their_ns\":%llu,\"own_ns\":%llu}},\n",
                       (unsigned long long)their_ns, (unsigned long long)now_ns);
    kiln_strbuf_str(&piece, kiln_strbuf_view(&clock_line));
}

kiln_status kiln_trace_open(const char *path, const char *program, uint64_t bytes_max) {
    kiln_strbuf_text(&trace_path, path);
    kiln_strbuf_text(&trace_program, program);
    file_bytes_max = bytes_max / 2;
    kiln_status st = open_file();
    if (st) kiln_trace_close();
    return st;
}

void kiln_trace_close(void) {
    if (trace_fd >= 0) end_file();
    kiln_strbuf_deinit(&piece);
    kiln_strbuf_deinit(&trace_path);
    kiln_strbuf_deinit(&trace_program);
    kiln_strbuf_deinit(&clock_line);
}
