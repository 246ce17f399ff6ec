// The head of a GGUF file under construction, and the bytes of tensors for its data. ggml/gguf_writer.py
// converts values and writes the file.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>

#include "ggml/bind.h"
#include "gguf.h"

namespace py = pybind11;

namespace ggmlpy {
namespace {

// What ggml's own reader accepts at most.
constexpr std::size_t kMaxArray = std::size_t{1} << 30;
constexpr std::size_t kMaxString = std::size_t{1} << 30;
constexpr std::size_t kMaxKey = 65535;  // GGUF's specification
constexpr std::size_t kMaxBytes = std::numeric_limits<std::int64_t>::max() / 2;

std::size_t element_size(int type) {
    switch (type) {
        case GGUF_TYPE_UINT8:
        case GGUF_TYPE_INT8:
        case GGUF_TYPE_BOOL:
            return 1;
        case GGUF_TYPE_UINT16:
        case GGUF_TYPE_INT16:
            return 2;
        case GGUF_TYPE_UINT32:
        case GGUF_TYPE_INT32:
        case GGUF_TYPE_FLOAT32:
            return 4;
        case GGUF_TYPE_UINT64:
        case GGUF_TYPE_INT64:
        case GGUF_TYPE_FLOAT64:
            return 8;
        default:
            throw py::value_error("not a GGUF type of numbers: " + std::to_string(type));
    }
}

// ggml takes C strings: a zero byte would cut the text.
void require_text(const std::string& text, const char* what) {
    if (text.find('\0') != std::string::npos) {
        throw py::value_error(std::string(what) + " cannot hold a character of code zero");
    }
    if (text.size() > kMaxString) throw py::value_error(std::string(what) + " of more than a gigabyte");
}

template <typename T>
T number(const std::string& bytes) {
    T value;
    std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
}

class GgufHeader {
  public:
    explicit GgufHeader(std::uint32_t alignment) {
        Guard guard;
        if (alignment < 8 || (alignment & (alignment - 1)) != 0) {
            throw py::value_error("the alignment of a GGUF file is a power of two of at least 8, not " +
                                  std::to_string(alignment));
        }
        if (alignment == GGUF_DEFAULT_ALIGNMENT) {
            handle_.reset(gguf_init_empty());
        } else {
            handle_.reset(empty_with(alignment));
        }
        if (!handle_) throw GgmlFailure("cannot begin a GGUF file: " + Guard::log());
    }

    void set_number(const std::string& key, int type, const std::string& bytes) {
        Guard guard;
        require_new(key);
        if (bytes.size() != element_size(type)) throw py::value_error("a number of the wrong size");
        gguf_context* g = handle_.get();
        const char* k = key.c_str();
        switch (type) {
            case GGUF_TYPE_UINT8:
                return gguf_set_val_u8(g, k, number<std::uint8_t>(bytes));
            case GGUF_TYPE_INT8:
                return gguf_set_val_i8(g, k, number<std::int8_t>(bytes));
            case GGUF_TYPE_UINT16:
                return gguf_set_val_u16(g, k, number<std::uint16_t>(bytes));
            case GGUF_TYPE_INT16:
                return gguf_set_val_i16(g, k, number<std::int16_t>(bytes));
            case GGUF_TYPE_UINT32:
                return gguf_set_val_u32(g, k, number<std::uint32_t>(bytes));
            case GGUF_TYPE_INT32:
                return gguf_set_val_i32(g, k, number<std::int32_t>(bytes));
            case GGUF_TYPE_UINT64:
                return gguf_set_val_u64(g, k, number<std::uint64_t>(bytes));
            case GGUF_TYPE_INT64:
                return gguf_set_val_i64(g, k, number<std::int64_t>(bytes));
            case GGUF_TYPE_FLOAT32:
                return gguf_set_val_f32(g, k, number<float>(bytes));
            case GGUF_TYPE_FLOAT64:
                return gguf_set_val_f64(g, k, number<double>(bytes));
            default:
                return gguf_set_val_bool(g, k, bytes[0] != 0);
        }
    }

    void set_numbers(const std::string& key, int type, const std::string& bytes) {
        Guard guard;
        require_new(key);
        const std::size_t size = element_size(type);
        if (bytes.size() % size != 0) throw py::value_error("numbers of the wrong size");
        if (bytes.size() / size > kMaxArray) {
            throw py::value_error("an array of a GGUF file has at most " + std::to_string(kMaxArray) +
                                  " elements, not " + std::to_string(bytes.size() / size));
        }
        gguf_set_arr_data(handle_.get(), key.c_str(), static_cast<gguf_type>(type), bytes.data(),
                          bytes.size() / size);
    }

    void set_string(const std::string& key, const std::string& value) {
        Guard guard;
        require_new(key);
        require_text(value, "a string");
        gguf_set_val_str(handle_.get(), key.c_str(), value.c_str());
    }

    void set_strings(const std::string& key, const std::vector<std::string>& values) {
        Guard guard;
        require_new(key);
        std::vector<const char*> pointers;
        for (const std::string& value : values) {
            require_text(value, "a string");
            pointers.push_back(value.c_str());
        }
        gguf_set_arr_str(handle_.get(), key.c_str(), pointers.data(), pointers.size());
    }

    // The bytes that the tensor takes.
    std::size_t add_tensor(const std::string& name, int type, const std::vector<std::int64_t>& ne,
                           std::optional<std::size_t> given) {
        Guard guard;
        const ggml_type t = check_type(type);
        require_text(name, "a tensor's name");
        if (name.empty()) throw py::value_error("a tensor of a GGUF file needs a name");
        if (name.size() >= GGML_MAX_NAME) {
            throw py::value_error("a tensor's name has at most " + std::to_string(GGML_MAX_NAME - 1) +
                                  " bytes, not " + std::to_string(name.size()));
        }
        if (ne.empty() || ne.size() > GGML_MAX_DIMS) {
            throw py::value_error("a tensor has one to four dimensions, not " + std::to_string(ne.size()));
        }
        if (gguf_find_tensor(handle_.get(), name.c_str()) >= 0) {
            throw py::value_error("there is a tensor of this name already");
        }
        ggml_tensor tensor = {};
        tensor.type = t;
        std::memcpy(tensor.name, name.data(), name.size());
        for (std::size_t i = 0; i < GGML_MAX_DIMS; ++i) tensor.ne[i] = i < ne.size() ? ne[i] : 1;
        check_sizes(&tensor);  // the products below overflow otherwise
        for (int i = ggml_n_dims(&tensor); i < GGML_MAX_DIMS; ++i) {
            // ggml would leave the dimension out, and the file would hold other sizes.
            if (tensor.ne[i] == 0) throw py::value_error("the last size of a tensor cannot be 0");
        }
        if (ne[0] % ggml_blck_size(t) != 0) {
            throw py::value_error(std::string("rows of type ") + ggml_type_name(t) + " come in blocks of " +
                                  std::to_string(ggml_blck_size(t)) + ", not " + std::to_string(ne[0]));
        }
        tensor.nb[0] = ggml_type_size(t);
        tensor.nb[1] = ggml_row_size(t, ne[0]);
        for (int i = 2; i < GGML_MAX_DIMS; ++i) {
            tensor.nb[i] = tensor.nb[i - 1] * static_cast<std::size_t>(tensor.ne[i - 1]);
        }
        const std::size_t size = ggml_nbytes(&tensor);
        if (given && *given != size) {
            throw py::value_error("it takes " + std::to_string(size) + " bytes, the data has " +
                                  std::to_string(*given));
        }
        const std::size_t padded = GGML_PAD(size, gguf_get_alignment(handle_.get()));
        if (padded > kMaxBytes - total_) throw py::value_error("the file would be larger than any disk");
        gguf_add_tensor(handle_.get(), &tensor);
        total_ += padded;
        return size;
    }

    py::bytes contents() const {
        Guard guard;
        std::string out;
        {
            ggmlpy::GilRelease release;
            out.resize(gguf_get_meta_size(handle_.get()));
            gguf_get_meta_data(handle_.get(), out.data());
        }
        return py::bytes(out);
    }

  private:
    // ggml's writer goes by the alignment that the file was read with, not by the key: so read a file that
    // has nothing but the key.
    static gguf_context* empty_with(std::uint32_t alignment) {
        std::string file = "GGUF";
        const auto put = [&](auto value) {
            file.append(reinterpret_cast<const char*>(&value), sizeof(value));
        };
        const std::string key = GGUF_KEY_GENERAL_ALIGNMENT;
        put(std::uint32_t{GGUF_VERSION});
        put(std::int64_t{0});  // tensors
        put(std::int64_t{1});  // pairs
        put(std::uint64_t{key.size()});
        file += key;
        put(static_cast<std::int32_t>(GGUF_TYPE_UINT32));
        put(alignment);
        return gguf_init_from_buffer(file.data(), file.size(), {/*no_alloc=*/true, /*ctx=*/nullptr});
    }

    void require_new(const std::string& key) const {
        require_text(key, "a key");
        if (key.empty() || key.size() > kMaxKey) {
            throw py::value_error("a key has 1 to " + std::to_string(kMaxKey) + " bytes, not " +
                                  std::to_string(key.size()));
        }
        if (key == GGUF_KEY_GENERAL_ALIGNMENT) {
            throw py::value_error("the alignment is set when the writer is made: GgufWriter(alignment=...)");
        }
        if (gguf_find_key(handle_.get(), key.c_str()) >= 0)
            throw py::value_error("this key has a value already");
    }

    struct Free {
        void operator()(gguf_context* g) const { gguf_free(g); }
    };
    std::unique_ptr<gguf_context, Free> handle_;
    std::size_t total_ = 0;  // bytes of tensor data, padded
};

// The tensor's memory may be read in parts, unless a device has it split or rearranged.
bool readable_in_parts(const ggml_tensor* t) {
    const ggml_backend_buffer_t buffer = t->view_src != nullptr ? t->view_src->buffer : t->buffer;
    const ggml_backend_buffer_type_t type = ggml_backend_buffer_get_type(buffer);
    const ggml_backend_dev_t device = ggml_backend_buft_get_device(type);
    if (device == nullptr) return ggml_backend_buffer_is_host(buffer);
    if (ggml_backend_dev_type(device) == GGML_BACKEND_DEVICE_TYPE_CPU &&
        !ggml_backend_buffer_is_host(buffer)) {
        throw GgmlFailure("tensor " + describe(t) + " lies in a buffer of type " +
                          ggml_backend_buft_name(type) + ", from which ggml cannot read it back");
    }
    return ggml_backend_dev_type(device) != GGML_BACKEND_DEVICE_TYPE_META;
}

const ggml_tensor* readable(const Tensor& tensor) {
    const ggml_tensor* t = tensor.get();
    if (ggml_nelements(t) == 0) return t;
    tensor.allocated();
    if (!ggml_is_contiguous(t)) {
        throw GgmlFailure("tensor " + describe(t) + " is not contiguous: use ggml.cont");
    }
    return t;
}

// At most `most` bytes of the tensor's data from `offset` on; all of it where it cannot be read in parts.
py::bytes tensor_bytes(const Tensor& tensor, std::size_t offset, std::size_t most) {
    Guard guard;
    const ggml_tensor* t = readable(tensor);
    const std::size_t size = ggml_nbytes(t);
    if (offset >= size) return py::bytes();
    if (!readable_in_parts(t)) {
        if (offset != 0) throw py::value_error("this tensor cannot be read in parts");
        most = size;
    }
    const std::size_t n = std::min(most, size - offset);
    auto out =
        py::reinterpret_steal<py::bytes>(PyBytes_FromStringAndSize(nullptr, static_cast<py::ssize_t>(n)));
    if (!out) throw py::error_already_set();
    char* to = PyBytes_AS_STRING(out.ptr());
    {
        const Busy busy(tensor.context(), Busy::With::memory);
        const GilRelease release;
        ggml_backend_tensor_get(t, to, offset, n);
    }
    return out;
}

}  // namespace

void bind_gguf_write(py::module_& m) {
    py::class_<GgufHeader>(m, "GgufHeader",
                           "The key-value pairs and tensor infos of a GGUF file to be written.")
        .def(py::init<std::uint32_t>(), py::arg("alignment"))
        .def("set_number", &GgufHeader::set_number, py::arg("key"), py::arg("type"), py::arg("value"),
             "gguf_set_val_*: a number of a GGUF type from its bytes.")
        .def("set_numbers", &GgufHeader::set_numbers, py::arg("key"), py::arg("type"), py::arg("values"),
             "gguf_set_arr_data: an array of numbers from its bytes.")
        .def("set_string", &GgufHeader::set_string, py::arg("key"), py::arg("value"), "gguf_set_val_str.")
        .def("set_strings", &GgufHeader::set_strings, py::arg("key"), py::arg("values"), "gguf_set_arr_str.")
        .def("add_tensor", &GgufHeader::add_tensor, py::arg("name"), py::arg("type"), py::arg("ne"),
             py::arg("given") = py::none(),
             "gguf_add_tensor: a tensor's info; returns the bytes that its data takes.")
        .def("contents", &GgufHeader::contents, "gguf_get_meta_data: the file up to the tensors' data.");
    m.def("tensor_bytes", tensor_bytes, py::arg("tensor"), py::arg("offset"), py::arg("most"),
          "ggml_backend_tensor_get: a part of a contiguous tensor's data.");
    m.def(
        "check_readable",
        [](const Tensor& tensor) {
            Guard guard;
            const ggml_tensor* t = readable(tensor);
            if (ggml_nelements(t) > 0) readable_in_parts(t);
        },
        py::arg("tensor"), "Raises unless tensor_bytes can read the tensor.");
}

}  // namespace ggmlpy
