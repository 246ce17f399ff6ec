#include "ggml/guard.h"

#include "ggml.h"

namespace ggmlpy {
namespace {

thread_local int depth = 0;
thread_local std::string messages;
ggml_abort_callback_t previous_handler = nullptr;

void on_abort(const char* message) {
    if (depth > 0) throw GgmlFailure(std::string("ggml: ") + message);
    if (previous_handler != nullptr) previous_handler(message);
}

void on_log(ggml_log_level level, const char* text, void*) {
    if (level == GGML_LOG_LEVEL_DEBUG || level == GGML_LOG_LEVEL_INFO || depth == 0) return;
    if (messages.size() < 4096) messages += text;
}

}  // namespace

Guard::Guard() {
    if (depth++ == 0) messages.clear();
}

Guard::~Guard() { --depth; }

std::string Guard::log() {
    std::string text = messages;
    while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
    return text;
}

void install_abort_handler() { previous_handler = ggml_set_abort_callback(on_abort); }

void install_log_handler() { ggml_log_set(on_log, nullptr); }

}  // namespace ggmlpy
