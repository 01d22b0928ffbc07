"""The options that choose the workers: this process, several processes, or a Ray cluster."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from lvmrs.cli.console import tell
from lvmrs.errors import InvalidArgumentError

if TYPE_CHECKING:
    from lvmrs.runs.workers import Ray, Workers

__all__ = [
    "CpusPerWorker",
    "GpusPerWorker",
    "RayAddress",
    "WorkerCount",
    "check_gpus",
    "chosen_workers",
    "gpus_of_worker",
    "ray_of_this_machine",
    "with_address",
]

_ANY = "auto"

RayAddress = Annotated[
    Optional[str],
    typer.Option(
        "--ray",
        metavar="[ADDRESS]",
        help="Compute on a Ray cluster: at this address, or one that runs on this machine, or else one started here.",
    ),
]
WorkerCount = Annotated[
    Optional[int],
    typer.Option("--workers", help="Number of workers, on the Ray cluster or as processes of this machine."),
]
CpusPerWorker = Annotated[Optional[int], typer.Option("--cpus-per-worker", help="With --ray: processors of a worker.")]
GpusPerWorker = Annotated[
    Optional[float],
    typer.Option("--gpus-per-worker", help="With --ray: GPUs of a worker; by default 1 if --device is a GPU."),
]


def with_address(words: list[str]) -> list[str]:
    """Give ``--ray`` a value where the command line has none, since typer has no options with an optional value.

    >>> with_address(["certify", "--ray", "--workers", "2"])
    ['certify', '--ray=auto', '--workers', '2']
    """
    after = [*words[1:], "-"][: len(words)]
    return [
        f"--ray={_ANY}" if word == "--ray" and following.startswith("-") else word
        for word, following in zip(words, after, strict=True)
    ]


def gpus_of_worker(given: float | None, device: str | None) -> float:
    """Number of GPUs of a worker; by default one if the model runs on a GPU."""
    if given is not None:
        return given
    if device in (None, "auto"):
        from torch import cuda

        return float(cuda.is_available())
    return float(device.startswith("cuda"))


def check_gpus(given: float | None, device: str | None) -> None:
    """Refuse GPUs for workers if the user typed that the model runs on the CPU."""
    if given and device == "cpu":
        raise InvalidArgumentError("gpus-per-worker has no effect: the model runs on the cpu; leave it out")


def _on_all_gpus() -> Ray | None:
    from torch import cuda

    return ray_of_this_machine(cuda.device_count(), os.cpu_count() or 1, has_ray=find_spec("ray") is not None)


def ray_of_this_machine(gpus: int, cores: int, *, has_ray: bool) -> Ray | None:
    """A Ray on this machine with one worker for each GPU; None if there are not several GPUs, or no Ray.

    Args:
        gpus: number of GPUs of the machine.
        cores: number of cores, which workers share.
        has_ray: whether Ray is installed.
    """
    from lvmrs.runs.workers import Ray

    if gpus < 2 or not has_ray:
        return None
    return Ray("local", workers=gpus, cpus=max(1, cores // gpus), gpus=1.0)


def chosen_workers(
    ray: str | None,
    workers: int | None,
    cpus: int | None = None,
    gpus: float | None = None,
    *,
    device: str | None = "cpu",
    several: bool = False,
    usual: int = 1,
) -> Workers:
    """The workers that were asked for.

    Args:
        ray: the address of a Ray cluster; None for this machine.
        workers: number of workers; None for the usual number.
        cpus: processors of each worker, on Ray.
        gpus: GPUs of each worker, on Ray.
        device: the device that was typed for the model.
        several: whether all GPUs of this machine may be used if no option about workers was typed.
        usual: default number of processes, which are started if this process would take long.
    """
    from lvmrs.runs.workers import Deferred, Here, Processes, Ray

    if several and (ray, workers, cpus, gpus) == (None, None, None, None) and (found := _on_all_gpus()) is not None:
        tell(f"ray    {found.size} GPUs: a Ray is started here, with a worker on each; --device cuda takes one alone")
        return found
    if ray is not None:
        address = None if ray == _ANY else ray
        return Ray(address, workers=workers, cpus=1 if cpus is None else cpus, gpus=gpus_of_worker(gpus, device))
    for name, value in (("cpus-per-worker", cpus), ("gpus-per-worker", gpus)):
        if value is not None:
            raise InvalidArgumentError(f"{name} has no effect without ray; leave it out")
    number = usual if workers is None else workers
    if number == 1:
        return Here()
    return Processes(number) if workers is not None else Deferred(Processes(number))
