"""The trusted kernel: all code that must be right for a certificate to follow from its scores.

Of lvmrs, the kernel imports only itself and ``lvmrs.errors``.
"""

__all__: list[str] = []
