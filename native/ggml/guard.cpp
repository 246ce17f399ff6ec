#include "ggml/guard.h"

namespace ggmlpy {
namespace {

thread_local int depth = 0;
thread_local std::string messages;
ggml_abort_callback_t previous_handler = nullptr;
void (*guard_end)() noexcept = nullptr;

void on_abort(const char* message) {
    if (depth > 0) throw GgmlFailure(std::string("ggml: ") + message);
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

void Guard::collect(ggml_log_level level, const char* text) {
    if (level == GGML_LOG_LEVEL_DEBUG || level == GGML_LOG_LEVEL_INFO || depth == 0) return;
    if (messages.size() < 4096) messages += text;
}

void install_abort_handler() { previous_handler = ggml_set_abort_callback(on_abort); }

void set_guard_end(void (*hook)() noexcept) { guard_end = hook; }

}  // namespace ggmlpy
