#include "base/program/config.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/program/config_text.h"

#define MACHINE_FILE "/etc/kiln/config"
#define FILE_BYTES_MAX ((size_t)1 << 20)

static const char *const programs[] = {
#define X(name) name,
#include "base/programs.def"
#undef X
};

/* What says where values come from, or is meant for one start, has no place in a file. */
static const char *const line_only[] = {"config", "show-config", "version", "with-parent"};

uint32_t kiln_config_files(const char *named, kiln_arena *arena,
                           kiln_config_file out_file[KILN_CONFIG_FILES_MAX]) {
    uint32_t count = 0;
    const char *folder = kiln_env("XDG_CONFIG_HOME"), *user_home = kiln_env("HOME");
    if (named && strcmp(named, KILN_CONFIG_NONE) == 0) return 0;
    if (named) {
        out_file[count++] = (kiln_config_file){named, KILN_SOURCE_USER, true};
        return count;
    }
    out_file[count++] = (kiln_config_file){MACHINE_FILE, KILN_SOURCE_MACHINE, false};
    const char *path = folder      ? kiln_arena_printf(arena, "%s/kiln/config", folder)
                       : user_home ? kiln_arena_printf(arena, "%s/.config/kiln/config", user_home)
                                   : NULL;
    if (path) out_file[count++] = (kiln_config_file){path, KILN_SOURCE_USER, false};
    return count;
}

const char *kiln_executable_section(const kiln_executable *program, kiln_arena *arena) {
    return program->command ? kiln_arena_printf(arena, "%s %s", program->name, program->command)
                            : program->name;
}

typedef struct reading {
    const kiln_config_file *file;
    const kiln_executable *program;
    const kiln_opt_table *table;
    const char *own; /* section of the program, or of its command */
    kiln_arena *arena;
    kiln_value_list *values;
} reading;

static bool is_one_of(const char *name, const char *const *list, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(name, list[i]) == 0) return true;
    return false;
}

static size_t count_of(const char *const *list) {
    size_t count = 0;
    while (list && list[count]) count++;
    return count;
}

/* Sections of others: those of programs, and of this program's commands. Which commands another
 * program has is not known here. */
static kiln_status check_other_section(const reading *r, const char *section) {
    const size_t command_count = count_of(r->program->commands);
    kiln_str rest = kiln_str_from(section);
    kiln_nearest nearest = kiln_nearest_to(rest);
    const kiln_str head = kiln_str_cut(&rest, ' ');
    if (is_one_of(section, programs, KILN_ARRAY_COUNT(programs))) return KILN_OK;
    const bool is_command = rest.size && kiln_str_is(head, r->program->name);
    if (rest.size && kiln_str_is(head, programs[0]) && !is_command) return KILN_OK;
    if (is_command && is_one_of(rest.data, r->program->commands, command_count)) return KILN_OK;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(programs); i++)
        kiln_nearest_try(&nearest, kiln_str_from(programs[i]));
    for (size_t i = 0; i < command_count; i++)
        kiln_nearest_try(&nearest, kiln_str_printf(r->arena, "%s %s", r->program->name,
                                                   r->program->commands[i]));
    if (nearest.found.size)
        return KILN_ERROR(INVALID_ARGUMENT, "there is no section [%s]; did you mean [%.*s]?",
                          section, KILN_STR_ARG(nearest.found));
    return KILN_ERROR(INVALID_ARGUMENT,
                      "there is no section [%s]: sections are named after "
                      "programs and commands, as [kiln-tracker] and [kiln tune]",
                      section);
}

/* "tracker" of "tracker|$KILN_TRACKER" */
static kiln_str first_name(const char *names) {
    const kiln_opt option = {.name = names};
    return kiln_opt_name(&option);
}

/* The row of an option that the section of all commands may set, or NULL. */
static const char *find_shared(const kiln_executable *program, const char *name) {
    for (size_t i = 0; program->shared[i]; i++)
        if (kiln_str_is(first_name(program->shared[i]), name)) return program->shared[i];
    return NULL;
}

static kiln_status unknown_shared(const reading *r, const char *name) {
    kiln_strbuf known = {0};
    for (size_t i = 0; r->program->shared[i]; i++)
        kiln_strbuf_printf(&known, "%s%.*s", i ? ", " : "",
                           KILN_STR_ARG(first_name(r->program->shared[i])));
    kiln_status st =
        KILN_ERROR(INVALID_ARGUMENT,
                   "[%s] is for options of several commands (%s); '%s' goes into the "
                   "section of a command, as [%s %s]",
                   r->program->name, known.data, name, r->program->name, r->program->command);
    kiln_strbuf_deinit(&known);
    return st;
}

/* An option that is no list is set once in a section. */
static kiln_status check_new(const reading *r, const kiln_opt *option, const kiln_value *value) {
    for (uint32_t i = 0; i < r->values->count; i++) {
        const kiln_value *other = &r->values->data[i];
        if (other->source != value->source || option->kind == KILN_OPT_LIST ||
            kiln_opt_find(r->table, kiln_str_from(other->given.name)) != option)
            continue;
        return KILN_ERROR(INVALID_ARGUMENT, "'%s' is set already, at %s", value->given.name,
                          other->place);
    }
    return KILN_OK;
}

static kiln_status take(void *context, const char *section, const char *name, const char *text,
                        uint32_t line) {
    const reading *r = context;
    const bool is_own = strcmp(section, r->own) == 0;
    const bool is_shared = !is_own && strcmp(section, r->program->name) == 0;
    if (!*section) return KILN_ERROR(INVALID_ARGUMENT, "'%s' stands before any [section]", name);
    if (!is_own && !is_shared) return check_other_section(r, section);
    if (is_one_of(name, line_only, KILN_ARRAY_COUNT(line_only)))
        return KILN_ERROR(INVALID_ARGUMENT, "--%s is for command lines alone", name);
    const char *shared = is_shared ? find_shared(r->program, name) : NULL;
    if (is_shared && !shared) return unknown_shared(r, name);
    const kiln_value value = {
        .given = {kiln_str_dup(r->arena, kiln_str_from(name)),
                  kiln_str_dup(r->arena, kiln_str_from(text))},
        .source = is_own ? r->file->source : r->file->source - 1,
        .place = kiln_arena_printf(r->arena, "%s:%u", r->file->path, line),
    };
    const kiln_opt *option = kiln_opt_find(r->table, kiln_str_from(name));
    if (is_shared && (!option || strcmp(option->name, shared) != 0))
        return KILN_OK; /* this command has nothing of the kind */
    kiln_status st = option ? check_new(r, option, &value)
                            : kiln_opt_set(r->table, &value.given, r->arena); /* says which */
    if (!st) kiln_vec_push_in(r->arena, r->values, value);
    return st;
}

/* Whoever can write the file chooses commands that the program runs. */
static kiln_status check_owner(const struct stat *info) {
    if (info->st_uid != 0 && info->st_uid != geteuid())
        return KILN_ERROR(PERMISSION_DENIED, "it belongs to user %u, neither to root nor to you",
                          (unsigned)info->st_uid);
    if (info->st_mode & S_IWOTH)
        return KILN_ERROR(PERMISSION_DENIED, "everybody may write it: chmod o-w");
    return KILN_OK;
}

kiln_status kiln_config_read(const kiln_config_file *file, const kiln_executable *program,
                             const kiln_opt_table *table, kiln_arena *arena,
                             kiln_value_list *values) {
    struct stat info;
    kiln_str text = {0};
    const bool is_there = stat(file->path, &info) == 0;
    if (!is_there && !file->is_named) return KILN_OK;
    reading r = {.file = file,
                 .program = program,
                 .table = table,
                 .own = kiln_executable_section(program, arena),
                 .arena = arena,
                 .values = values};
    kiln_status st = is_there ? check_owner(&info) : KILN_OK;
    if (st) return kiln_status_note(st, "%s", file->path);
    st = kiln_file_read(file->path, FILE_BYTES_MAX, arena, &text); /* its errors name the path */
    if (st) return kiln_status_note(st, "reading a configuration file");
    return kiln_config_text_parse(file->path, text, take, &r);
}
