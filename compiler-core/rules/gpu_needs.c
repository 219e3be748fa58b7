/* The needs of a GPU's group with a tile and a block of steps: elements that its threads copy,
 * shared memory and registers. Choosing sizes calls this for some ten thousand tiles. */
#include "base/macros.h"
#include "compiler-core/facts/form.h"
#include "compiler-core/ir/device.h"
#include "compiler-core/rules/gpu.h"

/* Registers of addresses, counters and what ptxas keeps: counts of fp32 tiles of the machine code
 * of sm_80 and sm_90 lie within 13 % of what they give (../shared/reference/gpu.md says how). */
#define REGISTERS_BESIDE 22
#define PLACE_WORDS 2 /* 64 bits of address of a fetch whose offset is no sum of digits */

static int64_t parts_of(int64_t extent, int64_t size) { return (extent + size - 1) / size; }

int64_t kiln_gpu_group_threads(const kiln_gpu_tiling *t, const kiln_gpu_tile *tile) {
    int64_t threads = t->together;
    for (uint32_t n = 0; n < t->tiled; n++) threads *= tile->threads[n];
    return threads;
}

int64_t kiln_gpu_points(const kiln_gpu_tiling *t, const kiln_gpu_tile *tile) {
    int64_t points = 1;
    for (uint32_t n = 0; n < t->tiled; n++) points *= tile->points[n];
    return points;
}

/* ---- regions of operands --------------------------------------------------------------------- */

int64_t kiln_gpu_region(const kiln_gpu_tiling *t, const kiln_gpu_operand *o, uint32_t d,
                        const kiln_gpu_tile *tile, int64_t steps) {
    int64_t size = o->fixed[d] + o->along_k[d] * (steps - 1);
    for (uint32_t n = 0; n < t->tiled; n++)
        size += o->along_tile[d][n] * (tile->threads[n] * tile->points[n] - 1);
    return size;
}

/* The region that a group reads of an operand. */
typedef struct region {
    int64_t elements;
    int64_t outermost; /* of the outermost dimension that has more than one */
} region;

static region region_of(const kiln_gpu_tiling *t, const kiln_gpu_operand *o,
                        const kiln_gpu_tile *tile, int64_t steps) {
    region r = {.elements = 1, .outermost = 1};
    for (uint32_t d = 0; d < o->rank; d++) {
        const int64_t size = kiln_gpu_region(t, o, d, tile, steps);
        if (r.outermost == 1) r.outermost = size;
        r.elements *= size;
    }
    return r;
}

/* Elements of the whole slices of the outermost dimension that contain the first `copied`
 * elements. */
static int64_t slices_of(region r, int64_t copied) {
    const int64_t inner = r.elements / r.outermost;
    return KILN_MAX(parts_of(copied, inner), r.outermost) * inner;
}

/* The threads copy whole rounds: if the last one is not full, lowering allocates room for a full
 * one, in whole slices of the outermost dimension. */
typedef struct copying {
    int64_t rounds;   /* of a thread, of o->fetch elements each */
    int64_t elements; /* that room is allocated for */
} copying;

/* The threads of a plane copy one step of k; `times`: planes that each thread copies. */
static copying copying_of_planes(const kiln_gpu_operand *o, region plane, int64_t plane_threads,
                                 int64_t threads, int64_t steps) {
    const int64_t at_once = plane_threads * o->fetch, places = parts_of(plane.elements, at_once),
                  together = threads / plane_threads, times = parts_of(steps, together);
    return (copying){.rounds = places * times,
                     .elements = times * together * slices_of(plane, places * at_once)};
}

static copying copying_of(const kiln_gpu_tiling *t, const kiln_gpu_operand *o,
                          const kiln_gpu_tile *tile, int64_t threads, int64_t steps) {
    if (tile->plane > 0 && o->block_dim >= 0)
        return copying_of_planes(o, region_of(t, o, tile, 1), tile->plane, threads, steps);
    const region all = region_of(t, o, tile, steps);
    const int64_t at_once = threads * o->fetch, rounds = parts_of(all.elements, at_once);
    return (copying){.rounds = rounds, .elements = slices_of(all, rounds * at_once)};
}

/* Whether offsets of a thread's copies are no sums of digits: the elements within a dimension are
 * neither a divisor nor a multiple of those that all threads copy at once. */
static bool is_odd(const kiln_gpu_tiling *t, const kiln_gpu_operand *o, const kiln_gpu_tile *tile,
                   int64_t threads, int64_t steps) {
    const bool plane = tile->plane > 0 && o->block_dim >= 0;
    const int64_t at_once = (plane ? tile->plane : threads) * o->fetch;
    int64_t within = o->packed ? kiln_gpu_region(t, o, (uint32_t)o->along, tile, steps) : 1;
    bool odd = false;
    for (uint32_t d = o->rank; d-- > 0;) {
        odd |= at_once % within != 0 && within % at_once != 0;
        if ((!plane || (int)d != o->block_dim) && (!o->packed || (int)d != o->along))
            within *= kiln_gpu_region(t, o, d, tile, steps);
    }
    return odd;
}

int64_t kiln_gpu_rounds(const kiln_gpu_tiling *t, const kiln_gpu_operand *o,
                        const kiln_gpu_tile *tile, int64_t steps) {
    return copying_of(t, o, tile, kiln_gpu_group_threads(t, tile), steps).rounds;
}

int64_t kiln_gpu_copied_elements(const kiln_gpu_tiling *t, const kiln_gpu_operand *o,
                                 const kiln_gpu_tile *tile, int64_t steps) {
    return copying_of(t, o, tile, kiln_gpu_group_threads(t, tile), steps).elements;
}

int64_t kiln_gpu_shared_bytes(const kiln_gpu_tiling *t, const kiln_gpu_tile *tile, int64_t steps) {
    int64_t bytes = 0;
    for (uint32_t a = 0; a < t->operand_count; a++)
        bytes += kiln_gpu_copied_elements(t, &t->operand[a], tile, steps) * t->operand[a].bytes;
    return bytes;
}

int64_t kiln_gpu_choose_plane(const kiln_gpu_tiling *t, const kiln_gpu_tile *tile, int64_t steps) {
    const int64_t threads = kiln_gpu_group_threads(t, tile);
    region plane[KILN_GPU_COPIES_MAX];
    int64_t least = INT64_MAX, best = threads;
    for (uint32_t a = 0; a < t->operand_count; a++)
        plane[a] = region_of(t, &t->operand[a], tile, 1);
    for (int64_t dealt = threads; dealt > 0; dealt /= 2) {
        int64_t rounds = 0;
        for (uint32_t a = 0; a < t->operand_count; a++)
            if (t->operand[a].block_dim >= 0)
                rounds += copying_of_planes(&t->operand[a], plane[a], dealt, threads, steps).rounds;
        if (rounds < least) least = rounds, best = dealt;
    }
    return best;
}

bool kiln_gpu_is_pitched(const kiln_gpu_operand *o) {
    const bool turned = o->along + 1 != (int)o->rank && !o->packed;
    return turned || o->pitch * o->bytes < KILN_GPU_PITCH_BYTES; /* or windows read them */
}

#define EXCHANGE_WAYS 8 /* vectors of 16 bytes in all banks */

int64_t kiln_gpu_exchange_ways(const kiln_gpu_operand *o) {
    const bool turned = o->along + 1 != (int)o->rank && !o->packed,
               whole = o->pitch * o->bytes == KILN_GPU_PITCH_BYTES && o->fixed[o->along] == 1 &&
                       o->along_k[o->along] == 0;
    return turned && whole ? EXCHANGE_WAYS : 1;
}

/* Bytes of rows in which vectors are exchanged: whole sets of them. */
static int64_t exchanged_bytes_of(const kiln_gpu_operand *o, int64_t rows, int64_t row) {
    const int64_t set = kiln_gpu_exchange_ways(o) * o->pitch;
    return rows * parts_of(row, set) * set * o->bytes;
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* Distinct elements of the operand that a thread's points read while `part` steps of reduced
 * iterator `first` run, and all of those behind it. */
static int64_t elements_of(const kiln_gpu_tiling *t, const kiln_gpu_operand *o,
                           const kiln_gpu_tile *tile, int first, int64_t part) {
    const kiln_block_info *b = &t->s->program->block.data[t->block];
    int64_t elements = 1, values, span;
    for (uint32_t d = 0; d < o->rank; d++) {
        kiln_spread spread = {.count = 0};
        for (uint32_t n = 0; n < t->tiled; n++)
            if (o->along_tile[d][n])
                kiln_spread_add(&spread, &(kiln_form_term){.extent = tile->points[n],
                                                           .coefficient = o->along_tile[d][n]});
        for (int i = first; i < (int)b->iter_count; i++)
            if (b->iter[i].reduce && i != t->k && o->coefficient[d][i])
                kiln_spread_add(&spread,
                                &(kiln_form_term){.extent = i == first ? part : b->iter[i].extent,
                                                  .coefficient = o->coefficient[d][i]});
        kiln_spread_measure(&spread, &values, &span);
        elements *= values;
    }
    return elements;
}

/* The most elements of the operand that the first half of some taps has loaded and the others read
 * again. */
static int64_t live_of(const kiln_gpu_tiling *t, const kiln_gpu_operand *o,
                       const kiln_gpu_tile *tile) {
    const kiln_block_info *b = &t->s->program->block.data[t->block];
    int64_t most = 0;
    for (int i = 0; i < (int)b->iter_count; i++) {
        const int64_t taps = b->iter[i].extent;
        if (!b->iter[i].reduce || i == t->k || taps < 2) continue;
        const int64_t again = elements_of(t, o, tile, i, taps / 2) +
                              elements_of(t, o, tile, i, taps - taps / 2) -
                              elements_of(t, o, tile, i, taps);
        most = KILN_MAX(most, again);
    }
    return most;
}

int64_t kiln_gpu_live(const kiln_gpu_tiling *t, const kiln_gpu_tile *tile) {
    int64_t most = 0;
    for (uint32_t a = 0; a < t->operand_count; a++)
        most = KILN_MAX(most, live_of(t, &t->operand[a], tile));
    return most;
}

kiln_gpu_needs kiln_gpu_needs_of(const kiln_gpu_tiling *t, const kiln_gpu_tile *tile,
                                 int64_t block) {
    const kiln_buffer sums = t->pattern.to.buffer;
    const int64_t points = kiln_gpu_points(t, tile), columns = points / tile->points[0],
                  bytes = (int64_t)kiln_dtype_size(t->s->program->buffer.data[sums].dtype);
    kiln_gpu_needs needs = {
        .block = block,
        .threads = kiln_gpu_group_threads(t, tile),
        .points = points,
        .registers = (points + 2 * tile->points[0] + KILN_MAX(2 * columns, tile->live)) *
                         parts_of(bytes, 4) +
                     REGISTERS_BESIDE,
    };
    for (uint32_t a = 0; a < t->operand_count; a++) {
        const kiln_gpu_operand *o = &t->operand[a];
        const copying copy = copying_of(t, o, tile, needs.threads, block);
        const int64_t row = kiln_gpu_region(t, o, (uint32_t)o->along, tile, block),
                      rows = copy.elements / row,
                      bytes_pitched = ((rows + 1) * o->pitch + copy.elements) * o->bytes;
        needs.rounds[a] = copy.rounds;
        needs.copied_bytes += copy.elements * o->bytes;
        needs.stage_bytes += bytes_pitched;
        needs.exchanged_bytes += kiln_gpu_exchange_ways(o) > 1
                                     ? exchanged_bytes_of(o, parts_of(copy.elements, row), row)
                                     : bytes_pitched;
        needs.fetched_words += copy.rounds * parts_of(o->fetch * o->bytes, 4);
        needs.places += is_odd(t, o, tile, needs.threads, block) ? copy.rounds * o->fetch : 0;
        needs.holds_too_many |= copy.rounds * o->fetch > KILN_PIPELINE_STAGED_MAX;
    }
    return needs;
}

int64_t kiln_gpu_tile_registers(const kiln_gpu_needs *needs, int64_t stages) {
    const int64_t fetched = needs->fetched_words;
    return needs->registers +
           (stages == 2 ? fetched + PLACE_WORDS * needs->places : KILN_MIN(fetched, 16));
}
