"""Threads that work ahead: results in order, errors in their turn, nothing left behind."""

import threading
import time
from collections.abc import Iterator

import pytest
import torch

from lvmrs.engine.threads import ThreadPool, Work, cores, torch_threads


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
    with ThreadPool(workers) as pool:
        queue, found = pool.queue(works(20)), []
        while queue.has_more():
            found.append(queue.take())
    assert found == list(range(20))


@pytest.mark.parametrize("workers", [1, 3])
def test_errors_are_raised_in_their_turn(workers: int) -> None:
    with ThreadPool(workers) as pool:
        queue = pool.queue(works(20, fails=7))
        assert [queue.take() for _ in range(7) if queue.has_more()] == list(range(7))
        with pytest.raises(ArithmeticError, match="7"):
            queue.take() if queue.has_more() else None
        queue = pool.queue(works(20, ends=4))
        assert [queue.take() for _ in range(4) if queue.has_more()] == list(range(4))
        assert not queue.is_next_of(1)
        with pytest.raises(LookupError, match="4"):
            queue.has_more()


@pytest.mark.parametrize("workers", [1, 3])
def test_what_is_left_out_is_of_one_owner(workers: int) -> None:
    with ThreadPool(workers) as pool:
        queue = pool.queue(works(9))
        assert queue.has_more()
        assert queue.take() == 0
        queue.skip(0)
        assert queue.is_next_of(1)
        assert queue.take() == 3
        queue.close()
        assert not queue.has_more()


def test_work_goes_on_while_a_result_is_used() -> None:
    begun = []

    def do(number: int) -> int:
        begun.append(number)
        return number

    def some() -> Iterator[Work[int]]:
        for number in range(100):
            yield Work(0, lambda number=number: do(number), elsewhere=True)  # type: ignore[misc]

    with ThreadPool(2) as pool:
        queue = pool.queue(some())
        assert queue.has_more()
        assert queue.take() == 0
        end = time.monotonic() + 10
        while len(begun) < 10 and time.monotonic() < end:
            time.sleep(0.01)
        assert len(begun) >= 10
        assert len(begun) < 100  # but not without bound
        queue.close()


def test_work_that_stays_here_is_done_here_and_one_ahead_if_it_is_only_queued() -> None:
    where = []

    def some(ahead: int) -> Iterator[Work[None]]:
        for _ in range(5):
            yield Work(0, lambda: where.append(threading.current_thread()), elsewhere=False, ahead=ahead)

    with ThreadPool(3) as pool:
        for ahead in (1, 2):
            where.clear()
            queue = pool.queue(some(ahead))
            for taken in range(1, 6):
                assert queue.has_more()
                queue.take()
                assert len(where) == min(5, taken + ahead - 1)
    assert set(where) == {threading.current_thread()}


def test_torch_has_its_threads_again() -> None:
    before, alive = torch.get_num_threads(), threading.active_count()
    torch.set_num_threads(3)
    try:
        with ThreadPool(2) as pool:
            queue = pool.queue(Work(0, torch.get_num_threads, elsewhere=True) for _ in range(4))
            assert [queue.take() for _ in range(4) if queue.has_more()] == [1] * 4
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
