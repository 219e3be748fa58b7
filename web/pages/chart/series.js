// What charts are made of: best-so-far curves, outcomes, histograms. Pure.

/** Steps of the best so far: [[x, best]] where it falls, and a last point at the end. */
export function bestSoFar(points) {
  const steps = [];
  let best = Infinity;
  for (const [x, y] of points) {
    if (!(y > 0) || y >= best) continue;
    best = y;
    steps.push([x, y]);
  }
  const end = points.at(-1)?.[0];
  if (steps.length && end > steps.at(-1)[0]) steps.push([end, best]);
  return steps;
}

/** Indices of at most `most` points that keep the look of a cloud: the lowest and the highest of each column of pixels. */
export function thinned(xs, ys, most) {
  const total = xs.length;
  if (total <= most) return Array.from({length: total}, (_, index) => index);
  const columns = Math.max(1, Math.floor(most / 2));
  const kept = [];
  for (let column = 0; column < columns; column++) {
    const first = Math.floor(column * total / columns);
    const last = Math.floor((column + 1) * total / columns);
    let low = -1;
    let high = -1;
    for (let k = first; k < last; k++) {
      if (!Number.isFinite(ys[k])) continue;
      if (low < 0 || ys[k] < ys[low]) low = k;
      if (high < 0 || ys[k] > ys[high]) high = k;
    }
    if (low < 0) continue;
    kept.push(Math.min(low, high));
    if (low !== high) kept.push(Math.max(low, high));
  }
  return kept;
}

/** Finds the point nearest to a place on the screen: points lie in squares of `cell` px. */
export class Nearest {
  #cells = new Map();
  #cell;
  #xs;
  #ys;

  constructor(xs, ys, cell = 16) {
    this.#cell = cell;
    this.#xs = xs;
    this.#ys = ys;
    for (let k = 0; k < xs.length; k++) {
      if (!Number.isFinite(xs[k]) || !Number.isFinite(ys[k])) continue;
      const name = this.#name(Math.floor(xs[k] / cell), Math.floor(ys[k] / cell));
      const list = this.#cells.get(name);
      if (list) list.push(k);
      else this.#cells.set(name, [k]);
    }
  }

  #name(column, row) {
    return column * 65536 + row;
  }

  /** Index of the nearest point within one square, or -1. */
  find(x, y) {
    let best = -1;
    let least = this.#cell ** 2;
    const column = Math.floor(x / this.#cell);
    const row = Math.floor(y / this.#cell);
    for (let i = column - 1; i <= column + 1; i++)
      for (let j = row - 1; j <= row + 1; j++)
        for (const k of this.#cells.get(this.#name(i, j)) ?? []) {
          const far = (this.#xs[k] - x) ** 2 + (this.#ys[k] - y) ** 2;
          if (far <= least) [best, least] = [k, far];
        }
    return best;
  }
}

/** The reachable rate at an intensity (operations per byte): the lower of peak and memory's roof. */
export const roof = (intensity, peak, bandwidth) => Math.min(peak, intensity * bandwidth);
