"""Models by name: ``load("onnx:net.onnx")``. The names of all sources are in ``lvmrs.registry.MODELS``."""

from lvmrs._util.facts import ModelFacts
from lvmrs.models.denoised import Denoised
from lvmrs.models.diffusion import DiffusionDenoiser
from lvmrs.models.lipschitz import lipschitz_bound
from lvmrs.models.load import Loaded, ModelSource, load
from lvmrs.models.preprocessing import Preprocessed
from lvmrs.models.residual import ResNet
from lvmrs.models.sandwich import SandwichNetwork, sandwich

__all__ = [
    "Denoised",
    "DiffusionDenoiser",
    "Loaded",
    "ModelFacts",
    "ModelSource",
    "Preprocessed",
    "ResNet",
    "SandwichNetwork",
    "lipschitz_bound",
    "load",
    "sandwich",
]
