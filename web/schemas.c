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
    {"board",
     "{\"type\":\"object\",\"description\":\"A board_row with its figures one by "
     "one.\",\"required\":["
     "\"node\",\"key\",\"target\",\"state\",\"figures\"],\"properties\":{\"figures\":{\"type\":"
     "\"array\","
     "\"items\":{\"type\":\"object\",\"required\":[\"name\",\"value\",\"unit\"],\"properties\":{"
     "\"name\":{\"type\":\"string\"},\"value\":{\"type\":\"number\"},\"unit\":{\"type\":\"string\"}"
     "}}}}}"},
    {"board_log",
     "{\"type\":\"object\",\"required\":[\"lines\",\"newest\"],\"properties\":{\"newest\":{"
     "\"type\":"
     "\"integer\"},\"lines\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"required\":["
     "\"number\",\"time\",\"level\",\"text\"],\"properties\":{\"number\":{\"type\":\"integer\"},"
     "\"time\":"
     "{\"type\":\"string\"},\"level\":{\"type\":\"string\"},\"text\":{\"type\":\"string\"}}}}}}"},
    {"queue",
     "{\"type\":\"object\",\"required\":[\"jobs\",\"projects\"],\"properties\":{\"jobs\":{\"type\":"
     "\"array\",\"items\":{\"type\":\"object\",\"required\":[\"job\",\"project\",\"position\","
     "\"why\"],"
     "\"properties\":{\"job\":{\"type\":\"string\"},\"project\":{\"type\":\"string\"},\"user\":{"
     "\"type\":\"string\"},\"position\":{\"type\":\"integer\",\"minimum\":1},\"why\":{\"type\":"
     "\"string\"},\"age_ms\":{\"type\":\"integer\"},\"priority\":{\"type\":\"integer\"}}}},"
     "\"projects\":"
     "{\"type\":\"array\",\"items\":{\"type\":\"object\",\"required\":[\"project\",\"weight\","
     "\"share\",\"fair_share\"],\"properties\":{\"project\":{\"type\":\"string\"},\"weight\":{"
     "\"type\":"
     "\"integer\"},\"share\":{\"type\":\"number\"},\"fair_share\":{\"type\":\"number\"}}}}}}"},
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
