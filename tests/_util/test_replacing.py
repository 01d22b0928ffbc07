"""Files that are all there, or as they were."""

import os
from pathlib import Path

import pytest

from lvmrs._util.files import replacing


def test_a_file_is_replaced_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "it"
    path.write_bytes(b"before")
    with replacing(path) as file:
        file.write(b"after")
        file.flush()
        assert path.read_bytes() == b"before"
    assert path.read_bytes() == b"after"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("stopped_by", [OSError, KeyboardInterrupt])
def test_what_was_there_stays_where_writing_fails(tmp_path: Path, stopped_by: type[BaseException]) -> None:
    path = tmp_path / "it"
    path.write_bytes(b"before")

    def writing() -> None:
        with replacing(path) as file:
            file.write(b"aft")
            raise stopped_by

    with pytest.raises(stopped_by):
        writing()
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_directory_is_not_replaced(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError), replacing(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_device_or_pipe_is_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="a device or a pipe"), replacing(pipe):
        pass
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]
