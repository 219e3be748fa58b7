// An address that names no view.
import {h} from '../dom.js';
import {link} from '../router.js';

export function show(view) {
  view.heading('Nothing here').textContent = 'No page of Kiln has this address.';
  view.body.append(h('p', {}, h('a', {href: link(['fleet'])}, 'Go to the fleet')));
}
