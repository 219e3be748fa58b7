/* Fuzzes the reader of artefacts: what decodes encodes to bytes that decode to the same. */
#include "base/check.h"
#include "base/manifest.h"
#include "tests/fuzz/fuzz.h"

int kiln_fuzz_one(const uint8_t *data, size_t size) {
    kiln_arena arena = {0};
    kiln_strbuf once = {0}, twice = {0};
    kiln_artefact artefact;
    kiln_status st = kiln_artefact_decode((kiln_str){(const char *)data, size}, &arena, &artefact);
    if (!st) {
        kiln_artefact_encode(&artefact, &once);
        KILN_CHECK(kiln_artefact_decode(kiln_strbuf_view(&once), &arena, &artefact) == NULL);
        kiln_artefact_encode(&artefact, &twice);
        KILN_CHECK(kiln_str_equal(kiln_strbuf_view(&once), kiln_strbuf_view(&twice)));
    }
    kiln_status_free(st);
    kiln_strbuf_deinit(&once);
    kiln_strbuf_deinit(&twice);
    kiln_arena_deinit(&arena);
    return 0;
}
