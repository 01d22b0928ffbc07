"""What holds for all tests.

Property tests draw the same examples each time, on any machine: a failure is a finding, not the weather. Tests may run
in any order (``--shuffle SEED``), and leave no process behind.
"""

import random
import time
from collections.abc import Iterator

import pytest
import torch
from hypothesis import settings

from lvmrs._util import user_code as _user_code
from lvmrs.registry import PARTS
from tests.processes import adopt_orphans, hear_signals, left_behind

# The tests run in several processes; threads in each would only get in each other's way.
torch.set_num_threads(1)

settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")

hear_signals()
adopt_orphans()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shuffle", type=int, metavar="SEED", help="run the tests in a random order")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if (seed := config.getoption("--shuffle")) is not None:
        random.Random(seed).shuffle(items)  # noqa: S311


@pytest.fixture(scope="session", autouse=True)
def what_torch_compiles_is_kept_with_the_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Torch does not leave what it compiles beside the folders of pytest.

    Pytest removes its folders after a while, also those of tests that were killed.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path_factory.mktemp("inductor")))
        yield


@pytest.fixture(scope="module", autouse=True)
def no_part_of_ones_own_is_left_behind() -> Iterator[None]:
    """What a module of tests adds to the registry, and files that it ran as a user's own, are forgotten after it."""
    before = [dict(names._added) for names in PARTS]
    ran = dict(_user_code._RUN)
    yield
    for names, added in zip(PARTS, before, strict=True):
        names._added.clear()
        names._added.update(added)
    _user_code._RUN.clear()
    _user_code._RUN.update(ran)


@pytest.fixture(scope="module", autouse=True)
def no_process_is_left_behind() -> Iterator[None]:
    before = left_behind()
    yield
    end = time.monotonic() + 10  # a process that is ending may take a moment
    while (left := left_behind().keys() - before.keys()) and time.monotonic() < end:
        time.sleep(0.05)
    assert not left, {number: words for number, words in left_behind().items() if number in left}
