// Small parts that views share: states, figures, cards, tabs, questions before actions, and what is said when data is missing.
import {field, h, uniqueId} from './dom.js';
import {toneOf} from './filter.js';
import {targetName} from './format.js';
import {link} from './router.js';

/** A state with its colour; the word says it, too. */
export const chip = state => h('span', {class: 'chip'}, h('span', {class: `dot ${toneOf(state)}`, 'aria-hidden': 'true'}), String(state ?? 'unknown'));

export const card = (title, ...children) => h('section', {class: 'card'}, title ? h('h2', {}, title) : null, children);

/** Terms with their values; those without a value are left out. */
export function facts(pairs) {
  const known = pairs.filter(([, value]) => value !== undefined && value !== null && value !== '');
  return h('dl', {class: 'facts'}, known.map(([term, value]) => h('div', {}, h('dt', {}, term), h('dd', {}, value))));
}

/** Large numbers at the top of a page: [{label, value, note, tone}]. */
export class Figures {
  #values = new Map();
  element = h('dl', {class: 'kpis'});

  set(rows) {
    const names = rows.map(row => row.label).join('\n');
    if ([...this.#values.keys()].join('\n') !== names) this.#build(rows);
    for (const {label, value, note} of rows) {
      const parts = this.#values.get(label);
      if (parts.value.textContent !== value) parts.value.textContent = value;
      parts.note.textContent = note ?? '';
    }
  }

  #build(rows) {
    this.#values.clear();
    this.element.replaceChildren(...rows.map(({label, tone, href}) => {
      const value = h('dd', {class: 'kpi-value'});
      const note = h('dd', {class: 'kpi-note'});
      this.#values.set(label, {value, note});
      const name = href ? h('a', {href}, label) : label;
      return h('div', {class: 'kpi'}, h('dt', {}, tone ? h('span', {class: `dot ${tone}`, 'aria-hidden': 'true'}) : null, name), value, note);
    }));
  }
}

/** Links that switch a part of the view; the choice is in the address. */
export function tabs(label, choices, chosen, hrefOf) {
  return h('nav', {class: 'tabs', 'aria-label': label}, choices.map(([name, text]) =>
    h('a', {href: hrefOf(name), 'aria-current': name === chosen ? 'true' : null}, text)));
}

export const missing = text => h('p', {class: 'missing', role: 'note'}, text);

export function problem(error) {
  const code = error?.code ? `${error.code}: ` : '';
  return h('div', {class: 'problem', role: 'alert'}, h('strong', {}, 'This could not be shown. '), `${code}${error?.message ?? error}`);
}

export const progress = (done, of, label) => h('progress', {max: Math.max(of, 1), value: Math.min(done, of), 'aria-label': label});

export const targetText = text => h('span', {title: text}, targetName(text));
export const boardLink = board => h('a', {href: link(['boards', board.node]), title: board.node}, board.key || board.node);

/**
 * Asks before something is done. fields: [{name, label, value, hint, type}]; run(values) does it and may fail, which is shown.
 * Gives whether it was done.
 */
export function ask({title, text, fields = [], action, run, isDangerous}) {
  const inputs = fields.map(({name, value = '', type = 'text', ...rest}) => ({name, ...rest, input: h('input', {name, type, value, autocomplete: 'off'})}));
  const wrong = h('p', {class: 'wrong', role: 'alert'});
  const heading = h('h2', {id: uniqueId('dialog')}, title);
  const go = h('button', {type: 'submit', class: isDangerous ? 'danger' : 'primary'}, action);
  return new Promise(resolve => {
    const dialog = h('dialog', {'aria-labelledby': heading.id, onclose: () => { dialog.remove(); resolve(dialog.returnValue === 'done'); }},
      h('form', {method: 'dialog', onsubmit: async event => {
        event.preventDefault();
        go.disabled = true;
        wrong.textContent = '';
        try {
          await run(Object.fromEntries(inputs.map(({name, input}) => [name, input.value])));
          dialog.close('done');
        } catch (error) {
          wrong.textContent = error.message;
          go.disabled = false;
        }
      }},
      heading, text ? h('p', {}, text) : null, inputs.map(({label, hint, input}) => field(label, input, hint)), wrong,
      h('div', {class: 'dialog-buttons'}, h('button', {type: 'button', class: 'quiet', onclick: () => dialog.close('')}, 'Cancel'), go)));
    document.body.append(dialog);
    dialog.showModal();
  });
}
