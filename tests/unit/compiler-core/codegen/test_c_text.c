/* C text computes what the interpreter says, compiled by gcc and by clang: random programs, random
 * schedules, samples of spaces, with threads. */
#include "compiler-core/codegen/codegen.h"
#include "compiler-core/lower/lower.h"
#include "tests/support/program_generate.h"
#include "tests/unit/compiler-core/codegen/c_compile.h"
#include "tests/unit/compiler-core/codegen/draw.h"
#include "tests/unit/compiler-core/codegen/products.h"
#include "tests/unit/compiler-core/codegen/support.h"

#define UNARY_ELEMENTS 8
#define PLAIN "cpu:x86_64-unknown-linux-gnu,mcpu=x86-64"

/* Who compiles, where, and how often it did. */
typedef struct compilation {
    const char *compiler, *flag;
    char *folder;
} compilation;

static kiln_status run_compiled(void *context, const kiln_artefact *artefact,
                                const kiln_program *te, const kiln_tensor *args, uint32_t workers) {
    const compilation *c = context;
    kiln_artefact object = *artefact;
    object.payload = compile_c(artefact->payload, c->compiler, c->flag, c->folder, te->arena);
    object.manifest.target = KILN_STR(PLAIN); /* that compilers make code for, whatever the text */
    object.manifest.payload_kind = KILN_PAYLOAD_ELF;
    return run_artefact(&object, te, args, workers);
}

typedef kiln_program *(*scheduler)(const kiln_program *te, const kiln_target *target,
                                   kiln_rand *rand);

static kiln_program *draw_loops(const kiln_program *te, const kiln_target *target,
                                kiln_rand *rand) {
    (void)target, (void)rand;
    kiln_program *p = kiln_program_copy(te, te->arena);
    kiln_program_make_loops(p);
    return p;
}

static kiln_program *draw_primitives(const kiln_program *te, const kiln_target *target,
                                     kiln_rand *rand) {
    (void)target;
    return draw_schedule(te, rand, 12 + (uint32_t)kiln_rand_below(rand, 30));
}

/* False: lowering refused the schedule. */
static bool compare_one(compilation *c, const char *target_text, scheduler draw, uint64_t seed,
                        kiln_arena *arena) {
    const kiln_generate_options options = {
        .blocks_max = 4, .points_max = 400, .floats_only = seed % 2 == 0};
    kiln_rand rand;
    kiln_rand_init(&rand, seed);
    kiln_target target = target_of(arena, target_text);
    kiln_program *te = kiln_program_generate(&rand, &options, arena);
    kiln_program *scheduled = draw(te, &target, &rand);
    if (!schedule_is_sound(te, scheduled, seed)) return false;
    kiln_status st = expect_runs_equal(te, scheduled, &target, "c", 2, seed, run_compiled, c);
    bool ran = st == NULL;
    kiln_status_free(st);
    return ran;
}

/* Each compiler gets its own seeds. */
static void compare_all(const char *target_text, scheduler draw, uint64_t seeds) {
    kiln_arena arena;
    kiln_arena folder;
    skip_unless_runs_here(PLAIN);
    kiln_arena_init(&arena, 0);
    kiln_arena_init(&folder, 0);
    compilation c = {.folder = make_folder(&folder)};
    uint64_t ran = 0;
    for (uint64_t i = 0; i < C_COMPILERS * seeds; i++) {
        kiln_arena_reset(&arena);
        c.compiler = c_compiler[i % C_COMPILERS];
        ran += compare_one(&c, target_text, draw, i + 1, &arena);
    }
    remove_folder(c.folder);
    kiln_arena_deinit(&folder);
    kiln_arena_deinit(&arena);
    assert_true(ran > seeds);
}

#define SEEDS 14

static void unscheduled_programs_keep_the_meaning(void **state) {
    (void)state;
    compare_all(PLAIN, draw_loops, SEEDS);
}
static void random_primitives_keep_the_meaning(void **state) {
    (void)state;
    compare_all(PLAIN, draw_primitives, 2 * SEEDS);
}
static void random_primitives_keep_the_meaning_with_threads(void **state) {
    (void)state;
    compare_all(PLAIN ",cores=2,threads=2", draw_primitives, SEEDS);
}
static void samples_of_spaces_keep_the_meaning(void **state) {
    (void)state;
    compare_all(PLAIN, draw_sample, 2 * SEEDS);
}
/* Vectors of 64 bytes, which the compiler cuts to what the processor has. */
static void samples_for_wide_vectors_keep_the_meaning(void **state) {
    (void)state;
    compare_all("cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v4", draw_sample, SEEDS);
}

static void compare_products(kiln_arena *arena, const char *intrinsic, uint64_t draws) {
    const kiln_intrinsic *in = kiln_intrinsic_find(kiln_str_from(intrinsic));
    compilation c = {.folder = make_folder(arena)};
    kiln_target target = target_with(arena, in);
    for (uint64_t seed = 1; seed <= C_COMPILERS * draws; seed++) {
        kiln_rand rand;
        kiln_rand_init(&rand, seed);
        kiln_program *te, *scheduled = draw_product(arena, in, &rand, seed < 3, &te);
        c.compiler = c_compiler[seed % C_COMPILERS];
        expect_ok(expect_runs_equal(te, scheduled, &target, "c", 2, seed, run_compiled, &c));
    }
    remove_folder(c.folder);
}

/* Products that are marked for an instruction stay loops. */
static void marked_products_keep_the_meaning(void **state) {
    compare_products(*state, "vpmaddwd", 3);
}

/* Microcontrollers' are functions of C, which compilers of other processors have written out. */
static void products_of_microcontrollers_keep_the_meaning(void **state) {
    static const char *const name[] = {"smlad", "vmlava.s8", "vmlava.u8", "vmlava.s16"};
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(name); i++) compare_products(*state, name[i], 2);
}

/* C has no tiles: their buffers lie in memory. */
static void products_in_tiles_keep_the_meaning(void **state) {
    kiln_arena *arena = *state;
    compilation c = {.folder = make_folder(arena), .compiler = c_compiler[0]};
    const kiln_target target =
        target_of(arena, "cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v3,features=+amx-tile+amx-int8");
    for (uint64_t seed = 1; seed <= 3; seed++) {
        kiln_rand rand;
        kiln_rand_init(&rand, seed);
        kiln_program *te = quantised_program(arena, KILN_I8, 32, 6, 20);
        kiln_program *scheduled = draw_sample(te, &target, &rand);
        expect_ok(expect_runs_equal(te, scheduled, &target, "c", 2, seed, run_compiled, &c));
    }
    remove_folder(c.folder);
}

static kiln_buffer add_vector(kiln_program *p, const char *name, kiln_dtype dtype, kiln_role role) {
    const kiln_shape shape = {.rank = 1, .dim = {UNARY_ELEMENTS}};
    return kiln_buffer_create(p, kiln_str_from(name), dtype, role, &shape);
}

/* to = op(x), or a cast of some multiple of it. */
static void add_unary(kiln_program *p, kiln_buffer x, kiln_expr_op op, kiln_dtype to) {
    kiln_dtype from = p->buffer.data[x].dtype;
    const char *name = kiln_arena_printf(p->arena, "y%u", p->buffer.count);
    kiln_buffer y = add_vector(p, name, to, KILN_ROLE_OUTPUT);
    kiln_block b = kiln_block_create(p, kiln_str_from(kiln_arena_printf(p->arena, "f%u", y)));
    kiln_expr i = kiln_block_add_iter(p, b, "i", UNARY_ELEMENTS, false);
    kiln_expr load = kiln_expr_load(p, x, &i, 1), value = load;
    if (op == KILN_EXPR_CAST && from != KILN_BOOL) {
        kiln_expr scale =
            kiln_dtype_is_float(from) ? kiln_expr_float(p, from, 900) : kiln_expr_int(p, from, 7);
        value = kiln_expr_binary(p, KILN_EXPR_MUL, load, scale);
    }
    value = op == KILN_EXPR_CAST ? kiln_expr_cast(p, to, value) : kiln_expr_unary(p, op, value);
    kiln_block_set(p, b, y, &i, 1, KILN_COMBINE_NONE, value, 0);
}

/* Scalars and vectors, by both compilers. */
static void expect_all_forms(const kiln_program *te, compilation *c) {
    kiln_target target = target_of(te->arena, PLAIN);
    for (uint32_t form = 0; form < 2 * C_COMPILERS; form++) {
        kiln_program *p = kiln_program_copy(te, te->arena);
        kiln_program_make_loops(p);
        for (kiln_stmt s = 1; form % 2 && s < p->stmt.count; s++)
            if (p->stmt.data[s].kind == KILN_STMT_FOR)
                p->stmt.data[s].loop_kind = KILN_LOOP_VECTORIZE;
        c->compiler = c_compiler[form / 2];
        expect_ok(expect_runs_equal(te, p, &target, "c", 2, form + 1, run_compiled, c));
    }
}

static void functions_keep_the_meaning(void **state) {
    static const kiln_dtype dtype[] = {KILN_F32, KILN_F64, KILN_F16, KILN_BF16};
    kiln_arena *arena = *state;
    compilation c = {.folder = make_folder(arena)};
    for (uint32_t i = 0; i < 2 * KILN_ARRAY_COUNT(dtype); i++) {
        kiln_program *p = kiln_program_create(arena, KILN_STR("functions"));
        kiln_buffer x = add_vector(p, "x", dtype[i / 2], KILN_ROLE_INPUT);
        /* Every other one: gcc makes one call of sin and cos, which kernels may not make. */
        for (kiln_expr_op op = KILN_EXPR_NEG + i % 2; op < KILN_EXPR_ISNAN; op += 2)
            add_unary(p, x, op, dtype[i / 2]);
        expect_all_forms(p, &c);
    }
    remove_folder(c.folder);
}

static void casts_between_all_types_keep_the_meaning(void **state) {
    static const kiln_dtype dtype[] = {KILN_BOOL, KILN_I8,  KILN_I16, KILN_I32, KILN_I64,
                                       KILN_U8,   KILN_U16, KILN_U32, KILN_U64, KILN_F16,
                                       KILN_BF16, KILN_F32, KILN_F64};
    kiln_arena *arena = *state;
    compilation c = {.folder = make_folder(arena)};
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(dtype); i++) {
        kiln_program *p = kiln_program_create(arena, KILN_STR("casts"));
        kiln_buffer x = add_vector(p, "x", dtype[i], KILN_ROLE_INPUT);
        for (uint32_t k = 0; k < KILN_ARRAY_COUNT(dtype); k++)
            add_unary(p, x, KILN_EXPR_CAST, dtype[k]);
        expect_all_forms(p, &c);
    }
    remove_folder(c.folder);
}

/* test-core-codegen-c_text SEED: that seed alone, in every form, by every compiler. */
static int run_seed(uint64_t seed) {
    static const scheduler draw[] = {draw_loops, draw_primitives, draw_sample};
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(draw) * C_COMPILERS; i++) {
        compilation c = {.compiler = c_compiler[i % C_COMPILERS], .folder = make_folder(&arena)};
        print_message("form %u, %s\n", i / C_COMPILERS, c.compiler);
        compare_one(&c, PLAIN, draw[i / C_COMPILERS], seed, &arena);
        remove_folder(c.folder);
    }
    kiln_arena_deinit(&arena);
    return 0;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unscheduled_programs_keep_the_meaning),
        cmocka_unit_test(random_primitives_keep_the_meaning),
        cmocka_unit_test(random_primitives_keep_the_meaning_with_threads),
        cmocka_unit_test(samples_of_spaces_keep_the_meaning),
        cmocka_unit_test(samples_for_wide_vectors_keep_the_meaning),
        test_with_arena(marked_products_keep_the_meaning),
        test_with_arena(products_of_microcontrollers_keep_the_meaning),
        test_with_arena(products_in_tiles_keep_the_meaning),
        test_with_arena(functions_keep_the_meaning),
        test_with_arena(casts_between_all_types_keep_the_meaning),
    };
    uint64_t seed;
    if (argc > 1 && kiln_str_to_u64(kiln_str_from(argv[1]), &seed)) return run_seed(seed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
