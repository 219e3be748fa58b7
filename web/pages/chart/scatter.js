// Clouds of points. Up to a few thousand they are one SVG path per series; more are drawn on a canvas behind the axes, and
// become paths when the picture is saved.
import {h, s} from '../dom.js';
import {axes} from './axes.js';
import {extent} from './scale.js';
import {Nearest} from './series.js';

const SVG_POINTS_MAX = 3000;
const RADIUS = {few: 3, many: 1.6};

const dots = (xs, ys, indices) => {
  const parts = [];
  for (const k of indices) parts.push(`M${xs[k].toFixed(1)},${ys[k].toFixed(1)}h0`);
  return parts.join('');
};

function place(points, at, kindX, kindY) {
  const xs = new Float64Array(points.length);
  const ys = new Float64Array(points.length);
  points.forEach(([x, y], k) => {
    xs[k] = Number.isFinite(x) && (kindX !== 'log' || x > 0) ? at.x(x) : NaN;
    ys[k] = Number.isFinite(y) && (kindY !== 'log' || y > 0) ? at.y(y) : NaN;
  });
  return {xs, ys, indices: Array.from({length: points.length}, (_, k) => k).filter(k => Number.isFinite(xs[k]) && Number.isFinite(ys[k]))};
}

/** A canvas knows no style sheet: the colour as an element of that class gets it. */
function colourOf(tone) {
  const probe = h('span', {class: `probe-${tone}`});
  document.body.append(probe);
  const {color} = getComputedStyle(probe);
  probe.remove();
  return color;
}

function paint(canvas, width, height, clouds, radius) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const context = canvas.getContext('2d');
  context.scale(ratio, ratio);
  for (const {xs, ys, indices, tone} of clouds) {
    context.fillStyle = colourOf(tone);
    context.globalAlpha = 0.55;
    for (const k of indices) context.fillRect(xs[k] - radius, ys[k] - radius, 2 * radius, 2 * radius);
  }
}

const pathOf = ({xs, ys, indices, tone}, radius) => s('path', {class: `dots stroke-${tone}`, 'stroke-width': 2 * radius, d: dots(xs, ys, indices)});

/**
 * scatter({width, height, x, y, series, curves, onPick, describe}): series {name, tone, points: [[x, y, ...]]}; curves as of
 * line.js, drawn above; `describe(series, index)` is the text of the point under the mouse, onPick(series, index) a click on it.
 */
export function scatter({width, height, x, y, series, curves = [], onPick, describe, selected}) {
  const used = series.filter(one => one.points.length);
  const finite = kind => value => Number.isFinite(value) && (kind !== 'log' || value > 0);
  const column = index => [...used, ...curves].flatMap(one => one.points).map(point => point[index]);
  const domainX = extent([...column(0), ...(x.include ?? [])], finite(x.kind));
  const domainY = extent([...column(1), ...(y.include ?? [])], finite(y.kind));
  if (!domainX || !domainY) return null;
  const at = axes({width, height, x: {...x, domain: domainX}, y: {...y, domain: domainY}, series: used});
  const total = used.reduce((sum, one) => sum + one.points.length, 0);
  const radius = total > SVG_POINTS_MAX ? RADIUS.many : RADIUS.few;
  const clouds = used.map(one => ({...place(one.points, at, x.kind, y.kind), tone: one.tone, name: one.name}));
  const isMany = total > SVG_POINTS_MAX;
  const layers = [];
  if (isMany) {
    const canvas = h('canvas', {class: 'cloud', 'aria-hidden': 'true'});
    paint(canvas, width, height, clouds, radius);
    layers.push(canvas);
  } else {
    for (const cloud of clouds) at.svg.append(pathOf(cloud, radius));
  }
  for (const curve of curves) at.svg.append(curvePath(curve, at));
  if (selected) at.svg.append(s('circle', {class: 'chosen', cx: at.x(selected[0]), cy: at.y(selected[1]), r: 6}));
  const over = describe ? [hover(at.svg, clouds, {onPick, describe, width})] : [];
  return {svg: at.svg, layers, over, saved: isMany ? host => withDots(at.svg, clouds, radius, host) : null};
}

function curvePath({points, tone, dash}, at) {
  const path = points.map(([x, y], index) => (index === 0 ? `M${at.x(x).toFixed(1)},${at.y(y).toFixed(1)}` : `H${at.x(x).toFixed(1)}V${at.y(y).toFixed(1)}`)).join('');
  return s('path', {class: `curve stroke-${tone}${dash ? ' dash' : ''}`, d: path});
}

/** The same picture with its cloud as paths; for a moment in the document, as styles are computed only there. */
function withDots(svg, clouds, radius, host) {
  const copy = svg.cloneNode(true);
  for (const cloud of clouds) copy.insertBefore(pathOf(cloud, radius), copy.children[1] ?? null);
  copy.setAttribute('aria-hidden', 'true');
  host.append(copy);
  queueMicrotask(() => copy.remove());
  return copy;
}

/** The text at the point under the mouse, and a ring around it. */
function hover(svg, clouds, {onPick, describe, width}) {
  const label = h('div', {class: 'hover', hidden: true, 'aria-hidden': 'true'});
  const ring = s('circle', {class: 'ring', r: 5, visibility: 'hidden'});
  svg.append(ring);
  let searches;
  const find = event => {
    searches ??= clouds.map(cloud => new Nearest(cloud.xs, cloud.ys));
    const box = svg.getBoundingClientRect();
    const px = (event.clientX - box.left) * (width / box.width);
    const py = (event.clientY - box.top) * (width / box.width);
    for (let k = clouds.length - 1; k >= 0; k--) {
      const index = searches[k].find(px, py);
      if (index >= 0) return {k, index, x: clouds[k].xs[index], y: clouds[k].ys[index]};
    }
    return null;
  };
  svg.addEventListener('mousemove', event => {
    const found = find(event);
    label.hidden = !found;
    ring.setAttribute('visibility', found ? 'visible' : 'hidden');
    if (!found) return;
    ring.setAttribute('cx', found.x);
    ring.setAttribute('cy', found.y);
    label.textContent = describe(clouds[found.k].name, found.index);
    const isRight = found.x > width / 2;
    label.style.setProperty('left', isRight ? 'auto' : `${found.x + 10}px`);
    label.style.setProperty('right', isRight ? `${width - found.x + 10}px` : 'auto');
    label.style.setProperty('top', `${Math.max(0, found.y - 14)}px`);
  });
  svg.addEventListener('mouseleave', () => {
    label.hidden = true;
    ring.setAttribute('visibility', 'hidden');
  });
  if (onPick) {
    svg.addEventListener('click', event => {
      const found = find(event);
      if (found) onPick(clouds[found.k].name, found.index);
    });
  }
  return label;
}
