/* Front header of compiler-core: model bytes to object bytes. The only header that other folders include
 * (tests may include any). No socket, no database.
 *
 *     model ─ kiln_model_load ─> graph ─ kiln_tasks_extract ─> tasks ─ kiln_space_create ─> space ─>
 *     trace ─ kiln_build ─> artefact */
#ifndef KILN_COMPILER_CORE_CORE_H
#define KILN_COMPILER_CORE_CORE_H

#include "compiler-core/build.h"
#include "compiler-core/codegen/codegen.h"
#include "compiler-core/cost/analytic.h"
#include "compiler-core/cost/features.h"
#include "compiler-core/graph/graph.h"
#include "compiler-core/graph/graph_text.h"
#include "compiler-core/ir/eval.h"
#include "compiler-core/ir/ir.h"
#include "compiler-core/ir/ir_text.h"
#include "compiler-core/ir/reference.h"
#include "compiler-core/ir/words.h"
#include "compiler-core/layout/assign.h"
#include "compiler-core/layout/convert.h"
#include "compiler-core/layout/parts.h"
#include "compiler-core/layout/tuning.h"
#include "compiler-core/layout/windows.h"
#include "compiler-core/lower/lower.h"
#include "compiler-core/onnx/onnx.h"
#include "compiler-core/onnx/zoo/zoo.h"
#include "compiler-core/ops/rounding.h"
#include "compiler-core/passes/pass.h"
#include "compiler-core/sched/in_place.h"
#include "compiler-core/sched/mutate.h"
#include "compiler-core/sched/space.h"
#include "compiler-core/sched/trace.h"
#include "compiler-core/task/task.h"

#endif
