/* JSON schemas of answers that are no records of proto/messages.def, for the OpenAPI document. */
#ifndef KILN_WEB_SCHEMAS_H
#define KILN_WEB_SCHEMAS_H

#include <jansson.h>

/* {"error": {"type": "object", ...}, ...}: a member for each name that web/routes.def has as an
 * answer. */
json_t *kiln_schemas_make(void);

#endif
