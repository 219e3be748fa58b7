#include "base/opt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/file.h"
#include "base/text.h"

#define HELP_COLUMN 26
#define SUGGESTION_DISTANCE_MAX 3
#define NAME_MAX_BYTES 64

const char *kiln_env(const char *name) {
    const char *value = getenv(name);
    return value && value[0] ? value : NULL;
}

kiln_status kiln_home(kiln_arena *arena, char **out_path) {
    const char *named = kiln_env("KILN_HOME"), *user_home = kiln_env("HOME");
    if (!named && !user_home)
        return KILN_ERROR(FAILED_PRECONDITION, "neither KILN_HOME nor HOME is set");
    char *path = named ? kiln_str_dup(arena, kiln_str_from(named))
                       : kiln_arena_printf(arena, "%s/.local/state/kiln", user_home);
    kiln_status st = kiln_folder_create(path, 0700);
    if (st) return kiln_status_note(st, "preparing Kiln's folder (KILN_HOME)");
    *out_path = path;
    return KILN_OK;
}

/* "output|o": whether `name` is one of the spellings. */
static bool is_spelled(const kiln_opt *option, kiln_str name) {
    kiln_str rest = kiln_str_from(option->name);
    while (rest.size && *rest.data != '$')
        if (kiln_str_equal(kiln_str_cut(&rest, '|'), name)) return true;
    return false;
}

const kiln_opt *kiln_opt_find(const kiln_opt_table *table, kiln_str name) {
    for (size_t i = 0; i < table->option_count; i++)
        if (is_spelled(&table->option[i], name)) return &table->option[i];
    return NULL;
}

kiln_str kiln_opt_name(const kiln_opt *option) {
    kiln_str rest = kiln_str_from(option->name);
    return kiln_str_cut(&rest, '|');
}

const char *kiln_opt_variable(const kiln_opt *option, kiln_arena *arena, const char **out_value) {
    kiln_str rest = kiln_str_from(option->name);
    while (rest.size) {
        const kiln_str spelling = kiln_str_cut(&rest, '|');
        if (*spelling.data != '$') continue;
        const char *variable = kiln_str_dup(arena, kiln_str_slice(spelling, 1, spelling.size));
        *out_value = kiln_env(variable);
        return variable;
    }
    return NULL;
}

/* Levenshtein distance of two short names. */
static size_t distance_of(kiln_str a, kiln_str b) {
    size_t row[NAME_MAX_BYTES + 1];
    if (a.size > NAME_MAX_BYTES || b.size > NAME_MAX_BYTES) return NAME_MAX_BYTES;
    for (size_t j = 0; j <= b.size; j++) row[j] = j;
    for (size_t i = 1; i <= a.size; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b.size; j++) {
            size_t replaced = diagonal + (a.data[i - 1] != b.data[j - 1]);
            diagonal = row[j];
            row[j] = KILN_MIN(replaced, KILN_MIN(row[j], row[j - 1]) + 1);
        }
    }
    return row[b.size];
}

kiln_nearest kiln_nearest_to(kiln_str typed) {
    return (kiln_nearest){.typed = typed, .distance = SUGGESTION_DISTANCE_MAX + 1};
}

void kiln_nearest_try(kiln_nearest *nearest, kiln_str name) {
    const size_t distance = distance_of(nearest->typed, name);
    /* A name that shares no character with what was typed is no suggestion. */
    if (distance >= nearest->distance || distance >= nearest->typed.size) return;
    nearest->distance = distance;
    nearest->found = name;
}

static kiln_status unknown_option(const kiln_opt_table *table, kiln_str name) {
    kiln_nearest nearest = kiln_nearest_to(name);
    for (size_t i = 0; i < table->option_count; i++)
        kiln_nearest_try(&nearest, kiln_opt_name(&table->option[i]));
    if (nearest.found.size)
        return KILN_ERROR(INVALID_ARGUMENT, "unknown option --%.*s; did you mean --%.*s?",
                          KILN_STR_ARG(name), KILN_STR_ARG(nearest.found));
    return KILN_ERROR(INVALID_ARGUMENT, "unknown option --%.*s; --help lists the options",
                      KILN_STR_ARG(name));
}

static kiln_status set_flag(bool *flag, kiln_str name, const char *text) {
    static const char *const word[] = {"no", "yes", "false", "true", "off", "on"};
    if (!text) {
        *flag = true;
        return KILN_OK;
    }
    for (size_t i = 0; i < KILN_ARRAY_COUNT(word); i++) {
        if (strcmp(text, word[i]) != 0) continue;
        *flag = i % 2 == 1;
        return KILN_OK;
    }
    return KILN_ERROR(INVALID_ARGUMENT, "--%.*s takes no value but yes or no, not '%s'",
                      KILN_STR_ARG(name), text);
}

static kiln_status set_line(const char **line, kiln_str name, const char *text) {
    char what[64];
    snprintf(what, sizeof what, "--%.*s", KILN_STR_ARG(name));
    kiln_status st = kiln_text_check_line(kiln_str_from(text), what);
    if (!st) *line = text;
    return st;
}

static kiln_status set_value(const kiln_opt *option, kiln_str name, const char *text,
                             kiln_arena *arena) {
    kiln_str value = kiln_str_from(text);
    switch (option->kind) {
    case KILN_OPT_FLAG: return set_flag(option->value, name, text);
    case KILN_OPT_TEXT: *(const char **)option->value = text; return KILN_OK;
    case KILN_OPT_LINE: return set_line(option->value, name, text);
    case KILN_OPT_COUNT:
        if (kiln_str_to_u64(value, option->value)) return KILN_OK;
        return KILN_ERROR(INVALID_ARGUMENT, "--%.*s wants a whole number, not '%s'",
                          KILN_STR_ARG(name), text);
    case KILN_OPT_NUMBER:
        if (kiln_str_to_f64(value, option->value)) return KILN_OK;
        return KILN_ERROR(INVALID_ARGUMENT, "--%.*s wants a number, not '%s'", KILN_STR_ARG(name),
                          text);
    case KILN_OPT_LIST: {
        kiln_opt_list *list = option->value;
        const char **grown = KILN_ARENA_ARRAY(arena, const char *, list->count + 1);
        if (list->count) memcpy(grown, list->item, list->count * sizeof *grown);
        grown[list->count++] = text;
        list->item = grown;
        return KILN_OK;
    }
    }
    return KILN_ERROR(INTERNAL, "option --%s has no kind", option->name);
}

static kiln_status check_value(const kiln_opt *option, kiln_str name, bool has_value) {
    if (option->kind == KILN_OPT_FLAG || has_value) return KILN_OK;
    return KILN_ERROR(INVALID_ARGUMENT, "--%.*s wants a value %s", KILN_STR_ARG(name),
                      option->metavar ? option->metavar : "");
}

kiln_status kiln_opt_set(const kiln_opt_table *table, const kiln_opt_given *given,
                         kiln_arena *arena) {
    const kiln_str name = kiln_str_from(given->name);
    const kiln_opt *option = kiln_opt_find(table, name);
    if (!option) return unknown_option(table, name);
    kiln_status st = check_value(option, name, given->value != NULL);
    return st ? st : set_value(option, name, given->value, arena);
}

/* Splits the option at argv[*at] and its value; moves *at onto its last word. */
static kiln_status split_option(const kiln_opt_table *table, int argc, char **argv, int *at,
                                kiln_arena *arena, kiln_opt_given *out) {
    kiln_str word = kiln_str_from(argv[*at]);
    kiln_str rest = kiln_str_slice(word, kiln_str_starts(word, "--") ? 2 : 1, word.size);
    const bool is_joined = kiln_str_find_char(rest, '=') < rest.size; /* --name=value */
    kiln_str name = kiln_str_cut(&rest, '=');
    const kiln_opt *option = kiln_opt_find(table, name);
    if (!option) return unknown_option(table, name);
    const bool is_next = !is_joined && option->kind != KILN_OPT_FLAG; /* --name value */
    kiln_status st = check_value(option, name, is_joined || (is_next && *at + 1 < argc));
    if (st) return st;
    out->name = kiln_str_dup(arena, name);
    out->value = is_joined ? rest.data : is_next ? argv[++*at] : NULL;
    return KILN_OK;
}

static bool looks_like_option(const char *word) { return word[0] == '-' && word[1] != '\0'; }

static bool is_help(const char *word) {
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

kiln_status kiln_opt_split(const kiln_opt_table *table, int argc, char **argv, kiln_arena *arena,
                           kiln_args *out) {
    KILN_VEC(const char *) positional = {0};
    *out = (kiln_args){0};
    bool options_ended = false;
    for (int at = 1; at < argc && !out->help; at++) {
        if (options_ended || !looks_like_option(argv[at])) {
            kiln_vec_push_in(arena, &positional, argv[at]);
        } else if (strcmp(argv[at], "--") == 0) {
            options_ended = true;
        } else if (is_help(argv[at])) {
            out->help = true;
        } else {
            kiln_opt_given given = {0};
            kiln_status st = split_option(table, argc, argv, &at, arena, &given);
            if (st) return st;
            kiln_vec_push_in(arena, &out->given, given);
        }
    }
    out->positional = positional.data;
    out->count = positional.count;
    return KILN_OK;
}

kiln_status kiln_opt_check_count(const kiln_opt_table *table, const kiln_args *args) {
    if (args->count < table->positional_min)
        return KILN_ERROR(INVALID_ARGUMENT, "something is missing; usage: %s", table->usage);
    if (args->count > table->positional_max)
        return KILN_ERROR(INVALID_ARGUMENT, "unexpected argument '%s'; usage: %s",
                          args->positional[table->positional_max], table->usage);
    return KILN_OK;
}

kiln_status kiln_opt_parse(const kiln_opt_table *table, int argc, char **argv, kiln_arena *arena,
                           kiln_args *out) {
    kiln_status st = kiln_opt_split(table, argc, argv, arena, out);
    if (st || out->help) return st;
    for (uint32_t i = 0; !st && i < out->given.count; i++)
        st = kiln_opt_set(table, &out->given.data[i], arena);
    return st ? st : kiln_opt_check_count(table, out);
}

static void print_option(const char *name, const char *metavar, const char *help,
                         kiln_strbuf *out) {
    size_t begin = out->size;
    kiln_strbuf_text(out, "  ");
    kiln_str rest = kiln_str_from(name);
    for (bool first = true; rest.size && *rest.data != '$'; first = false) {
        kiln_str spelling = kiln_str_cut(&rest, '|');
        kiln_strbuf_printf(out, "%s%s%.*s", first ? "" : ", ", spelling.size == 1 ? "-" : "--",
                           KILN_STR_ARG(spelling));
    }
    if (metavar) kiln_strbuf_printf(out, " %s", metavar);
    if (out->size - begin >= HELP_COLUMN) {
        kiln_strbuf_char(out, '\n');
        begin = out->size;
    }
    while (out->size - begin < HELP_COLUMN) kiln_strbuf_char(out, ' ');
    kiln_strbuf_printf(out, "%s\n", help);
}

void kiln_opt_print_help(const kiln_opt_table *table, kiln_strbuf *out) {
    kiln_strbuf_printf(out, "usage: %s\n\n%s\n\noptions:\n", table->usage, table->summary);
    for (size_t i = 0; i < table->option_count; i++)
        print_option(table->option[i].name, table->option[i].metavar, table->option[i].help, out);
    print_option("help|h", NULL, "Prints this and ends.", out);
}
