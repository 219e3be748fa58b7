// Boards as tiles, by room and kind. Arrow keys go from tile to tile; one tile is in the tab order.
import {h} from '../dom.js';
import {compareNames, groupBy, labelOf, toneOf} from '../filter.js';
import {degrees, percent, shortId, span, target} from '../format.js';
import {link} from '../router.js';

const STEP = {ArrowRight: 1, ArrowLeft: -1};

function describe(board) {
  const parts = [`${board.key}: ${board.state}`];
  if (board.text) parts.push(board.text);
  if (board.job) parts.push(`${board.user ?? 'somebody'}'s job ${shortId(board.job)}${board.eta_ms ? `, free in about ${span(board.eta_ms)}` : ''}`);
  if (board.env?.temperature_mc) parts.push(degrees(board.env.temperature_mc));
  if (board.noise) parts.push(`noise ${percent(board.noise, 1)}`);
  return parts.join(' · ');
}

export class FleetMap {
  element = h('section', {class: 'card fleet-map', 'aria-label': 'Map of the boards', onkeydown: event => this.#move(event), onfocusin: event => this.#focus(event.target)});
  #tiles = new Map();
  #layout = '';
  #inOrder = null;

  /** Tiles stay as long as the same boards stand in the same groups; then only what changed is touched. */
  set(boards) {
    const rooms = groupBy(boards, board => labelOf(board, 'room')).map(([room, inRoom]) => [room, groupBy(inRoom, board => target(board.target).name)]);
    const layout = rooms.map(([room, kinds]) => `${room}\n${kinds.map(([kind, group]) => `${kind}\n${group.map(board => board.node).sort().join()}`).join('\n')}`).join('\n\n');
    if (layout !== this.#layout) {
      this.#layout = layout;
      this.#build(rooms);
    }
    for (const board of boards) this.#update(board);
  }

  #build(rooms) {
    this.#tiles.clear();
    this.element.replaceChildren(h('div', {class: 'rooms'}, rooms.map(([room, kinds]) => h('div', {class: 'room'},
      h('h2', {}, room || 'No room'),
      kinds.map(([kind, boards]) => h('div', {class: 'kind'},
        h('h3', {}, kind, ' ', h('span', {}, String(boards.length))),
        h('div', {class: 'tiles'}, boards.sort((a, b) => compareNames(a.key, b.key)).map(board => this.#tile(board)))))))), this.#legend());
    this.#inOrder = null;
    const first = this.element.querySelector('.tile');
    if (first) first.tabIndex = 0;
  }

  #tile(board) {
    const element = h('a', {class: 'tile', href: link(['boards', board.node]), tabindex: '-1'});
    this.#tiles.set(board.node, {element, board: null});
    return element;
  }

  #update(board) {
    const tile = this.#tiles.get(board.node);
    if (tile.board === board) return;
    const text = describe(board);
    const tone = toneOf(board.state);
    if (tile.element.dataset.tone !== tone) tile.element.dataset.tone = tone;
    if (tile.element.title !== text) {
      tile.element.title = text;
      tile.element.setAttribute('aria-label', text);
    }
    tile.board = board;
  }

  #legend() {
    const names = [['busy', 'busy'], ['free', 'free'], ['sick', 'sick or unfenced'], ['drained', 'drained'], ['quarantined', 'quarantined'], ['lost', 'lost']];
    return h('ul', {class: 'legend', 'aria-label': 'Colours of states'}, names.map(([tone, name]) => h('li', {}, h('span', {class: 'tile', 'data-tone': tone, 'aria-hidden': 'true'}), name)));
  }

  #focus(element) {
    if (!element.matches('a.tile')) return;
    for (const old of this.element.querySelectorAll('a.tile[tabindex="0"]')) old.tabIndex = -1;
    element.tabIndex = 0;
  }

  #move(event) {
    if (!event.target.matches('a.tile')) return;
    this.#inOrder ??= [...this.element.querySelectorAll('a.tile')];
    const at = this.#inOrder.indexOf(event.target);
    const to = STEP[event.key] ? at + STEP[event.key]
      : event.key === 'Home' ? 0 : event.key === 'End' ? this.#inOrder.length - 1
        : event.key === 'ArrowDown' || event.key === 'ArrowUp' ? this.#vertical(at, event.key === 'ArrowDown' ? 1 : -1) : -1;
    if (!this.#inOrder[to]) return;
    event.preventDefault();
    this.#inOrder[to].focus();
  }

  /** The tile in the next row whose column is nearest. */
  #vertical(at, direction) {
    const here = this.#inOrder[at].getBoundingClientRect();
    let row;
    let best = -1;
    let least = Infinity;
    for (let k = at + direction; k >= 0 && k < this.#inOrder.length; k += direction) {
      const box = this.#inOrder[k].getBoundingClientRect();
      if (Math.abs(box.top - here.top) < 2) continue;
      row ??= box.top;
      if (Math.abs(box.top - row) > 2) break;
      const far = Math.abs(box.left - here.left);
      if (far < least) [best, least] = [k, far];
    }
    return best;
  }
}
