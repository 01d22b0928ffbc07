"""Workers compute the rows of a job: this process, processes of this machine, a Ray cluster, or tasks of Slurm.

The functions of ``lvmrs.jobs`` take one of these. Rows are the same for all of them. ``lvmrs.workers.slurm`` submits a
command in shards.

>>> from lvmrs.workers import Here, Processes, Ray
>>> Here().size, Processes(2).size, Ray(workers=8).size
(1, 2, 8)
"""

from lvmrs.workers.base import Deferred, Here, Workers, checked_workers
from lvmrs.workers.processes import Processes
from lvmrs.workers.ray import Ray

__all__ = ["Deferred", "Here", "Processes", "Ray", "Workers", "checked_workers"]
