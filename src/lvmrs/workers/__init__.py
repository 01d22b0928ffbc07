"""Who computes the rows of a job: this process, several processes of this machine, or a Ray cluster.

The functions of ``lvmrs.jobs`` take one of these. Rows are the same for all of them.

>>> from lvmrs.workers import Here, Processes, Ray
>>> Here().size, Processes(2).size, Ray(workers=8).size
(1, 2, 8)
"""

from lvmrs.workers.base import Here, Workers, checked_workers
from lvmrs.workers.on_ray import Ray
from lvmrs.workers.processes import Processes
from lvmrs.workers.when_long import WhenLong

__all__ = ["Here", "Processes", "Ray", "WhenLong", "Workers", "checked_workers"]
