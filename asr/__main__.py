"""``python -m asr`` is ``asr``."""

import sys

from asr.cli import main

sys.exit(main())
