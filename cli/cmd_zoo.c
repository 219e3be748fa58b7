#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "cli/cli.h"
#include "cli/common/json.h"
#include "compiler-core/frontend/zoo/zoo.h"

kiln_status kiln_cmd_zoo(kiln_arena *process, int argc, char **argv) {
    const char *output = NULL;
    uint64_t seed = 0;
    bool int8 = false, json = false;
    const kiln_opt option[] = {
        {"output|o", KILN_OPT_TEXT, &output, "FILE", "file to write"},
        {"seed", KILN_OPT_COUNT, &seed, "N", "seed of the weights (default 0)"},
        {"int8", KILN_OPT_FLAG, &int8, NULL,
         "quantised to int8 with scales that are powers of two: NETWORK_int8"},
        {"json", KILN_OPT_FLAG, &json, NULL, "print one object"},
    };
    const kiln_opt_table table = {
        "kiln zoo NETWORK -o FILE, or kiln zoo list",
        "Writes a well-known network or a single operator as ONNX, with seeded weights.",
        option,
        KILN_ARRAY_COUNT(option),
        1,
        1};
    kiln_args args;
    kiln_status st = kiln_args_parse(&table, argc, argv, process, &args);
    if (st || args.help) return st;
    kiln_strbuf bytes = {0};
    if (strcmp(args.positional[0], "list") == 0) {
        kiln_zoo_list(&bytes);
        if (json)
            kiln_json_line(json_pack("{s:s, s:o}", "event", "zoo", "list",
                                     kiln_json_str(kiln_strbuf_view(&bytes))));
        else
            fputs(bytes.data, stdout);
    } else {
        if (!output) st = KILN_ERROR(INVALID_ARGUMENT, "-o FILE is missing");
        if (!st) st = kiln_file_check_writable(output);
        const char *name = args.positional[0];
        if (int8) name = kiln_arena_printf(process, "%s_int8", name);
        if (!st) st = kiln_zoo_build(kiln_str_from(name), seed, &bytes);
        if (!st) st = kiln_file_write(output, kiln_strbuf_view(&bytes), 0666);
        if (!st && json)
            kiln_json_line(json_pack("{s:s, s:s, s:s, s:I}", "event", "zoo", "name",
                                     args.positional[0], "file", output, "bytes",
                                     (json_int_t)bytes.size));
    }
    kiln_strbuf_deinit(&bytes);
    return st;
}
