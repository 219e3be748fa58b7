/* Loop programs in sentences, for readers who do not know the text form: tiles, contents of
 * registers, copies, packing and padding, derived from the program alone. */
#ifndef KILN_COMPILER_CORE_FACTS_WORDS_H
#define KILN_COMPILER_CORE_FACTS_WORDS_H

#include "compiler-core/ir/ir.h"

/* Describes a scheduled loop program: the loops around its largest computation from the outside in,
 * the register tile, the other computations with their places, and the layouts that are not
 * row-major. A few lines, each ending in a newline. Expressions may be added to `scheduled`. */
void kiln_program_words(kiln_program *scheduled, kiln_strbuf *out);
/* The register tile of the largest computation in one line without an end: "2 oh x 3 ow x 16 oc in
 * registers, 8 at a time". */
void kiln_program_tile_words(kiln_program *scheduled, kiln_strbuf *out);

#endif
