// What an operator needs of its arguments, as small predicates, and the error that names what was given.
//
// ggml asserts some of this when an operator is built and the rest inside a kernel, on a worker thread, where
// nothing can be thrown; a part it does not look at. The types are those of ggml's CPU kernels, the reference
// for the other devices, which compute subsets of them with few exceptions.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "ggml.h"

namespace ggmlpy {

// The operator that is being built: its name and its tensor arguments, for messages.
class Call {
  public:
    static constexpr std::size_t kMaxTensors = 8;

    explicit Call(const char* op) : op_(op) {}
    void add(const char* name, const ggml_tensor* tensor);

    // Throw GgmlFailure (need) or ValueError (value) with `what` is needed and what was given.
    void need(bool ok, const char* what) const {
        if (!ok) refuse(what);
    }
    void value(bool ok, const char* what) const {
        if (!ok) refuse_value(what);
    }
    // Every tensor has elements. Kernels divide by sizes.
    void not_empty() const;
    // A stride, a kernel size, a count: from `least` to 2^24, so that sizes computed from it do not overflow.
    void counts(std::initializer_list<std::int64_t> values, std::int64_t least, const char* what) const;

  private:
    [[noreturn]] void refuse(const std::string& what) const;
    [[noreturn]] void refuse_value(const std::string& what) const;
    std::string given() const;

    const char* op_;
    std::size_t n_ = 0;
    const char* names_[kMaxTensors] = {};
    const ggml_tensor* tensors_[kMaxTensors] = {};
};

inline bool is(const ggml_tensor* t, std::initializer_list<ggml_type> types) {
    for (const ggml_type type : types) {
        if (t->type == type) return true;
    }
    return false;
}
inline bool is_f32(const ggml_tensor* t) { return t->type == GGML_TYPE_F32; }
inline bool is_f32_or_f16(const ggml_tensor* t) { return is(t, {GGML_TYPE_F32, GGML_TYPE_F16}); }
inline bool is_float(const ggml_tensor* t) { return is(t, {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16}); }

// nb[0] is one element. ggml_is_contiguous_rows lets any stride pass where ne[0] is 1; kernels do not.
inline bool dense(const ggml_tensor* t) { return t->nb[0] == ggml_type_size(t->type); }
// Rows at equal distances nb[1] through all dimensions, as kernels expect that count rows in one index.
inline bool even_rows(const ggml_tensor* t) {
    return dense(t) && t->nb[2] == t->nb[1] * static_cast<std::size_t>(t->ne[1]) &&
           t->nb[3] == t->nb[2] * static_cast<std::size_t>(t->ne[2]);
}
// All strides are those of a contiguous tensor, also where a size is 1.
inline bool packed(const ggml_tensor* t) {
    return even_rows(t) && t->nb[1] == ggml_row_size(t->type, t->ne[0]);
}
inline bool contiguous(const ggml_tensor* t) { return ggml_is_contiguous(t); }
inline bool stride_is(const ggml_tensor* t, int axis, std::size_t bytes) {
    return t->ne[axis] == 1 || t->nb[axis] == bytes;
}

inline bool sizes_are(const ggml_tensor* t, std::int64_t n0, std::int64_t n1 = 1, std::int64_t n2 = 1,
                      std::int64_t n3 = 1) {
    return t->ne[0] == n0 && t->ne[1] == n1 && t->ne[2] == n2 && t->ne[3] == n3;
}
inline bool is_matrix(const ggml_tensor* t) { return t->ne[2] == 1 && t->ne[3] == 1; }
inline bool is_vector(const ggml_tensor* t) { return t->ne[1] == 1 && is_matrix(t); }
inline bool same_shape(const ggml_tensor* a, const ggml_tensor* b) { return ggml_are_same_shape(a, b); }
// a's sizes are whole multiples of b's.
inline bool repeats(const ggml_tensor* b, const ggml_tensor* a) { return ggml_can_repeat(b, a); }
inline bool divides(std::int64_t part, std::int64_t whole) { return part > 0 && whole % part == 0; }

// Do two elements of so many bytes lie in one place, for these sizes and strides in bytes?
struct Dimension {
    std::int64_t size;
    std::size_t stride;
};
bool overlap(std::size_t element, std::array<Dimension, 4> dimensions);

// From a row of this type to float32 and back. Not for Q8_1 and Q8_K, which ggml keeps to itself.
bool reads_rows(ggml_type type);
bool writes_rows(ggml_type type);
// Whether ggml multiplies weights of type a by values of type b.
bool multiplies(ggml_type a, ggml_type b);
// Whether ggml can copy a into a tensor of this type and layout, and why not; nullptr if it can.
const char* cannot_copy(const ggml_tensor* a, ggml_type type, bool to_packed, bool to_dense,
                        bool to_same_shape);

}  // namespace ggmlpy
