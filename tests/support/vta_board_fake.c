#include "tests/support/vta_board_fake.h"

#include <string.h>

#include "tests/support/test.h"
#include "vta/core.h"

#define PAUSE_NS 1000u
#define CYCLES_OF_A_PAUSE 100u

void vta_board_fake_run(const kiln_vta_config *config, volatile uint32_t *registers, uint8_t *dram,
                        uint64_t dram_bytes, uint32_t most, kiln_arena *arena) {
    kiln_vta_core core;
    kiln_vta_core_init(&core, config, dram, dram_bytes, arena);
    const uint32_t count = registers[KILN_VTA_REGISTER_COUNT];
    const uint8_t *bytes = dram + registers[KILN_VTA_REGISTER_PROGRAM];
    kiln_vta_fault fault;
    for (uint32_t i = 0; i < count && i < most; i++) {
        kiln_vta_instruction in;
        assert_true(kiln_vta_instruction_decode(config, bytes + i * KILN_VTA_INSTRUCTION_BYTES, &in,
                                                &fault));
        if (!kiln_vta_core_run(&core, &in, 1, i, &fault)) fail_msg("%s", fault.text);
        const uint32_t engine = kiln_vta_engine_of(config, &in);
        registers[KILN_VTA_REGISTER_ENDED + engine]++;
    }
    registers[KILN_VTA_REGISTER_CYCLES_LOW] = 10 * count;
    registers[KILN_VTA_REGISTER_CYCLES_HIGH] = 1;
    registers[KILN_VTA_REGISTER_STATE] =
        most < count ? KILN_VTA_STATE_RUNS : KILN_VTA_STATE_FINISHED;
}

static uint32_t read_register(void *context, kiln_vta_register number) {
    const vta_board_fake *f = context;
    if (f->fault == VTA_FAKE_DEAD) return UINT32_MAX;
    if (f->fault == VTA_FAKE_IS_BUSY && number == KILN_VTA_REGISTER_STATE)
        return KILN_VTA_STATE_RUNS;
    return f->registers[number];
}

static void write_register(void *context, kiln_vta_register number, uint32_t value) {
    vta_board_fake *f = context;
    if (f->fault == VTA_FAKE_KEEPS_NOTHING) return;
    if (number != KILN_VTA_REGISTER_STATE) {
        f->registers[number] = value;
        return;
    }
    if (f->fault == VTA_FAKE_DOES_NOT_START) return;
    memset(&f->registers[KILN_VTA_REGISTER_ENDED], 0, 4 * KILN_VTA_ENGINE_COUNT);
    f->registers[KILN_VTA_REGISTER_STATE] = KILN_VTA_STATE_RUNS;
    if (f->fault != VTA_FAKE_STANDS)
        vta_board_fake_run(&f->config, f->registers, f->device, f->io.address + f->io.memory_bytes,
                           f->fault == VTA_FAKE_HANGS ? f->hangs_behind : UINT32_MAX, f->arena);
}

static void to_device(void *context, uint64_t offset, uint64_t bytes) {
    const vta_board_fake *f = context;
    memcpy(f->device + f->io.address + offset, f->io.memory + offset, bytes);
}
static void to_host(void *context, uint64_t offset, uint64_t bytes) {
    const vta_board_fake *f = context;
    memcpy(f->io.memory + offset, f->device + f->io.address + offset, bytes);
}
static uint64_t now_ns(void *context) { return ((const vta_board_fake *)context)->now_ns; }
static void pause_for_a_moment(void *context) {
    vta_board_fake *f = context;
    f->now_ns += PAUSE_NS;
    if (f->fault != VTA_FAKE_STANDS)
        f->registers[KILN_VTA_REGISTER_CYCLES_LOW] += CYCLES_OF_A_PAUSE;
}

void vta_board_fake_init(vta_board_fake *fake, const kiln_vta_config *config, uint64_t address,
                         uint64_t memory_bytes, kiln_arena *arena) {
    *fake = (vta_board_fake){.io = {.context = fake,
                                    .memory = kiln_arena_alloc(arena, memory_bytes),
                                    .memory_bytes = memory_bytes,
                                    .address = address,
                                    .read = read_register,
                                    .write = write_register,
                                    .to_device = to_device,
                                    .to_host = to_host,
                                    .now_ns = now_ns,
                                    .pause = pause_for_a_moment},
                             .config = *config,
                             .device = kiln_arena_alloc(arena, address + memory_bytes),
                             .arena = arena};
}
