"""Typed access to ``model_config.yaml``: values by dotted path, with messages that name the path."""

from __future__ import annotations

import math
import re
import reprlib
from dataclasses import dataclass
from typing import Any

from asr.errors import ModelFormatError

# Whole-value references, as OmegaConf writes them: ${model_defaults.enc_hidden}
_REFERENCE = re.compile(r"\$\{([\w.]+)\}")


@dataclass(frozen=True, slots=True)
class YamlConfig:
    """A parsed configuration; ``label`` names the file in messages. A null value counts as left out."""

    root: dict[str, Any]
    label: str

    def get(self, path: str) -> Any:
        """The value at a dotted path, references followed; None when it is null or left out."""
        for _ in range(8):
            value = self._lookup(path)
            reference = _REFERENCE.fullmatch(value) if isinstance(value, str) else None
            if reference is None:
                return value
            # Configurations that were cut out of a training one still say "model." for their root.
            target = reference[1]
            path = target if self._lookup(target) is not None else target.removeprefix("model.")
        raise ModelFormatError(f"{self.label}: {path} refers to itself")

    def _lookup(self, path: str) -> Any:
        value: Any = self.root
        for part in path.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        return value

    def wrong(self, path: str, wanted: str) -> ModelFormatError:
        """The error for a value of the wrong kind."""
        return ModelFormatError(f"{self.label}: {path} is {self.shown(path)} where {wanted} should be")

    def shown(self, path: str) -> str:
        """The value for a message: short, whatever it is."""
        return reprlib.repr(self.get(path))

    def has(self, path: str) -> bool:
        """Whether the path is there, null or not."""
        parent, _, name = path.rpartition(".")
        node = self._lookup(parent)
        return isinstance(node, dict) and name in node

    def integer(self, path: str) -> int | None:
        """An integer (or a float or text that is one)."""
        number = self.number(path)
        if number is None:
            return None
        if not number.is_integer() or abs(number) > 2**31:
            raise self.wrong(path, "an integer")
        return int(number)

    def number(self, path: str) -> float | None:
        """A number; YAML 1.1 reads ``1e-5`` as text, so text that is a number is taken too."""
        value = self.get(path)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            raise self.wrong(path, "a number")
        try:
            number = float(value)
        except (ValueError, OverflowError):
            raise self.wrong(path, "a number") from None
        if not math.isfinite(number):
            raise self.wrong(path, "a finite number")
        return number

    def flag(self, path: str) -> bool | None:
        """true or false."""
        value = self.get(path)
        if value is not None and not isinstance(value, bool):
            raise self.wrong(path, "true or false")
        return value

    def text(self, path: str) -> str | None:
        """A text."""
        value = self.get(path)
        if value is not None and not isinstance(value, str):
            raise self.wrong(path, "a text")
        return value

    def integers(self, path: str) -> tuple[int, ...] | None:
        """A list of integers."""
        value = self.get(path)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(n, int) and abs(n) < 2**31 for n in value):
            raise self.wrong(path, "a list of integers")
        return tuple(int(n) for n in value)

    def class_name(self, path: str) -> str | None:
        """The last part of a Python class's path, such as ``ConformerEncoder``."""
        target = self.text(path)
        return None if target is None else target.rpartition(".")[2]


def parse_yaml_config(data: bytes, label: str) -> YamlConfig:
    """Parses a YAML mapping.

    :param label: names the file in messages.
    :raises ModelFormatError: no YAML, or no mapping.
    """
    import yaml

    # libyaml's parser is twenty times faster on a vocabulary of 8192 pieces, three times over.
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        root = yaml.load(data.decode("utf-8"), Loader=loader)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise ModelFormatError(f"{label} is no valid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(root, dict):
        raise ModelFormatError(f"{label} holds a {type(root).__name__} where a mapping should be")
    return YamlConfig(root, label)
