"""Build the wheel and the sdist, install the wheel into a clean environment, and use it there.

Run by ``make package``, from the root of the project. What is built stays in ``dist/``; all else is temporary.
"""

import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "constraints.txt"
DIST = ROOT / "dist"

# Certifies one input, and says where the package was imported from.
CERTIFY = """
import torch
import lvmrs
classifier = lvmrs.SmoothedClassifier(lambda x: torch.stack([x.sum(1), -x.sum(1)], dim=1), sigma=0.5, batch=100)
certificate = classifier.certify(torch.ones(4), lvmrs.Cohen(), n0=50, n=500)
assert certificate.prediction == 0 and 0.5 < certificate.radius < 2.0, certificate
print(lvmrs.__file__)
"""
# Results of another project, from which a report is made.
RESULTS = "idx\tlabel\tpredict\tradius\tcorrect\ttime\n0\t1\t1\t0.5\t1\t0:00:01\n1\t0\t1\t0.2\t0\t0:00:01\n"


def run(*command: str | Path, where: Path) -> str:
    """Run a command without the settings of this environment, and return what it printed; stop if it fails."""
    own = {"PIP_CONSTRAINT": str(CONSTRAINTS), "OMP_NUM_THREADS": "1"}
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(  # noqa: S603
        [str(part) for part in command], cwd=where, env=kept | own, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def build(source: Path, kind: str, out: Path) -> Path:
    """Build a ``wheel`` or an ``sdist`` of the project in ``source``, and return its file."""
    run(sys.executable, "-m", "build", "--no-isolation", f"--{kind}", "--outdir", out, source, where=out)
    return next(out.glob({"wheel": "*.whl", "sdist": "*.tar.gz"}[kind]))


def contents(wheel: Path) -> dict[str, str]:
    """The files of a wheel, each with the hash of what is in it."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: hashlib.sha256(archive.read(name)).hexdigest() for name in archive.namelist()}


def differences(first: dict[str, str], second: dict[str, str]) -> list[str]:
    """The files that only one of two wheels has, or that are not the same."""
    return sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))


def package_files() -> set[str]:
    """The files that belong into the wheel."""
    found = (path for path in (ROOT / "src").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(ROOT / "src").as_posix() for path in found}


def check_contents(wheel: Path, sdist: Path, work: Path) -> None:
    """The wheel has the whole package, the sdist the whole project, and the sdist builds the same wheel."""
    held = contents(wheel)
    if missing := sorted(package_files() - held.keys()):
        raise SystemExit(f"{wheel.name} lacks {', '.join(missing)}")
    with tarfile.open(sdist) as archive:
        archive.extractall(work, filter="data")
    source = work / sdist.name.removesuffix(".tar.gz")
    tracked = run("git", "ls-files", where=ROOT).splitlines() if (ROOT / ".git").exists() else []
    if absent := [name for name in tracked if (ROOT / name).exists() and not (source / name).exists()]:
        raise SystemExit(f"{sdist.name} lacks {', '.join(absent)}; add it to include in pyproject.toml")
    again = build(source, "wheel", work)
    if odd := differences(held, contents(again)):
        raise SystemExit(f"the wheel of the sdist differs from that of the project in {', '.join(odd)}")


def check_use(wheel: Path, work: Path) -> None:
    """The installed wheel answers, certifies and reports, away from the project."""
    environment = work / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", environment, where=work)
    python, lvmrs = environment / "bin" / "python", environment / "bin" / "lvmrs"
    pip = (sys.executable, "-m", "pip", "--python", python)
    # Compiling all of torch would take longer than all the rest.
    run(*pip, "install", "--quiet", "--no-compile", "-c", CONSTRAINTS, wheel, where=work)
    version = run(lvmrs, "--version", where=work).split()[-1]
    if f"-{version}-" not in wheel.name:
        raise SystemExit(f"lvmrs --version says {version}, but the wheel is {wheel.name}")
    if "1.2255" not in run(lvmrs, "radius", "0.99", "0.005", "--sigma", "0.5", where=work):
        raise SystemExit("lvmrs radius 0.99 0.005 --sigma 0.5 does not show R2 = 1.2255")
    home = Path(run(python, "-c", CERTIFY, where=work).strip())
    if not home.is_relative_to(environment):
        raise SystemExit(f"lvmrs was imported from {home}, not from the installed wheel")
    (work / "other.tsv").write_text(RESULTS, encoding="utf-8")
    run(lvmrs, "import", "other.tsv", "--sigma", "0.5", "--out", "a", where=work)
    run(lvmrs, "report", "a", "--out", "page.html", where=work)
    if "</html>" not in (work / "page.html").read_text(encoding="utf-8"):
        raise SystemExit("lvmrs report wrote no whole page")


def main() -> None:
    """Build, compare, install, use; say how long each took."""
    DIST.mkdir(exist_ok=True)
    for old in (*DIST.glob("*.whl"), *DIST.glob("*.tar.gz")):
        old.unlink()
    start = time.perf_counter()
    wheel, sdist = build(ROOT, "wheel", DIST), build(ROOT, "sdist", DIST)
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary).resolve()
        check_contents(wheel, sdist, work)
        built = time.perf_counter()
        check_use(wheel, work)
    used = time.perf_counter()
    print(f"{wheel.name}, {sdist.name}: built in {built - start:.0f} s, installed and used in {used - built:.0f} s")


if __name__ == "__main__":
    main()
