"""Property tests draw the same examples each time, on any machine: a failure is a finding, not the weather."""

from hypothesis import settings

settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")
