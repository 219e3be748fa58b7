/* The plan of a register tile: which iterators become lanes, rows, columns and blocks, and what is
 * left to a search. Private to sched/. */
#ifndef KILN_COMPILER_CORE_SCHED_TILE_H
#define KILN_COMPILER_CORE_SCHED_TILE_H

#include "compiler-core/ir/intrinsic.h"
#include "compiler-core/sched/maker.h"

typedef struct kiln_tile {
    kiln_maker *m;
    kiln_block block;
    kiln_pattern pattern;
    int weights, data; /* positions in pattern.from, or -1 */
    int given_v;       /* what v must be, or -1 */
    int v, mh, mw, k; /* iterators: lanes, rows and columns of the tile, blocked reduction; or -1 */
    int tap; /* reduce iterator that slides over the columns, when data is loaded as vectors; or -1
              */
    int64_t lanes;
    bool packs;                /* v belongs to `weights` alone: broadcast data, packed weights */
    bool plain;                /* tensor intrinsics are not wanted */
    const kiln_intrinsic *dot; /* takes a vector of weights and as many steps of k; NULL: none */
    const char *tile;          /* sampler of (mh, mw, vectors) */
    /* Sampler of (reduce block, unrolled steps, lanes of the padding copy); with `dot` also of the
     * block in steps of the instruction. */
    const char *steps;
} kiln_tile;

static inline bool kiln_tile_has(uint32_t mask, int i) { return i >= 0 && (mask >> i & 1); }
/* 1 for no iterator. */
static inline int64_t kiln_tile_extent(const kiln_tile *t, int i) {
    return i < 0 ? 1 : t->m->replay.p->block.data[t->block].iter[i].extent;
}
static inline uint32_t kiln_tile_rank(const kiln_tile *t, const kiln_access *a) {
    return t->m->replay.p->buffer.data[a->buffer].shape.rank;
}
static inline kiln_role kiln_tile_role(const kiln_tile *t, const kiln_access *a) {
    return t->m->replay.p->buffer.data[a->buffer].role;
}

/* Fills in the plan for `block` of `m`'s program; false when no iterator can be lanes. */
bool kiln_tile_analyse(kiln_tile *t);
/* Whether the lanes' iterator alone indexes its dimension of the output. */
bool kiln_tile_can_pad(const kiln_tile *t);

/* Steps of the reduction that one instruction takes. */
static inline int64_t kiln_tile_stride(const kiln_tile *t) { return t->dot ? t->dot->steps : 1; }

/* Whether all weights stay in the second cache and the data does not: then rows of outputs are
 * finished, with all weights, before the next, so that the data is fetched once. Otherwise one
 * panel of weights comes after the other. */
bool kiln_tile_keeps_weights(const kiln_tile *t);
/* Whether the weights come from beyond the second cache, so that fetching them ahead pays. */
bool kiln_tile_fetches_ahead(const kiln_tile *t);
/* Preferred tiles of rows a round; `rows_loop` runs over all of them. */
int64_t kiln_tile_rows_a_round(const kiln_tile *t, const char *rows_loop);

/* Whether a panel of weights exceeds the second cache, so that a reduction in parts pays: a part of
 * the panel stays there while all tiles use it. */
bool kiln_tile_wants_parts(const kiln_tile *t);

/* Samplers; each returns the sampler's name. */
/* (steps, parts) of the blocked reduction. */
const char *kiln_tile_sample_parts(kiln_tile *t);
const char *kiln_tile_sample_registers(kiln_tile *t);
const char *kiln_tile_sample_steps(kiln_tile *t);
const char *kiln_tile_sample_block(kiln_tile *t, int64_t extent);
void kiln_tile_split_rounds(kiln_tile *t, const char *tiles_loop, int64_t preferred);

#endif
