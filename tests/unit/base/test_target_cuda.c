/* Texts and limits of CUDA targets. */
#include "base/target.h"
#include "tests/support/targets.h"
#include "tests/support/test.h"

static void rows_give_the_limits_and_each_device_is_a_key_of_its_own(void **state) {
    static const struct {
        const char *text, *canonical, *row;
        uint32_t shared_bytes, units;
    } of[] = {{"h200", "cuda:sm_90a,mcpu=h200", "h200", 232448, 132},
              {"h100", "cuda:sm_90a,mcpu=h100", "h100", 232448, 132},
              {"a100", "cuda:sm_80,mcpu=a100", "a100", 166912, 108},
              {"cuda:sm_80", "cuda:sm_80", "sm_80", 166912, 56},
              {"cuda:sm_90a", "cuda:sm_90a", "sm_90", 232448, 114},
              {"cuda:sm_90,mcpu=h200", "cuda:sm_90,mcpu=h200", "h200", 232448, 132},
              {"cuda:sm_80,mcpu=h100", "cuda:sm_80,mcpu=h100", "h100", 232448, 132}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(of); i++) {
        kiln_target target = target_of(*state, of[i].text);
        assert_int_equal(target.kind, KILN_TARGET_CUDA);
        expect_str(text_of_target(&target, *state), of[i].canonical);
        assert_string_equal(target.gpu->name, of[i].row);
        assert_int_equal(target.group_threads, 1024);
        assert_int_equal(target.shared_bytes, of[i].shared_bytes);
        assert_int_equal(target.cores, of[i].units);
        assert_int_equal(target.threads, 1);
        assert_true(kiln_target_computes(&target, KILN_F16));
        assert_true(kiln_target_computes(&target, KILN_F64));
    }
}

static void what_no_device_is_is_refused(void **state) {
    static const char *const row[][2] = {
        {"cuda:sm_10", "'sm_10' is not a CUDA architecture; known: sm_80 sm_90 sm_90a"},
        {"cuda:sm_80a", "'sm_80a' is not a CUDA architecture"},
        {"cuda:h200", "'h200' is not a CUDA architecture"},
        {"cuda:a", "is not a CUDA architecture"},
        {"cuda", "is not a CUDA architecture"},
        {"cuda:sm_90,threads=2", "unknown part 'threads=2'; known: mcpu="},
        {"cuda:sm_90,emulated", "unknown part 'emulated'"},
        {"cuda:sm_90,mcpu=rtx", "unknown mcpu 'rtx'; known here: a100 h100 h200"},
        {"cuda:sm_90,mcpu=sm_90", "unknown mcpu 'sm_90'"},
        {"cuda:sm_90,mcpu=opencl", "unknown mcpu 'opencl'"},
        {"cuda:sm_90,mcpu=a100", "mcpu=a100 is a sm_80 and runs no code for sm_90"},
        {"h200,mcpu=h100", NULL},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_target target;
        kiln_status st = kiln_target_parse(kiln_str_from(row[i][0]), *state, &target);
        if (row[i][1])
            expect_error_at(st, KILN_INVALID_ARGUMENT, row[i][1], row[i][0], (int)i);
        else
            expect_ok(st);
    }
}

static void code_runs_on_later_devices_and_what_is_special_on_its_own(void **state) {
    static const struct {
        const char *wanted, *device, *reason;
    } row[] = {
        {"cuda:sm_80", "a100", NULL},
        {"cuda:sm_80", "h200", NULL},
        {"cuda:sm_90", "h200", NULL},
        {"cuda:sm_90", "cuda:sm_90a", NULL},
        {"cuda:sm_90a", "h200", NULL},
        {"cuda:sm_90a", "cuda:sm_90", NULL},
        {"h200", "h100", NULL},
        {"cuda:sm_90", "a100", "the device is sm_80, not sm_90"},
        {"h200", "a100", "the device is sm_80, not sm_90a"},
        {"cuda:sm_80,mcpu=h200", "a100", "232448 bytes shared by a group; the device has 166912"},
        {"a100", "opencl", "the device runs opencl code, not cuda code"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_target wanted = target_of(*state, row[i].wanted),
                    device = target_of(*state, row[i].device);
        kiln_strbuf reason = {0};
        assert_int_equal(kiln_target_runs_on(&wanted, &device, &reason), row[i].reason == NULL);
        if (row[i].reason) expect_contains(reason.data, row[i].reason);
        kiln_strbuf_deinit(&reason);
    }
}

/* Code that runs there is not enough: times of one device do not stand for another. */
static void times_are_of_the_device_that_the_target_names(void **state) {
    static const struct {
        const char *wanted, *device, *reason;
    } row[] = {
        {"cuda:sm_90a", "h200", NULL},
        {"h200", "h200", NULL},
        {"h200", "h100", "the device is h100, not h200"},
        {"h200", "cuda:sm_90a", "the device is sm_90a, not h200"},
        {"opencl", "opencl:x,emulated", "ask for TARGET,emulated"},
        {"opencl:x,emulated", "opencl:x,group=1024", "it is not emulated"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_target wanted = target_of(*state, row[i].wanted),
                    device = target_of(*state, row[i].device);
        kiln_strbuf reason = {0};
        assert_int_equal(kiln_target_serves(&wanted, &device, &reason), row[i].reason == NULL);
        if (row[i].reason) expect_contains(reason.data, row[i].reason);
        kiln_strbuf_deinit(&reason);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(rows_give_the_limits_and_each_device_is_a_key_of_its_own),
        test_with_arena(what_no_device_is_is_refused),
        test_with_arena(code_runs_on_later_devices_and_what_is_special_on_its_own),
        test_with_arena(times_are_of_the_device_that_the_target_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
