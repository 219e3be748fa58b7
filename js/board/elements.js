// Elements of tensors: their types, how boards make inputs, how layouts place them, and how outputs are compared with the
// reference. What base/dtype.def, base/tensor.h, base/layout.h and base/reference.h say, in JavaScript.
import {halfToNumber, numberToHalf} from '../kernel.js';

const same = value => value;
const bits = new DataView(new ArrayBuffer(4));

function bfloatToNumber(half) {
  bits.setUint32(0, half << 16);
  return bits.getFloat32(0);
}

/** Of a value that is exact in bf16. */
function numberToBfloat(value) {
  bits.setFloat32(0, value);
  return bits.getUint16(0);
}

/** A float of at most 8 bits (base/small_floats.def): its conversions are a table of its codes. */
function smallFloat(exponentBits, fractionBits, bias, {largest, infinity, hasNegativeZero = true, hasSign = true}) {
  const sign = hasSign ? 1 << exponentBits + fractionBits : 256, value = [];
  for (let code = 0; code < 2 * sign && code < 256; code++) {
    const magnitude = code % sign, exponent = magnitude >> fractionBits, fraction = magnitude % (1 << fractionBits);
    let number = hasSign && exponent === 0 ? fraction * 2 ** (1 - bias - fractionBits) : (fraction + 2 ** fractionBits) * 2 ** (exponent - bias - fractionBits);
    if (magnitude > largest) number = magnitude === infinity ? Infinity : NaN;
    value.push(code === sign && !hasNegativeZero ? NaN : code >= sign ? -number : number);
  }
  const code = new Map(value.map((number, at) => [number, at]).reverse());
  return {
    array: Uint8Array, kind: 'float', precision: fractionBits + 1, smallest: 2 ** (1 - bias), hasSign,
    uniformPrecision: Math.min(fractionBits + 1, bias - 1 + fractionBits),
    load: at => value[at % value.length], store: number => code.get(number),
  };
}

/** By number: array, class, significant bits and smallest normal number of floats, conversions from and to numbers. */
const TYPES = {
  1: {array: Float32Array, kind: 'float', precision: 24, smallest: 2 ** -126},
  2: {array: Float64Array, kind: 'float', precision: 53, smallest: 2 ** -1022},
  3: {array: Uint16Array, kind: 'float', precision: 11, smallest: 2 ** -14, load: halfToNumber, store: numberToHalf},
  4: {array: Uint16Array, kind: 'float', precision: 8, smallest: 2 ** -126, load: bfloatToNumber, store: numberToBfloat},
  5: {array: Int8Array, kind: 'int'},
  6: {array: Int16Array, kind: 'int'},
  7: {array: Int32Array, kind: 'int'},
  8: {array: BigInt64Array, kind: 'int', load: Number, store: BigInt},
  9: {array: Uint8Array, kind: 'uint'},
  10: {array: Uint16Array, kind: 'uint'},
  11: {array: Uint32Array, kind: 'uint'},
  12: {array: BigUint64Array, kind: 'uint', load: Number, store: BigInt},
  13: {array: Uint8Array, kind: 'bool'},
  14: smallFloat(4, 3, 7, {largest: 0x7e}),
  15: smallFloat(4, 3, 8, {largest: 0x7f, hasNegativeZero: false}),
  16: smallFloat(5, 2, 15, {largest: 0x7b, infinity: 0x7c}),
  17: smallFloat(5, 2, 16, {largest: 0x7f, hasNegativeZero: false}),
  18: smallFloat(8, 0, 127, {largest: 0xfe, hasSign: false}),
  19: smallFloat(2, 1, 1, {largest: 7}),
};

export function typeOf(number) {
  if (!TYPES[number]) throw new Error(`elements of type ${number}, which is unknown`);
  return {load: same, store: same, ...TYPES[number]};
}

export const countOf = shape => shape.reduce((product, extent) => product * extent, 1);

// ---- Inputs -------------------------------------------------------------------------------------------------------

const U64 = (1n << 64n) - 1n;
const rotate = (x, by) => (x << by | x >> 64n - by) & U64;

/** XXH3's secret, bytes 8 to 15 XOR bytes 16 to 23. */
const SECRET = 0x1cad21f72c81017cn ^ 0xdb979083e96dd4den;
const MIX = 0x9fb21c651e98df25n;

/** kiln_input_seed: XXH3, 64 bits, of the four bytes of the argument's number. */
export function inputSeed(trialSeed, index) {
  let seed = BigInt(trialSeed);
  const low = Number(seed & 0xffffffffn), input = BigInt(index);
  bits.setUint32(0, low);
  seed ^= BigInt(bits.getUint32(0, true)) << 32n;
  let hash = (input + (input << 32n)) ^ ((SECRET - seed) & U64);
  hash ^= rotate(hash, 49n) ^ rotate(hash, 24n);
  hash = hash * MIX & U64;
  hash ^= (hash >> 35n) + 4n;
  hash = hash * MIX & U64;
  return hash ^ hash >> 28n;
}

/** The low 64 bits of a product of two numbers of 64, in halves: BigInt takes ten times as long. */
const product = {high: 0, low: 0};
function multiply(aHigh, aLow, bHigh, bLow) {
  const a0 = aLow & 0xffff, a1 = aLow >>> 16, b0 = bLow & 0xffff, b1 = bLow >>> 16;
  const p0 = a0 * b0, p1 = a1 * b0 + (p0 >>> 16), p2 = a0 * b1 + p1 % 65536;
  const carried = a1 * b1 + Math.floor(p1 / 65536) + Math.floor(p2 / 65536);
  product.high = carried + Math.imul(aHigh, bLow) + Math.imul(aLow, bHigh) >>> 0;
  product.low = (p2 % 65536 * 65536 + (p0 & 0xffff)) >>> 0;
}

const STEP = {high: 0x9e3779b9, low: 0x7f4a7c15};

/** Calls `each(i, high, low)` with the random bits of each element (splitmix64). */
function forEachBits(count, seed, each) {
  const start = BigInt(seed) * 0xd1342543de82ef95n & U64;
  let stateHigh = Number(start >> 32n), stateLow = Number(start & 0xffffffffn);
  for (let i = 0; i < count; i++) {
    const sum = stateLow + STEP.low;
    stateLow = sum >>> 0;
    stateHigh = stateHigh + STEP.high + (sum > 0xffffffff ? 1 : 0) >>> 0;
    multiply(stateHigh ^ stateHigh >>> 30, stateLow ^ (stateLow >>> 30 | stateHigh << 2), 0xbf58476d, 0x1ce4e5b9);
    let {high, low} = product;
    multiply(high ^ high >>> 27, low ^ (low >>> 27 | high << 5), 0x94d049bb, 0x133111eb);
    ({high, low} = product);
    each(i, (high ^ high >>> 31) >>> 0, (low ^ (low >>> 31 | high << 1)) >>> 0);
  }
}

const FILL = {uniform: 1, positive: 2, zero: 3, range: 4};

function valueRule({kind, precision, uniformPrecision = precision, hasSign = true}, fill, range) {
  if (fill === FILL.range) {
    const [low, high, step] = range, values = (high - low) / step + 1;
    return bitsHigh => low + Math.floor(bitsHigh * values / 2 ** 32) * step;
  }
  const isUniform = fill === FILL.uniform;
  if (!hasSign) return isUniform ? high => 2 ** -((high >>> 29) + 1) : high => 2 ** -(high >>> 31);
  if (kind === 'float') {
    const shift = isUniform ? 63 - uniformPrecision : 65 - precision, scale = 2 ** (isUniform ? -uniformPrecision : 1 - precision), offset = isUniform ? -1 : 0.5;
    return shift >= 32 ? high => (high >>> shift - 32) * scale + offset : (high, low) => (high * 2 ** (32 - shift) + (low >>> shift)) * scale + offset;
  }
  if (kind === 'bool') return isUniform ? high => high >>> 31 : () => 1;
  if (!isUniform) return (high, low) => 1 + (high % 15 + low % 15) % 15;
  return kind === 'int' ? high => (high >>> 24) - 128 : high => high >>> 25;
}

/** The elements of an input in logical order, as every board makes them. */
export function makeInput(arg, seed) {
  const type = typeOf(arg.dtype), elements = new type.array(countOf(arg.shape));
  if (arg.fill === FILL.zero) return elements;
  const rule = valueRule(type, arg.fill, arg.range);
  forEachBits(elements.length, seed, (i, high, low) => {
    elements[i] = type.store(rule(high, low));
  });
  return elements;
}

// ---- Layouts ------------------------------------------------------------------------------------------------------

const PIECE = /^d(\d+)(?:\/(\d+))?(?:%(\d+))?(?:\^d(\d+)(?:\/(\d+))?%(\d+))?(?:\+(\d+))?$/;

function parsePiece(text, rank) {
  const found = PIECE.exec(text);
  if (!found) throw new Error(`a layout with the piece '${text}'`);
  const [dim, divisor, modulus, xorDim, xorDivisor, xorModulus, pitch] = found.slice(1).map(Number);
  if (dim >= rank || xorDim >= rank) throw new Error(`a layout with '${text}', of ${rank} dimensions`);
  return {dim, divisor: divisor || 1, modulus: modulus || 0, xorDim, xorDivisor: xorDivisor || 1, xorModulus: xorModulus || 0, pitch: pitch || 0};
}

/** Where a layout places elements: {shape: extents in memory, offset(index)}; null where they are row-major. */
export function placesOf(layout, shape) {
  if (layout === 'row' || layout === '') return null;
  const pieces = layout.split(',').map(text => parsePiece(text, shape.length));
  const extents = pieces.map(piece => {
    const values = piece.modulus || Math.ceil(shape[piece.dim] / piece.divisor);
    return (piece.xorModulus ? Math.ceil(values / piece.xorModulus) * piece.xorModulus : values) + piece.pitch;
  });
  const offset = index => pieces.reduce((sum, piece, i) => {
    let at = Math.floor(index[piece.dim] / piece.divisor);
    if (piece.modulus) at %= piece.modulus;
    if (piece.xorModulus) at ^= Math.floor(index[piece.xorDim] / piece.xorDivisor) % piece.xorModulus;
    return sum * extents[i] + at;
  }, 0);
  return {shape: extents, offset};
}

/** Calls `each(i, place)` for the elements of a tensor in logical order. */
function forEachPlace(places, shape, each) {
  const index = shape.map(() => 0), count = countOf(shape);
  for (let i = 0; i < count; i++) {
    each(i, places.offset(index));
    for (let dim = shape.length - 1; dim >= 0 && ++index[dim] === shape[dim]; dim--) index[dim] = 0;
  }
}

/** Elements in logical order to their places in `memory`, an array of the same type. */
export function pack(places, shape, elements, memory) {
  if (!places) memory.set(elements);
  else forEachPlace(places, shape, (i, at) => { memory[at] = elements[i]; });
}

/** And back. */
export function unpack(places, shape, memory) {
  if (!places) return memory;
  const elements = new memory.constructor(countOf(shape));
  forEachPlace(places, shape, (i, at) => { elements[i] = memory[at]; });
  return elements;
}

// ---- The reference ------------------------------------------------------------------------------------------------

const REFERENCE = 'KILNREF1';
const OUTPUTS_MAX = 16;
const RANK_MAX = 8;
const ENTRY_BYTES = 8 + 8 * RANK_MAX + 16;

/** The outputs of a reference blob: [{dtype, shape, values, bounds}], copies. */
export function parseReference(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), count = view.getUint32(8, true);
  if (new TextDecoder().decode(bytes.subarray(0, 8)) !== REFERENCE || count > OUTPUTS_MAX) throw new Error('no reference blob');
  const block = (array, at, size) => new array(bytes.slice(at, at + size * array.BYTES_PER_ELEMENT).buffer);
  return Array.from({length: count}, (_, i) => {
    const at = 16 + i * ENTRY_BYTES, dtype = view.getUint32(at, true);
    const shape = Array.from({length: view.getUint32(at + 4, true)}, (_, d) => Number(view.getBigInt64(at + 8 + 8 * d, true)));
    const [values, bounds] = [0, 8].map(k => Number(view.getBigUint64(at + 8 + 8 * RANK_MAX + k, true)));
    const size = countOf(shape);
    return {dtype, shape, values: block(typeOf(dtype).array, values, size), bounds: bounds ? block(Float32Array, bounds, size) : null};
  });
}

/**
 * kiln_reference_compare: {wrong: how many elements, worst: the index of the worst, error: over what is allowed, distance,
 * magnitude}.
 */
export function compare(expected, actual, factor) {
  const type = typeOf(expected.dtype), found = {wrong: 0, worst: 0, error: 0, distance: 0, magnitude: 0};
  const epsilon = expected.bounds ? 2 ** (1 - type.precision) : 0;
  for (let i = 0; i < expected.values.length; i++) {
    const a = type.load(actual[i]), r = type.load(expected.values[i]), distance = Math.abs(a - r);
    let error;
    if (!expected.bounds) error = actual[i] === expected.values[i] ? 0 : Infinity;
    else if (Number.isNaN(r)) error = Number.isNaN(a) ? 0 : Infinity;
    else error = a === r ? 0 : distance / (factor * expected.bounds[i] + epsilon * Math.abs(r) + type.smallest);
    if (Number.isNaN(error)) error = Infinity;
    if (Number.isFinite(distance)) found.distance = Math.max(found.distance, distance);
    if (expected.bounds && Number.isFinite(r)) found.magnitude = Math.max(found.magnitude, Math.abs(r));
    if (error > 1) found.wrong++;
    if (error > found.error) [found.error, found.worst] = [error, i];
  }
  return found;
}
