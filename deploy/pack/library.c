#include "deploy/pack/library.h"

#include "base/dtype.h"

typedef struct writer {
    const kiln_module_bucket *bucket; /* the largest size */
    const kiln_module_plan *plan;     /* of it */
    kiln_str name;
    kiln_arena *arena;
    kiln_strbuf *out;
} writer;

/* Arduino's library specification 1.5: these lines must be there. */
static void write_properties(const writer *w) {
    kiln_strbuf_printf(w->out,
                       "name=%.*s\nversion=1.0.0\nauthor=Kiln\nmaintainer=Kiln\n"
                       "sentence=A neural network, made by Kiln.\n"
                       "paragraph=One function in C, without allocation, files or threads.\n"
                       "category=Data Processing\nurl=\narchitectures=*\nincludes=%.*s.h\n",
                       KILN_STR_ARG(w->name), KILN_STR_ARG(w->name));
}

/* Static buffers, and an array of their addresses. */
static void write_ports(const writer *w, const char *what, const char *constness,
                        const kiln_plan_port *port, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        kiln_strbuf_printf(w->out, "alignas(8) static unsigned char %s_%u[%llu]; // %.*s, %s\n",
                           what, i, (unsigned long long)w->plan->buffer[port[i].buffer].size_bytes,
                           KILN_STR_ARG(port[i].name), kiln_dtype_name(port[i].dtype));
    kiln_strbuf_printf(w->out, "static %svoid *const %ss[] = {", constness, what);
    for (uint32_t i = 0; i < count; i++)
        kiln_strbuf_printf(w->out, "%s%s_%u", i ? ", " : "", what, i);
    kiln_strbuf_text(w->out, "};\n\n");
}

static void write_sketch(const writer *w) {
    const kiln_module_plan *plan = w->plan;
    kiln_strbuf_printf(w->out,
                       "// Runs the network on its input buffers, which are zero here, once a "
                       "second.\n#include <%.*s.h>\n\n",
                       KILN_STR_ARG(w->name));
    write_ports(w, "input", "const ", plan->input, plan->input_count);
    write_ports(w, "output", "", plan->output, plan->output_count);
    kiln_strbuf_printf(
        w->out,
        "void setup() { Serial.begin(115200); }\n\nvoid loop() {\n"
        "    unsigned long begin = micros();\n"
        "    int failed = %.*s_run(%sinputs, outputs);\n"
        "    unsigned long took = micros() - begin;\n"
        "    Serial.print(failed ? \"failed after \" : \"done in \");\n"
        "    Serial.print(took);\n    Serial.println(\" us\");\n    delay(1000);\n}\n",
        KILN_STR_ARG(w->name),
        w->bucket->size ? kiln_arena_printf(w->arena, "%lld, ", (long long)w->bucket->size) : "");
}

static void write_cmake(const writer *w) {
    int size = (int)w->name.size;
    const char *name = w->name.data;
    kiln_strbuf_printf(w->out,
                       "if(COMMAND zephyr_library_named)\n    zephyr_library_named(%.*s)\n"
                       "    zephyr_library_sources(src/%.*s.c)\n"
                       "    zephyr_include_directories(src)\nelse()\n"
                       "    cmake_minimum_required(VERSION 3.16)\n"
                       "    project(%.*s C)\n    add_library(%.*s STATIC src/%.*s.c)\n"
                       "    target_include_directories(%.*s PUBLIC src)\nendif()\n",
                       size, name, size, name, size, name, size, name, size, name, size, name);
}

static void write_module(const writer *w) {
    kiln_strbuf_printf(w->out, "name: %.*s\nbuild:\n  cmake: .\n", KILN_STR_ARG(w->name));
}

static void write_none(const writer *w) { (void)w; }

static const struct {
    const char *path;
    void (*write)(const writer *w);
} files[KILN_LIBRARY_FILES] = {
#define X(NAME, path, writer, doc) {path, write_##writer},
#include "deploy/pack/library.def"
#undef X
};

const char *kiln_library_path(kiln_library_file file, kiln_str name, kiln_arena *arena) {
    kiln_strbuf path = {0};
    for (const char *at = files[file].path; *at; at++) {
        if (*at == '$')
            kiln_strbuf_str(&path, name);
        else
            kiln_strbuf_char(&path, *at);
    }
    return kiln_strbuf_end(&path, arena).data;
}

kiln_status kiln_library(const kiln_module_sizes *sizes, kiln_str name, kiln_arena *arena,
                         kiln_strbuf out_text[KILN_LIBRARY_FILES], kiln_static_c_sizes *out_sizes) {
    const kiln_module_bucket *largest = &sizes->bucket[sizes->bucket_count - 1];
    kiln_status st = kiln_static_c(sizes, name, arena, &out_text[KILN_LIBRARY_SOURCE],
                                   &out_text[KILN_LIBRARY_HEADER], out_sizes);
    for (uint32_t i = 0; !st && i < KILN_LIBRARY_FILES; i++)
        files[i].write(&(writer){largest, &largest->plan, name, arena, &out_text[i]});
    return st;
}
