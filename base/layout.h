/* Physical layouts as index maps: how the elements of a logical tensor lie in memory. A layout
 * lists the physical dimensions, outermost first; each takes a slice of one logical dimension:
 *
 *     physical[j] = (logical[dim_j] / divisor_j) % extent_j
 *
 * Text: "d0,d1/16,d2,d3,d1%16" is NCHW16c; "d1/16,d0,d1%16" a packed matrix. A dimension that is
 * split lists its pieces from the largest divisor to the smallest, each divisor = extent * divisor
 * of the next; the last piece has divisor 1. Physical extents are ceil(logical / divisor) for the
 * first piece of a dimension, so a split that does not divide leaves padding elements, whose
 * contents are unspecified; those of constants are zeros.
 *
 * Two more things keep rows of a tile in shared memory from falling into the same banks. A piece
 * with a pitch, "d1+4", takes 4 places more than it has values, so outer pieces lie further apart.
 * A piece with an XOR, "d0,d1/4^d0%8,d1%4", is placed at its value XOR a part of another dimension:
 * units of 4 change places from row to row, in 8 ways. The other dimension must have no XOR itself,
 * and the extent is a multiple of the ways, a power of two.
 *
 * Used by the compiler (transform_layout), manifests, boards and records.
 */
#ifndef KILN_BASE_LAYOUT_H
#define KILN_BASE_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/dtype.h"
#include "base/status.h"
#include "base/str.h"
#include "base/tensor.h"

typedef struct kiln_layout_piece {
    uint32_t dim;    /* logical dimension */
    int64_t divisor; /* >= 1 */
    int64_t
        modulus;   /* 0 for the first (outermost) piece of its dimension, else the piece's extent */
    int64_t pitch; /* places more than values */
    /* value ^ logical[xor_dim] / xor_divisor % xor_modulus; modulus 0: no XOR */
    uint32_t xor_dim;
    int64_t xor_divisor, xor_modulus;
} kiln_layout_piece;

/* piece_count 0 = row-major identity (whatever the rank). */
typedef struct kiln_layout {
    uint32_t piece_count;
    kiln_layout_piece piece[KILN_RANK_MAX];
} kiln_layout;

/* INVALID_ARGUMENT: does not parse, or is not a bijection as described above for `rank` dimensions.
 * The empty text and "row" are the identity. Modulus text "d1%16" after "d1/16"; middle pieces
 * "d1/4%4"; then the XOR, then the pitch. */
KILN_MUST_USE kiln_status kiln_layout_parse(kiln_str text, uint32_t rank, kiln_layout *out_layout);
void kiln_layout_print(const kiln_layout *layout, kiln_strbuf *out); /* identity prints "row" */
bool kiln_layout_is_identity(const kiln_layout *layout);
/* Whether no piece has a pitch or an XOR. */
bool kiln_layout_is_plain(const kiln_layout *layout);
bool kiln_layout_equal(const kiln_layout *a, const kiln_layout *b);
/* Whether the elements of a tensor of this shape lie at the same places in both:
 * "d0,d1/8,d2,d3,d1%8" is row-major where the last two dimensions are 1. */
bool kiln_layout_same_places(const kiln_layout *a, const kiln_layout *b, const kiln_shape *logical);
/* Extents in memory. */
kiln_shape kiln_layout_physical(const kiln_layout *layout, const kiln_shape *logical);
/* Element offset in memory of a logical index: [rank]. */
int64_t kiln_layout_offset(const kiln_layout *layout, const kiln_shape *logical,
                           const int64_t *index);
/* Copies between row-major logical data and physical data; padding elements are not written.
 * Sizes: logical [count(logical)], physical [count(physical)] elements of `dtype`. */
void kiln_layout_pack(const kiln_layout *layout, const kiln_shape *logical, kiln_dtype dtype,
                      const void *row_major, void *physical);
void kiln_layout_unpack(const kiln_layout *layout, const kiln_shape *logical, kiln_dtype dtype,
                        const void *physical, void *row_major);

#endif
