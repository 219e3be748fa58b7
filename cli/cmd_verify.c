/* kiln verify: models in the layout of ONNX's backend tests, with their default schedules on a
 * device of this machine. */
#include <stdio.h>

#include "base/file.h"
#include "cli/cli.h"
#include "cli/common/json.h"
#include "cli/common/options.h"
#include "cli/verify.h"

typedef struct tally {
    uint32_t count[KILN_VERDICT_COUNT];
    uint32_t bound; /* passed with an input bound as a constant */
    bool json, quiet;
    kiln_verify_options options;
} tally;

static const char *name_of(const char *folder, kiln_arena *arena) {
    kiln_str name = kiln_str_from(folder);
    while (name.size > 1 && name.data[name.size - 1] == '/') name.size--;
    for (size_t i = name.size; i > 0; i--)
        if (name.data[i - 1] == '/') return kiln_str_dup(arena, kiln_str_slice(name, i, name.size));
    return kiln_str_dup(arena, name);
}

static void print_case(const tally *t, const char *name, kiln_verdict v, const char *why) {
    if (t->json) {
        kiln_json_line(json_pack("{s:s, s:o, s:s, s:o}", "event", "case", "name",
                                 kiln_json_str(kiln_str_from(name)), "verdict",
                                 kiln_verdict_name(v), "why", kiln_json_str(kiln_str_from(why))));
    } else if (!t->quiet || v == KILN_VERDICT_FAILED) {
        printf("%-11s ", kiln_verdict_name(v));
        kiln_print_text(kiln_str_from(name), KILN_TEXT_LINE, stdout);
        fputs(why[0] ? ": " : "", stdout);
        kiln_print_text(kiln_str_from(why), KILN_TEXT_PROSE, stdout);
        putchar('\n');
        fflush(stdout);
    }
}

static void verify_one(const char *folder, tally *t) {
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    uint32_t bound = 0;
    kiln_strbuf why = {0};
    kiln_strbuf_text(&why, "");
    t->options.onnx.out_bound_count = &bound;
    kiln_verdict v = kiln_verify_case(folder, &t->options, &why);
    t->count[v]++;
    t->bound += v == KILN_VERDICT_PASSED && bound > 0;
    print_case(t, name_of(folder, &arena), v, why.data);
    kiln_strbuf_deinit(&why);
    kiln_arena_deinit(&arena);
}

kiln_status kiln_cmd_verify(kiln_arena *process, int argc, char **argv) {
    tally t = {0};
    kiln_opt_list dim = {0};
    const char *target_text = "native";
    const kiln_opt option[] = {
        {"target", KILN_OPT_TEXT, &target_text, "T",
         "compile for this device of this machine (default native)"},
        KILN_MODEL_OPTIONS(&dim, kiln_dim_help, &t.options.onnx),
        {"quiet", KILN_OPT_FLAG, &t.quiet, NULL, "print only failures and the last line"},
        {"json", KILN_OPT_FLAG, &t.json, NULL, "print one object per case"},
    };
    const kiln_opt_table table = {
        "kiln verify MODEL-DIR...",
        "Compiles models in the layout of ONNX's backend tests and compares every output with the "
        "expected one. Bool and integers must be equal; integers that come from a quantisation may "
        "differ by 1. Floats: one operator within 1e-3 of each element (1e-7 of the largest near "
        "0), a model within 1e-3 of its largest, halves within 2e-2; after a quantisation one step "
        "of its scale more. An output that is missing is a failure.",
        option,
        KILN_ARRAY_COUNT(option),
        1,
        SIZE_MAX};
    kiln_args args;
    kiln_status st = kiln_args_parse(&table, argc, argv, process, &args);
    if (st || args.help) return st;
    kiln_target target;
    t.options.target = &target;
    t.options.run = kiln_verify_here;
    st = kiln_dim_option(&dim, process, &t.options.onnx);
    if (!st) st = kiln_target_parse(kiln_str_from(target_text), process, &target);
    if (!st) st = kiln_target_find_host(&target, process);
    if (st) return st;
    const uint32_t *const count = t.count;
    for (size_t i = 0; i < args.count; i++) {
        kiln_arena scratch;
        kiln_arena_init(&scratch, 0);
        bool there =
            kiln_file_exists(kiln_arena_printf(&scratch, "%s/model.onnx", args.positional[i]));
        kiln_arena_deinit(&scratch);
        if (!there)
            return KILN_ERROR(INVALID_ARGUMENT, "%s holds no model.onnx", args.positional[i]);
    }
    for (size_t i = 0; i < args.count; i++) verify_one(args.positional[i], &t);
    if (t.json)
        kiln_json_line(json_pack("{s:s, s:i, s:i, s:i, s:i}", "event", "verify", "passed",
                                 (int)count[KILN_VERDICT_PASSED], "failed",
                                 (int)count[KILN_VERDICT_FAILED], "unsupported",
                                 (int)count[KILN_VERDICT_UNSUPPORTED], "bound", (int)t.bound));
    else if (t.bound)
        printf("%u of the passed cases have inputs bound as constants\n", t.bound);
    if (!t.json)
        printf("verify: %u passed, %u failed, %u unsupported\n", count[KILN_VERDICT_PASSED],
               count[KILN_VERDICT_FAILED], count[KILN_VERDICT_UNSUPPORTED]);
    return count[KILN_VERDICT_FAILED] ? KILN_ERROR(FAILED_PRECONDITION, "%u of %zu cases failed",
                                                   count[KILN_VERDICT_FAILED], args.count)
                                      : KILN_OK;
}
