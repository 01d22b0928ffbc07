"""The report in a real browser: headless Chromium."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lvmrs.analysis.report import write_report
from lvmrs.analysis.report.page import picture
from lvmrs.cli import main
from lvmrs.record import Row, Run, RunWriter
from tests.browser.chromium import FITS, Browser, kept
from tests.manifests import manifest

pytestmark = pytest.mark.programs
RADII = [0.0, 0.5, 1.0]
CLASSES = ["cat", 'the "quoted" one', "<b>bold</b>", "</script><script>alert(1)</script>", "it's"]


def synthetic(
    path: Path, count: int, seed: int = 0, *, certified: bool = True, clean: bool = False, **settings: Any
) -> Run:
    """A run with made-up rows: nothing is proved here, only shown."""
    rng = np.random.default_rng(seed)
    made = manifest(count, method="LVM", data=None, classes=CLASSES, **settings)
    with RunWriter(path, made) as writer:
        for index in range(count):
            label = int(rng.integers(0, 5))
            predict = (label if rng.random() < 0.7 else int(rng.integers(-1, 5))) if certified else -1
            radius = float(rng.random() * 1.5) if predict >= 0 else 0.0
            temperature = float(10 ** rng.uniform(-2, 1))
            map_ = ["hardmax", "softmax", "sparsemax"][index % 3]
            row = Row(
                index, label, predict, radius, int(label == predict), 0.1, 0.9, 0.05, max(predict, 0), map_,
                temperature, 1.0, "betting", "r2", 0.0005, "*", "0.0005", "this input", label if clean else None,
            )  # fmt: skip
            writer.append(row)
    return writer.run


def noise(side: int, channels: int) -> Callable[[int], str | None]:
    def of(index: int) -> str | None:
        x: NDArray[np.float32] = np.random.default_rng(index).random((channels, side, side), dtype=np.float32)
        return picture(x)

    return of


def not_blank(pixels: NDArray[np.uint8]) -> bool:
    return len(np.unique(pixels.reshape(-1, 3), axis=0)) > 50


@pytest.mark.parametrize("count", [1, 3])
def test_curves_hover_and_toggles(browser: Browser, tmp_path: Path, count: int) -> None:
    runs = [synthetic(tmp_path / f"run-{k}", 40, k) for k in range(count)]
    write_report(runs, tmp_path / "r.html", radii=RADII, picture=noise(8, 1))
    browser.open(tmp_path / "r.html")
    assert browser.run("document.querySelectorAll('#chart .curve').length") == count
    assert browser.run("document.querySelectorAll('#summary tbody tr').length") == count
    assert browser.run("document.getElementById('tip').hidden") is True
    from selenium.webdriver import ActionChains

    chart = browser.driver.find_element("css selector", "#chart svg")
    ActionChains(browser.driver).move_to_element(chart).perform()
    assert browser.run("document.getElementById('tip').hidden") is False
    tip = str(browser.run("document.getElementById('tip').textContent"))
    assert tip.startswith("radius 0.")
    assert all(run.directory.name in tip for run in runs)
    browser.click("#legend input")
    assert browser.run("document.querySelectorAll('#chart .curve').length") == count - 1
    browser.click("#legend input")
    assert browser.run("document.querySelectorAll('#chart .curve').length") == count


def test_clean_accuracy_is_shown_where_it_was_measured(browser: Browser, tmp_path: Path) -> None:
    plain, measured = synthetic(tmp_path / "a", 20), synthetic(tmp_path / "b", 20, clean=True)
    cells = "[...document.querySelectorAll('#summary tr')].map(r => r.children[2].firstChild.textContent)"
    write_report([plain], tmp_path / "r.html", radii=RADII)
    browser.open(tmp_path / "r.html")
    assert browser.run(cells + "[0]") == "≥\xa00"
    write_report([plain, measured], tmp_path / "s.html", radii=RADII)
    browser.open(tmp_path / "s.html")
    assert browser.run(cells) == ["clean", "-", "100.0"]
    assert "with its map chosen for each input" in str(browser.run("document.getElementById('guarantees').textContent"))


def test_inputs_sort_and_search(browser: Browser, tmp_path: Path) -> None:
    run = synthetic(tmp_path / "run", 60)
    write_report([run], tmp_path / "r.html", radii=RADII, picture=noise(8, 1))
    browser.open(tmp_path / "r.html")
    shown = [float(text) for text in browser.texts(4)]
    assert shown == sorted(shown, reverse=True)  # the largest radius first
    assert shown[0] <= max(row.radius for row in run.rows())  # rounded down
    browser.click("#inputs th:nth-child(5) button")
    assert [float(text) for text in browser.texts(4)] == sorted(shown)
    browser.click("#inputs th:nth-child(2) button")
    assert [int(text) for text in browser.texts(1)] == list(range(60))
    search = browser.driver.find_element("css selector", "#search")
    search.send_keys("softmax cat")
    found = browser.texts(5)
    assert set(found) == {"softmax"}
    assert all(
        "cat" in (label, said.split("✓")[0].split("✗")[0])
        for label, said in zip(browser.texts(2), browser.texts(3), strict=True)
    )
    assert (
        browser.run("document.getElementById('count').textContent") == f"{len(found)} of 60 inputs, with “softmax cat”"
    )


def test_names_are_shown_as_they_are_and_run_nothing(browser: Browser, tmp_path: Path) -> None:
    run = synthetic(tmp_path / "<i>run</i>", 60)
    write_report([run], tmp_path / "r.html", radii=RADII)
    browser.open(tmp_path / "r.html")
    assert set(browser.texts(2)) == set(CLASSES)
    assert browser.run("document.querySelectorAll('#inputs b, #guarantees i').length") == 0
    for place in ("#guarantees dt", "#finding p", "#summary tbody th", "title"):
        assert "<i>run</i>" in str(browser.run(f"document.querySelector('{place}').textContent"))


def test_nothing_certified_and_an_unfinished_run(browser: Browser, tmp_path: Path) -> None:
    run = synthetic(tmp_path / "run", 10, certified=False)
    text = run.file.read_text().splitlines(keepends=True)
    run.file.write_text("".join(text[:-2]))
    write_report([Run(tmp_path / "run")], tmp_path / "r.html", radii=RADII, picture=noise(8, 1))
    browser.open(tmp_path / "r.html")
    assert set(browser.texts(3)) == {"abstains"}
    assert browser.run("document.querySelectorAll('#chart .band').length") == 1
    assert "is not finished: 2 inputs are missing" in str(
        browser.run("document.getElementById('cautions').textContent")
    )
    assert not_blank(browser.screenshot())


def test_runs_that_differ_are_shown_with_the_reason(browser: Browser, tmp_path: Path) -> None:
    runs = [synthetic(tmp_path / "a", 20), synthetic(tmp_path / "b", 20, alpha=0.01)]
    write_report(runs, tmp_path / "r.html", radii=RADII)
    browser.open(tmp_path / "r.html")
    assert browser.texts(3)
    assert "the risks α differ: 0.001 and 0.01" in str(browser.run("document.getElementById('cautions').textContent"))


@pytest.mark.parametrize(("side", "channels"), [(8, 1), (32, 3), (224, 3)])
def test_500_inputs_are_a_small_file_light_and_dark(browser: Browser, tmp_path: Path, side: int, channels: int) -> None:
    run = synthetic(tmp_path / "run", 500)
    page = tmp_path / "r.html"
    write_report([run], page, radii=RADII, picture=noise(side, channels))
    assert page.stat().st_size < 3_000_000  # even of noise, which does not compress
    light, dark = (self_shot(browser, page, scheme) for scheme in ("light", "dark"))
    assert not_blank(light)
    assert not_blank(dark)
    assert light[5, 5].mean() > 200 > 60 > dark[5, 5].mean()
    assert browser.run("[...document.images].every(image => image.complete && image.naturalWidth > 0)") is True
    assert browser.run("document.images.length") == 500
    browser.click("#theme")
    assert browser.screenshot()[5, 5].mean() > 200


def self_shot(browser: Browser, page: Path, scheme: str) -> NDArray[np.uint8]:
    browser.open(page, scheme)
    return browser.screenshot()


def test_the_command_writes_a_page_with_pictures_of_the_data(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    line = "certify --model ready:small_cnn --data digits --sigma 0.5 --n0 50 --n 100 --max 5 --batch 50 --out a"
    for words in (line, "report a -o page.html"):
        with pytest.raises(SystemExit) as end:
            main(words.split())
        assert not end.value.code
    assert "wrote page.html (0.0 MB)" in capsys.readouterr().err
    browser.open(tmp_path / "page.html")
    assert browser.run("document.images.length") == 5
    assert json.loads(str(browser.run("document.getElementById('content').textContent")))["classes"][3] == "3"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1300, 400])
def test_the_report_fits_wide_and_narrow_windows(browser: Browser, tmp_path: Path, width: int, scheme: str) -> None:
    runs = [synthetic(tmp_path / name, 40, seed, alpha=0.001 * (seed + 1)) for seed, name in enumerate("ab")]
    write_report(runs, tmp_path / "r.html", radii=[0.25 * k for k in range(7)], picture=noise(8, 1))
    browser.open(tmp_path / "r.html", scheme)
    browser.resize(width)
    pixels = browser.screenshot(kept(f"report-{width}-{scheme}.png"))
    assert browser.run(FITS) is True
    assert browser.clipped() == []
    assert not_blank(pixels)
    assert (pixels[5, 5].mean() > 200) == (scheme == "light")


def test_nothing_is_wider_than_a_narrow_screen(browser: Browser, tmp_path: Path) -> None:
    """Tables scroll by themselves, and the text of the chart keeps its size."""
    runs = [
        synthetic(tmp_path / f"a-run-with-a-name-that-is-longer-than-the-screen-{k}", 30, k, alpha=0.01 / (k + 1))
        for k in range(4)
    ]
    write_report(runs, tmp_path / "r.html", radii=[0.25 * k for k in range(9)], picture=noise(8, 1))
    browser.open(tmp_path / "r.html")
    browser.resize(400)
    assert browser.run(FITS) is True
    tables = "[...document.querySelectorAll('.scroll')].map(e => e.scrollWidth > e.clientWidth && e.tabIndex === 0)"
    assert browser.run(tables) == [True, True, True]
    heights = browser.run("[...document.querySelectorAll('#chart text')].map(e => e.getBoundingClientRect().height)")
    assert isinstance(heights, list)
    assert min(heights) >= 11
    browser.resize(1000)
    browser.run("drawChart()")
    assert browser.run("document.querySelector('#chart svg').viewBox.baseVal.width") == browser.run(
        "document.querySelector('#chart svg').clientWidth"
    )


def test_on_paper_nothing_is_cut_off_and_colours_are_light(browser: Browser, tmp_path: Path) -> None:
    runs = [synthetic(tmp_path / f"run-{k}", 30, k) for k in range(2)]
    write_report(runs, tmp_path / "r.html", radii=[0.25 * k for k in range(7)])
    browser.open(tmp_path / "r.html", "dark")
    browser.resize(700, "print")  # A4 without its margins
    assert browser.run(FITS) is True
    assert browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    hidden_ = "['#controls', '#theme', '#legend input'].map(e => getComputedStyle(document.querySelector(e)).display)"
    assert browser.run(hidden_) == ["none"] * 3
    printed = browser.driver.execute_cdp_cmd("Page.printToPDF", {})["data"]
    assert base64.b64decode(printed).startswith(b"%PDF")


def test_inputs_that_are_certified_at_a_radius(browser: Browser, tmp_path: Path) -> None:
    """The inputs of ``lvmrs safe``: abstentions are not certified at radius 0, wrong answers are."""
    run = synthetic(tmp_path / "run", 60)
    rows = list(run.rows())
    write_report([run], tmp_path / "r.html", radii=RADII)
    browser.open(tmp_path / "r.html")
    field = browser.driver.find_element("css selector", "#least")
    largest = max(row.radius for row in rows)
    for typed in ("0", "0.5", repr(largest), "9"):
        field.clear()
        field.send_keys(typed)
        safe = [row for row in rows if row.predict >= 0 and row.radius >= float(typed)]
        assert sorted(map(int, browser.texts(1))) == sorted(row.idx for row in safe)
        wrong = sum(row.predict != row.label for row in safe)
        assert browser.run("document.getElementById('count').textContent") == (
            f"{len(safe)} of 60 inputs certified at radius ≥ {typed}, {wrong} of them for a wrong class"
        )
    field.send_keys("\ue003")  # backspace
    assert len(browser.texts(1)) == 60


def test_right_and_wrong_are_signs_and_words(browser: Browser, tmp_path: Path) -> None:
    run = synthetic(tmp_path / "run", 40)
    write_report([run], tmp_path / "r.html", radii=RADII)
    browser.open(tmp_path / "r.html")
    shown = dict(zip(map(int, browser.texts(1)), browser.texts(3), strict=True))
    for row in run.rows():
        sign = "abstains" if row.predict < 0 else "✓ right" if row.predict == row.label else "✗ wrong"
        assert shown[row.idx].endswith(sign)


def test_curves_that_lie_on_one_another_are_told_apart(browser: Browser, tmp_path: Path) -> None:
    runs = [synthetic(tmp_path / name, 40, seed) for name, seed in (("a", 0), ("b", 0), ("c", 1))]
    write_report(runs, tmp_path / "r.html", radii=RADII)
    browser.open(tmp_path / "r.html")
    note = "document.getElementById('covered').textContent"
    assert browser.run(note) == f"The curve of {tmp_path / 'b'} covers that of {tmp_path / 'a'}."
    drawn = "[...document.querySelectorAll('#chart .curve')].map(e => e.getAttribute('stroke-dasharray'))"
    assert len(set(browser.run(drawn))) == 3  # type: ignore[call-overload]
    places = browser.run("[...document.querySelectorAll('#chart .marker')].map(e => e.getAttribute('transform'))")
    assert isinstance(places, list)
    assert len(set(places)) == len(places) > 6  # no marker hides another
    browser.click("#legend input")
    assert browser.run(note) == ""


def test_shared_settings_are_shown_once(browser: Browser, tmp_path: Path) -> None:
    runs = [synthetic(tmp_path / "a", 20), synthetic(tmp_path / "b", 20, alpha=0.01)]
    write_report(runs, tmp_path / "r.html", radii=RADII)
    browser.open(tmp_path / "r.html")
    table = "[...document.querySelectorAll('#differences tbody tr')].map(r => [...r.children].map(c => c.textContent))"
    assert browser.run(table) == [["alpha", "0.001", "0.01"]]
    shared = str(browser.run("document.getElementById('settings').textContent"))
    assert (shared.count("sigma0.5"), "alpha" in shared) == (1, False)
    assert browser.run("document.querySelectorAll('#guarantees dt').length") == 2
    write_report(runs[:1], tmp_path / "s.html", radii=RADII)
    browser.open(tmp_path / "s.html")
    assert browser.run("document.getElementById('differences').parentElement.hidden") is True
    assert "alpha0.001" in str(browser.run("document.getElementById('settings').textContent"))


def test_tables_have_captions_and_scopes(browser: Browser, tmp_path: Path) -> None:
    runs = [synthetic(tmp_path / name, 20, alpha=alpha) for name, alpha in (("a", 0.001), ("b", 0.01))]
    write_report(runs, tmp_path / "r.html", radii=RADII)
    browser.open(tmp_path / "r.html")
    assert browser.run("[...document.querySelectorAll('table')].every(t => t.caption.textContent.length > 5)") is True
    assert browser.run("[...document.querySelectorAll('th')].every(t => ['row', 'col'].includes(t.scope))") is True
    assert browser.run("document.title") == f"Certified robustness of {tmp_path / 'a'}, {tmp_path / 'b'}"
    named = "[...document.querySelectorAll('#controls input, #controls select')].every(e => e.labels.length === 1)"
    assert browser.run(named) is True
