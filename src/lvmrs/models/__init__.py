"""Models by one name.

=========================  =========================================================================================
``python:MODULE:NAME``     a function of yours that returns a module or callable, or the object itself
``timm:NAME``              a network of timm, with its weights
``hf:NAME``                an image classifier of the Hugging Face hub, or a folder saved by transformers
``torchvision:NAME``       a network of torchvision, with its default weights
``onnx:FILE``              an ONNX file, run by onnxruntime
``export:FILE.pt2``        a program saved by torch.export
=========================  =========================================================================================
"""

from lvmrs.models.load import Loaded, load
from lvmrs.models.preprocessing import Preprocessed

__all__ = ["Loaded", "Preprocessed", "load"]
