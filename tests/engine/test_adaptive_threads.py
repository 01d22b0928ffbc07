import torch

from lvmrs.engine.threads import AdaptiveThreads, torch_threads


def test_one_thread_takes_over_where_sharing_is_slow_and_sharing_is_tried_again() -> None:
    now, busy = 0.0, False
    seen: list[tuple[int, bool]] = []

    def pass_() -> None:
        nonlocal now
        threads = torch.get_num_threads()
        seen.append((threads, busy))
        now += 0.1 * (1.0 if threads == 1 else 10.0 if busy else 0.5)  # an undisturbed thread takes .1 s

    adaptive = AdaptiveThreads(0.001, clock=lambda: now)
    with torch_threads(2):
        for moment in (False, True, False):
            busy = moment
            for _ in range(200):
                adaptive.run(pass_, 100)
    idle, loaded, again = seen[:200], seen[200:400], seen[400:]
    assert {threads for threads, _ in idle} == {2}
    assert [threads for threads, _ in loaded[:4]] == [2, 2, 2, 1]
    assert sum(threads == 1 for threads, _ in loaded) > 180
    assert [threads for threads, _ in again[-100:]] == [2] * 100
