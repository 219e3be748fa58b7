// Where the nodes of a graph stand: layers from top to bottom, edges that pass layers between nodes of these. Pure.

const SWEEPS = 6;
const PASSING_MAX = 20000; // edges in layers that they pass: more are not laid out
const PULL = 0.2; // of the straight line, on an edge that passes
const WEIGHT = {main: 1e6, node: 1e3, passing: 1}; // how much the place counts of a node on the way to the end, of others, of an edge that passes

/**
 * nodes: [{id, sources: [id] or null}] in the order of execution; sources come before. size: {node, lane, gap} in px: widths of
 * a node and of an edge that passes a layer, and the room between both. Gives {places: Map id -> {layer, x}, routes: [{from, to,
 * points: [{layer, x}]}], layers, width, isChain}: x is the middle, points are an edge's ends and what it passes between
 * them; null where edges pass too many layers. A node is one layer below the last of its sources. Where no node has any, the order of execution is a chain.
 */
export function layered(nodes, size) {
  const isChain = nodes.length > 1 && nodes.every(node => !node.sources?.length);
  const known = new Set(nodes.map(node => node.id));
  const sources = new Map(nodes.map((node, index) => [node.id, isChain ? (index ? [nodes[index - 1].id] : []) : (node.sources ?? []).filter(id => known.has(id))]));
  const layers = [];
  const layer = layerOf(nodes, sources);
  if (countPassing(sources, layer) > PASSING_MAX) return null;
  const items = itemsOf(nodes, layer, layers, size);
  const edges = nodes.flatMap(({id}) => sources.get(id).map(from => [from, id]));
  const routes = edges.map(([from, to]) => ({from, to, points: connect(items.get(from), items.get(to), layers, size)}));
  order(layers);
  findWays(layers);
  const width = place(layers, size.gap);
  return {places: items, routes, layers: layers.length, width, isChain};
}

/** Longest paths; a node without sources stands just above the first that reads it. */
function layerOf(nodes, sources) {
  const layer = new Map();
  for (const {id} of nodes) layer.set(id, Math.max(-1, ...sources.get(id).map(from => layer.get(from))) + 1);
  const nearest = new Map();
  for (const {id} of nodes) for (const from of sources.get(id)) nearest.set(from, Math.min(nearest.get(from) ?? Infinity, layer.get(id)));
  for (const {id} of nodes) if (sources.get(id).length === 0 && nearest.has(id)) layer.set(id, nearest.get(id) - 1);
  return layer;
}

function countPassing(sources, layer) {
  const farthest = new Map();
  for (const [id, list] of sources) for (const from of list) farthest.set(from, Math.max(farthest.get(from) ?? 0, layer.get(id)));
  return [...farthest].reduce((sum, [from, last]) => sum + last - layer.get(from) - 1, 0);
}

const newItem = (layers, layer, width, isNode) => {
  const item = {layer, width, isNode, up: [], down: [], x: 0, rank: 0, passing: new Map()};
  (layers[layer] ??= []).push(item);
  return item;
};

function itemsOf(nodes, layer, layers, size) {
  for (let k = 0; k <= Math.max(-1, ...layer.values()); k++) layers.push([]);
  return new Map(nodes.map(({id}) => [id, newItem(layers, layer.get(id), size.node, true)]));
}

function join(upper, lower) {
  if (upper.down.includes(lower)) return;
  upper.down.push(lower);
  lower.up.push(upper);
}

/** The points of an edge. All edges of one node share the places where they pass a layer. */
function connect(from, to, layers, size) {
  const points = [from];
  for (let layer = from.layer + 1; layer < to.layer; layer++) {
    if (!from.passing.has(layer)) from.passing.set(layer, newItem(layers, layer, size.lane, false));
    const item = from.passing.get(layer);
    item.ends = {from, to: item.ends && item.ends.to.layer > to.layer ? item.ends.to : to};
    join(points.at(-1), item);
    points.push(item);
  }
  join(points.at(-1), to);
  return [...points, to];
}

// ---- who stands beside whom ----

const rankAll = layer => layer.forEach((item, rank) => (item.rank = rank));
const mean = (items, value) => items.reduce((sum, item) => sum + value(item), 0) / items.length;

/** Sorts each layer by the mean rank of its neighbours above (or below); who has none keeps its rank. */
function sweep(layers, side) {
  const before = side === 'up' ? layers.slice(1) : layers.slice(0, -1).reverse();
  for (const layer of before) {
    const wish = new Map(layer.map(item => [item, item[side].length ? mean(item[side], one => one.rank) : item.rank]));
    layer.sort((a, b) => wish.get(a) - wish.get(b) || a.rank - b.rank);
    rankAll(layer);
  }
}

function crossings(layers) {
  let count = 0;
  for (const layer of layers) {
    const ends = []; // of links so far, ascending
    for (const item of layer) {
      const own = item.down.map(one => one.rank).sort((a, b) => a - b);
      for (const rank of own) count += ends.length - after(ends, rank);
      for (const rank of own) ends.splice(after(ends, rank), 0, rank);
    }
  }
  return count;
}

/** How many of ascending values are at most `value`. */
function after(values, value) {
  let [low, high] = [0, values.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}

function order(layers) {
  layers.forEach(rankAll);
  let best = layers.map(layer => [...layer]);
  let least = crossings(layers);
  for (let k = 0; k < SWEEPS && least > 0; k++) {
    sweep(layers, k % 2 ? 'down' : 'up');
    const now = crossings(layers);
    if (now < least) [least, best] = [now, layers.map(layer => [...layer])];
  }
  layers.forEach((layer, index) => {
    layer.splice(0, layer.length, ...best[index]);
    rankAll(layer);
  });
}

// ---- px ----

/** Of each node the one below it from which the way to the end has most nodes, if only one is: `main`. Main ways are drawn straight. */
function findWays(layers) {
  for (const layer of [...layers].reverse()) {
    for (const item of layer) {
      item.ahead = Math.max(0, ...item.down.map(one => one.ahead + Number(one.isNode)));
      const highest = item.down.filter(one => one.isNode && one.ahead + 1 === item.ahead);
      item.main = highest.length === 1 ? highest[0] : null;
    }
  }
  for (const item of layers.flat()) {
    const isAside = item.up.some(one => one.isNode) && item.up.every(one => !one.isNode || (one.main && one.main !== item));
    item.weight = !item.isNode ? WEIGHT.passing : isAside ? WEIGHT.node : WEIGHT.main;
  }
}

/** Puts items of one layer as near as may be to where they want to be, in their order and without overlap. */
function settle(layer, wish, gap) {
  let offset = 0;
  const groups = []; // neighbours that touch: {sum, weight, items}
  layer.forEach((item, index) => {
    if (index) offset += (layer[index - 1].width + item.width) / 2 + gap;
    item.offset = offset;
    groups.push({sum: item.weight * (wish(item) - offset), weight: item.weight, items: [item]});
    while (groups.length > 1 && groups.at(-2).sum / groups.at(-2).weight > groups.at(-1).sum / groups.at(-1).weight) {
      const last = groups.pop();
      const into = groups.at(-1);
      into.sum += last.sum;
      into.weight += last.weight;
      into.items.push(...last.items);
    }
  });
  for (const {sum, weight, items} of groups) for (const item of items) item.x = item.offset + sum / weight;
}

/** A node follows those on its main way, then any node. An edge that passes goes on as it comes, and a little towards the straight line. */
function wishOf(item, side) {
  if (!item.isNode) {
    const {from, to} = item.ends;
    const line = from.x + (to.x - from.x) * (item.layer - from.layer) / (to.layer - from.layer);
    return (1 - PULL) * mean(item[side], one => one.x) + PULL * line;
  }
  const nodes = item[side].filter(one => one.isNode);
  const main = side === 'down' ? nodes.filter(one => one === item.main) : nodes.filter(one => !one.main || one.main === item);
  const near = main.length ? main : nodes.length ? nodes : item[side];
  return near.length ? mean(near, one => one.x) : item.x;
}

function place(layers, gap) {
  for (const layer of layers) settle(layer, () => 0, gap);
  for (let k = 0; k < SWEEPS; k++) {
    const [side, list] = k % 2 ? ['down', [...layers].reverse()] : ['up', layers];
    for (const layer of list) settle(layer, item => wishOf(item, side), gap);
  }
  const all = layers.flat();
  const left = Math.min(...all.map(item => item.x - item.width / 2));
  for (const item of all) item.x = Math.round(item.x - left);
  return Math.max(0, ...all.map(item => item.x + item.width / 2));
}
