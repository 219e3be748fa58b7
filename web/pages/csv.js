// Tables as CSV (RFC 4180). Pure.

/** Programs of tables run what begins so as a formula; names come from boards and persons, so it is defused. */
const FORMULA = /^[=+\-@\t\r]/;

function cell(value) {
  if (value === null || value === undefined) return '';
  if (typeof value === 'number') return Number.isFinite(value) ? String(value) : '';
  const text = String(value);
  const safe = FORMULA.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** `names`: of the columns; `rows`: arrays of numbers and texts. */
export function csv(names, rows) {
  return [names, ...rows].map(row => row.map(cell).join(',') + '\r\n').join('');
}
