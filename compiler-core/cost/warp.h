/* The memory request of one access by one warp, the first of the first group. Counted from the
 * addresses of its threads, which index forms and layouts give; only indices that depend on data
 * are estimated. Private to cost/. */
#ifndef KILN_COMPILER_CORE_COST_WARP_H
#define KILN_COMPILER_CORE_COST_WARP_H

#include "compiler-core/facts/facts.h"

#define KILN_WARP_SECTOR_BYTES 32 /* what device memory moves at once */
#define KILN_WARP_BANKS 32        /* of shared memory, a word each */
#define KILN_WARP_WORD_BYTES 4

typedef struct kiln_warp_shape {
    uint32_t warp;          /* threads of a warp, at most KILN_WARP_MAX */
    uint32_t group_size[3]; /* of the launch: defines the threads of the first warp */
} kiln_warp_shape;

typedef struct kiln_warp_request {
    uint32_t threads; /* that take part */
    uint32_t sectors; /* distinct ones of device memory */
    uint32_t cycles;  /* most distinct words of one bank: 1 where no two threads are in conflict */
} kiln_warp_request;

#define KILN_WARP_MAX 64
#define KILN_WARP_DIGITS_MAX (KILN_RANK_MAX * KILN_FORM_TERMS_MAX)

/* One part of an index that depends on the thread's number. */
typedef struct kiln_warp_digit {
    uint32_t dim; /* of the access */
    uint32_t axis, divisor, extent;
    int64_t coefficient;
} kiln_warp_digit;

/* Addresses that the threads of a warp request. Accesses of one statement that differ by constants,
 * such as all loads of a window, share it. Zeroed is empty. */
typedef struct kiln_warp_places {
    const kiln_facts_statement *s; /* NULL: nothing is kept */
    kiln_buffer buffer;
    uint32_t digit_count;
    kiln_warp_digit digit[KILN_WARP_DIGITS_MAX];
    uint32_t threads, count;
    int64_t offset[KILN_WARP_MAX]; /* [count] distinct, in bytes from the first thread's address,
                                    * ascending */
} kiln_warp_places;

/* `bytes`: consecutive bytes that each thread asks for. `places`: kept between calls for one
 * launch. */
kiln_warp_request kiln_warp_request_of(const kiln_facts *facts, const kiln_facts_statement *s,
                                       const kiln_facts_access *a, const kiln_warp_shape *shape,
                                       uint32_t bytes, kiln_warp_places *places);

/* Warps of a group in which any thread runs the statement. */
uint32_t kiln_warps_of(const kiln_facts *facts, const kiln_facts_statement *s,
                       const kiln_warp_shape *shape);

#endif
