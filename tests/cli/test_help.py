"""Help: options under the same headings in every command, in plain text for a terminal of 80 columns."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from lvmrs.cli.options import HEADINGS
from tests.cli.helpers import commands, run

COMMANDS = commands()


def sections(help_text: str) -> dict[str, str]:
    """Return the text under each heading."""
    words = re.split(r"^(\S.*):\n", help_text, flags=re.MULTILINE)[1:]
    return dict(zip(words[::2], words[1::2], strict=True))


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.parametrize("command", COMMANDS)
def test_options_are_under_headings_in_one_order(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(f"{command} --help", capsys)
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    assert all(character.isprintable() or character == "\n" for character in out)
    found = sections(out)
    order = ("Arguments", *HEADINGS)
    assert list(found) == [heading for heading in order if heading in found]
    listed = "\n".join(found.values())
    for parameter in COMMANDS[command].params:
        if parameter.param_type_name == "option":
            assert parameter.rich_help_panel in HEADINGS
            assert len(re.findall(rf"^  (?:-o, )?{parameter.opts[0]}\b(?!-)", listed, flags=re.MULTILINE)) == 1
    columns = {len(line) - len(line.lstrip()) for line in listed.splitlines() if line.startswith("    ")}
    assert len(columns) <= 1, "texts begin in different columns"


def test_certify_has_every_heading(capsys: pytest.CaptureFixture[str]) -> None:
    found = sections(run("certify --help", capsys)[1])
    assert tuple(found) == HEADINGS
    for heading, option in zip(HEADINGS, ("denoiser", "skip", "width", "alpha", "workers", "out"), strict=True):
        assert f"  --{option} " in found[heading]


def test_an_option_means_the_same_where_commands_share_it() -> None:
    """The options of model, data, noise and execution of certify, predict and calibrate are declared once."""
    shared = [{p.opts[0]: p.help for p in COMMANDS[name].params} for name in ("certify", "predict", "calibrate")]
    for name in ("--model", "--weights", "--data", "--skip", "--sigma", "--noise", "--seed", "--device", "--batch"):
        assert len({parameters[name] for parameters in shared}) == 1


def test_options_of_examples_exist() -> None:
    for name, command in COMMANDS.items():
        examples = command.help.split("Examples:")[1].replace("\\\n", " ")
        for line in re.findall(r"lvmrs (.+)", examples):
            verb, *words = line.split()
            verb, words = (words[words.index("--") + 1], words) if "--" in words else (verb, words)
            known = {opt for used in (verb, name) for p in COMMANDS[used].params for opt in p.opts} | {"--"}
            assert {word for word in words if word.startswith("-")} <= known, line


def test_an_unknown_command_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    for word, hint in (("anlyze", "did you mean analyze?"), ("xyz", "lvmrs --help lists the commands")):
        code, out, err = run(word, capsys)
        assert (code, out) == (2, "")
        assert f"No such command '{word}'; {hint}" in err


def test_help_loads_no_torch() -> None:
    code = (
        "import sys\n"
        "from lvmrs.cli import main\n"
        "try:\n"
        "    main(['certify', '--help'])\n"
        "finally:\n"
        "    print('torch' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.endswith("exit.\nFalse\n")


def test_wrong_options_are_refused_before_torch_is_imported(tmp_path: Path) -> None:
    lines = [
        "--model onx:a --sigma 0.5 --out q",
        "--model net.onnx --sigma 0.5 --out q",
        "--model ready:resnet8 --denoiser trained:missing --sigma 0.5 --out q",
        "--model ready:resnet8 --sigma -1 --out q",
        "--model ready:resnet8 --sigma 0.5 --out q --alpha 2",
        "--model ready:resnet8 --sigma 0.5 --out q --n 1",
        "--model ready:resnet8 --sigma 0.5 --out q --method choen",
        "--model ready:resnet8 --sigma 0.5 --out q --noise gaus",
        "--model ready:resnet8 --sigma 0.5 --out q --budget 5 --tolerance 1",
        "--model ready:resnet8 --sigma 0.5 --out q --shard 5",
        "--model ready:resnet8 --sigma 0.5",
        "--model ready:resnet8 --out q",
        "--model ready:resnet8 --out q --method cohen",
        *(
            f"--model ready:resnet8 --sigma 0.5 --out q --{wrong}"
            for wrong in (
                "width wide",
                "width -1",
                "device gpu",
                "device cuda:x",
                "workers 0",
                "skip 0",
                "max 0",
                "split a/b",
                "precision half",
                "lipschitz 0",
                "mean 0.5",
                "std 0.5",
                "mean x --std 1",
                "budget 0",
                "tolerance -1",
                "target-radius x",
                "n0 0",
                "seed -1",
            )
        ),
    ]
    train = [
        f"--model ready:resnet8 --sigma 0.5 --out q.safetensors --{wrong}"
        for wrong in (
            "lr 0",
            "objective gaus",
            "optimizer rmsprop",
            "schedule flat",
            "augment turn",
            "device gpu",
            "epochs 0",
            "workers -1",
            "mean 0.5",
            "split ..",
            "test-split a/b",
        )
    ]
    others = [
        "check --model ready:resnet8 --data digits",
        "check --model ready:resnet8 --data digits --sigma 0.5 --radii x",
        "check --model ready:resnet8 --data digits --sigma 0.5 --budget 0",
        "predict --model ready:resnet8 --data digits",
        "predict --model ready:resnet8 --data digits --sigma 0.5 --alpha 2",
        "calibrate --model ready:resnet8 --data digits",
        "train --model resnet8 --data digits --sigma 0.5 --out q.safetensors",
    ]
    lines = [
        *(f"certify --data digits {line}" for line in lines),
        *(f"train --data digits {line}" for line in train),
        *others,
    ]
    code = (
        "import sys\n"
        "from lvmrs.cli import main\n"
        "for line in sys.argv[1:]:\n"
        "    try:\n"
        "        main(line.split())\n"
        "    except SystemExit as end:\n"
        "        print(end.code, 'torch' in sys.modules)\n"
    )
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", code, *lines], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    ends = dict(zip(lines, map(str.split, done.stdout.splitlines()), strict=True))
    assert [line for line, (_, torch) in ends.items() if torch != "False"] == []
    assert {line.split()[0] for line in done.stdout.splitlines()} == {"1", "2"}
    assert "did you mean onnx:net.onnx?" in done.stderr
    assert "workers must be a whole number of at least 1, got 0\n" in done.stderr
    assert max(map(len, done.stderr.splitlines())) < 400
