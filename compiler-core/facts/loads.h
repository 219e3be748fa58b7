/* The loads of a block, and the readers of a buffer.
 *
 * Used to find what a block depends on, by legality, rules, lowering and tests. The list of a
 * block's loads is made once and kept in the program until the block's expressions change, so a
 * query is cheap. */
#ifndef KILN_COMPILER_CORE_FACTS_LOADS_H
#define KILN_COMPILER_CORE_FACTS_LOADS_H

#include "compiler-core/ir/ir.h"

typedef struct kiln_loads {
    uint32_t count;
    const kiln_expr *load; /* [count], in the program's arena */
} kiln_loads;

/* Distinct loads of the block's value and initial value, operands before users. Holds until one of
 * the two changes. */
kiln_loads kiln_block_loads(kiln_program *p, kiln_block block);
/* Calls `visit` for each load that running the block makes: value, initial value, predicate and
 * bindings, of which a load may be visited by several. */
void kiln_block_visit_loads(kiln_program *p, kiln_block block, kiln_expr_visitor visit,
                            void *context);
/* Drops every kept list. Required before expression ids are reused: when the newest expressions of
 * a program are dropped. */
void kiln_loads_forget(kiln_program *p);

/* The buffer that a load reads. */
kiln_buffer kiln_load_buffer(const kiln_program *p, kiln_expr load);
/* Copies the indices of a load: out [KILN_RANK_MAX]; returns how many there are. */
uint32_t kiln_load_index(const kiln_program *p, kiln_expr load, kiln_expr *out);

/* Whether its value or initial value loads the buffer. */
bool kiln_block_reads(kiln_program *p, kiln_block block, kiln_buffer buffer);
/* Blocks that read `buffer`, in table order: out [count of blocks]; returns how many there are. */
uint32_t kiln_buffer_readers(kiln_program *p, kiln_buffer buffer, kiln_block *out);
/* Whether the block reads something, and constants alone or what blocks compute of them: it runs
 * once, before any measurement. */
bool kiln_block_reads_only_constants(kiln_program *p, kiln_block block);

#endif
