// Greedy RNN-T and TDT decoding: a loop over three small graphs that are built once.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "asr/backend.h"

namespace asr {

// The graphs and the tensors through which the loop talks to them; all have memory.
struct TransducerGraphs {
    std::shared_ptr<ggmlpy::Graph> embed;    // token -> input_gates
    std::shared_ptr<ggmlpy::Graph> predict;  // input_gates, state -> new state (in place), prediction
    std::shared_ptr<ggmlpy::Graph> joint;    // encoder_frame, projected prediction -> logits
    ggmlpy::Tensor token;                    // int32 [1]
    ggmlpy::Tensor input_gates;              // float32: the token's share of the first LSTM layer's gates
    ggmlpy::Tensor encoder_frame;            // float32 [joint_hidden]
    ggmlpy::Tensor logits;                   // float32 [vocabulary + 1 (+ durations)]
    std::vector<ggmlpy::Tensor> state;       // LSTM h and c of each layer
};

struct TransducerRules {
    std::int32_t blank;                   // last token class; also the start-of-sequence input
    std::vector<std::int32_t> durations;  // TDT's, in frames; empty for RNN-T
    std::int32_t max_symbols;             // tokens at one frame before time is moved on
};

struct TransducerResult {
    std::vector<std::int32_t> ids;
    std::vector<std::int32_t> frames;
    std::vector<std::int32_t> durations;
    std::vector<float> confidence;
    bool finite = true;  // false: decoding stopped at an output that is no number
};

class TransducerDecoder {
  public:
    TransducerDecoder(std::shared_ptr<PersistentBackend> backend, TransducerGraphs graphs,
                      TransducerRules rules);
    // `frames`: [n_frames][joint_hidden], the encoder's half of the joint. Starts from the start of sequence.
    TransducerResult decode(const float* frames, std::size_t n_frames, const pybind11::object& cancel);
    std::size_t joint_hidden() const { return joint_hidden_; }

  private:
    TransducerResult loop(const float* frames, std::size_t n_frames, Interrupt& interrupt);
    void predict(std::int32_t token, Interrupt& interrupt);
    void embed(std::int32_t token, Interrupt& interrupt);
    void reset_state();

    std::shared_ptr<PersistentBackend> backend_;
    TransducerGraphs graphs_;
    TransducerRules rules_;
    std::size_t joint_hidden_;
    std::size_t n_tokens_;  // classes that are tokens or blank
    std::vector<float> logits_;
    // What `embed` gave for each token so far. Only the tokens of a text are kept: a table of all would take
    // as long as a clip to make, and as much memory as a large layer.
    std::vector<std::vector<float>> input_gates_;
};

}  // namespace asr
