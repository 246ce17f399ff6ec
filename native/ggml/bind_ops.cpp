// Graph operators, by subject. docs/ggml-operators.md lists them, ggml/operators.py is the table of both.

#include "ggml/op.h"

namespace ggmlpy {

void bind_ops(pybind11::module_& m) {
    bind_elementwise(m);
    bind_activations(m);
    bind_shapes(m);
    bind_copies(m);
    bind_matrices(m);
    bind_reductions(m);
    bind_norms(m);
    bind_attention(m);
    bind_convolutions(m);
    bind_sequences(m);
    bind_images(m);
}

}  // namespace ggmlpy
