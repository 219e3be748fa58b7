/* kiln config: which configuration files there are, and what of them and of the environment counts
 * for which program. Each program says that itself (--show-config). */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/proc.h"
#include "base/program/config.h"
#include "cli/cli.h"
#include "cli/vta_search.h"

#define OUTPUT_MAX ((size_t)1 << 20)

static const char *const daemons[] = {
#define X(name) name,
#include "base/programs.def"
#undef X
};

typedef struct config_call {
    kiln_arena *process;
    const char *config; /* as the option of that name */
    const char *only;   /* program or command; NULL: all */
    bool is_found;      /* `only` */
} config_call;

static bool is_wanted(config_call *c, const char *name) {
    const bool wanted = !c->only || strcmp(c->only, name) == 0;
    c->is_found |= wanted;
    return wanted;
}

/* "NAME --show-config all --config FILE" */
static int command_line(const config_call *c, const char *name, const char *out_argv[6]) {
    const char *argv[] = {
        name, "--show-config", c->only ? "all" : "own", c->config ? "--config" : NULL, c->config,
        NULL};
    memcpy(out_argv, argv, sizeof argv);
    return c->config ? 5 : 3;
}

/* What section [kiln] says for all commands. */
static kiln_status show_shared(const config_call *c) {
    kiln_opt_list ignored = {0}; /* larger than any option's place */
    const kiln_opt option[] = {
#define X(name, kind) {name, KILN_OPT_##kind, &ignored, "VALUE", ""},
#include "cli/shared_options.def"
#undef X
    };
    const kiln_opt_table table = {"", "", option, KILN_ARRAY_COUNT(option), 0, 0};
    const char *argv[6];
    kiln_args args;
    const int argc = command_line(c, "config", argv);
    argv[2] = "all";
    return kiln_args_parse(&table, argc, (char **)(uintptr_t)argv, c->process, &args);
}

static kiln_status show_command(config_call *c, const char *name, kiln_command run) {
    const char *argv[6];
    const int argc = command_line(c, name, argv);
    return is_wanted(c, name) ? run(c->process, argc, (char **)(uintptr_t)argv) : KILN_OK;
}

static kiln_status show_program(config_call *c, const char *name) {
    char *path = NULL;
    const char *argv[6];
    kiln_proc_result result = {0};
    if (!is_wanted(c, name)) return KILN_OK;
    kiln_status st = kiln_proc_sibling(name, c->process, &path);
    if (kiln_status_code(st) == KILN_NOT_FOUND) { /* it is not installed here */
        kiln_status_free(st);
        return KILN_OK;
    }
    if (st) return st;
    command_line(c, path, argv);
    st = kiln_proc_run(&(kiln_proc_options){.argv = argv, .output_max = OUTPUT_MAX}, c->process,
                       &result);
    if (!st && result.exit_code != 0)
        st = KILN_ERROR(INVALID_ARGUMENT, "%.*s", KILN_STR_ARG(kiln_str_trim(result.err)));
    if (!st) printf("%.*s", KILN_STR_ARG(result.out));
    return st;
}

static void show_files(const config_call *c) {
    kiln_config_file file[KILN_CONFIG_FILES_MAX];
    const uint32_t count = kiln_config_files(c->config, c->process, file);
    for (uint32_t i = 0; i < count; i++)
        printf("; %s%s\n", file[i].path, kiln_file_exists(file[i].path) ? "" : " (there is none)");
    if (count == 0) puts("; no file is read");
}

static kiln_status show(config_call *c) {
    kiln_status st = KILN_OK;
    show_files(c);
    if (!c->only) st = show_shared(c);
#define X(name, function, doc) \
    if (!st && function != kiln_cmd_config) st = show_command(c, name, function);
#include "cli/commands.def"
#undef X
    if (!st) st = show_command(c, KILN_VTA_SEARCH, kiln_vta_search_command);
    for (size_t i = 0; !st && i < KILN_ARRAY_COUNT(daemons); i++)
        if (strcmp(daemons[i], "kiln") != 0) st = show_program(c, daemons[i]);
    if (!st && !c->is_found)
        st = KILN_ERROR(INVALID_ARGUMENT, "there is no program and no command '%s'", c->only);
    return st;
}

kiln_status kiln_cmd_config(kiln_arena *process, int argc, char **argv) {
    config_call c = {.process = process};
    const kiln_opt option[] = {
        {"config|$KILN_CONFIG", KILN_OPT_TEXT, &c.config, "FILE",
         "read only this file; none: no file (default: /etc/kiln/config, then "
         "~/.config/kiln/config)"},
    };
    const kiln_opt_table table = {
        "kiln config [show] [PROGRAM|COMMAND] [options]",
        "Shows which configuration files exist, and which values of options come from them or from "
        "the environment, for all programs and commands or for one. Options that are not printed "
        "have the default of --help (docs/reference/command-line.md).",
        option,
        KILN_ARRAY_COUNT(option),
        0,
        2};
    kiln_args args;
    kiln_status st = kiln_args_parse(&table, argc, argv, process, &args);
    if (st || args.help) return st;
    size_t at = args.count && strcmp(args.positional[0], "show") == 0 ? 1 : 0;
    if (args.count - at > 1)
        return KILN_ERROR(INVALID_ARGUMENT, "unexpected argument '%s'; usage: %s",
                          args.positional[at + 1], table.usage);
    c.only = args.count > at ? args.positional[at] : NULL;
    return show(&c);
}
