// Sign-in by token.
import * as api from '../api.js';
import {field, h} from '../dom.js';

export function show(view) {
  document.title = 'Sign in · Kiln';
  const token = h('input', {type: 'password', name: 'token', autocomplete: 'current-password', spellcheck: 'false', required: true});
  const wrong = h('p', {class: 'wrong', role: 'alert'}, view.error && view.error.status !== 401 ? view.error.message : '');
  const button = h('button', {type: 'submit', class: 'primary'}, 'Sign in');
  const send = async event => {
    event.preventDefault();
    button.disabled = true;
    try {
      await api.post('session', {token: token.value.trim()});
      await view.onDone();
    } catch (error) {
      wrong.textContent = error.status === 429 ? 'Too many attempts. Wait a minute and try again.' : error.message;
      button.disabled = false;
      token.focus();
    }
  };
  view.body.append(h('section', {class: 'card sign-in'},
    h('h1', {}, 'Sign in to Kiln'),
    h('p', {class: 'muted'}, 'A dashboard for boards, tuning jobs and their records.'),
    h('form', {onsubmit: send}, field('Token', token, 'It begins with kiln- and is made by: kiln key new client/NAME --web'), wrong, button)));
  token.focus();
}
