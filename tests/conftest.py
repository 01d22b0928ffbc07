"""Property tests draw the same examples each time, on any machine: a failure is a finding, not the weather."""

import torch
from hypothesis import settings

# The tests run in several processes; threads in each would only get in each other's way.
torch.set_num_threads(1)

settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")
