// From one of ggml's operators to a Python function: arguments, checks before ggml, ownership after it.
#pragma once

#include <array>
#include <tuple>
#include <type_traits>
#include <utility>

#include "ggml/bind.h"
#include "ggml/checks.h"

namespace ggmlpy {

// ggml_tensor * becomes a Tensor, enums become int; every other argument keeps its type.
template <typename T, typename = void>
struct Argument {
    using type = T;
    static T pass(Context&, T value) { return value; }
};

template <>
struct Argument<ggml_tensor*> {
    using type = const Tensor*;
    static ggml_tensor* pass(Context& context, const Tensor* t) {
        return t != nullptr ? context.use(*t) : nullptr;
    }
};

template <>
struct Argument<ggml_type> {
    using type = int;
    static ggml_type pass(Context&, int t) { return check_type(t); }
};

// How many enumerators an enum has, from 0 on.
template <typename E>
inline constexpr std::int32_t kEnumerators = 0;
template <>
inline constexpr std::int32_t kEnumerators<ggml_unary_op> = GGML_UNARY_OP_COUNT;
template <>
inline constexpr std::int32_t kEnumerators<ggml_glu_op> = GGML_GLU_OP_COUNT;
template <>
inline constexpr std::int32_t kEnumerators<ggml_op_pool> = GGML_OP_POOL_COUNT;
template <>
inline constexpr std::int32_t kEnumerators<ggml_scale_mode> = GGML_SCALE_MODE_COUNT;
template <>
inline constexpr std::int32_t kEnumerators<ggml_sort_order> = GGML_SORT_ORDER_DESC + 1;
template <>
inline constexpr std::int32_t kEnumerators<ggml_tri_type> = GGML_TRI_TYPE_LOWER + 1;

template <typename E>
struct Argument<E, std::enable_if_t<std::is_enum_v<E>>> {
    using type = std::int32_t;
    static E pass(Context&, std::int32_t value) {
        if (value < 0 || value >= kEnumerators<E>) {
            throw pybind11::value_error(
                "there is no such mode or kind of operator: " + std::to_string(value) + " (there are 0 to " +
                std::to_string(kEnumerators<E> - 1) + ")");
        }
        return static_cast<E>(value);
    }
};

template <typename T>
struct Checked {
    using type = T;
};
template <>
struct Checked<ggml_tensor*> {
    using type = const ggml_tensor*;
};

template <typename... A>
using Check = void (*)(const Call&, typename Checked<A>::type...);

template <typename... A, std::size_t... I>
void note_all(Call& call, const std::array<const char*, sizeof...(A)>& names, const std::tuple<A...>& raw,
              std::index_sequence<I...>) {
    const auto one = [&](const char* name, auto value) {
        if constexpr (std::is_same_v<decltype(value), ggml_tensor*>) call.add(name, value);
    };
    (one(names[I], std::get<I>(raw)), ...);
}

// Tensor arguments: needed, or None allowed.
inline pybind11::arg needed(const char* name) { return pybind11::arg(name).none(false); }
inline pybind11::arg optional(const char* name) { return pybind11::arg(name).none(true); }

// m.name(ctx, ...) = function(ctx, ...), after check(call, ...) found nothing wrong.
template <typename... A, typename... Args>
void def(pybind11::module_& m, const char* name, ggml_tensor* (*function)(ggml_context*, A...),
         std::common_type_t<Check<A...>> check, const char* doc, const Args&... args) {
    static_assert(sizeof...(A) == sizeof...(Args), "a name for each argument");
    const std::array<const char*, sizeof...(A)> names = {args.name...};
    m.def(
        name,
        [name, function, check, names](const std::shared_ptr<Context>& context,
                                       typename Argument<A>::type... arguments) {
            Guard guard;
            const std::tuple<A...> raw{Argument<A>::pass(*context, arguments)...};
            Call call(name);
            note_all(call, names, raw, std::index_sequence_for<A...>{});
            std::apply([&](auto... a) { check(call, a...); }, raw);
            ggml_tensor* result =
                std::apply([&](auto... a) { return function(context->arena(), a...); }, raw);
            check_sizes(result);
            return context->wrap(result);
        },
        pybind11::arg("ctx").none(false), args..., doc);
}

void bind_elementwise(pybind11::module_& m);
void bind_activations(pybind11::module_& m);
void bind_shapes(pybind11::module_& m);
void bind_copies(pybind11::module_& m);
void bind_matrices(pybind11::module_& m);
void bind_reductions(pybind11::module_& m);
void bind_norms(pybind11::module_& m);
void bind_attention(pybind11::module_& m);
void bind_convolutions(pybind11::module_& m);
void bind_sequences(pybind11::module_& m);
void bind_images(pybind11::module_& m);

}  // namespace ggmlpy
