#include "base/layout.h"

#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/integer.h"

#define DIVISOR_MAX ((int64_t)1 << 31)

/* Number after one character of a piece ("/16", "%4"), cut off its front; false when it is
 * malformed. */
static bool take_number(kiln_str *rest, int64_t *out_number) {
    size_t end = 1;
    while (end < rest->size && rest->data[end] >= '0' && rest->data[end] <= '9') end++;
    bool valid = kiln_str_to_i64(kiln_str_slice(*rest, 1, end), out_number);
    *rest = kiln_str_slice(*rest, end, rest->size);
    return valid && *out_number >= 0 && *out_number <= DIVISOR_MAX;
}

/* "d1", "d1/16", "d1%16" or "d1/4%4", cut off the front. */
static bool take_part(kiln_str *text, uint32_t rank, uint32_t *out_dim, int64_t *out_divisor,
                      int64_t *out_modulus) {
    int64_t dim = 0;
    *out_divisor = 1;
    *out_modulus = 0;
    if (!kiln_str_starts(*text, "d") || !take_number(text, &dim) || dim >= (int64_t)rank)
        return false;
    if (kiln_str_starts(*text, "/") && (!take_number(text, out_divisor) || *out_divisor < 1))
        return false;
    if (kiln_str_starts(*text, "%") && (!take_number(text, out_modulus) || *out_modulus < 1))
        return false;
    *out_dim = (uint32_t)dim;
    return true;
}

static bool parse_piece(kiln_str text, uint32_t rank, kiln_layout_piece *out_piece) {
    kiln_layout_piece piece = {.dim = 0};
    if (!take_part(&text, rank, &piece.dim, &piece.divisor, &piece.modulus)) return false;
    if (kiln_str_starts(text, "^")) {
        text = kiln_str_slice(text, 1, text.size);
        if (!take_part(&text, rank, &piece.xor_dim, &piece.xor_divisor, &piece.xor_modulus) ||
            piece.xor_modulus == 0)
            return false;
    }
    if (kiln_str_starts(text, "+") && (!take_number(&text, &piece.pitch) || piece.pitch < 1))
        return false;
    *out_piece = piece;
    return text.size == 0;
}

/* Checks the pieces of one dimension: each must continue the previous one. */
static kiln_status check_dimension(const kiln_layout *layout, uint32_t dim) {
    int64_t divisor_before = 0; /* 0: no piece seen yet */
    for (uint32_t j = 0; j < layout->piece_count; j++) {
        const kiln_layout_piece *piece = &layout->piece[j];
        if (piece->dim != dim) continue;
        if ((divisor_before == 0) != (piece->modulus == 0))
            return KILN_ERROR(INVALID_ARGUMENT,
                              "the first piece of d%u has no modulus and all others have one", dim);
        if (divisor_before && piece->divisor * piece->modulus != divisor_before)
            return KILN_ERROR(INVALID_ARGUMENT, "d%u/%lld%%%lld does not follow d%u/%lld", dim,
                              (long long)piece->divisor, (long long)piece->modulus, dim,
                              (long long)divisor_before);
        divisor_before = piece->divisor;
    }
    if (divisor_before == 0) return KILN_ERROR(INVALID_ARGUMENT, "d%u is missing", dim);
    if (divisor_before != 1)
        return KILN_ERROR(INVALID_ARGUMENT, "the last piece of d%u divides by %lld, not 1", dim,
                          (long long)divisor_before);
    return KILN_OK;
}

/* The other dimension's index must not depend on an XOR itself. */
static kiln_status check_xor(const kiln_layout *layout, const kiln_layout_piece *piece) {
    if (piece->xor_modulus == 0) return KILN_OK;
    if (piece->xor_modulus & (piece->xor_modulus - 1))
        return KILN_ERROR(INVALID_ARGUMENT, "an XOR of %lld ways, which is no power of two",
                          (long long)piece->xor_modulus);
    for (uint32_t j = 0; j < layout->piece_count; j++)
        if (piece->xor_dim == piece->dim ||
            (layout->piece[j].dim == piece->xor_dim && layout->piece[j].xor_modulus))
            return KILN_ERROR(INVALID_ARGUMENT, "d%u is XORed with d%u, which depends on it",
                              piece->dim, piece->xor_dim);
    return KILN_OK;
}

static bool is_row_major(const kiln_layout *layout) {
    for (uint32_t j = 0; j < layout->piece_count; j++)
        if (layout->piece[j].dim != j || layout->piece[j].divisor != 1 ||
            layout->piece[j].modulus != 0)
            return false;
    return kiln_layout_is_plain(layout);
}

bool kiln_layout_is_plain(const kiln_layout *layout) {
    for (uint32_t j = 0; j < layout->piece_count; j++)
        if (layout->piece[j].pitch || layout->piece[j].xor_modulus) return false;
    return true;
}

kiln_status kiln_layout_parse(kiln_str text, uint32_t rank, kiln_layout *out_layout) {
    KILN_CHECK(rank <= KILN_RANK_MAX);
    kiln_layout layout = {0};
    kiln_str rest = text;
    if (kiln_str_is(text, "row")) rest.size = 0;
    while (rest.size) {
        bool last = kiln_str_find_char(rest, ',') == rest.size;
        kiln_str piece = kiln_str_cut(&rest, ',');
        if (layout.piece_count == KILN_RANK_MAX)
            return KILN_ERROR(INVALID_ARGUMENT, "layout '%.*s' has more than %d pieces",
                              KILN_STR_ARG(text), KILN_RANK_MAX);
        if (!parse_piece(piece, rank, &layout.piece[layout.piece_count++]) ||
            (!last && rest.size == 0))
            return KILN_ERROR(INVALID_ARGUMENT,
                              "layout '%.*s': '%.*s' is not a piece of a tensor with %u dimensions",
                              KILN_STR_ARG(text), KILN_STR_ARG(piece), rank);
    }
    kiln_status st = KILN_OK;
    for (uint32_t dim = 0; dim < rank && layout.piece_count && !st; dim++)
        st = check_dimension(&layout, dim);
    for (uint32_t j = 0; j < layout.piece_count && !st; j++)
        st = check_xor(&layout, &layout.piece[j]);
    if (st) return kiln_status_note(st, "layout '%.*s'", KILN_STR_ARG(text));
    if (is_row_major(&layout)) layout = (kiln_layout){0}; /* one form for the identity */
    *out_layout = layout;
    return KILN_OK;
}

static void print_part(kiln_strbuf *out, uint32_t dim, int64_t divisor, int64_t modulus) {
    kiln_strbuf_printf(out, "d%u", dim);
    if (divisor != 1) kiln_strbuf_printf(out, "/%lld", (long long)divisor);
    if (modulus != 0) kiln_strbuf_printf(out, "%%%lld", (long long)modulus);
}

void kiln_layout_print(const kiln_layout *layout, kiln_strbuf *out) {
    if (layout->piece_count == 0) kiln_strbuf_text(out, "row");
    for (uint32_t j = 0; j < layout->piece_count; j++) {
        const kiln_layout_piece *piece = &layout->piece[j];
        if (j) kiln_strbuf_char(out, ',');
        print_part(out, piece->dim, piece->divisor, piece->modulus);
        if (piece->xor_modulus) {
            kiln_strbuf_char(out, '^');
            print_part(out, piece->xor_dim, piece->xor_divisor, piece->xor_modulus);
        }
        if (piece->pitch) kiln_strbuf_printf(out, "+%lld", (long long)piece->pitch);
    }
}

static bool pieces_equal(const kiln_layout_piece *a, const kiln_layout_piece *b) {
    return a->dim == b->dim && a->divisor == b->divisor && a->modulus == b->modulus &&
           a->pitch == b->pitch && a->xor_modulus == b->xor_modulus &&
           (!a->xor_modulus || (a->xor_dim == b->xor_dim && a->xor_divisor == b->xor_divisor));
}

bool kiln_layout_is_identity(const kiln_layout *layout) { return is_row_major(layout); }

bool kiln_layout_equal(const kiln_layout *a, const kiln_layout *b) {
    if (is_row_major(a) && is_row_major(b)) return true;
    if (a->piece_count != b->piece_count) return false;
    for (uint32_t j = 0; j < a->piece_count; j++)
        if (!pieces_equal(&a->piece[j], &b->piece[j])) return false;
    return true;
}

/* Places of a piece in memory. */
static int64_t places_of(const kiln_layout_piece *piece, const kiln_shape *logical) {
    int64_t places = piece->modulus;
    if (!places) {
        const int64_t extent = logical->dim[piece->dim];
        places = extent / piece->divisor + (extent % piece->divisor != 0);
    }
    if (piece->xor_modulus) places = KILN_ALIGN_UP(places, piece->xor_modulus);
    return places + piece->pitch;
}

kiln_shape kiln_layout_physical(const kiln_layout *layout, const kiln_shape *logical) {
    if (layout->piece_count == 0) return *logical;
    kiln_shape physical = {.rank = layout->piece_count};
    for (uint32_t j = 0; j < layout->piece_count; j++) {
        KILN_CHECK(layout->piece[j].dim < logical->rank);
        physical.dim[j] = places_of(&layout->piece[j], logical);
    }
    return physical;
}

/* The pieces that determine places, each with its extent as modulus: drops pieces of extent 1, and
 * joins neighbours that are contiguous in one dimension and in memory. */
static uint32_t essential_pieces(const kiln_layout *layout, const kiln_shape *logical,
                                 kiln_layout_piece *out) {
    kiln_shape physical = kiln_layout_physical(layout, logical);
    uint32_t count = 0;
    for (uint32_t j = 0; j < physical.rank; j++) {
        kiln_layout_piece piece = {.dim = j, .divisor = 1};
        if (layout->piece_count) piece = layout->piece[j];
        piece.modulus = physical.dim[j];
        if (piece.modulus == 1) continue;
        kiln_layout_piece *before = count ? &out[count - 1] : NULL;
        bool joins = before && before->dim == piece.dim &&
                     before->divisor == piece.divisor * piece.modulus && !piece.pitch &&
                     !piece.xor_modulus && !before->xor_modulus;
        if (joins)
            *before = (kiln_layout_piece){.dim = piece.dim,
                                          .divisor = piece.divisor,
                                          .modulus = before->modulus * piece.modulus,
                                          .pitch = before->pitch * piece.modulus};
        else
            out[count++] = piece;
    }
    return count;
}

bool kiln_layout_same_places(const kiln_layout *a, const kiln_layout *b,
                             const kiln_shape *logical) {
    kiln_layout_piece one[KILN_RANK_MAX], other[KILN_RANK_MAX];
    if (kiln_layout_equal(a, b)) return true;
    uint32_t count = essential_pieces(a, logical, one);
    if (count != essential_pieces(b, logical, other)) return false;
    for (uint32_t j = 0; j < count; j++)
        if (!pieces_equal(&one[j], &other[j])) return false;
    return true;
}

/* The contribution of one dimension's index to the offset. Without XORs the offset is the sum over
 * dimensions. */
static int64_t dimension_offset(const kiln_layout *layout, const kiln_shape *physical, uint32_t dim,
                                int64_t index) {
    int64_t offset = 0, stride = 1;
    for (uint32_t j = physical->rank; j-- > 0; stride *= physical->dim[j]) {
        if (layout->piece_count == 0) {
            if (j == dim) offset += index * stride;
            continue;
        }
        const kiln_layout_piece *piece = &layout->piece[j];
        if (piece->dim != dim) continue;
        int64_t part = index / piece->divisor;
        offset += (piece->modulus ? part % piece->modulus : part) * stride;
    }
    return offset;
}

int64_t kiln_layout_offset(const kiln_layout *layout, const kiln_shape *logical,
                           const int64_t *index) {
    int64_t offset = 0;
    if (layout->piece_count == 0)
        for (uint32_t d = 0; d < logical->rank; d++) offset = offset * logical->dim[d] + index[d];
    for (uint32_t j = 0; j < layout->piece_count; j++) {
        const kiln_layout_piece *piece = &layout->piece[j];
        int64_t at = index[piece->dim];
        if (piece->divisor > 1) at /= piece->divisor;
        if (piece->modulus) at %= piece->modulus;
        if (piece->xor_modulus)
            at ^= index[piece->xor_dim] / piece->xor_divisor % piece->xor_modulus;
        if (j) offset *= places_of(piece, logical);
        offset += at;
    }
    return offset;
}

/* Copies element by element, for layouts with XORs. */
static void copy_elements(const kiln_layout *layout, const kiln_shape *logical, size_t size,
                          char *row_major, char *physical, bool packs) {
    int64_t index[KILN_RANK_MAX] = {0};
    for (int64_t i = 0; i < kiln_shape_count(logical); i++) {
        char *there = physical + (size_t)kiln_layout_offset(layout, logical, index) * size;
        char *here = row_major + (size_t)i * size;
        memcpy(packs ? there : here, packs ? here : there, size);
        for (uint32_t dim = logical->rank; dim-- > 0;) {
            if (++index[dim] < logical->dim[dim]) break;
            index[dim] = 0;
        }
    }
}

/* dimension_offset of every index of every dimension: a copy then costs one addition per element.
 */
typedef struct offset_table {
    int64_t *of[KILN_RANK_MAX]; /* [dim][index] */
} offset_table;

static void offset_table_init(offset_table *table, const kiln_layout *layout,
                              const kiln_shape *logical) {
    kiln_shape physical = kiln_layout_physical(layout, logical);
    for (uint32_t dim = 0; dim < logical->rank; dim++) {
        table->of[dim] = kiln_alloc((size_t)logical->dim[dim] * sizeof(int64_t));
        for (int64_t i = 0; i < logical->dim[dim]; i++)
            table->of[dim][i] = dimension_offset(layout, &physical, dim, i);
    }
}

static void offset_table_deinit(offset_table *table, const kiln_shape *logical) {
    for (uint32_t dim = 0; dim < logical->rank; dim++) kiln_free(table->of[dim]);
}

/* Copies one row of the last logical dimension, to the layout if `packs`, else from it. */
static void copy_row(const int64_t *offset, int64_t count, size_t size, char *row, char *physical,
                     bool packs) {
    for (int64_t i = 0; i < count; i++) {
        char *there = physical + (size_t)offset[i] * size, *here = row + (size_t)i * size;
        char *to = packs ? there : here;
        const char *from = packs ? here : there;
        switch (size) { /* constant sizes become single moves */
        case 1: *to = *from; break;
        case 2: memcpy(to, from, 2); break;
        case 4: memcpy(to, from, 4); break;
        default: memcpy(to, from, size); break;
        }
    }
}

static void copy_all(const kiln_layout *layout, const kiln_shape *logical, size_t size,
                     char *row_major, char *physical, bool packs) {
    static const int64_t scalar_offset[1] = {0};
    int64_t count = kiln_shape_count(logical), index[KILN_RANK_MAX] = {0};
    if (count == 0) return;
    if (!kiln_layout_is_plain(layout)) {
        copy_elements(layout, logical, size, row_major, physical, packs);
        return;
    }
    uint32_t outer = logical->rank ? logical->rank - 1 : 0;
    int64_t row_count = logical->rank ? logical->dim[outer] : 1;
    offset_table table;
    offset_table_init(&table, layout, logical);
    for (int64_t done = 0; done < count; done += row_count) {
        int64_t base = 0;
        for (uint32_t dim = 0; dim < outer; dim++) base += table.of[dim][index[dim]];
        copy_row(logical->rank ? table.of[outer] : scalar_offset, row_count, size,
                 row_major + (size_t)done * size, physical + (size_t)base * size, packs);
        for (uint32_t dim = outer; dim-- > 0;) { /* the odometer of the outer dimensions */
            if (++index[dim] < logical->dim[dim]) break;
            index[dim] = 0;
        }
    }
    offset_table_deinit(&table, logical);
}

void kiln_layout_pack(const kiln_layout *layout, const kiln_shape *logical, kiln_dtype dtype,
                      const void *row_major, void *physical) {
    copy_all(layout, logical, kiln_dtype_size(dtype), (char *)(uintptr_t)row_major, physical, true);
}

void kiln_layout_unpack(const kiln_layout *layout, const kiln_shape *logical, kiln_dtype dtype,
                        const void *physical, void *row_major) {
    copy_all(layout, logical, kiln_dtype_size(dtype), row_major, (char *)(uintptr_t)physical,
             false);
}
