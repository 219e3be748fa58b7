// Modules of several sizes (docs/how-to/sizes.md): which bucket runs a size, and rows between arrays of two sizes.

/** The bucket that runs `size`, by the rule of deploy/runtime/sizes.c; undefined: the module does not take it. */
export function chooseBucket({buckets, by_rows: byRows}, size) {
  const exact = buckets.find(bucket => bucket.size === size), larger = buckets.find(bucket => bucket.size >= size);
  if (exact || !byRows || !larger || !(size >= 1)) return exact;
  if (buckets.some(bucket => !bucket.ns)) return larger;
  const nsOf = bucket => bucket.ns * Math.ceil(size / bucket.size);
  return buckets.reduce((best, bucket) => (nsOf(bucket) < nsOf(best) ? bucket : best));
}

export function countOf(shape) {
  return shape.reduce((a, b) => a * b, 1);
}

/** The shape of a port in `size`, which need be no bucket's. */
export function shapeIn({shape, axis, factor}, size) {
  return axis === undefined ? shape : shape.map((extent, d) => (d === axis ? factor * size : extent));
}

/** The size in which a port with the dimension has so many elements; undefined: in none. */
export function sizeOf(port, length) {
  const size = length / countOf(shapeIn(port, 1));
  return Number.isInteger(size) ? size : undefined;
}

/** Copies `count` rows from row `first` on of an array of `extent` rows to row `firstTo` of one of `extentTo`. `port`: of both. */
export function copyRows({shape, axis, factor}, from, extent, first, to, extentTo, firstTo, count) {
  const outer = countOf(shape.slice(0, axis)), row = factor * countOf(shape.slice(axis + 1));
  for (let o = 0; o < outer; o++) {
    const begin = (o * extent + first) * row;
    to.set(from.subarray(begin, begin + count * row), (o * extentTo + firstTo) * row);
  }
}
