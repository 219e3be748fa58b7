// Elements of the document. Text enters it only as text nodes: there is no way here to make markup from a string.

const SVG = 'http://www.w3.org/2000/svg';

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name === 'value' || name === 'checked' || name === 'disabled' || name === 'selected') element[name] = value;
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.flat(Infinity).filter(child => child !== null && child !== undefined && child !== false));
  return element;
}

/** h('a', {href: '#/fleet', class: 'link', onclick: f}, 'Fleet', ...): an element with attributes and children. */
export const h = (name, attributes = {}, ...children) => fill(document.createElement(name), attributes, children);
/** The same of SVG. */
export const s = (name, attributes = {}, ...children) => fill(document.createElementNS(SVG, name), attributes, children);

export const clear = element => (element.replaceChildren(), element);

/** Sets a text only where it changes, so that a quiet page costs nothing. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

let last = 0;
/** An id that no other element has, to tie labels to fields. */
export const uniqueId = prefix => `${prefix}-${++last}`;

/** A field below its label. */
export function field(label, input, hint) {
  input.id ||= uniqueId('field');
  const described = hint ? h('span', {class: 'hint', id: `${input.id}-hint`}, hint) : null;
  if (described) input.setAttribute('aria-describedby', described.id);
  return h('div', {class: 'field'}, h('label', {for: input.id}, label), input, described);
}

/** A list to choose from: options are [value, text]. */
export function choice(options, value, onchange, attributes = {}) {
  return h('select', {...attributes, onchange: event => onchange(event.target.value)},
    options.map(([name, text]) => h('option', {value: name, selected: name === value}, text)));
}

/** Offers bytes to be saved as a file. */
export function save(name, type, content) {
  const url = URL.createObjectURL(new Blob([content], {type}));
  h('a', {href: url, download: name}).click();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}

/** A name for a file from any text. */
export const fileName = text => String(text).toLowerCase().replace(/[^a-z0-9.]+/g, '-').replace(/^-+|-+$/g, '').slice(0, 60) || 'kiln';

/** Says something to screen readers, politely. */
export function announce(text) {
  const place = document.getElementById('announcer');
  if (place) place.textContent = text;
}
