#!/usr/bin/env python3
"""browser.py URL [ACTION...] - open a page in headless Chromium, wait for what it shows, take pictures.

Actions, one after the other:
    wait=JS         until the expression is true, at most $PAGE_PATIENCE seconds (20)
    print=JS        the expression's value
    shot=FILE       a PNG of the whole page
    view=FILE       a PNG of what the window shows
    size=WxH        of the window; a width below 500 counts as a phone
    scheme=dark     or light: prefers-color-scheme
    key=CODE        press a key, such as Tab or p
    run=COMMAND     a command of the shell

At the end: exit status 0, if no action failed, the page logged no error, nothing was refused by its policy, and it asked
no other host. Errors go to stderr. Chromium's DevTools protocol goes over a pipe, so nothing but Python's own library is
needed. $CHROMIUM names the program.
"""
import base64
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from urllib.parse import urlsplit

PATIENCE = float(os.environ.get("PAGE_PATIENCE", "20"))
FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
         "--disable-default-apps", "--disable-dev-shm-usage", "--no-proxy-server", "--remote-debugging-pipe"]


class Browser:
    """Messages are JSON that ends in a zero byte: to Chromium's fd 3, from its fd 4."""

    def __init__(self, folder):
        to_read, self.to = os.pipe()
        self.source, from_write = os.pipe()
        program = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
        if not program:
            sys.exit("browser.py: no chromium is installed")

        def fds():
            # Above 4 first, so that neither overwrites the other.
            a, b = os.dup2(to_read, 60), os.dup2(from_write, 61)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.process = subprocess.Popen([program, *FLAGS, "--user-data-dir=" + folder, "about:blank"], preexec_fn=fds,
                                        close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, env={**os.environ, "HOME": folder})
        os.close(to_read)
        os.close(from_write)
        self.bytes, self.number, self.session, self.events = b"", 0, None, []

    def receive(self):
        while b"\0" not in self.bytes:
            more = os.read(self.source, 1 << 16)
            if not more:
                sys.exit("browser.py: chromium has ended")
            self.bytes += more
        message, self.bytes = self.bytes.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                if "error" in answer:
                    sys.exit(f"browser.py: {method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            return None
        return result["result"].get("value")

    def close(self):
        try:
            self.session = None
            self.call("Browser.close")
        except SystemExit:
            pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()


def wait(browser, expression):
    end = time.monotonic() + PATIENCE
    while browser.evaluate(f"Boolean({expression})") is not True:
        if time.monotonic() > end:
            print(f"browser.py: it never became true: {expression}", file=sys.stderr)
            return False
        time.sleep(0.05)
    return True


def deflate(png):
    """The same picture, packed as tightly as deflate can."""
    at, out, data = 8, [], b""
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at:at + 8])
        body = png[at + 8:at + 8 + length]
        at += 12 + length
        if kind == b"IDAT":
            data += body
            continue
        if kind == b"IEND":
            out.append((b"IDAT", zlib.compress(zlib.decompress(data), 9)))
        out.append((kind, body))
    return png[:8] + b"".join(struct.pack(">I", len(b)) + k + b + struct.pack(">I", zlib.crc32(k + b)) for k, b in out)


def shoot(browser, path, whole):
    size = browser.call("Page.getLayoutMetrics")["cssContentSize" if whole else "cssLayoutViewport"]
    if not whole:
        size = {"width": size["clientWidth"], "height": size["clientHeight"]}
    clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
    png = browser.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)["data"]
    with open(path, "wb") as f:
        f.write(deflate(base64.b64decode(png)))


def press(browser, code):
    text = {"text": code} if len(code) == 1 else {}
    for kind in ("keyDown", "keyUp"):
        browser.call("Input.dispatchKeyEvent", type=kind, key=code,
                     code=code if len(code) > 1 else "Key" + code.upper(), **(text if kind == "keyDown" else {}))


def act(browser, action):
    kind, _, value = action.partition("=")
    if kind == "wait":
        return wait(browser, value)
    if kind == "print":
        print(browser.evaluate(value), flush=True)
    elif kind == "shot":
        shoot(browser, value, True)
    elif kind == "view":
        shoot(browser, value, False)
    elif kind == "size":
        w, h = (int(x) for x in value.split("x"))
        browser.call("Emulation.setDeviceMetricsOverride", width=w, height=h, deviceScaleFactor=1, mobile=w < 500)
    elif kind == "scheme":
        browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": value}])
    elif kind == "key":
        press(browser, value)
    elif kind == "run":
        return subprocess.run(value, shell=True, check=False).returncode == 0
    else:
        sys.exit(f"browser.py: no such action: {action}")
    return True


def complaints(browser, url):
    """What the page should not have done."""
    host = urlsplit(url).netloc
    for e in browser.events:
        method, p = e.get("method"), e.get("params", {})
        if method == "Runtime.exceptionThrown":
            yield "exception: " + p["exceptionDetails"].get("exception", {}).get("description", "?")
        elif method == "Runtime.consoleAPICalled" and p["type"] in ("error", "warning", "assert"):
            yield "console: " + str(p["args"])
        elif method == "Log.entryAdded" and p["entry"]["level"] in ("error", "warning"):
            yield "log: " + p["entry"]["text"]
        elif method == "Network.requestWillBeSent":
            asked = urlsplit(p["request"]["url"])
            if asked.scheme not in ("data", "about") and asked.netloc != host:
                yield "asks another host: " + p["request"]["url"]


def main():
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__)
    url, actions = sys.argv[1], sys.argv[2:]
    good = True
    with tempfile.TemporaryDirectory(prefix="gpusim-browser-", ignore_cleanup_errors=True) as folder:
        browser = Browser(folder)
        try:
            target = browser.call("Target.createTarget", url="about:blank")["targetId"]
            browser.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                browser.call(domain + ".enable")
            browser.call("Page.navigate", url=url)
            for action in actions:
                if not act(browser, action):
                    good = False
                    break
            browser.evaluate("0")
            for complaint in complaints(browser, url):
                print("browser.py: " + complaint, file=sys.stderr)
                good = False
        finally:
            browser.close()
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
