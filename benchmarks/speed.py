"""Everything that docs/speed.md says about speed, measured in one go: about 70 minutes on two quiet cores.

    python benchmarks/speed.py [--quick] [--only contests,start] [--json build/bench.json] [--write docs/speed.md]

Parts: contests (all contestants on each network), methods, begun (under load, then idle), start, recertify, growth,
load (the contests beside two busy processes). The file is written after each part. Afterwards every number is compared
with its target. ``--tables FILE`` measures nothing and writes the tables of an earlier measurement.
"""

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

from suite.growth_plot import plot
from suite.machine import machine, words
from suite.page import replaced, tables
from suite.parts import PARTS, Scale
from suite.targets import verdicts


def measure(scale: Scale, parts: list[str], path: Path) -> dict[str, Any]:
    results: dict[str, Any] = {"machine": machine(), "quick": scale.quick, "seconds": {}}
    print(words(results["machine"]), flush=True)
    if results["machine"]["load"] > 0.5:
        print("caution: other processes use this machine; measure on an idle one", flush=True)
    for name in parts:
        start = time.perf_counter()
        results[name] = PARTS[name](scale)
        results["seconds"][name] = round(time.perf_counter() - start, 1)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"{name}: {results['seconds'][name]:.0f} s, load {os.getloadavg()[0]:.1f}", flush=True)
    return results


def write(results: dict[str, Any], page: Path) -> None:
    page.write_text(replaced(page.read_text(encoding="utf-8"), tables(results)), encoding="utf-8")
    if "growth" in results:
        plot(results["growth"], page.with_name("speed-growth.svg"))


def _parts(text: str) -> list[str]:
    names = text.split(",")
    if unknown := [name for name in names if name not in PARTS]:
        raise argparse.ArgumentTypeError(f"there is no part {unknown[0]}; choose of {', '.join(PARTS)}")
    return names


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few samples, one round and one network, to try it out")
    parser.add_argument("--only", type=_parts, default=list(PARTS), help="parts, with commas between them")
    parser.add_argument("--networks", help="networks of the contests, with commas between them; by default all")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, default=Path("build/bench.json"), help="where the numbers go")
    parser.add_argument("--write", type=Path, help="put the tables into this page, between its marks")
    parser.add_argument(
        "--tables", type=Path, metavar="FILE", help="numbers of an earlier measurement; measure nothing"
    )
    given = parser.parse_args()
    default = ("small_cnn",) if given.quick else Scale.networks
    networks = default if given.networks is None else tuple(given.networks.split(","))
    scale = Scale(quick=given.quick, rounds=1 if given.quick else given.rounds, networks=networks)
    results = json.loads(given.tables.read_text(encoding="utf-8")) if given.tables else None
    if results is None:
        results = measure(scale, given.only, given.json)
    print(tables(results))
    if given.write:
        write(results, given.write)
    missed = [each for each in verdicts(results) if each.word == "missed"]
    for each in missed:
        print(f"missed: {each.target.what}: {each.found}, wanted {each.wanted}")
    print(f"{len(missed)} targets missed" if missed else "no target missed")


if __name__ == "__main__":
    main()
