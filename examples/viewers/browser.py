"""A page in a headless Chromium that reaches this machine only, by its DevTools protocol (pip install websocket-client)."""
import json
import os
import re
import subprocess
import tempfile
import time
import urllib.request

import websocket


class Page:
    """with Page("http://...") as page: page.until("document.title"); page.eval("1 + 1")."""

    def __init__(self, url, size=(1400, 900)):
        self.url, self.size, self.n = url, size, 0

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.process = subprocess.Popen(
            [os.environ.get("QWB_CHROMIUM", "chromium"), "--headless=new", "--no-sandbox", "--disable-gpu", "--use-angle=swiftshader",
             "--enable-unsafe-swiftshader", "--remote-debugging-port=0", "--remote-allow-origins=*",
             "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1",  # nothing leaves this machine
             f"--user-data-dir={self.folder.name}", f"--window-size={self.size[0]},{self.size[1]}", "about:blank"],
            stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        try:
            self.open()
        except BaseException:  # nobody calls __exit__ then
            self.__exit__()
            raise
        return self

    def open(self):
        self.socket = None
        for line in self.process.stderr:
            found = re.search(r"ws://([^/]+)/", line)
            if found:
                break
        pages = json.load(urllib.request.urlopen(f"http://{found[1]}/json"))
        self.socket = websocket.create_connection(next(p for p in pages if p["type"] == "page")["webSocketDebuggerUrl"], timeout=60)
        self.call("Page.navigate", url=self.url)

    def __exit__(self, *_):
        if self.socket:
            self.socket.close()
        self.process.terminate()
        self.process.wait()
        self.process.stderr.close()
        self.folder.cleanup()

    def call(self, method, **params):
        self.n += 1
        self.socket.send(json.dumps({"id": self.n, "method": method, "params": params}))
        while True:
            answer = json.loads(self.socket.recv())
            if answer.get("id") == self.n:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def eval(self, js):
        r = self.call("Runtime.evaluate", expression=js, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in r:
            raise RuntimeError(f"{js}: {r['exceptionDetails']}")
        return r["result"].get("value")

    def until(self, js, seconds=60):
        """The first value of an expression that counts as true."""
        end = time.time() + seconds
        while time.time() < end:
            try:
                value = self.eval(js)
            except RuntimeError:
                value = None
            if value:
                return value
            time.sleep(0.3)
        raise RuntimeError(f"{self.url}: {js} did not come true within {seconds} s")

    def picture(self, path):
        import base64
        with open(path, "wb") as f:
            f.write(base64.b64decode(self.call("Page.captureScreenshot")["data"]))
