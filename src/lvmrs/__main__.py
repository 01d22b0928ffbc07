"""``python -m lvmrs`` is ``lvmrs``."""

from lvmrs.cli import main

main()
