"""``python -m asr.cli``: the same as the command ``asr``."""

from __future__ import annotations

import sys

from asr.cli import main

if __name__ == "__main__":
    sys.exit(main())
