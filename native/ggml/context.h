// Contexts, tensors and graphs with their ownership: a Tensor keeps its Context, a Context keeps what its
// tensors lie in or refer to.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml.h"
#include "ggml/busy.h"
#include "ggml/device.h"

namespace ggmlpy {

class Buffer;
class Context;
class Graph;

// A ggml_tensor together with the context that owns it.
class Tensor {
  public:
    Tensor(ggml_tensor* raw, std::shared_ptr<Context> context);

    // Throws GgmlFailure when the context was reset since.
    ggml_tensor* get() const;
    const std::shared_ptr<Context>& context() const { return context_; }
    // get(), and throws when something that it is computed from or looks at is gone.
    ggml_tensor* with_sources() const;
    // get(), and throws unless the tensor has memory.
    ggml_tensor* allocated() const;

  private:
    ggml_tensor* raw_;
    std::shared_ptr<Context> context_;
    std::uint64_t generation_;
};

// Gives the tensors of one graph memory at a time: the next graph makes the one before stale.
class Allocator {
  public:
    virtual ~Allocator() = default;
    std::uint64_t generation() const { return generation_; }
    void advance() { ++generation_; }

  private:
    std::uint64_t generation_ = 0;
};

// A graph allocator with one buffer.
class Gallocr : public Allocator {
  public:
    Gallocr(ggml_backend_buffer_type_t type, std::vector<Use> uses);
    ggml_gallocr_t get() const;
    // Gives the graph's tensors memory. Throws GgmlFailure when there is not enough.
    void alloc(ggml_cgraph* graph);
    // Sizes the buffer for a graph without giving it memory.
    void reserve(ggml_cgraph* graph);
    std::size_t buffer_size() const;
    bool closed() const { return handle_ == nullptr; }
    void close();
    // The context of the graph that has memory now.
    void set_context(const std::shared_ptr<Context>& context) { context_ = context; }
    // Throws GgmlFailure while that is being computed, or a graph is being given memory.
    void check_idle() const;

  private:
    class Working;
    // Runs what allocates. Where that fails it begins anew and throws GgmlFailure.
    template <typename Action>
    void run(Action&& action);
    void start_anew();
    struct Free {
        void operator()(ggml_gallocr_t g) const { ggml_gallocr_free(g); }
    };
    ggml_backend_buffer_type_t type_;
    std::vector<Use> uses_;
    std::unique_ptr<ggml_gallocr, Free> handle_;
    std::vector<int> output_nodes_;  // of the last graph
    std::weak_ptr<Context> context_;
    bool working_ = false;  // ggml allocates and may be asking a split function
};

// A metadata arena without tensor data (no_alloc). reset() makes it empty again without touching malloc.
class Context : public std::enable_shared_from_this<Context> {
  public:
    explicit Context(std::size_t bytes);
    explicit Context(ggml_context* adopted);

    // Throws GgmlFailure when closed.
    ggml_context* get() const;
    // The same to make something in: throws GgmlFailure too while its tensors are being given memory.
    ggml_context* arena() const;
    std::uint64_t generation() const { return generation_; }
    std::size_t free_bytes() const;
    std::size_t used_bytes() const { return ggml_used_mem(get()); }
    void reset();
    bool closed() const { return handle_ == nullptr; }
    void close();

    Tensor wrap(ggml_tensor* t) { return Tensor(t, shared_from_this()); }
    // The raw tensor of an argument; a tensor of another context is kept alive by this one.
    ggml_tensor* use(const Tensor& t);
    // Throws GgmlFailure when a context that a tensor was used from, here or there, was reset since.
    void check_alive() const;
    // check_alive(), and throws when such a tensor's memory was moved.
    void check_used() const;
    void keep(const std::shared_ptr<const void>& what);

    // Set while the tensors lie in a graph allocator's buffer.
    void set_allocator(const std::shared_ptr<Allocator>& allocator,
                       std::unordered_set<const ggml_tensor*> placed = {});
    // Takes the memory away from the tensors that a graph allocator gave it to: ggml would otherwise leave
    // them where they are, in a buffer that may be gone.
    void forget_allocation();
    // The same if it was `allocator` that gave them their memory.
    void forget_allocation(const Allocator* allocator);
    bool allocation_is_stale() const;
    // Keeps a buffer that tensors of this context lie in, by the handle that they have.
    void add_buffer(const std::shared_ptr<Buffer>& buffer, ggml_backend_buffer_t handle);
    // The buffer of that handle, of this context or of one that it uses; null for an allocator's.
    std::shared_ptr<Buffer> find_buffer(ggml_backend_buffer_t handle) const;
    // This context or the one of those it uses that a tensor was made in; null for none of them.
    std::shared_ptr<const Context> owner(const ggml_tensor* t) const;
    // Throws GgmlFailure when a tensor lies in memory that must not be written, such as the map of a file.
    void check_writable(const ggml_tensor* t) const;
    // The same for the host, which must not write what is being computed either: a kernel may be looking up
    // indices there that were checked before.
    void check_host_may_write(const ggml_tensor* t) const;
    // Throws GgmlFailure while the processor computes with its tensors.
    void check_not_computing() const;
    // Throws GgmlFailure while a graph over its tensors is being computed.
    void check_idle() const;
    // Takes the memory away from the tensors that lie in a buffer that is about to be freed.
    void forget_buffer(ggml_backend_buffer_t buffer);

  private:
    friend class Busy;
    // This context and all that its tensors refer to, directly or not, each once.
    std::vector<const Context*> reachable() const;
    bool uses_only_leaves() const;
    bool owns(const ggml_tensor* t) const;
    friend class Tensor;
    struct Free {
        void operator()(ggml_context* c) const { ggml_free(c); }
    };
    std::unique_ptr<ggml_context, Free> handle_;
    struct Used {
        std::shared_ptr<Context> context;
        std::uint64_t generation;
        std::uint64_t allocations;
    };
    std::vector<std::shared_ptr<const void>> kept_;
    std::vector<std::pair<ggml_backend_buffer_t, std::shared_ptr<Buffer>>> buffers_;
    std::vector<Used> used_;  // contexts of the tensors that this one's refer to
    std::shared_ptr<Allocator> allocator_;
    std::unordered_set<const ggml_tensor*> placed_;  // the tensors that lie in allocator_'s memory
    std::uint64_t allocator_generation_ = 0;
    std::uint64_t allocations_ = 0;  // how often a graph allocator's memory was taken away
    std::uint64_t generation_ = 0;
    BusyCounts busy_;
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
    // A scheduler rewrites the graph that it splits: no other allocator can use it afterwards.
    void mark_split() { split_ = true; }
    bool is_split() const { return split_; }

  private:
    friend class Busy;
    BusyCounts busy_;
    ContextPtr context_;
    ggml_cgraph* raw_;
    std::uint64_t generation_;
    bool split_ = false;
};

// Throws GgmlFailure unless a graph may have so many nodes.
void check_graph_size(std::size_t max_nodes);

// Gives the graph's tensors memory from the allocator, again where they had some from it or another one.
void allocate(const std::shared_ptr<Gallocr>& gallocr, const Graph& graph);

// Throws GgmlFailure when ggml would read or write past the memory of a tensor: a size that is negative or
// overflows, a view that ends behind what it looks at. ggml itself checks less.
void check_sizes(const ggml_tensor* t);

// Throws GgmlFailure when a node writes into memory that is read-only, such as the map of a file.
void check_writes(const Graph& graph);

// Throws GgmlFailure unless every node has memory that may be written, and the device of `backend` can
// compute it.
void check_computable(const Graph& graph, ggml_backend_t backend);

// Throws GgmlFailure unless every index that an operator of the graph looks up (rows, matrices, states) is
// known to be in range: ggml would find out on a worker thread, where nothing can be thrown, or not at all.
void check_indices(const Graph& graph);

// "name [3, 4]" for messages; ne order.
std::string describe(const ggml_tensor* t);

}  // namespace ggmlpy
