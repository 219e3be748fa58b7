// An application in C++17: runs the module argv[1], asks the database argv[2], and prints what came
// of it. Compiled with and without exceptions, from the same lines where both can say them.
#include <kiln/kiln.hpp>

#include <cstdio>

static int fail(const kiln::Error &error) {
    std::fprintf(stderr, "%d: %s\n", error.code(), error.what());
    return error.code();
}

static int run(kiln::Module &module) {
    unsigned steps = 0;
    kiln::Call call(module);
    module.set_hook([&steps](std::uint32_t, bool done) { steps += done; });
    auto a = call.try_input<float>(0);
    if (!a) return fail(a.error());
    auto c = call.try_output<float>(module.output(0).name());
    if (!c) return fail(c.error());
    float sum[2] = {};
    for (int times = 1; times <= 2;
         times++) { // a product by constant weights: twice the data, twice the sums
        for (std::int64_t i = 0; i < a->shape()[0]; i++) (*a)(i, i) = static_cast<float>(times);
        auto done = call.try_run();
        if (!done) return fail(done.error());
        sum[times - 1] = (*c)(1, 2);
    }
    std::printf("%zu x %zu: %s, %u steps of %u\n", static_cast<std::size_t>(c->shape()[0]),
                static_cast<std::size_t>(c->shape()[1]),
                sum[0] != 0 && sum[1] == 2 * sum[0] ? "twice" : "other", steps,
                module.step_count());
    auto wrong = call.try_input<double>(0);
    std::printf("%d %s\n", wrong ? 0 : wrong.error().code(), wrong ? "" : wrong.error().what());
    wrong = call.try_input<double>("no such");
    std::printf("%d %s\n", wrong ? 0 : wrong.error().code(), wrong ? "" : wrong.error().what());
    auto few = module.try_run(kiln::Span<const void *const>(), kiln::Span<void *const>());
    std::printf("%d %s\n", few ? 0 : few.error().code(), few ? "" : few.error().what());
    return 0;
}

static int ask(const char *path) {
    auto records = kiln::Records::try_open(path);
    if (!records) return fail(records.error());
    auto best = records->try_best();
    if (!best) return fail(best.error());
    for (std::size_t i = 0; i < best->size(); i++)
        std::printf("%.*s %zu\n", static_cast<int>(best->text(i, best->find("op")).size()),
                    best->text(i, best->find("op")).data(),
                    best->reals(i, best->find("samples_ns")).size());
    auto wrong = records->try_sql("no sql");
    std::printf("%d\n", wrong ? 0 : wrong.error().code());
    return 0;
}

#if KILN_EXCEPTIONS
static int throwing(const char *path, const char *database) {
    try {
        kiln::Module module(path);
        kiln::Module moved = std::move(module);
        kiln::Call call(moved);
        call.input<float>(0).fill(1);
        call.run();
        const auto out = call.output<float>(0);
        std::printf("%s, %zu records\n", out(0, 3) == out(1, 3) ? "equal rows" : "other",
                    kiln::Records(database).find().size());
        kiln::Module absent(std::string(path) + ".absent");
    } catch (const kiln::Error &error) {
        std::printf("%d\n", error.code());
    }
    return 0;
}
#else
static int throwing(const char *, const char *) { return 0; }
#endif

// y = max(x, 0) on rows of 8: a call for each size, each of which keeps its own.
static int sizes(const char *path) {
    auto module = kiln::Module::try_open(path);
    if (!module) return fail(module.error());
    std::vector<kiln::Call> calls;
    for (std::int64_t size = 1; size <= module->sizes().size_max; size++) {
        auto set = module->try_set_size(size);
        if (!set) return fail(set.error());
        calls.emplace_back(*module);
    }
    for (std::size_t size = calls.size(); size > 0; size--) {
        auto x = calls[size - 1].try_input<float>(0);
        auto y = calls[size - 1].try_output<float>(0);
        if (!x || !y || x->shape()[0] != static_cast<std::int64_t>(size)) return 98;
        x->fill(static_cast<float>(size));
        auto done = calls[size - 1].try_run();
        if (!done) return fail(done.error());
        for (float value : *y)
            if (value != static_cast<float>(size)) return 97;
    }
    auto refused = module->try_set_size(9);
    std::printf("%d %s\n", refused ? 0 : refused.error().code(),
                refused ? "" : refused.error().what());
    return 0;
}

// t = s + x, where t is kept for s, and y = t.
static int keep(const char *path) {
    auto module = kiln::Module::try_open(path);
    if (!module) return fail(module.error());
    auto kept = module->try_keep(0, 0);
    if (!kept) return fail(kept.error());
    kiln::Call call(*module);
    auto x = call.try_input<float>("x");
    auto y = call.try_output<float>("y");
    if (!x || !y) return 96;
    x->fill(1);
    for (const float right : {1.0f, 2.0f, 3.0f, 1.0f}) {
        auto done = right == 1 ? module->try_reset() : kiln::Result<void>();
        if (done) done = call.try_run();
        if (!done) return fail(done.error());
        if ((*y)(0, 7) != right) return 95;
    }
    kept = module->try_keep(0, 0);
    auto hidden = call.try_input<float>("s");
    std::printf("%s\n%s\n", kept ? "" : kept.error().what(), hidden ? "" : hidden.error().what());
    return 0;
}

// Compiles a model; then one that is not there.
static int compile(const char *model, const char *module) {
    unsigned results = 0;
    const std::vector<kiln::Setting> settings = {{"output", module}, {"db", "none"}, {"exact"}};
    for (const std::string &path : {std::string(model), std::string(model) + ".absent"}) {
        auto request =
            kiln::Request::try_start(KILN_REQUEST_COMPILE, path, settings,
                                     [&results](kiln::Request &, const kiln_request_event &event) {
                                         results += event.kind == KILN_REQUEST_RESULT;
                                     });
        if (!request) return fail(request.error());
        kiln::Request moved = *std::move(request);
        auto done = moved.try_finish();
        std::printf("%u results, %d\n", results, done ? 0 : done.error().code());
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 5) return compile(argv[3], argv[4]);
    if (argc == 4) return sizes(argv[3]);
    if (argc == 2) return keep(argv[1]);
    if (argc != 3) return 99;
    auto module = kiln::Module::try_open(argv[1]);
    if (!module) return fail(module.error());
    const int code = run(*module);
    if (code) return code;
    const int asked = ask(argv[2]);
    return asked ? asked : throwing(argv[1], argv[2]);
}
