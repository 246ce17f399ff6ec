// Which values an index tensor can hold when its graph runs.
//
// The kernels look indices up on worker threads: some assert the range there, which ends the process, others
// do not look. So each is known before: read where it lies, or bounded by the operator that computes it.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <unordered_map>
#include <vector>

#include "ggml/buffer.h"
#include "ggml/context.h"
#include "ggml/guard.h"

namespace ggmlpy {
namespace {

struct Range {
    bool known = false;
    double low = 0;
    double high = 0;
};

const ggml_tensor* root(const ggml_tensor* t) { return t->view_src != nullptr ? t->view_src : t; }

bool looks_only(ggml_op op) {
    return op == GGML_OP_VIEW || op == GGML_OP_RESHAPE || op == GGML_OP_PERMUTE || op == GGML_OP_TRANSPOSE;
}

// A node that changes memory which is not its own: in-place operators, cpy, set_rows.
bool writes_elsewhere(const ggml_tensor* t) {
    return t->view_src != nullptr && t->op != GGML_OP_NONE && !looks_only(t->op);
}

float parameter(const ggml_tensor* t, int i) {
    float value = 0;
    std::memcpy(&value, t->op_params + i, sizeof(value));
    return value;
}

class Indices {
  public:
    explicit Indices(const Graph& graph) {
        ggml_cgraph* g = graph.get();
        for (int i = 0; i < ggml_graph_n_nodes(g); ++i) {
            const ggml_tensor* node = ggml_graph_node(g, i);
            if (writes_elsewhere(node)) ++writers_[root(node)];
        }
    }

    // The bounds of the values as the tensor's type holds them: rounding keeps their order.
    Range range(const ggml_tensor* t) const {
        Range r = values(t);
        if (!r.known || std::isnan(r.low) || std::isnan(r.high)) return {};
        if (r.low > r.high) std::swap(r.low, r.high);
        switch (t->type) {
            case GGML_TYPE_F32:
            case GGML_TYPE_I64:
                return r;
            case GGML_TYPE_I32:
                // Outside of it a conversion is undefined.
                if (r.low < std::numeric_limits<std::int32_t>::min() ||
                    r.high > std::numeric_limits<std::int32_t>::max())
                    return {};
                return {true, std::trunc(r.low), std::trunc(r.high)};
            case GGML_TYPE_F16:
                return {true, through_half(r.low), through_half(r.high)};
            case GGML_TYPE_BF16:
                return {true, through_bfloat16(r.low), through_bfloat16(r.high)};
            default:
                return {};
        }
    }

  private:
    static double through_half(double value) {
        return ggml_fp16_to_fp32(ggml_fp32_to_fp16(static_cast<float>(value)));
    }
    static double through_bfloat16(double value) {
        return ggml_bf16_to_fp32(ggml_fp32_to_bf16(static_cast<float>(value)));
    }

    Range values(const ggml_tensor* t) const {
        // What another node writes there too may be what is read.
        const auto found = writers_.find(root(t));
        const int others = (found == writers_.end() ? 0 : found->second) - (writes_elsewhere(t) ? 1 : 0);
        if (ggml_is_empty(t)) return {true, 0, 0};
        if (others > 0) return {};
        if (looks_only(t->op) || t->op == GGML_OP_NONE) {
            if (root(t)->op == GGML_OP_NONE) return read(t);
            return range(looks_only(t->op) ? t->src[0] : root(t));
        }
        switch (t->op) {
            case GGML_OP_ARGSORT:
            case GGML_OP_TOP_K:
            case GGML_OP_ARGMAX:
                return {true, 0, static_cast<double>(t->src[0]->ne[0] - 1)};
            case GGML_OP_CLAMP:
                return {true, parameter(t, 0), parameter(t, 1)};
            case GGML_OP_ARANGE: {
                const float first = parameter(t, 0), step = parameter(t, 2);
                const float last = first + step * static_cast<float>(t->ne[0] - 1);
                const float largest = std::max(std::abs(first), std::abs(last));
                // The kernel may round the product before it adds, or not. Whole numbers stay exact.
                const bool exact =
                    first == std::trunc(first) && step == std::trunc(step) && largest < 1 << 24;
                const float slack = exact ? 0 : 4 * std::numeric_limits<float>::epsilon() * largest;
                return {true, std::min(first, last) - slack, std::max(first, last) + slack};
            }
            case GGML_OP_FILL:
                return {true, parameter(t, 0), parameter(t, 0)};
            case GGML_OP_DUP:
            case GGML_OP_CONT:
            case GGML_OP_CPY:
            case GGML_OP_REPEAT:
            case GGML_OP_GET_ROWS:
                return range(t->src[0]);
            case GGML_OP_CONCAT: {
                const Range a = range(t->src[0]), b = range(t->src[1]);
                return {a.known && b.known, std::min(a.low, b.low), std::max(a.high, b.high)};
            }
            default:
                return {};
        }
    }

    template <typename Value>
    static Range scan(const ggml_tensor* t, const char* data) {
        Range r{true, std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()};
        for (std::int64_t i3 = 0; i3 < t->ne[3]; ++i3) {
            for (std::int64_t i2 = 0; i2 < t->ne[2]; ++i2) {
                for (std::int64_t i1 = 0; i1 < t->ne[1]; ++i1) {
                    const char* row = data + i3 * static_cast<std::int64_t>(t->nb[3]) +
                                      i2 * static_cast<std::int64_t>(t->nb[2]) +
                                      i1 * static_cast<std::int64_t>(t->nb[1]);
                    for (std::int64_t i0 = 0; i0 < t->ne[0]; ++i0) {
                        Value value;
                        std::memcpy(&value, row + i0 * static_cast<std::int64_t>(t->nb[0]), sizeof(value));
                        if (value != value) return {};  // NaN
                        r.low = std::min(r.low, static_cast<double>(value));
                        r.high = std::max(r.high, static_cast<double>(value));
                    }
                }
            }
        }
        return r;
    }

    static Range read(const ggml_tensor* t) {
        const ggml_backend_buffer_t buffer = root(t)->buffer;
        if (buffer == nullptr || t->data == nullptr) return {};
        const char* data = static_cast<const char*>(t->data);
        std::vector<char> copy;
        if (!is_host(buffer)) {
            copy.resize(ggml_nbytes(t));
            ggml_backend_tensor_get(t, copy.data(), 0, copy.size());
            data = copy.data();
        }
        switch (t->type) {
            case GGML_TYPE_I32:
                return scan<std::int32_t>(t, data);
            case GGML_TYPE_I64:
                return scan<std::int64_t>(t, data);
            case GGML_TYPE_F32:
                return scan<float>(t, data);
            default:
                return {};
        }
    }

    std::unordered_map<const ggml_tensor*, int> writers_;
};

// The tensor of indices that a node looks up, how many there are to choose from, and of what.
struct Lookup {
    const ggml_tensor* indices = nullptr;
    std::int64_t count = 0;
    const char* what = "row";
    const ggml_tensor* of = nullptr;
};

Lookup lookup(const ggml_tensor* node) {
    switch (node->op) {
        case GGML_OP_GET_ROWS:
            return {node->src[1], node->src[0]->ne[1], "row", node->src[0]};
        case GGML_OP_SET_ROWS:
            return {node->src[1], node->ne[1], "row", node->src[2]};
        case GGML_OP_ADD_ID:
            return {node->src[2], node->src[1]->ne[1], "row", node->src[1]};
        case GGML_OP_MUL_MAT_ID:
            return {node->src[2], node->src[0]->ne[2], "matrix", node->src[0]};
        case GGML_OP_SSM_SCAN:
            return {node->src[6], node->src[0]->ne[3], "state", node->src[0]};
        default:
            return {};
    }
}

std::string number(double value) {
    std::string text = std::to_string(value);
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
    return text;
}

}  // namespace

void check_indices(const Graph& graph) {
    ggml_cgraph* g = graph.get();
    std::vector<const ggml_tensor*> nodes;
    for (int i = 0; i < ggml_graph_n_nodes(g); ++i) {
        const ggml_tensor* node = ggml_graph_node(g, i);
        if (lookup(node).indices != nullptr) nodes.push_back(node);
    }
    if (nodes.empty()) return;
    const Indices indices(graph);
    for (const ggml_tensor* node : nodes) {
        const Lookup wanted = lookup(node);
        const Range range = indices.range(wanted.indices);
        if (!range.known) {
            throw GgmlFailure(
                std::string(ggml_op_desc(node)) + ": the indices " + describe(wanted.indices) +
                ", computed by " + ggml_op_desc(wanted.indices) +
                ", cannot be checked before the graph runs: take them from argsort, top_k or argmax, "
                "limit them with clamp, or compute them in a graph of their own");
        }
        // Between -1 and 0 a float becomes index 0.
        const bool low = range.low <= -1, high = range.high >= static_cast<double>(wanted.count);
        if (low || high) {
            throw GgmlFailure(std::string(ggml_op_desc(node)) + ": there is no " + wanted.what + " " +
                              number(low ? range.low : range.high) + " in " + describe(wanted.of));
        }
    }
}

}  // namespace ggmlpy
