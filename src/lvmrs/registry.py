"""Names of everything that can be chosen by name: parts of a certificate, methods, sources of models and data.

One table for each kind: a name, where its class or function lives, and what it is in a few words. Help texts, choices
of the command line and docs are made from these tables; a name that is not in them is refused. Nothing is imported
before it is asked for, so reading a name costs nothing. ``add`` is for parts of your own.
"""

from __future__ import annotations

from typing import Any

from lvmrs.errors import InvalidArgumentError, shown
from lvmrs.names import Entry, Names

__all__ = [
    "BOUNDS", "DATA", "DENOISERS", "FORMS", "MAPS", "METHODS", "MODELS", "NETWORKS", "NOISES", "OBJECTIVES", "PARTS",
    "Entry", "Names", "check_known_noise", "noise_named", "simplex_map",
]  # fmt: skip

# fmt: off
MAPS = Names("map", "lvmrs.maps.base:Map", {
    "hardmax": Entry("lvmrs.maps.hardmax:Hardmax", "all mass on the largest logit: votes", facts=("simplex", "binary")),
    "softmax": Entry("lvmrs.maps.softmax:Softmax", "softmax of the logits", facts=("simplex", "tempered")),
    "sparsemax": Entry(
        "lvmrs.maps.sparsemax:Sparsemax", "projection of the logits on the simplex", facts=("simplex", "tempered")
    ),
    "duel": Entry("lvmrs.maps.duel:Duel", "whether the top class beats a rival", facts=("binary",)),
    "soft-duel": Entry(
        "lvmrs.maps.duel:SoftDuel", "by how much the top class beats a rival, up to a width", facts=("tempered",)
    ),
})
BOUNDS = Names("bound", "lvmrs.confidence.base:Bound", {
    "betting": Entry("lvmrs.confidence.betting:Betting", "for any scores, as narrow as the normal limit"),
    "bernstein": Entry("lvmrs.confidence.bernstein:Bernstein", "for any scores, from their variance"),
    "hoeffding": Entry("lvmrs.confidence.hoeffding:Hoeffding", "for any scores, from their mean alone"),
    "clopper_pearson": Entry("lvmrs.confidence.clopper_pearson:ClopperPearson", "exact, for 0/1 scores only"),
    "beta_mixture": Entry(
        "lvmrs.confidence.beta_mixture:BetaMixture", "for 0/1 scores, whenever sampling stops", facts=("anytime",)
    ),
    "betting_mixture": Entry(
        "lvmrs.confidence.betting_mixture:BettingMixture", "for any scores, whenever sampling stops", facts=("anytime",)
    ),
    "staged": Entry(
        "lvmrs.confidence.staged:Staged", "for 0/1 scores, at a few stages that share the risk", facts=("anytime",)
    ),
})
FORMS = Names("form", "lvmrs.forms.base:Form", {
    "r1": Entry("lvmrs.forms.r1:R1", "margin over the constant that noise and network give together",
                facts=("needs_constant", "uses_constant")),
    "r1-noise": Entry("lvmrs.forms.r1:R1Noise", "margin over the constant that noise gives alone"),
    "r2": Entry("lvmrs.forms.r2:R2", "Gaussian quantiles of both bounds"),
    "r3": Entry("lvmrs.forms.r3:R3", "Gaussian quantile of the top class alone"),
    "ramp": Entry("lvmrs.forms.ramp:Ramp", "noise and Lipschitz constant of the network together",
                  facts=("uses_constant",)),
})
NOISES = Names("noise", "lvmrs.noise.base:Noise", {
    "gaussian": Entry("lvmrs.noise.gaussian:Gaussian", "normal numbers, the same in every direction"),
    "exact": Entry(
        "lvmrs.noise.exact:ExactGaussian", "the same without rounding errors, for inputs on a grid", facts=("rounds",)
    ),
})
PARTS = (MAPS, BOUNDS, FORMS, NOISES)
"""The tables of what a certificate is made of; parts of a user's own may have been added to them."""

METHODS = Names("method", "lvmrs.method:Method", {
    "duels": Entry("lvmrs.planners.duels:Duels", "one duel with each rival"),
    "lvm": Entry("lvmrs.planners.lvm:LVM", "a map and temperature chosen for each input (LVM-RS)"),
    "votes": Entry("lvmrs.planners.votes:Votes", "votes with a bound for each rival and R2"),
    "cohen": Entry("lvmrs.planners.cohen:Cohen", "votes for the top class alone and R3 (Cohen et al. 2019)"),
    "paper": Entry("lvmrs.planners.paper:Paper", "LVM-RS as its paper writes it"),
    "fixed": Entry("lvmrs.planners.fixed:Fixed", "one map and temperature for all inputs"),
    "lipschitz-deterministic": Entry("lvmrs.deterministic:Deterministic", "margin over the constant, no noise"),
    "lipschitz-noise": Entry(
        "lvmrs.planners.lipschitz:Lipschitz", "R1 by noise alone", settings={"procedure": "noise"}
    ),
    "lipschitz-both": Entry("lvmrs.planners.lipschitz:Lipschitz", "R1 by both", settings={"procedure": "both"}),
    "lipschitz-ramp": Entry(
        "lvmrs.planners.lipschitz:Lipschitz", "the ramp radius", settings={"procedure": "ramp"}
    ),
})
OBJECTIVES = Names("objective", "lvmrs.training.objectives:Objective", {
    "gaussian": Entry("lvmrs.training.objectives:Gaussian", "cross-entropy on noisy inputs (Cohen et al. 2019)"),
    "smoothadv": Entry(
        "lvmrs.training.objectives:SmoothAdv", "cross-entropy on noisy inputs after an attack (Salman et al. 2019)"
    ),
    "margin": Entry(
        "lvmrs.training.objectives:Margin", "cross-entropy with a margin, for a network of known Lipschitz constant"
    ),
    "denoise": Entry("lvmrs.training.objectives:Denoising", "squared error of a denoiser (Salman et al. 2020)"),
})
# Sources of models, denoisers and data. Their facts: "file" (what follows the colon is a file that must exist), "path"
# (it can be a path), "code" (it names Python code), "weights" (weights can be put into it), "program" (the file is run
# as it is, and identifies it), "foreign" (it is not run by torch), "sized" (images can be scaled to a size), "indexed"
# (a class index file can say the labels), "inert" (files are read, and nothing else happens: a name that was read, and
# not typed, may be loaded).
MODELS = Names("model", None, {
    "python": Entry("lvmrs.models.python:python", "a module or callable, or a function of yours that returns one; "
                    "MODULE is a file such as nets.py, or installed",
                    "MODULE:FUNCTION", facts=("code", "weights")),
    "ready": Entry("lvmrs.models.ready:ready", "a network that comes with lvmrs", "NAME", facts=("weights", "inert")),
    "trained": Entry("lvmrs.models.trained:trained", "weights by lvmrs train, normalised as in training, or a "
                     "checkpoint {arch, state_dict} whose arch is a network of lvmrs", "FILE", facts=("file", "inert")),
    "timm": Entry("lvmrs.models.pretrained:timm", "a pretrained network of timm, normalised by its data configuration",
                  "NAME", extra="timm"),
    "hf": Entry("lvmrs.models.pretrained:transformers", "an image classifier for transformers, from the hub or a "
                "folder, normalised and resized by its image processor", "NAME", facts=("path",), extra="hf"),
    "torchvision": Entry("lvmrs.models.pretrained:torchvision", "a network with its default weights, normalised by "
                         "their transforms", "NAME", extra="torchvision"),
    "onnx": Entry("lvmrs.models.onnx:onnx", "a file that onnxruntime runs; the first output is the logits",
                  "FILE", facts=("file", "program", "foreign"), extra="onnx"),
    "export": Entry("lvmrs.models.exported:exported", "a program saved by torch.export.save",
                    "FILE.pt2", facts=("file", "program")),
})
DENOISERS = Names("denoiser", None, {
    "diffusers": Entry("lvmrs.models.denoiser_sources:diffusers", "a DDPMPipeline, or a UNet2DModel with its "
                       "scheduler, from a folder or the hub", "FOLDER", facts=("path",), extra="diffusion"),
    "trained": Entry("lvmrs.models.denoiser_sources:trained_denoiser", "a denoiser by lvmrs train",
                     "FILE", facts=("file", "inert")),
    "python": Entry("lvmrs.models.denoiser_sources:python_denoiser", "a module, or a function of yours that returns a "
                    "module or callable; it is given sigma if it asks for it", "MODULE:FUNCTION", facts=("code",)),
})
DATA = Names("data set", None, {
    "digits": Entry("lvmrs.data.arrays:digits", "scikit-learn's 8 × 8 digits: train is the first 1437, "
                    "test the last 360", facts=("inert",), extra="digits"),
    "cifar10": Entry("lvmrs.data.cifar:cifar10", "the folder of the official python batches, or an .npz",
                     "PATH", facts=("path", "inert")),
    "imagefolder": Entry("lvmrs.data.folder:ImageFolder", "PATH/CLASS/IMAGE or PATH/SPLIT/CLASS/IMAGE; labels by "
                         "a class index file, or folders that are numbers, or their alphabetical order",
                         "PATH", facts=("path", "sized", "indexed", "inert"), extra="images"),
    "npz": Entry("lvmrs.data.arrays:npz", "arrays x_test and y_test (after the split), or x and y",
                 "FILE", facts=("file", "inert")),
    "hf": Entry("lvmrs.data.huggingface:HuggingFaceDataset", "the first image and class-label columns, from the hub or "
                "a saved folder", "NAME", facts=("path", "sized"), extra="hf"),
    "python": Entry("lvmrs.data.python:python", "a function of yours that takes the split and returns (inputs, labels) "
                    "or a Dataset", "MODULE:FUNCTION", facts=("code",)),
})
_RESNET, _SANDWICH = "lvmrs.models.residual:ResNet", "lvmrs.models.sandwich:sandwich"
NETWORKS = Names("network", None, {
    "small_cnn": Entry("lvmrs.models.small:small_cnn", "two convolutions and a linear layer, for 8 × 8"),
    "fast_cnn": Entry("lvmrs.models.small:fast_cnn", "five normalised convolutions, the first of stride 2: for "
                      "32 × 32 on a CPU"),
    "fast_resnet": Entry(_RESNET, "8 wide layers, shortcuts convolved, the first of stride 2: for 32 × 32 on a CPU",
                         settings={"depth": 8, "width": 64, "shortcut": "convolved", "stride": 2}),
    "resnet8": Entry(_RESNET, "8 layers, shortcuts padded by zeros (He et al. 2016)", settings={"depth": 8}),
    "resnet20": Entry(_RESNET, "20 layers, shortcuts padded by zeros", settings={"depth": 20}),
    "resnet56": Entry(_RESNET, "56 layers, shortcuts padded by zeros", settings={"depth": 56}),
    "resnet110": Entry(_RESNET, "110 layers, shortcuts padded by zeros", settings={"depth": 110}),
    "cifar_resnet20": Entry(_RESNET, "20 layers, shortcuts convolved, as in the code of Cohen et al. (2019)",
                            settings={"depth": 20, "shortcut": "convolved"}),
    "cifar_resnet110": Entry(_RESNET, "110 layers, shortcuts convolved",
                             settings={"depth": 110, "shortcut": "convolved"}),
    "sandwich_small": Entry(_SANDWICH, "convolutional and gamma-Lipschitz (Wang and Manchester 2023)"),
    "sandwich_medium": Entry(_SANDWICH, "the same, twice as wide", settings={"width": 2}),
    "sandwich_large": Entry(_SANDWICH, "the same, four times as wide", settings={"width": 4}),
    "dncnn": Entry("lvmrs.models.dncnn:dncnn", "a denoiser (Zhang et al. 2017)"),
})
# fmt: on


def noise_named(spelling: str) -> Any:
    """The noise of a spelling, such as gaussian, exact or exact:16.

    >>> noise_named("exact:16")
    ExactGaussian(levels=16)
    """
    if not isinstance(spelling, str):
        raise InvalidArgumentError(f"noise must be a name such as gaussian or exact, got {shown(spelling)}")
    name, _, setting = spelling.partition(":")
    return NOISES.find(name, argument="noise").of(setting)


def check_known_noise(noise: object) -> None:
    """Refuse a noise that is not in the registry under its name: runs record its name."""
    kind, name = type(noise), getattr(noise, "name", None)
    if name not in NOISES or NOISES.find(name) is not kind:
        raise InvalidArgumentError(
            f"{kind.__name__} is not the noise {name!r} of the registry; give it a name of its own and add it with "
            "lvmrs.registry.NOISES.add"
        )


def simplex_map(name: str, *, argument: str = "map") -> Any:
    """The class of the simplex map of that name; duels are not among them.

    Args:
        name: name of a map, such as ``"softmax"``.
        argument: what the name is called in the sentence that refuses it.

    >>> simplex_map("softmax").__name__
    'Softmax'
    """
    if name not in MAPS:
        raise InvalidArgumentError(f"{argument} must be one of {', '.join(MAPS.having('simplex'))}, got {shown(name)}")
    if name not in MAPS.having("simplex"):
        raise InvalidArgumentError(f"{argument} must be a map to the simplex, got {name}; use the method duels instead")
    return MAPS.find(name, argument=argument)
