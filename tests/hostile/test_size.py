"""The catalogue of bad inputs is as large as it should be, and covers all commands and public rooms.

To add a case, add a value or a line to a table: ``options`` (words on the command line), ``damaged_runs``,
``damaged_inputs`` and ``user_code`` (files), ``bad_values``, ``public_math`` and ``public_rooms`` (arguments).
"""

from tests.cli.helpers import commands
from tests.hostile.files import READERS, file_cases
from tests.hostile.functions import PUBLIC, function_cases
from tests.hostile.options import BASES, option_cases

ROOMS = (
    "maps", "radius", "lipschitz", "moments", "noise", "prove", "scores", "data", "models", "runs",
    "training", "attacks", "analysis", "report", "plots", "testing", "registry", "Run", "SmoothedClassifier", "Terms",
    "RoutedClassifier",
)  # fmt: skip


def test_there_are_at_least_900_cases_each_with_a_name_of_its_own() -> None:
    names = [case[0] for cases in (option_cases(), file_cases(), function_cases()) for case in cases]
    assert len(names) >= 900
    assert len(set(names)) == len(names)


def test_all_commands_are_tried() -> None:
    # What is typed well after `launch` goes to Slurm; tests/workers/test_slurm.py has what is refused.
    assert set(BASES) | {"launch"} == set(commands())


def test_every_format_and_every_room_is_tried() -> None:
    assert {damage.format for _, damage, _ in file_cases()} == set(READERS)
    tried = {name.partition(".")[0] for name in PUBLIC}
    assert [room for room in ROOMS if room not in tried] == []
