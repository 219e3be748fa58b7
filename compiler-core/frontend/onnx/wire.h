/* Checks of protobuf bytes before protobuf-c sees them. protobuf-c follows nesting as deep as it
 * goes and allocates a whole struct for a two-byte message, so depth and number of messages are
 * bounded first. */
#ifndef KILN_COMPILER_CORE_FRONTEND_ONNX_WIRE_H
#define KILN_COMPILER_CORE_FRONTEND_ONNX_WIRE_H

#include <protobuf-c/protobuf-c.h>

#include "base/status.h"
#include "base/str.h"

#define KILN_ONNX_DEPTH_MAX 32
#define KILN_ONNX_MESSAGES_MAX ((uint64_t)4 << 20)
#define KILN_ONNX_ITEMS_MAX ((uint64_t)64 << 20) /* strings and unpacked numbers in lists */

/* INVALID_ARGUMENT: truncated, a bad tag or length, or over a limit; the message says at which
 * byte. */
KILN_MUST_USE kiln_status kiln_onnx_wire_check(kiln_str bytes,
                                               const ProtobufCMessageDescriptor *type);

/* Whether an initialiser of the model's graph has its data in another file. Bytes that are no model
 * have none. */
bool kiln_onnx_wire_is_external(kiln_str model);

#endif
