// Where the dashboard's modules are: KILN_PAGES, a copy of web/pages in which node takes .js files as modules.
import {pathToFileURL} from 'node:url';

export const load = name => import(pathToFileURL(`${process.env.KILN_PAGES}/${name}`));
