// Runs a module twice on given inputs: PACKAGE MODULE FOLDER. Reads FOLDER/in0, in1, ... and writes FOLDER/out0, ... and, as
// JSON, FOLDER/rows: how many rows each output has.
import fs from 'node:fs';
import {pathToFileURL} from 'node:url';

const [, , folder, path, data] = process.argv;
const kiln = await import(pathToFileURL(`${folder}/kiln.js`));
const m = await kiln.load(path);
const bytesOf = array => new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
for (let round = 0; round < 2; round++) { // the second finds what the first left
  m.inputs.forEach(({name}, i) => bytesOf(m.input(name)).set(fs.readFileSync(`${data}/in${i}`)));
  m.outputs.forEach(({name}) => bytesOf(m.output(name)).fill(0x5a));
  m.call();
}
fs.writeFileSync(`${data}/rows`, JSON.stringify(m.outputs.map(({name}) => m.rows(name))));
m.outputs.forEach(({name}, i) => fs.writeFileSync(`${data}/out${i}`, bytesOf(m.output(name))));
