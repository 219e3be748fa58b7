#include "web/schemas.h"

#include "base/check.h"

/* A text of JSON for each; web/test_openapi checks that every answer of web/routes.def has a
 * schema. */
static const struct {
    const char *name, *schema;
} table[] = {
    {"me",
     "{\"type\":\"object\",\"required\":[\"person\",\"admin\",\"csrf\",\"projects\",\"version\"],"
     "\"properties\":{\"person\":{\"type\":\"string\"},\"admin\":{\"type\":\"boolean\"},"
     "\"csrf\":{\"type\":\"string\"},\"version\":{\"type\":\"string\"},\"projects\":{\"type\":"
     "\"array\",\"items\":{\"type\":\"object\",\"required\":[\"project\",\"role\"],\"properties\":{"
     "\"project\":{\"type\":\"string\"},\"role\":{\"type\":\"string\"}}}}}}"},
    {"error",
     "{\"type\":\"object\",\"required\":[\"error\"],\"properties\":{\"error\":{\"type\":\"object\","
     "\"required\":[\"code\",\"message\"],\"properties\":{\"code\":{\"type\":\"string\"},"
     "\"message\":{\"type\":\"string\"}}}}}"},
};

json_t *kiln_schemas_make(void) {
    json_t *schemas = json_object();
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        json_t *schema = json_loads(table[i].schema, 0, NULL);
        KILN_CHECK(schema != NULL);
        json_object_set_new(schemas, table[i].name, schema);
    }
    return schemas;
}
