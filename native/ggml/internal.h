// Functions that libggml-base exports and declares in a header that is not installed.
#pragma once

#include "ggml-backend.h"

extern "C" {
GGML_API void ggml_critical_section_start(void);
GGML_API void ggml_critical_section_end(void);
GGML_API ggml_backend_buffer_t ggml_backend_multi_buffer_alloc_buffer(ggml_backend_buffer_t* buffers,
                                                                      size_t n_buffers);
GGML_API bool ggml_backend_buffer_is_multi_buffer(ggml_backend_buffer_t buffer);
GGML_API bool ggml_backend_is_meta(ggml_backend_t backend);
GGML_API bool ggml_backend_buffer_is_meta(ggml_backend_buffer_t buffer);
GGML_API bool ggml_backend_buft_is_meta(ggml_backend_buffer_type_t type);
GGML_API size_t ggml_backend_meta_n_backends(ggml_backend_t meta_backend);
GGML_API ggml_backend_t ggml_backend_meta_simple_backend(ggml_backend_t meta_backend, size_t index);
}
