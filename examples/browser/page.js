// Recognises a drawn digit with the network of examples/digits, and shows the time of each kernel.
import * as kiln from './kiln/kiln.js';

const CELLS = 32; // the network counts the dark cells of 4 x 4 blocks of these
const BLOCKS = 8;
const STROKE = 26; // pixels of the pen, of 256
const PROFILED = 200; // runs over which a kernel's time is averaged

const at = id => document.getElementById(id);
const drawing = at('drawing').getContext('2d', {willReadFrequently: true});
const small = new OffscreenCanvas(CELLS, CELLS).getContext('2d', {willReadFrequently: true});
let network;

/** The bounding box of the drawing, or undefined. */
function findBox({data, width, height}) {
  let left = width, right = -1, top = height, bottom = -1;
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      if (!data[4 * (y * width + x) + 3]) continue;
      left = Math.min(left, x);
      right = Math.max(right, x);
      top = Math.min(top, y);
      bottom = y;
    }
  }
  return right < 0 ? undefined : {left, top, width: right - left + 1, height: bottom - top + 1};
}

/** The drawing, centred and scaled to fit, as the share of dark cells in each block. */
function blocksOf(canvas) {
  const image = new Float32Array(BLOCKS * BLOCKS), box = findBox(drawing.getImageData(0, 0, canvas.width, canvas.height));
  if (!box) return image;
  const scale = CELLS / Math.max(box.width, box.height), width = box.width * scale, height = box.height * scale;
  small.clearRect(0, 0, CELLS, CELLS);
  small.drawImage(canvas, box.left, box.top, box.width, box.height, (CELLS - width) / 2, (CELLS - height) / 2, width, height);
  const {data} = small.getImageData(0, 0, CELLS, CELLS), side = CELLS / BLOCKS;
  for (let i = 0; i < CELLS * CELLS; i++)
    if (data[4 * i + 3] > 127) image[Math.floor(i / CELLS / side) * BLOCKS + Math.floor(i % CELLS / side)] += 1 / (side * side);
  return image;
}

export async function classify(image) {
  const {probability} = await network.run({image});
  return {digit: probability.indexOf(Math.max(...probability)), probability};
}

async function answer() {
  const {digit, probability} = await classify(blocksOf(at('drawing')));
  at('answer').textContent = digit;
  at('answer').title = `${(100 * probability[digit]).toFixed(1)} %`;
}

function showKernels() {
  const rows = network.profile(PROFILED).filter(({action}) => action === 'kernel');
  at('kernels').replaceChildren(...rows.map(({name, op, ms}) => {
    const row = document.createElement('tr');
    for (const text of [name, op, ms.toFixed(4)]) row.insertCell().textContent = text;
    return row;
  }));
}

export function clear() {
  drawing.clearRect(0, 0, at('drawing').width, at('drawing').height);
  at('answer').textContent = '\u00a0';
}

/** A line through points [x, y] of the canvas. */
export function stroke(points) {
  drawing.lineWidth = STROKE;
  drawing.lineCap = drawing.lineJoin = 'round';
  drawing.beginPath();
  for (const point of points) drawing.lineTo(...point);
  drawing.stroke();
}

function listen() {
  let last;
  const pointOf = event => [event.offsetX, event.offsetY];
  at('drawing').addEventListener('pointerdown', event => {
    last = pointOf(event);
    stroke([last, last]);
    at('drawing').setPointerCapture(event.pointerId);
  });
  at('drawing').addEventListener('pointermove', event => {
    if (!last) return;
    const next = pointOf(event);
    stroke([last, next]);
    last = next;
  });
  at('drawing').addEventListener('pointerup', async () => {
    last = undefined;
    await answer();
    showKernels();
  });
  at('clear').addEventListener('click', clear);
}

try {
  network = await kiln.load('digits.wasm');
  listen();
  stroke([[70, 60], [180, 60], [110, 220]]); // a seven, to begin with
  await answer();
  at('said').textContent = `first answer ${performance.now().toFixed(0)} ms after the page was opened; ${network.metadata.target}`;
  showKernels();
} catch (error) {
  at('said').className = 'error';
  at('said').textContent = String(error);
}
