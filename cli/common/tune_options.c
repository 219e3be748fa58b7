#include "cli/common/tune_options.h"

#include "cli/common/client.h"
#include "cli/common/sizes.h"

static const char searchers_help[] = "one of:"
#define X(name, text, plan, learns, doc) " " text
#include "tuner/search/searchers.def"
#undef X
                                     " (default sa)";

kiln_opt_table kiln_tune_options_init(kiln_tune_options *o, kiln_arena *process) {
    *o = (kiln_tune_options){.search = "sa",
                             .tasks = "",
                             .project = "default",
                             .weight = 1,
                             .trials = KILN_TUNE_TRIALS_UNSAID};
    const kiln_opt option[] = {
        {"target", KILN_OPT_TEXT, &o->target_text, "T", "device to tune for (default native)"},
        KILN_THREADS_OPTION(&o->threads),
        {"weights", KILN_OPT_TEXT, &o->weights, "SIZE:SHARE,...", kiln_weights_help},
        {"trials", KILN_OPT_COUNT, &o->trials, "N",
         "at most N new measurements over all tasks (default 32 per task); stored ones count "
         "towards a task's share, so the same call again measures nothing; 0: report and pack "
         "stored results"},
        {"seconds", KILN_OPT_NUMBER, &o->seconds, "S",
         "stop after S seconds, including finals and the comparison of the module, or earlier if "
         "little can be gained"},
        {"tasks", KILN_OPT_TEXT, &o->tasks, "FILTER",
         "only tasks whose key or operator contains one of these, comma-separated"},
        {"tracker", KILN_OPT_TEXT, &o->tracker, "ADDR",
         "use this fleet (default: a private one on this machine)"},
        {"db", KILN_OPT_TEXT, &o->db, "PATH", "records database (default $KILN_HOME/kiln.db)"},
        {"seed", KILN_OPT_COUNT, &o->seed, "N",
         "seed of the search and of the test data (default 0)"},
        {"schedule", KILN_OPT_TEXT, &o->schedule, "FILE",
         "file of schedules to measure first, beside --trials, and to start the search from: "
         "\"task KEY\" and the lines of its trace, for each task"},
        {"search", KILN_OPT_TEXT, &o->search, "NAME", searchers_help},
        {"out", KILN_OPT_TEXT, &o->out, "MODULE",
         "pack the best schedules into this module; if it runs here or on a board of --tracker, "
         "schedules that are slower inside the module are left out"},
        KILN_ACCURACY_OPTIONS(&o->accuracy),
        {"model-name", KILN_OPT_LINE, &o->model_name, "TEXT", kiln_model_name_help},
        KILN_MODEL_OPTIONS(&o->dim, kiln_sizes_help, &o->import),
        {"detach", KILN_OPT_FLAG, &o->detach, NULL,
         "do not wait for the end; kiln jobs attach imports the records"},
        {"job", KILN_OPT_LINE, &o->job, "JOB",
         "name of the job: the same command attaches to it again, and starts a new run of it after "
         "its end (default: a new name)"},
        {"on", KILN_OPT_TEXT, &o->on, "BOARD,K=V,...",
         "only boards of this name and with these labels; either may be left out"},
        {"project", KILN_OPT_LINE, &o->project, "PROJECT",
         "project of the job; projects share the boards by weight (default \"default\")"},
        {"weight", KILN_OPT_COUNT, &o->weight, "N",
         "the project's share of the boards relative to others while this job is open; the largest "
         "of its jobs' weights counts (default 1)"},
        {"priority", KILN_OPT_COUNT, &o->priority, "N",
         "0 to 100: higher goes first within the project (default 0)"},
        KILN_CLIENT_KEY_OPTIONS(o),
        {"json", KILN_OPT_FLAG, &o->json, NULL,
         "print one object per line; the last has \"event\":\"done\""},
    };
    return (kiln_opt_table){
        "kiln tune MODEL [options]",
        "Searches fast schedules for the kernels of a model (ONNX, TFLite, or an operator of your "
        "own): every candidate is compiled, run on a real device, checked and timed, and every "
        "result is stored.",
        kiln_arena_copy(process, option, sizeof option),
        KILN_ARRAY_COUNT(option),
        1,
        1};
}
