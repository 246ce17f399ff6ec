// Rows of float32 to a ggml type and back.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <optional>
#include <thread>

#include "ggml/bind.h"

namespace py = pybind11;

namespace ggmlpy {
namespace {

using Floats = py::array_t<float, py::array::c_style | py::array::forcecast>;

constexpr int kMaxThreads = 256;
constexpr float kLargest = 65504;  // of half precision
// Times the largest value squared and the size of a block, this is far from overflowing.
constexpr float kMostImportant = 1e18F;

// The types that ggml_quantize_chunk knows; it asserts on the others.
bool can_quantize(ggml_type type) {
    if (type == GGML_TYPE_Q8_1 || type == GGML_TYPE_Q8_K) return false;  // of intermediate results only
    return ggml_is_quantized(type) || type == GGML_TYPE_F32 || type == GGML_TYPE_F16 ||
           type == GGML_TYPE_BF16;
}

void require_whole_blocks(ggml_type type, std::int64_t row) {
    if (row > 0 && row % ggml_blck_size(type) == 0) return;
    throw py::value_error(std::string("rows of type ") + ggml_type_name(type) + " come in blocks of " +
                          std::to_string(ggml_blck_size(type)) + ", not " + std::to_string(row));
}

// Blocks have scales of half precision; and the quantisers search with comparisons and sums of squares that
// larger values, and those that are no numbers, lead astray.
bool all_in_range(const float* values, std::size_t n) {
    return std::all_of(values, values + n, [](float v) { return std::abs(v) <= kLargest; });
}

// The first failure of several threads.
class Failure {
  public:
    void set(std::exception_ptr what) {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (!first_) first_ = what;
    }
    void rethrow() const {
        if (first_) std::rethrow_exception(first_);
    }

  private:
    std::mutex mutex_;
    std::exception_ptr first_;
};

void quantize_rows(ggml_type type, const float* from, char* to, std::int64_t rows, std::int64_t row,
                   const float* imatrix, int n_threads) {
    ggml_quantize_init(type);  // makes the tables that the threads share
    const std::int64_t share = (rows + n_threads - 1) / n_threads;
    Failure failure;
    const auto work = [&](std::int64_t begin) {
        try {
            Guard guard;
            const std::int64_t n = std::min(share, rows - begin);
            ggml_quantize_chunk(type, from, to, begin * row, n, row, imatrix);
        } catch (...) {
            failure.set(std::current_exception());
        }
    };
    std::vector<std::thread> others;
    try {
        for (std::int64_t begin = share; begin < rows; begin += share) others.emplace_back(work, begin);
    } catch (...) {  // the system has no more threads
        failure.set(std::current_exception());
    }
    if (rows > 0) work(0);
    for (std::thread& other : others) other.join();
    failure.rethrow();
}

py::bytes quantize(const py::object& array, int type, const std::optional<Floats>& imatrix, int n_threads) {
    Guard guard;
    const Floats values(array);  // raises what NumPy raises
    const ggml_type t = check_type(type);
    if (!can_quantize(t)) {
        throw GgmlFailure(std::string("ggml has no function that quantises to ") + ggml_type_name(t));
    }
    if (values.ndim() < 1) throw py::value_error("quantize takes an array of one dimension or more");
    if (n_threads < 1 || n_threads > kMaxThreads) {
        throw py::value_error("n_threads is from 1 to " + std::to_string(kMaxThreads) + ", not " +
                              std::to_string(n_threads));
    }
    const std::int64_t row = values.shape(values.ndim() - 1);
    require_whole_blocks(t, row);
    if (imatrix && imatrix->size() != row) {
        throw py::value_error("the importance matrix must have one value for each column");
    }
    if (!imatrix && ggml_quantize_requires_imatrix(t)) {
        throw py::value_error(std::string(ggml_type_name(t)) + " needs an importance matrix");
    }
    const std::int64_t rows = values.size() / row;
    const std::size_t size = static_cast<std::size_t>(rows) * ggml_row_size(t, row);
    // Written in place: a copy of the result would be as large as a model's largest tensor.
    auto out =
        py::reinterpret_steal<py::bytes>(PyBytes_FromStringAndSize(nullptr, static_cast<py::ssize_t>(size)));
    if (!out) throw py::error_already_set();
    const float* from = values.data();
    const float* importance = imatrix ? imatrix->data() : nullptr;
    char* to = PyBytes_AS_STRING(out.ptr());
    {
        ggmlpy::GilRelease release;
        if (importance != nullptr) {
            for (std::int64_t i = 0; i < row; ++i) {
                if (!(importance[i] >= 0 && importance[i] <= kMostImportant)) {
                    throw py::value_error("the importance matrix must be finite, from 0 to 1e18");
                }
            }
        }
        if (ggml_is_quantized(t) && !all_in_range(from, static_cast<std::size_t>(values.size()))) {
            throw py::value_error(
                std::string("values that are larger than 65504, infinite or not a number cannot be stored "
                            "as ") +
                ggml_type_name(t));
        }
        quantize_rows(t, from, to, rows, row, importance,
                      static_cast<int>(std::min<std::int64_t>(n_threads, std::max<std::int64_t>(rows, 1))));
    }
    return out;
}

// Integers and F64 have no to_float in ggml.
template <typename T>
void convert(const char* from, float* to, std::size_t n) {
    const T* values = reinterpret_cast<const T*>(from);
    for (std::size_t i = 0; i < n; ++i) to[i] = static_cast<float>(values[i]);
}

void to_float(ggml_type type, const char* from, float* to, std::size_t n) {
    switch (type) {
        case GGML_TYPE_F32:
            std::copy_n(reinterpret_cast<const float*>(from), n, to);
            return;
        case GGML_TYPE_F64:
            return convert<double>(from, to, n);
        case GGML_TYPE_I8:
            return convert<std::int8_t>(from, to, n);
        case GGML_TYPE_I16:
            return convert<std::int16_t>(from, to, n);
        case GGML_TYPE_I32:
            return convert<std::int32_t>(from, to, n);
        case GGML_TYPE_I64:
            return convert<std::int64_t>(from, to, n);
        default:
            ggml_get_type_traits(type)->to_float(from, to, static_cast<std::int64_t>(n));
    }
}

bool has_to_float(ggml_type type) {
    return type == GGML_TYPE_F32 || type == GGML_TYPE_F64 || type == GGML_TYPE_I8 || type == GGML_TYPE_I16 ||
           type == GGML_TYPE_I32 || type == GGML_TYPE_I64 || ggml_get_type_traits(type)->to_float != nullptr;
}

py::array_t<float> dequantize(const py::buffer& data, int type, const std::vector<std::int64_t>& ne) {
    Guard guard;
    const ggml_type t = check_type(type);
    if (!has_to_float(t)) {
        throw GgmlFailure(std::string("ggml cannot convert ") + ggml_type_name(t) + " to float32");
    }
    if (ne.empty() || ne.size() > GGML_MAX_DIMS) throw py::value_error("a tensor has one to four dimensions");
    require_whole_blocks(t, ne[0]);
    std::int64_t left = std::numeric_limits<std::int64_t>::max() / 16;  // no element takes more bytes
    std::size_t rows = 1;
    for (std::size_t i = 0; i < ne.size(); ++i) {
        if (ne[i] < 0) throw py::value_error("a tensor's sizes cannot be negative");
        if (ne[i] > 1) left /= ne[i];
        if (i > 0) rows *= static_cast<std::size_t>(ne[i]);
    }
    if (left == 0) throw py::value_error("such a tensor would be larger than any memory");
    const py::buffer_info info = data.request();
    if (PyBuffer_IsContiguous(info.view(), 'C') == 0) throw py::value_error("the data is not contiguous");
    const auto given = static_cast<std::size_t>(info.size * info.itemsize);
    const std::size_t expected = rows * ggml_row_size(t, ne[0]);
    if (given != expected) {
        throw py::value_error("a tensor of type " + std::string(ggml_type_name(t)) + " and these sizes has " +
                              std::to_string(expected) + " bytes, the data " + std::to_string(given));
    }
    py::array_t<float> out(std::vector<py::ssize_t>(ne.rbegin(), ne.rend()));
    const auto* from = static_cast<const char*>(info.ptr);
    float* to = out.mutable_data();
    {
        ggmlpy::GilRelease release;
        std::vector<std::max_align_t> aligned;
        if (reinterpret_cast<std::uintptr_t>(from) % alignof(double) != 0) {  // a slice of a file, perhaps
            aligned.resize(given / sizeof(std::max_align_t) + 1);
            std::copy_n(from, given, reinterpret_cast<char*>(aligned.data()));
            from = reinterpret_cast<const char*>(aligned.data());
        }
        if (rows > 0) to_float(t, from, to, rows * static_cast<std::size_t>(ne[0]));
    }
    return out;
}

}  // namespace

void bind_quantize(py::module_& m) {
    m.def("quantize", quantize, py::arg("values"), py::arg("type"), py::arg("imatrix") = py::none(),
          py::arg("n_threads") = 1,
          "ggml_quantize_chunk: the rows of a float32 array as bytes of a ggml type.");
    m.def("dequantize", dequantize, py::arg("data"), py::arg("type"), py::arg("ne"),
          "ggml_type_traits.to_float: bytes of a ggml type as a float32 array of shape reversed(ne).");
    m.def(
        "quantize_requires_imatrix",
        [](int type) { return ggml_quantize_requires_imatrix(check_type(type)); }, py::arg("type"),
        "ggml_quantize_requires_imatrix, whether quantize needs an importance matrix for this type.");
}

}  // namespace ggmlpy
