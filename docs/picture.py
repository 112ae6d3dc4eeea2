"""Make the README's picture: run the demo and take a screenshot of the top of its report with Chromium.

python docs/picture.py docs/images/report.png
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from fairmend.cli.demo import run_demo

WIDTH = 1200
NAMES = ("chromium", "chromium-browser", "google-chrome")


def take_picture(picture: Path) -> None:
    """Write the picture: the page from the top to the end of the section with the score ranges."""
    browser = os.environ.get("FAIRMEND_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if browser is None:
        sys.exit("Chromium not found. Install it, or set FAIRMEND_CHROMIUM to its path")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        out = Path(folder) / "fairmend-demo"
        run_demo(out, typed="fairmend demo")
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox", "--disable-gpu"])
        page = chromium.new_page(viewport={"width": WIDTH, "height": 1000}, color_scheme="light")
        page.goto((out / "report.html").as_uri())
        end = page.locator("#ranges").bounding_box()
        assert end is not None
        picture.parent.mkdir(parents=True, exist_ok=True)
        height = end["y"] + end["height"] + 24
        page.screenshot(path=picture, full_page=True, clip={"x": 0, "y": 0, "width": WIDTH, "height": height})
        chromium.close()


if __name__ == "__main__":
    take_picture(Path(sys.argv[1]))
