"""This inbox and Label Studio in one Chromium, in turns: from the key that submits to the next text painted.

    python -m venv /somewhere && /somewhere/bin/pip install label-studio
    python -m benchmarks.side_by_side --label-studio /somewhere/bin/label-studio [--sizes 1000,100000] [--rounds 30]

*submit* is Label Studio's one key (Ctrl+Enter, which saves and shows the next task). Ours are two, since the engine's
view stands between them: *save* and *next* pressed apart, and *both* 30 ms apart. Both programs run on this machine
with their own embedded database, the same number of open texts of the same length, and nobody else. Without Label
Studio the section says so and ends.
"""

import argparse
import json
import os
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.figures import leave_out, tell
from benchmarks.inbox import LONG_TEXT, add_cases
from benchmarks.inbox_keys import WATCH, tell_p50, time_key
from benchmarks.processes import BROWSER_ARGUMENTS, app_process, until_healthy
from screening.review.triage import Tier
from storage.database import Database
from tests.browser.find import find_browser
from tests.free_port import free_port

if TYPE_CHECKING:
    from playwright.sync_api import Page

SHARE = 1 / 3
"""Of Label Studio's time to the next text, what ours may take."""
PAUSE_MS = 1_000
AT_ONCE = 5_000
MAIL, TOKEN = "bench@example.org", "0" * 40
FORM = (
    '<View><Text name="text" value="$text"/><Choices name="label" toName="text" choice="single">'
    '<Choice value="Safe" hotkey="1"/><Choice value="Unsafe" hotkey="2"/></Choices></View>'
)
SHOWN = 'window.task = () => document.querySelector("[class*=richtext]")?.textContent.match(/Case \\d+/)?.[0] ?? ""'
Times = dict[str, list[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelStudio:
    """A running server of its own; ``word`` is that person's password, made for this run."""

    address: str
    word: str = field(repr=False)

    def ask(self, path: str, body: object = None) -> Any:
        """Ask its programming interface; with a body, to change something."""
        headers = {"Authorization": f"Token {TOKEN}", "Content-Type": "application/json"}
        sent = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data=sent, headers=headers)
        with urllib.request.urlopen(request, timeout=1_200) as answer:
            return json.load(answer)

    def project(self, size: int) -> int:
        """A project with so many tasks: one that an earlier run made, else a new one."""
        made = self.ask("/api/projects/?page_size=100")["results"]
        if kept := [int(one["id"]) for one in made if one["task_number"] == size]:
            return kept[0]
        number = int(self.ask("/api/projects/", {"title": "bench", "label_config": FORM})["id"])
        for first in range(0, size, AT_ONCE):
            rows = range(first, min(first + AT_ONCE, size))
            tasks = [{"data": {"text": f"Case {row}. {LONG_TEXT}"}} for row in rows]
            self.ask(f"/api/projects/{number}/import", tasks)
        return number

    def open(self, page: "Page", project: int) -> None:
        """Signed in, at the first task."""
        page.goto(f"{self.address}/user/login/")
        page.fill("input[name=email]", MAIL)
        page.fill("input[name=password]", self.word)
        page.click("button[type=submit], input[type=submit]")
        page.wait_for_load_state()
        page.goto(f"{self.address}/projects/{project}/data?labeling=1")
        page.evaluate(WATCH)
        page.evaluate(SHOWN)
        page.wait_for_function("() => task() !== ''")


@contextmanager
def label_studio(program: str, folder: Path) -> Iterator[LabelStudio]:
    """Its server on a free port, its data in a folder, nothing told to anybody."""
    port, word = free_port(), "side-by-side"
    quiet = {"COLLECT_ANALYTICS": "false", "LATEST_VERSION_CHECK": "false", "LABEL_STUDIO_ENABLE_LEGACY_API_TOKEN": "1"}
    environment = os.environ | quiet | {"LABEL_STUDIO_BASE_DATA_DIR": str(folder)}
    who = ["--username", MAIL, "--password", word, "--user-token", TOKEN]
    command = [program, "start", "--no-browser", "--port", str(port), *who]
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            until_healthy(f"http://127.0.0.1:{port}/health", seconds=600)
            yield LabelStudio(address=f"http://127.0.0.1:{port}", word=word)
        finally:
            process.terminate()


def theirs(page: "Page", found: Times) -> None:
    """One task of theirs."""
    page.bring_to_front()
    page.wait_for_timeout(PAUSE_MS)
    before = page.evaluate("task()")
    page.keyboard.press("1")
    page.wait_for_timeout(100)
    found["submit"].append(time_key(page, "Control+Enter", "Enter", f"!['', {before!r}].includes(task())"))


def ours(page: "Page", found: Times, *, apart: bool) -> None:
    """One case of ours, its two keys apart or together."""
    page.bring_to_front()
    page.wait_for_timeout(PAUSE_MS)
    after = f"reading({page.evaluate('caseName()')!r})"
    page.keyboard.press("1")
    page.keyboard.press("7")
    page.wait_for_timeout(100)
    if not apart:
        found["both"].append(time_key(page, "Control+Enter,n", "Enter", after))
        return
    found["save"].append(time_key(page, "Control+Enter", "Enter", "saved()"))
    page.wait_for_timeout(500)  # a look at what the engine said
    found["next"].append(time_key(page, "n", "n", after))


def measure(program: str, kept: Path | None, size: int, rounds: int, browser: str) -> Times:
    """The times of both at one number of open texts; ``kept`` is where theirs are already, or are kept for later."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        studio = kept or Path(directory) / "studio"
        studio.mkdir(exist_ok=True)
        url = f"sqlite:///{Path(directory) / 'bench.db'}"
        db = Database(url)
        db.prepare()
        add_cases(db, 0, size, tier=Tier.P2)
        db.close()
        with label_studio(program, studio) as other, app_process(url) as (address, _), sync_playwright() as playwright:
            project = other.project(size)
            launched = playwright.chromium.launch(executable_path=browser, args=BROWSER_ARGUMENTS)
            left, right = (launched.new_page(viewport={"width": 1440, "height": 900}) for _ in range(2))
            for page in (left, right):
                page.set_default_timeout(120_000)
            other.open(left, project)
            right.goto(f"{address}/inbox")
            right.wait_for_selector(".sld[data-stage]")
            right.evaluate(WATCH)
            right.keyboard.press("n")
            right.wait_for_function("() => desk()?.dataset.stage === 'reading'")
            found = in_turns(left, right, rounds)
            launched.close()
    return found


def in_turns(left: "Page", right: "Page", rounds: int) -> Times:
    """Theirs and ours, so many times."""
    found: Times = {"submit": [], "save": [], "next": [], "both": []}
    for _ in range(rounds):
        theirs(left, found)
        ours(right, found, apart=True)
        ours(right, found, apart=False)
    return found


def main() -> None:
    """Print a line for each key, and what the two are to each other."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--label-studio", default=shutil.which("label-studio"))
    parser.add_argument("--label-studio-data", type=Path, help="a folder that keeps its tasks for the next run")
    parser.add_argument("--sizes", default="1000,100000")
    parser.add_argument("--rounds", type=int, default=30)
    given = parser.parse_args()
    browser = find_browser()
    if browser is None or given.label_studio is None:
        leave_out("beside Label Studio", f"no {'Chromium' if browser is None else 'Label Studio'} here")
        return
    for size in (int(each) for each in given.sizes.split(",")):
        found = measure(given.label_studio, given.label_studio_data, size, given.rounds, browser)
        for name, times in found.items():
            tell_p50(f"{size:,} open, {name}", times)
        for words, name, aim in (("next text", "next", SHARE), ("both keys", "both", 1.0)):
            share = median(found[name]) / median(found["submit"])
            tell(f"{size:,} open, {words} of Label Studio's submit", share, "×", aim)


if __name__ == "__main__":
    main()
