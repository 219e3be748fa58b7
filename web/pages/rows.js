// Rows under a key, as events change them. Pure.

/** Rows by their key, in the order of arrival. */
export class Rows {
  #key;
  #rows = new Map();

  constructor(key, rows = []) {
    this.#key = key;
    for (const row of rows) this.#rows.set(row[key], row);
  }

  get size() {
    return this.#rows.size;
  }

  get(key) {
    return this.#rows.get(key);
  }

  values() {
    return [...this.#rows.values()];
  }

  replace(rows) {
    this.#rows = new Map(rows.map(row => [row[this.#key], row]));
  }

  /** Takes {rows, gone} of an event. Returns the keys that changed: what was sent again as it was does not count. */
  take({rows = [], gone = []}) {
    const changed = new Set();
    for (const row of rows) {
      const key = row[this.#key];
      const old = this.#rows.get(key);
      if (old && JSON.stringify(old) === JSON.stringify(row)) continue;
      this.#rows.set(key, row);
      changed.add(key);
    }
    for (const key of gone) if (this.#rows.delete(key)) changed.add(key);
    return changed;
  }
}
