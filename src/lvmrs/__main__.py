"""``python -m lvmrs`` is ``lvmrs``."""

import sys

__all__: list[str] = []

if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]  # the working directory, which -m puts there: what lies in it must not be imported

    from lvmrs.cli import main

    main()
