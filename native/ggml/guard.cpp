#include "ggml/guard.h"

#include <cstring>

namespace ggmlpy {
namespace {

thread_local int depth = 0;
thread_local int allocations_throw = 0;
thread_local std::string messages;
ggml_abort_callback_t previous_handler = nullptr;
void (*guard_end)() noexcept = nullptr;

// What ggml only ever says as an assertion, and a user can do something about.
std::string in_words(const std::string& assertion) {
    const auto has = [&](const char* part) { return assertion.find(part) != std::string::npos; };
    if (has("mem_buffer != NULL") || has("bufs.back() != nullptr")) throw OutOfMemory("out of memory");
    if (has("GGML_ASSERT(obj_new)")) return "the context is full: make it larger (ggml.Context)";
    if (has("node_hash_pos != GGML_HASHSET_FULL") || has("n_nodes < cgraph->size"))
        return "the graph is full: make it with more nodes (ggml.Graph, max_nodes)";
    if (has("meta_buf_ctx->bufs[i]")) throw OutOfMemory("out of memory on a part of a meta device");
    if (has("ggml-backend-meta.cpp")) {
        return "ggml cannot compute this graph in parts: the splits of its tensors do not fit together, or "
               "an "
               "operator of it cannot be split so (ggml: " +
               assertion + ")";
    }
    return "ggml: " + assertion;
}

void on_abort(const char* message) {
    if (depth > 0) throw GgmlFailure(in_words(message));
    if (previous_handler != nullptr) previous_handler(message);
}

}  // namespace

Guard::Guard() {
    if (depth++ == 0) messages.clear();
}

Guard::~Guard() {
    if (--depth == 0 && guard_end != nullptr) guard_end();
}

std::string Guard::log() {
    std::string text = messages;
    while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
    return text;
}

Guard::AllocationsThrow::AllocationsThrow() { ++allocations_throw; }

Guard::AllocationsThrow::~AllocationsThrow() { --allocations_throw; }

void Guard::collect(ggml_log_level level, const char* text) {
    // How the graph allocator says it, before it goes on.
    if (depth > 0 && allocations_throw > 0 && level == GGML_LOG_LEVEL_ERROR &&
        std::strstr(text, "ggml_gallocr_reserve") != nullptr &&
        std::strstr(text, "failed to allocate") != nullptr)
        throw NoGraphBuffer();
    if (level == GGML_LOG_LEVEL_DEBUG || level == GGML_LOG_LEVEL_INFO || depth == 0) return;
    if (messages.size() < 4096) messages += text;
}

void install_abort_handler() { previous_handler = ggml_set_abort_callback(on_abort); }

void set_guard_end(void (*hook)() noexcept) { guard_end = hook; }

}  // namespace ggmlpy
