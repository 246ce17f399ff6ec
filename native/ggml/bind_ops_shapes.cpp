// Other shapes of the same memory: reshapes, views, permutations.

#include <array>
#include <limits>

#include "ggml/op.h"

namespace py = pybind11;

namespace ggmlpy {
namespace {

using In = const ggml_tensor*;
using Sizes = std::array<std::int64_t, 4>;

void check_reshape_to(const Call& c, In a, const Sizes& ne) {
    c.need(contiguous(a), "a must be contiguous: use ggml.cont first");
    std::int64_t left = ggml_nelements(a);
    bool empty = false;
    for (const std::int64_t n : ne) {
        c.value(n >= 0, "a size must not be negative");
        if (n == 0) empty = true;
    }
    if (empty) return c.value(left == 0, "the new shape must have as many elements as a");
    for (const std::int64_t n : ne) {
        c.value(left % n == 0 && left != 0, "the new shape must have as many elements as a");
        left /= n;
    }
    c.value(left == 1, "the new shape must have as many elements as a");
    c.value(ne[0] % ggml_blck_size(a->type) == 0, "ne0 must be whole blocks of a's type");
}

void check_reshape(const Call& c, In a, In b) {
    check_reshape_to(c, a, {b->ne[0], b->ne[1], b->ne[2], b->ne[3]});
}

// The view lies within the memory that a looks at. ggml itself checks as if the rows were packed.
void check_view(const Call& c, In a, const Sizes& ne, const std::array<std::size_t, 3>& nb,
                std::size_t offset) {
    const std::size_t element = ggml_type_size(a->type);
    const std::int64_t block = ggml_blck_size(a->type);
    std::int64_t elements = 1;
    for (const std::int64_t n : ne) {
        c.value(n >= 0 && n < (std::int64_t{1} << 40), "a size must not be negative, nor 2^40 or more");
        c.value(n == 0 || elements < (std::int64_t{1} << 56) / n, "the view would be larger than any memory");
        elements *= n;
    }
    c.value(ne[0] % block == 0, "ne0 must be whole blocks of a's type");
    c.need(dense(a) || block == 1, "the blocks of a must be contiguous");
    const In root = a->view_src != nullptr ? a->view_src : a;
    std::size_t left = ggml_nbytes(root);
    const auto take = [&](std::size_t step, std::int64_t times) {
        c.value(step % element == 0, "strides and offset must be whole elements or blocks, in bytes");
        if (times <= 0 || step == 0) return;
        c.value(static_cast<std::size_t>(times) <= left / step, "the view would end outside a");
        left -= step * static_cast<std::size_t>(times);
    };
    const std::size_t start = root == a ? 0 : a->view_offs;
    c.value(start <= left, "the view would end outside a");
    left -= start;
    take(offset, 1);
    if (elements == 0) return;
    for (int i = 0; i < 3; ++i)
        take(nb[static_cast<std::size_t>(i)], ne[static_cast<std::size_t>(i) + 1] - 1);
    take(element, ne[0] / block);
}

void check_permute(const Call& c, In a, int axis0, int axis1, int axis2, int axis3) {
    unsigned seen = 0;
    for (const int axis : {axis0, axis1, axis2, axis3}) {
        c.value(axis >= 0 && axis < 4, "axes must be from 0 to 3");
        seen |= 1U << axis;
    }
    c.value(seen == 15, "each of the four axes must be given once");
    c.need(axis0 == 0 || ggml_blck_size(a->type) == 1,
           "the first dimension of a quantised tensor must stay first");
    for (int i = 0; i < 4; ++i) {  // ggml passes them through int
        const auto most = static_cast<std::size_t>(std::numeric_limits<int>::max());
        c.need(static_cast<std::size_t>(a->ne[i]) <= most && a->nb[i] <= most,
               "ggml permutes only sizes and strides below 2^31");
    }
}

}  // namespace

void bind_shapes(py::module_& m) {
    const auto a = needed("a"), b = needed("b");
    const py::arg ne0("ne0"), ne1("ne1"), ne2("ne2"), ne3("ne3");
    const py::arg nb1("nb1"), nb2("nb2"), nb3("nb3"), offset("offset");
    using N = std::int64_t;
    using S = std::size_t;

    def(m, "reshape", ggml_reshape, check_reshape, "ggml_reshape: a with b's sizes, the same memory.", a, b);
    def(
        m, "reshape_1d", ggml_reshape_1d,
        [](const Call& c, In t, N n0) { check_reshape_to(c, t, {n0, 1, 1, 1}); },
        "ggml_reshape_1d: a with these sizes, the same memory.", a, ne0);
    def(
        m, "reshape_2d", ggml_reshape_2d,
        [](const Call& c, In t, N n0, N n1) { check_reshape_to(c, t, {n0, n1, 1, 1}); },
        "ggml_reshape_2d: a with these sizes, the same memory.", a, ne0, ne1);
    def(
        m, "reshape_3d", ggml_reshape_3d,
        [](const Call& c, In t, N n0, N n1, N n2) { check_reshape_to(c, t, {n0, n1, n2, 1}); },
        "ggml_reshape_3d: a with these sizes, the same memory.", a, ne0, ne1, ne2);
    def(
        m, "reshape_4d", ggml_reshape_4d,
        [](const Call& c, In t, N n0, N n1, N n2, N n3) { check_reshape_to(c, t, {n0, n1, n2, n3}); },
        "ggml_reshape_4d: a with these sizes, the same memory.", a, ne0, ne1, ne2, ne3);
    def(
        m, "view_1d", ggml_view_1d,
        [](const Call& c, In t, N n0, S o) { check_view(c, t, {n0, 1, 1, 1}, {0, 0, 0}, o); },
        "ggml_view_1d: ne0 elements of a from offset (bytes).", a, ne0, offset);
    def(
        m, "view_2d", ggml_view_2d,
        [](const Call& c, In t, N n0, N n1, S s1, S o) { check_view(c, t, {n0, n1, 1, 1}, {s1, 0, 0}, o); },
        "ggml_view_2d: a part of a's memory, strides and offset in bytes.", a, ne0, ne1, nb1, offset);
    def(
        m, "view_3d", ggml_view_3d,
        [](const Call& c, In t, N n0, N n1, N n2, S s1, S s2, S o) {
            check_view(c, t, {n0, n1, n2, 1}, {s1, s2, 0}, o);
        },
        "ggml_view_3d: a part of a's memory, strides and offset in bytes.", a, ne0, ne1, ne2, nb1, nb2,
        offset);
    def(
        m, "view_4d", ggml_view_4d,
        [](const Call& c, In t, N n0, N n1, N n2, N n3, S s1, S s2, S s3, S o) {
            check_view(c, t, {n0, n1, n2, n3}, {s1, s2, s3}, o);
        },
        "ggml_view_4d: a part of a's memory, strides and offset in bytes.", a, ne0, ne1, ne2, ne3, nb1, nb2,
        nb3, offset);
    def(
        m, "view_tensor", ggml_view_tensor, [](const Call&, In) {},
        "ggml_view_tensor: the same tensor under another name.", a);
    def(m, "permute", ggml_permute, check_permute, "ggml_permute: axisN says where dimension N goes.", a,
        py::arg("axis0"), py::arg("axis1"), py::arg("axis2"), py::arg("axis3"));
    def(
        m, "transpose", ggml_transpose,
        [](const Call& c, In t) { c.need(ggml_blck_size(t->type) == 1, "a must not be quantised"); },
        "ggml_transpose: a view with ne0 and ne1 exchanged.", a);
}

}  // namespace ggmlpy
