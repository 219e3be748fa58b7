/* Drivers of OpenCL that are installed and do not load into this process. libOpenCL.so.1 leaves
 * them out without a word, so a device is missing and nobody says why: a program brought an older
 * C++ library along than the driver needs, for example. */
#ifndef KILN_DEPLOY_OPENCL_VENDORS_H
#define KILN_DEPLOY_OPENCL_VENDORS_H

#include "base/str.h"

/* Adds the drivers of /etc/OpenCL/vendors (or of what OCL_ICD_VENDORS names, a folder or a file)
 * that do not load, each with the reason that the system's loader gives; nothing where all do. */
void kiln_opencl_vendors_describe(kiln_strbuf *out);

#endif
