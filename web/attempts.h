/* A limit on wrong sign-ins: KILN_ATTEMPTS_MAX at once from one address, and one more every
 * KILN_ATTEMPTS_NS. Pure: the time comes in. Used by web/session.h. */
#ifndef KILN_WEB_ATTEMPTS_H
#define KILN_WEB_ATTEMPTS_H

#include <stdbool.h>
#include <stdint.h>

#define KILN_ATTEMPTS_MAX 10u
#define KILN_ATTEMPTS_NS UINT64_C(6000000000)
#define KILN_ATTEMPTS_ADDRESSES 1024u /* the one that failed longest ago makes room */

typedef struct kiln_attempts {
    struct {
        uint64_t address;    /* its hash */
        uint64_t full_at_ns; /* when it may fail KILN_ATTEMPTS_MAX times again; 0: unused */
    } row[KILN_ATTEMPTS_ADDRESSES];
} kiln_attempts;

/* Whether the address may try now. */
bool kiln_attempts_allow(const kiln_attempts *attempts, const char *address, uint64_t now_ns);
/* The address tried and failed. */
void kiln_attempts_failed(kiln_attempts *attempts, const char *address, uint64_t now_ns);

#endif
