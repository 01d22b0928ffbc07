"""Workers compute the rows of a job: this process, processes of this machine, a Ray cluster, or tasks of Slurm.

The functions of ``lvmrs.runs`` take one of these. Rows are the same for all of them. ``lvmrs.runs.workers.slurm``
submits a command in shards.

>>> from lvmrs.runs.workers import Here, Processes, Ray
>>> Here().size, Processes(2).size, Ray(workers=8).size
(1, 2, 8)
"""

from lvmrs.runs.workers.base import Deferred, Here, Workers, checked_workers
from lvmrs.runs.workers.processes import Processes
from lvmrs.runs.workers.ray import Ray

__all__ = ["Deferred", "Here", "Processes", "Ray", "Workers", "checked_workers"]
