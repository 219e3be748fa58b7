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
    {"inspection",
     "{\"type\":\"object\",\"required\":[\"items\"],\"properties\":{\"items\":{\"type\":\"arra"
     "y\",\"items\":{\"anyOf\":[{\"type\":\"object\",\"description\":\"A step of a run: source"
     "s are the steps that it reads results of, inputs and outputs numbers of tensors.\",\"req"
     "uired\":[\"event\",\"number\",\"name\",\"op\",\"action\",\"algorithm\",\"task\",\"flops"
     "\",\"device\",\"loop\",\"sources\",\"inputs\",\"outputs\",\"layout_in\",\"layout_out\","
     "\"in_use\",\"device_in_use\",\"scratch_bytes\"],\"properties\":{\"event\":{\"const\":\"s"
     "tep\"},\"number\":{\"type\":\"integer\"},\"name\":{\"type\":\"string\"},\"op\":{\"type\""
     ":\"string\"},\"action\":{\"type\":\"string\"},\"algorithm\":{\"type\":\"string\"},\"task"
     "\":{\"type\":\"string\"},\"flops\":{\"type\":\"number\"},\"device\":{\"type\":\"integer"
     "\"},\"loop\":{\"type\":[\"integer\",\"null\"]},\"sources\":{\"type\":[\"array\",\"null\""
     "],\"items\":{\"type\":\"integer\"}},\"inputs\":{\"type\":\"array\",\"items\":{\"type\":"
     "\"integer\"}},\"outputs\":{\"type\":\"array\",\"items\":{\"type\":\"integer\"}},\"layout"
     "_in\":{\"type\":\"string\"},\"layout_out\":{\"type\":\"string\"},\"in_use\":{\"type\":\""
     "integer\"},\"device_in_use\":{\"type\":\"integer\"},\"scratch_bytes\":{\"type\":\"intege"
     "r\"}}},{\"type\":\"object\",\"description\":\"A buffer with its place and the first and "
     "last step that it is alive at; null: the module does not say.\",\"required\":[\"event\","
     "\"buffer\",\"kind\",\"name\",\"bytes\",\"device\",\"offset\",\"part_of\",\"part_at\",\"f"
     "irst\",\"last\"],\"properties\":{\"event\":{\"const\":\"tensor\"},\"buffer\":{\"type\":"
     "\"integer\"},\"kind\":{\"enum\":[\"input\",\"output\",\"constant\",\"workspace\"]},\"nam"
     "e\":{\"type\":[\"string\",\"null\"]},\"bytes\":{\"type\":\"integer\"},\"device\":{\"type"
     "\":\"integer\"},\"offset\":{\"type\":[\"integer\",\"null\"]},\"part_of\":{\"type\":[\"in"
     "teger\",\"null\"]},\"part_at\":{\"type\":[\"integer\",\"null\"]},\"first\":{\"type\":[\""
     "integer\",\"null\"]},\"last\":{\"type\":[\"integer\",\"null\"]}}},{\"type\":\"object\","
     "\"required\":[\"event\"],\"properties\":{\"event\":{\"enum\":[\"module\",\"bucket\",\"in"
     "put\",\"output\"]}}}]}}}}"},
    {"roofline",
     "{\"type\":\"object\",\"required\":[\"target\",\"of\",\"source\",\"levels\"],\"properties"
     "\":{\"target\":{\"type\":\"string\"},\"of\":{\"enum\":[\"core\",\"device\",null]},\"sour"
     "ce\":{\"type\":[\"string\",\"null\"]},\"levels\":{\"type\":\"array\",\"items\":{\"type\""
     ":\"object\",\"required\":[\"name\",\"bytes_per_s\"],\"properties\":{\"name\":{\"type\":"
     "\"string\"},\"bytes_per_s\":{\"type\":\"number\",\"exclusiveMinimum\":0}}}}}}"},
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
