// What ggml is at work on must stay as it is until it is done.
#pragma once

#include <memory>
#include <vector>

namespace ggmlpy {

class Context;
class Graph;

// While it lives, ggml works on the tensors of a graph or context without the GIL, or calls back into Python:
// what they need must not be closed, reset or allocated again. Made and checked under the GIL.
class Busy {
  public:
    enum class With {
        memory,  // something has yet to be done in their memory
        values,  // the processor computes: the host must not write them either
        layout,  // the tensors of the context are being given memory: it must not get new ones
    };
    Busy(const std::shared_ptr<Context>& context, With with);
    Busy(const std::shared_ptr<Graph>& graph, With with);
    ~Busy();
    Busy(const Busy&) = delete;
    Busy& operator=(const Busy&) = delete;

  private:
    std::shared_ptr<Graph> graph_;
    std::vector<std::shared_ptr<Context>> contexts_;
    With with_;
    long process_;
};

// How many are busy with an object, and how. A forked child inherits the counts, but not what they count.
struct BusyCounts {
    int all = 0;
    int computing = 0;
    int giving_memory = 0;
    long process = 0;

    // Those of this process.
    BusyCounts now() const;
    void add(Busy::With with, int n);
};

}  // namespace ggmlpy
