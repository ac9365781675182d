"""README's pictures: what the journeys of `make run` keep of the real app, in few bytes.

`make test ARGS=tests/browser/test_make_run.py` keeps them; `python -m tests.browser.pictures` takes them over.
"""

from typing import Final

from PIL import Image

from tests.browser.conftest import RESULTS, ROOT

FOLDER: Final = ROOT / "docs" / "images"
COLOURS: Final = 200
"""Of so many a picture is made: a third of the bytes, and no eye tells the difference."""
SHOWN: Final = {
    "inbox-light.png": "reading-light.png",
    "evidence-dark.png": "revealed-dark.png",
    "screen-light.png": "screened-light.png",
}

if __name__ == "__main__":
    for name, kept in SHOWN.items():
        picture = Image.open(RESULTS / kept).convert("RGB")
        picture.quantize(COLOURS, dither=Image.Dither.NONE).save(FOLDER / name, optimize=True)
