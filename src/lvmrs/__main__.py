"""Where ``lvmrs`` and ``python -m lvmrs`` begin: signals are taken before anything that needs time is imported."""

import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[0]  # the working directory, which -m puts there: what lies in it must not be imported

import os

from lvmrs._util import signals


def main() -> None:
    """Run the command line."""
    signals.listen()
    _open_closed_descriptors()
    from lvmrs import cli

    cli.main()


def _open_closed_descriptors() -> None:
    """Without this, a file of a run could take the place of a closed stdout, and be printed into."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115


if __name__ == "__main__":
    main()
