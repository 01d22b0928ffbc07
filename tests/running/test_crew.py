"""Threads that work ahead: results in order, errors in their turn, nothing left behind."""

import threading
import time
from collections.abc import Iterator

import pytest
import torch

from lvmrs.engine.threads import Crew, Work, cores, torch_threads


def works(count: int, *, fails: int = -1, ends: int = -1, owners: int = 3) -> Iterator[Work[int]]:
    def do(number: int) -> int:
        time.sleep(0.002 * (number % 3))
        if number == fails:
            raise ArithmeticError(str(number))
        return number

    for number in range(count):
        if number == ends:
            raise LookupError(str(number))
        yield Work(number // owners, lambda number=number: do(number), elsewhere=True)  # type: ignore[misc]


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_results_come_in_order(workers: int) -> None:
    with Crew(workers) as crew:
        line, found = crew.line(works(20)), []
        while line.goes_on():
            found.append(line.take())
    assert found == list(range(20))


@pytest.mark.parametrize("workers", [1, 3])
def test_errors_are_raised_in_their_turn(workers: int) -> None:
    with Crew(workers) as crew:
        line = crew.line(works(20, fails=7))
        assert [line.take() for _ in range(7) if line.goes_on()] == list(range(7))
        with pytest.raises(ArithmeticError, match="7"):
            line.take() if line.goes_on() else None
        line = crew.line(works(20, ends=4))
        assert [line.take() for _ in range(4) if line.goes_on()] == list(range(4))
        assert not line.is_of(1)
        with pytest.raises(LookupError, match="4"):
            line.goes_on()


@pytest.mark.parametrize("workers", [1, 3])
def test_what_is_left_out_is_of_one_owner(workers: int) -> None:
    with Crew(workers) as crew:
        line = crew.line(works(9))
        assert line.goes_on()
        assert line.take() == 0
        line.leave(0)
        assert line.is_of(1)
        assert line.take() == 3
        line.close()
        assert not line.goes_on()


def test_work_goes_on_while_a_result_is_used() -> None:
    begun = []

    def do(number: int) -> int:
        begun.append(number)
        return number

    def some() -> Iterator[Work[int]]:
        for number in range(100):
            yield Work(0, lambda number=number: do(number), elsewhere=True)  # type: ignore[misc]

    with Crew(2) as crew:
        line = crew.line(some())
        assert line.goes_on()
        assert line.take() == 0
        end = time.monotonic() + 10
        while len(begun) < 10 and time.monotonic() < end:
            time.sleep(0.01)
        assert len(begun) >= 10
        assert len(begun) < 100  # but not without bound
        line.close()


def test_work_that_stays_here_is_done_here_and_one_ahead_if_it_is_only_queued() -> None:
    where = []

    def some(ahead: int) -> Iterator[Work[None]]:
        for _ in range(5):
            yield Work(0, lambda: where.append(threading.current_thread()), elsewhere=False, ahead=ahead)

    with Crew(3) as crew:
        for ahead in (1, 2):
            where.clear()
            line = crew.line(some(ahead))
            for taken in range(1, 6):
                assert line.goes_on()
                line.take()
                assert len(where) == min(5, taken + ahead - 1)
    assert set(where) == {threading.current_thread()}


def test_torch_has_its_threads_again() -> None:
    before, alive = torch.get_num_threads(), threading.active_count()
    torch.set_num_threads(3)
    try:
        with Crew(2) as crew:
            line = crew.line(Work(0, torch.get_num_threads, elsewhere=True) for _ in range(4))
            assert [line.take() for _ in range(4) if line.goes_on()] == [1] * 4
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 3
        seen: list[int] = []
        other = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
        other.start()
        other.join()
        assert seen == [3]  # also in threads that begin later
        with torch_threads(1):
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 3
        assert 1 <= cores() <= 3
    finally:
        torch.set_num_threads(before)
    assert threading.active_count() == alive
