// Recurrent sequence models: state-space models, RWKV, gated linear attention, delta networks.

#include <limits>

#include "ggml/op.h"

namespace py = pybind11;

namespace ggmlpy {
namespace {

using In = const ggml_tensor*;
using N = std::int64_t;

void check_ssm_conv(const Call& c, In sx, In weights) {
    c.not_empty();
    c.need(is_f32(sx) && is_f32(weights), "sx and c must be f32");
    c.need(sx->ne[3] == 1 && is_matrix(weights), "sx must have 3 dimensions, c 2");
    c.need(sx->ne[1] == weights->ne[1],
           "sx [d_conv - 1 + tokens, d, sequences] and c [d_conv, d] must have the same d");
    c.need(sx->ne[0] >= weights->ne[0], "sx must hold d_conv values in a row at least");
    c.need(packed(weights) && dense(sx) && sx->nb[1] == ggml_row_size(sx->type, sx->ne[0]),
           "c and each sequence of sx must be contiguous");
}

bool rows_packed(In t) { return dense(t) && t->nb[1] == ggml_row_size(t->type, t->ne[0]); }

void check_ssm_scan(const Call& c, In s, In x, In dt, In A, In B, In C, In ids, N K) {
    c.not_empty();
    c.counts({K}, 1, "n_states");
    for (const In t : {s, x, dt, A, B, C}) c.need(is_f32(t), "every tensor but ids must be f32");
    c.need(ids->type == GGML_TYPE_I32 && is_vector(ids) && dense(ids), "ids must be an i32 vector");
    c.need(packed(s) && packed(dt) && packed(A), "s, dt and a must be contiguous");
    c.need(rows_packed(x) && rows_packed(B) && rows_packed(C),
           "x, b and c must be contiguous in two dimensions");
    const N state = s->ne[0], dim = x->ne[0], heads = x->ne[1], tokens = x->ne[2], sequences = x->ne[3];
    c.need(s->ne[1] == dim && s->ne[2] == heads,
           "s must be [state, dim, heads, states] for x [dim, heads, tokens, sequences]");
    c.need(sizes_are(dt, heads, tokens, sequences), "dt must be [heads, tokens, sequences]");
    c.need(same_shape(B, C) && sizes_are(B, state, B->ne[1], tokens, sequences),
           "b and c must be [state, groups, tokens, sequences]");
    c.need(divides(B->ne[1], heads), "the groups of b must divide the heads");
    c.need(ids->ne[0] == sequences, "ids must have one index for each sequence");
    c.need(is_matrix(A) && A->ne[1] == heads && (A->ne[0] == 1 || A->ne[0] == state),
           "a must be [1 or state, heads]");
    c.value(K == 1 || A->ne[0] == 1, "n_states must be 1 unless a is [1, heads]");
    c.value(K <= tokens, "n_states must not be more than the tokens: there are no other states");
}

// k, v and others [size, heads, tokens], state of as many values as sequences need.
void check_heads(const Call& c, In k, In state, std::initializer_list<In> like_k) {
    c.not_empty();
    c.need(is_f32(k) && packed(k) && is_f32(state) && packed(state),
           "every tensor must be f32 and contiguous");
    const N size = k->ne[0], heads = k->ne[1], tokens = k->ne[2], sequences = state->ne[1];
    for (const In t : like_k) {
        c.need(is_f32(t) && packed(t), "every tensor must be f32 and contiguous");
        c.need(sizes_are(t, size, heads, tokens),
               "the tensors over tokens must all be [size, heads, tokens]");
    }
    c.need(divides(sequences, tokens), "the sequences, state's ne1, must divide the tokens");
    c.need(ggml_nelements(state) == size * size * heads * sequences,
           "state must be [size * size * heads, sequences]");
}

void check_wkv6(const Call& c, In k, In v, In r, In tf, In td, In state) {
    check_heads(c, k, state, {k, v, r, td});
    c.need(is_f32(tf) && packed(tf) && ggml_nelements(tf) == k->ne[0] * k->ne[1],
           "tf must be f32, contiguous, and have size * heads elements");
}

void check_wkv7(const Call& c, In r, In w, In k, In v, In a, In b, In state) {
    check_heads(c, k, state, {r, w, k, v, a, b});
    // The vector kernels have no remainder; 64 is the widest step.
    c.need(k->ne[0] % 64 == 0, "the size of a head must be a multiple of 64");
}

void check_gated_linear_attn(const Call& c, In k, In v, In q, In g, In state, float) {
    check_heads(c, k, state, {k, v, q, g});
}

void check_gated_delta_net(const Call& c, In q, In k, In v, In g, In beta, In state, N K) {
    c.not_empty();
    c.counts({K}, 1, "n_states");
    for (const In t : {q, k, v, g, beta, state}) c.need(is_f32(t), "every tensor must be f32");
    c.need(dense(q) && dense(k) && dense(v), "the rows of q, k and v must be contiguous");
    c.need(packed(g) && packed(beta) && packed(state), "g, beta and state must be contiguous");
    const N size = v->ne[0], heads = v->ne[1], tokens = v->ne[2], sequences = v->ne[3];
    for (const In t : {q, k}) {
        c.need(t->ne[0] == size && t->ne[2] == tokens,
               "q and k must have v's ne0 and ne2, [size, heads, tokens, sequences]");
        c.need(divides(t->ne[1], heads) && divides(t->ne[3], sequences),
               "v's heads and sequences must be whole multiples of q's and k's");
    }
    c.need((g->ne[0] == 1 || g->ne[0] == size) && sizes_are(g, g->ne[0], heads, tokens, sequences),
           "g must be [1 or size, heads, tokens, sequences]");
    c.need(sizes_are(beta, 1, heads, tokens, sequences), "beta must be [1, heads, tokens, sequences]");
    c.need(sizes_are(state, size, size, heads, sequences), "state must be [size, size, heads, sequences]");
    c.value(K <= tokens, "n_states must not be more than the tokens: there are no other states");
}

}  // namespace

void bind_sequences(py::module_& m) {
    const auto k = needed("k"), v = needed("v"), q = needed("q"), g = needed("g"), r = needed("r");
    const auto state = needed("state");

    def(m, "ssm_conv", ggml_ssm_conv, check_ssm_conv,
        "ggml_ssm_conv: depthwise causal convolution: sx [d_conv - 1 + tokens, d, sequences], c [d_conv, d] "
        "-> [d, "
        "tokens, sequences].",
        needed("sx"), needed("c"));
    def(m, "ssm_scan", ggml_ssm_scan, check_ssm_scan,
        "ggml_ssm_scan: Mamba's scan: s [state, dim, heads, states], x [dim, heads, tokens, sequences], dt "
        "[heads, "
        "tokens, sequences], a [1 or state, heads], b and c [state, groups, tokens, sequences], int32 ids "
        "[sequences] of the states to begin with -> one vector: the outputs, then the last n_states states.",
        needed("s"), needed("x"), needed("dt"), needed("a"), needed("b"), needed("c"), needed("ids"),
        py::arg("n_states") = 1);
    def(m, "rwkv_wkv6", ggml_rwkv_wkv6, check_wkv6,
        "ggml_rwkv_wkv6: RWKV-6: k, v, r, td [size, heads, tokens], tf [size, heads], state [size * size * "
        "heads, "
        "sequences] -> [size * heads, tokens + size * sequences]: outputs, then states.",
        k, v, r, needed("tf"), needed("td"), state);
    def(m, "rwkv_wkv7", ggml_rwkv_wkv7, check_wkv7,
        "ggml_rwkv_wkv7: RWKV-7: r, w, k, v, a, b [size, heads, tokens], size a multiple of 64; result as "
        "rwkv_wkv6.",
        r, needed("w"), k, v, needed("a"), needed("b"), state);
    def(m, "gated_linear_attn", ggml_gated_linear_attn, check_gated_linear_attn,
        "ggml_gated_linear_attn: k, v, q, g [size, heads, tokens], state as rwkv_wkv6; result as rwkv_wkv6.",
        k, v, q, g, state, py::arg("scale"));
    def(m, "gated_delta_net", ggml_gated_delta_net, check_gated_delta_net,
        "ggml_gated_delta_net: q, k, v [size, heads, tokens, sequences], g [1 or size, heads, tokens, "
        "sequences], "
        "beta [1, heads, tokens, sequences], state [size, size, heads, sequences] -> [size * heads, tokens * "
        "sequences + n_states * size * sequences]: outputs, then the last n_states states, newest first.",
        q, k, v, g, needed("beta"), state, py::arg("n_states") = 1);
}

}  // namespace ggmlpy
