/* The library's version. */
#ifndef KILN_LIBKILN_VERSION_H
#define KILN_LIBKILN_VERSION_H

#ifdef __cplusplus
extern "C" {
#endif

/* "0.1.0", of the running library, which may be newer than the header. */
const char *kiln_version(void);

#ifdef __cplusplus
}
#endif

#endif
