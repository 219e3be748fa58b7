// Where the nodes of a graph stand. Pure.

/**
 * nodes: [{id, inputs: [tensor], outputs: [tensor]}] in the order of execution. Returns {nodes: Map id -> {layer, lane}, edges:
 * [[from, to, tensor]], layers, lanes}: a node is one layer below the last that makes one of its inputs. Where nobody says
 * who makes what, the order of execution is the chain.
 */
export function layered(nodes) {
  const maker = new Map();
  const place = new Map();
  const edges = [];
  const knowsTensors = nodes.some(node => node.inputs?.length || node.outputs?.length);
  nodes.forEach((node, index) => {
    const before = knowsTensors
      ? (node.inputs ?? []).filter(tensor => maker.has(tensor)).map(tensor => [maker.get(tensor), tensor])
      : index > 0 ? [[nodes[index - 1].id, '']] : [];
    for (const [from, tensor] of before) edges.push([from, node.id, tensor]);
    place.set(node.id, {layer: Math.max(-1, ...before.map(([from]) => place.get(from).layer)) + 1, lane: 0});
    for (const tensor of node.outputs ?? []) maker.set(tensor, node.id);
  });
  return {nodes: place, edges, ...lanesOf(nodes, place, edges)};
}

/** Puts nodes of one layer beside each other, each as near as may be to what it continues. */
function lanesOf(nodes, place, edges) {
  const taken = new Map();
  let lanes = 1;
  const wish = new Map();
  for (const [from, to] of edges) if (!wish.has(to)) wish.set(to, from);
  for (const {id} of nodes) {
    const spot = place.get(id);
    const used = taken.get(spot.layer) ?? taken.set(spot.layer, new Set()).get(spot.layer);
    let lane = wish.has(id) ? place.get(wish.get(id)).lane : 0;
    while (used.has(lane)) lane++;
    used.add(lane);
    spot.lane = lane;
    lanes = Math.max(lanes, lane + 1);
  }
  return {lanes, layers: Math.max(0, ...[...place.values()].map(spot => spot.layer + 1))};
}

/** Bytes in use at each step, of tensors {bytes, first, last} (numbers of steps, both included). */
export function memoryOverTime(tensors, steps) {
  const inUse = new Array(steps).fill(0);
  for (const {bytes, first, last} of tensors)
    for (let step = Math.max(0, first); step <= Math.min(last, steps - 1); step++) inUse[step] += bytes;
  return inUse;
}
