// Kiln for C++17: what kiln/kiln.h has, as types that own what they hold. Header only; link as C
// programs do.
//
//     kiln::Module module("digits.kiln");
//     kiln::Call call(module);                       // with memory for every input and output
//     call.input<float>("image").fill(0);
//     call.run();
//     float first = call.output<float>(0)(0, 3);     // as rows and columns
//
// What can fail throws kiln::Error, whose code is one of kiln.h's. Where exceptions are off, or for
// who wants none, the same is there under names that begin with try_ and gives a Result: a value,
// or an Error.
//
// A Module, a Call, Records, Rows and a Request are used by one thread at a time; several of them
// by several threads at once.
#ifndef KILN_KILN_HPP
#define KILN_KILN_HPP

#include <kiln/kiln.h>

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#if defined(__cpp_exceptions)
#include <stdexcept>
#define KILN_EXCEPTIONS 1
#else
#define KILN_EXCEPTIONS 0
#endif

namespace kiln {

// ---- errors ----

class Error
#if KILN_EXCEPTIONS
    : public std::runtime_error {
  public:
    Error(int code, const std::string &text) : std::runtime_error(text), code_(code) {}
#else
{
  public:
    Error(int code, std::string text) : text_(std::move(text)), code_(code) {}
    const char *what() const noexcept { return text_.c_str(); }

  private:
    std::string text_;

  public:
#endif
    int code() const noexcept { return code_; }

  private:
    int code_;
};

// A value, or why there is none.
template <class T> class [[nodiscard]] Result {
  public:
    Result(T value) : value_(std::make_unique<T>(std::move(value))) {}
    Result(Error error) : error_(std::make_unique<Error>(std::move(error))) {}
    explicit operator bool() const noexcept { return value_ != nullptr; }
    T &operator*() & { return *value_; }
    T &&operator*() && { return std::move(*value_); }
    T *operator->() { return value_.get(); }
    const Error &error() const { return *error_; }

  private:
    std::unique_ptr<T> value_;
    std::unique_ptr<Error> error_;
};

template <> class [[nodiscard]] Result<void> {
  public:
    Result() = default;
    Result(Error error) : error_(std::make_unique<Error>(std::move(error))) {}
    explicit operator bool() const noexcept { return error_ == nullptr; }
    const Error &error() const { return *error_; }

  private:
    std::unique_ptr<Error> error_;
};

namespace detail {
#if KILN_EXCEPTIONS
template <class T> T take(Result<T> &&result) {
    if (!result) throw result.error();
    if constexpr (!std::is_void_v<T>) return *std::move(result);
}
#endif

// Calls a function of kiln.h that reports into a text.
template <class F> Result<void> report(F &&function) {
    char text[KILN_MODULE_ERROR_BYTES] = "";
    const int code = function(text, sizeof text);
    if (code) return Error(code, text);
    return {};
}
} // namespace detail

// ---- element types ----

// A C++ type with the layout of each element type; those that C++ has no type for are named by
// their bits.
struct Half {
    std::uint16_t bits;
};
struct BFloat {
    std::uint16_t bits;
};
// Floats of at most 8 bits, one in each byte.
struct Float8E4M3FN {
    std::uint8_t bits;
};
struct Float8E4M3FNUZ {
    std::uint8_t bits;
};
struct Float8E5M2 {
    std::uint8_t bits;
};
struct Float8E5M2FNUZ {
    std::uint8_t bits;
};
struct Float8E8M0 {
    std::uint8_t bits;
};
struct Float4E2M1 {
    std::uint8_t bits;
};

template <class T> struct DType;
#define KILN_DTYPE(type, number)                         \
    template <> struct DType<type> {                     \
        static constexpr std::uint32_t value = (number); \
        static constexpr const char *name = #type;       \
    }
KILN_DTYPE(float, KILN_MODULE_F32);
KILN_DTYPE(double, KILN_MODULE_F64);
KILN_DTYPE(Half, KILN_MODULE_F16);
KILN_DTYPE(BFloat, KILN_MODULE_BF16);
KILN_DTYPE(std::int8_t, KILN_MODULE_I8);
KILN_DTYPE(std::int16_t, KILN_MODULE_I16);
KILN_DTYPE(std::int32_t, KILN_MODULE_I32);
KILN_DTYPE(std::int64_t, KILN_MODULE_I64);
KILN_DTYPE(std::uint8_t, KILN_MODULE_U8);
KILN_DTYPE(std::uint16_t, KILN_MODULE_U16);
KILN_DTYPE(std::uint32_t, KILN_MODULE_U32);
KILN_DTYPE(std::uint64_t, KILN_MODULE_U64);
KILN_DTYPE(bool, KILN_MODULE_BOOL);
KILN_DTYPE(Float8E4M3FN, KILN_MODULE_F8E4M3FN);
KILN_DTYPE(Float8E4M3FNUZ, KILN_MODULE_F8E4M3FNUZ);
KILN_DTYPE(Float8E5M2, KILN_MODULE_F8E5M2);
KILN_DTYPE(Float8E5M2FNUZ, KILN_MODULE_F8E5M2FNUZ);
KILN_DTYPE(Float8E8M0, KILN_MODULE_F8E8M0);
KILN_DTYPE(Float4E2M1, KILN_MODULE_F4E2M1);
#undef KILN_DTYPE

// ---- views ----

// Elements one after the other that belong to somebody else.
template <class T> class Span {
  public:
    constexpr Span() = default;
    constexpr Span(T *data, std::size_t size) : data_(data), size_(size) {}
    // Of whatever has data() and size(): std::vector, std::array, std::span.
    template <class C, class = std::enable_if_t<
                           std::is_convertible_v<decltype(std::declval<C &>().data()), T *>>>
    constexpr Span(C &container) : data_(container.data()), size_(container.size()) {}
    constexpr T *data() const { return data_; }
    constexpr std::size_t size() const { return size_; }
    constexpr T *begin() const { return data_; }
    constexpr T *end() const { return data_ + size_; }
    constexpr T &operator[](std::size_t index) const { return data_[index]; }

  private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};

// A dense tensor, row-major, that belongs to somebody else.
template <class T> class View : public Span<T> {
  public:
    View(T *data, std::size_t size, Span<const std::int64_t> shape)
        : Span<T>(data, size), shape_(shape) {}
    Span<const std::int64_t> shape() const { return shape_; }
    std::size_t rank() const { return shape_.size(); }
    // One index per dimension, each below its size.
    template <class... Index> T &operator()(Index... index) const {
        const std::array<std::int64_t, sizeof...(Index)> at{static_cast<std::int64_t>(index)...};
        assert(at.size() == rank());
        std::int64_t offset = 0;
        for (std::size_t d = 0; d < at.size(); d++) {
            assert(at[d] >= 0 && at[d] < shape_[d]);
            offset = offset * shape_[d] + at[d];
        }
        return (*this)[static_cast<std::size_t>(offset)];
    }
    void fill(const T &value) const {
        for (T &element : *this) element = value;
    }

  private:
    Span<const std::int64_t> shape_;
};

// ---- modules ----

// An input or output; it lives as long as its module.
class Port {
  public:
    explicit Port(const kiln_module_port *port) : port_(port) {}
    std::string_view name() const { return port_->name; }
    std::uint32_t dtype() const { return port_->dtype; } // KILN_MODULE_F32, ...
    Span<const std::int64_t> shape() const { return {port_->shape, port_->rank}; }
    std::size_t size_bytes() const { return port_->size_bytes; }

  private:
    const kiln_module_port *port_;
};

struct Options {
    std::uint32_t threads = 0; // at most; 0: as many as the module was compiled for
};

class Module {
  public:
    static Result<Module> try_open(const std::string &path, const Options &options = {}) {
        kiln_module *module = nullptr;
        const kiln_module_options given = {options.threads, nullptr};
        Result<void> done = detail::report([&](char *text, std::size_t bytes) {
            return kiln_module_open(path.c_str(), &given, &module, text, bytes);
        });
        if (!done) return done.error();
        return Module(module);
    }
    // `bytes` are aligned to 64 and outlive the module.
    static Result<Module> try_open(Span<const std::byte> bytes, const Options &options = {}) {
        kiln_module *module = nullptr;
        const kiln_module_options given = {options.threads, nullptr};
        Result<void> done = detail::report([&](char *text, std::size_t size) {
            return kiln_module_open_memory(bytes.data(), bytes.size(), &given, &module, text, size);
        });
        if (!done) return done.error();
        return Module(module);
    }
    using Hook = std::function<void(std::uint32_t step, bool done)>;

    std::uint32_t input_count() const { return kiln_module_input_count(get()); }
    std::uint32_t output_count() const { return kiln_module_output_count(get()); }
    Port input(std::uint32_t index) const { return Port(kiln_module_input(get(), index)); }
    Port output(std::uint32_t index) const { return Port(kiln_module_output(get(), index)); }
    std::uint32_t step_count() const { return kiln_module_step_count(get()); }
    const kiln_module_step &step(std::uint32_t index) const {
        return *kiln_module_step_at(get(), index);
    }
    std::uint32_t threads() const { return kiln_module_threads(get()); }
    // "model", "target", ...; empty where the module does not say.
    std::string_view metadata(const std::string &key) const {
        const char *text = kiln_module_metadata(get(), key.c_str());
        return text ? text : std::string_view();
    }
    // A module of several sizes: what it takes, and the size of the runs and calls that follow.
    kiln_module_size_info sizes() const { return kiln_module_describe_sizes(get()); }
    Result<void> try_set_size(std::int64_t size) {
        const int code = kiln_module_set_size(get(), size);
        if (code) return Error(code, kiln_module_error(get()));
        return {};
    }
    // What a run gives an output becomes an input of the next one, zeros at first: calls that are
    // made from then on have no memory for the two, and runs take null pointers for them.
    Result<void> try_keep(std::uint32_t input, std::uint32_t output) {
        const int code = kiln_module_keep(get(), input, output);
        if (code) return Error(code, kiln_module_error(get()));
        return {};
    }
    bool keeps_input(std::uint32_t index) const {
        return kiln_module_kept_with(get(), 0, index) >= 0;
    }
    bool keeps_output(std::uint32_t index) const {
        return kiln_module_kept_with(get(), 1, index) >= 0;
    }
    // Zeros for everything that is kept.
    Result<void> try_reset() {
        const int code = kiln_module_reset(get());
        if (code) return Error(code, kiln_module_error(get()));
        return {};
    }
    // Called before (`done` false) and after each step, on the thread that runs.
    void set_hook(Hook hook) {
        hook_ = std::make_unique<Hook>(std::move(hook));
        kiln_module_set_hook(get(), *hook_ ? call_hook : nullptr, hook_.get());
    }
    // Pointers in the order of the ports, each to as many bytes as its port has.
    Result<void> try_run(Span<const void *const> inputs, Span<void *const> outputs) {
        if (inputs.size() != input_count() || outputs.size() != output_count())
            return Error(KILN_INVALID_ARGUMENT, "the module has " + std::to_string(input_count()) +
                                                    " inputs and " +
                                                    std::to_string(output_count()) + " outputs; " +
                                                    std::to_string(inputs.size()) + " and " +
                                                    std::to_string(outputs.size()) + " were given");
        const int code = kiln_module_run(get(), inputs.data(), outputs.data());
        if (code) return Error(code, kiln_module_error(get()));
        return {};
    }
    // Tensors as DLPack has them, in memory of the process or of the module's devices.
    Result<void> try_run(Span<const kiln_module_tensor *const> inputs,
                         Span<const kiln_module_tensor *const> outputs) {
        if (inputs.size() != input_count() || outputs.size() != output_count())
            return Error(KILN_INVALID_ARGUMENT,
                         "another number of tensors than the module has inputs and outputs");
        const int code = kiln_module_run_tensors(get(), inputs.data(), outputs.data());
        if (code) return Error(code, kiln_module_error(get()));
        return {};
    }
    kiln_module *get() const { return module_.get(); } // for kiln.h

#if KILN_EXCEPTIONS
    explicit Module(const std::string &path, const Options &options = {})
        : Module(detail::take(try_open(path, options))) {}
    void set_size(std::int64_t size) { detail::take(try_set_size(size)); }
    void keep(std::uint32_t input, std::uint32_t output) { detail::take(try_keep(input, output)); }
    void reset() { detail::take(try_reset()); }
    void run(Span<const void *const> inputs, Span<void *const> outputs) {
        detail::take(try_run(inputs, outputs));
    }
    void run(Span<const kiln_module_tensor *const> inputs,
             Span<const kiln_module_tensor *const> outputs) {
        detail::take(try_run(inputs, outputs));
    }
#endif

  private:
    struct Close {
        void operator()(kiln_module *module) const { kiln_module_close(module); }
    };
    explicit Module(kiln_module *module) : module_(module) {}
    static void call_hook(void *context, std::uint32_t step, int done) {
        (*static_cast<Hook *>(context))(step, done != 0);
    }

    std::unique_ptr<Hook> hook_;
    std::unique_ptr<kiln_module, Close> module_;
};

// A module together with memory for what goes in and comes out, so that nothing is copied or
// allocated in a run; the module has that of ports that it keeps. It keeps the size that the module
// has when it is made. The module outlives it.
class Call {
  public:
    explicit Call(Module &module) : module_(&module), size_(module.sizes().size) {
        for (std::uint32_t i = 0; i < module.input_count(); i++)
            inputs_.emplace_back(module.input(i), module.keeps_input(i));
        for (std::uint32_t i = 0; i < module.output_count(); i++)
            outputs_.emplace_back(module.output(i), module.keeps_output(i));
        for (const Place &place : inputs_) input_.push_back(place.memory.get());
        for (const Place &place : outputs_) output_.push_back(place.memory.get());
    }
    // INVALID_ARGUMENT: there is no such port, the module keeps it, or its elements are of another
    // type.
    template <class T> Result<View<T>> try_input(std::uint32_t index) {
        return view<T>(index, inputs_, "input",
                       [this](std::uint32_t i) { return module_->input(i); });
    }
    template <class T> Result<View<const T>> try_output(std::uint32_t index) {
        return view<const T>(index, outputs_, "output",
                             [this](std::uint32_t i) { return module_->output(i); });
    }
    template <class T> Result<View<T>> try_input(std::string_view name) {
        std::uint32_t index = 0;
        while (index < module_->input_count() && module_->input(index).name() != name) index++;
        if (index < module_->input_count()) return try_input<T>(index);
        return Error(KILN_INVALID_ARGUMENT, "the module has no input '" + std::string(name) + "'");
    }
    template <class T> Result<View<const T>> try_output(std::string_view name) {
        std::uint32_t index = 0;
        while (index < module_->output_count() && module_->output(index).name() != name) index++;
        if (index < module_->output_count()) return try_output<T>(index);
        return Error(KILN_INVALID_ARGUMENT, "the module has no output '" + std::string(name) + "'");
    }
    Result<void> try_run() {
        if (size_) {
            Result<void> set = module_->try_set_size(size_);
            if (!set) return set;
        }
        return module_->try_run(Span<const void *const>(input_), Span<void *const>(output_));
    }

#if KILN_EXCEPTIONS
    // By number or by name.
    template <class T, class Which> View<T> input(Which which) {
        return detail::take(try_input<T>(which));
    }
    template <class T, class Which> View<const T> output(Which which) {
        return detail::take(try_output<T>(which));
    }
    void run() { detail::take(try_run()); }
#endif

  private:
    static constexpr std::size_t alignment = 64; // so that the module copies nothing
    struct Free {
        void operator()(void *memory) const { std::free(memory); }
    };
    using Memory = std::unique_ptr<void, Free>;
    struct Place {
        Place(const Port &port, bool is_kept)
            : memory(is_kept ? nullptr : allocate(port)), bytes(port.size_bytes()),
              shape(port.shape().begin(), port.shape().end()) {}
        Memory memory;
        std::size_t bytes;
        std::vector<std::int64_t> shape;
    };

    // Zeroed.
    static Memory allocate(const Port &port) {
        const std::size_t bytes = (port.size_bytes() / alignment + 1) * alignment;
        void *memory = std::aligned_alloc(alignment, bytes);
        if (!memory) {
#if KILN_EXCEPTIONS
            throw std::bad_alloc();
#else
            std::abort();
#endif
        }
        return Memory(std::memset(memory, 0, bytes));
    }
    template <class T, class GetPort>
    Result<View<T>> view(std::uint32_t index, const std::vector<Place> &places, const char *what,
                         GetPort port_at) {
        using Element = std::remove_const_t<T>;
        if (index >= places.size())
            return Error(KILN_INVALID_ARGUMENT, std::string("the module has ") +
                                                    std::to_string(places.size()) + " " + what +
                                                    "s, no number " + std::to_string(index));
        const Port port = port_at(index);
        if (port.dtype() != DType<Element>::value)
            return Error(KILN_INVALID_ARGUMENT,
                         std::string(what) + " '" + std::string(port.name()) +
                             "' has no elements of type " + DType<Element>::name);
        const Place &place = places[index];
        if (!place.memory)
            return Error(KILN_INVALID_ARGUMENT, std::string(what) + " '" +
                                                    std::string(port.name()) +
                                                    "' is kept by the module");
        return View<T>(static_cast<T *>(place.memory.get()), place.bytes / sizeof(Element),
                       {place.shape.data(), place.shape.size()});
    }

    Module *module_;
    std::int64_t size_; // 0: the module has one
    std::vector<Place> inputs_, outputs_;
    std::vector<void *> input_, output_;
};

// ---- records ----

// An answer of a database, column by column.
class Rows {
  public:
    explicit Rows(kiln_rows *rows) : rows_(rows) {}
    std::size_t size() const { return kiln_rows_count(rows_.get()); }
    std::uint32_t column_count() const { return kiln_rows_column_count(rows_.get()); }
    std::string_view column_name(std::uint32_t column) const {
        return kiln_rows_column_name(rows_.get(), column);
    }
    std::uint32_t column_type(std::uint32_t column) const {
        return kiln_rows_column_type(rows_.get(), column);
    }
    // The column of that name; column_count() where there is none.
    std::uint32_t find(std::string_view name) const {
        std::uint32_t column = 0;
        while (column < column_count() && column_name(column) != name) column++;
        return column;
    }
    bool is_null(std::size_t row, std::uint32_t column) const {
        return kiln_rows_is_null(rows_.get(), row, column) != 0;
    }
    std::string_view text(std::size_t row, std::uint32_t column) const {
        std::size_t bytes = 0;
        const char *data = kiln_rows_text(rows_.get(), row, column, &bytes);
        return {data, bytes};
    }
    std::int64_t integer(std::size_t row, std::uint32_t column) const {
        return kiln_rows_int(rows_.get(), row, column);
    }
    double real(std::size_t row, std::uint32_t column) const {
        return kiln_rows_real(rows_.get(), row, column);
    }
    Span<const double> reals(std::size_t row, std::uint32_t column) const {
        std::size_t count = 0;
        const double *data = kiln_rows_reals(rows_.get(), row, column, &count);
        return {data, count};
    }

  private:
    struct Free {
        void operator()(kiln_rows *rows) const { kiln_rows_free(rows); }
    };
    std::unique_ptr<kiln_rows, Free> rows_;
};

// Which records; what is empty or 0 says nothing.
struct Filter {
    std::string task, target, job;
    std::uint32_t order = KILN_RECORDS_FASTEST, limit = 0;
};

class Records {
  public:
    // Of an empty path: the user's own.
    static Result<Records> try_open(const std::string &path = {}) {
        kiln_records *records = nullptr;
        Result<void> done = detail::report([&](char *text, std::size_t bytes) {
            return kiln_records_open(path.empty() ? nullptr : path.c_str(), &records, text, bytes);
        });
        if (!done) return done.error();
        return Records(records);
    }
    Result<Rows> try_find(const Filter &filter = {}) { return ask(kiln_records_find, filter); }
    Result<Rows> try_best(const Filter &filter = {}) { return ask(kiln_records_best, filter); }
    Result<Rows> try_sql(const std::string &statement) {
        kiln_rows *rows = nullptr;
        Result<void> done = detail::report([&](char *text, std::size_t bytes) {
            return kiln_records_sql(records_.get(), statement.c_str(), &rows, text, bytes);
        });
        if (!done) return done.error();
        return Rows(rows);
    }

#if KILN_EXCEPTIONS
    explicit Records(const std::string &path) : Records(detail::take(try_open(path))) {}
    Rows find(const Filter &filter = {}) { return detail::take(try_find(filter)); }
    Rows best(const Filter &filter = {}) { return detail::take(try_best(filter)); }
    Rows sql(const std::string &statement) { return detail::take(try_sql(statement)); }
#endif

  private:
    struct Close {
        void operator()(kiln_records *records) const { kiln_records_close(records); }
    };
    explicit Records(kiln_records *records) : records_(records) {}

    template <class F> Result<Rows> ask(F function, const Filter &filter) {
        auto or_null = [](const std::string &text) {
            return text.empty() ? nullptr : text.c_str();
        };
        const kiln_records_filter given = {sizeof given,           or_null(filter.task),
                                           or_null(filter.target), or_null(filter.job),
                                           filter.order,           filter.limit};
        kiln_rows *rows = nullptr;
        Result<void> done = detail::report([&](char *text, std::size_t bytes) {
            return function(records_.get(), &given, &rows, text, bytes);
        });
        if (!done) return done.error();
        return Rows(rows);
    }

    std::unique_ptr<kiln_records, Close> records_;
};

// ---- tuning and compiling ----

// {"trials", "64"}; {"exact"} of an option without a value.
struct Setting {
    std::string name;
    std::optional<std::string> value = std::nullopt;
};

// Something that the program `kiln` does in a process of its own; it ends with this.
class Request {
  public:
    // Called by waiting; the event lasts until it returns.
    using Heard = std::function<void(Request &request, const kiln_request_event &event)>;

    // `what`: KILN_REQUEST_TUNE, ... The subject is empty where none is wanted.
    static Result<Request> try_start(std::uint32_t what, const std::string &subject,
                                     const std::vector<Setting> &settings = {}, Heard heard = {}) {
        std::vector<kiln_request_setting> given;
        for (const Setting &one : settings)
            given.push_back({one.name.c_str(), one.value ? one.value->c_str() : nullptr});
        given.push_back({nullptr, nullptr});
        auto hearing = std::make_unique<Hearing>(Hearing{std::move(heard), nullptr});
        const kiln_request_options options = {
            sizeof options, what, subject.empty() ? nullptr : subject.c_str(),
            given.data(),   hear, hearing.get(),
            nullptr,        0};
        kiln_request *request = nullptr;
        Result<void> done = detail::report([&](char *text, std::size_t bytes) {
            return kiln_request_start(&options, &request, text, bytes);
        });
        if (!done) return done.error();
        return Request(request, std::move(hearing));
    }
    // Hears it for at most so long (below 0: for ever): whether it has ended.
    Result<bool> try_wait(int timeout_ms = -1) {
        int ended = 0;
        hearing_->request = this;
        Result<void> done = detail::report([&](char *text, std::size_t bytes) {
            return kiln_request_wait(request_.get(), timeout_ms, &ended, text, bytes);
        });
        if (!done) return done.error();
        return ended != 0;
    }
    // Waits for its end.
    Result<void> try_finish() {
        for (;;) {
            Result<bool> ended = try_wait();
            if (!ended) return ended.error();
            if (*ended) return {};
        }
    }
    void cancel() { kiln_request_cancel(request_.get()); } // from any thread
    std::string job() const { return kiln_request_job(request_.get()); }
    std::uint32_t task_count() const { return kiln_request_task_count(request_.get()); }
    // Until the next wait.
    const kiln_request_task &task(std::uint32_t index) const {
        return *kiln_request_task_at(request_.get(), index);
    }

#if KILN_EXCEPTIONS
    explicit Request(std::uint32_t what, const std::string &subject,
                     const std::vector<Setting> &settings = {}, Heard heard = {})
        : Request(detail::take(try_start(what, subject, settings, std::move(heard)))) {}
    bool wait(int timeout_ms = -1) { return detail::take(try_wait(timeout_ms)); }
    void finish() { detail::take(try_finish()); }
#endif

  private:
    struct Hearing {
        Heard heard;
        Request *request; // where it is while it waits
    };
    struct Free {
        void operator()(kiln_request *request) const { kiln_request_free(request); }
    };
    Request(kiln_request *request, std::unique_ptr<Hearing> hearing)
        : hearing_(std::move(hearing)), request_(request) {}

    static void hear(void *context, kiln_request *, const kiln_request_event *event) {
        Hearing *hearing = static_cast<Hearing *>(context);
        if (hearing->heard) hearing->heard(*hearing->request, *event);
    }

    std::unique_ptr<Hearing> hearing_;
    std::unique_ptr<kiln_request, Free> request_;
};

} // namespace kiln

#endif
