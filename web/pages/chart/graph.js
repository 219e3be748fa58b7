// A graph of kernels from top to bottom, coloured by the share of time that each takes.
import {s} from '../dom.js';
import {layered} from './layers.js';

const NODE = {width: 168, height: 44, between: 24, below: 30};
const MARGIN = 10;
const NAME_CHARACTERS = 22;

const short = text => (text.length > NAME_CHARACTERS ? `${text.slice(0, NAME_CHARACTERS - 1)}…` : text);

/** Five steps from cool to hot, by share of the hottest. */
export const heat = share => `heat-${Math.min(5, Math.max(1, Math.ceil(5 * share)))}`;

/** graph({nodes: [{id, name, detail, text, share, inputs, outputs}], onPick}): its height follows from the nodes. */
export function graph({width, nodes, onPick}) {
  if (nodes.length === 0) return null;
  const {nodes: place, edges, layers, lanes} = layered(nodes);
  const wide = Math.max(width, lanes * (NODE.width + NODE.between) + 2 * MARGIN);
  const left = (wide - lanes * (NODE.width + NODE.between) + NODE.between) / 2;
  const height = layers * (NODE.height + NODE.below) + 2 * MARGIN - NODE.below;
  const x = id => left + place.get(id).lane * (NODE.width + NODE.between);
  const y = id => MARGIN + place.get(id).layer * (NODE.height + NODE.below);
  const svg = s('svg', {class: 'chart graph', viewBox: `0 0 ${wide} ${height}`, width: wide, height});
  for (const [from, to] of edges) {
    const x1 = x(from) + NODE.width / 2;
    const x2 = x(to) + NODE.width / 2;
    const y1 = y(from) + NODE.height;
    const y2 = y(to);
    const isLong = place.get(to).layer - place.get(from).layer > 1 && x1 === x2;
    const side = isLong ? NODE.width / 2 + NODE.between : 0; // around the nodes between them
    const bend = isLong ? NODE.below : (y2 - y1) / 2;
    const path = isLong ? `M${x1 + NODE.width / 4},${y1}C${x1 + side},${y1 + bend} ${x1 + side},${y1} ${x1 + side},${y1 + bend * 1.6}V${y2 - bend * 1.6}C${x1 + side},${y2} ${x1 + side},${y2 - bend} ${x2 + NODE.width / 4},${y2}`
      : `M${x1},${y1}C${x1},${y1 + bend} ${x2},${y2 - bend} ${x2},${y2}`;
    svg.append(s('path', {class: 'edge', d: path}));
  }
  for (const node of nodes) {
    const group = s('g', {class: 'node', transform: `translate(${x(node.id)} ${y(node.id)})`},
      s('title', {}, `${node.name}: ${node.text}`),
      s('rect', {class: node.share === undefined ? 'heat-0' : heat(node.share), width: NODE.width, height: NODE.height, rx: 8}),
      s('text', {class: 'node-name', x: 10, y: 18}, short(node.name)),
      s('text', {class: 'node-detail', x: 10, y: 34}, short(node.detail)));
    if (onPick) group.addEventListener('click', () => onPick(node));
    svg.append(group);
  }
  return {svg};
}
