// Scales and ticks of charts. Pure.

const STEPS = [1, 2, 5, 10];

/** About `wanted` round numbers from `low` to `high`. */
export function ticks(low, high, wanted = 5) {
  if (!(high > low)) return [low];
  const rough = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = STEPS.find(one => one * power >= rough * 0.999) * power;
  const first = Math.ceil(low / step - 1e-9);
  const found = [];
  for (let k = first; k * step <= high + step * 1e-9; k++) found.push(Number((k * step).toPrecision(12)));
  return found;
}

/** Powers of ten, and where those are few also 2 and 5 times them. */
export function logTicks(low, high, wanted = 5) {
  const decades = Math.log10(high / low);
  const factors = decades > wanted ? [1] : decades > 2 ? [1, 3] : decades > 0.8 ? [1, 2, 5] : [1, 2, 3, 5, 7];
  const every = Math.max(1, Math.ceil(decades / (wanted + 2)));
  const found = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
    if (power % every) continue;
    for (const factor of factors) {
      const value = Number((factor * 10 ** power).toPrecision(12));
      if (value >= low * 0.999 && value <= high * 1.001) found.push(value);
    }
  }
  return found.length > 1 ? found : ticks(low, high, wanted);
}

const SPANS_MS = [1e3, 2e3, 5e3, 1e4, 3e4, 6e4, 12e4, 3e5, 6e5, 18e5, 36e5, 72e5, 216e5, 432e5, 864e5, 1728e5, 6048e5, 2592e6];

/** Ticks of a span of time in ms, at whole seconds, minutes, hours or days. */
export function timeTicks(low, high, wanted = 5) {
  const step = SPANS_MS.find(one => (high - low) / one <= wanted) ?? SPANS_MS.at(-1) * Math.ceil((high - low) / SPANS_MS.at(-1) / wanted);
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high; at += step) found.push(at);
  return found;
}

/** A scale: value -> px. kinds: 'linear', 'log', 'time'. It has `ticks` and `invert`. */
export function scale(kind, [low, high], [from, to], wanted) {
  if (kind === 'log') {
    const base = Math.log(low);
    const size = Math.log(high) - base || 1;
    const at = value => from + (to - from) * (Math.log(Math.max(value, Number.MIN_VALUE)) - base) / size;
    return Object.assign(at, {ticks: logTicks(low, high, wanted), invert: px => Math.exp(base + size * (px - from) / (to - from))});
  }
  const size = high - low || 1;
  const at = value => from + (to - from) * (value - low) / size;
  return Object.assign(at, {ticks: (kind === 'time' ? timeTicks : ticks)(low, high, wanted), invert: px => low + size * (px - from) / (to - from)});
}

/** [least, largest] of finite values, over any number of them; undefined where there is none. */
export function extent(values, isUsed = Number.isFinite) {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    if (!isUsed(value)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return low <= high ? [low, high] : undefined;
}

/** A little room on both sides; values of a log scale stay above 0. */
export function padded([low, high], kind, share = 0.05) {
  if (kind === 'log') {
    const room = Math.max((high / low) ** share, 1.02);
    return [low / room, high * room];
  }
  const room = (high - low || Math.abs(high) || 1) * share;
  return [low - room, high + room];
}
