// Sums, means, counts, orders; ranges of numbers.

#include <cmath>

#include "ggml/op.h"

namespace py = pybind11;

namespace ggmlpy {
namespace {

using In = const ggml_tensor*;

void check_f32_rows(const Call& c, In a) {
    c.not_empty();
    c.need(is_f32(a), "a must be f32");
    c.need(dense(a), "the rows of a must be contiguous");
}

void check_sum(const Call& c, In a) {
    c.not_empty();
    c.need(is_float(a), "a must be f32, f16 or bf16");
    c.need(dense(a), "the rows of a must be contiguous");
}

void check_argmax(const Call& c, In a) {
    check_f32_rows(c, a);
    c.need(is_matrix(a), "a must have two dimensions at most");
}

// ggml's kernel miscounts positions beyond the second dimension.
void check_count_equal(const Call& c, In a, In b) {
    c.not_empty();
    c.need(a->type == GGML_TYPE_I32 && b->type == GGML_TYPE_I32, "a and b must be i32");
    c.need(same_shape(a, b) && is_matrix(a), "a and b must have the same sizes, two dimensions at most");
}

void check_order(const Call& c, In a) {
    c.not_empty();
    c.need(is_f32(a), "a must be f32");
    c.need(even_rows(a), "a's rows must be contiguous and at equal distances");
    c.need(a->ne[0] <= INT32_MAX, "a's ne0 must be below 2^31");
}

void check_top_k(const Call& c, In a, int k) {
    check_order(c, a);
    c.value(k >= 1 && k <= a->ne[0], "k must be from 1 to a's ne0");
}

void check_arange(const Call& c, float start, float stop, float step) {
    c.value(std::isfinite(start) && std::isfinite(stop) && std::isfinite(step),
            "start, stop and step must be finite");
    c.value(stop > start && step > 0, "stop must be above start, and step above 0");
    c.value((stop - start) / step < static_cast<float>(1 << 30), "the range would have 2^30 numbers or more");
}

}  // namespace

void bind_reductions(py::module_& m) {
    const auto a = needed("a"), b = needed("b");

    def(m, "sum", ggml_sum, check_sum, "ggml_sum: the sum of all elements, one element of a's type.", a);
    def(m, "sum_rows", ggml_sum_rows, check_f32_rows, "ggml_sum_rows: [n, ...] -> [1, ...], sums along ne0.",
        a);
    def(m, "cumsum", ggml_cumsum, check_f32_rows, "ggml_cumsum: running sums along ne0.", a);
    def(m, "mean", ggml_mean, check_f32_rows, "ggml_mean: [n, ...] -> [1, ...], means along ne0.", a);
    def(m, "argmax", ggml_argmax, check_argmax,
        "ggml_argmax: [n, m] -> int32 [m], where each row is largest.", a);
    def(m, "count_equal", ggml_count_equal, check_count_equal,
        "ggml_count_equal: in how many places the int32 matrices a and b are equal, one int64.", a, b);
    def(
        m, "argsort", ggml_argsort, [](const Call& c, In t, ggml_sort_order) { check_order(c, t); },
        "ggml_argsort: int32 indices that order each row as a SortOrder says; a must hold no NaN.", a,
        py::arg("order"));
    def(m, "argsort_top_k", ggml_argsort_top_k, check_top_k,
        "ggml_argsort_top_k: int32 indices of each row's k largest, largest first (a view); a must hold no "
        "NaN.",
        a, py::arg("k"));
    def(m, "top_k", ggml_top_k, check_top_k,
        "ggml_top_k: int32 indices of each row's k largest, in no order; a must hold no NaN.", a,
        py::arg("k"));
    def(m, "arange", ggml_arange, check_arange, "ggml_arange: float32 start, start + step, ... below stop.",
        py::arg("start"), py::arg("stop"), py::arg("step") = 1.0F);
}

}  // namespace ggmlpy
