// The scheduler: one graph over several backends, split where an operator or a weight belongs elsewhere.
#pragma once

#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ggml/backend.h"
#include "ggml/context.h"

namespace ggmlpy {

class Sched : public Allocator {
  public:
    // Backends in order of preference; the last must be a CPU backend, as ggml demands.
    Sched(std::vector<std::shared_ptr<Backend>> backends, std::size_t graph_size, bool parallel,
          bool op_offload);
    ~Sched() override;
    Sched(const Sched&) = delete;
    Sched& operator=(const Sched&) = delete;

    // Sizes the buffers for a worst-case graph, which is used up by it.
    void reserve(Graph& graph);
    // Splits the graph and gives its tensors memory; what was allocated before loses its own.
    void alloc_graph(const std::shared_ptr<Sched>& self, const std::shared_ptr<Graph>& graph);
    // Is it the graph that has memory?
    bool holds(const std::shared_ptr<Graph>& graph) const { return graph == graph_.lock(); }
    // Throws GgmlFailure unless the graph has memory and can be computed.
    void check_computable(const std::shared_ptr<Graph>& graph) const;
    // These two with the locks of the backends held; they need no GIL.
    ggml_status compute(const Graph& graph);
    void synchronize();
    void reset();
    void set_tensor_backend(const Tensor& tensor, const Backend& backend);
    std::shared_ptr<Backend> tensor_backend(const Tensor& tensor) const;
    int n_splits() const;
    int n_copies() const;
    std::size_t buffer_size(const Backend& backend) const;
    const std::vector<std::shared_ptr<Backend>>& backends() const { return backends_; }
    bool closed() const { return handle_ == nullptr; }
    void close();

  private:
    ggml_backend_sched_t get() const;
    // The graph's tensors. Throws GgmlFailure for too many.
    std::unordered_set<const ggml_tensor*> check_graph(const Graph& graph) const;
    void check_member(const Backend& backend) const;
    std::vector<std::shared_ptr<Backend>> backends_;
    ggml_backend_sched_t handle_ = nullptr;
    std::size_t graph_size_;
    bool parallel_, op_offload_;
    std::vector<int> output_nodes_;  // of the last graph
    void forget_graph();
    void start_anew();
    // Runs what allocates; where that fails it begins anew and throws GgmlFailure.
    template <typename Allocate>
    void allocate(Allocate&& allocate_graph);
    // The one that has memory now. Its context keeps this scheduler, so this must not keep the graph.
    std::weak_ptr<Graph> graph_;
    std::weak_ptr<Context> context_;
    bool has_graph_ = false;
    std::unordered_set<const ggml_tensor*> tensors_;             // of that graph, its leaves included
    std::unordered_map<ggml_tensor*, const Backend*> assigned_;  // what set_tensor_backend was told
};

}  // namespace ggmlpy
