"""Files that go with a task: which go, and which of them a machine takes from its own disk."""

import os
from pathlib import Path

import pytest

from lvmrs.workers.shipping import lacking, shipped


def test_only_files_that_can_be_read_go(tmp_path: Path) -> None:
    net = tmp_path / "nets.py"
    net.write_text("import neighbour")
    (tmp_path / "neighbour.py").write_text("SCALE = 1.0")
    (tmp_path / "gone.py").symlink_to(tmp_path / "nowhere.py")
    (tmp_path / "link.py").symlink_to(tmp_path / "neighbour.py")
    (tmp_path / "folder.py").mkdir()
    os.mkfifo(tmp_path / "pipe.py")
    secret = tmp_path / "secret.py"
    secret.write_text("")
    secret.chmod(0)
    here = {Path(name).name for name in shipped([net])}
    assert here == {"nets.py", "neighbour.py", "link.py"} | ({"secret.py"} if os.access(secret, os.R_OK) else set())
    with pytest.raises(FileNotFoundError):
        shipped([net, tmp_path / "gone.py"])


def test_a_file_of_the_same_path_must_have_the_same_bytes(tmp_path: Path) -> None:
    net, neighbour, weights = (tmp_path / name for name in ("nets.py", "neighbour.py", "w.pt"))
    for file in (net, neighbour, weights):
        file.write_text(file.name)
    sent = shipped([net, weights])
    assert not lacking(sent)
    neighbour.write_text("another")
    assert set(lacking(sent)) == {str(net), str(neighbour)}, "code goes together"
    neighbour.unlink()
    assert set(lacking(sent)) == {str(net), str(neighbour)}
    neighbour.write_text("neighbour.py")
    weights.write_text("another")
    assert lacking(sent) == {str(weights): b"w.pt"}
