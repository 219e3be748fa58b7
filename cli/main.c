#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/log.h"
#include "base/opt.h"
#include "cli/cli.h"
#include "cli/worker/serve.h"

typedef struct command_row {
    const char *name;
    kiln_command run;
    const char *doc;
} command_row;

static const command_row command_table[] = {
#define X(name, function, doc) {name, function, doc},
#include "cli/commands.def"
#undef X
};

static void print_help(FILE *out) {
    fputs("Kiln finds, for each kernel of a network and each kind of device you own,\n"
          "the program that runs fastest there.\n\nUsage: kiln COMMAND [options]; kiln help "
          "COMMAND tells more.\n\n",
          out);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(command_table); i++)
        fprintf(out, "  %-9s %s\n", command_table[i].name, command_table[i].doc);
    fputs("\nkiln help exit-codes lists what commands return to the shell.\n\n"
          "Start with:\n  kiln zoo conv:C2 -o c2.onnx\n  kiln tune c2.onnx --out c2.kiln\n"
          "  kiln run c2.kiln --bench\n",
          out);
}

static void print_exit_codes(void) {
    static const struct {
        const char *name, *meaning;
        int exit_code;
    } row[] = {
#define X(name, number, exit_code, meaning) {#name, meaning, exit_code},
#include "base/status.def"
#undef X
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++)
        printf("%3d  %-20s %s\n", row[i].exit_code, row[i].name, row[i].meaning);
}

static const command_row *find_command(const char *name) {
    for (size_t i = 0; i < KILN_ARRAY_COUNT(command_table); i++)
        if (strcmp(name, command_table[i].name) == 0) return &command_table[i];
    return NULL;
}

static kiln_status no_such_command(const char *name) {
    kiln_nearest nearest = kiln_nearest_to(kiln_str_from(name));
    for (size_t i = 0; i < KILN_ARRAY_COUNT(command_table); i++)
        kiln_nearest_try(&nearest, kiln_str_from(command_table[i].name));
    if (nearest.found.size)
        return KILN_ERROR(INVALID_ARGUMENT, "no such command; did you mean kiln %.*s?",
                          KILN_STR_ARG(nearest.found));
    return KILN_ERROR(INVALID_ARGUMENT, "no such command; kiln --help lists them");
}

/* `kiln help [COMMAND [ACTION]]` is `kiln COMMAND [ACTION] --help`. */
static kiln_status help(kiln_arena *process, int argc, char **argv) {
    static char help_option[] = "--help";
    char *words[] = {argc > 0 ? argv[0] : NULL, argc > 1 ? argv[1] : help_option, help_option};
    if (argc == 0) {
        print_help(stdout);
        return KILN_OK;
    }
    if (strcmp(argv[0], "exit-codes") == 0) {
        print_exit_codes();
        return KILN_OK;
    }
    const command_row *command = find_command(argv[0]);
    if (!command) return no_such_command(argv[0]);
    return command->run(process, argc > 1 ? 3 : 2, words);
}

/* Whether nobody reads standard output any more, as after `kiln db export | head -3`. */
static bool reader_is_gone(void) {
    struct pollfd output = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return poll(&output, 1, 0) == 1 && (output.revents & (POLLERR | POLLHUP));
}

/* The one place where output that could not be written counts. A full disk is an error. A reader
 * that has gone is none: then the program ends silently by SIGPIPE, as any that does not ignore
 * that signal. */
static kiln_status check_output(kiln_status st) {
    fflush(stdout);
    if (!ferror(stdout)) return st;
    kiln_status_free(st); /* what came of it is not seen anyway */
    if (reader_is_gone()) {
        signal(SIGPIPE, SIG_DFL);
        raise(SIGPIPE);
    }
    return KILN_ERROR(RESOURCE_EXHAUSTED, "standard output cannot be written");
}

static bool is_one_of(const char *word, const char *name, const char *option) {
    return strcmp(word, name) == 0 || strcmp(word, option) == 0;
}

static kiln_status run(kiln_arena *process, int argc, char **argv) {
    if (is_one_of(argv[1], "--help", "-h")) return help(process, 0, NULL);
    if (strcmp(argv[1], "help") == 0) return help(process, argc - 2, argv + 2);
    if (is_one_of(argv[1], "--version", "-V")) {
        kiln_print_version();
        return KILN_OK;
    }
    const command_row *command = find_command(argv[1]);
    if (!command) return no_such_command(argv[1]);
    kiln_status st = kiln_fail_arm(kiln_env("KILN_FAIL"));
    return st ? st : command->run(process, argc - 1, argv + 1);
}

/* Of a worker the host says what went wrong. */
static kiln_status serve(kiln_arena *process, bool *out_is_said) {
    kiln_status st = kiln_fail_arm(kiln_env("KILN_FAIL"));
    return st ? st : kiln_serve(process, out_is_said);
}

/* Peers and files may have a say in the text. */
static void print_error(const char *command, kiln_status st) {
    kiln_strbuf text = {0};
    kiln_strbuf_printf(&text, "kiln %s: %s", command, kiln_status_text(st));
    kiln_print_text(kiln_strbuf_view(&text), KILN_TEXT_PROSE, stderr);
    fputc('\n', stderr);
    kiln_strbuf_deinit(&text);
}

int main(int argc, char **argv) {
    signal(SIGPIPE, SIG_IGN);              /* a peer that goes away is an error, not an end */
    kiln_log_init("kiln", KILN_LOG_ERROR); /* nobody else waits for a command's loop */
    if (argc < 2) {
        print_help(stderr);
        return kiln_code_exit(KILN_INVALID_ARGUMENT);
    }
    kiln_arena process;
    kiln_arena_init(&process, 0);
    bool is_said = false;
    kiln_status st = kiln_serve_is_asked(argc, argv) ? serve(&process, &is_said)
                                                     : check_output(run(&process, argc, argv));
    if (st && !is_said) print_error(argv[1], st);
    int exit_code = kiln_code_exit(kiln_status_code(st));
    kiln_status_free(st);
    kiln_arena_deinit(&process);
    return exit_code;
}
