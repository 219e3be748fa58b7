/* Fuzzes programs for accelerators as bytes: what decodes encodes to the same bytes, its text says
 * the same, and what passes the checkers runs to its end, or to a named fault. */
#include "base/check.h"
#include "tests/fuzz/fuzz.h"
#include "vta/check.h"
#include "vta/csim.h"

#define TILES_MAX 20000u
#define DRAM_BYTES_MAX (1u << 20)

static bool is_small(const kiln_vta_program *program, uint64_t dram_bytes) {
    uint64_t tiles = 0;
    for (uint32_t i = 0; i < program->instruction_count; i++) {
        const kiln_vta_instruction *in = &program->instruction[i];
        tiles += (uint64_t)in->iter_out * in->iter_in * (in->uop_end - in->uop_bgn);
    }
    return tiles <= TILES_MAX && dram_bytes <= DRAM_BYTES_MAX;
}

static void run(const kiln_vta_program *program, kiln_arena *arena) {
    kiln_vta_fault fault;
    kiln_vta_timing timing;
    uint64_t *place = KILN_ARENA_ARRAY(arena, uint64_t, program->buffer_count);
    const uint64_t bytes = kiln_vta_program_place(program, place);
    if (!is_small(program, bytes) || !kiln_vta_check(program, &fault)) return;
    uint8_t *dram = kiln_arena_alloc(arena, bytes + 1);
    kiln_vta_program_fill(program, place, dram);
    if (!kiln_vta_csim_run(program, dram, bytes, &(kiln_vta_csim_options){0}, arena, &timing,
                           &fault))
        KILN_CHECK(fault.kind == KILN_VTA_FAULT_SHIFT); /* the one that data decides */
}

int kiln_fuzz_one(const uint8_t *data, size_t size) {
    kiln_arena arena;
    kiln_strbuf again = {0}, text = {0}, from_text = {0};
    kiln_vta_program program, parsed;
    kiln_arena_init(&arena, 0);
    kiln_str bytes = {(const char *)data, size};
    kiln_status st = kiln_vta_program_decode(bytes, &arena, &program);
    if (!st) {
        kiln_vta_program_encode(&program, &again);
        kiln_vta_program_print(&program, &text);
        KILN_CHECK(!kiln_vta_program_parse(kiln_strbuf_view(&text), &arena, &parsed));
        kiln_vta_program_encode(&parsed, &from_text);
        KILN_CHECK(kiln_str_equal(kiln_strbuf_view(&again), kiln_strbuf_view(&from_text)));
        run(&program, &arena);
    }
    kiln_status_free(st);
    kiln_strbuf_deinit(&again);
    kiln_strbuf_deinit(&text);
    kiln_strbuf_deinit(&from_text);
    kiln_arena_deinit(&arena);
    return 0;
}
