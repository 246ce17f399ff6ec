"""From ``model_config.yaml`` and the shapes of the tensors to :class:`Hyperparameters`.

A value that the configuration leaves out is taken from the tensors where they show it, else it is NeMo's
default (NeMo 2.7.3, the constructors of ``ConformerEncoder``, ``FilterbankFeatures``, ``RNNTDecoder`` and
``RNNTJoint``). An option that the engine has no code for is refused by its name: a transcript from a model
computed in another way would be wrong without a sign of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from asr.convert.yaml_config import YamlConfig
from asr.errors import ModelFormatError
from asr.hyperparameters import Encoder, Hyperparameters, Preprocessor, Transducer

Shapes = Mapping[str, tuple[int, ...]]

_CLASSES = ("EncDecCTCModelBPE", "EncDecRNNTBPEModel", "EncDecHybridRNNTCTCBPEModel")
_LAYER0 = "encoder.layers.0."


def check_family(config: YamlConfig) -> None:
    """Raises unless the configuration is of a model class that the engine runs.

    :raises ModelFormatError: naming the class that was found.
    """
    name = config.class_name("target")
    if name in _CLASSES:
        return
    found = "no model class (no 'target')" if name is None else f"the model class {name}"
    reason = "; models that take a language prompt are not supported" if name and "Prompt" in name else ""
    raise ModelFormatError(
        f"{config.label} names {found}; the Parakeet family is {', '.join(_CLASSES)}{reason}"
    )


def read_hyperparameters(config: YamlConfig, shapes: Shapes) -> Hyperparameters:
    """Everything that the model's computation depends on.

    :param shapes: of the checkpoint's tensors by name, as stored (a CTC head is still [V + 1, d_model, 1]).
    :raises ModelFormatError: not of the family, an option without code, or a value that is neither in the
        configuration nor in the tensors.
    """
    check_family(config)
    name = config.class_name("target")
    preprocessor = _preprocessor(config, shapes)
    encoder = _encoder(config, shapes, preprocessor)
    if any(key.startswith("prompt_kernel.") for key in shapes):
        raise ModelFormatError(f"{config.label}: models that take a language prompt are not supported")
    ctc_head = None
    if name == "EncDecCTCModelBPE":
        ctc_head, head = "decoder.decoder_layers.0", "decoder"
    elif name == "EncDecHybridRNNTCTCBPEModel":
        ctc_head, head = "ctc_decoder.decoder_layers.0", "aux_ctc.decoder"
    if ctc_head is not None:
        _only(config, f"{head}._target_", "ConvASRDecoder", config.class_name(f"{head}._target_"))
    if name == "EncDecCTCModelBPE":
        rows = _rows(shapes, f"{ctc_head}.weight", config)
        return Hyperparameters(preprocessor, encoder, None, ctc_head, rows - 1)
    vocab_size = _rows(shapes, "decoder.prediction.embed.weight", config) - 1
    transducer = _transducer(config, shapes, vocab_size)
    return Hyperparameters(preprocessor, encoder, transducer, ctc_head, vocab_size)


def _only(config: YamlConfig, path: str, wanted: object, found: object, default: object = None) -> None:
    """Refuses an option whose value is neither the one that there is code for, nor left out."""
    if found is None:
        found = default
    if found is not None and found != wanted:
        raise ModelFormatError(f"{config.label}: {path} is {found!r}; only {wanted!r} is supported")


def _one_of(config: YamlConfig, path: str, allowed: tuple[str, ...], default: str) -> str:
    found = config.text(path) or default
    if found not in allowed:
        raise ModelFormatError(
            f"{config.label}: {path} is {found!r}; only {' and '.join(allowed)} are supported"
        )
    return found


def _positive(config: YamlConfig, path: str, value: int | None) -> int:
    if value is None:
        raise ModelFormatError(f"{config.label}: {path} is left out and no tensor shows it")
    if value <= 0:
        raise config.wrong(path, "a positive integer")
    return value


def _rows(shapes: Shapes, name: str, config: YamlConfig) -> int:
    if not shapes.get(name):
        raise ModelFormatError(f"the checkpoint of {config.label} has no tensor {name}")
    return shapes[name][0]


def _probe(shapes: Shapes, name: str, axis: int) -> int | None:
    shape = shapes.get(name, ())
    return shape[axis] if -len(shape) <= axis < len(shape) else None


def _preprocessor(config: YamlConfig, shapes: Shapes) -> Preprocessor:
    """NeMo: ``modules/audio_preprocessing.py`` and ``parts/preprocessing/features.py``."""
    at = "preprocessor."
    _only(config, at + "_target_", "AudioToMelSpectrogramPreprocessor", config.class_name(at + "_target_"))
    sample_rate = _positive(config, at + "sample_rate", config.integer(at + "sample_rate") or 16000)
    win_length = _samples(config, at + "window_size", at + "n_window_size", sample_rate, 0.02)
    hop_length = _samples(config, at + "window_stride", at + "n_window_stride", sample_rate, 0.01)
    n_fft = config.integer(at + "n_fft") or 2 ** math.ceil(math.log2(win_length))
    if n_fft < win_length or n_fft & (n_fft - 1):
        raise config.wrong(at + "n_fft", f"a power of two, at least the window's {win_length} samples,")
    _only(config, at + "window", "hann", config.text(at + "window"))
    _only(config, at + "log", True, config.flag(at + "log"))
    _only(config, at + "log_zero_guard_type", "add", config.text(at + "log_zero_guard_type"))
    _only(config, at + "mag_power", 2.0, config.number(at + "mag_power"))
    _only(config, at + "frame_splicing", 1, config.integer(at + "frame_splicing"))
    _only(config, at + "exact_pad", False, config.flag(at + "exact_pad"))
    _only(config, at + "pad_value", 0.0, config.number(at + "pad_value"))
    normalize = config.get(at + "normalize")
    if not config.has(at + "normalize"):
        normalize = "per_feature"
    if normalize not in ("per_feature", "NA", "none", "None", None, False):
        raise ModelFormatError(
            f"{config.label}: {at}normalize is {config.shown(at + 'normalize')}; "
            "only 'per_feature' and 'NA' are supported"
        )
    preemph = config.number(at + "preemph")
    if preemph is None:
        # null switches it off; left out, it is NeMo's default
        preemph = 0.0 if config.has(at + "preemph") else 0.97
    n_mels = config.integer(at + "features") or _probe(shapes, "preprocessor.featurizer.fb", 1)
    return Preprocessor(
        sample_rate=sample_rate,
        n_mels=_positive(config, at + "features", n_mels),
        n_fft=n_fft,
        win_length=win_length,
        hop_length=hop_length,
        preemph=preemph,
        mag_power=2.0,
        log_zero_guard=_log_zero_guard(config, at + "log_zero_guard_value"),
        normalize="per_feature" if normalize == "per_feature" else "NA",
    )


def _samples(config: YamlConfig, seconds: str, samples: str, sample_rate: int, default: float) -> int:
    """A length that NeMo takes in seconds or in samples; truncated as NeMo does."""
    count = config.integer(samples)
    if not count:
        length = config.number(seconds)
        count = int((default if length is None else length) * sample_rate)
    if not 0 < count <= 1 << 16:
        raise config.wrong(seconds, "a length of at least one sample and at most 65536")
    return count


def _log_zero_guard(config: YamlConfig, path: str) -> float:
    named = {"tiny": 2.0**-126, "eps": 2.0**-23}
    value = config.get(path)
    if isinstance(value, str) and value in named:
        return named[value]
    number = config.number(path)
    if number is not None and number < 0:
        raise config.wrong(path, "a number that is not negative")
    return 2.0**-24 if number is None else number


def _encoder(config: YamlConfig, shapes: Shapes, preprocessor: Preprocessor) -> Encoder:
    """NeMo: ``modules/conformer_encoder.py``."""
    at = "encoder."
    _only(config, at + "_target_", "ConformerEncoder", config.class_name(at + "_target_"))
    _only(config, at + "subsampling", "dw_striding", config.text(at + "subsampling"), "striding")
    _only(config, at + "subsampling_factor", 8, config.integer(at + "subsampling_factor"), 4)
    if config.get(at + "reduction") and (config.integer(at + "reduction_factor") or 1) > 1:
        raise ModelFormatError(
            f"{config.label}: {at}reduction is {config.shown(at + 'reduction')}; not supported"
        )
    _only(config, at + "global_tokens", 0, config.integer(at + "global_tokens"))
    d_model = config.integer(at + "d_model") or _probe(shapes, _LAYER0 + "norm_out.weight", 0)
    d_model = _positive(config, at + "d_model", d_model)
    feat_out = config.integer(at + "feat_out") or -1
    if feat_out > 0 and feat_out != d_model:
        raise ModelFormatError(
            f"{config.label}: {at}feat_out is {feat_out}; an output projection to another width than "
            f"{at}d_model ({d_model}) is not supported"
        )
    n_heads = config.integer(at + "n_heads") or _probe(shapes, _LAYER0 + "self_attn.pos_bias_u", 0)
    n_heads = _positive(config, at + "n_heads", n_heads)
    if d_model % n_heads or d_model % 2:
        raise ModelFormatError(
            f"{config.label}: {at}d_model {d_model} cannot be divided among {n_heads} heads"
        )
    feat_in = _positive(config, at + "feat_in", config.integer(at + "feat_in") or preprocessor.n_mels)
    if feat_in != preprocessor.n_mels:
        raise ModelFormatError(
            f"{config.label}: {at}feat_in is {feat_in}, but preprocessor.features is {preprocessor.n_mels}"
        )
    channels = config.integer(at + "subsampling_conv_channels")
    if channels is None or channels == -1:
        channels = _probe(shapes, "encoder.pre_encode.conv.0.weight", 0) or d_model
    expansion = config.integer(at + "ff_expansion_factor")
    ff_dim = d_model * expansion if expansion else _probe(shapes, _LAYER0 + "feed_forward1.linear1.weight", 0)
    kernel = config.integer(at + "conv_kernel_size") or _probe(
        shapes, _LAYER0 + "conv.depthwise_conv.weight", 2
    )
    kernel = _positive(config, at + "conv_kernel_size", kernel)
    use_bias = config.flag(at + "use_bias")
    if use_bias is None:
        use_bias = _LAYER0 + "feed_forward1.linear1.bias" in shapes
    attention = _one_of(config, at + "self_attention_model", ("rel_pos", "rel_pos_local_attn"), "rel_pos")
    if attention == "rel_pos_local_attn" and (config.integer(at + "global_tokens") or 0) > 0:
        raise ModelFormatError(
            f"{config.label}: {at}global_tokens is {config.get(at + 'global_tokens')}; local attention with "
            "global tokens is not supported"
        )
    style = _one_of(config, at + "att_context_style", ("regular", "chunked_limited"), "regular")
    n_layers = _positive(config, at + "n_layers", config.integer(at + "n_layers") or _count_layers(shapes))
    if n_layers > 1000:
        raise config.wrong(at + "n_layers", "at most 1000")
    return Encoder(
        feat_in=feat_in,
        d_model=d_model,
        n_layers=n_layers,
        n_heads=n_heads,
        ff_dim=_positive(config, at + "ff_expansion_factor", ff_dim),
        conv_kernel=kernel,
        conv_context=_conv_context(config, at + "conv_context_size", kernel),
        conv_norm_type=_one_of(config, at + "conv_norm_type", ("batch_norm", "layer_norm"), "batch_norm"),
        subsampling_factor=8,
        subsampling_conv_channels=_positive(config, at + "subsampling_conv_channels", channels),
        causal_downsampling=config.flag(at + "causal_downsampling") or False,
        pos_emb_max_len=_positive(
            config, at + "pos_emb_max_len", config.integer(at + "pos_emb_max_len") or 5000
        ),
        xscaling=config.flag(at + "xscaling") is not False,
        use_bias=use_bias,
        self_attention_model=attention,
        att_contexts=_att_contexts(config, at + "att_context_size", style, attention),
        att_context_style=style,
    )


def _count_layers(shapes: Shapes) -> int:
    count = 0
    while f"encoder.layers.{count}.norm_out.weight" in shapes:
        count += 1
    return count


def _conv_context(config: YamlConfig, path: str, kernel: int) -> tuple[int, int]:
    """``ConformerEncoder._calc_context_sizes``: null, "causal", or [left, right] that fill the kernel."""
    if kernel % 2 == 0:
        raise config.wrong("encoder.conv_kernel_size", "an odd number")
    value = config.get(path)
    if value is None:
        return (kernel - 1) // 2, (kernel - 1) // 2
    if value == "causal":
        return kernel - 1, 0
    sizes = config.integers(path)
    if sizes is None or len(sizes) != 2 or min(sizes) < 0 or sum(sizes) != kernel - 1:
        raise config.wrong(path, f"'causal' or two numbers with the sum {kernel - 1}")
    return sizes[0], sizes[1]


def _att_contexts(config: YamlConfig, path: str, style: str, attention: str) -> tuple[tuple[int, int], ...]:
    """One pair, or several presets of which the first is the default."""
    value = config.get(path)
    rows = value or [[-1, -1]]
    if isinstance(rows, list) and isinstance(rows[0], int):
        rows = [rows]
    contexts = []
    for row in rows if isinstance(rows, list) else [None]:
        if (
            not isinstance(row, list)
            or len(row) != 2
            or not all(isinstance(n, int) and -1 <= n < 2**31 for n in row)
        ):
            raise config.wrong(path, "a pair of integers, or a list of pairs,")
        left, right = row
        if style == "chunked_limited" and (right < 0 or (left > 0 and left % (right + 1))):
            raise ModelFormatError(
                f"{config.label}: {path} has [{left}, {right}]; with att_context_style chunked_limited the "
                "right context is limited and the left one a multiple of the chunk (right + 1)"
            )
        if attention == "rel_pos_local_attn" and (min(left, right) < 0 or max(left, right) == 0):
            raise ModelFormatError(
                f"{config.label}: {path} is [{left}, {right}]; local attention needs a window"
            )
        contexts.append((int(left), int(right)))
    return tuple(contexts)


def _transducer(config: YamlConfig, shapes: Shapes, vocab_size: int) -> Transducer:
    """NeMo: ``modules/rnnt.py``. Sizes come from the tensors: some published files leave them empty."""
    _only(config, "decoder._target_", "RNNTDecoder", config.class_name("decoder._target_"))
    _only(config, "joint._target_", "RNNTJoint", config.class_name("joint._target_"))
    _only(config, "decoder.blank_as_pad", True, config.flag("decoder.blank_as_pad"))
    if config.get("decoder.normalization_mode") is not None:
        raise ModelFormatError(f"{config.label}: decoder.normalization_mode is set; it is not supported")
    activation = _one_of(config, "joint.jointnet.activation", ("relu",), "relu")
    lstm = "decoder.prediction.dec_rnn.lstm.weight_hh_l"
    layers = 0
    while f"{lstm}{layers}" in shapes:
        layers += 1
    # Without dropout NeMo's Sequential is one module shorter.
    joint_out = "joint.joint_net.1" if "joint.joint_net.1.weight" in shapes else "joint.joint_net.2"
    outputs = _rows(shapes, f"{joint_out}.weight", config)
    max_symbols = config.integer("decoding.greedy.max_symbols")
    max_symbols = max_symbols or config.integer("decoding.greedy.max_symbols_per_step") or 10
    pred_hidden = _probe(shapes, "decoder.prediction.embed.weight", 1)
    return Transducer(
        pred_hidden=_positive(config, "decoder.prednet.pred_hidden", pred_hidden),
        pred_rnn_layers=_positive(config, "decoder.prednet.pred_rnn_layers", layers or None),
        joint_hidden=_rows(shapes, "joint.enc.weight", config),
        activation=activation,
        joint_out=joint_out,
        max_symbols=_positive(config, "decoding.greedy.max_symbols", max_symbols),
        durations=_durations(config, outputs - vocab_size - 1, outputs, vocab_size),
    )


def _durations(config: YamlConfig, extra: int, outputs: int, vocab_size: int) -> tuple[int, ...]:
    """The TDT durations: as many as the joint has outputs after the blank."""
    if config.get("decoding.big_blank_durations"):
        raise ModelFormatError(
            f"{config.label}: decoding.big_blank_durations is set; multi-blank is not supported"
        )
    decoding = config.integers("decoding.durations") or ()
    if extra == 0 and not decoding:
        return ()
    training = config.integers("loss.tdt_kwargs.durations") or config.integers("model_defaults.tdt_durations")
    durations = decoding or training or ()
    if len(durations) != extra or not durations or min(durations) < 0 or max(durations) == 0:
        raise ModelFormatError(
            f"{config.label}: the joint has {outputs} outputs, {extra} more than {vocab_size} pieces and the "
            f"blank, which the TDT durations {list(durations)} do not explain"
        )
    return durations
