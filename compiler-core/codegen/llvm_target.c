/* LLVM modules to bytes: target machine and output. There is no pass pipeline: the emitted code is
 * final, and simplifycfg, early-cse or instcombine cost a millisecond and made no kernel of
 * conv:C1..C12 faster. */
#include <llvm-c/Analysis.h>
#include <llvm-c/Support.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>

#include <llvm/Config/llvm-config.h>
#include <string.h>

#include "base/alloc.h"
#include "compiler-core/codegen/llvm_builder.h"
#include "compiler-core/codegen/llvm_wasm.h"
#include "compiler-core/codegen/walk.h"

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

const char *kiln_codegen_version(void) {
    return TEXT(KILN_CODEGEN_VERSION) "-llvm" LLVM_VERSION_STRING;
}

/* Turns passes of the code generator off, or on again: those without effect on the emitted code,
 * where addresses are stepped and no expression occurs twice. Loop strength reduction would take
 * half of all time, the others a tenth; kernels of conv:C2 and C9 run as fast without (candidates
 * drawn at random, within 1 %). LLVM has only process-wide switches for this, so each compilation
 * sets them, until its context ends. */
static void set_switches(bool off) {
    static const char *const on_or_off[2][8] = {
#define SWITCHES(value)                     \
    {"kiln",                                \
     "-disable-lsr=" value,                 \
     "-disable-cgp=" value,                 \
     "-disable-postra-machine-licm=" value, \
     "-disable-machine-cse=" value,         \
     "-disable-constant-hoisting=" value,   \
     "-disable-mergeicmps=" value,          \
     "-disable-partial-libcall-inlining=" value}
        SWITCHES("false"), SWITCHES("true")
#undef SWITCHES
    };
    LLVMParseCommandLineOptions(KILN_ARRAY_COUNT(on_or_off[off]), on_or_off[off], "");
}

struct kiln_codegen_context {
    LLVMTargetMachineRef machine; /* NULL: none yet */
    kiln_strbuf made_for;         /* all that the machine depends on */
};

static void drop_machine(kiln_codegen_context *context) {
    if (context->machine) LLVMDisposeTargetMachine(context->machine);
    kiln_strbuf_deinit(&context->made_for);
    *context = (kiln_codegen_context){0};
}

kiln_codegen_context *kiln_codegen_context_create(void) {
    return kiln_alloc(sizeof(kiln_codegen_context));
}

void kiln_codegen_context_destroy(kiln_codegen_context *context) {
    if (!context) return;
    drop_machine(context);
    kiln_free(context);
    set_switches(false);
}

/* LLVM's objects of one compilation, and the machine, which its context owns. */
typedef struct llvm_job {
    LLVMTargetMachineRef machine;
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMMemoryBufferRef buffer;
    char *message;
} llvm_job;

static void llvm_job_deinit(llvm_job *job) {
    if (job->buffer) LLVMDisposeMemoryBuffer(job->buffer);
    if (job->module) LLVMDisposeModule(job->module);
    if (job->context) LLVMContextDispose(job->context);
    if (job->message) LLVMDisposeMessage(job->message);
}

void kiln_llvm_spell_cpu(const kiln_target *target, const char *processor, kiln_arena *arena,
                         kiln_llvm_machine *out) {
    (void)processor; /* the target has one */
    kiln_strbuf features = {0};
    kiln_target_spell_features(target, &features);
    out->triple = kiln_str_dup(arena, target->triple);
    out->cpu = kiln_str_dup(arena, target->mcpu);
    out->features = kiln_strbuf_end(&features, arena).data;
    out->has_library = true;
}

/* Its kernels run on a monitor (deploy/monitor) without mathematical functions. LLVM finds the ABI
 * only in a triple of four parts. */
void kiln_llvm_spell_micro(const kiln_target *target, const char *processor, kiln_arena *arena,
                           kiln_llvm_machine *out) {
    kiln_llvm_spell_cpu(target, processor, arena, out);
    char *triple = LLVMNormalizeTargetTriple(out->triple);
    out->triple = kiln_str_dup(arena, kiln_str_from(triple));
    LLVMDisposeMessage(triple);
    out->has_library = false;
}

static bool is_row(const kiln_target *target, const kiln_codegen_options *options,
                   const char *backend, kiln_target_kind kind, kiln_arch arch) {
    return target->kind == kind && target->arch == arch &&
           strcmp(options->backend ? options->backend : "llvm", backend) == 0;
}

/* The row of the target; registers its code generator once. No triple: this program has no such
 * code generator. */
static kiln_llvm_machine open_machine(const kiln_target *target,
                                      const kiln_codegen_options *options, kiln_arena *arena) {
    kiln_llvm_machine machine = {0};
    enum { Object, Assembly };
#define X(backend_name, kind, arch, name, abi_name, constraint, form, spell)                \
    if (is_row(target, options, #backend_name, KILN_TARGET_##kind, KILN_ARCH_##arch)) {     \
        machine = (kiln_llvm_machine){                                                      \
            .abi = abi_name, .vector_constraint = constraint, .is_text = form == Assembly}; \
        LLVMInitialize##name##TargetInfo();                                                 \
        LLVMInitialize##name##Target();                                                     \
        LLVMInitialize##name##TargetMC();                                                   \
        LLVMInitialize##name##AsmPrinter();                                                 \
        kiln_llvm_spell_##spell(target, options->processor, arena, &machine);               \
    }
#include "compiler-core/codegen/llvm_machines.def"
#undef X
    if (options->own_functions) machine.has_library = false;
    return machine;
}

static kiln_status make_machine(kiln_codegen_context *context, const kiln_llvm_machine *machine,
                                uint32_t optimise, kiln_arena *arena) {
    const char *made_for = kiln_arena_printf(arena, "%s %s %s %s %u", machine->triple, machine->cpu,
                                             machine->features, machine->abi, optimise);
    if (context->machine && kiln_str_is(kiln_strbuf_view(&context->made_for), made_for))
        return KILN_OK;
    drop_machine(context);
    LLVMTargetRef found;
    char *message = NULL;
    if (LLVMGetTargetFromTriple(machine->triple, &found, &message)) {
        kiln_status st = KILN_ERROR(UNIMPLEMENTED, "LLVM: %s", message);
        LLVMDisposeMessage(message);
        return st;
    }
    /* Position independent with a small code model: relative addresses within the object and PLT
     * calls to services, no GOT. */
    LLVMTargetMachineOptionsRef options = LLVMCreateTargetMachineOptions();
    LLVMTargetMachineOptionsSetCPU(options, machine->cpu);
    LLVMTargetMachineOptionsSetFeatures(options, machine->features);
    LLVMTargetMachineOptionsSetABI(options, machine->abi);
    LLVMTargetMachineOptionsSetCodeGenOptLevel(options, optimise ? LLVMCodeGenLevelDefault
                                                                 : LLVMCodeGenLevelNone);
    LLVMTargetMachineOptionsSetRelocMode(options, LLVMRelocPIC);
    LLVMTargetMachineOptionsSetCodeModel(options, LLVMCodeModelSmall);
    context->machine = LLVMCreateTargetMachineWithOptions(found, machine->triple, options);
    /* Objects of devices: registers and occupancy are counted in comments. */
    if (context->machine && machine->launches && !machine->is_text)
        LLVMSetTargetMachineAsmVerbosity(context->machine, true);
    LLVMDisposeTargetMachineOptions(options);
    if (!context->machine)
        return KILN_ERROR(UNIMPLEMENTED, "LLVM has no machine for %s", machine->triple);
    kiln_strbuf_printf(&context->made_for, "%s", made_for);
    return KILN_OK;
}

static kiln_status make_module(llvm_job *job, const kiln_llvm_machine *machine,
                               const kiln_lowered *lowered, const kiln_target *target,
                               kiln_arena *arena, kiln_codegen_output *output) {
    job->context = LLVMContextCreate();
    job->module = LLVMModuleCreateWithNameInContext("kiln", job->context);
    LLVMSetTarget(job->module, machine->triple);
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(job->machine);
    LLVMSetModuleDataLayout(job->module, layout);
    LLVMDisposeTargetData(layout);
    kiln_llvm_builder builder;
    kiln_llvm_builder_init(&builder, target, machine, job->context, job->module, arena);
    kiln_status st = kiln_walk_lowered(&builder.base, lowered, target, arena, output);
    kiln_llvm_builder_deinit(&builder);
    if (st) return st;
    /* Takes a tenth of a millisecond, and turns a bug here into one failed candidate with a
     * reason. */
    if (LLVMVerifyModule(job->module, LLVMReturnStatusAction, &job->message))
        return KILN_ERROR(INTERNAL, "LLVM: %s", job->message);
    LLVMDisposeMessage(job->message); /* an empty one */
    job->message = NULL;
    return KILN_OK;
}

static kiln_status write_bytes(llvm_job *job, bool is_text, kiln_emit emit, kiln_arena *arena,
                               kiln_str *out_bytes) {
    if (emit == KILN_EMIT_LLVM) {
        job->message = LLVMPrintModuleToString(job->module);
        *out_bytes = kiln_str_from(job->message);
    } else {
        LLVMCodeGenFileType type =
            emit == KILN_EMIT_ASM || is_text ? LLVMAssemblyFile : LLVMObjectFile;
        if (LLVMTargetMachineEmitToMemoryBuffer(job->machine, job->module, type, &job->message,
                                                &job->buffer))
            return KILN_ERROR(INTERNAL, "LLVM: %s", job->message);
        *out_bytes = (kiln_str){LLVMGetBufferStart(job->buffer), LLVMGetBufferSize(job->buffer)};
    }
    out_bytes->data = kiln_arena_copy(arena, out_bytes->data, out_bytes->size);
    return KILN_OK;
}

kiln_status kiln_llvm_emit(const kiln_lowered *lowered, const kiln_target *target,
                           const kiln_codegen_options *options, kiln_arena *arena,
                           kiln_codegen_output *out_output) {
    llvm_job job = {0};
    kiln_codegen_context *context =
        options->context ? options->context : kiln_codegen_context_create();
    kiln_codegen_output output = {0};
    kiln_arena scratch;
    kiln_arena_init(&scratch, 256 << 10);
    set_switches(true); /* another context may have ended in between */
    const kiln_llvm_machine machine = open_machine(target, options, &scratch);
    kiln_status st = machine.triple
                         ? make_machine(context, &machine, options->optimise, &scratch)
                         : KILN_ERROR(UNIMPLEMENTED, "this program has no code generator for such "
                                                     "targets: it was linked for x86-64 and CUDA");
    job.machine = context->machine;
    if (!st) st = make_module(&job, &machine, lowered, target, &scratch, &output);
    if (!st) st = write_bytes(&job, machine.is_text, options->emit, arena, &output.bytes);
    if (!st && machine.launches && machine.is_text)
        output.bytes = kiln_llvm_name_clusters(output.bytes, arena);
    if (!st && target->arch == KILN_ARCH_WASM32 && options->emit == KILN_EMIT_OBJECT)
        st = kiln_llvm_wasm_module(output.bytes, target->threads > 1, arena, &output.bytes);
    llvm_job_deinit(&job);
    if (!options->context) kiln_codegen_context_destroy(context);
    kiln_arena_deinit(&scratch);
    if (!st) *out_output = output;
    return st;
}
