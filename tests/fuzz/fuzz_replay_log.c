/* Logs of recorded trials: what parses prints as a log that parses to the same text again. */
#include "base/check.h"
#include "tests/fuzz/fuzz.h"
#include "tests/replay/log.h"

int kiln_fuzz_one(const uint8_t *data, size_t size) {
    kiln_arena arena;
    kiln_replay_log log, again;
    kiln_strbuf once = {0}, twice = {0};
    kiln_arena_init(&arena, 0);
    kiln_status st = kiln_replay_log_parse((kiln_str){(const char *)data, size}, &arena, &log);
    if (!st) {
        kiln_replay_log_print(&log, &once);
        kiln_status second = kiln_replay_log_parse(kiln_strbuf_view(&once), &arena, &again);
        KILN_CHECK(second == NULL);
        kiln_replay_log_print(&again, &twice);
        KILN_CHECK(kiln_str_equal(kiln_strbuf_view(&once), kiln_strbuf_view(&twice)));
    }
    kiln_status_free(st);
    kiln_strbuf_deinit(&once);
    kiln_strbuf_deinit(&twice);
    kiln_arena_deinit(&arena);
    return 0;
}
