// The frame around every view: navigation, person, colours, and whether the page is live.
import * as api from './api.js';
import {clear, h, setText} from './dom.js';
import {link} from './router.js';
import {problem} from './widgets.js';

const PLACES = [['fleet', 'Fleet'], ['queue', 'Queue'], ['jobs', 'Jobs'], ['submit', 'Submit'], ['records', 'Records'], ['cost-model', 'Cost model']];
/** In which place of the navigation the views of one thing are. */
const PLACE_OF = {boards: 'fleet', tasks: 'records', modules: 'jobs', compile: 'submit'};
const THEMES = [['auto', 'Automatic'], ['light', 'Light'], ['dark', 'Dark']];
const STATES = {live: ['on', 'Live'], waiting: ['off', 'Reconnecting'], still: ['', 'Not live']};

function readTheme() {
  try {
    return localStorage.getItem('kiln-theme') ?? 'auto';
  } catch {
    return 'auto'; // storage is forbidden: the choice lasts as long as the page
  }
}

export function setTheme(theme) {
  if (theme === 'auto') document.documentElement.removeAttribute('data-theme');
  else document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem('kiln-theme', theme);
  } catch {
    // as above
  }
  window.dispatchEvent(new Event('themechange'));
}

export class Shell {
  #main = h('main', {id: 'main', tabindex: '-1'});
  #nav = h('nav', {'aria-label': 'Places'});
  #live = h('span', {class: 'live'});
  #person = h('span', {class: 'person'});

  constructor() {
    setTheme(readTheme());
    const menu = h('button', {type: 'button', class: 'menu quiet', 'aria-expanded': 'false', onclick: () => this.#toggle(menu)}, 'Menu');
    const theme = h('select', {'aria-label': 'Colours', onchange: event => setTheme(event.target.value)},
      THEMES.map(([value, text]) => h('option', {value, selected: value === readTheme()}, text)));
    this.header = h('header', {class: 'side'},
      h('div', {class: 'brand'}, h('img', {src: 'icon.svg', alt: '', width: 28, height: 28}), h('a', {href: link(['fleet'])}, 'Kiln'), menu),
      this.#nav,
      h('div', {class: 'side-foot'}, this.#live, theme, this.#person));
    document.body.replaceChildren(
      h('button', {type: 'button', class: 'skip', onclick: () => this.#main.focus()}, 'Skip to content'),
      this.header, this.#main, h('div', {id: 'announcer', class: 'visually-hidden', 'aria-live': 'polite'}));
    this.setLive('still');
  }

  #toggle(menu) {
    const isOpen = this.header.classList.toggle('open');
    menu.setAttribute('aria-expanded', String(isOpen));
  }

  /** Shows who is signed in; without a person there is no navigation. */
  setPerson(person, onSignOut) {
    document.body.classList.toggle('signed-out', !person);
    clear(this.#person);
    if (person) this.#person.append(h('span', {class: 'name', title: `kiln-web ${person.version ?? ''}`}, person.person), h('button', {type: 'button', class: 'quiet', onclick: onSignOut}, 'Sign out'));
  }

  setLive(state) {
    const [look, text] = STATES[state];
    this.#live.className = `live ${look}`;
    setText(this.#live, text);
  }

  /** An empty page for a view, and what a view may ask of it. */
  open(route) {
    const place = PLACE_OF[route.place] ?? route.place;
    this.#nav.replaceChildren(h('ul', {}, PLACES.map(([name, text]) => h('li', {}, h('a', {href: link([name]), 'aria-current': name === place ? 'page' : null}, text)))));
    this.header.classList.remove('open');
    this.setLive('still');
    const body = h('div', {class: 'view'});
    this.#main.replaceChildren(body);
    window.scrollTo(0, 0);
    return {
      body, parameters: route.parameters,
      setLive: state => this.setLive(state),
      fail: error => body.append(problem(error)),
      heading: (title, ...rest) => this.#heading(body, title, rest),
    };
  }

  /** The title of a view, with actions beside it. Gives the element for a line below the title. */
  #heading(body, title, actions) {
    document.title = `${title} · Kiln`;
    const lead = h('p', {class: 'lead'});
    body.append(h('div', {class: 'heading'}, h('div', {}, h('h1', {}, title), lead), h('div', {class: 'actions'}, actions)));
    return lead;
  }
}

export async function signOut() {
  await api.remove('session').catch(() => null); // it is gone either way once the page is loaded again
  location.hash = '';
  location.reload();
}
