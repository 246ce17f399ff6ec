// The extension module asr._core.

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <stdexcept>

#include "asr/backend.h"
#include "asr/ctc.h"
#include "asr/log_mel.h"
#include "asr/operators.h"
#include "asr/transducer.h"
#include "ggml/bind.h"

namespace py = pybind11;

namespace {

using asr::LogMel;
using asr::PersistentBackend;
using asr::TransducerDecoder;
using FloatArray = py::array_t<float, py::array::c_style>;

template <typename T>
py::array_t<T> to_array(const std::vector<T>& values) {
    return py::array_t<T>(static_cast<py::ssize_t>(values.size()), values.data());
}

template <typename Result>
py::tuple hypothesis(const Result& r) {
    return py::make_tuple(to_array(r.ids), to_array(r.frames), to_array(r.durations), to_array(r.confidence));
}

void require_matrix(const FloatArray& array, const char* what) {
    if (array.ndim() != 2) throw py::value_error(std::string(what) + " must be a float32 matrix");
}

py::tuple decode_transducer(TransducerDecoder& decoder, const FloatArray& frames, const py::object& cancel) {
    require_matrix(frames, "the encoder's projected frames");
    if (static_cast<std::size_t>(frames.shape(1)) != decoder.joint_hidden()) {
        throw py::value_error("frames have " + std::to_string(frames.shape(1)) +
                              " columns, the joint takes " + std::to_string(decoder.joint_hidden()));
    }
    const auto result = decoder.decode(frames.data(), static_cast<std::size_t>(frames.shape(0)), cancel);
    return py::make_tuple(hypothesis(result), result.finite);
}

py::tuple decode_ctc(const FloatArray& logits, int blank) {
    require_matrix(logits, "the CTC logits");
    if (blank < 0 || blank >= logits.shape(1)) throw py::value_error("blank is not a class of the logits");
    const auto result = [&] {
        const ggmlpy::GilRelease release;
        return asr::ctc_greedy(logits.data(), static_cast<std::size_t>(logits.shape(0)),
                               static_cast<std::size_t>(logits.shape(1)), blank);
    }();
    return hypothesis(result);
}

FloatArray log_mel(const LogMel& mel, int n_mels, const FloatArray& samples, int n_threads) {
    if (samples.ndim() != 1) throw py::value_error("samples must be a float32 vector");
    const auto n = static_cast<std::size_t>(samples.shape(0));
    FloatArray out({static_cast<py::ssize_t>(mel.n_frames(n)), static_cast<py::ssize_t>(n_mels)});
    const float* from = samples.data();
    float* to = out.mutable_data();
    const ggmlpy::GilRelease release;
    mel.compute(from, n, to, n_threads);
    return out;
}

// LogMel with its number of bands, which shapes the result.
struct Features {
    LogMel mel;
    int n_mels;
};

FloatArray log_mel_rows(const Features& f, const FloatArray& samples, std::size_t begin, std::size_t first,
                        std::size_t count, int n_threads) {
    if (samples.ndim() != 1) throw py::value_error("samples must be a float32 vector");
    const LogMel::Part part{samples.data(), begin, static_cast<std::size_t>(samples.shape(0))};
    if (count > f.mel.n_frames(begin + part.n) || first > f.mel.n_frames(begin + part.n) - count) {
        throw py::value_error("the samples end before the last of the frames asked for");
    }
    if (!f.mel.reaches_back_to(part, first)) {
        throw py::value_error("the samples begin after those that the first frame looks at");
    }
    FloatArray out({static_cast<py::ssize_t>(count), static_cast<py::ssize_t>(f.n_mels)});
    float* to = out.mutable_data();
    const ggmlpy::GilRelease release;
    f.mel.rows(part, first, count, to, n_threads);
    return out;
}

void normalise(const Features& f, FloatArray rows, int n_threads) {
    require_matrix(rows, "the log-mel rows");
    if (rows.shape(1) != f.n_mels) throw py::value_error("the rows do not have as many values as mel bins");
    float* values = rows.mutable_data();
    const auto n_frames = static_cast<std::size_t>(rows.shape(0));
    const ggmlpy::GilRelease release;
    f.mel.normalise(values, n_frames, n_threads);
}

}  // namespace

template <>
inline constexpr bool ggmlpy::is_handle<PersistentBackend> = true;
template <>
inline constexpr bool ggmlpy::is_handle<TransducerDecoder> = true;
template <>
inline constexpr bool ggmlpy::is_handle<Features> = true;

PYBIND11_MODULE(_core, m) {
    m.doc() = "The C++ core of asr: persistent backend, log-mel, decoding loops.";
    py::module_::import("ggml._core");  // registers the handle types
    ggmlpy::watch_interpreter_exit();
    ggmlpy::install_abort_handler();
    ggmlpy::register_failure();
    py::register_local_exception_translator([](std::exception_ptr p) {
        try {
            if (p) std::rethrow_exception(p);
        } catch (const ggmlpy::Cancelled&) {
            const auto type = py::module_::import("asr.errors").attr("Cancelled");
            PyErr_SetString(type.ptr(), "the transcription was cancelled");
        }
    });

    py::class_<PersistentBackend, std::shared_ptr<PersistentBackend>>(m, "PersistentBackend")
        .def(py::init<std::shared_ptr<ggmlpy::Backend>, std::size_t>(), py::arg("backend"),
             py::arg("max_nodes"))
        .def_property_readonly("handle", &PersistentBackend::handle)
        .def_property_readonly("graphs_run", &PersistentBackend::graphs_run)
        .def_property_readonly("compute_buffer_size", &PersistentBackend::compute_buffer_size)
        .def_property_readonly("compute_buffer_address", &PersistentBackend::compute_buffer_address)
        .def("begin", &PersistentBackend::begin)
        .def("allocate", &PersistentBackend::allocate, py::arg("outputs"))
        .def("run", &PersistentBackend::run, py::arg("cancel") = py::none())
        .def("cancel", &PersistentBackend::cancel);

    py::class_<TransducerDecoder>(m, "TransducerDecoder")
        .def(py::init([](std::shared_ptr<PersistentBackend> backend, std::shared_ptr<ggmlpy::Graph> embed,
                         std::shared_ptr<ggmlpy::Graph> predict, std::shared_ptr<ggmlpy::Graph> joint,
                         const ggmlpy::Tensor& token, const ggmlpy::Tensor& input_gates,
                         const ggmlpy::Tensor& encoder_frame, const ggmlpy::Tensor& logits,
                         std::vector<ggmlpy::Tensor> state, int blank, std::vector<std::int32_t> durations,
                         int max_symbols) {
                 asr::TransducerGraphs graphs{
                     std::move(embed), std::move(predict), std::move(joint), token,
                     input_gates,      encoder_frame,      logits,           std::move(state)};
                 asr::TransducerRules rules{blank, std::move(durations), max_symbols};
                 return std::make_unique<TransducerDecoder>(std::move(backend), std::move(graphs),
                                                            std::move(rules));
             }),
             py::kw_only(), py::arg("backend"), py::arg("embed"), py::arg("predict"), py::arg("joint"),
             py::arg("token"), py::arg("input_gates"), py::arg("encoder_frame"), py::arg("logits"),
             py::arg("state"), py::arg("blank"), py::arg("durations"), py::arg("max_symbols"))
        .def("decode", decode_transducer, py::arg("frames"), py::arg("cancel") = py::none(),
             "[T, joint_hidden] -> (ids, frames, durations, confidence), whether all was finite");

    py::class_<Features>(m, "LogMel")
        .def(py::init([](int n_fft, int win_length, int hop_length, int n_mels, float preemph,
                         float log_zero_guard, bool per_feature, std::vector<float> window,
                         std::vector<float> filterbank) {
                 const asr::LogMelConfig config{n_fft,   win_length,     hop_length, n_mels,
                                                preemph, log_zero_guard, per_feature};
                 return std::make_unique<Features>(
                     Features{LogMel(config, std::move(window), std::move(filterbank)), n_mels});
             }),
             py::kw_only(), py::arg("n_fft"), py::arg("win_length"), py::arg("hop_length"), py::arg("n_mels"),
             py::arg("preemph"), py::arg("log_zero_guard"), py::arg("per_feature"), py::arg("window"),
             py::arg("filterbank"))
        .def(
            "compute",
            [](const Features& f, const FloatArray& samples, int n_threads) {
                return log_mel(f.mel, f.n_mels, samples, n_threads);
            },
            py::arg("samples"), py::arg("n_threads") = 1, "[n] -> [n // hop_length, n_mels]")
        .def("rows", log_mel_rows, py::arg("samples"), py::arg("begin"), py::arg("first"), py::arg("count"),
             py::arg("n_threads") = 1, "Frames of a signal, not normalised, from its samples `begin` and on")
        .def("normalise", normalise, py::arg("rows").noconvert(), py::arg("n_threads") = 1,
             "In place, over all rows");

    asr::bind_linear_operators(m);
    asr::bind_attention_operator(m);
    asr::bind_convolution_operators(m);
    m.def("ctc_greedy", decode_ctc, py::arg("logits"), py::arg("blank"),
          "[T, classes] -> ids, frames, durations, confidence");
}
