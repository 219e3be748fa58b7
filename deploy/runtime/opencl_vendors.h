/* Reports OpenCL drivers that are installed but do not load into this process. libOpenCL.so.1 skips
 * them silently, so a device is missing without a reason: for example, the program contains an
 * older C++ library than the driver needs. */
#ifndef KILN_DEPLOY_OPENCL_VENDORS_H
#define KILN_DEPLOY_OPENCL_VENDORS_H

#include "base/str.h"

/* Adds the drivers in /etc/OpenCL/vendors (or in OCL_ICD_VENDORS, a folder or a file) that do not
 * load, each with the reason of the system's loader; nothing if all load. */
void kiln_opencl_vendors_describe(kiln_strbuf *out);

#endif
