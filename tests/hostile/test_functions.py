"""Bad arguments of public functions: an error of ours with one sentence, and never a number that means nothing."""

import warnings
from pathlib import Path

import pytest

from lvmrs.errors import LvmrsError
from tests.hostile.bad_values import BAD
from tests.hostile.commands import check_nothing_left, check_sentence, limited
from tests.hostile.functions import PUBLIC, function_cases

CASES = {name: rest for name, *rest in function_cases()}


@pytest.mark.parametrize("name", PUBLIC)
def test_the_call_that_is_changed_is_good(name: str, world: Path, here: Path) -> None:
    PUBLIC[name].function(**PUBLIC[name].good(world))


@pytest.mark.parametrize("case", CASES)
def test_a_bad_argument_is_refused(case: str, world: Path, here: Path) -> None:
    name, argument, label = CASES[case]
    public = PUBLIC[name]
    arguments = {**public.good(world), argument: BAD[public.kinds[argument]][label]}
    with limited(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(LvmrsError) as caught:
            public.function(**arguments)
    check_sentence(str(caught.value))
    check_nothing_left(here)
