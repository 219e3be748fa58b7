// Rows of numbers whose meaning is in `columns`; numbers of texts are places in lists beside the rows. Pure.

/** Which list the numbers of a column point into. */
const LISTS = {task: 'tasks', target: 'targets', outcome: 'outcomes', searcher: 'searchers', algorithm: 'algorithms', layout_in: 'layouts', layout_out: 'layouts'};

/** A function (row, name) -> value, with texts in place of their numbers; undefined for a column that is not there. */
export function cellsOf(table) {
  const at = new Map((table.columns ?? []).map((name, index) => [name, index]));
  return (row, name) => {
    const value = row[at.get(name)];
    const list = table[LISTS[name]];
    return list && typeof value === 'number' ? list[value] : value;
  };
}

const BYTES = {f64: 8, i64: 8, f32: 4, i32: 4, f16: 2, bf16: 2, i16: 2, i8: 1, u8: 1, bool: 1};

/** Least memory traffic of a task: each input, constant and output of its program once. Undefined where a size is not known. */
export function leastBytes(program) {
  let sum = 0;
  for (const [, type, shape] of (program ?? '').matchAll(/^(?:input|constant|output) [^:\n]+: (\w+)\[([^\]\n]*)\]/gm)) {
    const size = shape.split(',').filter(Boolean).reduce((product, extent) => product * Number(extent), BYTES[type] ?? NaN);
    if (!Number.isFinite(size)) return undefined;
    sum += size;
  }
  return sum || undefined;
}
