"""Models by name: ``load("onnx:net.onnx")``. The names of all sources are in ``lvmrs.registry.MODELS``."""

from lvmrs._util.facts import ModelFacts
from lvmrs.models.denoisers import Denoised, DiffusionDenoiser
from lvmrs.models.ensemble import Ensemble
from lvmrs.models.lipschitz.bound import lipschitz_bound
from lvmrs.models.load import Loaded, ModelSource, load
from lvmrs.models.networks import ResNet
from lvmrs.models.preprocessing import Preprocessed
from lvmrs.models.sandwich import SandwichNetwork, sandwich

__all__ = [
    "Denoised",
    "DiffusionDenoiser",
    "Ensemble",
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
