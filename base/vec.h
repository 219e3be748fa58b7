/* Typed growable arrays. Declare with KILN_VEC(type), zero-initialise, push. Two owners exist: the
 * heap (kiln_vec_push, kiln_vec_deinit) and an arena (kiln_vec_push_in; growth leaves the old array
 * in the arena). Never mix the two on one vector. */
#ifndef KILN_BASE_VEC_H
#define KILN_BASE_VEC_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/arena.h"

#define KILN_VEC(type)            \
    struct {                      \
        type *data;               \
        uint32_t count, capacity; \
    }

#define kiln_vec_push(v, value)                                                               \
    do {                                                                                      \
        if ((v)->count == (v)->capacity)                                                      \
            (v)->data =                                                                       \
                kiln_vec_grow((v)->data, sizeof *(v)->data, &(v)->capacity, (v)->count + 1u); \
        (v)->data[(v)->count++] = (value);                                                    \
    } while (0)

#define kiln_vec_push_in(arena, v, value)                                                       \
    do {                                                                                        \
        if ((v)->count == (v)->capacity)                                                        \
            (v)->data = kiln_vec_grow_in((arena), (v)->data, sizeof *(v)->data, &(v)->capacity, \
                                         (v)->count + 1u);                                      \
        (v)->data[(v)->count++] = (value);                                                      \
    } while (0)

#define kiln_vec_reserve(v, n)                                                            \
    do {                                                                                  \
        if ((v)->capacity < (n))                                                          \
            (v)->data = kiln_vec_grow((v)->data, sizeof *(v)->data, &(v)->capacity, (n)); \
    } while (0)

/* Takes out the first item that equals `value`, if there is one; the others keep their order. */
#define kiln_vec_remove(v, value)                                             \
    do {                                                                      \
        uint32_t vec_at = 0;                                                  \
        while (vec_at < (v)->count && (v)->data[vec_at] != (value)) vec_at++; \
        if (vec_at == (v)->count) break;                                      \
        memmove(&(v)->data[vec_at], &(v)->data[vec_at + 1],                   \
                (--(v)->count - vec_at) * sizeof *(v)->data);                 \
    } while (0)

#define kiln_vec_pop(v) ((v)->data[--(v)->count])
#define kiln_vec_last(v) ((v)->data[(v)->count - 1])
#define kiln_vec_deinit(v) (kiln_free((v)->data), (v)->data = NULL, (v)->count = (v)->capacity = 0)

/* For the macros above: room for at least `at_least` items, on the heap or in an arena, where the
 * old items are left behind. Returns the items and sets `*capacity`. */
void *kiln_vec_grow(void *data, size_t item_bytes, uint32_t *capacity, uint32_t at_least);
void *kiln_vec_grow_in(kiln_arena *arena, void *data, size_t item_bytes, uint32_t *capacity,
                       uint32_t at_least);
/* Frees what the heap gave; accepts NULL. */
void kiln_free(void *memory);

#endif
