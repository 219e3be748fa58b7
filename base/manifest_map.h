/* Tensor maps of launches (base/manifest.h): their bytes in a manifest, what they may say, and
 * their text. Used by base/manifest.c; who makes maps can check them here. */
#ifndef KILN_BASE_MANIFEST_MAP_H
#define KILN_BASE_MANIFEST_MAP_H

#include "base/manifest.h"
#include "base/mpack.h"

/* Appends the map as a msgpack array: argument, offset, type, sizes, strides, box, whether it is
 * permuted. */
void kiln_manifest_map_write(const kiln_manifest_map *map, kiln_strbuf *out);
/* DATA_LOSS: no such array, or more than KILN_MAP_RANK_MAX dimensions. The values are not checked.
 */
KILN_MUST_USE kiln_status kiln_manifest_map_read(kiln_mpack_reader *r, kiln_manifest_map *out_map);

/* Checks what cuTensorMapEncodeTiled demands of type, sizes, strides and boxes.
 *
 * DATA_LOSS  the note names the dimension and the value */
KILN_MUST_USE kiln_status kiln_manifest_map_check_form(const kiln_manifest_map *map);
/* The same, and that all elements of the map are inside of `arg`, the argument that it describes.
 * `map->arg` is not looked at.
 *
 * DATA_LOSS  the note names the dimension and the value */
KILN_MUST_USE kiln_status kiln_manifest_map_check(const kiln_manifest_map *map,
                                                  const kiln_manifest_arg *arg);
/* "f16 from byte 0 size 4096x64x8 stride 8192,524288 box 64x64x1 permuted": strides in bytes, from
 * the second dimension on.
 */
void kiln_manifest_map_print(const kiln_manifest_map *map, kiln_strbuf *out);

#endif
