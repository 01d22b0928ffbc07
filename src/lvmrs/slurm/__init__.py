"""Runs on a Slurm cluster: the shard of an array task, and arrays that are submitted, requeued and merged.

>>> from lvmrs.slurm import shard_of_task
>>> shard_of_task({"SLURM_ARRAY_TASK_ID": "6", "SLURM_ARRAY_TASK_MIN": "5", "SLURM_ARRAY_TASK_COUNT": "4"})
(2, 4)
"""

from lvmrs.slurm.array import shard_directory, shard_of_task
from lvmrs.slurm.launching import Launched, launch

__all__ = ["Launched", "launch", "shard_directory", "shard_of_task"]
