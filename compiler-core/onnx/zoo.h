/* Well-known workloads as ONNX models with seeded He-initialised weights, so that nobody needs a
 * download to try or measure: conv:C1..C12 (ResNet-18), conv:D1..D9 (MobileNet depthwise),
 * gemm:MxNxK, and any other convolution as conv:IC,H,W,OC,KH,KW,SH,SW,PT,PL,PB,PR,DH,DW,G. */
#ifndef KILN_COMPILER_CORE_ONNX_ZOO_H
#define KILN_COMPILER_CORE_ONNX_ZOO_H

#include "base/status.h"
#include "base/str.h"

/* Appends the bytes of the model to `out`; same name and seed, same bytes. INVALID_ARGUMENT:
 * unknown name; the note lists the known ones. */
KILN_MUST_USE kiln_status kiln_zoo_build(kiln_str name, uint64_t seed, kiln_strbuf *out);
/* One line per entry: name and what it is. */
void kiln_zoo_list(kiln_strbuf *out);

#endif
