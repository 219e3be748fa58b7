#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "cli/cli.h"

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
    fputs("Kiln finds, for each kernel of a network and each kind of device you own, the program "
          "that runs\n"
          "fastest there.\n\nUsage: kiln COMMAND [options]; kiln COMMAND --help tells more.\n\n",
          out);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(command_table); i++)
        fprintf(out, "  %-9s %s\n", command_table[i].name, command_table[i].doc);
    fputs("\nStart with: kiln zoo conv:C2 -o c2.onnx && kiln tune c2.onnx --out c2.kiln && kiln "
          "run c2.kiln --bench\n",
          out);
}

static const command_row *find_command(const char *name) {
    for (size_t i = 0; i < KILN_ARRAY_COUNT(command_table); i++)
        if (strcmp(name, command_table[i].name) == 0) return &command_table[i];
    return NULL;
}

int main(int argc, char **argv) {
    signal(SIGPIPE, SIG_IGN); /* a peer or reader that goes away is an error, not an end */
    kiln_log_init("kiln", KILN_LOG_WARN);
    if (argc < 2) {
        print_help(stderr);
        return kiln_code_exit(KILN_INVALID_ARGUMENT);
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return 0;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("kiln %s, codegen %s\n", KILN_VERSION, kiln_codegen_version());
        return 0;
    }
    const command_row *command = find_command(argv[1]);
    if (!command) {
        fprintf(stderr, "kiln: no command is called '%s'; kiln --help lists them\n", argv[1]);
        return kiln_code_exit(KILN_INVALID_ARGUMENT);
    }
    kiln_arena process;
    kiln_arena_init(&process, 0);
    kiln_status st = command->run(&process, argc - 1, argv + 1);
    fflush(stdout);
    if (st) fprintf(stderr, "kiln %s: %s\n", command->name, kiln_status_text(st));
    int exit_code = kiln_code_exit(kiln_status_code(st));
    kiln_status_free(st);
    kiln_arena_deinit(&process);
    return exit_code;
}
