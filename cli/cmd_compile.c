/* kiln compile: starts the request and shows what becomes of it. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/common/compile_options.h"
#include "cli/host.h"
#include "cli/tune_print.h"

static double kb_of(const json_t *result, const char *name) {
    return json_number_value(json_object_get(result, name)) / 1024;
}

static unsigned long long count_of(const json_t *result, const char *name) {
    return (unsigned long long)json_integer_value(json_object_get(result, name));
}

static void print_module(const json_t *r, const char *path) {
    const unsigned long long tasks = count_of(r, "tasks"), tuned = count_of(r, "tuned");
    printf(
        "%s: %llu bytes, %llu tasks (%llu from stored records, %llu default schedules), %llu "
        "layout "
        "conversions,\n"
        "  %.1f KB of activations (at least %.1f KB are alive at once, all together are %.1f KB), "
        "%.1f KB lie inside of others\n",
        path, count_of(r, "bytes"), tasks, tuned, tasks - tuned, count_of(r, "conversions"),
        kb_of(r, "arena_bytes"), kb_of(r, "live_bytes"), kb_of(r, "value_bytes"),
        kb_of(r, "window_bytes"));
}

static void print_static_c(const json_t *r, const char *path) {
    printf("%s: %llu bytes of constants; static buffers: %llu of activations, %llu of packed "
           "weights, %llu of scratch\n",
           path, count_of(r, "constant_bytes"), count_of(r, "arena_bytes"),
           count_of(r, "packed_bytes"), count_of(r, "scratch_bytes"));
}

static void print(void *context, const json_t *result) {
    const char *module = json_string_value(json_object_get(result, "module"));
    const char *source = json_string_value(json_object_get(result, "source"));
    const json_t *text = json_object_get(result, "text");
    (void)context;
    if (module && json_object_get(result, "sizes"))
        kiln_sizes_print(result);
    else if (module)
        print_module(result, module);
    if (source) print_static_c(result, source);
    if (text) fwrite(json_string_value(text), 1, json_string_length(text), stdout);
}

kiln_status kiln_cmd_compile(kiln_arena *process, int argc, char **argv) {
    kiln_compile_options o;
    kiln_args args;
    const kiln_opt_table table = kiln_compile_options_init(&o, process);
    kiln_status st = kiln_args_parse(&table, argc, argv, process, &args);
    if (st || args.help) return st;
    kiln_host host = {.json = o.json, .print = print, .process = process};
    st = kiln_host_run(&host, KILN_REQUEST_COMPILE, args.positional[0], &args.given);
    kiln_request_free(host.request);
    return st;
}
