/* write-module OBJECTS CANDIDATE FILE: a module of a planted candidate, for tests in other
 * languages. */
#include "tests/unit/rpc-server/candidates.h"

int main(int argc, char **argv) {
    kiln_strbuf artefact = {0};
    if (argc != 4) return 2;
    candidate_artefact(argv[1], argv[2], CANDIDATE_FLOPS, &artefact);
    candidate_module(kiln_strbuf_view(&artefact), argv[3]);
    kiln_strbuf_deinit(&artefact);
    return 0;
}
