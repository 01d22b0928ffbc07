"""The modules of ``experiments/`` are imported by their own names, as scripts there import them."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "experiments"))
