/* JSON of what others say: every string in its printable form (base/text.h). */
#ifndef KILN_CLI_COMMON_JSON_H
#define KILN_CLI_COMMON_JSON_H

#include <jansson.h>

#include "base/str.h"

/* Prints one object, its strings in their printable form, and frees it. */
void kiln_json_print(json_t *object, kiln_strbuf *out);
/* A string in its printable form, with its line ends. What may be no UTF-8 needs it. */
json_t *kiln_json_str(kiln_str text);

#endif
