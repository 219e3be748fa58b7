/* Checks of artefacts with PTX, without the driver. Used by device_cuda.c. */
#ifndef KILN_DEPLOY_CUDA_CHECK_H
#define KILN_DEPLOY_CUDA_CHECK_H

#include "base/manifest.h"
#include "base/target.h"

/* Errors of kiln_text_payload_check, and:
 *
 * DATA_LOSS            the code's parameters are not those that a launch passes, or the code runs
 *                      in other clusters than the launch
 * FAILED_PRECONDITION  a launch has more groups or threads along an axis than CUDA, or clusters or
 *                      tensor maps that devices of the target lack */
KILN_MUST_USE kiln_status kiln_cuda_check(const kiln_artefact *artefact, const kiln_target *target);

#endif
