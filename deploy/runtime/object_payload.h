/* Checks of artefacts whose payloads are relocatable objects, without the device that runs them.
 * Used by the rows of devices.def whose kernels are functions: the processor, microcontrollers. */
#ifndef KILN_DEPLOY_OBJECT_PAYLOAD_H
#define KILN_DEPLOY_OBJECT_PAYLOAD_H

#include "base/manifest.h"
#include "base/target.h"

/* Checks that payloads are of that kind, and that launches have no grid and no own memory.
 * UNIMPLEMENTED names the one that differs. */
KILN_MUST_USE kiln_status kiln_object_payload_check_manifest(const kiln_manifest *manifest,
                                                             kiln_payload_kind kind);
/* The same, and checks that the objects link and have the entries of the launches: errors of
 * kiln_object_check. */
KILN_MUST_USE kiln_status kiln_object_payload_check(const kiln_artefact *artefact,
                                                    kiln_payload_kind kind, kiln_arch arch);

#endif
