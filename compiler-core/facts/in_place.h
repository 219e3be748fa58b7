/* Whether a scheduled kernel may write a result over one of its inputs. Used by memory planning. */
#ifndef KILN_COMPILER_CORE_FACTS_IN_PLACE_H
#define KILN_COMPILER_CORE_FACTS_IN_PLACE_H

#include "compiler-core/ir/ir.h"

/* The input whose bytes may be those of `output`: each of its elements is read only to compute the
 * element at the same place, by the one block that writes the output, and both have one type, shape
 * and layout. The first such input; 0: none. */
kiln_buffer kiln_program_in_place(kiln_program *scheduled, kiln_buffer output);

#endif
