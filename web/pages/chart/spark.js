// A curve of a line's height, beside a name; the row says the same in numbers.
import {s} from '../dom.js';
import {extent, scale} from './scale.js';

const WIDTH = 120;
const HEIGHT = 28;

export function spark(points, tone) {
  const svg = s('svg', {class: 'spark', viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT, 'aria-hidden': 'true'});
  const domainX = extent(points.map(point => point[0]));
  const domainY = extent(points.map(point => point[1]), value => value > 0);
  if (!domainX || !domainY) return svg;
  const x = scale('linear', domainX, [2, WIDTH - 4]);
  const y = scale('log', domainY, [HEIGHT - 4, 4]);
  const d = points.map(([a, b], index) => (index ? `H${x(a).toFixed(1)}V${y(b).toFixed(1)}` : `M${x(a).toFixed(1)},${y(b).toFixed(1)}`)).join('');
  const [lastX, lastY] = points.at(-1);
  svg.append(s('path', {class: `curve stroke-${tone}`, d}), s('circle', {class: `fill-${tone}`, cx: x(lastX), cy: y(lastY), r: 2.5}));
  return svg;
}
