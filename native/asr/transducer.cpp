#include "asr/transducer.h"

#include <algorithm>
#include <cmath>

#include "asr/confidence.h"
#include "ggml/guard.h"

namespace asr {

using ggmlpy::GgmlFailure;

TransducerDecoder::TransducerDecoder(std::shared_ptr<PersistentBackend> backend, TransducerGraphs graphs,
                                     TransducerRules rules)
    : backend_(std::move(backend)), graphs_(std::move(graphs)), rules_(std::move(rules)) {
    ggmlpy::Guard guard;
    check_computable(*graphs_.embed, backend_->handle()->get());
    check_computable(*graphs_.predict, backend_->handle()->get());
    check_computable(*graphs_.joint, backend_->handle()->get());
    joint_hidden_ = static_cast<std::size_t>(ggml_nelements(graphs_.encoder_frame.allocated()));
    logits_.resize(static_cast<std::size_t>(ggml_nelements(graphs_.logits.allocated())));
    n_tokens_ = static_cast<std::size_t>(rules_.blank) + 1;
    if (n_tokens_ + rules_.durations.size() != logits_.size()) {
        throw GgmlFailure("the joint has " + std::to_string(logits_.size()) +
                          " outputs, vocabulary, blank and durations are " +
                          std::to_string(n_tokens_ + rules_.durations.size()));
    }
    input_gates_.resize(n_tokens_);
    if (rules_.max_symbols < 1) throw GgmlFailure("max_symbols must be at least 1");
}

TransducerResult TransducerDecoder::decode(const float* frames, std::size_t n_frames,
                                           const pybind11::object& cancel) {
    TransducerResult result;
    backend_->exclusive(cancel, [&](Interrupt& interrupt) {
        ggmlpy::Guard guard;
        result = loop(frames, n_frames, interrupt);
    });
    return result;
}

// NeMo's label looping for one utterance (transducer_decoding/{rnnt,tdt}_label_looping.py). The prediction
// network runs only after a token; a blank with duration 0 moves on by one frame; after max_symbols tokens
// at one frame time moves on by one.
TransducerResult TransducerDecoder::loop(const float* frames, std::size_t n_frames, Interrupt& interrupt) {
    TransducerResult result;
    const ggml_tensor* logits = graphs_.logits.get();
    reset_state();
    predict(rules_.blank, interrupt);
    std::size_t t = 0;
    int symbols_at_frame = 0;
    while (t < n_frames) {
        ggml_backend_tensor_set(graphs_.encoder_frame.get(), frames + t * joint_hidden_, 0,
                                joint_hidden_ * sizeof(float));
        backend_->step(graphs_.joint->get(), interrupt);
        if (interrupt.stopped()) break;
        ggml_backend_tensor_get(logits, logits_.data(), 0, logits_.size() * sizeof(float));

        const auto token = static_cast<std::int32_t>(argmax(logits_.data(), n_tokens_));
        // All of them: a class that is never chosen since its weights are damaged is damage too.
        if (!std::all_of(logits_.begin(), logits_.end(), [](float v) { return std::isfinite(v); })) {
            result.finite = false;
            break;
        }
        std::int32_t duration = 0;
        if (!rules_.durations.empty()) {
            duration = rules_.durations[argmax(logits_.data() + n_tokens_, rules_.durations.size())];
        }
        if (token == rules_.blank) {
            t += static_cast<std::size_t>(std::max(duration, 1));
            symbols_at_frame = 0;
            continue;
        }
        result.ids.push_back(token);
        result.frames.push_back(static_cast<std::int32_t>(t));
        result.durations.push_back(rules_.durations.empty() ? 1 : duration);
        result.confidence.push_back(tsallis_confidence(logits_.data(), n_tokens_));
        predict(token, interrupt);
        if (interrupt.stopped()) break;

        ++symbols_at_frame;
        if (duration == 0 && symbols_at_frame >= rules_.max_symbols) duration = 1;
        if (duration > 0) symbols_at_frame = 0;
        t += static_cast<std::size_t>(duration);
    }
    return result;
}

void TransducerDecoder::predict(std::int32_t token, Interrupt& interrupt) {
    embed(token, interrupt);
    if (!interrupt.stopped()) backend_->step(graphs_.predict->get(), interrupt);
}

void TransducerDecoder::embed(std::int32_t token, Interrupt& interrupt) {
    ggml_tensor* gates = graphs_.input_gates.get();
    std::vector<float>& known = input_gates_[static_cast<std::size_t>(token)];
    if (!known.empty()) {
        ggml_backend_tensor_set(gates, known.data(), 0, ggml_nbytes(gates));
        return;
    }
    ggml_backend_tensor_set(graphs_.token.get(), &token, 0, sizeof token);
    backend_->step(graphs_.embed->get(), interrupt);
    if (interrupt.stopped()) return;
    known.resize(static_cast<std::size_t>(ggml_nelements(gates)));
    ggml_backend_tensor_get(gates, known.data(), 0, ggml_nbytes(gates));
}

void TransducerDecoder::reset_state() {
    for (const ggmlpy::Tensor& s : graphs_.state)
        ggml_backend_tensor_memset(s.get(), 0, 0, ggml_nbytes(s.get()));
}

}  // namespace asr
