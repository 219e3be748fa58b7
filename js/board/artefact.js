// What is in an artefact: its manifest (base/manifest.h) and its kernels.
import {countOf, placesOf, typeOf} from './elements.js';
import {unpack} from './wire.js';

const MAGIC = 'KILNART1';
const HEADER_BYTES = 24;
const PAYLOAD_ALIGNMENT = 16;
const ABI_MAX = 2;
const WASM_MAGIC = 0x6d736100;

/** Roles of arguments, and when a launch runs. */
export const ROLE = {input: 1, constant: 2, output: 3, packed: 4, temp: 5, table: 6};
export const PHASE = {prepare: 1, run: 2};

const align = (place, alignment) => Math.ceil(place / alignment) * alignment;

function parseArg(map) {
  const arg = {name: map.get(1), dtype: map.get(2), role: map.get(3), shape: map.get(4), fill: map.get(6), table: map.get(8), range: map.get(9)};
  arg.places = placesOf(map.get(5), arg.shape);
  arg.size = countOf(arg.places?.shape ?? arg.shape) * typeOf(arg.dtype).array.BYTES_PER_ELEMENT;
  return arg;
}

/** The plain form: every argument to kiln_prepare, where there is one, and to kiln_run. */
function plainLaunches(hasPrepare, args) {
  const all = args.map((_, i) => i), run = {phase: PHASE.run, entry: 'kiln_run', payload: 0, args: all};
  return hasPrepare ? [{phase: PHASE.prepare, entry: 'kiln_prepare', payload: 0, args: all}, run] : [run];
}

function payloadsOf(bytes, sizes) {
  let at = 0;
  return sizes.map(size => {
    const payload = bytes.slice(at, at + size);
    if (payload.length !== size || new DataView(payload.buffer).getUint32(0, true) !== WASM_MAGIC)
      throw new Error('the artefact holds no WebAssembly');
    at = align(at + size, PAYLOAD_ALIGNMENT);
    return payload;
  });
}

/** {target, args, launches, payloads, scratch, workerScratch, executedFlops, errorFactor}. Throws where the bytes are no artefact. */
export function parseArtefact(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.length < HEADER_BYTES || new TextDecoder().decode(bytes.subarray(0, 8)) !== MAGIC) throw new Error('no artefact');
  const end = HEADER_BYTES + view.getUint32(8, true), size = Number(view.getBigUint64(16, true));
  const manifest = unpack(bytes.subarray(HEADER_BYTES, end));
  if (manifest.get(1) > ABI_MAX) throw new Error(`an artefact of form ${manifest.get(1)}, newer than this board's ${ABI_MAX}`);
  const args = manifest.get(12).map(parseArg);
  const launches = manifest.get(16)?.map(map => ({phase: map.get(1), entry: map.get(2), payload: map.get(3), args: map.get(7)}));
  return {
    target: manifest.get(3),
    args,
    launches: launches ?? plainLaunches(manifest.get(7), args),
    payloads: payloadsOf(bytes.subarray(align(end, PAYLOAD_ALIGNMENT)), manifest.get(15)?.map(map => map.get(2)) ?? [size]),
    scratch: manifest.get(9),
    workerScratch: manifest.get(10),
    executedFlops: manifest.get(13) ?? manifest.get(11),
    errorFactor: manifest.get(14) ?? 1,
  };
}
