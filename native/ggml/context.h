// Contexts, tensors and graphs with their ownership: a Tensor keeps its Context, a Context keeps what its
// tensors lie in or refer to.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml.h"

namespace ggmlpy {

class Context;

// A ggml_tensor together with the context that owns it.
class Tensor {
  public:
    Tensor(ggml_tensor* raw, std::shared_ptr<Context> context);

    // Throws GgmlFailure when the context was reset since.
    ggml_tensor* get() const;
    const std::shared_ptr<Context>& context() const { return context_; }
    // get(), and throws unless the tensor has memory.
    ggml_tensor* allocated() const;

  private:
    ggml_tensor* raw_;
    std::shared_ptr<Context> context_;
    std::uint64_t generation_;
};

// A graph allocator; reallocation of its buffer makes what was allocated before stale.
class Gallocr {
  public:
    explicit Gallocr(ggml_backend_buffer_type_t type);
    ggml_gallocr_t get() const { return handle_.get(); }
    std::size_t buffer_size() const;
    std::uint64_t generation() const { return generation_; }
    void advance() { ++generation_; }

  private:
    struct Free {
        void operator()(ggml_gallocr_t g) const { ggml_gallocr_free(g); }
    };
    std::unique_ptr<ggml_gallocr, Free> handle_;
    std::uint64_t generation_ = 0;
};

// A metadata arena without tensor data (no_alloc). reset() makes it empty again without touching malloc.
class Context : public std::enable_shared_from_this<Context> {
  public:
    explicit Context(std::size_t bytes);
    explicit Context(ggml_context* adopted);

    ggml_context* get() const { return handle_.get(); }
    std::uint64_t generation() const { return generation_; }
    std::size_t free_bytes() const;
    void reset();

    Tensor wrap(ggml_tensor* t) { return Tensor(t, shared_from_this()); }
    // The raw tensor of an argument; a tensor of another context is kept alive by this one.
    ggml_tensor* use(const Tensor& t);
    void keep(const std::shared_ptr<const void>& what);

    // Set while the tensors lie in a graph allocator's buffer.
    void set_gallocr(const std::shared_ptr<Gallocr>& gallocr);
    bool allocation_is_stale() const;

  private:
    struct Free {
        void operator()(ggml_context* c) const { ggml_free(c); }
    };
    std::unique_ptr<ggml_context, Free> handle_;
    std::vector<std::shared_ptr<const void>> kept_;
    std::shared_ptr<Gallocr> gallocr_;
    std::uint64_t gallocr_generation_ = 0;
    std::uint64_t generation_ = 0;
};

using ContextPtr = std::shared_ptr<Context>;

// A computation graph in the memory of its context.
class Graph {
  public:
    Graph(ContextPtr context, std::size_t max_nodes);
    ggml_cgraph* get() const;
    const ContextPtr& context() const { return context_; }
    // Adds what `result` depends on, in the order of computation.
    void expand(const Tensor& result);
    int n_nodes() const { return ggml_graph_n_nodes(get()); }

  private:
    ContextPtr context_;
    ggml_cgraph* raw_;
    std::uint64_t generation_;
};

// Throws GgmlFailure unless every node has memory and the device of `backend` can compute it.
void check_computable(const Graph& graph, ggml_backend_t backend);

// "name [3, 4]" for messages; ne order.
std::string describe(const ggml_tensor* t);

}  // namespace ggmlpy
