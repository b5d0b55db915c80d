"""Tests of features that the oldest supported version of a package lacks."""

from __future__ import annotations

import importlib.metadata

import pytest
from packaging.version import Version


def needs(package: str, version: str, feature: str) -> pytest.MarkDecorator:
    """Skips a test of a feature that the package has from this version on."""
    is_older = Version(importlib.metadata.version(package)) < Version(version)
    return pytest.mark.skipif(is_older, reason=f"{package} has {feature} from {version} on")
