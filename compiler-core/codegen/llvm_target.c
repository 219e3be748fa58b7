/* LLVM modules to bytes: target machine and output. There is no pass pipeline: what is emitted is
 * the code that is wanted, and simplifycfg, early-cse or instcombine on it cost a millisecond and
 * made no kernel of conv:C1..C12 faster. */
#include <llvm-c/Analysis.h>
#include <llvm-c/Support.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>

#include <llvm/Config/llvm-config.h>

#include "compiler-core/codegen/llvm_builder.h"
#include "compiler-core/codegen/walk.h"

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

const char *kiln_codegen_version(void) {
    return TEXT(KILN_CODEGEN_VERSION) "-llvm" LLVM_VERSION_STRING;
}

/* Everything of LLVM's that one compilation owns. */
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
    if (job->machine) LLVMDisposeTargetMachine(job->machine);
    if (job->message) LLVMDisposeMessage(job->message);
}

/* Registers the code generator of an architecture, once; then it does nothing. Gives its ABI's
 * name. */
static const char *open_machine(kiln_arch arch) {
    switch (arch) {
#define X(arch, name, abi, constraint)      \
    case KILN_ARCH_##arch:                  \
        LLVMInitialize##name##TargetInfo(); \
        LLVMInitialize##name##Target();     \
        LLVMInitialize##name##TargetMC();   \
        LLVMInitialize##name##AsmPrinter(); \
        return abi;
#include "compiler-core/codegen/llvm_machines.def"
#undef X
    case KILN_ARCH_OTHER: break;
    }
    return "";
}

const char *kiln_llvm_vector_constraint(kiln_arch arch) {
    switch (arch) {
#define X(arch, name, abi, constraint) \
    case KILN_ARCH_##arch: return constraint;
#include "compiler-core/codegen/llvm_machines.def"
#undef X
    case KILN_ARCH_OTHER: break;
    }
    return "";
}

const char *kiln_llvm_features(const kiln_target *target, kiln_arena *arena) {
    kiln_strbuf text = {0};
    kiln_target_spell_features(target, &text);
    return kiln_strbuf_end(&text, arena).data;
}

/* Turns passes of the code generator off, or on again: those that find nothing in what is emitted
 * here, where addresses are stepped and no expression is there twice. Loop strength reduction would
 * take half of all time, the others a tenth; kernels of conv:C2 and C9 run as fast without
 * (candidates drawn at random, within 1 %). LLVM has only switches of the whole process for this,
 * so they are set for the time of one compilation, whatever they were before. */
static void set_switches(bool off, kiln_arena *arena) {
    static const char *const pass[] = {"lsr",
                                       "cgp",
                                       "postra-machine-licm",
                                       "machine-cse",
                                       "constant-hoisting",
                                       "mergeicmps",
                                       "partial-libcall-inlining"};
    const char *switches[KILN_ARRAY_COUNT(pass) + 1] = {"kiln"};
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(pass); i++)
        switches[i + 1] =
            kiln_arena_printf(arena, "-disable-%s=%s", pass[i], off ? "true" : "false");
    LLVMParseCommandLineOptions(KILN_ARRAY_COUNT(switches), switches, "");
}

static kiln_status make_machine(llvm_job *job, const kiln_target *target, uint32_t optimise,
                                kiln_arena *arena) {
    const char *abi = open_machine(target->arch);
    const char *triple = kiln_str_dup(arena, target->triple);
    LLVMTargetRef found;
    if (LLVMGetTargetFromTriple(triple, &found, &job->message))
        return KILN_ERROR(UNIMPLEMENTED, "LLVM: %s", job->message);
    /* Position independent with a small code model: relative addresses within the object and PLT
     * calls to services, no GOT. */
    LLVMTargetMachineOptionsRef options = LLVMCreateTargetMachineOptions();
    LLVMTargetMachineOptionsSetCPU(options, kiln_str_dup(arena, target->mcpu));
    LLVMTargetMachineOptionsSetFeatures(options, kiln_llvm_features(target, arena));
    LLVMTargetMachineOptionsSetABI(options, abi);
    LLVMTargetMachineOptionsSetCodeGenOptLevel(options, optimise ? LLVMCodeGenLevelDefault
                                                                 : LLVMCodeGenLevelNone);
    LLVMTargetMachineOptionsSetRelocMode(options, LLVMRelocPIC);
    LLVMTargetMachineOptionsSetCodeModel(options, LLVMCodeModelSmall);
    job->machine = LLVMCreateTargetMachineWithOptions(found, triple, options);
    LLVMDisposeTargetMachineOptions(options);
    if (!job->machine) return KILN_ERROR(UNIMPLEMENTED, "LLVM has no machine for %s", triple);
    return KILN_OK;
}

static kiln_status make_module(llvm_job *job, const kiln_lowered *lowered,
                               const kiln_target *target, kiln_arena *arena,
                               kiln_codegen_output *output) {
    job->context = LLVMContextCreate();
    job->module = LLVMModuleCreateWithNameInContext("kiln", job->context);
    LLVMSetTarget(job->module, kiln_str_dup(arena, target->triple));
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(job->machine);
    LLVMSetModuleDataLayout(job->module, layout);
    LLVMDisposeTargetData(layout);
    kiln_llvm_builder builder;
    kiln_llvm_builder_init(&builder, target, job->context, job->module, arena);
    kiln_status st = kiln_walk_lowered(&builder.base, lowered, target, arena, output);
    kiln_llvm_builder_deinit(&builder);
    if (st) return st;
    /* A tenth of a millisecond that turns a bug here into one lost candidate with a reason. */
    if (LLVMVerifyModule(job->module, LLVMReturnStatusAction, &job->message))
        return KILN_ERROR(INTERNAL, "LLVM: %s", job->message);
    LLVMDisposeMessage(job->message); /* an empty one */
    job->message = NULL;
    return KILN_OK;
}

static kiln_status write_bytes(llvm_job *job, kiln_emit emit, kiln_arena *arena,
                               kiln_str *out_bytes) {
    if (emit == KILN_EMIT_LLVM) {
        job->message = LLVMPrintModuleToString(job->module);
        *out_bytes = kiln_str_from(job->message);
    } else {
        LLVMCodeGenFileType type = emit == KILN_EMIT_ASM ? LLVMAssemblyFile : LLVMObjectFile;
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
    kiln_codegen_output output = {0};
    kiln_arena scratch;
    kiln_arena_init(&scratch, 256 << 10);
    set_switches(true, &scratch);
    kiln_status st = make_machine(&job, target, options->optimise, &scratch);
    if (!st) st = make_module(&job, lowered, target, &scratch, &output);
    if (!st) st = write_bytes(&job, options->emit, arena, &output.bytes);
    llvm_job_deinit(&job);
    set_switches(false, &scratch);
    kiln_arena_deinit(&scratch);
    if (!st) *out_output = output;
    return st;
}
