// Arithmetic on the elements of one or two tensors.

#include <cmath>

#include "ggml/op.h"

namespace py = pybind11;

namespace ggmlpy {
namespace {

using T = ggml_tensor*;
using In = const ggml_tensor*;

void check_unary(const Call& c, In a) {
    c.need(is_float(a), "a must be f32, f16 or bf16");
    c.need(dense(a), "the rows of a must be contiguous");
}

// The pairs of types that the kernels of add, sub, mul and div have: b as a, or f32.
void check_types(const Call& c, In a, In b) {
    c.need(is_float(a), "a must be f32, f16 or bf16");
    c.need(b->type == a->type || is_f32(b), "b must be f32 or of a's type");
}

void check_binary(const Call& c, In a, In b) {
    check_types(c, a, b);
    c.need(repeats(b, a), "a's sizes must be whole multiples of b's");
    c.need(dense(a), "the rows of a must be contiguous");
}

void check_add(const Call& c, In a, In b) {
    if (!ggml_is_quantized(a->type)) return check_binary(c, a, b);
    c.need(reads_rows(a->type) && writes_rows(a->type), "ggml cannot add to a's type");
    c.need(is_f32(b) && same_shape(a, b), "b must be f32 and of a's sizes where a is quantised");
    c.need(dense(a) && dense(b), "the rows of a and b must be contiguous");
    c.need(!ggml_is_permuted(a), "a must not be permuted where it is quantised");
}

void check_add_cast(const Call& c, In a, In b, ggml_type type) {
    c.need(a->ne[0] == b->ne[0] && repeats(b, a), "b must have a's ne0, and a's sizes be multiples of b's");
    c.need(dense(a) && dense(b), "the rows of a and b must be contiguous");
    if (ggml_is_quantized(a->type)) {
        c.need(reads_rows(a->type) && is_f32(b) && same_shape(a, b),
               "b must be f32 and of a's sizes where a is quantised");
        c.value(writes_rows(type) && (type == GGML_TYPE_F32 || ggml_is_quantized(type)),
                "type must be f32 or one that ggml can quantise to");
        c.value(a->ne[0] % ggml_blck_size(type) == 0, "a row must be whole blocks of type");
        return;
    }
    c.need(is(a, {GGML_TYPE_F16, GGML_TYPE_BF16}), "a must be quantised, f16 or bf16");
    c.need(b->type == a->type || is_f32(b), "b must be f32 or of a's type");
    c.value(type == a->type || (type == GGML_TYPE_F32 && is_f32(b)),
            "type must be a's, or f32 where b is f32");
}

void check_scale(const Call& c, In a) {
    c.need(is_f32(a), "a must be f32");
    c.need(contiguous(a) && even_rows(a), "a must be contiguous");
}

void check_leaky_relu(const Call& c, In a, float, bool) {
    c.need(is_f32_or_f16(a), "a must be f32 or f16");
    c.need(even_rows(a), "a's rows must be contiguous and at equal distances");
}

void check_clamp(const Call& c, In a, float min, float max) {
    check_leaky_relu(c, a, 0, false);
    c.value(min <= max, "min must not be above max");
}

void check_fill(const Call& c, In a, float) {
    c.need(is_f32_or_f16(a), "a must be f32 or f16");
    c.need(contiguous(a), "a must be contiguous");
}

void check_add_id(const Call& c, In a, In b, In ids) {
    c.not_empty();
    c.need(is_f32(a) && is_f32(b), "a and b must be f32");
    c.need(ids->type == GGML_TYPE_I32, "ids must be i32");
    c.need(a->ne[0] == b->ne[0] && is_matrix(b), "b must be [a's ne0, rows]");
    c.need(sizes_are(ids, a->ne[1], a->ne[2]) && a->ne[3] == 1, "ids must be [a's ne1, a's ne2]");
    c.need(dense(a) && dense(b) && dense(ids), "the rows of a, b and ids must be contiguous");
}

// A part of a, given by strides and an offset in bytes, that b is written or added to.
void check_part(const Call& c, In a, In b, std::size_t nb1, std::size_t nb2, std::size_t nb3,
                std::size_t offset) {
    c.not_empty();
    c.need(is(a, {GGML_TYPE_F32, GGML_TYPE_I32}) && b->type == a->type,
           "a and b must both be f32 or both i32");
    c.need(packed(a), "a must be contiguous");
    c.need(dense(b), "the rows of b must be contiguous");
    const std::size_t element = ggml_type_size(a->type);
    std::size_t left = ggml_nbytes(a);
    const auto take = [&](std::size_t step, std::int64_t times) {
        c.value(step % element == 0 && step < (1U << 30),
                "strides and offset must be whole elements, below 2^30");
        if (times <= 0) return;
        const auto bytes = step * static_cast<std::size_t>(times);
        c.value(step < left && bytes < left, "b would end outside a");
        left -= bytes;
    };
    c.value(!overlap(element, {{{b->ne[0], element}, {b->ne[1], nb1}, {b->ne[2], nb2}, {b->ne[3], nb3}}}),
            "the rows of b must not overlap in a");
    take(offset, 1);
    take(element, b->ne[0] - 1);
    take(nb1, b->ne[1] - 1);
    take(nb2, b->ne[2] - 1);
    take(nb3, b->ne[3] - 1);
    c.value(element <= left, "b would end outside a");
}

void check_acc(const Call& c, In a, In b, std::size_t nb1, std::size_t nb2, std::size_t nb3,
               std::size_t offset) {
    c.need(is_f32(a) && is_f32(b), "a and b must be f32");
    check_part(c, a, b, nb1, nb2, nb3, offset);
}

void check_set_1d(const Call& c, In a, In b, std::size_t offset) {
    c.need(is_vector(b), "b must have one dimension");
    check_part(c, a, b, 0, 0, 0, offset);
}

void check_set_2d(const Call& c, In a, In b, std::size_t nb1, std::size_t offset) {
    c.need(is_matrix(b), "b must have two dimensions at most");
    check_part(c, a, b, nb1, 0, 0, offset);
}

}  // namespace

void bind_elementwise(py::module_& m) {
    const auto a = needed("a"), b = needed("b"), ids = needed("ids");
    const py::arg s("s"), bias("b"), nb1("nb1"), nb2("nb2"), nb3("nb3"), offset("offset");

    def(m, "add", ggml_add, check_add, "ggml_add: a + b, b repeated to a's sizes.", a, b);
    def(m, "add_inplace", ggml_add_inplace, check_add, "ggml_add_inplace: a + b in a's memory.", a, b);
    def(m, "add_cast", ggml_add_cast, check_add_cast, "ggml_add_cast: a + b as type.", a, b, py::arg("type"));
    // Where b has the result's layout a graph allocator may give the result b's memory, of which any row may
    // still be read: it keeps its hands off outputs.
    const auto add_id = [](ggml_context* context, ggml_tensor* x, ggml_tensor* y, ggml_tensor* rows) {
        ggml_set_output(y);
        return ggml_add_id(context, x, y, rows);
    };
    def(m, "add_id", +add_id, check_add_id,
        "ggml_add_id: a[:, i, j] + b[:, ids[i, j]] of a [n, i, j], b [n, rows], int32 ids [i, j].", a, b,
        ids);
    def(m, "sub", ggml_sub, check_binary, "ggml_sub: a - b, b repeated to a's sizes.", a, b);
    def(m, "sub_inplace", ggml_sub_inplace, check_binary, "ggml_sub_inplace: a - b in a's memory.", a, b);
    def(m, "mul", ggml_mul, check_binary, "ggml_mul: a * b by elements, b repeated to a's sizes.", a, b);
    def(m, "mul_inplace", ggml_mul_inplace, check_binary, "ggml_mul_inplace: a * b in a's memory.", a, b);
    def(m, "div", ggml_div, check_binary, "ggml_div: a / b by elements, b repeated to a's sizes.", a, b);
    def(m, "div_inplace", ggml_div_inplace, check_binary, "ggml_div_inplace: a / b in a's memory.", a, b);

    def(m, "sqr", ggml_sqr, check_unary, "ggml_sqr: a * a.", a);
    def(m, "sqr_inplace", ggml_sqr_inplace, check_unary, "ggml_sqr_inplace: a * a in a's memory.", a);
    def(m, "sqrt", ggml_sqrt, check_unary, "ggml_sqrt: the square root.", a);
    def(m, "sqrt_inplace", ggml_sqrt_inplace, check_unary, "ggml_sqrt_inplace: in a's memory.", a);
    def(m, "log", ggml_log, check_unary, "ggml_log: the natural logarithm.", a);
    def(m, "log_inplace", ggml_log_inplace, check_unary, "ggml_log_inplace: in a's memory.", a);
    def(m, "sin", ggml_sin, check_unary, "ggml_sin: of radians.", a);
    def(m, "sin_inplace", ggml_sin_inplace, check_unary, "ggml_sin_inplace: in a's memory.", a);
    def(m, "cos", ggml_cos, check_unary, "ggml_cos: of radians.", a);
    def(m, "cos_inplace", ggml_cos_inplace, check_unary, "ggml_cos_inplace: in a's memory.", a);

    def(
        m, "scale", ggml_scale, [](const Call& c, In t, float) { check_scale(c, t); }, "ggml_scale: a * s.",
        a, s);
    def(
        m, "scale_inplace", ggml_scale_inplace, [](const Call& c, In t, float) { check_scale(c, t); },
        "ggml_scale_inplace: a * s in a's memory.", a, s);
    def(
        m, "scale_bias", ggml_scale_bias, [](const Call& c, In t, float, float) { check_scale(c, t); },
        "ggml_scale_bias: a * s + b.", a, s, bias);
    def(
        m, "scale_bias_inplace", ggml_scale_bias_inplace,
        [](const Call& c, In t, float, float) { check_scale(c, t); },
        "ggml_scale_bias_inplace: a * s + b in a's memory.", a, s, bias);
    def(m, "leaky_relu", ggml_leaky_relu, check_leaky_relu,
        "ggml_leaky_relu: a where positive, a * negative_slope elsewhere.", a, py::arg("negative_slope"),
        py::arg("inplace") = false);
    def(m, "clamp", ggml_clamp, check_clamp, "ggml_clamp: a limited to [min, max], in a's memory.", a,
        py::arg("min"), py::arg("max"));
    def(m, "fill", ggml_fill, check_fill, "ggml_fill: c in every element, of a's sizes.", a, py::arg("c"));
    def(m, "fill_inplace", ggml_fill_inplace, check_fill, "ggml_fill_inplace: c in every element of a.", a,
        py::arg("c"));

    def(m, "acc", ggml_acc, check_acc,
        "ggml_acc: a copy of a with b added to the part that strides and offset (bytes) give.", a, b, nb1,
        nb2, nb3, offset);
    def(m, "acc_inplace", ggml_acc_inplace, check_acc, "ggml_acc_inplace: acc in a's memory.", a, b, nb1, nb2,
        nb3, offset);
    def(m, "set", ggml_set, check_part,
        "ggml_set: a copy of a with b in the part that strides and offset (bytes) give.", a, b, nb1, nb2, nb3,
        offset);
    def(m, "set_inplace", ggml_set_inplace, check_part, "ggml_set_inplace: set in a's memory.", a, b, nb1,
        nb2, nb3, offset);
    def(m, "set_1d", ggml_set_1d, check_set_1d,
        "ggml_set_1d: a copy of a with the vector b at offset (bytes).", a, b, offset);
    def(m, "set_1d_inplace", ggml_set_1d_inplace, check_set_1d, "ggml_set_1d_inplace: set_1d in a's memory.",
        a, b, offset);
    def(m, "set_2d", ggml_set_2d, check_set_2d,
        "ggml_set_2d: a copy of a with the matrix b, rows nb1 bytes apart, at offset (bytes).", a, b, nb1,
        offset);
    def(m, "set_2d_inplace", ggml_set_2d_inplace, check_set_2d, "ggml_set_2d_inplace: set_2d in a's memory.",
        a, b, nb1, offset);
}

}  // namespace ggmlpy
