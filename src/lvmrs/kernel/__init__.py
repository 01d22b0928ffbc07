"""The trusted kernel: what must be right for a certificate to follow from its scores. This folder is the list.

It imports nothing else of lvmrs but ``lvmrs.errors``.
"""

__all__: list[str] = []
