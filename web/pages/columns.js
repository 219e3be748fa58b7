// Rows of values whose names are in `columns`. Pure.

/** A function row -> value of one column; undefined where there is no such column. */
export function columnOf(table, name) {
  const at = (table.columns ?? []).indexOf(name);
  return row => row[at];
}

/** The same for all columns: (row, name) -> value. */
export function cellsOf(table) {
  const at = new Map((table.columns ?? []).map((name, index) => [name, index]));
  return (row, name) => row[at.get(name)];
}
