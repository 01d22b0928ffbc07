"""Networks with published weights and their normalisation: transformers, timm and torchvision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from torch import Tensor, nn

from lvmrs._util.facts import ModelFacts
from lvmrs._util.settings import check_folder
from lvmrs._util.text import optional
from lvmrs.errors import ModelError, guarded
from lvmrs.models.preprocessing import Preprocessed

_LARGEST_SIDE = 4096


class _Logits(nn.Module):
    """A transformers classifier that returns only its logits."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.model(pixel_values=x).logits
        return logits


def transformers(name: str, rest: str) -> tuple[nn.Module, ModelFacts]:
    """Load an image classifier with the rescaling, normalisation and resize of its image processor."""
    library = optional("transformers", extra="hf", error=ModelError)
    library.utils.logging.disable_progress_bar()
    check_folder(name, rest, error=ModelError)
    with guarded(f"{name}: it cannot be loaded", error=ModelError):
        # The code of a model repository is not run, and weights are read as tensors.
        model, loading = library.AutoModelForImageClassification.from_pretrained(
            rest, output_loading_info=True, trust_remote_code=False, weights_only=True
        )
        settings, _ = library.image_processing_utils.ImageProcessingMixin.get_image_processor_dict(rest)
    if missing := sorted(loading["missing_keys"]):
        raise ModelError(f"{name}: weights are missing ({missing[0]} and so on); it is not a trained image classifier")
    with guarded(f"{name}: its image processor cannot be understood", error=ModelError):
        return _behind_processor(name, _Logits(model), model.config, settings)


def _behind_processor(
    name: str, model: nn.Module, config: Any, settings: dict[str, Any]
) -> tuple[nn.Module, ModelFacts]:
    if settings.get("rescale_offset"):
        raise ModelError(f"{name}: its image processor shifts pixels (rescale_offset); wrap the model with python:")
    channels = getattr(config, "num_channels", 3)
    # The processor rescales and normalises bytes. Here pixels are in [0, 1].
    scale = 255 * settings.get("rescale_factor", 1 / 255) if settings.get("do_rescale", True) else 255.0
    mean, std = [0.0] * channels, [1.0] * channels
    if settings.get("do_normalize", True):
        mean, std = _values(settings, "image_mean", name, channels), _values(settings, "image_std", name, channels)
    size = _size(settings) if settings.get("do_resize", True) else None
    if size is not None and not all(1 <= side <= _LARGEST_SIDE for side in size):
        raise ModelError(f"{name}: its image processor resizes to {size}; expected sides from 1 to {_LARGEST_SIDE}")
    mean, std = [value / scale for value in mean], [value / scale for value in std]
    return _normalised(model, mean, std, "image processor", size)


def _normalised(
    model: nn.Module,
    mean: Sequence[float],
    std: Sequence[float],
    by: Literal["image processor", "data configuration", "weights"],
    size: tuple[int, int] | None = None,
) -> tuple[nn.Module, ModelFacts]:
    facts = ModelFacts(mean=tuple(mean), std=tuple(std), normalised_by=by, resized_to=size)
    return Preprocessed(model, mean, std, size), facts


def _values(settings: dict[str, Any], key: str, name: str, channels: int) -> list[float]:
    values = settings.get(key)
    if values is None:
        raise ModelError(f"{name}: its image processor normalises but gives no {key}; wrap the model with python:")
    return [float(v) for v in values] if isinstance(values, (list, tuple)) else [float(values)] * channels


def _size(settings: dict[str, Any]) -> tuple[int, int] | None:
    wanted = settings.get("crop_size") if settings.get("do_center_crop") else settings.get("size")
    if isinstance(wanted, int):
        return wanted, wanted
    if isinstance(wanted, dict):
        side = wanted.get("shortest_edge")
        height, width = wanted.get("height", side), wanted.get("width", side)
        return (int(height), int(width)) if height and width else None
    return None


def timm(name: str, rest: str) -> tuple[nn.Module, ModelFacts]:
    """Load a pretrained network of timm with the normalisation of its data configuration."""
    library = optional("timm", extra="timm", error=ModelError)
    with guarded(f"{name}: it cannot be loaded", error=ModelError):
        model = library.create_model(rest, pretrained=True)
    config = library.data.resolve_model_data_config(model)
    return _normalised(model, config["mean"], config["std"], "data configuration")


def torchvision(name: str, rest: str) -> tuple[nn.Module, ModelFacts]:
    """Load a network of torchvision with its default weights and their normalisation."""
    library = optional("torchvision", extra="torchvision", error=ModelError)
    with guarded(f"{name}: it cannot be loaded", error=ModelError):
        weights = library.models.get_model_weights(rest).DEFAULT
        model = library.models.get_model(rest, weights=weights)
    preset = weights.transforms()
    return _normalised(model, preset.mean, preset.std, "weights")
