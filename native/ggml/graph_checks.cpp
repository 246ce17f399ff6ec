// What is checked of a graph before ggml computes it, and of a tensor when it is made.

#include <limits>
#include <string>

#include "ggml/checks.h"
#include "ggml/context.h"
#include "ggml/guard.h"
#include "ggml/internal.h"

namespace ggmlpy {

void check_sizes(const ggml_tensor* t) {
    // No type takes more than 16 bytes an element.
    std::int64_t left = std::numeric_limits<std::int64_t>::max() / 16;
    for (const std::int64_t n : t->ne) {
        if (n < 0) throw GgmlFailure("tensor " + describe(t) + " would have a negative size");
        if (n > 1) left /= n;
    }
    if (left == 0) throw GgmlFailure("tensor " + describe(t) + " would be larger than any memory");
    if (t->view_src == nullptr) return;
    const std::size_t end = ggml_nbytes(t->view_src);
    for (int i = 0; i < GGML_MAX_DIMS; ++i) {
        // A larger stride would reach past the end, or wrap around in the sum that ggml makes of them.
        if (t->ne[i] > 1 && t->nb[i] > end) {
            throw GgmlFailure("the view " + describe(t) + " has a stride of " + std::to_string(t->nb[i]) +
                              " bytes over the " + std::to_string(end) + " of " + describe(t->view_src));
        }
    }
    if (t->view_offs > end || ggml_nbytes(t) > end - t->view_offs) {
        throw GgmlFailure("the view " + describe(t) + " ends past the " + std::to_string(end) + " bytes of " +
                          describe(t->view_src));
    }
}

namespace {

// Does the operator write into the tensor, which only looks at memory when it is a view?
bool writes(ggml_op op) {
    return op != GGML_OP_NONE && op != GGML_OP_VIEW && op != GGML_OP_RESHAPE && op != GGML_OP_PERMUTE &&
           op != GGML_OP_TRANSPOSE;
}

// Throws unless `backend` can read and write the memory of a tensor of a graph.
void check_memory(const ggml_tensor* t, const char* what, ggml_backend_t backend) {
    if (ggml_nelements(t) == 0) return;
    const ggml_backend_buffer_t buffer = t->view_src != nullptr ? t->view_src->buffer : t->buffer;
    if (t->data == nullptr || buffer == nullptr) {
        throw GgmlFailure(std::string("graph ") + what + " " + describe(t) +
                          " has no memory: allocate its context or graph first");
    }
    const ggml_backend_buffer_type_t type = ggml_backend_buffer_get_type(buffer);
    // A CPU device says that it supports the memory of a meta device made of CPUs, whose addresses are made
    // up.
    if (ggml_backend_buffer_is_meta(buffer) != ggml_backend_is_meta(backend) ||
        !ggml_backend_supports_buft(backend, type)) {
        throw GgmlFailure(std::string("graph ") + what + " " + describe(t) + " lies in memory (" +
                          ggml_backend_buft_name(type) + ") that backend " + ggml_backend_name(backend) +
                          " cannot use");
    }
}

bool overlaps(const ggml_tensor* t) {
    const std::int64_t blocks = t->ne[0] / ggml_blck_size(t->type);
    return overlap(ggml_type_size(t->type),
                   {{{blocks, t->nb[0]}, {t->ne[1], t->nb[1]}, {t->ne[2], t->nb[2]}, {t->ne[3], t->nb[3]}}});
}

}  // namespace

void check_writes(const Graph& graph) {
    ggml_cgraph* g = graph.get();
    for (int i = 0; i < ggml_graph_n_nodes(g); ++i) {
        const ggml_tensor* node = ggml_graph_node(g, i);
        if (node->view_src == nullptr || !writes(node->op)) continue;
        graph.context()->check_writable(node);
        // Threads would write one place in any order.
        if (overlaps(node)) {
            throw GgmlFailure(std::string(ggml_op_desc(node)) + " cannot write into the view " +
                              describe(node) + ", whose elements overlap");
        }
    }
}

void check_computable(const Graph& graph, ggml_backend_t backend) {
    graph.context()->check_used();
    check_writes(graph);
    if (graph.context()->allocation_is_stale()) {
        throw GgmlFailure("the graph's allocator has since allocated another graph: allocate this one again");
    }
    ggml_cgraph* g = graph.get();
    ggml_backend_dev_t device = ggml_backend_get_device(backend);
    const bool meta = ggml_backend_is_meta(backend);
    const int n = ggml_graph_n_nodes(g);
    for (int i = 0; i < n; ++i) {
        const ggml_tensor* node = ggml_graph_node(g, i);
        check_memory(node, "node", backend);
        // ggml takes the result for a part of the leaf, and leaves it out of what it computes.
        if (meta && node->view_src != nullptr && node->view_src->op == GGML_OP_NONE && writes(node->op)) {
            throw Unsupported(std::string("on a meta device ") + ggml_op_desc(node) + " cannot write into " +
                              describe(node->view_src) + ", which the graph does not compute");
        }
        for (const ggml_tensor* src : node->src) {
            if (src != nullptr) check_memory(src, "leaf", backend);
        }
        if (device != nullptr && !ggml_backend_dev_supports_op(device, node)) {
            throw GgmlFailure(std::string("device ") + ggml_backend_dev_name(device) + " cannot compute " +
                              ggml_op_desc(node) + " for " + describe(node));
        }
    }
}

}  // namespace ggmlpy
