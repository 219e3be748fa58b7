/* Objects that the build's own compiler made: loaded, called, refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "deploy/runtime/load.h"
#include "tests/support/elf_make.h"

static const char *object_folder; /* from the command line, set once in main */
static kiln_arena arena;

static kiln_str read_object(const char *name) {
    kiln_str bytes;
    assert_null(kiln_file_read(kiln_arena_printf(&arena, "%s/%s", object_folder, name),
                               KILN_OBJECT_BYTES_MAX, &arena, &bytes));
    return bytes;
}

static kiln_object *load(const char *name) {
    kiln_object *object = NULL;
    kiln_status st = kiln_object_load(read_object(name), &object);
    if (st) fail_msg("%s", kiln_status_text(st));
    return object;
}

static int32_t run_alone(void *host, int64_t count, kiln_kernel_body body, void *context) {
    (void)host;
    return body(context, 0, count, 0);
}

static void compiled_kernel_computes(const char *name) {
    kiln_object *object = load(name);
    kiln_kernel_entry prepare = kiln_object_find(object, "kiln_prepare"),
                      run = kiln_object_find(object, "kiln_run");
    assert_non_null(prepare);
    assert_non_null(run);
    float x[5] = {0, 0, 0, 0, 0}, w[5] = {1, 2, 3, 4, 5}, y[5], p[5], scratch[16];
    int64_t shape[1] = {5};
    kiln_kernel_tensor tensor[4] = {{.data = x}, {.data = w}, {.data = y}, {.data = p}};
    kiln_kernel_tensor *args[4];
    for (int i = 0; i < 4; i++) {
        tensor[i].shape = shape;
        args[i] = &tensor[i];
    }
    kiln_kernel_services services = {.version = KILN_KERNEL_ABI_VERSION,
                                     .worker_count = 1,
                                     .parallel_for = run_alone,
                                     .scratch = scratch};
    assert_int_equal(prepare(args, &services), KILN_KERNEL_OK);
    assert_int_equal(run(args, &services), KILN_KERNEL_OK);
    static const float expected[5] = {1 + 2, 2 + 4, 3 + 6, 4 + 8, 1 + 10}; /* exp(0) = 1 */
    assert_memory_equal(y, expected, sizeof expected);
    kiln_object_unload(object);
}

static void static_code_runs(void **state) {
    (void)state;
    compiled_kernel_computes(
        "kernel_static.o"); /* has absolute 32-bit addresses: mapped below 2 GiB */
}

static void position_independent_code_runs(void **state) {
    (void)state;
    compiled_kernel_computes("kernel_pie.o");
}

static void unknown_entry_is_not_found(void **state) {
    (void)state;
    kiln_object *object = load("kernel_pie.o");
    assert_null(kiln_object_find(object, "body")); /* local */
    assert_null(kiln_object_find(object, "expf")); /* not defined here */
    assert_null(kiln_object_find(object, ""));
    assert_true(kiln_object_code_bytes(object) > 0);
    assert_true(kiln_object_data_bytes(object) >= 16);
    kiln_object_unload(object);
}

static void refused(const char *name, kiln_code code, const char *text) {
    kiln_object *object = NULL;
    kiln_status st = kiln_object_load(read_object(name), &object);
    assert_int_equal(kiln_status_code(st), code);
    if (!strstr(kiln_status_text(st), text))
        fail_msg("'%s' does not say '%s'", kiln_status_text(st), text);
    kiln_status_free(st);
    assert_null(object);
    st = kiln_object_check(read_object(name), KILN_ARCH_X86_64, NULL);
    assert_int_equal(kiln_status_code(st), code);
    kiln_status_free(st);
}

static void compiled_object_outside_the_contract_is_refused(void **state) {
    (void)state;
    refused("writable.o", KILN_UNIMPLEMENTED, ".data");
    refused("threadlocal.o", KILN_UNIMPLEMENTED, ".tbss");
    refused("elsewhere.o", KILN_NOT_FOUND, "undefined symbol");
    refused("unwind.o", KILN_UNIMPLEMENTED, ".eh_frame");
}

/* Runs `attempt` in a child process and returns the signal that ended it. */
static int signal_of(void (*attempt)(void)) {
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        attempt();
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

typedef const void *(*table_entry)(void);

static void write_code(void) {
    kiln_object *object = load("kernel_pie.o");
    *(volatile uint8_t *)(uintptr_t)kiln_object_find(object, "kiln_run") = 0xc3;
}

static void write_data(void) {
    kiln_object *object = load("kernel_pie.o");
    table_entry table = (table_entry)(uintptr_t)kiln_object_find(object, "kiln_table");
    *(volatile uint8_t *)(uintptr_t)table() = 0;
}

static void call_data(void) {
    kiln_object *object = load("kernel_pie.o");
    table_entry table = (table_entry)(uintptr_t)kiln_object_find(object, "kiln_table");
    ((void (*)(void))(uintptr_t)table())();
}

static void read_data(void) {
    kiln_object *object = load("kernel_pie.o");
    table_entry table = (table_entry)(uintptr_t)kiln_object_find(object, "kiln_table");
    (void)*(const volatile uint8_t *)table();
}

static void nothing_is_writable_and_data_does_not_run(void **state) {
    (void)state;
    assert_int_equal(signal_of(write_code), SIGSEGV);
    assert_int_equal(signal_of(write_data), SIGSEGV);
    assert_int_equal(signal_of(call_data), SIGSEGV);
    assert_int_equal(signal_of(read_data), 0);
}

/* jmp memcpy, through the veneer; the relocation is the only thing in the code. */
static void service_is_reached_from_anywhere(void **state) {
    (void)state;
    static const uint8_t jump[] = {0xe9, 0, 0, 0, 0};
    elf_make e = {0};
    (void)elf_make_add_text(&e, jump, sizeof jump);
    (void)elf_make_add_function(&e, "copy", 1, 0);
    uint32_t symbol =
        elf_make_add_symbol(&e, "memcpy", ELF64_ST_INFO(STB_GLOBAL, STT_NOTYPE), SHN_UNDEF, 0);
    elf_make_add_relocation(&e, 1, 1, symbol, R_X86_64_PLT32, -4);
    kiln_strbuf bytes = {0};
    elf_make_finish(&e, &bytes);
    kiln_object *object = NULL;
    assert_null(kiln_object_load(kiln_strbuf_view(&bytes), &object));
    kiln_strbuf_deinit(&bytes); /* the object does not need it any more */
    void *(*copy)(void *, const void *, size_t) =
        (void *(*)(void *, const void *, size_t))(uintptr_t)kiln_object_find(object, "copy");
    char to[8] = "";
    assert_ptr_equal(copy(to, "kiln", 5), to);
    assert_string_equal(to, "kiln");
    kiln_object_unload(object);
}

static uint32_t mappings_now(void) {
    kiln_str text;
    assert_null(kiln_file_read_system("/proc/self/maps", &arena, &text));
    uint32_t lines = 0;
    for (size_t i = 0; i < text.size; i++) lines += text.data[i] == '\n';
    return lines;
}

/* A mapping of an object is up to three: code, data, and what lies between others. */
static void nothing_mapped_is_left_of_many_objects(void **state) {
    (void)state;
    kiln_object_unload(load("kernel_pie.o")); /* what the first load alone brings */
    uint32_t before = mappings_now();
    kiln_str bytes = read_object("kernel_pie.o");
    for (int i = 0; i < 2000; i++) {
        kiln_object *object = NULL;
        assert_null(kiln_object_load(bytes, &object));
        assert_non_null(kiln_object_code(object));
        kiln_object_unload(object);
    }
    assert_true(mappings_now() <
                before + 100); /* an allocator may have some more; 2,000 it would be */
}

static void object_without_code_loads(void **state) {
    (void)state;
    elf_make e = {0};
    kiln_strbuf bytes = {0};
    elf_make_finish(&e, &bytes);
    kiln_object *object = NULL;
    assert_null(kiln_object_load(kiln_strbuf_view(&bytes), &object));
    assert_null(kiln_object_find(object, "kiln_run"));
    kiln_object_unload(object);
    kiln_strbuf_deinit(&bytes);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(static_code_runs),
        cmocka_unit_test(position_independent_code_runs),
        cmocka_unit_test(unknown_entry_is_not_found),
        cmocka_unit_test(compiled_object_outside_the_contract_is_refused),
        cmocka_unit_test(nothing_is_writable_and_data_does_not_run),
        cmocka_unit_test(service_is_reached_from_anywhere),
        cmocka_unit_test(nothing_mapped_is_left_of_many_objects),
        cmocka_unit_test(object_without_code_loads),
    };
    object_folder = argc > 1 ? argv[1] : ".";
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    kiln_arena_deinit(&arena);
    return failed;
}
