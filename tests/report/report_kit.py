"""Runs for pages, and a browser to open them in."""

import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

sys.path.append(str(Path(__file__).parent.parent / "analysis"))
import analysis_kit

CHROMIUM, DRIVER = (shutil.which(name) for name in ("chromium", "chromedriver"))
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-prefers-reduced-motion",
    "--window-size=1280,900",
)
HTML = '<img src=x onerror="window.hacked=1">&amp;$x_1$'  # a name that is markup, an entity and mathematics


def make_runs(home):
    for folder, name in (("learned", "bilaw-trades"), ("even", "trades")):
        analysis_kit.train(home / folder, name)
        analysis_kit.judge(home / folder)
    return [analysis_kit.read(home / name) for name in ("learned", "even")]


class Browser:
    """Headless Chromium, and what it has asked for and complained of."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="bilaw-browser-")
        options = webdriver.ChromeOptions()
        for flag in (*FLAGS, f"--user-data-dir={self.folder}"):
            options.add_argument(flag)
        options.binary_location = CHROMIUM
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(DRIVER))
        self.asked, self.said = [], []

    def open(self, file):
        """Open a page; return the seconds until all of it was there."""
        self.collect()
        self.asked, self.said = [], []
        began = time.monotonic()
        self.driver.get(Path(file).resolve().as_uri())
        self.wait("document.documentElement.dataset.ready === 'yes'")
        return time.monotonic() - began

    def js(self, script, *arguments):
        return self.driver.execute_script(f"return {script}", *arguments)

    def wait(self, condition, seconds=30):
        end = time.monotonic() + seconds
        while not self.js(condition):
            assert time.monotonic() < end, f"still not: {condition}; {self.driver.get_log('browser')}"
            time.sleep(0.02)

    def collect(self):
        """Take what has happened since."""
        self.said += [entry["message"] for entry in self.driver.get_log("browser")]
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                self.asked.append(message["params"]["request"]["url"])

    def quit(self):
        self.driver.quit()
        shutil.rmtree(self.folder, ignore_errors=True)
