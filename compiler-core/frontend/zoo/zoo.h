/* Well-known workloads as ONNX models with seeded weights, so that trying and measuring needs no
 * download. Whole networks (networks.def), the same on integers (resnet18_w1a2: quantised as `kiln
 * quantize` does it, with ranges that follow from how weights are drawn; resnet18_int8: with scales
 * that are powers of two), on halves and on several images (resnet50_n32_f16), and single operators
 * (workloads.def): conv:C1..C12 (ResNet-18), conv:D1..D9 (MobileNet depthwise), conv: with any
 * other shape, qconv: of the same in bytes, gemm:MxNxK, softmax: and layernorm: of a shape,
 * attention:HEADSxLENGTHxSIZE. */
#ifndef KILN_COMPILER_CORE_FRONTEND_ZOO_ZOO_H
#define KILN_COMPILER_CORE_FRONTEND_ZOO_ZOO_H

#include "base/status.h"
#include "base/str.h"

/* Appends the bytes of the model to `out`; same name and seed, same bytes. Its inputs are called
 * "x", its output "y". INVALID_ARGUMENT: unknown name; the note lists the known ones. */
KILN_MUST_USE kiln_status kiln_zoo_build(kiln_str name, uint64_t seed, kiln_strbuf *out);
/* One line per entry: name and what it is. */
void kiln_zoo_list(kiln_strbuf *out);

#endif
