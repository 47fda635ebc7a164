#!/usr/bin/env python3
"""Takes pictures of ten pages of the documentation site and of a search: wide, on a phone, and both in the dark.

    bash docs/build.sh && docs/site/screenshots.py [PAGE[#ANCHOR|?search=TEXT]...]

It needs Chromium (Debian: chromium, fonts-liberation) and writes build/site-screenshots/*.png. With pages named, these
alone. It prints what is wider than a phone's screen and does not scroll.
"""
import base64
import fcntl
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SITE, TARGET = ROOT / "build/site", ROOT / "build/site-screenshots"
PAGES = ["index.html", "file_README.html", "guide_from_pytorch.html", "guide_performance.html",
         "guide_parallel_strategy.html#guide_parallel_strategy--measured-on-two-cpu-devices",
         "guide_tutorials_01_first_network.html", "classferrite_1_1Tensor.html", "namespaceferrite_1_1nn.html",
         "nn_2conv_8h.html", "annotated.html", "index.html?search=conv2d"]
SCREENS = {"wide": (1400, 1600, False, "light"), "dark": (1400, 1600, False, "dark"),
           "phone": (390, 1600, True, "light"), "phone-dark": (390, 1600, True, "dark")}
TOO_WIDE = """[...document.querySelectorAll('body *')].filter(e => {
  const box = e.getBoundingClientRect();
  if (box.right <= innerWidth + 1 || !box.height || getComputedStyle(e).visibility == 'hidden') return false;
  for (let p = e.parentElement; p && p.id != 'doc-content'; p = p.parentElement)
    if (['auto', 'scroll', 'hidden'].includes(getComputedStyle(p).overflowX)) return false;
  return true;
}).slice(0, 3).map(e => `${e.tagName} ${e.className || e.id}, ${Math.round(e.getBoundingClientRect().right)} px: ` +
                        e.textContent.trim().slice(0, 60).replace(/\\s+/g, ' '))"""


class Browser:
    """Chromium, driven over a pipe by its DevTools protocol."""
    def __init__(self, program, profile):
        to_it, self.to = os.pipe()
        self.back, from_it = os.pipe()
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (to_it, from_it)]  # out of the way of 3 and 4

        def as_chromium_expects():
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        self.process = subprocess.Popen(
            [program, "--headless", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe",
             f"--user-data-dir={profile}"] + ["--no-sandbox"] * (os.geteuid() == 0),
            preexec_fn=as_chromium_expects, close_fds=False, stderr=subprocess.DEVNULL)
        self.number, self.rest, self.session, self.seen = 0, b"", None, []
        tab = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=tab, flatten=True)["sessionId"]
        self.call("Page.enable")

    def message(self):
        while b"\0" not in self.rest:
            data = os.read(self.back, 1 << 20)
            if not data:
                sys.exit("Chromium ended")
            self.rest += data
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **params):
        self.number += 1
        call = {"id": self.number, "method": method, "params": params}
        os.write(self.to, json.dumps(call | ({"sessionId": self.session} if self.session else {})).encode() + b"\0")
        while (message := self.message()).get("id") != self.number:
            self.seen.append(message.get("method"))
        if "error" in message:
            sys.exit(f"{method}: {message['error']['message']}")
        return message["result"]

    def run(self, script):
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)["result"]
        return result.get("value")

    def open(self, page):
        page, _, search = page.partition("?search=")
        page, _, anchor = page.partition("#")
        self.seen.clear()
        to = self.call("Page.navigate", url=(SITE / page).as_uri() + (f"#{anchor}" if anchor else ""))
        while "loaderId" in to and "Page.loadEventFired" not in self.seen:
            self.seen.append(self.message().get("method"))
        self.run("new Promise(done => setTimeout(done, 700))")
        if search:
            self.run("document.querySelector('#MSearchField').focus()")
            for letter in search:
                self.call("Input.dispatchKeyEvent", type="keyDown", text=letter, key=letter)
                self.call("Input.dispatchKeyEvent", type="keyUp", key=letter)
            self.run("new Promise(done => setTimeout(done, 1500))")


def main():
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not program:
        sys.exit("There is no Chromium: apt-get install chromium fonts-liberation")
    TARGET.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(program, profile)
        for screen, (width, height, mobile, scheme) in SCREENS.items():
            browser.call("Emulation.setDeviceMetricsOverride", width=width, height=height, mobile=mobile,
                         deviceScaleFactor=1 + mobile)
            browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            for page in sys.argv[1:] or PAGES:
                browser.open(page)
                for wide in browser.run(TOO_WIDE) if screen == "phone" else []:
                    print(f"{page}: too wide: {wide}")
                name = page.replace(".html", "").replace("?search=", "-").replace("#", "-")
                image = browser.call("Page.captureScreenshot", format="png")["data"]
                (TARGET / f"{name}.{screen}.png").write_bytes(base64.b64decode(image))
        browser.call("Browser.close")
        browser.process.wait()
    print(f"The pictures are in {TARGET}")


if __name__ == "__main__":
    main()
