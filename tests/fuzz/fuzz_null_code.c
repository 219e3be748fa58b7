/* Fuzzes the byte code of the null device: what decodes prints, encodes to the same bytes, and runs
 * within the memory that it is given, whatever it does there. */
#include "base/alloc.h"
#include "base/check.h"
#include "base/null_code.h"
#include "deploy/runtime/null_run.h"
#include "tests/fuzz/fuzz.h"

#define ARGUMENTS_MAX 64u
#define ARGUMENT_BYTES 512u
#define STEPS_MAX 100000u
#define TEMP_BYTES_MAX 65536u

static void run(const kiln_null_function *f) {
    static const uint32_t grid[3] = {2, 1, 1}, group[3] = {2, 1, 1};
    kiln_null_memory argument[ARGUMENTS_MAX];
    kiln_null_ready *ready = NULL;
    uint64_t ticks = 0;
    const uint32_t count = kiln_null_argument_count(f);
    if (count > ARGUMENTS_MAX || f->steps > STEPS_MAX || f->local_bytes > TEMP_BYTES_MAX ||
        f->shared_bytes > TEMP_BYTES_MAX)
        return;
    kiln_status st = kiln_null_ready_create(f, group, &ready);
    for (uint32_t i = 0; i < count; i++)
        argument[i] = (kiln_null_memory){kiln_alloc(ARGUMENT_BYTES), ARGUMENT_BYTES};
    if (!st) kiln_null_launch(ready, grid, argument, &ticks);
    const uint64_t most =
        KILN_NULL_TICKS_STATEMENT + KILN_NULL_TICKS_ARGUMENT + KILN_NULL_TICKS_BARRIER;
    KILN_CHECK(ticks <= KILN_NULL_TICKS_LAUNCH + 2 * most * f->instruction_count * (f->steps + 1));
    for (uint32_t i = 0; i < count; i++) kiln_free(argument[i].data);
    kiln_null_ready_destroy(ready);
    kiln_status_free(st);
}

int kiln_fuzz_one(const uint8_t *data, size_t size) {
    kiln_arena arena;
    kiln_strbuf again = {0}, text = {0};
    kiln_null_code code;
    kiln_arena_init(&arena, 0);
    kiln_str bytes = {(const char *)data, size};
    kiln_status st = kiln_null_code_decode(bytes, &arena, &code);
    if (!st) {
        kiln_null_code_encode(&code, &again);
        KILN_CHECK(kiln_str_equal(kiln_strbuf_view(&again), bytes));
        kiln_null_code_print(&code, &text);
        for (uint32_t i = 0; i < code.function_count; i++) run(&code.function[i]);
    }
    kiln_status_free(st);
    kiln_strbuf_deinit(&again);
    kiln_strbuf_deinit(&text);
    kiln_arena_deinit(&arena);
    return 0;
}
