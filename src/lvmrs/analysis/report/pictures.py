"""Makes small pictures of inputs for a report."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lvmrs._util.text import optional
from lvmrs.errors import DataError, LvmrsError
from lvmrs.kernel import checks
from lvmrs.record import Run
from lvmrs.record.manifest import why_not_data

Picture = Callable[[int], str | None]
"""Returns the picture of an input, by its index; None if there is none."""
_SIDE = 64


class Pictures(NamedTuple):
    """Pictures of the inputs of a run."""

    of: Picture = lambda index: None
    why_none: str | None = None
    """Why there are no pictures, if some were expected."""


def pictures_of(run: Run, name: str | None = None, class_index: Path | None = None) -> Pictures:
    """Pictures of the inputs of a run, if its data can be read and are unchanged.

    A run may come from someone else. So data that only the run names are loaded only if that merely reads files, and
    shown only if they have the hash in the manifest.

    Args:
        run: The run.
        name: The data set; by default the one in the manifest. Raises if a given data set cannot be read.
        class_index: The class index file of the data, if their labels come from one.
    """
    checks.instance("run", run, Run, "a lvmrs.Run")
    made = run.manifest.data
    if name is None and (why_not := why_not_data(made)) is not None:
        return Pictures(why_none=why_not)
    wanted = made.name if name is None else name
    if wanted is None:
        return Pictures()
    from lvmrs import data  # imported here, since importing torch takes seconds

    try:
        dataset = data.load(wanted, split=made.split, size=made.image_size, class_index=class_index)
        same = made.hash is None or dataset.fingerprint() == made.hash
    except LvmrsError as error:
        if name is not None:
            raise
        return Pictures(why_none=str(error))
    if not same:
        return Pictures(why_none=f"{wanted} is not the data that the run was made with")
    rows = run.read("idx", "radius", "label")
    order = rows["idx"].argsort()
    indices, labels = rows["idx"][order], rows["label"][order]

    def of(index: int) -> str | None:
        place = int(np.searchsorted(indices, index))
        if not 0 <= index < len(dataset) or place == len(indices) or indices[place] != index:
            return None
        try:
            x, label = data.checked_input(dataset, index)
        except DataError:
            if name is not None:
                raise
            return None
        same = np.isnan(labels[place]) if label is None else label == labels[place]
        return picture(x.numpy()) if same else None  # another label means other data

    return Pictures(of)


def picture(x: NDArray[np.float32]) -> str | None:
    """A data URL for channels × height × width in [0, 1]; None for inputs that are not images.

    Small images keep all pixels; larger ones become thumbnails, so that hundreds of them fit into a page.
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
