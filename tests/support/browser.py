"""A real browser: the system's Chromium, driven by playwright."""

import os
import shutil
from contextlib import contextmanager
from importlib.util import find_spec

CHROMIUM = os.environ.get("FAIRMEND_CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
NO_CHROMIUM = (
    "playwright is not installed"
    if find_spec("playwright") is None
    else "no Chromium on this machine"
    if CHROMIUM is None
    else None
)
"""Why tests with a browser cannot run, or None."""

FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]


@contextmanager
def launch():
    """Start the browser, and close it in the end."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=[*FLAGS, "--disable-component-update"])
        yield chromium
        chromium.close()


class Opened:
    """A page, and everything it said and asked for."""

    def __init__(self, browser, file, **options):
        self.context = browser.new_context(**{"viewport": {"width": 1200, "height": 900}} | options)
        self.page = self.context.new_page()
        self.said, self.requests, self.dialogs = [], [], []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("dialog", lambda dialog: (self.dialogs.append(dialog.message), dialog.dismiss()))
        self.page.goto(file.as_uri())

    def __enter__(self):
        return self.page

    def __exit__(self, *_):
        self.context.close()
