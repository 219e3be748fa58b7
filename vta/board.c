#include "vta/board.h"

#include <string.h>

#include "base/check.h"
#include "base/integer.h"
#include "vta/queue.h"

#define ADDRESSES (UINT64_C(1) << 32)
#define DEAD UINT32_MAX /* value of a bus read without a device */

kiln_status kiln_vta_board_init(kiln_vta_board *board, const kiln_vta_board_io *io) {
    if (io->address % KILN_VTA_PAGE_BYTES || io->memory_bytes % KILN_VTA_PAGE_BYTES ||
        io->address > ADDRESSES || io->memory_bytes > ADDRESSES - io->address)
        return KILN_ERROR(FAILED_PRECONDITION,
                          "%llu bytes of memory at 0x%llx; a board needs pages of %u bytes below "
                          "4 GiB",
                          (unsigned long long)io->memory_bytes, (unsigned long long)io->address,
                          KILN_VTA_PAGE_BYTES);
    *board = (kiln_vta_board){.io = io};
    return KILN_OK;
}

void kiln_vta_board_reset(kiln_vta_board *board) { board->used_bytes = 0; }

kiln_status kiln_vta_board_alloc(kiln_vta_board *board, uint64_t bytes, uint64_t *out_address) {
    const uint64_t left = board->io->memory_bytes - board->used_bytes;
    if (bytes > left)
        return KILN_ERROR(RESOURCE_EXHAUSTED,
                          "%llu bytes of the board's memory are wanted; %llu of %llu are left",
                          (unsigned long long)bytes, (unsigned long long)left,
                          (unsigned long long)board->io->memory_bytes);
    *out_address = board->io->address + board->used_bytes;
    board->used_bytes += KILN_ALIGN_UP(bytes, (uint64_t)KILN_VTA_PAGE_BYTES);
    return KILN_OK;
}

uint8_t *kiln_vta_board_at(const kiln_vta_board *board, uint64_t address) {
    return board->io->memory + (address - board->io->address);
}

/* ---- loading --------------------------------------------------------------------------------- */

static void write_instructions(const kiln_vta_board *board, const kiln_vta_loaded *loaded) {
    const kiln_vta_program *program = loaded->program;
    const kiln_vta_sizes sizes = kiln_vta_sizes_of(&program->config);
    uint8_t *to = kiln_vta_board_at(board, loaded->instructions);
    for (uint32_t i = 0; i < program->instruction_count; i++, to += KILN_VTA_INSTRUCTION_BYTES) {
        const kiln_vta_instruction in = kiln_vta_program_placed(program, &sizes, loaded->place, i);
        kiln_vta_instruction_encode(&program->config, &in, to);
    }
}

/* Loads its micro-ops and instructions; other buffers are those in `shared`, or its own. */
static kiln_status load_one(kiln_vta_board *board, const kiln_vta_program *program,
                            const kiln_vta_loaded *shared, kiln_arena *arena,
                            kiln_vta_loaded *out_loaded) {
    kiln_vta_loaded l = {.program = program,
                         .place = KILN_ARENA_ARRAY(arena, uint64_t, program->buffer_count)};
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; i < program->buffer_count && !st; i++)
        if (shared && i != KILN_VTA_BUFFER_UOPS)
            l.place[i] = shared->place[i];
        else
            st = kiln_vta_board_alloc(board, program->buffer[i].size_bytes, &l.place[i]);
    if (!st)
        st = kiln_vta_board_alloc(board,
                                  (uint64_t)program->instruction_count * KILN_VTA_INSTRUCTION_BYTES,
                                  &l.instructions);
    if (st) return st;
    uint64_t *offset = KILN_ARENA_ARRAY(arena, uint64_t, program->buffer_count);
    for (uint32_t i = 0; i < program->buffer_count; i++)
        offset[i] = l.place[i] - board->io->address;
    kiln_vta_program_fill(program, offset, board->io->memory);
    write_instructions(board, &l);
    *out_loaded = l;
    return KILN_OK;
}

kiln_status kiln_vta_board_load(kiln_vta_board *board, const kiln_vta_program *program,
                                uint32_t count, kiln_arena *arena, kiln_vta_loaded *out_loaded) {
    const uint64_t before = board->used_bytes;
    for (uint32_t i = 0; i < count; i++) {
        KILN_CHECK(program[i].buffer_count == program[0].buffer_count);
        kiln_status st =
            load_one(board, &program[i], i ? &out_loaded[0] : NULL, arena, &out_loaded[i]);
        if (!st) continue;
        board->used_bytes = before;
        return kiln_status_note(st, "loading program %u of %u", i + 1, count);
    }
    return KILN_OK;
}

/* ---- running --------------------------------------------------------------------------------- */

static uint32_t get(const kiln_vta_board *board, kiln_vta_register number) {
    return board->io->read(board->io->context, number);
}
static void put(const kiln_vta_board *board, kiln_vta_register number, uint32_t value) {
    board->io->write(board->io->context, number, value);
}

static uint64_t cycles_of(const kiln_vta_board *board) {
    for (;;) { /* the low word may overflow between the reads */
        const uint32_t high = get(board, KILN_VTA_REGISTER_CYCLES_HIGH);
        const uint32_t low = get(board, KILN_VTA_REGISTER_CYCLES_LOW);
        if (high == get(board, KILN_VTA_REGISTER_CYCLES_HIGH)) return (uint64_t)high << 32 | low;
    }
}

static kiln_status start(const kiln_vta_board *board, const kiln_vta_loaded *loaded) {
    const uint32_t state = get(board, KILN_VTA_REGISTER_STATE);
    if (state == DEAD)
        return KILN_ERROR(UNAVAILABLE, "the board's registers do not answer; load its bitstream");
    if (state & KILN_VTA_STATE_RUNS)
        return KILN_ERROR(FAILED_PRECONDITION, "the board runs another program; reset it");
    const uint32_t address = (uint32_t)loaded->instructions;
    const uint32_t count = loaded->program->instruction_count;
    put(board, KILN_VTA_REGISTER_PROGRAM, address);
    put(board, KILN_VTA_REGISTER_COUNT, count);
    if (get(board, KILN_VTA_REGISTER_PROGRAM) != address ||
        get(board, KILN_VTA_REGISTER_COUNT) != count)
        return KILN_ERROR(UNAVAILABLE,
                          "the board's registers do not keep written values: 0x%x and %u are 0x%x "
                          "and %u; load its bitstream",
                          address, count, get(board, KILN_VTA_REGISTER_PROGRAM),
                          get(board, KILN_VTA_REGISTER_COUNT));
    put(board, KILN_VTA_REGISTER_STATE, 1);
    return KILN_OK;
}

/* The progress of an engine, as "compute: 5 of 9, at instruction 12: gemm ...". */
static void print_engine(const kiln_vta_program *program, const kiln_vta_queues *queues,
                         uint32_t engine, uint32_t ended, kiln_strbuf *out) {
    const uint32_t steps = queues->count[engine];
    const kiln_vta_step *step = queues->step[engine];
    uint32_t total = 0, passed = 0, last = UINT32_MAX;
    for (uint32_t i = 0; i < steps; i++) total += step[i].count;
    for (uint32_t i = 0; i < steps && passed + step[i].count <= ended; i++) {
        passed += step[i].count;
        last = i;
    }
    if (total == 0) return;
    kiln_strbuf_printf(out, "; %s has ended %u of %u",
                       kiln_vta_engine_name((kiln_vta_engine)engine), ended, total);
    if (last != UINT32_MAX) kiln_strbuf_printf(out, ", instruction %u last", step[last].first);
    const uint32_t next = last == UINT32_MAX ? 0 : last + 1;
    if (next == steps) return;
    kiln_strbuf_printf(out, ", and is at %u: ", step[next].first);
    kiln_vta_instruction_print(&program->instruction[step[next].first], (kiln_str){0}, out);
}

/* The error of a program that did not finish in time, or stalled. */
static kiln_status not_finished(const kiln_vta_board *board, const kiln_vta_loaded *loaded,
                                uint64_t timeout_ns) {
    const uint32_t state = get(board, KILN_VTA_REGISTER_STATE);
    if (state == DEAD) return KILN_ERROR(UNAVAILABLE, "the board's registers no longer answer");
    if (!(state & KILN_VTA_STATE_RUNS)) return KILN_ERROR(UNAVAILABLE, "the board did not start");
    const uint64_t cycles = cycles_of(board);
    board->io->pause(board->io->context);
    if (cycles_of(board) == cycles)
        return KILN_ERROR(UNAVAILABLE, "the board's clock stopped after %llu cycles",
                          (unsigned long long)cycles);
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    kiln_strbuf text = {0};
    const kiln_vta_queues queues = kiln_vta_queues_of(loaded->program, &scratch);
    for (uint32_t e = 0; e < KILN_VTA_ENGINE_COUNT; e++)
        print_engine(loaded->program, &queues, e,
                     get(board, (kiln_vta_register)(KILN_VTA_REGISTER_ENDED + e)), &text);
    kiln_status st = KILN_ERROR(DEADLINE_EXCEEDED, "the board did not finish in %llu ms%.*s",
                                (unsigned long long)(timeout_ns / 1000000),
                                KILN_STR_ARG(kiln_strbuf_view(&text)));
    kiln_strbuf_deinit(&text);
    kiln_arena_deinit(&scratch);
    return st;
}

kiln_status kiln_vta_board_run(const kiln_vta_board *board, const kiln_vta_loaded *loaded,
                               uint64_t timeout_ns, uint64_t *out_cycles) {
    const kiln_vta_board_io *io = board->io;
    io->to_device(io->context, 0, board->used_bytes);
    kiln_status st = start(board, loaded);
    if (st) return st;
    const uint64_t deadline = io->now_ns(io->context) + timeout_ns;
    while (get(board, KILN_VTA_REGISTER_STATE) != KILN_VTA_STATE_FINISHED) {
        if (io->now_ns(io->context) >= deadline) return not_finished(board, loaded, timeout_ns);
        io->pause(io->context);
    }
    io->to_host(io->context, 0, board->used_bytes);
    *out_cycles = cycles_of(board);
    return KILN_OK;
}
