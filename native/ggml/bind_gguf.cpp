// Reading GGUF from memory that Python holds (a memory map), tensors in place.

#include <cstdint>
#include <optional>

#include "ggml/bind.h"
#include "gguf.h"

namespace py = pybind11;

namespace ggmlpy {
namespace {

constexpr std::uintptr_t kBufferAlignment = 32;  // ggml's TENSOR_ALIGNMENT, which it asserts
constexpr std::uintptr_t kTensorAlignment = 16;  // malloc's, enough for every element and vector load
constexpr std::size_t kElementAlignment = 8;     // that of the largest element, and the least of GGUF

template <typename T>
py::object number_array(const gguf_context* g, std::int64_t key) {
    const auto n = static_cast<py::ssize_t>(gguf_get_arr_n(g, key));
    return py::array_t<T>(n, static_cast<const T*>(gguf_get_arr_data(g, key)));
}

py::object array_value(const gguf_context* g, std::int64_t key) {
    switch (gguf_get_arr_type(g, key)) {
        case GGUF_TYPE_UINT8:
            return number_array<std::uint8_t>(g, key);
        case GGUF_TYPE_BOOL:
            return number_array<bool>(g, key);
        case GGUF_TYPE_INT8:
            return number_array<std::int8_t>(g, key);
        case GGUF_TYPE_UINT16:
            return number_array<std::uint16_t>(g, key);
        case GGUF_TYPE_INT16:
            return number_array<std::int16_t>(g, key);
        case GGUF_TYPE_UINT32:
            return number_array<std::uint32_t>(g, key);
        case GGUF_TYPE_INT32:
            return number_array<std::int32_t>(g, key);
        case GGUF_TYPE_UINT64:
            return number_array<std::uint64_t>(g, key);
        case GGUF_TYPE_INT64:
            return number_array<std::int64_t>(g, key);
        case GGUF_TYPE_FLOAT32:
            return number_array<float>(g, key);
        case GGUF_TYPE_FLOAT64:
            return number_array<double>(g, key);
        case GGUF_TYPE_STRING: {
            const std::size_t n = gguf_get_arr_n(g, key);
            py::list out(n);
            for (std::size_t i = 0; i < n; ++i) out[i] = text(gguf_get_arr_str(g, key, i));
            return out;
        }
        default:
            return py::none();
    }
}

py::object value(const gguf_context* g, std::int64_t key) {
    switch (gguf_get_kv_type(g, key)) {
        case GGUF_TYPE_UINT8:
            return py::int_(gguf_get_val_u8(g, key));
        case GGUF_TYPE_INT8:
            return py::int_(gguf_get_val_i8(g, key));
        case GGUF_TYPE_UINT16:
            return py::int_(gguf_get_val_u16(g, key));
        case GGUF_TYPE_INT16:
            return py::int_(gguf_get_val_i16(g, key));
        case GGUF_TYPE_UINT32:
            return py::int_(gguf_get_val_u32(g, key));
        case GGUF_TYPE_INT32:
            return py::int_(gguf_get_val_i32(g, key));
        case GGUF_TYPE_UINT64:
            return py::int_(gguf_get_val_u64(g, key));
        case GGUF_TYPE_INT64:
            return py::int_(gguf_get_val_i64(g, key));
        case GGUF_TYPE_FLOAT32:
            return py::float_(gguf_get_val_f32(g, key));
        case GGUF_TYPE_FLOAT64:
            return py::float_(gguf_get_val_f64(g, key));
        case GGUF_TYPE_BOOL:
            return py::bool_(gguf_get_val_bool(g, key));
        case GGUF_TYPE_STRING:
            return text(gguf_get_val_str(g, key));
        case GGUF_TYPE_ARRAY:
            return array_value(g, key);
        default:
            return py::none();
    }
}

// A Python buffer held from C++; let go of under the GIL, wherever the last reference is dropped.
std::shared_ptr<const py::buffer_info> hold(const py::buffer& buffer) {
    auto* info = new py::buffer_info(buffer.request());
    if (PyBuffer_IsContiguous(info->view(), 'C') == 0) {
        delete info;
        throw py::value_error("the memory of a GGUF file must be contiguous");
    }
    return std::shared_ptr<const py::buffer_info>(info, [](const py::buffer_info* p) {
        const ggmlpy::GilAcquire acquire;
        delete p;
    });
}

struct TensorInfo {
    int type;
    std::vector<std::int64_t> ne;
    std::size_t offset;
    std::size_t size;
};
Device cpu_device() {
    ggml_backend_dev_t device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    if (device == nullptr) throw GgmlFailure("there is no CPU device: register its registry again");
    return Device(device);
}

// A parsed GGUF file. Its tensors lie in no buffer until map_tensors() puts them over the file's memory.
class GgufFile {
  public:
    explicit GgufFile(const py::buffer& buffer) : memory_(hold(buffer)) {
        Guard guard;
        const auto size = static_cast<std::size_t>(memory_->size * memory_->itemsize);
        ggml_context* tensors = nullptr;
        gguf_init_params params = {};
        params.no_alloc = true;
        params.ctx = &tensors;
        handle_.reset(gguf_init_from_buffer(memory_->ptr, size, params));
        if (!handle_) {
            const std::string why = Guard::log();
            throw GgmlFailure("not a readable GGUF file: " + (why.empty() ? "it ends too early" : why));
        }
        context_ = std::make_shared<Context>(tensors);
        for (ggml_tensor* t = ggml_get_first_tensor(tensors); t != nullptr;
             t = ggml_get_next_tensor(tensors, t)) {
            check_sizes(t);  // the sizes below overflow otherwise
        }
        const std::size_t data = gguf_get_data_offset(handle_.get());
        for (std::int64_t i = 0; i < gguf_get_n_tensors(handle_.get()); ++i) {
            const std::size_t begin = gguf_get_tensor_offset(handle_.get(), i);
            const std::size_t bytes = gguf_get_tensor_size(handle_.get(), i);
            if (data > size || begin > size - data || bytes > size - data - begin) {
                throw GgmlFailure("the file is truncated: tensor '" +
                                  std::string(gguf_get_tensor_name(handle_.get(), i)) + "' ends " +
                                  std::to_string(data + begin + bytes - size) + " bytes past its end");
            }
        }
    }

    std::uint32_t version() const { return gguf_get_version(open()); }
    std::size_t n_tensors() const { return static_cast<std::size_t>(gguf_get_n_tensors(open())); }
    std::size_t alignment() const { return gguf_get_alignment(open()); }
    std::size_t data_offset() const { return gguf_get_data_offset(open()); }

    bool contains(const std::string& key) const { return find(key) >= 0; }
    py::object at(const std::string& key) const { return value(handle_.get(), index(key)); }
    int key_type(const std::string& key) const { return gguf_get_kv_type(handle_.get(), index(key)); }

    std::optional<int> element_type(const std::string& key) const {
        const std::int64_t i = index(key);
        if (gguf_get_kv_type(handle_.get(), i) != GGUF_TYPE_ARRAY) return std::nullopt;
        return gguf_get_arr_type(handle_.get(), i);
    }

    py::dict metadata() const {
        const gguf_context* g = open();
        py::dict out;
        for (std::int64_t i = 0; i < gguf_get_n_kv(g); ++i) out[text(gguf_get_key(g, i))] = value(g, i);
        return out;
    }

    py::dict tensors() const {
        open();
        py::dict out;
        for (ggml_tensor* t = ggml_get_first_tensor(context_->get()); t != nullptr;
             t = ggml_get_next_tensor(context_->get(), t)) {
            out[text(t->name)] = context_->wrap(t);
        }
        return out;
    }

    py::dict tensor_infos() const {
        const gguf_context* g = open();
        py::dict out;
        for (std::int64_t i = 0; i < gguf_get_n_tensors(g); ++i) {
            const std::int64_t* ne = gguf_get_tensor_ne(g, i);
            out[text(gguf_get_tensor_name(g, i))] =
                TensorInfo{gguf_get_tensor_type(g, i), std::vector<std::int64_t>(ne, ne + GGML_MAX_DIMS),
                           gguf_get_tensor_offset(g, i), gguf_get_tensor_size(g, i)};
        }
        return out;
    }

    // One host buffer over the file's memory, each tensor at its place in it. Idempotent.
    std::shared_ptr<Buffer> map_tensors() {
        open();
        if (buffer_) return buffer_;
        Guard guard;
        const std::size_t data = gguf_get_data_offset(handle_.get());
        const auto size = static_cast<std::size_t>(memory_->size * memory_->itemsize);
        char* base = static_cast<char*>(memory_->ptr);
        // ggml wants the buffer aligned more than Python's own objects are; a memory map is.
        const auto odd = reinterpret_cast<std::uintptr_t>(base) % kBufferAlignment;
        if (odd % kTensorAlignment != 0) {
            throw GgmlFailure("tensors cannot be used in this memory: it is not aligned to " +
                              std::to_string(kTensorAlignment) + " bytes");
        }
        if (gguf_get_n_tensors(handle_.get()) > 0 && alignment() % kElementAlignment != 0) {
            throw GgmlFailure("tensors cannot be used in this file: it aligns them to " +
                              std::to_string(alignment()) + " bytes only, which GGUF does not allow");
        }
        // A buffer over memory that is here already needs no device: it can be used, and outlives, any.
        const BufferType type{ggml_backend_cpu_buffer_type(), cpu_device()};
        auto buffer =
            std::make_shared<Buffer>(ggml_backend_cpu_buffer_from_ptr(base - odd, size + odd), type, memory_);
        if (memory_->readonly) buffer->set_read_only();
        ggml_backend_buffer_set_usage(buffer->get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
        for (ggml_tensor* t = ggml_get_first_tensor(context_->get()); t != nullptr;
             t = ggml_get_next_tensor(context_->get(), t)) {
            const std::int64_t i = gguf_find_tensor(handle_.get(), t->name);
            char* place = base + data + gguf_get_tensor_offset(handle_.get(), i);
            if (ggml_backend_tensor_alloc(buffer->get(), t, place) != GGML_STATUS_SUCCESS) {
                throw GgmlFailure("cannot place tensor " + describe(t) + " in the memory map");
            }
        }
        buffer->add_user(buffer, context_);
        buffer_ = buffer;
        return buffer_;
    }

    // Tensors keep what they need: their context, which keeps the buffer, which keeps the memory.
    void close() {
        buffer_.reset();
        context_.reset();
        handle_.reset();
        memory_.reset();
    }
    bool closed() const { return handle_ == nullptr; }

  private:
    gguf_context* open() const {
        if (!handle_) throw GgmlFailure("this GGUF file is closed");
        return handle_.get();
    }

    // -1 when there is no such key. One with a zero byte would be cut to another one.
    std::int64_t find(const std::string& key) const {
        gguf_context* g = open();
        return key.find('\0') == std::string::npos ? gguf_find_key(g, key.c_str()) : -1;
    }

    std::int64_t index(const std::string& key) const {
        const std::int64_t i = find(key);
        if (i < 0) throw py::key_error(key);
        return i;
    }

    struct Free {
        void operator()(gguf_context* g) const { gguf_free(g); }
    };
    std::shared_ptr<const py::buffer_info> memory_;
    std::unique_ptr<gguf_context, Free> handle_;
    ContextPtr context_;
    std::shared_ptr<Buffer> buffer_;
};

}  // namespace

template <>
inline constexpr bool is_handle<TensorInfo> = true;
template <>
inline constexpr bool is_handle<GgufFile> = true;

void bind_gguf(py::module_& m) {
    py::class_<TensorInfo>(m, "GgufTensorInfo", "What a GGUF file says of a tensor.")
        .def_readonly("type", &TensorInfo::type, "ggml_type.")
        .def_property_readonly(
            "ne", [](const TensorInfo& t) { return py::tuple(py::cast(t.ne)); }, "Sizes in ggml's order.")
        .def_readonly("offset", &TensorInfo::offset, "Bytes from data_offset to the tensor's data.")
        .def_readonly("size", &TensorInfo::size, "Bytes of the tensor's data.");

    py::class_<GgufFile, std::shared_ptr<GgufFile>>(m, "GgufFile", "A GGUF file in memory, tensors in place.")
        .def(py::init<const py::buffer&>(), py::arg("buffer"))
        .def_property_readonly("version", &GgufFile::version, "gguf_get_version.")
        .def_property_readonly("alignment", &GgufFile::alignment, "gguf_get_alignment: bytes.")
        .def_property_readonly("data_offset", &GgufFile::data_offset,
                               "gguf_get_data_offset: bytes before the tensors' data.")
        .def("metadata", &GgufFile::metadata, "The key-value pairs; arrays of numbers as NumPy arrays.")
        .def("__contains__", &GgufFile::contains, py::arg("key"))
        .def("__getitem__", &GgufFile::at, py::arg("key"), "The value of a key; KeyError.")
        .def("key_type", &GgufFile::key_type, py::arg("key"), "gguf_get_kv_type; KeyError.")
        .def("element_type", &GgufFile::element_type, py::arg("key"),
             "gguf_get_arr_type, None for what is no array; KeyError.")
        .def("tensors", &GgufFile::tensors, "Name to Tensor, in the file's order.")
        .def("tensor_infos", &GgufFile::tensor_infos, "Name to GgufTensorInfo, in the file's order.")
        .def("map_tensors", &GgufFile::map_tensors,
             "Give the tensors the memory of the file, without a copy.")
        .def("close", &GgufFile::close, "Let go of the file; tensors taken from it keep its memory.")
        .def_property_readonly("closed", &GgufFile::closed)
        .def("__repr__",
             [](const GgufFile& f) {
                 return f.closed() ? std::string("<ggml.GgufFile (closed)>")
                                   : "<ggml.GgufFile " + count_of(f.n_tensors(), "tensor") + ">";
             })
        .def("__enter__", [](const std::shared_ptr<GgufFile>& self) { return self; })
        .def("__exit__", [](GgufFile& self, const py::args&) { self.close(); });
}

}  // namespace ggmlpy
