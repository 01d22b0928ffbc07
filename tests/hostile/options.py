"""Bad values for every option of every command.

``BASES`` has a good call of each command. A case is such a call with one word changed. ``KINDS`` says what an option
takes, and ``BAD`` has bad values for each kind. To add a case, add a line to ``BAD``; for a new option, name its kind
in ``KINDS`` (a test fails until that is done). A value that a command may take does not belong here: an exception to a
kind is listed in ``GOOD``.
"""
# ruff: noqa: E501

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["BAD", "BASES", "GOOD", "KINDS", "Call", "option_cases"]


class Call(NamedTuple):
    """A command with its arguments by name and its options."""

    command: str
    arguments: dict[str, str]
    options: dict[str, str]

    def words(self) -> list[str]:
        """The words of the command line."""
        options = [word for pair in self.options.items() for word in pair if word]
        return [self.command, *(word for word in self.arguments.values() if word), *options]

    def changed(self, name: str, value: str) -> list[str]:
        """The words with another value of one option or argument."""
        if name.startswith("-"):
            rest = [word for key, given in self.options.items() if key != name for word in (key, given) if word]
            return [self.command, *self.arguments.values(), *rest, f"{name}={value}"]
        options = [word for pair in self.options.items() for word in pair if word]
        return [self.command, *options, "--", *({**self.arguments, name: value}.values())]


_SMOOTHED = {
    "--model": "trained:{world}/net.safetensors",
    "--data": "npz:{world}/data.npz",
    "--sigma": "0.5",
    "--max": "2",
    "--device": "cpu",
}
_SAMPLED = {**_SMOOTHED, "--n0": "20", "--n": "60", "--batch": "20"}
BASES = {
    call.command: call
    for call in (
        Call("demo", {}, {"--out": "a"}),
        Call(
            "train",
            {},
            {
                "--model": "ready:small_cnn,width=2",
                "--data": "npz:{world}/data.npz",
                "--sigma": "0.5",
                "--epochs": "1",
                "--batch": "3",
                "--device": "cpu",
                "--out": "a.safetensors",
            },
        ),
        Call("certify", {}, {**_SAMPLED, "--out": "a"}),
        Call("check", {}, {**_SAMPLED, "--copies": "5"}),
        Call("sigma", {}, {**_SAMPLED, "--sigma=0.25": "", "--copies": "5"}),
        Call("predict", {}, dict(_SAMPLED)),
        Call("calibrate", {}, {**_SMOOTHED, "--n0": "20", "--batch": "20"}),
        Call("recertify", {"run": "{world}/run"}, {"--out": "a"}),
        Call("merge", {"shards": "{world}/shard-1", "second": "{world}/shard-2"}, {"--out": "a"}),
        Call("import", {"file": "{world}/other.tsv"}, {"--sigma": "0.5", "--out": "a"}),
        Call(
            "attack",
            {"run": "{world}/run"},
            {"--out": "a", "--steps": "1", "--samples": "2", "--n": "20", "--max": "1", "--device": "cpu"},
        ),
        Call("analyze", {"runs": "{world}/run"}, {}),
        Call("compare", {"first": "{world}/run", "second": "{world}/plain"}, {}),
        Call("safe", {"run": "{world}/run"}, {"--radius": "0.1"}),
        Call("export", {"run": "{world}/run"}, {"--format": "json", "--out": "a.json"}),
        Call("plot", {"runs": "{world}/run"}, {"--out": "a.png"}),
        Call("report", {"runs": "{world}/run"}, {"--out": "a.html", "--data": "none"}),
        Call("lipschitz", {}, {"--model": "trained:{world}/net.safetensors", "--shape": "1,8,8"}),
        Call("radius", {"p_a": "0.9", "p_b": "0.05"}, {"--sigma": "0.5"}),
        Call("verify", {"run": "{world}/run"}, {"--rows": "2", "--batch": "7"}),
    )
}

_LONG, _NUL, _BYTES = "x" * 5000, "a\0b", "a\udcff"
_NO_NUMBER = {
    "nothing": "", "a word": "x", "two numbers": "1 2", "a comma": "1,5", "a list": "[1]", "a NUL": "1\0", "None": "None",
    "hexadecimal": "0x10", "a fraction": "1/2", "another minus": "−1", "infinity as a sign": "∞", "a byte": "\udcff",
}  # fmt: skip
_NOT_FINITE = {"nan": "nan", "inf": "inf", "-inf": "-inf", "1e400": "1e400", "-nan": "-nan"}
_NO_WHOLE = {**_NO_NUMBER, **_NOT_FINITE, "1.5": "1.5", "1e3": "1e3", "10**400": "1" + "0" * 400}
_NO_NAME = {
    "nothing": "",
    "a space": " ",
    "unknown": "magic",
    "NUL": _NUL,
    "long": _LONG,
    "bytes": _BYTES,
    "dots": "../..",
}
_NO_CODE = {
    "python alone": "python:", "no function": "python:os", "two colons": "python::", "no module": "python:nowhere_at_all:f",
    "no attribute": "python:os:nothing_at_all", "no file": "python:nowhere.py:f", "a folder": "python:{world}/empty:f",
    "not Python": "python:{world}/text.txt:f", "a pipe": "python:{world}/pipe.py:f", "module NUL": f"python:{_NUL}:f", "module long": f"python:{_LONG}:f",
    "dots": "python:...:f", "a dot": "python:.:f", "a number": "python:os:name", "a module": "python:os:path",
}  # fmt: skip
_NO_FILE = {
    "missing": "{world}/nowhere", "a directory": "{world}/empty", "NUL": _NUL, "long": _LONG, "nothing": "",
    "/dev/null": "/dev/null", "a broken link": "{world}/broken", "a loop of links": "{world}/loop", "bytes": _BYTES,
    "below a file": "{world}/text.txt/a", "nobody's home": "~nobody-of-that-name/a", "a text": "{world}/text.txt",
    "a pipe": "{world}/pipe", "a device without end": "/dev/zero",
}  # fmt: skip
_NO_PLACE = {
    "NUL": _NUL, "long": _LONG, "nothing": "", "below a file": "{world}/text.txt/a", "here": ".",
    "below /dev/null": "/dev/null/a", "nobody's home": "~nobody-of-that-name/a", "a loop of links": "{world}/loop/a",
}  # fmt: skip
BAD: dict[str, dict[str, str]] = {
    "positive": {**_NO_NUMBER, **_NOT_FINITE, "0": "0", "-0.0": "-0.0", "-1": "-1", "1e-400": "1e-400"},
    "positive or inf": {**_NO_NUMBER, "nan": "nan", "-inf": "-inf", "0": "0", "-1": "-1", "1e-400": "1e-400"},
    "from 0": {**_NO_NUMBER, **_NOT_FINITE, "-1": "-1", "-1e-300": "-1e-300"},
    "fraction": {**_NO_NUMBER, **_NOT_FINITE, "0": "0", "1": "1", "-0.1": "-0.1", "1.1": "1.1", "1e-400": "1e-400"},
    "probability": {**_NO_NUMBER, **_NOT_FINITE, "-0.1": "-0.1", "1.1": "1.1"},
    "whole from 0": {**_NO_WHOLE, "-1": "-1"},
    "whole from 1": {**_NO_WHOLE, "0": "0", "-1": "-1"},
    "whole from 2": {**_NO_WHOLE, "0": "0", "1": "1", "-1": "-1"},
    "samples": {**_NO_WHOLE, "0": "0", "1": "1", "-1": "-1", "2**63": str(2**63), "10**30": str(10**30)},
    "planning samples": {**_NO_WHOLE, "0": "0", "-1": "-1", "2**63": str(2**63), "10**30": str(10**30)},
    "rows": {**_NO_WHOLE, "0": "0", "-1": "-1", "two words": "all rows", "capitals": "ALL", "other digits": "٣", "10**30": str(10**30)},
    "image size": {**_NO_WHOLE, "0": "0", "-1": "-1", "of arrays": "8"},
    "width": {**_NO_NUMBER, **_NOT_FINITE, "0": "0", "-1": "-1"},
    "numbers": {**_NO_NUMBER, **_NOT_FINITE, "a comma": ",", "ends with a comma": "0.5,", "two": "0.5,0.5", "low line": "0_5", "other digits": "٣"},
    "radii of a goal": {
        **{k: v for k, v in {**_NO_NUMBER, **_NOT_FINITE}.items() if v != "1,5"}, "0": "0", "-1": "-1", "a comma": ",",
        "one of them is negative": "0.5,-1", "one of them is no number": "0.5,x",
    },
    "budget": {**_NO_WHOLE, "0": "0", "-1": "-1"},
    "shape": {
        **_NO_NUMBER, **_NOT_FINITE, "a comma": ",", "ends with a comma": "1,8,8,", "zero": "0,8,8", "negative": "-1,8,8",
        "fraction": "1.5,8,8", "nan in it": "nan,8,8", "inf in it": "inf,8,8", "two sides": "8,8", "four sides": "1,1,8,8",
        "other channels": "3,8,8", "other sides": "1,7,9", "a bomb": "1,1000000,1000000", "10**30": f"1,8,{10**30}",
    },
    "shard": {
        **{k: v for k, v in _NO_NUMBER.items() if v != "1/2"}, "one number": "1", "a slash": "/", "no count": "1/", "no number": "/2", "two slashes": "1/2/3",
        "zero": "0/2", "zeros": "0/0", "beyond": "3/2", "negative": "-1/2", "fractions": "1.0/2", "nan": "nan/2",
        "more than inputs": "1/99", "huge": f"1/{10**30}", "superscript": "¹/²",
    },
    "radii": {
        **_NO_NUMBER, **_NOT_FINITE, "a comma": ",", "an empty one": "0,,1", "-1": "-1", "a colon": ":", "two colons": "::",
        "two parts": "0:1", "four parts": "0:1:1:1", "step 0": "0:1:0", "step below 0": "0:1:-1", "step nan": "0:1:nan",
        "backwards": "1:0:0.1", "last inf": "0:inf:1", "first nan": "nan:1:1", "last nan": "0:nan:1", "first -1": "-1:1:1",
        "last 1e400": "0:1e400:1", "step 1e-400": "0:1:1e-400", "too many": "0:1:1e-9", "huge": "0:1e308:1e-308",
        "both inf": "inf:inf:1", "all inf": "inf:inf:inf", "step inf": "0:1:inf", "a word in it": "0:x:1", "low line": "0:1_0:1", "other digits": "٠:١:١",
    },
    "ray address": {
        "nothing": "", "a space": " ", "a word": "magic", "NUL": _NUL, "long": _LONG, "dots": "../..", "no port": "10.0.0.1",
        "no host": ":6379", "a port that is none": "10.0.0.1:x", "a port beyond all": "10.0.0.1:65536", "a path": "/ray", "bytes": _BYTES,
        "other digits": "10.0.0.1:٣", "two ports": "10.0.0.1:1:2", "another scheme": "http://10.0.0.1:6379",
    },
    "any text": {},  # a note, or a name that is only looked up
    "name": dict(_NO_NAME),
    "own name": {**_NO_NAME, **_NO_CODE},
    "split": {"nothing": "", "a space": " ", "unknown": "magic", "NUL": _NUL, "long": _LONG, "bytes": _BYTES},
    "device": {
        **_NO_NAME, "tpu0": "tpu0", "cuda:99": "cuda:99", "cuda:-1": "cuda:-1", "cuda:x": "cuda:x", "meta": "meta",
        "number": "99", "vulkan": "vulkan", "ipu": "ipu", "hpu": "hpu", "xla": "xla", "privateuseone": "privateuseone",
        "opengl": "opengl", "maia": "maia", "lazy": "lazy", "fpga": "fpga", "colon": ":", "cpu and more": "cpu:x",
    },
    "model": {
        **_NO_NAME, **_NO_CODE, "no network": "ready:", "unknown network": "ready:magic", "no setting": "ready:small_cnn,",
        "unknown setting": "ready:small_cnn,magic=1", "setting without a value": "ready:small_cnn,width=",
        "setting no number": "ready:small_cnn,width=x", "setting 0": "ready:small_cnn,width=0",
        "setting -1": "ready:small_cnn,width=-1", "setting nan": "ready:small_cnn,width=nan",
        "setting huge": f"ready:small_cnn,width={10**30}", "a bomb": "ready:small_cnn,width=10000000",
        "setting twice": "ready:small_cnn,width=1,width=2", "setting a list": "ready:small_cnn,width=[1]",
        "no file": "trained:", "no program": "export:", "no onnx": "onnx:", "no name": "timm:", "no hub name": "hf:",
        **{f"trained {label}": f"trained:{value}" for label, value in _NO_FILE.items() if value},
        **{f"onnx {label}": f"onnx:{value}" for label, value in _NO_FILE.items() if value},
        **{f"export {label}": f"export:{value}" for label, value in _NO_FILE.items() if value},
        **{f"routed {label}": f"routed:{value}" for label, value in _NO_FILE.items() if value},
    },
    "data": {
        **_NO_NAME, **_NO_CODE, "digits with a path": "digits:x", "no npz": "npz:", "no folder": "imagefolder:",
        **{f"npz {label}": f"npz:{value}" for label, value in _NO_FILE.items() if value},
        **{f"cifar10 {label}": f"cifar10:{value}" for label, value in _NO_FILE.items() if value},
        **{f"imagefolder {label}": f"imagefolder:{value}" for label, value in _NO_FILE.items() if value},
    },
    "denoiser": {
        **_NO_NAME, **_NO_CODE, "no folder": "diffusers:", "no file": "trained:", "a classifier": "trained:{world}/net.safetensors",
        **{f"trained {label}": f"trained:{value}" for label, value in _NO_FILE.items() if value},
    },
    "weights": {**_NO_FILE, "a run": "{world}/run", "other format": "{world}/data.npz"},
    "run": {**_NO_FILE, "no run": "{world}/empty", "rows alone": "{world}/rows-only", "a file of other projects": "{world}/other.tsv"},
    "settings": {**_NO_FILE, "a run": "{world}/run", "a manifest": "{world}/run/manifest.json", "weights": "{world}/net.safetensors"},
    "results": {**_NO_FILE, "no run": "{world}/empty", "rows alone": "{world}/rows-only", "weights": "{world}/net.safetensors"},
    "results file": {**_NO_FILE, "a run": "{world}/run", "weights": "{world}/net.safetensors"},
    "shard of a run": {**_NO_FILE, "the other again": "{world}/shard-2", "a whole run": "{world}/run"},
    "new directory": {**_NO_PLACE, "a file": "{world}/text.txt", "/dev/null": "/dev/null", "a pipe": "{world}/pipe", "a run": "{world}/run"},
    "attack directory": {**_NO_PLACE, "a file": "{world}/text.txt", "/dev/null": "/dev/null", "a pipe": "{world}/pipe", "another run": "{world}/plain"},
    "weights of a trained model": {"missing": "{world}/nowhere", "a file": "{world}/text.txt", "NUL": _NUL},
    "demo directory": {**_NO_PLACE, "a file": "{world}/text.txt", "/dev/null": "/dev/null", "a pipe": "{world}/pipe"},
    "tracker": {**_NO_NAME, "unknown": "magic:a", "no setting": "tensorboard:", "NUL": f"tensorboard:{_NUL}", "a file": "tensorboard:{world}/text.txt"},
    "names of runs": {"nothing": "", "a space": " ", "a comma": ",", "three": "a,b,c", "twice": "a,a"},
    "picture": {**{k: f"{v}.png" if v not in ("", ".") else v for k, v in _NO_PLACE.items()}, "no suffix": "a", "gif": "a.gif", "a directory": "{world}/empty"},
    "page": {**_NO_PLACE, "a directory": "{world}/empty", "/dev/full": "/dev/full"},
    "weights to write": {**_NO_PLACE, "a directory": "{world}/empty", "no suffix": "a", "pt": "a.pt", "/dev/full": "/dev/full"},
}  # fmt: skip

# Data that take no class index refuse any; a file that is none is refused by its content (tests/data/test_class_index.py).
BAD["class index"] = {
    **_NO_PLACE,
    "a pipe": "{world}/pipe",
    "a device without end": "/dev/zero",
    "a text": "{world}/text.txt",
    "a directory": "{world}/empty",
}

KINDS: dict[str, str] = {
    "--sigma": "positive", "--alpha": "fraction", "--n0": "planning samples", "--n": "samples", "--batch": "whole from 1",
    "--skip": "whole from 1", "--max": "whole from 1", "--seed": "whole from 0", "--image-size": "image size",
    "--class-index": "class index", "--rows": "rows",
    "--temperature": "positive", "--mass": "positive", "--lipschitz": "positive or inf", "--width": "width",
    "--mean": "numbers", "--std": "numbers", "--shape": "shape", "--shard": "shard", "--radii": "radii",
    "--confidence": "fraction", "--epochs": "whole from 1", "--lr": "positive", "--weight-decay": "from 0",
    "--epsilon": "positive", "--steps": "whole from 1", "--samples": "whole from 1", "--margin": "from 0",
    "--step-size": "positive", "--mix-step": "whole from 0", "--lbd": "from 0", "--eta": "from 0", "train --beta": "positive", "--gamma": "positive",
    "--workers": "whole from 1", "train --workers": "whole from 0", "--cpus-per-worker": "whole from 1",
    "--gpus-per-worker": "from 0", "--ray": "ray address", "--inputs": "whole from 1", "--copies": "whole from 1",
    "--method": "own name", "--bound": "own name", "--map": "own name", "--form": "own name", "--noise": "own name",
    "--objective": "own name", "--optimizer": "name", "--schedule": "name", "--augment": "name",
    "--settings": "settings", "--like": "run", "calibrate --objective": "name", "calibrate --epsilon": "from 0",
    "--autocast": "name", "--precision": "name", "--format": "name", "--kind": "name", "--split": "split", "--test-split": "split",
    "--device": "device", "--model": "model", "--data": "data", "--denoiser": "denoiser", "--weights": "weights",
    "--out": "new directory", "demo --out": "demo directory", "train --out": "weights to write", "plot --out": "picture", "--plot": "picture",
    "report --out": "page", "calibrate --out": "page", "train --sigma": "from 0", "import --n": "planning samples",
    "--radius": "from 0", "--names": "names of runs", "--tracker": "tracker", "safe run": "run", "safe --out": "page", "export run": "run", "export --out": "page",
    "--restarts": "whole from 1", "--beta": "fraction", "--target-radius": "radii of a goal", "--tolerance": "positive", "--budget": "budget", "--farthest": "positive", "attack --out": "attack directory",
    "attack --weights": "weights of a trained model", "attack --denoiser": "own name", "attack run": "run",
    "recertify run": "run", "verify run": "run", "report runs": "run", "merge shards": "shard of a run", "import file": "results file",
    "analyze runs": "results", "plot runs": "results", "compare first": "results", "compare second": "results",
    "import --data": "any text", "import --split": "any text", "import --method": "any text", "report --data": "any text",
    "radius p_a": "probability", "radius p_b": "probability",
}  # fmt: skip

# Options that need another one, so that it is they that are refused.
WITH: dict[str, dict[str, str]] = {
    "--temperature": {"--method": "fixed", "--map": "softmax"},
    "--mass": {"--method": "fixed", "--map": "softmax"},
    "--form": {"--method": "fixed", "--map": "softmax"},
    "--map": {"--method": "lvm"},
    "--bound": {"--method": "lvm"},
    "predict --map": {"--method": "fixed"},
    "predict --bound": {"--method": "fixed", "--map": "softmax"},
    "calibrate --map": {"--method": "fixed"},
    "calibrate --temperature": {"--method": "fixed"},
    "calibrate --mass": {"--method": "fixed"},
    "calibrate --n": {"--method": "fixed"},
    "calibrate --alpha": {"--method": "fixed"},
    "calibrate --objective": {"--method": "fixed"},
    "calibrate --epsilon": {"--method": "fixed", "--objective": "accuracy"},
    "--mean": {"--std": "0.5", "--model": "ready:small_cnn,width=2"},
    "--std": {"--mean": "0.5", "--model": "ready:small_cnn,width=2"},
    "--weights": {"--model": "ready:small_cnn,width=2"},
    "--epsilon": {"--objective": "smoothadv"},
    "--steps": {"--objective": "smoothadv"},
    "--samples": {"--objective": "smoothadv"},
    "--step-size": {"--objective": "smoothmix"},
    "--mix-step": {"--objective": "smoothmix"},
    "--lbd": {"--objective": "consistency"},
    "--eta": {"--objective": "consistency"},
    "train --beta": {"--objective": "macer"},
    "--gamma": {"--objective": "macer"},
    "--margin": {"--objective": "margin", "--model": "ready:sandwich_small"},
    "--cpus-per-worker": {"--ray": "local"},
    "--gpus-per-worker": {"--ray": "local"},
    # The method of a run that is verified is its own.
    "verify --map": {},
    "verify --bound": {},
    "verify --form": {},
}

# What is good for an option though it is bad for its kind.
GOOD = {("--skip", "10**400"), ("--max", "10**400"), ("--inputs", "10**400")}  # more than there are: all


# The first option of a kind is given every bad value, and each of the others one value of so many, in turn.
_PART = 4
# These would be waited for; every option that takes a file is given them.
_WAITS = ("a pipe", "a device without end")


def option_cases() -> Iterator[tuple[str, list[str]]]:
    """The name and the words of each case; the words may name ``{world}``."""
    used: Counter[str] = Counter()
    for command, call in BASES.items():
        for name in names_of(command):
            kind = KINDS.get(f"{command} {name}") or KINDS[name]
            turn, used[kind] = used[kind], used[kind] + 1
            for place, (label, value) in enumerate(BAD[kind].items()):
                left_out = turn and (place + turn) % _PART and not label.endswith(_WAITS)
                if left_out or (name, label) in GOOD:
                    continue
                others = WITH.get(f"{command} {name}", WITH.get(name, {}))
                needed = {key: word for key, word in others.items() if key in names_of(command)}
                changed = call._replace(options={**call.options, **needed}).changed(name, value)
                yield f"{command} {name} {label}", changed


@functools.cache
def names_of(command: str) -> list[str]:
    """The options and arguments of a command that take a value, as typer knows them."""
    from tests.cli.helpers import commands

    parameters = commands()[command].params
    return [parameter.opts[0] for parameter in parameters if not getattr(parameter, "is_flag", False)]
