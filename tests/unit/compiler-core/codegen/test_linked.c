/* Objects for every processor, linked by our loader at some address and by LLVM's linker at the
 * same one: the same bytes. Nothing is run, so this holds on any machine. */
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/proc.h"
#include "compiler-core/codegen/codegen.h"
#include "compiler-core/ir/ir_text.h"
#include "compiler-core/lower/lower.h"
#include "deploy/runtime/load.h"
#include "deploy/runtime/object.h"
#include "deploy/runtime/services.h"
#include "tests/support/program_generate.h"
#include "tests/support/test.h"
#include "tests/unit/compiler-core/codegen/draw.h"
#include "tests/unit/compiler-core/codegen/support.h"

#define LINKER "ld.lld-19"
#define ASSEMBLER "clang-19"
#define PAGE_BYTES 4096
#define PROGRAMS 5
#define SECOND_NS UINT64_C(1000000000)
/* Not a round number of megabytes, so that pages and halves differ. */
#define ADDRESS UINT64_C(0x1234000)

static const char *const machine[] = {"x86-64-v3",
                                      "rpi3",
                                      "rpi4",
                                      "rpi5,threads=2",
                                      "android-arm64",
                                      "pynq",
                                      "pynq,mcpu=cortex-a7,threads=2",
                                      "riscv64,threads=2"};

/* What needs everything that an object can refer to: functions of the C library, constants, bodies
 * of parallel loops, copies of memory. */
static const char *const everything =
    "program p\n"
    "input x: f32[64]\n"
    "output y: f32[64]\n"
    "temp t: f64[64]\n"
    "block map(a:64): t[a] = f64(sin(x[a]) * exp(x[a]) + pow(x[a], 2.5) + tanh(x[a]))\n"
    "block back(a:64): y[a] = f32(log(t[a]) * 0.1f64 + floor(t[a])) * f32(a)\n"
    "loops:\n"
    "  parallel map.a in 64:\n"
    "    block map(a=map.a)\n"
    "  for back.a.0 in 16:\n"
    "    vectorize back.a.1 in 4:\n"
    "      block back(a=back.a.0*4 + back.a.1)\n";

/* Every relocation that is applied, also those that code generation does not write today. */
static const struct {
    const char *target, *triple, *text;
} assembly[] = {
    {"x86-64", "x86_64-linux-gnu",
     ".text\n.globl kiln_run\n.type kiln_run,@function\nkiln_run:\n"
     "callq sinf@PLT\nmovss table(%rip), %xmm0\nmovl $table, %eax\nmovq $table+4, %rax\nretq\n"
     ".section .rodata,\"a\",@progbits\n.balign 16\ntable: .quad kiln_run, table+8\n.long "
     "table-.\n"},
    {"rpi4", "aarch64-linux-gnu",
     ".text\n.globl kiln_run\n.type kiln_run,@function\nkiln_run:\n"
     "bl sinf\nadrp x0, table\nadd x1, x0, :lo12:table+17\nldrb w2, [x0, :lo12:table+1]\n"
     "ldrh w2, [x0, :lo12:table+6]\nldr w2, [x0, :lo12:table+12]\nldr x2, [x0, :lo12:table+8]\n"
     "ldr q2, [x0, :lo12:table+16]\nb memcpy\n"
     ".section .rodata,\"a\",@progbits\n.zero 4000\n.balign 16\n"
     "table: .xword kiln_run, table+8\n.word table-., kiln_run-.\n.zero 16\n"},
    {"pynq", "armv7-linux-gnueabihf",
     ".eabi_attribute 28, 1\n.arm\n.text\n.globl kiln_run\n.type kiln_run,%function\nkiln_run:\n"
     "bl sinf\nblne sinf\nmovw r0, :lower16:table\nmovt r0, :upper16:table\n"
     "movw r1, :lower16:(table-(here+8))\nmovt r1, :upper16:(table-(here+8))\nhere: add r1, pc, "
     "r1\n"
     "b memcpy\n.section .rodata,\"a\",%progbits\n.balign 4\ntable: .word kiln_run, table+8, "
     "kiln_run-.\n"},
    {"cortex-m7", "thumbv7em-none-eabihf",
     ".syntax unified\n.cpu cortex-m7\n.eabi_attribute 28, 1\n.thumb\n.text\n.globl kiln_run\n"
     ".type kiln_run,%function\n.thumb_func\nkiln_run:\n"
     "bl sinf\nmovw r0, :lower16:table\nmovt r0, :upper16:table\n"
     "movw r1, :lower16:(table-(here+4))\nmovt r1, :upper16:(table-(here+4))\nhere: add r1, pc\n"
     "b.w memcpy\n.section .rodata,\"a\",%progbits\n.balign 4\ntable: .word kiln_run, table+8, "
     "kiln_run-.\n"},
    {"riscv64", "riscv64-linux-gnu",
     ".option norelax\n.text\n.globl kiln_run\n.type kiln_run,@function\nkiln_run:\n"
     "call sinf\ncall memcpy@plt\n1: auipc a0, %pcrel_hi(table)\n2: auipc a1, "
     "%pcrel_hi(table+2048)\n"
     "flw fa0, %pcrel_lo(1b)(a0)\nfsw fa0, %pcrel_lo(2b)(a1)\naddi a0, a0, %pcrel_lo(1b)\nret\n"
     ".section .rodata,\"a\",@progbits\n.balign 16\ntable: .quad kiln_run, table+8\n.word table\n"},
};

static kiln_program *program_number(kiln_arena *arena, uint64_t seed) {
    kiln_program *p = NULL;
    if (seed == 0) {
        expect_ok(kiln_program_parse(kiln_str_from(everything), arena, &p));
        return p;
    }
    const kiln_generate_options options = {
        .blocks_max = 4, .points_max = 400, .floats_only = seed % 2 == 0};
    kiln_rand rand;
    kiln_rand_init(&rand, seed);
    return draw_schedule(kiln_program_generate(&rand, &options, arena), &rand, 20);
}

/* False: the schedule is none that can be compiled. */
static bool emit_object(const kiln_program *p, const kiln_target *target, kiln_arena *arena,
                        kiln_str *out_object) {
    const kiln_codegen_options options = {.emit = KILN_EMIT_OBJECT, .optimise = 2};
    kiln_lowered lowered;
    uint64_t scratch, worker;
    kiln_status st = kiln_lower(p, target, arena, &lowered);
    if (!st) st = kiln_codegen(&lowered, target, &options, arena, out_object, &scratch, &worker);
    if (!st) return true;
    if (kiln_status_code(st) != KILN_ILLEGAL_SCHEDULE) fail_msg("%s", kiln_status_text(st));
    kiln_status_free(st);
    return false;
}

/* A linker script that puts each section and service where our linker has it. */
static void write_script(const kiln_object_image *image, kiln_strbuf *script) {
    for (uint32_t i = 0; i < kiln_service_count(); i++)
        if (image->veneer[i] != KILN_SERVICE_NONE)
            kiln_strbuf_printf(script, "%s = %#llx;\n", kiln_service_name(i),
                               (unsigned long long)(ADDRESS + image->veneer_place +
                                                    image->veneer[i] * image->arch->veneer_bytes));
    kiln_strbuf_text(script, "SECTIONS {\n");
    for (int code = 1; code >= 0; code--)
        for (uint32_t i = 1; i < image->section_count; i++) {
            const kiln_object_section *s = &image->section[i];
            if (s->place == KILN_OBJECT_NO_PLACE || s->code != (code == 1)) continue;
            kiln_strbuf_printf(script, ".kiln%u %#llx : { *(%.*s) }\n", i,
                               (unsigned long long)(ADDRESS + s->place), KILN_STR_ARG(s->name));
        }
    kiln_strbuf_text(script, "/DISCARD/ : { *(.ARM.exidx) }\n}\n");
}

/* The file as the other linker lays it out in memory, from the first section on. */
static kiln_str link_elsewhere(const kiln_object_image *image, const char *folder,
                               kiln_arena *arena) {
    const char *object = kiln_arena_printf(arena, "%s/k.o", folder);
    const char *script = kiln_arena_printf(arena, "%s/k.ld", folder);
    const char *linked = kiln_arena_printf(arena, "%s/k.bin", folder);
    kiln_strbuf text = {0};
    write_script(image, &text);
    expect_ok(kiln_file_write(script, kiln_strbuf_view(&text), 0600));
    expect_ok(kiln_file_write(object, image->bytes, 0600));
    kiln_strbuf_deinit(&text);
    /* -O0: constants are not shared between sections, which our linker does not do. */
    const char *const argv[] = {LINKER, "-O0",  "--oformat", "binary", "-e",   "kiln_run",
                                "-T",   script, object,      "-o",     linked, NULL};
    const kiln_proc_options options = {
        .argv = argv, .deadline_ns = 300 * SECOND_NS, .output_max = 4096};
    kiln_proc_result result;
    expect_ok(kiln_proc_run(&options, arena, &result));
    if (result.exit_code != 0) fail_msg("%s: %.*s", LINKER, KILN_STR_ARG(result.err));
    kiln_str bytes;
    expect_ok(kiln_file_read(linked, KILN_OBJECT_BYTES_MAX, arena, &bytes));
    return bytes;
}

static size_t first_difference(const uint8_t *a, const char *b, size_t size) {
    size_t at = 0;
    while (at < size && a[at] == (uint8_t)b[at]) at++;
    return at;
}

/* Returns how many relocated places there are to agree on: sections with their own relocations. */
static uint32_t compare_linkers(const char *text, kiln_str object, uint64_t seed,
                                const char *folder, kiln_arena *arena) {
    kiln_target target = target_of(arena, text);
    kiln_object_image image;
    expect_ok(
        kiln_object_read(object, kiln_object_arch_find(target.arch), PAGE_BYTES, arena, &image));
    uint8_t *memory = kiln_alloc(image.image_bytes);
    expect_ok(kiln_object_link(&image, memory, ADDRESS, NULL));
    kiln_str other = link_elsewhere(&image, folder, arena);
    uint32_t compared = 0;
    for (uint32_t i = 1; i < image.section_count; i++) {
        const kiln_object_section *s = &image.section[i];
        if (s->place == KILN_OBJECT_NO_PLACE) continue;
        size_t size = (size_t)s->header.sh_size;
        assert_true(s->place + size <= other.size);
        size_t at = first_difference(memory + s->place, other.data + s->place, size);
        if (at < size)
            fail_msg("%s, program %llu: %.*s+%#zx differs", text, (unsigned long long)seed,
                     KILN_STR_ARG(s->name), at);
        compared += memcmp(memory + s->place, object.data + s->header.sh_offset, size) != 0;
    }
    kiln_free(memory);
    return compared;
}

static void both_linkers_write_the_same_bytes(void **state) {
    kiln_arena *arena = *state;
    char *folder = make_folder(arena);
    for (uint32_t m = 0; m < KILN_ARRAY_COUNT(machine); m++) {
        uint32_t relocated = 0, linked = 0;
        for (uint64_t seed = 0; seed < PROGRAMS; seed++) {
            kiln_target target = target_of(arena, machine[m]);
            kiln_str object;
            if (!emit_object(program_number(arena, seed), &target, arena, &object)) continue;
            relocated += compare_linkers(machine[m], object, seed, folder, arena);
            linked++;
        }
        assert_true(linked > PROGRAMS / 2 && relocated > 0);
    }
    remove_folder(folder);
}

static kiln_str assemble(const char *triple, const char *text, const char *folder,
                         kiln_arena *arena) {
    const char *object = kiln_arena_printf(arena, "%s/k.o", folder);
    const char *target = kiln_arena_printf(arena, "--target=%s", triple);
    const char *const argv[] = {
        ASSEMBLER, target, "-march=rv64gc", "-mabi=lp64d", "-x", "assembler", "-c",
        "-",       "-o",   object,          NULL};
    const char *const plain[] = {ASSEMBLER, target, "-x",   "assembler", "-c",
                                 "-",       "-o",   object, NULL};
    const kiln_proc_options options = {.argv = strstr(triple, "riscv") ? argv : plain,
                                       .input = kiln_str_from(text),
                                       .deadline_ns = 300 * SECOND_NS,
                                       .output_max = 4096};
    kiln_proc_result result;
    expect_ok(kiln_proc_run(&options, arena, &result));
    if (result.exit_code != 0) fail_msg("%s: %.*s", ASSEMBLER, KILN_STR_ARG(result.err));
    kiln_str bytes;
    expect_ok(kiln_file_read(object, KILN_OBJECT_BYTES_MAX, arena, &bytes));
    return bytes;
}

/* How many relocations of a kind an object has. */
static uint32_t count_kind(const kiln_object_image *image, uint32_t number) {
    const kiln_object_arch *arch = image->arch;
    size_t size = arch->addends ? arch->elf->rela_bytes : arch->elf->rel_bytes;
    uint32_t count = 0;
    for (uint32_t i = 1; i < image->section_count; i++) {
        const Elf64_Shdr *h = &image->section[i].header;
        if (h->sh_type != SHT_RELA && h->sh_type != SHT_REL) continue;
        for (uint64_t at = 0; at < h->sh_size; at += size) {
            const char *place = image->bytes.data + h->sh_offset + at;
            Elf64_Rela r = kiln_elf_relocation(arch->elf, place, arch->addends);
            count += ELF64_R_TYPE(r.r_info) == number;
        }
    }
    return count;
}

static void every_relocation_gives_what_the_other_linker_gives(void **state) {
    kiln_arena *arena = *state;
    char *folder = make_folder(arena);
    for (uint32_t m = 0; m < KILN_ARRAY_COUNT(assembly); m++) {
        kiln_str object = assemble(assembly[m].triple, assembly[m].text, folder, arena);
        kiln_target target = target_of(arena, assembly[m].target);
        const kiln_object_arch *arch = kiln_object_arch_find(target.arch);
        kiln_object_image image;
        expect_ok(kiln_object_read(object, arch, PAGE_BYTES, arena, &image));
        for (uint32_t i = 0; i < arch->relocation_count; i++)
            if (arch->relocation[i].apply && count_kind(&image, arch->relocation[i].number) == 0)
                fail_msg("%s: no %s", arch->name, arch->relocation[i].name);
        assert_true(compare_linkers(assembly[m].target, object, m, folder, arena) == 2);
    }
    remove_folder(folder);
}

/* An object of one processor is for no other, and says which it is for. */
static void objects_are_for_their_own_processor(void **state) {
    kiln_arena *arena = *state;
    for (uint32_t m = 0; m < KILN_ARRAY_COUNT(machine); m++) {
        kiln_target target = target_of(arena, machine[m]);
        kiln_str object;
        assert_true(emit_object(program_number(arena, 0), &target, arena, &object));
        const kiln_object_arch *arch;
        for (uint32_t i = 0; (arch = kiln_object_arch_at(i)); i++) {
            static const char *const entries[] = {"kiln_run", NULL};
            kiln_status st = kiln_object_check(object, arch->arch, entries);
            if (arch->arch == target.arch) {
                expect_ok(st);
            } else {
                const bool same_file = arch->machine == EM_ARM &&
                                       (target.arch == KILN_ARCH_ARM ||
                                        target.arch == KILN_ARCH_THUMB); /* attributes tell */
                expect_error(st, UNIMPLEMENTED,
                             same_file ? "attributes do not suit"
                                       : "object is for another machine");
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(both_linkers_write_the_same_bytes),
        test_with_arena(every_relocation_gives_what_the_other_linker_gives),
        test_with_arena(objects_are_for_their_own_processor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
