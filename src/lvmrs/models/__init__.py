"""Models by one name.

=========================  =========================================================================================
``python:MODULE:NAME``     a function of yours that returns a module or callable, or the object itself
``ready:NAME,key=value``   a network that comes with lvmrs, such as ready:resnet20; see ``lvmrs.models.ready``
``trained:FILE``           weights by ``lvmrs train``, or a checkpoint that names a ready network as its arch
``timm:NAME``              a network of timm, with its weights
``hf:NAME``                an image classifier of the Hugging Face hub, or a folder saved by transformers
``torchvision:NAME``       a network of torchvision, with its default weights
``onnx:FILE``              an ONNX file, run by onnxruntime
``export:FILE.pt2``        a program saved by torch.export
=========================  =========================================================================================
"""

from lvmrs.models.denoised import Denoised
from lvmrs.models.diffusion import DiffusionDenoiser
from lvmrs.models.load import Loaded, load
from lvmrs.models.network_lipschitz import lipschitz_bound
from lvmrs.models.preprocessing import Preprocessed
from lvmrs.models.residual import ResNet
from lvmrs.models.sandwich import SandwichNetwork, sandwich

__all__ = [
    "Denoised",
    "DiffusionDenoiser",
    "Loaded",
    "Preprocessed",
    "ResNet",
    "SandwichNetwork",
    "lipschitz_bound",
    "load",
    "sandwich",
]
