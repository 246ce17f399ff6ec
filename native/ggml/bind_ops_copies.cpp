// Copies: other types, contiguous ones, parts put together, repeated, padded, rolled.

#include <array>
#include <cstdlib>

#include "ggml/op.h"

namespace py = pybind11;

namespace ggmlpy {
namespace {

using In = const ggml_tensor*;
using N = std::int64_t;

void check_copy(const Call& c, In a, ggml_type type, bool to_packed, bool to_dense, bool to_same_shape) {
    const char* why = cannot_copy(a, type, to_packed, to_dense, to_same_shape);
    c.need(why == nullptr, why);
}

void check_cont(const Call& c, In a) { check_copy(c, a, a->type, true, true, true); }

// dup_inplace writes over what it reads: only the same layout is left, which needs no conversion.
void check_dup_inplace(const Call& c, In a) { check_copy(c, a, a->type, contiguous(a), dense(a), true); }

void check_cast(const Call& c, In a, ggml_type type) {
    c.value(a->ne[0] % ggml_blck_size(type) == 0, "a row must be whole blocks of type");
    check_copy(c, a, type, true, true, true);
}

void check_cpy(const Call& c, In a, In b) {
    c.need(ggml_nelements(a) == ggml_nelements(b), "a and b must have as many elements");
    check_copy(c, a, b->type, contiguous(b), dense(b), same_shape(a, b));
}

void check_cont_to(const Call& c, In a, N ne0, N ne1, N ne2, N ne3) {
    N left = ggml_nelements(a);
    c.need(left > 0, "a must have elements");
    for (const N n : {ne0, ne1, ne2, ne3}) {
        c.value(n > 0 && left % n == 0, "the new shape must have as many elements as a");
        left /= n;
    }
    c.value(left == 1, "the new shape must have as many elements as a");
    c.value(ne0 % ggml_blck_size(a->type) == 0, "ne0 must be whole blocks of a's type");
    check_copy(c, a, a->type, true, true, sizes_are(a, ne0, ne1, ne2, ne3));
}

void check_concat(const Call& c, In a, In b, int dim) {
    c.value(dim >= 0 && dim < 4, "dim must be from 0 to 3");
    c.need(a->type == b->type, "a and b must have the same type");
    for (int i = 0; i < 4; ++i)
        c.need(i == dim || a->ne[i] == b->ne[i], "a and b must have the same sizes except along dim");
    c.need(ggml_blck_size(a->type) == 1 || (dense(a) && dense(b)), "the rows of a and b must be contiguous");
    c.need(ggml_is_contiguous_rows(a) && ggml_is_contiguous_rows(b),
           "the rows of a and b must be contiguous");
}

void check_repeat_type(const Call& c, In a) {
    c.need(is_float(a) || is(a, {GGML_TYPE_I32, GGML_TYPE_I16}), "a must be f32, f16, bf16, i32 or i16");
    c.need(dense(a), "the rows of a must be contiguous");
}

void check_repeat(const Call& c, In a, In b) {
    check_repeat_type(c, a);
    c.need(repeats(a, b), "b's sizes must be whole multiples of a's");
}

void check_repeat_4d(const Call& c, In a, N ne0, N ne1, N ne2, N ne3) {
    check_repeat_type(c, a);
    c.not_empty();
    int i = 0;
    for (const N n : {ne0, ne1, ne2, ne3}) {
        c.value(n > 0 && divides(a->ne[i++], n), "the new sizes must be whole multiples of a's");
    }
}

void check_pads(const Call& c, In a, const std::array<int, 8>& pads, bool circular) {
    c.need(is_f32(a), "a must be f32");
    c.not_empty();
    for (std::size_t i = 0; i < 8; ++i) {
        c.counts({pads[i]}, 0, "padding");
        c.value(!circular || pads[i] <= a->ne[i / 2],
                "circular padding must not be larger than the dimension");
    }
}

void check_pad_ext(const Call& c, In a, int l0, int r0, int l1, int r1, int l2, int r2, int l3, int r3) {
    check_pads(c, a, {l0, r0, l1, r1, l2, r2, l3, r3}, false);
}

void check_pad_ext_circular(const Call& c, In a, int l0, int r0, int l1, int r1, int l2, int r2, int l3,
                            int r3) {
    check_pads(c, a, {l0, r0, l1, r1, l2, r2, l3, r3}, true);
}

void check_pad_reflect_1d(const Call& c, In a, int p0, int p1) {
    c.need(is_f32(a) && contiguous(a) && dense(a), "a must be f32 and contiguous");
    c.value(p0 >= 0 && p0 < a->ne[0] && p1 >= 0 && p1 < a->ne[0], "padding must be from 0 to a's ne0 - 1");
}

void check_roll(const Call& c, In a, int shift0, int shift1, int shift2, int shift3) {
    c.need(is_f32(a) && dense(a), "a must be f32 with contiguous rows");
    int i = 0;
    for (const N shift : {shift0, shift1, shift2, shift3}) {
        c.value(std::abs(shift) < a->ne[i++], "a shift must be smaller than the dimension");
    }
}

void check_get_rows(const Call& c, In a, In b) {
    c.not_empty();
    c.need(b->type == GGML_TYPE_I32, "b, the indices, must be i32");
    c.need(a->ne[2] == b->ne[1] && a->ne[3] == b->ne[2] && b->ne[3] == 1,
           "b must be [rows, a's ne2, a's ne3]");
    c.need(a->type == GGML_TYPE_I32 || reads_rows(a->type), "ggml cannot read rows of a's type");
    c.need(dense(a), "the rows of a must be contiguous");
}

void check_set_rows(const Call& c, In a, In b, In ids) {
    c.not_empty();
    c.need(is_f32_or_f16(b), "b, the rows, must be f32 or f16");
    c.need(is(ids, {GGML_TYPE_I64, GGML_TYPE_I32}), "c, the indices, must be i64 or i32");
    c.need(a->ne[0] == b->ne[0] && a->ne[2] == b->ne[2] && a->ne[3] == b->ne[3],
           "b must differ from a only in the number of rows");
    c.need(ids->ne[0] == b->ne[1] && divides(ids->ne[1], b->ne[2]) && divides(ids->ne[2], b->ne[3]) &&
               ids->ne[3] == 1,
           "c must be [b's ne1, a divisor of b's ne2, a divisor of b's ne3]");
    c.need(writes_rows(a->type), "ggml cannot write rows of a's type");
    c.need(dense(a) && dense(b), "the rows of a and b must be contiguous");
}

}  // namespace

void bind_copies(py::module_& m) {
    const auto a = needed("a"), b = needed("b");
    const py::arg ne0("ne0"), ne1("ne1"), ne2("ne2"), ne3("ne3");
    const py::arg p0("p0"), p1("p1"), p2("p2"), p3("p3");
    const py::arg lp0("lp0"), rp0("rp0"), lp1("lp1"), rp1("rp1"), lp2("lp2"), rp2("rp2"), lp3("lp3"),
        rp3("rp3");

    def(m, "dup", ggml_dup, check_cont, "ggml_dup: a copy of a.", a);
    def(m, "dup_inplace", ggml_dup_inplace, check_dup_inplace, "ggml_dup_inplace: a view of a as a node.", a);
    def(m, "cpy", ggml_cpy, check_cpy, "ggml_cpy: copies a into b, converting; the result is a view of b.", a,
        b);
    def(m, "cast", ggml_cast, check_cast, "ggml_cast: a copy of a of another type.", a, py::arg("type"));
    def(m, "cont", ggml_cont, check_cont, "ggml_cont: a contiguous copy of a.", a);
    def(
        m, "cont_1d", ggml_cont_1d, [](const Call& c, In t, N n0) { check_cont_to(c, t, n0, 1, 1, 1); },
        "ggml_cont_1d: a contiguous copy of a with these sizes.", a, ne0);
    def(
        m, "cont_2d", ggml_cont_2d,
        [](const Call& c, In t, N n0, N n1) { check_cont_to(c, t, n0, n1, 1, 1); },
        "ggml_cont_2d: a contiguous copy of a with these sizes.", a, ne0, ne1);
    def(
        m, "cont_3d", ggml_cont_3d,
        [](const Call& c, In t, N n0, N n1, N n2) { check_cont_to(c, t, n0, n1, n2, 1); },
        "ggml_cont_3d: a contiguous copy of a with these sizes.", a, ne0, ne1, ne2);
    def(m, "cont_4d", ggml_cont_4d, check_cont_to, "ggml_cont_4d: a contiguous copy of a with these sizes.",
        a, ne0, ne1, ne2, ne3);
    def(m, "concat", ggml_concat, check_concat, "ggml_concat: a, then b, along dimension dim.", a, b,
        py::arg("dim"));
    def(m, "repeat", ggml_repeat, check_repeat, "ggml_repeat: a repeated to b's sizes.", a, b);
    def(m, "repeat_4d", ggml_repeat_4d, check_repeat_4d, "ggml_repeat_4d: a repeated to these sizes.", a, ne0,
        ne1, ne2, ne3);
    def(
        m, "pad", ggml_pad,
        [](const Call& c, In t, int r0, int r1, int r2, int r3) {
            check_pads(c, t, {0, r0, 0, r1, 0, r2, 0, r3}, false);
        },
        "ggml_pad: zeros after each dimension.", a, p0, p1, p2, p3);
    def(
        m, "pad_circular", ggml_pad_circular,
        [](const Call& c, In t, int r0, int r1, int r2, int r3) {
            check_pads(c, t, {0, r0, 0, r1, 0, r2, 0, r3}, true);
        },
        "ggml_pad_circular: the beginning of each dimension again after it.", a, p0, p1, p2, p3);
    def(m, "pad_ext", ggml_pad_ext, check_pad_ext,
        "ggml_pad_ext: zeros before (lp) and after (rp) each dimension.", a, lp0, rp0, lp1, rp1, lp2, rp2,
        lp3, rp3);
    def(m, "pad_ext_circular", ggml_pad_ext_circular, check_pad_ext_circular,
        "ggml_pad_ext_circular: each dimension wrapped around before (lp) and after (rp) it.", a, lp0, rp0,
        lp1, rp1, lp2, rp2, lp3, rp3);
    def(m, "pad_reflect_1d", ggml_pad_reflect_1d, check_pad_reflect_1d,
        "ggml_pad_reflect_1d: ne0 mirrored at its ends, p0 elements before and p1 after.", a, p0, p1);
    def(m, "roll", ggml_roll, check_roll, "ggml_roll: each dimension shifted, what falls off comes in again.",
        a, py::arg("shift0"), py::arg("shift1"), py::arg("shift2"), py::arg("shift3"));
    def(m, "get_rows", ggml_get_rows, check_get_rows,
        "ggml_get_rows: the rows of a at the int32 indices b, as float32 (int32 of an int32 a).", a, b);
    def(m, "set_rows", ggml_set_rows, check_set_rows,
        "ggml_set_rows: writes the rows b into a at the indices c (int32 or int64); the result is a view of "
        "a.",
        a, b, needed("c"));
}

}  // namespace ggmlpy
