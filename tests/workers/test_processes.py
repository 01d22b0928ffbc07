"""Processes of this machine: how many there are."""

from lvmrs.workers import Processes


def test_a_small_task_does_not_make_them_fewer_for_good() -> None:
    workers = Processes(4)
    with workers.doing(abs, most=1) as each:
        assert workers.size == 1
        assert list(each([-3])) == [[3]]
    assert workers.size == 4
