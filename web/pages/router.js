// Views by address: '#/boards/ID?tab=log'. The part behind the question mark holds a view's filters.

/** {path: ['boards', 'ID'], query: {tab: 'log'}} of a fragment. */
export function parse(fragment) {
  const [path, query = ''] = fragment.replace(/^#?\/?/, '').split('?', 2);
  return {path: path.split('/').filter(Boolean).map(decode), query: Object.fromEntries(new URLSearchParams(query))};
}

function decode(word) {
  try {
    return decodeURIComponent(word);
  } catch {
    return word; // a link that was cut: shown as it is
  }
}

/** link(['boards', id], {tab: 'log'}): the fragment of a view; empty filters are left out. */
export function link(path, query = {}) {
  const asked = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== '');
  const text = new URLSearchParams(asked.map(([name, value]) => [name, String(value)])).toString();
  return `#/${path.map(encodeURIComponent).join('/')}${text && `?${text}`}`;
}

/** Changes filters of the view that is shown, without a step in the browser's history. */
export function setQuery(changes) {
  const {path, query} = parse(location.hash);
  history.replaceState(null, '', link(path, {...query, ...changes}));
  window.dispatchEvent(new HashChangeEvent('hashchange'));
}

/**
 * Shows views as the address changes. `find(path)` gives {show, parameters}; `show(view)` gets {query, signal, ...} and may
 * use view.body, the element that it fills, and set view.onQuery to take changed filters itself; view.again() shows it anew. `around(route)` prepares the page and gives the rest of `view`.
 */
export class Router {
  #find;
  #around;
  #shown;

  constructor(find, around) {
    this.#find = find;
    this.#around = around;
    window.addEventListener('hashchange', () => this.update());
  }

  update({anew = false} = {}) {
    const {path, query} = parse(location.hash);
    const name = path.join('/');
    if (!anew && this.#shown?.name === name) {
      this.#shown.view.query = query;
      if (this.#shown.view.onQuery) return this.#shown.view.onQuery(query);
    }
    this.leave();
    const route = this.#find(path);
    const leaving = new AbortController();
    const view = {query, signal: leaving.signal, again: () => this.update({anew: true}), ...this.#around(route)};
    this.#shown = {name, view, leaving};
    this.#start(route, view);
  }

  async #start(route, view) {
    view.body.setAttribute('aria-busy', 'true');
    try {
      await route.show(view);
    } catch (error) {
      if (!view.signal.aborted) view.fail(error);
    }
    view.body.removeAttribute('aria-busy');
  }

  leave() {
    this.#shown?.leaving.abort();
    this.#shown = undefined;
  }
}
