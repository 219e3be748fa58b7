// A schedule's trace in words. Pure. The trace is text as docs/reference/trace-text.md has it, a step per line.

const list = names => (names.length < 2 ? names.join('') : `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`);

/** Words of steps by their name; `a` are the arguments as they are written. What is not here is shown as it is. */
const WORDS = {
  algorithm: a => `Compute by the algorithm ${a[0]}.`,
  inline: a => `Compute ${a[0]} where it is used, without storing it.`,
  split: a => `Split the loop ${a[0]} into parts of ${list(a.slice(1).filter(size => size !== '-1'))}.`,
  fuse: a => `Make one loop of ${list(a)}.`,
  reorder: a => `Nest the loops in the order ${a.join(' › ')}.`,
  vectorize: a => `Run ${a[0]} as vector instructions.`,
  unroll: a => `Write out every turn of ${a[0]}.`,
  parallel: a => `Spread ${a[0]} over threads.`,
  cache_read: a => `Keep a copy of ${a[1]} for ${a[0]} in ${a[2]} memory.`,
  cache_write: a => `Gather the results of ${a[0]} in ${a[1]} memory before they are stored.`,
  set_scope: a => `Keep ${a[0]} in ${a[1]} memory.`,
  compute_at: a => `Compute ${a[0]} inside the loop ${a[1]}.`,
  reverse_compute_at: a => `Compute ${a[0]} inside the loop ${a[1]}, as soon as its input is there.`,
  transform_layout: a => `Store ${a[0]} in the order ${a[1]}${a.length > 2 ? ` with ${list(a.slice(2))}` : ''}.`,
  pad: a => `Pad ${a[0]} along ${a[1]} to a multiple of ${a[2]}.`,
  decompose_reduction: a => `Set the sums of ${a[0]} to zero before the loop ${a[1]}.`,
  bind: a => `Give the loop ${a[0]} to ${a[1]}.`,
};
const DECISIONS = {
  choice: 'one of the listed blocks', categorical: 'one of the listed values', perfect_tile: 'a split without rest', location: 'the loop to compute it in',
};

/** Arguments at the top level: commas inside brackets and quotes do not part them. */
export function argumentsOf(text) {
  const found = [];
  let depth = 0;
  let quoted = false;
  let from = 0;
  for (let k = 0; k < text.length; k++) {
    const c = text[k];
    if (c === '"') quoted = !quoted;
    else if (!quoted && '([{'.includes(c)) depth++;
    else if (!quoted && ')]}'.includes(c)) depth--;
    else if (!quoted && c === ',' && depth === 0) {
      found.push(text.slice(from, k));
      from = k + 1;
    }
  }
  if (text.trim()) found.push(text.slice(from));
  return found.map(word => word.trim().replace(/^"(.*)"$/, '$1'));
}

/** [{step, words, isDecision}] of a trace; decisions say what was chosen. */
export function inWords(trace) {
  return trace.split('\n').filter(line => line.trim()).map(step => {
    const [, variable, name, args, value] = /^(?:(\w+) = )?(\w+)\((.*)\)(?: = (.*))?$/.exec(step.trim()) ?? [];
    if (variable && name) return {step, words: `Choose ${variable}, ${DECISIONS[name] ?? name}: ${value ?? 'not decided'}.`, isDecision: true};
    return {step, words: WORDS[name]?.(argumentsOf(args)) ?? step, isDecision: false};
  });
}
