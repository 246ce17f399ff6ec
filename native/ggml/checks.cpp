#include "ggml/checks.h"

#include <pybind11/pybind11.h>

#include <algorithm>

#include "ggml-cpu.h"
#include "ggml/context.h"
#include "ggml/guard.h"

namespace ggmlpy {

void Call::add(const char* name, const ggml_tensor* tensor) {
    if (tensor == nullptr || n_ == kMaxTensors) return;
    names_[n_] = name;
    tensors_[n_++] = tensor;
}

void Call::not_empty() const {
    for (std::size_t i = 0; i < n_; ++i) {
        if (ggml_is_empty(tensors_[i])) refuse(std::string(names_[i]) + " must have elements");
    }
}

void Call::counts(std::initializer_list<std::int64_t> values, std::int64_t least, const char* what) const {
    for (const std::int64_t v : values) {
        if (v < least || v > (1 << 24)) {
            refuse_value(std::string(what) + " must be from " + std::to_string(least) + " to 2^24, not " +
                         std::to_string(v));
        }
    }
}

std::string Call::given() const {
    std::string text;
    for (std::size_t i = 0; i < n_; ++i) {
        text += (i == 0 ? "; given: " : ", ") + std::string(names_[i]) + " = " + describe(tensors_[i]);
        if (!ggml_is_contiguous(tensors_[i])) text += " (not contiguous)";
    }
    return text;
}

void Call::refuse(const std::string& what) const {
    throw GgmlFailure(std::string(op_) + ": " + what + given());
}

void Call::refuse_value(const std::string& what) const {
    throw pybind11::value_error(std::string(op_) + ": " + what + given());
}

bool overlap(std::size_t element, std::array<Dimension, 4> dimensions) {
    std::sort(dimensions.begin(), dimensions.end(),
              [](const Dimension& a, const Dimension& b) { return a.stride < b.stride; });
    std::size_t taken = element;
    for (const Dimension& d : dimensions) {
        if (d.size < 2) continue;
        if (d.stride < taken) return true;
        taken = d.stride * static_cast<std::size_t>(d.size);
    }
    return false;
}

bool reads_rows(ggml_type type) {
    if (type == GGML_TYPE_Q8_1 || type == GGML_TYPE_Q8_K) return false;
    return type == GGML_TYPE_F32 || ggml_get_type_traits(type)->to_float != nullptr;
}

bool writes_rows(ggml_type type) {
    if (type == GGML_TYPE_Q8_1 || type == GGML_TYPE_Q8_K) return false;
    return ggml_get_type_traits_cpu(type)->from_float != nullptr;
}

bool multiplies(ggml_type a, ggml_type b) {
    const ggml_type_traits_cpu* traits = ggml_get_type_traits_cpu(a);
    if (a == GGML_TYPE_Q8_1 || a == GGML_TYPE_Q8_K || traits->vec_dot == nullptr) return false;
    if (b == traits->vec_dot_type) return true;
    return b == GGML_TYPE_F32 && ggml_get_type_traits_cpu(traits->vec_dot_type)->from_float != nullptr;
}

const char* cannot_copy(const ggml_tensor* a, ggml_type type, bool to_packed, bool to_dense,
                        bool to_same_shape) {
    const std::int64_t block = ggml_blck_size(type);
    if (a->type == type) {
        if (block == 1 || (contiguous(a) && to_packed) || (to_same_shape && dense(a) && to_dense))
            return nullptr;
        return "blocks are copied between contiguous tensors, or between ones of the same shape whose rows "
               "are "
               "contiguous";
    }
    const bool float_in = is_float(a);
    const bool float_out = type == GGML_TYPE_F32 || type == GGML_TYPE_F16 || type == GGML_TYPE_BF16;
    if (float_in && float_out) return nullptr;
    if (a->type == GGML_TYPE_F32 && type == GGML_TYPE_I32) return nullptr;
    if (a->type == GGML_TYPE_I32 && type == GGML_TYPE_F32) return nullptr;
    if (ggml_is_quantized(a->type) && type == GGML_TYPE_F32) {
        if (!reads_rows(a->type) || !dense(a)) return "a's type cannot be made float32 in this layout";
        if (to_packed || (to_dense && to_same_shape)) return nullptr;
        return "blocks are made float32 only in a contiguous tensor, or one of the same shape with "
               "contiguous rows";
    }
    if (float_in && ggml_is_quantized(type) && writes_rows(type)) {
        if (!to_packed || !dense(a))
            return "values are quantised from contiguous rows into a contiguous tensor";
        if (a->ne[0] % block != 0) return "a row of a must be whole blocks of the type";
        return nullptr;
    }
    return "ggml does not convert between these types";
}

}  // namespace ggmlpy
