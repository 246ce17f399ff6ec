"""What a Parakeet model is, as plain numbers: read from a NeMo configuration or from a GGUF file."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Preprocessor:
    """NeMo's ``AudioToMelSpectrogramPreprocessor``; lengths are in samples."""

    sample_rate: int
    n_mels: int
    n_fft: int
    win_length: int
    hop_length: int
    preemph: float
    mag_power: float
    log_zero_guard: float
    normalize: str  # "per_feature" or "NA"


@dataclass(frozen=True, slots=True)
class Encoder:
    """NeMo's ``ConformerEncoder`` with ``dw_striding`` subsampling."""

    feat_in: int
    d_model: int
    n_layers: int
    n_heads: int
    ff_dim: int
    conv_kernel: int
    conv_context: tuple[int, int]  # frames left and right of the depthwise convolution's centre
    conv_norm_type: str  # "batch_norm" or "layer_norm"
    subsampling_factor: int
    subsampling_conv_channels: int
    causal_downsampling: bool
    pos_emb_max_len: int
    xscaling: bool
    use_bias: bool
    self_attention_model: str  # "rel_pos" or "rel_pos_local_attn"
    att_contexts: tuple[
        tuple[int, int], ...
    ]  # (left, right) in encoder frames, -1 without limit; default first
    att_context_style: str  # "regular" or "chunked_limited"

    @property
    def subsampled_features(self) -> int:
        """Mel bins that are left after the three strided convolutions."""
        padding = 3 if self.causal_downsampling else 2
        bins = self.feat_in
        for _ in range(3):
            bins = (bins + padding - 3) // 2 + 1
        return bins


@dataclass(frozen=True, slots=True)
class Transducer:
    """NeMo's ``RNNTDecoder`` and ``RNNTJoint``; ``durations`` is empty for an RNN-T."""

    pred_hidden: int
    pred_rnn_layers: int
    joint_hidden: int
    activation: str
    joint_out: str  # the joint's last layer, "joint.joint_net.2" (".1" when it was trained without dropout)
    max_symbols: int
    durations: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    """A whole model; ``ctc_head`` is the tensor prefix of the CTC head, or None."""

    preprocessor: Preprocessor
    encoder: Encoder
    transducer: Transducer | None
    ctc_head: str | None
    vocab_size: int  # without the blank, whose id this is

    @property
    def arch(self) -> str:
        """The value of ``parakeet.arch``."""
        if self.transducer is None:
            return "ctc"
        kind = "tdt" if self.transducer.durations else "rnnt"
        return f"hybrid_{kind}_ctc" if self.ctc_head else kind
