// Tables that sort, save themselves as CSV and stay fast with a hundred thousand rows: only rows in sight are in the
// document. One row is in the tab order; arrow keys go from row to row. Columns: {name, title, value(row) -> number or text, cell(row) -> node or text, numeric, wide}.
import {csv} from './csv.js';
import {fileName, h, save} from './dom.js';
import {compareNames} from './filter.js';
import {count} from './format.js';

const ROW_REM = 2.4; // as --row in style.css
const SPARE_ROWS = 12; // above and below those in sight
const ROWS_ALL = 200; // up to here all rows are in the document

/** Orders two values: numbers by size, texts as people sort names, what is missing at the end. */
export function compareValues(a, b) {
  const missing = value => value === undefined || value === null || value === '' || Number.isNaN(value);
  if (missing(a) || missing(b)) return missing(a) - missing(b);
  if (typeof a === 'number' && typeof b === 'number') return a - b;
  return compareNames(String(a), String(b));
}

/** A sorted copy; `descending` leaves what is missing at the end. Equal rows keep their order. */
export function sortRows(rows, value, descending) {
  const missing = item => item === undefined || item === null || item === '' || Number.isNaN(item);
  return rows.map(row => [value(row), row]).sort(([a], [b]) => {
    if (missing(a) || missing(b)) return missing(a) - missing(b);
    return descending ? compareValues(b, a) : compareValues(a, b);
  }).map(([, row]) => row);
}

/** Which rows are in the document: [first, last) of `total`, for a window of `height` px at `top` px over rows of `rowPx`. */
export function rowsInSight(total, top, height, rowPx) {
  if (total <= ROWS_ALL) return [0, total];
  const first = Math.max(0, Math.min(Math.floor(top / rowPx) - SPARE_ROWS, total - 1));
  return [first, Math.min(total, Math.ceil((top + height) / rowPx) + SPARE_ROWS)];
}

export class Table {
  #columns;
  #options;
  #rows = [];
  #order = [];
  #sort;
  #drawn = new Map();
  #body = h('tbody');
  #above = h('tr', {'aria-hidden': 'true', class: 'spacer'}, h('td'));
  #below = h('tr', {'aria-hidden': 'true', class: 'spacer'}, h('td'));
  #box;
  #table;
  #count = h('span', {class: 'muted'});
  #wider = h('span', {class: 'muted', hidden: true}, 'more columns to the right →');
  #scheduled = false;
  #current = 0; // row whose links are in the tab order
  #rowPx = ROW_REM * parseFloat(getComputedStyle(document.documentElement).fontSize);

  /** options: caption; key(row); sort: {name, descending}; onSort(sort); empty: text; onPick(row), selected(): key. */
  constructor(columns, options) {
    this.#columns = columns;
    this.#options = {key: row => row, empty: 'Nothing here.', ...options};
    this.#sort = options.sort ?? {name: columns[0].name, descending: false};
    this.#table = h('table', {}, h('caption', {class: 'visually-hidden'}, `${options.caption}. Arrow keys go from row to row.`), h('thead', {}, h('tr', {}, columns.map(column => this.#head(column)))), this.#body);
    this.#box = h('div', {class: 'table-box', tabindex: '0', role: 'region', 'aria-label': options.caption, onscroll: () => this.#later(), onkeydown: event => this.#move(event), onfocusin: event => this.#enter(event.target)}, this.#table);
    this.element = h('div', {class: 'table'},
      h('div', {class: 'table-bar'}, this.#count, this.#wider, h('button', {class: 'quiet', type: 'button', onclick: () => this.saveCsv()}, 'Save CSV')), this.#box);
    this.#markSort();
    new ResizeObserver(() => this.#later()).observe(this.#box);
  }

  #head(column) {
    return h('th', {scope: 'col', class: column.numeric ? 'numeric' : null, 'data-column': column.name},
      h('button', {type: 'button', class: 'sort', onclick: () => this.#sortBy(column.name)}, column.title));
  }

  #sortBy(name) {
    const column = this.#columns.find(one => one.name === name);
    const descending = this.#sort.name === name ? !this.#sort.descending : Boolean(column.numeric);
    this.#sort = {name, descending};
    this.#markSort();
    this.set(this.#rows);
    this.#options.onSort?.(this.#sort);
  }

  #markSort() {
    for (const head of this.#table.querySelectorAll('th')) {
      const isSorted = head.dataset.column === this.#sort.name;
      if (isSorted) head.setAttribute('aria-sort', this.#sort.descending ? 'descending' : 'ascending');
      else head.removeAttribute('aria-sort');
    }
  }

  /** Shows these rows. A row object that stays the same object is not drawn again. */
  set(rows) {
    this.#rows = rows;
    const column = this.#columns.find(one => one.name === this.#sort.name) ?? this.#columns[0];
    this.#order = sortRows(rows, column.value, this.#sort.descending);
    this.#count.textContent = rows.length === 1 ? '1 row' : `${count(rows.length)} rows`;
    this.#table.setAttribute('aria-rowcount', rows.length + 1);
    this.#draw();
  }

  /** Draws again what is in sight, as after a choice. */
  refresh() {
    this.#drawn.clear();
    this.#draw();
  }

  get rows() {
    return this.#order;
  }

  #later() {
    if (this.#scheduled) return;
    this.#scheduled = true;
    requestAnimationFrame(() => {
      this.#scheduled = false;
      this.#draw();
    });
  }

  #draw() {
    const total = this.#order.length;
    if (total === 0) {
      this.#drawn.clear();
      this.#body.replaceChildren(h('tr', {class: 'empty'}, h('td', {colspan: this.#columns.length}, this.#options.empty)));
      return;
    }
    const [first, last] = rowsInSight(total, this.#box.scrollTop, this.#box.clientHeight || 800, this.#rowPx);
    const drawn = new Map();
    const elements = [];
    for (let index = first; index < last; index++) {
      const row = this.#order[index];
      const key = this.#options.key(row);
      const old = this.#drawn.get(key);
      const element = old?.row === row ? old.element : this.#row(row, key);
      element.setAttribute('aria-rowindex', index + 2);
      drawn.set(key, {row, element});
      elements.push(element);
    }
    this.#drawn = drawn;
    this.#put(first, elements, total - last);
    this.#wider.hidden = this.#box.scrollLeft + this.#box.clientWidth >= this.#box.scrollWidth - 1;
    this.#setStops();
  }

  #indexOf(element) {
    return Number(element.getAttribute('aria-rowindex')) - 2;
  }

  /** Links of one row alone are in the tab order: of the current one, or of the first in sight. */
  #setStops() {
    const rows = [...this.#body.querySelectorAll('tr[aria-rowindex]')];
    const stop = rows.find(row => this.#indexOf(row) === this.#current) ?? rows[0];
    for (const row of rows) for (const link of row.querySelectorAll('a, button')) link.tabIndex = row === stop ? 0 : -1;
  }

  #enter(target) {
    const row = target.closest('tr[aria-rowindex]');
    if (!row || this.#indexOf(row) === this.#current) return;
    this.#current = this.#indexOf(row);
    this.#setStops();
  }

  #move(event) {
    const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
    const row = event.target.closest('tr[aria-rowindex]');
    if (!step || !row) return;
    event.preventDefault();
    const to = this.#indexOf(row) + step;
    const place = [...row.querySelectorAll('a, button')].indexOf(event.target);
    const next = this.#body.querySelector(`tr[aria-rowindex="${to + 2}"]`);
    next?.querySelectorAll('a, button')[place]?.focus(); // rows beside those in sight are drawn
  }

  /** Replaces only what differs, so that the focus and a selection stay. */
  #put(above, elements, below) {
    this.#above.style.setProperty('height', `${above * this.#rowPx}px`);
    this.#below.style.setProperty('height', `${below * this.#rowPx}px`);
    const wanted = [...(above ? [this.#above] : []), ...elements, ...(below ? [this.#below] : [])];
    const kept = new Set(wanted);
    for (const child of [...this.#body.children]) if (!kept.has(child)) child.remove();
    let at = this.#body.firstChild;
    for (const element of wanted) {
      if (element === at) at = at.nextSibling;
      else this.#body.insertBefore(element, at);
    }
  }

  #row(row, key) {
    const isSelected = this.#options.selected?.() === key;
    const cells = this.#columns.map((column, index) => {
      const content = column.cell ? column.cell(row) : column.value(row);
      return h(index === 0 ? 'th' : 'td', {scope: index === 0 ? 'row' : null, class: column.numeric ? 'numeric' : null}, content === undefined || content === null ? '' : content);
    });
    return h('tr', {class: isSelected ? 'selected' : null}, cells);
  }

  /** All rows, in the order that is shown. */
  toCsv() {
    return csv(this.#columns.map(column => column.title), this.#order.map(row => this.#columns.map(column => column.value(row))));
  }

  saveCsv() {
    save(`${fileName(this.#options.caption)}.csv`, 'text/csv', this.toCsv());
  }
}
