"""docs/networks.md: the recipe for a router runs as it stands, here with less of everything."""

import contextlib
import io
import re
from pathlib import Path
from typing import Any

PAGE = (Path(__file__).parent.parent / "docs" / "networks.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## Routed classifiers")[2].partition("\n## ")[0]
LESS = {
    "epochs=20": "epochs=1",
    "len(train), 2)": "len(train), 60)",
    "len(test), 4)": "len(test), 60)",
    "2000)": "200)",
}


def test_the_recipe_for_a_router_runs() -> None:
    recipe, shown = re.findall(r"```python\n(.*?)```", SECTION, flags=re.DOTALL)
    assert len(recipe.splitlines()) < 40
    names: dict[str, Any] = {}
    for code in (recipe, shown):
        for more, less in LESS.items():
            assert more in recipe + shown
            code = code.replace(more, less)
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(code, "docs/networks.md", "exec"), names)  # noqa: S102
    assert names["certificate"].n in (400, 600)  # printed, and of experts and router
    assert "routed classifier answers" in printed.getvalue() or "Nothing is certified" in printed.getvalue()
