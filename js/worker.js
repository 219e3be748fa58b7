// One of the workers of a Team (threads.js).
import {instantiate} from './kernel.js';
import {serve} from './threads.js';

async function begin(port, {control, modules, memory, stack, worker, workers}) {
  try {
    const kernels = await Promise.all(modules.map(module => instantiate(module, memory, stack)));
    port.postMessage({});
    serve(control, kernels, worker, workers);
  } catch (error) {
    port.postMessage({error: String(error)});
  }
}

const listen = port => {
  port.onmessage = ({data}) => begin(port, data);
};
if (typeof self === 'object') listen(self);
else import('node:worker_threads').then(({parentPort}) => listen(parentPort));
