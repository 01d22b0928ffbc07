"""The registry: tables of all names that a user can type, for parts, methods, models and data."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, TypeVar

from lvmrs.errors import InvalidArgumentError, shown

Part = TypeVar("Part", bound=type)


@dataclass(frozen=True)
class Entry:
    """The entry of one name: its location, description and properties, known without importing it."""

    where: str
    """``module:Class`` or ``module:function``."""
    words: str
    """A short description."""
    pattern: str = ""
    """The pattern after the name and a colon, such as FILE; empty if there is none."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the class that the name implies."""
    facts: tuple[str, ...] = ()
    """Attributes of the class that are true; for sources of models and data, see the comment above their tables."""
    extra: str = ""
    """The optional extra of the package that it requires."""


class Names:
    """The known names of one kind of part, in display order."""

    def __init__(self, kind: str, base: str | None, entries: Mapping[str, Entry]) -> None:
        """``base`` is the base class of the kind; None if its parts are functions, to which none can be added."""
        self.kind, self.base = kind, base
        self._entries = dict(entries)
        self._added: dict[str, type] = {}

    def __iter__(self) -> Iterator[str]:
        """All names."""
        return iter((*self._entries, *self._added))

    def __contains__(self, name: object) -> bool:
        """Whether the name is known."""
        return isinstance(name, str) and (name in self._entries or name in self._added)

    @property
    def listed(self) -> str:
        """All names with their patterns, separated by commas, for help texts and error messages."""
        return ", ".join(map(self.written, self))

    def written(self, name: str) -> str:
        """A name with the pattern of what follows it, such as ``onnx:FILE``."""
        pattern = self._entries[name].pattern if name in self._entries else ""
        return f"{name}:{pattern}" if pattern else name

    @property
    def added(self) -> tuple[type, ...]:
        """The parts that the user added."""
        return tuple(self._added.values())

    def having(self, fact: str) -> tuple[str, ...]:
        """The names of the parts that have a fact."""
        ours = (name for name, entry in self._entries.items() if fact in entry.facts)
        return (*ours, *(name for name, part in self._added.items() if getattr(part, fact, False)))

    def words(self, name: str) -> str:
        """A short description of the part of that name."""
        part = self._added.get(name)
        return self._entries[name].words if part is None else (part.__doc__ or name).partition("\n")[0]

    def extra_of(self, name: str) -> str:
        """The optional extra of the package that the part requires, or an empty string."""
        return self._entries[name].extra if name in self._entries else ""

    def settings(self, name: str) -> dict[str, Any]:
        """The settings of the class that the name implies."""
        return dict(self._entries[name].settings) if name in self._entries else {}

    def name_of(self, class_name: str, settings: Mapping[str, Any]) -> str | None:
        """The name of the built-in class with these settings, among others; None if there is none."""
        ours = ((name, entry) for name, entry in self._entries.items() if entry.where.endswith(f":{class_name}"))
        return next((name for name, entry in ours if entry.settings.items() <= settings.items()), None)

    def check(self, name: object, *, argument: str | None = None) -> str:
        """Return a known name, without importing its part. Raises an error that names the ``argument``."""
        if not isinstance(name, str) or name not in self:
            raise InvalidArgumentError(f"{argument or self.kind} must be one of {self.listed}, got {shown(name)}")
        return name

    def find(self, name: object, *, argument: str | None = None) -> Any:
        """The class of that name. An unknown name raises an error that names the ``argument``."""
        name = self.check(name, argument=argument)
        return self._added[name] if name in self._added else _imported(self._entries[name].where)

    def add(self, part: Part) -> Part:
        """Register a user-defined part under its ``name``; usable as a decorator."""
        if self.base is None:
            raise InvalidArgumentError(f"a {self.kind} cannot be added; name it with python:MODULE:FUNCTION")
        base = _imported(self.base)
        if not (isinstance(part, type) and issubclass(part, base)):
            raise InvalidArgumentError(f"a {self.kind} must be a class derived from {base.__name__}, got {shown(part)}")
        name = getattr(part, "name", None)
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z][\w.-]*", name):  # rows contain the name
            raise InvalidArgumentError(f"{part.__name__} has no name; give the class an attribute name = 'word'")
        declared = (word for word, hint in inspect.get_annotations(base).items() if "ClassVar" in str(hint))
        if lacking := [word for word in declared if not hasattr(part, word)]:
            raise InvalidArgumentError(f"{part.__name__} has no {lacking[0]}; write it: see {base.__module__}")
        if missing := sorted(getattr(part, "__abstractmethods__", ())):
            raise InvalidArgumentError(f"{part.__name__} has no method {missing[0]}; write it: see {base.__module__}")
        known = self._added.get(name)
        home = (part.__module__, part.__qualname__)
        if name in self._entries or (known is not None and (known.__module__, known.__qualname__) != home):
            raise InvalidArgumentError(f"there is a {self.kind} {name} already; give {part.__name__} another name")
        self._added[name] = part
        return part


def _imported(where: str) -> Any:
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)


# ---------------------------------------------------------------------------------------------------------------------
# The tables, one for each kind: a name, the location of its class or function, and a short description. Help texts,
# choices of the command line and docs are made from these tables. Parts are imported on first use. ``add`` registers
# user-defined parts.


# fmt: off
MAPS = Names("map", "lvmrs.kernel.maps:Map", {
    "hardmax": Entry("lvmrs.kernel.maps:Hardmax", "all mass on the largest logit: votes", facts=("simplex", "binary")),
    "softmax": Entry("lvmrs.kernel.maps:Softmax", "softmax of the logits", facts=("simplex", "tempered")),
    "sparsemax": Entry(
        "lvmrs.kernel.maps:Sparsemax", "projection of the logits on the simplex", facts=("simplex", "tempered")
    ),
    "duel": Entry("lvmrs.kernel.maps:Duel", "whether the top class beats a rival", facts=("binary",)),
    "soft-duel": Entry(
        "lvmrs.kernel.maps:SoftDuel", "by how much the top class beats a rival, up to a width", facts=("tempered",)
    ),
})
BOUNDS = Names("bound", "lvmrs.kernel.bounds.base:Bound", {
    "betting": Entry("lvmrs.kernel.bounds.betting:Betting", "for any scores, as narrow as the normal limit"),
    "bernstein": Entry("lvmrs.kernel.bounds.bernstein:Bernstein", "for any scores, from their variance"),
    "hoeffding": Entry("lvmrs.kernel.bounds.hoeffding:Hoeffding", "for any scores, from their mean alone"),
    "clopper_pearson": Entry("lvmrs.kernel.bounds.clopper_pearson:ClopperPearson", "exact, for 0/1 scores only"),
    "beta_mixture": Entry("lvmrs.kernel.bounds.beta_mixture:BetaMixture", "for 0/1 scores, whenever sampling stops"),
    "betting_mixture": Entry(
        "lvmrs.kernel.bounds.betting_mixture:BettingMixture", "for any scores, whenever sampling stops"
    ),
    "staged": Entry(
        "lvmrs.kernel.bounds.clopper_pearson:Staged", "for 0/1 scores, at a few stages that share the risk"
    ),
})
FORMS = Names("form", "lvmrs.kernel.radius:Form", {
    "r1": Entry("lvmrs.kernel.radius:R1", "margin over the constant that noise and network give together",
                facts=("uses_constant",)),
    "r1-noise": Entry("lvmrs.kernel.radius:R1Noise", "margin over the constant that noise gives alone"),
    "r2": Entry("lvmrs.kernel.radius:R2", "Gaussian quantiles of both bounds"),
    "r3": Entry("lvmrs.kernel.radius:R3", "Gaussian quantile of the top class alone"),
    "ramp": Entry("lvmrs.kernel.radius:Ramp", "noise and Lipschitz constant of the network together",
                  facts=("uses_constant",)),
})
NOISES = Names("noise", "lvmrs.kernel.noise:Noise", {
    "gaussian": Entry("lvmrs.kernel.noise:Gaussian", "normal numbers, the same in every direction"),
    "exact": Entry(
        "lvmrs.kernel.exact_noise:ExactGaussian", "the same without rounding errors, for inputs on a grid",
        facts=("rounds", "same_everywhere")
    ),
})
PARTS = (MAPS, BOUNDS, FORMS, NOISES)
"""The tables of the parts of a certificate, including user-defined parts."""

METHODS = Names("method", "lvmrs.kernel.method:Method", {
    "duels": Entry("lvmrs.planners.duels:Duels", "one duel with each rival"),
    "lvm": Entry("lvmrs.planners.lvm:LVM", "a map and temperature chosen for each input (LVM-RS)"),
    "votes": Entry("lvmrs.planners.votes:Votes", "votes with a bound for each rival and R2"),
    "cohen": Entry("lvmrs.planners.cohen:Cohen", "votes for the top class alone and R3 (Cohen et al. 2019)"),
    "paper": Entry("lvmrs.planners.paper:Paper", "LVM-RS as its paper writes it"),
    "paper-union": Entry(
        "lvmrs.planners.paper:Paper", "the same, with the risk shared by all classes", settings={"union": True}
    ),
    "fixed": Entry("lvmrs.planners.fixed:Fixed", "one map and temperature for all inputs"),
    "lipschitz-deterministic": Entry("lvmrs.kernel.deterministic:Deterministic", "margin over the constant, no noise",
                                     facts=("without_samples",)),
    "lipschitz-noise": Entry(
        "lvmrs.planners.lipschitz:Lipschitz", "R1 by noise alone", settings={"procedure": "noise"}
    ),
    "lipschitz-both": Entry("lvmrs.planners.lipschitz:Lipschitz", "R1 by both", settings={"procedure": "both"}),
    "lipschitz-ramp": Entry(
        "lvmrs.planners.lipschitz:Lipschitz", "the ramp radius", settings={"procedure": "ramp"}
    ),
})
OBJECTIVES = Names("objective", "lvmrs.training.objectives.base:Objective", {
    "gaussian": Entry("lvmrs.training.objectives.gaussian:Gaussian",
                      "cross-entropy on noisy inputs (Cohen et al. 2019)"),
    "smoothadv": Entry("lvmrs.training.objectives.smoothadv:SmoothAdv",
                       "cross-entropy on noisy inputs after an attack (Salman et al. 2019)"),
    "consistency": Entry("lvmrs.training.objectives.consistency:Consistency",
                         "cross-entropy, and agreement of the noisy copies of an input (Jeong and Shin 2020)"),
    "smoothmix": Entry("lvmrs.training.objectives.smoothmix:SmoothMix",
                       "cross-entropy on noisy inputs and on mixtures with adversarial inputs (Jeong et al. 2021)"),
    "macer": Entry("lvmrs.training.objectives.macer:MACER",
                   "cross-entropy, and a penalty for small certified radii (Zhai et al. 2020)"),
    "margin": Entry("lvmrs.training.objectives.margin:Margin",
                    "cross-entropy with a margin, for a network of known Lipschitz constant"),
    "denoise": Entry("lvmrs.training.objectives.denoising:Denoising",
                     "squared error of a denoiser (Salman et al. 2020)"),
})
# Sources of models, denoisers and data. Their facts: "file" (the text after the colon is a file that must exist),
# "path" (it can be a path), "code" (it names Python code), "weights" (weights can be loaded into the model), "program"
# (the file is a program, which identifies the model), "foreign" (torch does not run it), "sized" (images can be scaled
# to a size), "indexed" (a class index file can define the labels), "inert" (loading only reads files, so that a name
# from a manifest may be loaded), "members" (the text after the colon names several models; the entry is a class of
# these models), "routed" (the file names the networks of a routed classifier, which is no single model).
MODELS = Names("model", None, {
    "python": Entry("lvmrs.models.load:python", "a module or callable, or a function of yours that returns one; "
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
    "onnx": Entry("lvmrs.models.onnx:onnx", "a file that onnxruntime runs, with weights in it or in other files of its "
                  "folder, as torch writes them; the first output is the logits",
                  "FILE", facts=("file", "program", "foreign"), extra="onnx"),
    "export": Entry("lvmrs.models.exported:exported", "a program saved by torch.export.save",
                    "FILE.pt2", facts=("file", "program")),
    "ensemble": Entry("lvmrs.models.ensemble:Ensemble", "the mean of the logits of several models, each with its own "
                      "normalisation", "MODEL+MODEL", facts=("members",)),
    "ensemble-softmax": Entry("lvmrs.models.ensemble:Ensemble", "the logarithm of the mean of their softmax scores",
                              "MODEL+MODEL", settings={"average": "softmax"}, facts=("members",)),
    "routed": Entry("lvmrs.models.load:routed", "a router that chooses among networks, for lvmrs certify alone; FILE "
                    "is JSON with their names and sigmas", "FILE", facts=("file", "routed")),
})
DENOISERS = Names("denoiser", None, {
    "diffusers": Entry("lvmrs.models.denoisers:diffusers", "a DDPMPipeline, or a UNet2DModel with its "
                       "scheduler, from a folder or the hub", "FOLDER", facts=("path",), extra="diffusion"),
    "trained": Entry("lvmrs.models.denoisers:trained_denoiser", "a denoiser by lvmrs train",
                     "FILE", facts=("file", "inert")),
    "python": Entry("lvmrs.models.denoisers:python_denoiser", "a module, or a function of yours that returns a "
                    "module or callable; it is given sigma if it asks for it", "MODULE:FUNCTION", facts=("code",)),
})
DATA = Names("data set", None, {
    "digits": Entry("lvmrs.data.arrays:digits", "scikit-learn's 8 × 8 digits: train is the first 1437, "
                    "test the last 360", facts=("inert",), extra="digits"),
    "cifar10": Entry("lvmrs.data.arrays:cifar10", "the folder of the official python batches, or an .npz",
                     "PATH", facts=("path", "inert")),
    "imagefolder": Entry("lvmrs.data.folder:ImageFolder", "PATH/CLASS/IMAGE or PATH/SPLIT/CLASS/IMAGE; labels by "
                         "a class index file, or folders that are numbers, or their alphabetical order",
                         "PATH", facts=("path", "sized", "indexed", "inert"), extra="images"),
    "images": Entry("lvmrs.data.folder:Images", "an image, or the images in the folder PATH or PATH/SPLIT, without "
                    "labels", "PATH", facts=("path", "sized", "inert"), extra="images"),
    "npz": Entry("lvmrs.data.arrays:npz", "arrays x_test and y_test (after the split), or x and y; without y, the "
                 "inputs have no labels", "FILE", facts=("file", "inert")),
    "npy": Entry("lvmrs.data.arrays:npy", "one array of inputs without labels", "FILE", facts=("file", "inert")),
    "hf": Entry("lvmrs.data.huggingface:HuggingFaceDataset", "the first image and class-label columns, from the hub or "
                "a saved folder; hf:NAME,image=COLUMN,label=COLUMN names the columns, and label=none leaves labels out",
                "NAME", facts=("path", "sized"), extra="hf"),
    "python": Entry("lvmrs.data.load:python", "a function of yours that is called with the split and returns (inputs, "
                    "labels), inputs without labels, a torch data set, or an lvmrs.data.Dataset",
                    "MODULE:FUNCTION", facts=("code",)),
})
TRACKERS = Names("tracker", None, {
    "tensorboard": Entry("lvmrs.runs.trackers:tensorboard", "event files for TensorBoard in a directory", "DIR",
                         extra="tensorboard"),
    "wandb": Entry("lvmrs.runs.trackers:wandb", "a project of Weights & Biases", "PROJECT", extra="wandb"),
    "mlflow": Entry("lvmrs.runs.trackers:mlflow", "an experiment of MLflow", "EXPERIMENT", extra="mlflow"),
})
_RESNET, _SANDWICH = "lvmrs.models.networks:ResNet", "lvmrs.models.sandwich:sandwich"
NETWORKS = Names("network", None, {
    "small_cnn": Entry("lvmrs.models.networks:small_cnn", "two convolutions and a linear layer, for 8 × 8"),
    "fast_cnn": Entry("lvmrs.models.networks:fast_cnn", "five normalised convolutions, the first of stride 2: for "
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
    "dncnn": Entry("lvmrs.models.networks:DnCNN", "a denoiser (Zhang et al. 2017)"),
})
# fmt: on


def noise_named(spelling: str) -> Any:
    """The noise for a spelling such as gaussian, exact or exact:16.

    >>> noise_named("exact:16")
    ExactGaussian(levels=16)
    """
    if not isinstance(spelling, str):
        raise InvalidArgumentError(f"noise must be a name such as gaussian or exact, got {shown(spelling)}")
    name, _, setting = spelling.partition(":")
    return NOISES.find(name, argument="noise").of(setting)


def check_known_noise(noise: object) -> None:
    """Raise if a noise is not registered under its name: runs record the name."""
    kind, name = type(noise), getattr(noise, "name", None)
    if name not in NOISES or NOISES.find(name) is not kind:
        raise InvalidArgumentError(
            f"{kind.__name__} is not the noise {name!r} of the registry; give it a name of its own and add it with "
            "lvmrs.registry.NOISES.add"
        )


def simplex_map(name: str, *, argument: str = "map") -> Any:
    """The class of the simplex map of that name; raises for duels. ``argument`` is for error messages.

    >>> simplex_map("softmax").__name__
    'Softmax'
    """
    if name not in MAPS:
        raise InvalidArgumentError(f"{argument} must be one of {', '.join(MAPS.having('simplex'))}, got {shown(name)}")
    if name not in MAPS.having("simplex"):
        raise InvalidArgumentError(f"{argument} must be a map to the simplex, got {name}; use the method duels instead")
    return MAPS.find(name, argument=argument)
