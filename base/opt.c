#include "base/opt.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/file.h"

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
    while (rest.size)
        if (kiln_str_equal(kiln_str_cut(&rest, '|'), name)) return true;
    return false;
}

static const kiln_opt *find_option(const kiln_opt_table *table, kiln_str name) {
    for (size_t i = 0; i < table->option_count; i++)
        if (is_spelled(&table->option[i], name)) return &table->option[i];
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

static kiln_status unknown_option(const kiln_opt_table *table, kiln_str name) {
    size_t best = SUGGESTION_DISTANCE_MAX + 1;
    kiln_str nearest = {0};
    for (size_t i = 0; i < table->option_count; i++) {
        kiln_str rest = kiln_str_from(table->option[i].name);
        kiln_str spelling = kiln_str_cut(&rest, '|');
        size_t distance = distance_of(name, spelling);
        if (distance >= best) continue;
        best = distance;
        nearest = spelling;
    }
    if (nearest.size)
        return KILN_ERROR(INVALID_ARGUMENT, "unknown option --%.*s; did you mean --%.*s?",
                          KILN_STR_ARG(name), KILN_STR_ARG(nearest));
    return KILN_ERROR(INVALID_ARGUMENT, "unknown option --%.*s; --help lists the options",
                      KILN_STR_ARG(name));
}

static kiln_status set_value(const kiln_opt *option, kiln_str name, const char *text,
                             kiln_arena *arena) {
    kiln_str value = kiln_str_from(text);
    switch (option->kind) {
    case KILN_OPT_FLAG: *(bool *)option->value = true; return KILN_OK;
    case KILN_OPT_TEXT: *(const char **)option->value = text; return KILN_OK;
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
    const bool is_flag = option->kind == KILN_OPT_FLAG;
    if (is_flag && has_value)
        return KILN_ERROR(INVALID_ARGUMENT, "--%.*s takes no value", KILN_STR_ARG(name));
    if (!is_flag && !has_value)
        return KILN_ERROR(INVALID_ARGUMENT, "--%.*s wants a value %s", KILN_STR_ARG(name),
                          option->metavar ? option->metavar : "");
    return KILN_OK;
}

kiln_status kiln_opt_set(const kiln_opt_table *table, const kiln_opt_given *given,
                         kiln_arena *arena) {
    const kiln_str name = kiln_str_from(given->name);
    const kiln_opt *option = find_option(table, name);
    if (!option) return unknown_option(table, name);
    kiln_status st = check_value(option, name, given->value != NULL);
    return st ? st : set_value(option, name, given->value, arena);
}

/* The option that starts at argv[*at], and its value, NULL of a flag; moves *at onto the last word
 * it used. */
static kiln_status split_option(const kiln_opt_table *table, int argc, char **argv, int *at,
                                const kiln_opt **out_option, kiln_str *out_name,
                                const char **out_value) {
    kiln_str word = kiln_str_from(argv[*at]);
    kiln_str rest = kiln_str_slice(word, kiln_str_starts(word, "--") ? 2 : 1, word.size);
    const bool is_joined = kiln_str_find_char(rest, '=') < rest.size; /* --name=value */
    kiln_str name = kiln_str_cut(&rest, '=');
    const kiln_opt *option = find_option(table, name);
    if (!option) return unknown_option(table, name);
    const bool is_flag = option->kind == KILN_OPT_FLAG;
    kiln_status st = check_value(option, name, is_joined || (!is_flag && *at + 1 < argc));
    if (st) return st;
    *out_option = option;
    *out_name = name;
    *out_value = is_flag ? NULL : is_joined ? rest.data : argv[++*at];
    return KILN_OK;
}

static bool looks_like_option(const char *word) { return word[0] == '-' && word[1] != '\0'; }

kiln_status kiln_opt_parse(const kiln_opt_table *table, int argc, char **argv, kiln_arena *arena,
                           const char ***out_positional, size_t *out_count, bool *out_help) {
    KILN_VEC(const char *) positional = {0};
    bool options_ended = false;
    for (int at = 1; at < argc; at++) {
        if (!options_ended && strcmp(argv[at], "--") == 0) {
            options_ended = true;
        } else if (!options_ended &&
                   (strcmp(argv[at], "--help") == 0 || strcmp(argv[at], "-h") == 0)) {
            *out_help = true;
            return KILN_OK;
        } else if (!options_ended && looks_like_option(argv[at])) {
            const kiln_opt *option = NULL;
            const char *value = NULL;
            kiln_str name;
            kiln_status st = split_option(table, argc, argv, &at, &option, &name, &value);
            if (!st) st = set_value(option, name, value, arena);
            if (st) return st;
        } else {
            kiln_vec_push_in(arena, &positional, argv[at]);
        }
    }
    if (positional.count < table->positional_min)
        return KILN_ERROR(INVALID_ARGUMENT, "something is missing; usage: %s", table->usage);
    if (positional.count > table->positional_max)
        return KILN_ERROR(INVALID_ARGUMENT, "unexpected argument '%s'; usage: %s",
                          positional.data[table->positional_max], table->usage);
    *out_positional = positional.data;
    *out_count = positional.count;
    *out_help = false;
    return KILN_OK;
}

kiln_opt_given_list kiln_opt_list_given(const kiln_opt_table *table, int argc, char **argv,
                                        kiln_arena *arena) {
    kiln_opt_given_list list = {0};
    for (int at = 1; at < argc && strcmp(argv[at], "--") != 0; at++) {
        const kiln_opt *option = NULL;
        const char *value = NULL;
        kiln_str name;
        if (!looks_like_option(argv[at])) continue;
        kiln_status st = split_option(table, argc, argv, &at, &option, &name, &value);
        KILN_CHECK(!st); /* it was taken before */
        const kiln_opt_given given = {kiln_str_dup(arena, name), value};
        kiln_vec_push_in(arena, &list, given);
    }
    return list;
}

static void print_option(const char *name, const char *metavar, const char *help,
                         kiln_strbuf *out) {
    size_t begin = out->size;
    kiln_strbuf_text(out, "  ");
    kiln_str rest = kiln_str_from(name);
    for (bool first = true; rest.size; first = false) {
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
