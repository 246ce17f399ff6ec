// The extension module ggml._core.

#include "ggml/bind.h"

PYBIND11_MODULE(_core, m) {
    m.doc() =
        "ggml for Python: contexts, tensors, operators, backends, GGUF. Use it through the package ggml.";
    ggmlpy::watch_interpreter_exit();
    ggmlpy::install_abort_handler();
    ggmlpy::register_failure();
    ggmlpy::bind_tensor(m);
    ggmlpy::bind_ops(m);
    ggmlpy::bind_device(m);
    ggmlpy::bind_buffer(m);
    ggmlpy::bind_graph(m);
    ggmlpy::bind_backend(m);
    ggmlpy::bind_stream(m);
    ggmlpy::bind_gguf(m);
    ggmlpy::bind_gguf_write(m);
    ggmlpy::bind_quantize(m);
    ggmlpy::bind_features(m);
    ggmlpy::bind_log(m);
}
