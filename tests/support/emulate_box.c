#include "tests/support/emulate_box.h"

#include <stdbool.h>
#include <stddef.h>

#define PLACE_BYTES 128
#define PERMUTED_BYTES 1024 /* after so many the permutation begins anew */
#define UNIT_BYTES 16
#define WAYS 8

void emulate_map_make(const kiln_manifest_map *map, const void *base, struct emulate_map *out) {
    *out = (struct emulate_map){.base = (const char *)base + map->offset_bytes,
                                .rank = map->rank,
                                .is_permuted = map->is_permuted};
    for (uint32_t i = 0; i < map->rank; i++) {
        out->size[i] = map->size[i];
        out->stride[i] = map->stride_bytes[i];
        out->box[i] = map->box[i];
    }
}

static const char *check(const struct emulate_map *m, const char *to) {
    const unsigned long long row = m->box[0] * m->stride[0];
    bool fits = true;
    for (unsigned i = 0; i < m->rank; i++)
        fits &= m->box[i] >= 1 && m->box[i] <= 256 && (i == 0 || m->stride[i] % UNIT_BYTES == 0);
    if ((size_t)m->base % UNIT_BYTES != 0) return "a map's memory is not aligned to 16 bytes";
    if (!fits) return "a map has sizes that a copy unit does not take";
    if (row % UNIT_BYTES != 0 || (m->is_permuted && row != PLACE_BYTES))
        return "rows of a box are no whole units, or no 128 bytes with permuted units";
    if ((size_t)to % (m->is_permuted ? PERMUTED_BYTES : PLACE_BYTES) != 0)
        return "a box is not aligned in shared memory";
    return NULL;
}

const char *emulate_box_copy(const struct emulate_map *m, char *to, const int *coordinate,
                             void (*copy)(void *context, void *to, const void *from,
                                          unsigned bytes),
                             void *context) {
    const unsigned element = (unsigned)m->stride[0], row_bytes = m->box[0] * element;
    unsigned long long count = 1;
    const char *wrong = check(m, to);
    for (unsigned i = 0; i < m->rank; i++) count *= m->box[i];
    for (unsigned long long n = 0; n < count && !wrong; n++) {
        const char *from = m->base;
        bool is_inside = true;
        unsigned long long rest = n;
        for (unsigned i = 0; i < m->rank; i++) {
            const long long at = coordinate[i] + (long long)(rest % m->box[i]);
            rest /= m->box[i];
            is_inside &= at >= 0 && at < (long long)m->size[i];
            from += at * (long long)m->stride[i];
        }
        unsigned long long place = n * element;
        if (m->is_permuted) place ^= place / row_bytes % WAYS * UNIT_BYTES;
        copy(context, to + place, is_inside ? from : NULL, element);
    }
    return wrong;
}
