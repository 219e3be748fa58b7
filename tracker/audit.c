#include "tracker/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/log.h"
#include "base/map.h"

struct kiln_audit {
    kiln_arena arena;
    char *path, *old_path[KILN_AUDIT_FILES_MAX]; /* newest first */
    int fd;
    uint64_t bytes;
    uint32_t begin_day;       /* of the first line, from 1970; 0: there is none */
    kiln_map written;         /* by source: bytes in this file << 32 | lines that were left out */
    uint64_t window_ns;       /* begin of the window in which `refused` are counted */
    uint32_t refused, silent; /* in this window; `silent`: those without a line */
};

static kiln_status open_file(kiln_audit *audit) {
    struct stat info;
    audit->fd =
        kiln_fail_io() ? -1 : open(audit->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (audit->fd < 0 || fstat(audit->fd, &info) != 0)
        return kiln_status_make(kiln_code_from_errno(errno), __FILE__, __LINE__,
                                "the audit log %s: %s", audit->path, strerror(errno));
    audit->bytes = (uint64_t)info.st_size;
    return KILN_OK;
}

/* The text of the field that begins with `mark`; empty: the line has none. */
static kiln_str text_after(kiln_str head, kiln_str mark) {
    const char *at = memmem(head.data, head.size, mark.data, mark.size);
    if (!at) return (kiln_str){0};
    kiln_str rest = kiln_str_slice(head, (size_t)(at - head.data) + mark.size, head.size);
    return kiln_str_cut(&rest, '"');
}

/* The count of a "withheld" line. */
static uint32_t withheld_in(kiln_str head) {
    const kiln_str mark = KILN_STR(",\"count\":");
    const char *at = memmem(head.data, head.size, mark.data, mark.size);
    uint64_t count = 0;
    if (at) {
        kiln_str rest = kiln_str_slice(head, (size_t)(at - head.data) + mark.size, head.size);
        kiln_str_to_u64(kiln_str_cut(&rest, '}'), &count);
    }
    return (uint32_t)count;
}

/* Counts a line of an earlier run against its source. */
static void count_line(kiln_audit *audit, kiln_str line) {
    const kiln_str body = KILN_STR(",\"body\":");
    const char *at = memmem(line.data, line.size, body.data, body.size);
    const kiln_str head = kiln_str_slice(line, 0, at ? (size_t)(at - line.data) : line.size);
    const kiln_str event = text_after(head, KILN_STR(",\"event\":\""));
    const bool is_count = kiln_str_is(event, "withheld");
    kiln_str source = text_after(head, KILN_STR(",\"person\":\""));
    if (source.size == 0) source = text_after(head, KILN_STR(",\"key\":\""));
    if (is_count) source = text_after(head, KILN_STR(",\"of\":\""));
    if (kiln_str_is(event, "keys")) source = KILN_STR("the tracker");
    if (source.size == 0 || kiln_str_starts(event, "refused") ||
        kiln_str_is(event, "sign_in_refused"))
        source = KILN_STR("strangers");
    uint64_t so_far = 0;
    kiln_map_find(&audit->written, source, &so_far);
    if (is_count)
        so_far = KILN_AUDIT_BYTES_OF_SOURCE << 32 | withheld_in(head);
    else
        so_far += (uint64_t)(line.size - 1) << 32; /* without the newline */
    kiln_map_put(&audit->written, source, so_far);
}

/* The day of a line's time; 0: it has none. */
static uint32_t day_in(kiln_str line) {
    const kiln_str time = text_after(line, KILN_STR("{\"time\":\""));
    uint32_t day = 0;
    return kiln_day_parse(kiln_str_slice(time, 0, KILN_DAY_TEXT - 1), &day) ? day : 0;
}

/* Counts the existing lines of each source, because the bound is per file, not per run. */
static kiln_status count_lines(kiln_audit *audit) {
    kiln_arena scratch;
    kiln_str text = {0};
    kiln_arena_init(&scratch, 0);
    kiln_status st = kiln_file_read(audit->path, KILN_AUDIT_BYTES_MAX + 1, &scratch, &text);
    while (!st && text.size) {
        const kiln_str line = kiln_str_cut(&text, '\n');
        if (audit->begin_day == 0) audit->begin_day = day_in(line);
        if (line.size > 1) count_line(audit, line);
    }
    kiln_arena_deinit(&scratch);
    return st;
}

kiln_status kiln_audit_open(const char *path, kiln_audit **out_audit) {
    kiln_audit *audit = kiln_alloc(sizeof *audit);
    kiln_arena_init(&audit->arena, 512);
    audit->path = kiln_str_dup(&audit->arena, kiln_str_from(path));
    kiln_map_init(&audit->written);
    for (uint32_t i = 0; i < KILN_AUDIT_FILES_MAX; i++)
        audit->old_path[i] = kiln_arena_printf(&audit->arena, "%s.%u", path, i + 1);
    kiln_status st = open_file(audit);
    if (!st) st = count_lines(audit);
    if (st) {
        kiln_audit_close(audit);
        return st;
    }
    *out_audit = audit;
    return KILN_OK;
}

/* ---- Lines ---- */

static void begin(kiln_strbuf *line, const char *event) {
    uint64_t now_ns = kiln_clock_wall_ns();
    time_t seconds = (time_t)(now_ns / KILN_NS_PER_S);
    struct tm utc;
    gmtime_r(&seconds, &utc);
    kiln_strbuf_printf(line, "{\"time\":\"%04d-%02d-%02dT%02d:%02d:%02d.%03uZ\",\"event\":\"%s\"",
                       utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min,
                       utc.tm_sec, (unsigned)(now_ns % KILN_NS_PER_S / KILN_NS_PER_MS), event);
}

static void add_text(kiln_strbuf *line, const char *name, const char *text) {
    kiln_strbuf_printf(line, ",\"%s\":", name);
    kiln_json_print_text(kiln_str_from(text), line);
}

static void add_peer(kiln_strbuf *line, const kiln_peer *peer) {
    add_text(line, "from", peer->address);
    if (peer->by_web) { /* what the person does counts as the person's, not the server's */
        add_text(line, "person", peer->person);
        add_text(line, "by", peer->key[0] ? peer->key : "web");
    } else if (peer->key[0])
        add_text(line, "key", peer->key);
    else if (peer->person[0])
        add_text(line, "person", peer->person);
}

static void add_status(kiln_strbuf *line, kiln_status why) {
    add_text(line, "code", kiln_code_name(kiln_status_code(why)));
    add_text(line, "text", kiln_status_text(why));
}

static void open_again(kiln_audit *audit) {
    kiln_status st = open_file(audit);
    if (st) kiln_log(KILN_LOG_ERROR, "%s", kiln_status_text(st));
    kiln_status_free(st);
}

static void move_aside(kiln_audit *audit) {
    close(audit->fd);
    kiln_map_reset(&audit->written);
    for (uint32_t i = KILN_AUDIT_FILES_MAX; i-- > 1;)
        if (rename(audit->old_path[i - 1], audit->old_path[i]) != 0 && errno != ENOENT)
            kiln_log(KILN_LOG_ERROR, "the audit log cannot be moved aside: %s", strerror(errno));
    if (kiln_fail_io() || rename(audit->path, audit->old_path[0]) != 0)
        kiln_log(KILN_LOG_ERROR, "the audit log cannot be moved aside: %s", strerror(errno));
    audit->begin_day = 0;
    open_again(audit);
}

void kiln_audit_expire(kiln_audit *audit, uint32_t keep_days) {
    const uint32_t today = kiln_day_of(kiln_clock_wall_ns());
    const uint32_t part = KILN_MAX(keep_days / 4, 1u);
    if (keep_days == 0) return;
    if (audit->fd >= 0 && audit->begin_day && today >= audit->begin_day + part) move_aside(audit);
    for (uint32_t i = 0; i < KILN_AUDIT_FILES_MAX; i++) {
        struct stat info; /* the time of its last line */
        if (stat(audit->old_path[i], &info) != 0 || info.st_mtim.tv_sec < 0) continue;
        const uint32_t day = kiln_day_of((uint64_t)info.st_mtim.tv_sec * KILN_NS_PER_S);
        if (today <= day + keep_days || unlink(audit->old_path[i]) == 0) continue;
        kiln_log(KILN_LOG_ERROR, "%s cannot be removed: %s", audit->old_path[i], strerror(errno));
    }
}

/* A line is written by one write; if only a part could be written it is removed again, so that no
 * incomplete line stands before a complete one. */
static void write_line(kiln_audit *audit, kiln_strbuf *line) {
    kiln_strbuf_text(line, "}\n");
    if (audit->fd < 0) open_again(audit);
    if (audit->fd >= 0 && audit->bytes + line->size > KILN_AUDIT_BYTES_MAX) move_aside(audit);
    if (audit->begin_day == 0) audit->begin_day = kiln_day_of(kiln_clock_wall_ns());
    ssize_t size = audit->fd < 0 || kiln_fail_io() ? -1 : write(audit->fd, line->data, line->size);
    const bool whole = size == (ssize_t)line->size;
    if (!whole) kiln_log(KILN_LOG_ERROR, "not in the audit log: %s", line->data);
    if (whole || (size > 0 && ftruncate(audit->fd, (off_t)audit->bytes) != 0))
        audit->bytes += (uint64_t)size;
    kiln_strbuf_deinit(line);
}

/* Writes the line, unless its source has used its KILN_AUDIT_BYTES_OF_SOURCE; then the line is only
 * counted. */
static void end(kiln_audit *audit, kiln_strbuf *line, const char *source) {
    const kiln_str name = kiln_str_from(source);
    uint64_t so_far = 0;
    kiln_map_find(&audit->written, name, &so_far);
    const uint64_t bytes = (so_far >> 32) + line->size;
    if (bytes <= KILN_AUDIT_BYTES_OF_SOURCE) {
        kiln_map_put(&audit->written, name, bytes << 32 | (uint32_t)so_far);
        write_line(audit, line);
        return;
    }
    kiln_strbuf_deinit(line);
    const uint32_t withheld = (uint32_t)so_far + 1;
    kiln_map_put(&audit->written, name, (so_far >> 32) << 32 | withheld);
    if (withheld & (withheld - 1)) return; /* a line at 1, 2, 4, 8, ... of them */
    kiln_strbuf more = {0};
    begin(&more, "withheld");
    add_text(&more, "of", source);
    kiln_strbuf_printf(&more, ",\"count\":%u", withheld);
    write_line(audit, &more);
}

static const char *source_of(const kiln_peer *peer) {
    return peer->key[0] && !peer->by_web ? peer->key : peer->person[0] ? peer->person : "strangers";
}

/* ---- Events ---- */

bool kiln_audit_is_recorded(const kiln_message *message) {
    bool admin_only = kiln_message_may_send(message->type, KILN_PEER_ADMIN) &&
                      !kiln_message_may_send(message->type, KILN_PEER_CLIENT);
    if (message->type == KILN_MSG_TAIL && message->tail.since)
        return false; /* the continuation of a request that was recorded */
    return admin_only || message->type == KILN_MSG_PROJECT_ORDER ||
           message->type == KILN_MSG_JOB_ORDER ||
           (message->type == KILN_MSG_CANCEL && message->cancel.scope == KILN_CANCEL_JOB);
}

void kiln_audit_act(kiln_audit *audit, const kiln_peer *peer, const kiln_message *message) {
    kiln_strbuf line = {0};
    begin(&line, "act");
    add_peer(&line, peer);
    add_text(&line, "role", kiln_peer_role_name(peer->role));
    add_text(&line, "message", kiln_message_name(message->type));
    kiln_strbuf_text(&line, ",\"body\":");
    kiln_message_print_json(message, &line);
    end(audit, &line, source_of(peer));
}

static void tell_silent(kiln_audit *audit) {
    if (audit->silent == 0) return;
    kiln_strbuf line = {0};
    begin(&line, "refused_more");
    kiln_strbuf_printf(&line, ",\"count\":%u", audit->silent);
    end(audit, &line, "strangers");
    audit->silent = 0;
}

/* Whether a refusal is only counted, as there are too many. */
static bool is_one_too_many(kiln_audit *audit, uint64_t now_ns) {
    if (now_ns - audit->window_ns >= KILN_AUDIT_WINDOW_NS) {
        tell_silent(audit);
        audit->window_ns = now_ns;
        audit->refused = 0;
    }
    if (audit->refused++ < KILN_AUDIT_REFUSED_MAX) return false;
    audit->silent++;
    return true;
}

void kiln_audit_refused(kiln_audit *audit, const kiln_peer *peer, kiln_status why,
                        uint64_t now_ns) {
    if (is_one_too_many(audit, now_ns)) return;
    kiln_strbuf line = {0};
    begin(&line, "refused");
    add_peer(&line, peer);
    add_status(&line, why);
    end(audit, &line, "strangers");
}

void kiln_audit_sign_in(kiln_audit *audit, const kiln_peer *web, kiln_str person, bool is_right,
                        uint64_t now_ns) {
    char source[KILN_PERSON_MAX + 1];
    if (!is_right && is_one_too_many(audit, now_ns)) return;
    const kiln_str name = kiln_str_slice(person, 0, KILN_PERSON_MAX);
    memcpy(source, name.data, name.size);
    source[name.size] = '\0';
    kiln_strbuf line = {0};
    begin(&line, is_right ? "signed_in" : "sign_in_refused");
    add_text(&line, "from", web->address);
    add_text(&line, "by", web->key[0] ? web->key : "web");
    kiln_strbuf_text(&line, ",\"person\":");
    kiln_json_print_text(name, &line);
    end(audit, &line, is_right ? source : "strangers");
}

void kiln_audit_keys(kiln_audit *audit, uint32_t count, kiln_status why) {
    kiln_strbuf line = {0};
    begin(&line, "keys");
    kiln_strbuf_printf(&line, ",\"count\":%u", count);
    if (why) add_status(&line, why);
    end(audit, &line, "the tracker");
}

void kiln_audit_close(kiln_audit *audit) {
    if (!audit) return;
    tell_silent(audit);
    if (audit->fd >= 0) close(audit->fd);
    kiln_map_deinit(&audit->written);
    kiln_arena_deinit(&audit->arena);
    kiln_free(audit);
}
