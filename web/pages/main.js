// Starts the dashboard: who is signed in, then the view that the address names.
import * as api from './api.js';
import {Router} from './router.js';
import {Shell, signOut} from './shell.js';
import {problem} from './widgets.js';

/** First word of the address, number of further words, module of views/. */
const VIEWS = [
  ['fleet', 0, 'fleet'], ['boards', 1, 'board'], ['queue', 0, 'queue'], ['jobs', 0, 'jobs'], ['jobs', 1, 'job'], ['tasks', 1, 'task'],
  ['modules', 1, 'model'], ['records', 0, 'records'], ['cost-model', 0, 'cost_model'], ['submit', 0, 'submit'], ['compile', 1, 'compile'],
];

function find([place = 'fleet', ...parameters]) {
  const found = VIEWS.find(([name, count]) => name === place && count === parameters.length);
  const file = found?.[2] ?? 'nothing';
  return {place, parameters, show: async view => (await import(`./views/${file}.js`)).show(view)};
}

const shell = new Shell();
const router = new Router(find, route => ({...shell.open(route), me: person}));
let person = null;

async function signIn(error) {
  router.leave();
  person = null;
  shell.setPerson(null);
  const view = shell.open({place: '', parameters: []});
  const {show} = await import('./views/sign_in.js');
  await show({...view, error, onDone: start});
}

/** The link that `kiln web` prints carries a token behind the '#', which never reaches a server's log. */
async function takeToken() {
  const token = /^#token=([A-Za-z0-9._~-]+)$/.exec(location.hash)?.[1];
  if (!token) return;
  history.replaceState(null, '', '#/fleet');
  await api.post('session', {token});
}

async function start() {
  try {
    await takeToken();
    person = await api.me();
  } catch (error) {
    await signIn(error.status === 401 && !error.message.includes('token') ? null : error);
    return;
  }
  shell.setPerson(person, signOut);
  router.update({anew: true});
}

api.whenSignedOut(() => { if (person) signIn(new Error('Your session has ended. Please sign in again.')); });
start().catch(error => document.body.append(problem(error)));
