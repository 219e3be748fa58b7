#include "tests/fuzz/graph/peer.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "tests/fuzz/graph/check.h"

static void become(const char *python, const char *script, int in, int out) {
    dup2(in, 0);
    dup2(out, 1);
    execlp(python, python, script, (char *)NULL);
    _exit(127);
}

kiln_status fuzz_peer_start(fuzz_peer *peer, const char *python, const char *script) {
    int to[2], from[2];
    *peer = (fuzz_peer){0};
    if (pipe2(to, O_CLOEXEC) || pipe2(from, O_CLOEXEC))
        return KILN_ERROR(RESOURCE_EXHAUSTED, "no pipes");
    signal(SIGPIPE, SIG_IGN);
    fflush(NULL);
    peer->pid = fork();
    if (peer->pid < 0) return KILN_ERROR(RESOURCE_EXHAUSTED, "%s cannot be started", python);
    if (peer->pid == 0) become(python, script, to[0], from[1]);
    close(to[0]);
    close(from[1]);
    peer->to = fdopen(to[1], "w");
    peer->from = fdopen(from[0], "r");
    return kiln_folder_create_temp("kiln-fuzz", &peer->arena, &peer->folder);
}

void fuzz_peer_stop(fuzz_peer *peer) {
    if (!peer->pid) return;
    fclose(peer->to);
    fclose(peer->from);
    waitpid(peer->pid, NULL, 0);
    if (peer->folder) kiln_status_free(kiln_folder_remove(peer->folder)); /* a temporary folder */
    kiln_arena_deinit(&peer->arena);
    *peer = (fuzz_peer){0};
}

kiln_status fuzz_peer_ask(fuzz_peer *peer, const fuzz_graph *g, const fuzz_part *part,
                          fuzz_opinion *out_opinion, kiln_strbuf *why) {
    static const char *const word[] = {"agrees", "refuses", "differs"};
    char path[512], answer[1024] = "";
    snprintf(path, sizeof path, "%s/%llu", peer->folder, (unsigned long long)g->number);
    kiln_status st = fuzz_write(g, part, path);
    if (st) return st;
    fprintf(peer->to, "%s\n", path);
    fflush(peer->to);
    *out_opinion = FUZZ_PEER_DIED;
    if (fgets(answer, sizeof answer, peer->from)) {
        answer[strcspn(answer, "\n")] = '\0';
        for (uint32_t i = 0; i < KILN_ARRAY_COUNT(word); i++)
            if (strncmp(answer, word[i], strlen(word[i])) == 0) *out_opinion = (fuzz_opinion)i;
    }
    kiln_strbuf_text(why, answer);
    return kiln_folder_remove(path);
}
