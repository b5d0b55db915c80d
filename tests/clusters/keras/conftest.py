"""The Spark session of all tests in this folder."""

from __future__ import annotations

from typing import Any, Iterator

import pytest
from spark_sessions import local_session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session that runs two tasks at once. All its files are temporary."""
    with local_session(tmp_path_factory.mktemp("spark"), 2) as session:
        yield session
