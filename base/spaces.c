#include "base/spaces.h"

static const kiln_memory_row rows[KILN_MEMORY_SPACES_END] = {
#define X(id, number, name, seen, capacity, alignment, allocator, doc)           \
    [number] = {name,      KILN_SEEN_##seen,           KILN_CAPACITY_##capacity, \
                alignment, KILN_ALLOCATOR_##allocator, doc},
#include "base/spaces.def"
#undef X
};

const kiln_memory_row *kiln_memory_row_of(kiln_memory_space space) {
    bool known = (unsigned)space < KILN_MEMORY_SPACES_END && rows[space].name;
    return known ? &rows[space] : NULL;
}

kiln_memory_space kiln_memory_find(kiln_str name) {
    for (unsigned i = 0; i < KILN_MEMORY_SPACES_END; i++)
        if (rows[i].name && kiln_str_is(name, rows[i].name)) return (kiln_memory_space)i;
    return KILN_MEMORY_SPACES_END;
}
