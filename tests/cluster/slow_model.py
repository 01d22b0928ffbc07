"""A classifier that takes its time, so that workers can be killed while they compute."""

import time

from torch import Tensor

from tests.tiny_models import RowByRow

__all__ = ["SlowRows"]


class SlowRows(RowByRow):
    """``RowByRow``, with a rest of so many seconds in each pass."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def __call__(self, x: Tensor) -> Tensor:
        time.sleep(self.seconds)
        return super().__call__(x)
