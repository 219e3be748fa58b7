// Rows of numbers whose meaning is in `columns`; numbers of texts are places in lists beside the rows. Pure.

/** Which list the numbers of a column point into. */
const LISTS = {task: 'tasks', target: 'targets', outcome: 'outcomes', searcher: 'searchers', algorithm: 'algorithms', layout_in: 'layouts', layout_out: 'layouts'};

/** A function row -> value of one column, with texts in place of their numbers; undefined where there is no such column. */
export function columnOf(table, name) {
  const at = (table.columns ?? []).indexOf(name);
  const list = table[LISTS[name]];
  return list ? row => list[row[at]] : row => row[at];
}

/** The same for all columns: (row, name) -> value. */
export function cellsOf(table) {
  const columns = new Map((table.columns ?? []).map(name => [name, columnOf(table, name)]));
  return (row, name) => columns.get(name)?.(row);
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
