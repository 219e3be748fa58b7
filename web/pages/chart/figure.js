// A picture with its caption, a text for those who do not see it, and buttons that save it.
import {csv} from '../csv.js';
import {fileName, h, s, save} from '../dom.js';

/** Properties that a saved picture needs, as it leaves the style sheet behind. */
const SAVED = ['fill', 'fill-opacity', 'stroke', 'stroke-width', 'stroke-dasharray', 'stroke-linecap', 'stroke-linejoin', 'stroke-opacity', 'opacity', 'font-family', 'font-size', 'font-weight', 'text-anchor', 'display', 'visibility'];

/** A picture as a file of its own: styles become attributes, and the page's background its first rectangle. */
export function standalone(svg) {
  const copy = svg.cloneNode(true);
  const sources = [svg, ...svg.querySelectorAll('*')];
  [copy, ...copy.querySelectorAll('*')].forEach((element, index) => {
    const style = getComputedStyle(sources[index]);
    for (const name of SAVED) {
      const value = style.getPropertyValue(name);
      if (value) element.setAttribute(name, value);
    }
    element.removeAttribute('class');
    element.removeAttribute('tabindex');
  });
  const {width, height} = svg.viewBox.baseVal;
  copy.setAttribute('xmlns', 'http://www.w3.org/2000/svg');
  copy.setAttribute('width', width);
  copy.setAttribute('height', height);
  copy.prepend(s('rect', {width, height, fill: getComputedStyle(svg.closest('.card') ?? document.body).backgroundColor}));
  return new XMLSerializer().serializeToString(copy);
}

/**
 * A figure that is drawn again when its width or its data change.
 * options: title; note: a sentence below it; height: px, or a function of the width; draw(width, height) -> {svg, layers} (or
 * null: `empty` is shown), where `layers` are canvases behind it, `startX` is in sight at first, and `saved()` gives the whole as one SVG;
 * text(): what it shows, in words; table(): {names, rows} for CSV; scrolls: it may be larger than its place.
 */
export class Figure {
  #options;
  #place = h('div', {class: 'figure-place'});
  #words = h('p', {class: 'visually-hidden'});
  #note = h('p', {class: 'figure-note'});
  #drawn = null;
  #width = 0;

  constructor(options) {
    this.#options = options;
    const buttons = [h('button', {type: 'button', class: 'quiet', 'aria-label': `Save ${options.title} as SVG`, onclick: () => this.saveSvg()}, 'SVG')];
    if (options.table) buttons.push(h('button', {type: 'button', class: 'quiet', 'aria-label': `Save ${options.title} as CSV`, onclick: () => this.saveCsv()}, 'CSV'));
    this.element = h('figure', {class: 'card figure'},
      h('figcaption', {}, h('span', {class: 'figure-title'}, options.title), h('span', {class: 'figure-buttons'}, buttons)),
      options.controls ?? null, this.#place, this.#note, this.#words);
    if (options.scrolls) {
      this.#place.classList.add('scrolls');
      for (const [name, value] of [['tabindex', '0'], ['role', 'region'], ['aria-label', `${options.title}, arrow keys scroll`]]) this.#place.setAttribute(name, value);
    }
    new ResizeObserver(([entry]) => {
      const width = Math.round(entry.contentRect.width);
      if (width > 0 && width !== this.#width) this.draw(width);
    }).observe(this.#place);
    window.addEventListener('themechange', () => this.#drawIfShown());
  }

  /** A canvas has the colours of the time when it was drawn. */
  #drawIfShown() {
    if (this.element.isConnected) this.draw();
  }

  draw(width = this.#width) {
    if (!width) return;
    this.#width = width;
    const {height = 260, empty = 'Nothing to draw yet.', title, text, note} = this.#options;
    const isFirst = !this.#drawn;
    this.#drawn = this.#options.draw(width, typeof height === 'function' ? height(width) : height);
    const words = this.#drawn ? text?.() ?? '' : empty;
    if (this.#drawn) {
      this.#drawn.svg.setAttribute('role', 'img');
      this.#drawn.svg.setAttribute('aria-label', `${title}. ${words}`);
      this.#place.replaceChildren(...(this.#drawn.layers ?? []), this.#drawn.svg, ...(this.#drawn.over ?? []));
      if (isFirst && this.#drawn.startX) this.#place.scrollLeft = this.#drawn.startX - width / 2;
    } else {
      this.#place.replaceChildren(h('p', {class: 'empty'}, empty));
    }
    this.#words.textContent = words;
    const told = typeof note === 'function' ? note() : note;
    this.#note.textContent = told ?? '';
    this.#note.hidden = !told;
  }

  /** The picture as a file's text, or null where nothing is drawn. */
  toSvg() {
    return this.#drawn && standalone(this.#drawn.saved ? this.#drawn.saved(this.#place) : this.#drawn.svg);
  }

  saveSvg() {
    const text = this.toSvg();
    if (text) save(`${fileName(this.#options.title)}.svg`, 'image/svg+xml', text);
  }

  saveCsv() {
    const {names, rows} = this.#options.table();
    save(`${fileName(this.#options.title)}.csv`, 'text/csv', csv(names, rows));
  }
}
