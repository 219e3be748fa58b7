// Curves over numbers or time.
import {s} from '../dom.js';
import {axes} from './axes.js';
import {extent} from './scale.js';
import {thinned} from './series.js';

const POINTS_MAX = 2000; // a curve of more is thinned: the screen has no more pixels
const LABEL_PX = 7;

const steps = (points, x, y) => points.map(([a, b], index) => (index === 0 ? `M${x(a).toFixed(1)},${y(b).toFixed(1)}` : `H${x(a).toFixed(1)}V${y(b).toFixed(1)}`)).join('');
const straight = (points, x, y) => points.map(([a, b], index) => `${index === 0 ? 'M' : 'L'}${x(a).toFixed(1)},${y(b).toFixed(1)}`).join('');

function thin(points) {
  if (points.length <= POINTS_MAX) return points;
  return thinned(points.map(point => point[0]), points.map(point => point[1]), POINTS_MAX).map(index => points[index]);
}

function bandPath(band, x, y) {
  const upper = band.map(([at, , high]) => [at, high]);
  const lower = band.map(([at, low]) => [at, low]).reverse();
  return straight([...upper, ...lower], x, y) + 'Z';
}

/**
 * line({width, height, x, y, series}): series {name, tone, points: [[x, y]], step, dash, band: [[x, low, high]], label}. `tone`
 * is a colour of style.css (tone-1..8, free, busy, ...). x, y: {kind, title, format, include: values to be in sight}.
 */
export function line({width, height, x, y, series, marks = []}) {
  const used = series.filter(one => one.points.length);
  const all = used.flatMap(one => thin(one.points));
  const domainX = x.domain ?? extent([...all.map(point => point[0]), ...(x.include ?? [])]);
  const values = [...all.map(point => point[1]), ...used.flatMap(one => (one.band ?? []).flatMap(([, low, high]) => [low, high])), ...(y.include ?? [])];
  const domainY = y.domain ?? extent(values, value => Number.isFinite(value) && (y.kind !== 'log' || value > 0));
  if (!domainX || !domainY) return null;
  const at = axes({width, height, x: {...x, domain: domainX}, y: {...y, domain: domainY}, series: used});
  for (const {value, text} of marks) drawMark(at, value, text);
  for (const one of used) {
    if (one.band) at.svg.append(s('path', {class: `band fill-${one.tone}`, d: bandPath(one.band, at.x, at.y)}));
    const path = (one.step ? steps : straight)(thin(one.points), at.x, at.y);
    at.svg.append(s('path', {class: `curve stroke-${one.tone}${one.dash ? ' dash' : ''}`, d: path}));
    const [lastX, lastY] = one.points.at(-1);
    at.svg.append(s('circle', {class: `fill-${one.tone}`, cx: at.x(lastX), cy: at.y(lastY), r: 3}));
    if (one.label) at.svg.append(s('text', {class: 'name', x: at.plot.right, y: at.y(lastY) - LABEL_PX, 'text-anchor': 'end'}, one.label));
  }
  return {svg: at.svg};
}

/** A horizontal line with a name, as of a limit. */
function drawMark({svg, plot, y}, value, text) {
  const at = y(value);
  svg.append(s('line', {class: 'mark', x1: plot.left, x2: plot.right, y1: at, y2: at}),
    s('text', {class: 'tick', x: plot.right, y: at - 5, 'text-anchor': 'end'}, text));
}
