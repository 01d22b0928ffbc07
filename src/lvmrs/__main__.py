"""``python -m lvmrs`` is ``lvmrs``."""

from lvmrs.cli import main

__all__: list[str] = []

if __name__ == "__main__":
    main()
