// A graph of kernels from top to bottom, coloured by the share of time that each takes.
import {s} from '../dom.js';
import {characterPx} from './axes.js';
import {layered} from './layers.js';

const CHARACTERS = 27; // of a line in a node
const LINE = 2.5; // in widths of a character
const MARGIN = 10;

const short = text => (text.length > CHARACTERS ? `${text.slice(0, CHARACTERS - 1)}…` : text);

/** Five steps from cool to hot, by share of the hottest. */
export const heat = share => `heat-${Math.min(5, Math.max(1, Math.ceil(5 * share)))}`;

/** From the lower side of a node to the upper one of another, straight through the layers between them. */
function pathOf(points, x, top, node, below) {
  const parts = [`M${x(points[0])},${top(points[0]) + node.height}`];
  points.slice(1).forEach((point, index) => {
    const before = points[index];
    const middle = below / 2;
    const [y1, y2] = [top(before) + node.height, top(point)];
    parts.push(x(before) === x(point) ? `V${y2}` : `C${x(before)},${y1 + middle} ${x(point)},${y2 - middle} ${x(point)},${y2}`);
    if (index + 2 < points.length) parts.push(`V${top(point) + node.height}`);
  });
  return parts.join('');
}

/** graph({width, nodes: [{id, lines: [text], text, share, sources}], onPick}): its height follows from the nodes; null where there are too many. `text` is a node's whole description. */
export function graph({width, nodes, onPick}) {
  if (nodes.length === 0) return null;
  const character = characterPx();
  const line = LINE * character;
  const node = {width: Math.round((CHARACTERS + 2) * character), height: Math.round((Math.max(...nodes.map(one => one.lines.length)) + 0.6) * line)};
  const below = Math.round(2 * line);
  const layout = layered(nodes, {node: node.width, lane: character, gap: 2 * character});
  if (!layout) return null;
  const {places, routes, layers, width: needed} = layout;
  const wide = Math.max(width, Math.ceil(needed) + 2 * MARGIN);
  const left = Math.round((wide - needed) / 2);
  const height = layers * (node.height + below) + 2 * MARGIN - below;
  const x = spot => left + spot.x;
  const top = spot => MARGIN + spot.layer * (node.height + below);
  const svg = s('svg', {class: 'chart graph', viewBox: `0 0 ${wide} ${height}`, width: wide, height});
  for (const {points} of routes) svg.append(s('path', {class: points.length > 2 ? 'edge passing' : 'edge', d: pathOf(points, x, top, node, below)}));
  for (const one of nodes) {
    const spot = places.get(one.id);
    const group = s('g', {class: onPick && one.isLink ? 'node link' : 'node', transform: `translate(${x(spot) - node.width / 2} ${top(spot)})`},
      s('title', {}, one.text),
      s('rect', {class: one.share === undefined ? 'heat-0' : heat(one.share), width: node.width, height: node.height, rx: 8}),
      one.lines.map((text, index) => s('text', {class: index ? 'node-detail' : 'node-name', x: character, y: Math.round((index + 1) * line)}, short(text))));
    if (onPick) group.addEventListener('click', () => onPick(one));
    svg.append(group);
  }
  return {svg, startX: x(places.get(nodes[0].id))};
}
