"""NeMo checkpoints (``.nemo``) to GGUF, without PyTorch or NeMo.

The steps, a module each: :mod:`.archive` opens the tar, :mod:`.nemo_config` reads what the model is,
:mod:`.torch_checkpoint` what tensors there are, :mod:`.tensors` checks them against each other and says how
each is stored, :mod:`.metadata` lists the key-value pairs, and :mod:`.writer` writes the file, reading one
tensor at a time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from asr.errors import ModelFormatError, OutputError

if TYPE_CHECKING:
    from asr.convert.archive import Archive
    from asr.convert.yaml_config import YamlConfig
    from asr.sentencepiece import Piece

__all__ = ["convert_nemo"]

_CONFIG_LIMIT = 64 << 20
_TOKENIZER_LIMIT = 64 << 20


def convert_nemo(
    source: Path | str,
    destination: Path | str,
    type: str = "f32",
    progress: Callable[[int, int], None] | None = None,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Converts a Parakeet-family NeMo checkpoint to a GGUF file.

    Peak memory is a few times the largest tensor. ``destination`` is written whole or not at all.

    :param type: of the matrices: ``f32``, ``f16`` or ``q8_0``; everything else stays float32.
    :param progress: called with the number of tensors written and their total.
    :param metadata: texts for ``general.*`` keys, such as ``{"general.license": "..."}``; ``general.name``
        is the source's name without its suffix unless given.
    :raises ModelNotFoundError: there is no such source.
    :raises ModelFormatError: the source is no ``.nemo`` file, is damaged, or is of a model that the engine
        has no code for; the message names what was found.
    :raises OutputError: ``destination`` cannot be written.
    :raises ValueError: ``type`` is none of the three, or ``metadata`` has a key that is not ``general.``.
    """
    from asr.convert.archive import open_archive
    from asr.convert.metadata import build_metadata
    from asr.convert.nemo_config import check_family, read_hyperparameters
    from asr.convert.tensors import FileType, plan_tensors
    from asr.convert.torch_checkpoint import open_checkpoint
    from asr.convert.writer import replacing, write_gguf
    from asr.convert.yaml_config import parse_yaml_config

    source, destination = Path(source), Path(destination)
    general = {"general.name": source.stem, **(metadata or {})}
    file_type: FileType | None = next((kind for kind in get_args(FileType) if kind == type), None)
    if file_type is None:
        raise ValueError(f"type {type!r} is none of {', '.join(get_args(FileType))}")
    for key in general:
        if not key.startswith("general.") or key == "general.architecture":
            raise ValueError(f"metadata key {key!r} is not a general.* key that can be chosen")
    try:
        same = os.path.samefile(source, destination)
    except FileNotFoundError:
        same = False
    except OSError as error:
        raise OutputError(f"{destination} cannot be written: {error.strerror or error}") from None
    if same:
        raise OutputError(f"{destination} is the source; choose another name for the GGUF file")

    with open_archive(source, destination.parent) as archive:
        label = archive.label
        config = parse_yaml_config(
            archive.read("model_config.yaml", _CONFIG_LIMIT), f"{label}: model_config.yaml"
        )
        check_family(config)
        with archive.open("model_weights.ckpt") as stream:
            checkpoint = open_checkpoint(stream, f"{label}: model_weights.ckpt")
            shapes = {name: view.shape for name, view in checkpoint.tensors.items()}
            model = read_hyperparameters(config, shapes)
            tokenizer, pieces = _read_tokenizer(archive, config, model.vocab_size)
            tensors = plan_tensors(model, shapes, file_type, label)
            entries = build_metadata(model, pieces, tokenizer, general, file_type)
            with replacing(destination) as temporary:
                write_gguf(temporary, entries, tensors, checkpoint.read, progress)


def _read_tokenizer(archive: Archive, config: YamlConfig, vocab_size: int) -> tuple[bytes, list[Piece]]:
    """The SentencePiece model's bytes and pieces, checked against the heads and the vocabulary lists."""
    from asr.sentencepiece import parse_sentencepiece

    kind = config.text("tokenizer.type")
    if kind is None or kind.lower() != "bpe":
        raise ModelFormatError(
            f"{config.label}: tokenizer.type is {kind!r}; only 'bpe' (one SentencePiece model) is supported"
        )
    if config.get("tokenizer.custom_tokenizer") is not None:
        raise ModelFormatError(f"{config.label}: tokenizer.custom_tokenizer is set; it is not supported")
    # "nemo:" marks a file of the archive; old versions wrote a path of the machine of training.
    path = config.text("tokenizer.model_path") or "tokenizer.model"
    name = path.removeprefix("nemo:")
    if name not in archive:
        named = [member for member in archive.names if member.endswith("tokenizer.model")]
        name = named[0] if len(named) == 1 and path == name else name
    data = archive.read(name, _TOKENIZER_LIMIT)
    pieces = parse_sentencepiece(data, f"{archive.label}: {name}")
    if len(pieces) != vocab_size:
        raise ModelFormatError(
            f"{archive.label}: {name} has {len(pieces)} pieces, but the model's heads have {vocab_size}"
        )
    for key in ("joint.vocabulary", "decoder.vocabulary", "aux_ctc.decoder.vocabulary"):
        vocabulary = config.get(key)
        if vocabulary is None:
            continue
        if not isinstance(vocabulary, list) or len(vocabulary) != vocab_size:
            raise config.wrong(key, f"a list of the tokenizer's {vocab_size} pieces")
        for index, (piece, text) in enumerate(zip(pieces, vocabulary, strict=True)):
            # YAML may have read an unquoted piece as a number or a truth value.
            if isinstance(text, str) and text != piece.text:
                raise ModelFormatError(
                    f"{config.label}: {key}[{index}] is {text!r}, but that piece of {name} is {piece.text!r}"
                )
    return data, pieces
