#include "vta/copy.h"

#define FIELD_MAX 65535u /* of x_size, y_size and x_stride */
#define PADDING_MAX 15u

typedef struct copying {
    const kiln_vta_copy *copy;
    uint64_t sram;  /* the next tile */
    uint64_t zeros; /* tiles of zeros from there on that are not written yet */
    kiln_arena *arena;
    kiln_vta_moves *moves;
} copying;

static void add_move(copying *c, kiln_vta_instruction in, uint64_t tiles) {
    in.opcode = c->copy->memory == KILN_VTA_OUT ? KILN_VTA_STORE : KILN_VTA_LOAD;
    in.memory = c->copy->memory;
    in.saturate = c->copy->saturate;
    in.sram_base = (uint32_t)c->sram;
    c->sram += tiles;
    kiln_vec_push_in(c->arena, c->moves, in);
}

/* Writes the zeros except the last `keep`, which become padding of the next instruction. */
static void add_zeros(copying *c, uint64_t keep) {
    while (c->zeros > keep) {
        const uint64_t left = c->zeros - keep;
        const uint32_t tiles = left > FIELD_MAX ? FIELD_MAX : (uint32_t)left;
        add_move(c, (kiln_vta_instruction){.x_size = tiles, .y_pad_0 = 1}, tiles);
        c->zeros -= tiles;
    }
    if (c->zeros == keep) c->zeros = 0;
}

/* A row of tiles that lie one behind the other. */
static void add_row(copying *c, uint64_t dram, uint64_t tiles) {
    while (tiles) {
        const uint32_t now = tiles > FIELD_MAX ? FIELD_MAX : (uint32_t)tiles;
        const uint32_t pad = c->zeros <= PADDING_MAX ? (uint32_t)c->zeros : 0;
        add_zeros(c, pad);
        add_move(c,
                 (kiln_vta_instruction){
                     .dram_base = (uint32_t)dram, .y_size = 1, .x_size = now, .x_pad_0 = pad},
                 now + pad);
        dram += now;
        tiles -= now;
    }
}

/* Rows of tiles with zeros around. */
static void add_rows(copying *c, const kiln_vta_copy_dim *y, const kiln_vta_copy_dim *x,
                     uint64_t dram) {
    const uint64_t columns = (uint64_t)x->before + x->extent + x->behind;
    const bool fits = x->before <= PADDING_MAX && x->behind <= PADDING_MAX &&
                      x->extent <= FIELD_MAX && (y->extent == 1 || y->stride <= FIELD_MAX);
    const uint32_t before = fits && y->before <= PADDING_MAX ? y->before : 0;
    const uint32_t behind = fits && y->behind <= PADDING_MAX ? y->behind : 0;
    c->zeros += (y->before - before) * columns;
    for (uint64_t row = 0, rows; row < y->extent; row += rows) {
        rows = fits && y->extent - row > FIELD_MAX ? FIELD_MAX : fits ? y->extent - row : 1;
        const uint64_t from = dram + row * y->stride;
        if (fits) {
            const uint32_t above = row == 0 ? before : 0;
            const uint32_t below = row + rows == y->extent ? behind : 0;
            add_zeros(c, 0);
            add_move(c,
                     (kiln_vta_instruction){.dram_base = (uint32_t)from,
                                            .y_size = (uint32_t)rows,
                                            .x_size = x->extent,
                                            .x_stride = y->extent == 1 ? x->extent : y->stride,
                                            .y_pad_0 = above,
                                            .y_pad_1 = below,
                                            .x_pad_0 = x->before,
                                            .x_pad_1 = x->behind},
                     (above + rows + below) * columns);
        } else {
            c->zeros += x->before;
            add_row(c, from, x->extent);
            c->zeros += x->behind;
        }
    }
    c->zeros += (y->behind - behind) * columns;
}

/* The last two dimensions are rows. */
static void add_dims(copying *c, const kiln_vta_copy_dim *dim, uint32_t count, uint64_t dram) {
    if (count == 2) {
        add_rows(c, &dim[0], &dim[1], dram);
        return;
    }
    uint64_t part = 1; /* tiles of the machine's memory in one round */
    for (uint32_t i = 1; i < count; i++)
        part *= (uint64_t)dim[i].before + dim[i].extent + dim[i].behind;
    c->zeros += dim->before * part;
    for (uint32_t i = 0; i < dim->extent; i++)
        add_dims(c, dim + 1, count - 1, dram + (uint64_t)i * dim->stride);
    c->zeros += dim->behind * part;
}

static bool has_zeros(const kiln_vta_copy_dim *dim) { return dim->before || dim->behind; }

/* Normalises the copy: at least two dimensions, the last with stride 1, and mergeable ones merged;
 * returns their number. */
static uint32_t simplify(const kiln_vta_copy *copy, kiln_vta_copy_dim *out) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < copy->dim_count; i++) {
        const kiln_vta_copy_dim *d = &copy->dim[i];
        if (d->extent == 1 && !has_zeros(d)) continue;
        kiln_vta_copy_dim *last = count ? &out[count - 1] : NULL;
        if (last && !has_zeros(last) && !has_zeros(d) &&
            last->stride == (uint64_t)d->extent * d->stride)
            *last = (kiln_vta_copy_dim){last->extent * d->extent, d->stride, 0, 0};
        else
            out[count++] = *d;
    }
    const kiln_vta_copy_dim one = {.extent = 1, .stride = 1};
    if (count == 0 || out[count - 1].stride != 1) out[count++] = one;
    if (count == 1) {
        out[1] = out[0];
        out[0] = one;
        count = 2;
    }
    return count;
}

void kiln_vta_copy_split(const kiln_vta_copy *copy, kiln_arena *arena, kiln_vta_moves *moves) {
    kiln_vta_copy_dim dim[KILN_VTA_COPY_DIMS_MAX + 1];
    copying c = {.copy = copy, .sram = copy->sram_base, .arena = arena, .moves = moves};
    uint64_t tiles = 1;
    bool is_empty = false;
    for (uint32_t i = 0; i < copy->dim_count; i++) {
        const kiln_vta_copy_dim *d = &copy->dim[i];
        tiles *= (uint64_t)d->before + d->extent + d->behind;
        is_empty |= d->extent == 0;
    }
    if (is_empty)
        c.zeros = tiles;
    else
        add_dims(&c, dim, simplify(copy, dim), copy->dram_base);
    add_zeros(&c, 0);
}
