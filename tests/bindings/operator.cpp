// An application in C++17 with operators of its own: checks what they compute against loops of C++,
// schedules one by hand, and writes the model argv[1] and the schedule argv[2].
#include <kiln/te.hpp>

#include <cmath>
#include <cstdio>

using namespace kiln::te;

static int fail(const kiln::Error &error) {
    std::fprintf(stderr, "%d: %s\n", error.code(), error.what());
    return error.code();
}

static std::vector<float> ramp(std::size_t count) {
    std::vector<float> data(count);
    for (std::size_t i = 0; i < count; i++) data[i] = static_cast<float>(i * 7 % 11) / 4;
    return data;
}

static bool is_close(double a, double b) { return std::fabs(a - b) <= 1e-5 * (1 + std::fabs(b)); }

// What an operator of one input and one output, or a schedule of it, computes.
template <class T>
static kiln::Result<std::vector<float>> run(const T &op, const std::vector<float> &x,
                                            std::size_t count) {
    std::vector<float> y(count, -1);
    const void *inputs[] = {x.data()};
    void *outputs[] = {y.data()};
    auto done =
        op.try_run(kiln::Span<const void *const>(inputs, 1), kiln::Span<void *const>(outputs, 1));
    if (!done) return done.error();
    return y;
}

// Sums of exponentials, by blocks of sums and by a combiner of its own; running sums of both.
static int compute(Operator &op, Tensor &x, Axis &r) {
    auto most = op.try_compute("most", {4}, [&](Expr i) { return reduce("max", x(i, r), {r}); });
    if (!most) return fail(most.error());
    auto sum = op.try_compute(
        "total", {4}, [&](Expr i) { return reduce("sum", exp(x(i, r) - (*most)(i)), {r}); });
    if (!sum) return fail(sum.error());
    const Combine both = [](const Value &a, const Value &b) {
        const Expr high = max(a, b), low = min(a, b);
        return high + log(1 + exp(low - high));
    };
    auto own = op.try_compute("own", {4}, [&](Expr i) { return reduce(both, x(i, r), {r}); });
    if (!own) return fail(own.error());
    auto mean = op.try_compute("mean", {4}, [&](Expr i) {
        const Expr direct = log((*sum)(i)) + (*most)(i);
        return select((i < 2) | (i == 3), direct, -(direct * -1.0)) / 2 + (*own)(i) * 0.5;
    });
    if (!mean) return fail(mean.error());
    auto scan = op.try_scan(
        "y", [](const Value &a, const Value &b) { return a.beside(b) + b.beside(a); }, *mean, 0);
    return scan ? 0 : fail(scan.error());
}

static bool is_right(const std::vector<float> &x, const std::vector<float> &y) {
    double running = 0;
    for (int i = 0; i < 4; i++) {
        double sum = 0;
        for (int k = 0; k < 9; k++) sum += std::exp(x[i * 9 + k]);
        running += std::log(sum);
        if (!is_close(y[i], running)) return false;
    }
    return true;
}

static int write(const char *path, std::string_view bytes) {
    std::FILE *file = std::fopen(path, "wb");
    if (!file) return 1;
    const bool done = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
    return std::fclose(file) == 0 && done ? 0 : 1;
}

static int refuse(Operator &op, Tensor &x) {
    auto wrong = op.try_output("z", {4}, [&](Expr i) { return x(i, 9); });
    if (wrong) return 1;
    std::printf("%d %s\n", wrong.error().code(), wrong.error().what());
    wrong = op.try_output("z", {4}, [&](Expr i) { return x(i, 0) + i; });
    if (wrong) return 1;
    std::printf("%d\n", wrong.error().code());
    return 0;
}

static int steps(Schedule &s) {
    auto split = s.try_split("total.r", {-1, 4});
    if (!split) return fail(split.error());
    std::printf("%s %s of %zu loops\n", split->loops[0].c_str(), split->loops[1].c_str(),
                s.loops().size());
    auto tile = s.try_perfect_tile("most.r", 2, 3, {3, 3});
    if (!tile) return fail(tile.error());
    auto again = s.try_split("most.r", {(*tile)[0], (*tile)[1]});
    if (!again) return fail(again.error());
    auto wrong = s.try_vectorize("most.r.0");
    std::printf("%d\n", wrong ? 0 : wrong.error().code());
    auto unrolled = s.try_unroll("most.r.1");
    if (!unrolled) return fail(unrolled.error());
    std::printf("%s", s.trace().c_str());
    return 0;
}

#if KILN_EXCEPTIONS
static int throwing() {
    Operator op("plain");
    Tensor x = op.input<double>("x", {2});
    const float two[] = {2, 3};
    Tensor w = op.constant<float>("w", {2}, kiln::Span<const float>(two, 2));
    op.output("y", {2}, [&](Expr i) { return x(i) * cast<double>(w(i)) + 1e-3; });
    op.output("n", {2}, [&](Expr i) { return i - std::int64_t{9007199254740993}; });
    op.schedule().unroll("y.i");
    std::printf("%s", op.text().c_str());
    Operator decay("decay");
    Tensor s = decay.input<float>("s", {2});
    decay.output("n", {2}, [&](Expr i) { return s(i) * 0.5; });
    decay.repeat(3, 1);
    const float first[] = {8, 16};
    float last[2] = {};
    const void *inputs[] = {first};
    void *outputs[] = {last};
    decay.run(kiln::Span<const void *const>(inputs, 1), kiln::Span<void *const>(outputs, 1));
    std::printf("%s%g %g\n", decay.text().c_str(), last[0], last[1]);
    try {
        op.schedule().parallel("no");
    } catch (const kiln::Error &error) {
        std::printf("%d\n", error.code());
    }
    return 0;
}
#endif

int main(int argc, char **argv) {
    auto op = Operator::try_create("logsum");
    if (argc != 3 || !op) return 2;
    auto x = op->try_input<float>("x", {4, 9});
    if (!x) return fail(x.error());
    Axis r("r", 9);
    int code = compute(*op, *x, r);
    if (!code) code = refuse(*op, *x);
    if (code) return code;
    auto schedule = op->try_schedule();
    if (!schedule) return fail(schedule.error());
    code = steps(*schedule);
    const std::vector<float> data = ramp(4 * 9);
    auto exact = run(*op, data, 4), scheduled = run(*schedule, data, 4);
    if (code || !exact || !scheduled) return code ? code : 3;
    std::printf("%s %s\n", is_right(data, *exact) ? "right" : "wrong",
                is_right(data, *scheduled) ? "right" : "wrong");
    auto model = op->try_model();
    if (!model) return fail(model.error());
    if (write(argv[1], *model) || write(argv[2], schedule->text())) return 1;
#if KILN_EXCEPTIONS
    return throwing();
#else
    return 0;
#endif
}
