/* How the answer of objects/mutant.c is wrong. Also read by that object, so nothing but numbers. */
#ifndef KILN_TESTS_UNIT_RPC_SERVER_MUTATIONS_H
#define KILN_TESTS_UNIT_RPC_SERVER_MUTATIONS_H

#include "deploy/runtime/pages.h"

#define MUTATION_MAGIC "mutation"
#define MUTATION_ROW 64
#define MUTATION_FIRST_POISON KILN_POISON_FIRST

enum {
    MUTATION_NONE,
    MUTATION_ELEMENT, /* one element a little off */
    MUTATION_SIGN,
    MUTATION_ZERO,
    MUTATION_NAN,
    MUTATION_INFINITY,
    MUTATION_STALE,     /* one element is not written */
    MUTATION_SHIFTED,   /* a row is the next element's */
    MUTATION_ROW_TWICE, /* a row is the next row's */
    MUTATION_SWAPPED,   /* two neighbours changed places */
    MUTATION_IN_PLACE,  /* a row reads what it has just written */
    MUTATION_ROUNDED,   /* a row in half precision */
    MUTATION_ADDED,     /* an element is accumulated twice */
    MUTATION_HALF,      /* only what lies before is written */
    MUTATION_LATE,      /* only what lies behind */
    MUTATION_LATER,     /* the first call is right, later ones write half */
    MUTATION_COUNT
};

#endif
