/* The executor of this machine, called as child.c calls it but outside of any sandbox. */
#include "rpc-server/executor.h"

#include <dirent.h>
#include <unistd.h>

#include "base/macros.h"
#include "base/reference.h"
#include "base/str.h"
#include "rpc-server/board.h"
#include "tests/unit/rpc-server/candidates.h"

static const char *the_object_folder;

/* Without the one that ThreadSanitizer has. */
static uint32_t count_threads(void) {
    uint32_t count = KILN_SANITIZED_THREAD ? UINT32_MAX : 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (struct dirent *entry; (entry = readdir(tasks));) count += entry->d_name[0] != '.';
    closedir(tasks);
    return count;
}

static void *load(const kiln_executor_vtable *cpu, void *device, const char *candidate,
                  kiln_arena *arena) {
    kiln_strbuf bytes = {0};
    kiln_artefact artefact;
    void *program = NULL;
    candidate_artefact(the_object_folder, candidate, CANDIDATE_FLOPS, &bytes);
    kiln_str own = {kiln_str_dup(arena, kiln_strbuf_view(&bytes)), bytes.size};
    kiln_strbuf_deinit(&bytes);
    expect_ok(kiln_artefact_decode(own, arena, &artefact));
    expect_ok(cpu->load(device, own, &artefact.manifest, &program));
    cpu->fill(program, CANDIDATE_SEED);
    assert_int_equal(cpu->prepare(program), KILN_RAN_OK);
    return program;
}

/* Workers of a kernel that is not having its turn would spin on the cores of the one that is. */
static void kernels_in_turns_share_their_threads(void **state) {
    const kiln_executor_vtable *cpu = kiln_executor_find(KILN_STR("cpu"))->vtable;
    uint32_t core[KILN_EXECUTOR_CORES_MAX];
    const kiln_executor_setup setup = {kiln_board_cores(core, 2), core, "cpu", 0};
    void *device = NULL, *program[2];
    expect_ok(cpu->open(&setup, &device));
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(program); i++)
        program[i] = load(cpu, device, "shares_its_work", *state);
    assert_int_equal(count_threads(), setup.core_count);
    for (uint32_t i = 0; i < 2 * KILN_ARRAY_COUNT(program); i++) {
        uint64_t ns = 0;
        assert_int_equal(cpu->run(program[i % 2], 3, &ns), KILN_RAN_OK);
        assert_true(ns > 0);
    }
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(program); i++) cpu->unload(program[i]);
    cpu->close(device);
    cpu->close(NULL);
    while (count_threads() > 1) {
    } /* who was joined has ended; the kernel puts it away a moment later */
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    the_object_folder = argv[1];
    const struct CMUnitTest tests[] = {test_with_arena(kernels_in_turns_share_their_threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
