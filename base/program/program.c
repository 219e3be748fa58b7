#include "base/program/program.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/program/config.h"
#include "base/version.h"

/* Options of every program. */
typedef struct common {
    const char *config, *show_config, *log_level;
    bool quiet, verbose, version;
} common;

enum { COMMON_OPTIONS = 6 };

typedef struct parsing {
    const kiln_executable *program;
    kiln_opt_table table; /* with the common options */
    size_t own_count;     /* of its options, without them */
    kiln_arena *process;
    kiln_value_list values;
    kiln_source *source; /* of each option's value */
    const char **place;
} parsing;

/* An option of its own takes the place of the common one of that name. */
static void add_common(parsing *p, const kiln_opt_table *own, common *c) {
    const kiln_opt option[COMMON_OPTIONS] = {
        {"config|$KILN_CONFIG", KILN_OPT_TEXT, &c->config, "FILE",
         "read values of options from this file alone; none: from no file (default: "
         "/etc/kiln/config, then ~/.config/kiln/config)"},
        {"show-config", KILN_OPT_TEXT, &c->show_config, "all|own",
         "print which values come from files or the environment, and end; own: without those of "
         "section [kiln], which are for all commands"},
        {"log-level", KILN_OPT_TEXT, &c->log_level, "LEVEL",
         "what is logged to standard error: error, warn, info or debug (default: info of daemons, "
         "error of kiln)"},
        {"quiet|q", KILN_OPT_FLAG, &c->quiet, NULL, "the same as --log-level error"},
        {"verbose|v", KILN_OPT_FLAG, &c->verbose, NULL, "the same as --log-level debug"},
        {"version|V", KILN_OPT_FLAG, &c->version, NULL, "print the version and end"},
    };
    kiln_opt *all = KILN_ARENA_ARRAY(p->process, kiln_opt, own->option_count + COMMON_OPTIONS);
    p->table = *own;
    p->own_count = own->option_count;
    if (own->option_count) memcpy(all, own->option, own->option_count * sizeof *all);
    for (size_t i = 0; i < COMMON_OPTIONS; i++)
        if (!kiln_opt_find(own, kiln_opt_name(&option[i])))
            all[p->table.option_count++] = option[i];
    p->table.option = all;
    p->source = KILN_ARENA_ARRAY(p->process, kiln_source, p->table.option_count);
    p->place = KILN_ARENA_ARRAY(p->process, const char *, p->table.option_count);
    memset(p->source, 0, p->table.option_count * sizeof *p->source);
}

static void add_environment(parsing *p) {
    for (size_t i = 0; i < p->table.option_count; i++) {
        const kiln_opt *option = &p->table.option[i];
        const char *text = NULL, *variable = kiln_opt_variable(option, p->process, &text);
        if (!text) continue;
        const kiln_value value = {.given = {kiln_str_dup(p->process, kiln_opt_name(option)), text},
                                  .source = KILN_SOURCE_ENVIRONMENT,
                                  .place = kiln_arena_printf(p->process, "$%s", variable)};
        kiln_vec_push_in(p->process, &p->values, value);
    }
}

/* The value of --config, which says where others come from. */
static const char *find_config(const kiln_args *args) {
    const char *path = NULL;
    for (uint32_t i = 0; i < args->given.count; i++)
        if (strcmp(args->given.data[i].name, "config") == 0) path = args->given.data[i].value;
    return path ? path : kiln_env("KILN_CONFIG");
}

static kiln_status collect(parsing *p, const kiln_args *args) {
    kiln_config_file file[KILN_CONFIG_FILES_MAX];
    const uint32_t count = kiln_config_files(find_config(args), p->process, file);
    for (uint32_t i = 0; i < count; i++) {
        kiln_status st = kiln_config_read(&file[i], p->program, &p->table, p->process, &p->values);
        if (st) return st;
    }
    add_environment(p);
    for (uint32_t i = 0; i < args->given.count; i++) {
        const kiln_value value = {.given = args->given.data[i], .source = KILN_SOURCE_COMMAND_LINE};
        kiln_vec_push_in(p->process, &p->values, value);
    }
    return KILN_OK;
}

static size_t index_of(const parsing *p, const kiln_value *value) {
    return (size_t)(kiln_opt_find(&p->table, kiln_str_from(value->given.name)) - p->table.option);
}

/* Weaker values are set, too, so that a wrong one is an error wherever it stands. Of a list those
 * of the strongest source count. */
static kiln_status set(parsing *p, const kiln_value *value) {
    const size_t i = index_of(p, value);
    const kiln_opt *option = &p->table.option[i];
    if (option->kind == KILN_OPT_LIST && p->source[i] != value->source)
        ((kiln_opt_list *)option->value)->count = 0;
    p->source[i] = value->source;
    p->place[i] = value->place;
    kiln_status st = kiln_opt_set(&p->table, &value->given, p->process);
    return st && value->place ? kiln_status_note(st, "%s", value->place) : st;
}

static kiln_status set_all(parsing *p) {
    kiln_status st = KILN_OK;
    for (unsigned source = 0; source < KILN_SOURCE_COUNT; source++)
        for (uint32_t i = 0; !st && i < p->values.count; i++)
            if (p->values.data[i].source == source) st = set(p, &p->values.data[i]);
    return st;
}

/* Those that count, without the common ones. */
static void list_given(const parsing *p, kiln_args *out) {
    out->given = (kiln_opt_given_list){0};
    out->place = KILN_ARENA_ARRAY(p->process, const char *, p->values.count + 1);
    for (uint32_t i = 0; i < p->values.count; i++) {
        const kiln_value *value = &p->values.data[i];
        const size_t at = index_of(p, value);
        if (at >= p->own_count || value->source != p->source[at]) continue;
        out->place[out->given.count] = value->place;
        kiln_vec_push_in(p->process, &out->given, value->given);
    }
}

/* Where the value of the option comes from whose place is `value`. */
static kiln_source source_of(const parsing *p, const void *value) {
    for (size_t i = p->own_count; i < p->table.option_count; i++)
        if (p->table.option[i].value == value) return p->source[i];
    return KILN_SOURCE_DEFAULT;
}

/* The strongest source decides; in one, the short words. */
static kiln_status set_log_level(const parsing *p, const common *c) {
    kiln_source strongest = source_of(p, &c->log_level);
    kiln_log_level level = p->program->level;
    if (c->log_level && !kiln_log_level_find(c->log_level, &level))
        return KILN_ERROR(INVALID_ARGUMENT, "--log-level is error, warn, info or debug, not '%s'",
                          c->log_level);
    const struct {
        bool given;
        kiln_source source;
        kiln_log_level level;
    } word[] = {{c->quiet, source_of(p, &c->quiet), KILN_LOG_ERROR},
                {c->verbose, source_of(p, &c->verbose), KILN_LOG_DEBUG}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(word); i++) {
        if (!word[i].given || word[i].source < strongest) continue;
        strongest = word[i].source;
        level = word[i].level;
    }
    kiln_log_init(p->program->name, level);
    return KILN_OK;
}

/* ---- What is printed ---- */

void kiln_executable_print_version(const kiln_executable *program) {
    printf("%s %s", program->name, kiln_version_text);
    if (program->protocol_max)
        printf(", protocol %u to %u", program->protocol_min, program->protocol_max);
    if (program->codegen) printf(", codegen %s", program->codegen);
    putchar('\n');
}

static void print_help(const kiln_opt_table *table) {
    kiln_strbuf text = {0};
    kiln_opt_print_help(table, &text);
    fputs(text.data, stdout);
    kiln_strbuf_deinit(&text);
}

/* Whether it is meant for all commands. */
static bool is_shared(const parsing *p, const kiln_value *value) {
    const char *name = p->table.option[index_of(p, value)].name;
    bool is_in_list = false;
    for (size_t i = 0; p->program->shared && p->program->shared[i]; i++)
        is_in_list |= strcmp(p->program->shared[i], name) == 0;
    return value->source == KILN_SOURCE_MACHINE_ALL || value->source == KILN_SOURCE_USER_ALL ||
           (value->source == KILN_SOURCE_ENVIRONMENT && is_in_list);
}

/* A section as a file could have it, with the places as comments. */
static void print_section(const parsing *p, const char *section, bool shared) {
    bool has_head = false;
    for (uint32_t i = 0; i < p->values.count; i++) {
        const kiln_value *value = &p->values.data[i];
        if (!value->place || value->source != p->source[index_of(p, value)] ||
            is_shared(p, value) != shared || strcmp(value->given.name, "config") == 0)
            continue;
        if (!has_head) printf("[%s]\n", section);
        has_head = true;
        const char *text =
            kiln_arena_printf(p->process, "%s = %s", value->given.name, value->given.value);
        printf("%-40s ; %s\n", text, value->place);
    }
}

static kiln_status print_config(const parsing *p, const char *which) {
    const kiln_executable *program = p->program;
    const bool is_all = strcmp(which, "all") == 0;
    if (!is_all && strcmp(which, "own") != 0)
        return KILN_ERROR(INVALID_ARGUMENT, "--show-config is all or own, not '%s'", which);
    if (is_all) print_section(p, program->name, true);
    print_section(p, kiln_executable_section(program, p->process), false);
    return KILN_OK;
}

kiln_status kiln_command_line_parse(const kiln_executable *program, const kiln_opt_table *table,
                                    int argc, char **argv, kiln_arena *process, kiln_args *out) {
    common c = {0};
    parsing p = {.program = program, .process = process};
    add_common(&p, table, &c);
    kiln_status st = kiln_opt_split(&p.table, argc, argv, process, out);
    if (st) return st;
    if (out->help) {
        print_help(&p.table);
        return KILN_OK;
    }
    st = collect(&p, out);
    if (!st) st = set_all(&p);
    if (!st) st = set_log_level(&p, &c);
    out->help = c.version || c.show_config;
    if (!st && c.version)
        kiln_executable_print_version(program);
    else if (!st && c.show_config)
        st = print_config(&p, c.show_config);
    else if (!st)
        st = kiln_opt_check_count(&p.table, out);
    list_given(&p, out);
    return st;
}

kiln_status kiln_command_line_blame(const kiln_args *args, kiln_status st, kiln_arena *process) {
    if (kiln_status_code(st) != KILN_INVALID_ARGUMENT) return st;
    for (uint32_t i = 0; i < args->given.count; i++) {
        const char *option = kiln_arena_printf(process, "--%s", args->given.data[i].name);
        const char *found = strstr(kiln_status_text(st), option);
        if (!args->place[i] || !found) continue;
        const char next = found[strlen(option)];
        if (next != '-' && !isalnum((unsigned char)next))
            return kiln_status_note(st, "%s", args->place[i]);
    }
    return st;
}
