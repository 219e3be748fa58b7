/* Which build this is, for --version. A library of its own: what is linked with it is linked again
 * after each commit. */
#ifndef KILN_BASE_VERSION_H
#define KILN_BASE_VERSION_H

/* "0.1.0 (1a2b3c4d5e6f)": the version and the git commit; "-dirty" follows a commit with changes.
 */
extern const char kiln_version_text[];

#endif
