#include "tests/unit/compiler-core/codegen/tiles.h"

#include "tests/unit/compiler-core/codegen/support.h"

#if defined(__x86_64__)

#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#define TILES 8
#define ROWS 16
#define ROW_BYTES 64

/* What LDTILECFG loads. */
typedef struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_config;

/* One processor's tiles: each thread has its own. */
static _Thread_local struct {
    tile_config config;
    uint8_t tile[TILES][ROWS][ROW_BYTES];
} state;

static struct {
    atomic_uint_fast64_t configured, released, zeroed, loaded, stored, multiplied;
} counts;

/* In a signal handler: what is wrong is written, and the process ends. */
static void require(bool holds, const char *what) {
    if (holds) return;
    static const char begin[] = "tiles: ";
    ssize_t wrote = write(STDERR_FILENO, begin, sizeof begin - 1);
    wrote += write(STDERR_FILENO, what, strlen(what));
    wrote += write(STDERR_FILENO, "\n", 1);
    _exit(wrote > 0 ? 99 : 98);
}

/* ---- decoding -------------------------------------------------------------------------------- */

/* An instruction with a VEX prefix of three bytes, of the map 0F38. */
typedef struct instruction {
    uint8_t opcode, prefix; /* 0: none, 1: 66, 2: F3, 3: F2 */
    uint8_t reg, rm, vvvv;
    bool is_memory;
    uint8_t *address;
    int64_t stride; /* bytes, of the index register */
    size_t size;
} instruction;

static uint64_t register_value(const ucontext_t *context, unsigned number) {
    static const int place[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                  REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                  REG_R12, REG_R13, REG_R14, REG_R15};
    return (uint64_t)context->uc_mcontext.gregs[place[number]];
}

static int64_t displacement(const uint8_t *code, unsigned mod) {
    int32_t wide;
    if (mod == 1) return (int8_t)*code;
    memcpy(&wide, code, sizeof wide);
    return wide;
}

/* Base, index times scale, displacement (SDM volume 2, 2.1.5). */
static void decode_memory(const ucontext_t *context, const uint8_t *code, uint8_t vex, unsigned mod,
                          instruction *out) {
    unsigned base = out->rm, index = 4, scale = 0;
    size_t at = 5;
    const bool sib = out->rm == 4;
    if (sib) {
        base = code[at] & 7;
        index = code[at] >> 3 & 7;
        scale = code[at++] >> 6;
    }
    const bool no_base = mod == 0 && base == 5;
    const unsigned high_base = !(vex & 0x20) ? 8 : 0, high_index = !(vex & 0x40) ? 8 : 0;
    uint64_t address = no_base ? 0 : register_value(context, base + high_base);
    const size_t bytes = mod == 1 ? 1 : mod == 2 || no_base ? 4 : 0;
    if (bytes) address += (uint64_t)displacement(code + at, mod == 1 ? 1 : 2);
    out->size = at + bytes;
    if (no_base && !sib) /* relative to the next instruction */
        address += (uint64_t)context->uc_mcontext.gregs[REG_RIP] + out->size;
    if (index + high_index != 4)
        out->stride = (int64_t)(register_value(context, index + high_index) << scale);
    out->address = (uint8_t *)(uintptr_t)address;
}

static bool decode(const ucontext_t *context, instruction *out) {
    const uint8_t *code = (const uint8_t *)context->uc_mcontext.gregs[REG_RIP];
    if (code[0] != 0xc4 || (code[1] & 0x1f) != 2 || code[2] & 0x84) return false;
    *out = (instruction){.opcode = code[3],
                         .prefix = code[2] & 3,
                         .vvvv = (uint8_t)(~code[2] >> 3 & 15),
                         .reg = code[4] >> 3 & 7,
                         .rm = code[4] & 7,
                         .is_memory = code[4] >> 6 != 3,
                         .size = 5};
    if (out->is_memory) decode_memory(context, code, code[1], code[4] >> 6, out);
    return true;
}

/* ---- instructions ---------------------------------------------------------------------------- */

static uint32_t rows_of(uint32_t tile) {
    require(tile < TILES && state.config.palette == 1 && state.config.rows[tile] > 0,
            "a tile without a configuration");
    return state.config.rows[tile];
}

static uint32_t words_of(uint32_t tile) { return state.config.row_bytes[tile] / 4u; }

static void configure(const uint8_t *from) {
    memset(&state, 0, sizeof state);
    memcpy(&state.config, from, sizeof state.config);
    require(state.config.palette == 1 && state.config.start_row == 0, "another palette");
    for (uint32_t i = 0; i < 16; i++) {
        const uint32_t rows = state.config.rows[i], bytes = state.config.row_bytes[i];
        require(i < TILES ? rows <= ROWS && bytes <= ROW_BYTES && bytes % 4 == 0 : !rows && !bytes,
                "a configuration of no tile");
    }
    for (uint32_t i = 0; i < sizeof state.config.reserved; i++)
        require(state.config.reserved[i] == 0, "a reserved byte");
}

/* Rows and bytes beyond the tile's become zero. */
static void load_tile(const instruction *in) {
    const uint32_t rows = rows_of(in->reg);
    memset(state.tile[in->reg], 0, sizeof state.tile[0]);
    for (uint32_t r = 0; r < rows; r++)
        memcpy(state.tile[in->reg][r], in->address + (int64_t)r * in->stride,
               state.config.row_bytes[in->reg]);
}

static void store_tile(const instruction *in) {
    const uint32_t rows = rows_of(in->reg);
    for (uint32_t r = 0; r < rows; r++)
        memcpy(in->address + (int64_t)r * in->stride, state.tile[in->reg][r],
               state.config.row_bytes[in->reg]);
}

/* c + products of the four bytes of two words. */
static uint32_t dot_bytes(uint32_t c, const uint8_t *a, const uint8_t *b, bool a_signed,
                          bool b_signed) {
    for (uint32_t i = 0; i < 4; i++)
        c += (uint32_t)((a_signed ? (int8_t)a[i] : a[i]) * (b_signed ? (int8_t)b[i] : b[i]));
    return c;
}

static float half_at(const uint8_t *word, uint32_t i) {
    uint32_t bits = (uint32_t)(word[2 * i] | word[2 * i + 1] << 8) << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return fpclassify(value) == FP_SUBNORMAL ? copysignf(0, value) : value;
}

static float flushed(float value) {
    return fpclassify(value) == FP_SUBNORMAL ? copysignf(0, value) : value;
}

static void multiply(const instruction *in) {
    const uint32_t c = in->reg, a = in->rm, b = in->vvvv, rows = rows_of(c);
    require(a < TILES && b < TILES && a != b && a != c && b != c, "one tile twice");
    require(rows_of(a) == rows && words_of(a) == rows_of(b) && words_of(b) == words_of(c),
            "tiles of sizes that do not fit");
    const bool halves = in->opcode == 0x5c;
    for (uint32_t m = 0; m < rows; m++)
        for (uint32_t n = 0; n < words_of(c); n++) {
            uint8_t *to = &state.tile[c][m][4 * n];
            float part[2] = {0, 0}, sum;
            uint32_t bits;
            memcpy(&bits, to, sizeof bits);
            memcpy(&sum, to, sizeof sum);
            for (uint32_t k = 0; k < words_of(a); k++) {
                const uint8_t *x = &state.tile[a][m][4 * k], *y = &state.tile[b][k][4 * n];
                for (uint32_t i = 0; halves && i < 2; i++)
                    part[i] = flushed(fmaf(half_at(x, i), half_at(y, i), part[i]));
                /* F2: both signed, F3: only a, 66: only b. */
                if (!halves) bits = dot_bytes(bits, x, y, in->prefix >= 2, in->prefix & 1);
            }
            sum = flushed(flushed(sum) + flushed(part[0] + part[1]));
            if (halves)
                memcpy(to, &sum, sizeof sum);
            else
                memcpy(to, &bits, sizeof bits);
        }
    for (uint32_t m = rows; m < ROWS; m++) memset(state.tile[c][m], 0, ROW_BYTES);
}

/* False: it is no instruction on tiles. */
static bool compute(const instruction *in) {
    enum { NONE = 0, P66 = 1, F3 = 2, F2 = 3 };
    if (in->opcode == 0x49 && in->prefix == NONE && in->is_memory) {
        configure(in->address);
        counts.configured++;
    } else if (in->opcode == 0x49 && in->prefix == NONE) {
        memset(&state, 0, sizeof state);
        counts.released++;
    } else if (in->opcode == 0x49 && in->prefix == F2 && !in->is_memory) {
        rows_of(in->reg);
        memset(state.tile[in->reg], 0, sizeof state.tile[0]);
        counts.zeroed++;
    } else if (in->opcode == 0x4b && in->is_memory && (in->prefix == F2 || in->prefix == P66)) {
        load_tile(in);
        counts.loaded++;
    } else if (in->opcode == 0x4b && in->is_memory && in->prefix == F3) {
        store_tile(in);
        counts.stored++;
    } else if ((in->opcode == 0x5e || (in->opcode == 0x5c && in->prefix == F3)) && !in->is_memory) {
        multiply(in);
        counts.multiplied++;
    } else {
        return false;
    }
    return true;
}

static void on_illegal(int signal_number, siginfo_t *info, void *context) {
    ucontext_t *at = context;
    instruction in;
    (void)signal_number, (void)info;
    require(decode(at, &in) && compute(&in), "an illegal instruction that is none on tiles");
    at->uc_mcontext.gregs[REG_RIP] += (greg_t)in.size;
}

bool emulate_tiles(void) {
    const struct sigaction action = {.sa_sigaction = on_illegal, .sa_flags = SA_SIGINFO};
    return sigaction(SIGILL, &action, NULL) == 0;
}

tile_counts tiles_emulated(void) {
    return (tile_counts){counts.configured, counts.released, counts.zeroed,
                         counts.loaded,     counts.stored,   counts.multiplied};
}

#else

bool emulate_tiles(void) { return false; }
tile_counts tiles_emulated(void) { return (tile_counts){0}; }

#endif

/* The runtime refuses code for another processor, so it is told another name. */
kiln_status run_in_tiles(void *context, const kiln_artefact *artefact, const kiln_program *te,
                         const kiln_tensor *args, uint32_t workers) {
    kiln_artefact renamed = *artefact;
    (void)context;
    const kiln_target target =
        target_of(te->arena, kiln_str_dup(te->arena, artefact->manifest.target));
    if (runs_here(&target, te->arena)) return run_artefact(artefact, te, args, workers);
    renamed.manifest.target = KILN_STR("x86-64");
    return run_artefact(&renamed, te, args, workers);
}
