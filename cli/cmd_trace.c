/* kiln trace: joins the traces of several programs (--trace F of each) into one, on one clock.
 *
 * Every trace begins with its own monotonic clock beside the wall clock, and says at each
 * connection what the tracker's clock was. Where the tracker's trace is among those given, its
 * clock is the common one, right within half a round trip; otherwise wall clocks have to agree. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "cli/cli.h"

#define TRACE_BYTES_MAX ((size_t)1 << 30)

typedef struct trace {
    const char *path;
    json_t *events;
    int64_t own_ns, wall_ns; /* at the same moment */
    bool by_tracker;         /* a tracker wrote it */
    const char *boot;        /* of the tracker it speaks of; NULL: none */
    int64_t tracker_ns, at_ns;
    int64_t shift_ns; /* from its clock to the common one */
} trace;

static int64_t number(const json_t *event, const char *name) {
    return json_integer_value(json_object_get(json_object_get(event, "args"), name));
}

static bool is_named(const json_t *event, const char *name) {
    const char *has = json_string_value(json_object_get(event, "name"));
    return has && strcmp(has, name) == 0;
}

/* A program that was killed left its list without an end, and perhaps half a line. */
static kiln_status load(const char *path, kiln_arena *process, trace *out) {
    kiln_str text;
    json_error_t error;
    kiln_status st = kiln_file_read(path, TRACE_BYTES_MAX, process, &text);
    if (st) return st;
    out->path = path;
    out->events = json_loadb(text.data, text.size, 0, &error);
    if (!out->events) {
        while (text.size && text.data[text.size - 1] != '\n') text.size--;
        const char *whole =
            kiln_arena_printf(process, "%.*s{}]", (int)text.size, text.size ? text.data : "");
        out->events = json_loads(whole, 0, &error);
    }
    if (!json_is_array(out->events))
        return KILN_ERROR(DATA_LOSS, "%s is no trace of Kiln: %s in line %d", path, error.text,
                          error.line);
    size_t i;
    const json_t *event;
    json_array_foreach(out->events, i, event) {
        if (is_named(event, "process_name")) {
            const char *program =
                json_string_value(json_object_get(json_object_get(event, "args"), "name"));
            out->by_tracker = kiln_str_starts(kiln_str_from(program), "kiln-tracker ");
        } else if (is_named(event, "kiln_origin")) {
            out->own_ns = number(event, "own_ns");
            out->wall_ns = number(event, "wall_ns");
        } else if (is_named(event, "kiln_clock")) {
            out->boot = json_string_value(json_object_get(json_object_get(event, "args"), "boot"));
            out->tracker_ns = number(event, "their_ns");
            out->at_ns = number(event, "own_ns");
        }
    }
    if (!out->own_ns)
        return KILN_ERROR(DATA_LOSS, "%s is no trace of Kiln: it does not say its clock", path);
    return KILN_OK;
}

/* All clocks to the tracker's where its trace is there and they knew it; else to the wall's. The
 * first event of all is at 0. */
static void align(trace *all, size_t count) {
    int64_t tracker_wall_ns = 0;
    for (size_t i = 0; i < count; i++)
        if (all[i].by_tracker) tracker_wall_ns = all[i].wall_ns - all[i].own_ns;
    int64_t first_ns = INT64_MAX;
    for (size_t i = 0; i < count; i++) {
        trace *t = &all[i];
        bool by_tracker = t->boot && tracker_wall_ns;
        t->shift_ns =
            by_tracker ? t->tracker_ns - t->at_ns + tracker_wall_ns : t->wall_ns - t->own_ns;
        first_ns = KILN_MIN(first_ns, t->own_ns + t->shift_ns);
    }
    for (size_t i = 0; i < count; i++) all[i].shift_ns -= first_ns;
}

/* Two programs may have had the same process number, on two machines or one after the other. */
static void add_events(const trace *t, size_t index, json_t *joined) {
    size_t i;
    json_t *event;
    json_array_foreach(t->events, i, event) {
        if (!json_object_size(event) || is_named(event, "kiln_origin") ||
            is_named(event, "kiln_clock"))
            continue;
        const json_t *ts = json_object_get(event, "ts");
        if (ts)
            json_object_set_new(event, "ts",
                                json_real(json_number_value(ts) + (double)t->shift_ns / 1e3));
        json_object_set_new(event, "pid", json_integer((json_int_t)index + 1));
        json_array_append(joined, event);
    }
}

static int append(const char *data, size_t size, void *out) {
    kiln_strbuf_append(out, data, size);
    return 0;
}

static kiln_status write_joined(const trace *all, size_t count, const char *path) {
    json_t *joined = json_array();
    for (size_t i = 0; i < count; i++) add_events(&all[i], i, joined);
    size_t events = json_array_size(joined);
    json_t *root = json_pack("{s:o, s:s}", "traceEvents", joined, "displayTimeUnit", "ms");
    kiln_strbuf text = {0};
    json_dump_callback(root, append, &text, JSON_COMPACT | JSON_REAL_PRECISION(17));
    kiln_status st = kiln_file_write(path, kiln_strbuf_view(&text), 0644);
    kiln_strbuf_deinit(&text);
    json_decref(root);
    if (!st)
        printf("%s: %zu events of %zu programs; open it in ui.perfetto.dev\n", path, events, count);
    return st;
}

kiln_status kiln_cmd_trace(kiln_arena *process, int argc, char **argv) {
    const char *out = "trace.json";
    const kiln_opt option[] = {
        {"output|o", KILN_OPT_TEXT, &out, "FILE", "file to write (default trace.json)"},
    };
    const kiln_opt_table table = {
        "kiln trace FILE... [-o FILE]",
        "Joins traces that programs wrote (--trace F) into one for a trace viewer.",
        option,
        KILN_ARRAY_COUNT(option),
        1,
        64};
    kiln_args args;
    kiln_status st = kiln_args_parse(&table, argc, argv, process, &args);
    if (st || args.help) return st;
    trace *all = KILN_ARENA_ARRAY(process, trace, args.count);
    st = kiln_file_check_writable(out);
    for (size_t i = 0; !st && i < args.count; i++) st = load(args.positional[i], process, &all[i]);
    if (!st) {
        align(all, args.count);
        st = write_joined(all, args.count, out);
    }
    for (size_t i = 0; i < args.count; i++) json_decref(all[i].events);
    return st;
}
