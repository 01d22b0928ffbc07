"""Inputs as small pictures within a page."""

from __future__ import annotations

import base64
import io

import numpy as np
from numpy.typing import NDArray

from lvmrs._extras import optional
from lvmrs.errors import DataError

__all__ = ["picture"]

_SIDE = 64


def picture(x: NDArray[np.float32]) -> str | None:
    """A data address for channels × height × width in [0, 1]; None for what is no image.

    Small images are kept to the pixel; larger ones become thumbnails, so that hundreds of them fit into a page.
    """
    if x.ndim != 3 or x.shape[0] not in (1, 3):
        return None
    images = optional("PIL.Image", extra="images", error=DataError)
    pixels = np.round(np.clip(x, 0, 1) * 255).astype(np.uint8)
    image = images.fromarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0))
    exact = max(image.size) <= _SIDE
    if not exact:
        image.thumbnail((_SIDE, _SIDE))
    buffer = io.BytesIO()
    image.save(buffer, format="PNG" if exact else "JPEG", **({"optimize": True} if exact else {"quality": 80}))
    kind = "png" if exact else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode()}"
