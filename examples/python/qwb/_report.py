"""The HTML report and its pictures, as notebooks show them."""

from __future__ import annotations

import html as _html


class Report:
    """A report of one HTML page that needs nothing from outside. html is its text."""

    def __init__(self, html: str, height: int = 800):
        self.html, self.height = html, height

    def save(self, path):
        with open(path, "w", encoding="utf-8", newline="") as f:
            f.write(self.html)

    def _repr_html_(self):
        # Scripts of the page sort its tables; the frame lets them do that and nothing to the notebook.
        return (f'<iframe srcdoc="{_html.escape(self.html, quote=True)}" sandbox="allow-scripts" width="100%" height="{self.height}" '
                'style="border: 0" title="qwb report"></iframe>')

    def __repr__(self):
        return f"Report(<{len(self.html)} characters of HTML>)"


class Picture:
    """A picture of a report. png is its bytes."""

    def __init__(self, png: bytes):
        self.png = png

    def save(self, path):
        with open(path, "wb") as f:
            f.write(self.png)

    def _repr_png_(self):
        return self.png

    def __repr__(self):
        return f"Picture(<{len(self.png)} bytes of PNG>)"
