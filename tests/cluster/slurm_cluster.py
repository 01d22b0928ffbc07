"""A real Slurm of one node on this machine, with a munge of its own: slurmctld, slurmd, slurm-client and munge."""

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

from tests.cluster.guarded import guarded, missing_programs, remove
from tests.processes import until

__all__ = ["SlurmCluster"]

ROOT = Path(__file__).parents[2]
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel")
CONFIGURATION = """
ClusterName=lvmrs
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthInfo=socket={folder}/munge.socket
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
MpiDefault=none
JobRequeue=1
KillWait=5
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 GraceTime=5
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=9 PreemptMode=OFF
"""


class SlurmCluster:
    """One node that runs four tasks at a time; use it in a ``with`` block, as root.

    A job in the partition "urgent" preempts those in the partition "main", which is the default.
    """

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))  # paths of sockets must be short
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> "SlurmCluster":
        assert not (missing := missing_programs(*PROGRAMS)), (
            f"install slurmctld, slurmd, slurm-client and munge: {missing}"
        )
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes):
            process.communicate()  # its input is closed, so that it ends with all that it has started
        remove(str(self._folder))

    @property
    def environment(self) -> dict[str, str]:
        """What commands need to find it."""
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        return {
            **os.environ,
            "SLURM_CONF": str(self._folder / "slurm.conf"),
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": path,
        }

    def run(self, *words: str) -> str:
        """What a command of Slurm prints."""
        done = subprocess.run(words, env=self.environment, capture_output=True, text=True, check=False)  # noqa: S603
        assert not done.returncode, (words, done.stderr)
        return done.stdout

    def log(self) -> str:
        """All that the programs of the cluster have said."""
        return "\n".join(file.read_text(errors="replace") for file in sorted(self._folder.glob("*.log")))

    def _start(self) -> None:
        folder = self._folder
        folder.chmod(0o755)
        for name in ("state", "spool", "munge"):
            (folder / name).mkdir()
        key = folder / "munge" / "key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        for path in (folder, folder / "munge", key):
            shutil.chown(path, "munge", "munge")
        ports = [_free_port(), _free_port()]
        host = socket.gethostname().partition(".")[0]
        (folder / "slurm.conf").write_text(CONFIGURATION.format(host=host, folder=folder, ports=ports))
        munge = {name: f"{folder}/munge/{name}" for name in ("log-file", "pid-file", "seed-file")}
        self._program(
            "munged",
            *("runuser", "-u", "munge", "--", "munged", "--foreground", f"--key-file={key}"),
            f"--socket={folder}/munge.socket",
            *(f"--{name}={place}" for name, place in munge.items()),
        )
        until((folder / "munge.socket").exists, seconds=30)
        shutil.chown(folder, "root", "root")
        self._program("slurmctld", "slurmctld", "-D", "-f", f"{folder}/slurm.conf")
        self._program("slurmd", "slurmd", "-D", "-f", f"{folder}/slurm.conf")
        until(self._is_idle, seconds=60)

    def _program(self, name: str, *words: str) -> None:
        folder = None if self._processes else self._folder  # the first ends last, and removes it
        self._processes.append(guarded(words, self.environment, self._folder / f"{name}.log", folder))

    def _is_idle(self) -> bool:
        assert all(process.poll() is None for process in self._processes), self.log()
        words = ["sinfo", "-h", "-o", "%T"]
        asked = subprocess.run(  # noqa: S603
            words, env=self.environment, capture_output=True, text=True, check=False
        )
        return asked.stdout.strip() == "idle"


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
