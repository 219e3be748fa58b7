#include <stdio.h>

#include "cli/cli.h"

kiln_status kiln_cmd_explain(kiln_arena *process, int argc, char **argv) {
    const char *stage = "graph", *task = NULL, *after = NULL, *target_text = NULL, *db_path = NULL;
    bool json = false;
    const kiln_opt option[] = {
        {"stage", KILN_OPT_TEXT, &stage, "STAGE",
         "graph, tasks, space, loops, llvm or asm (default graph)"},
        {"task", KILN_OPT_TEXT, &task, "K",
         "only this task: its number or the beginning of its key"},
        {"after", KILN_OPT_TEXT, &after, "PASS", "stop after this pass (graph and loops)"},
        {"target", KILN_OPT_TEXT, &target_text, "T", "device to compile for (default native)"},
        {"db", KILN_OPT_TEXT, &db_path, "PATH",
         "take the best stored schedules from here (default: the unsearched ones)"},
        {"json", KILN_OPT_FLAG, &json, NULL, "print one object with the text"},
    };
    const kiln_opt_table table = {"kiln explain MODEL.onnx --stage STAGE [options]",
                                  "Prints a stage of compilation as text.",
                                  option,
                                  KILN_ARRAY_COUNT(option),
                                  1,
                                  1};
    kiln_args args;
    kiln_target target;
    kiln_db *db = NULL;
    kiln_strbuf text = {0};
    kiln_status st = kiln_args_parse(&table, argc, argv, process, &args);
    if (st || args.help) return st;
    st = kiln_target_option(target_text, process, &target);
    if (!st && db_path) st = kiln_db_open(db_path, KILN_DB_RECORDS, KILN_DB_READ, &db);
    kiln_stage_options options = {stage, after, &target, db, task};
    if (!st) st = kiln_stage_print(args.positional[0], &options, process, &text);
    if (!st && json)
        kiln_json_line(json_pack("{s:s, s:s, s:o}", "event", "explain", "stage", stage, "text",
                                 kiln_json_str(kiln_strbuf_view(&text))));
    else if (!st)
        fwrite(text.data, 1, text.size, stdout);
    kiln_strbuf_deinit(&text);
    kiln_db_close(db);
    return st;
}
