/* Front header of the compiler: graphs to object bytes. Other folders include only this header and
 * frontend/frontend.h, which reads models (tests may include any). No socket, no database.
 *
 *     graph ─ kiln_passes_run ─> fused graph ─ kiln_tasks_extract ─> tasks ─ kiln_space_create ─>
 * space ─> trace ─ kiln_build ─> artefact */
#ifndef KILN_COMPILER_CORE_CORE_H
#define KILN_COMPILER_CORE_CORE_H

#include "compiler-core/algorithm/algorithm.h"
#include "compiler-core/build.h"
#include "compiler-core/codegen/codegen.h"
#include "compiler-core/cost/features.h"
#include "compiler-core/facts/in_place.h"
#include "compiler-core/facts/words.h"
#include "compiler-core/graph/graph.h"
#include "compiler-core/graph/graph_codec.h"
#include "compiler-core/graph/graph_text.h"
#include "compiler-core/graph/op.h"
#include "compiler-core/ir/eval.h"
#include "compiler-core/ir/ir.h"
#include "compiler-core/ir/ir_text.h"
#include "compiler-core/ir/reference.h"
#include "compiler-core/ir/te_sample.h"
#include "compiler-core/layout/assign.h"
#include "compiler-core/layout/compilation.h"
#include "compiler-core/layout/convert.h"
#include "compiler-core/layout/parts.h"
#include "compiler-core/layout/ties.h"
#include "compiler-core/layout/windows.h"
#include "compiler-core/lower/lower.h"
#include "compiler-core/ops/rounding.h"
#include "compiler-core/passes/pass.h"
#include "compiler-core/passes/widen.h"
#include "compiler-core/rules/foreign.h"
#include "compiler-core/rules/mutate.h"
#include "compiler-core/rules/space.h"
#include "compiler-core/sched/trace.h"
#include "compiler-core/task/rows.h"
#include "compiler-core/task/task.h"

#endif
