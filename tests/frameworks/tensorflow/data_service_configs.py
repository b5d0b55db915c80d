"""Configs of the data service for tests."""

from __future__ import annotations

from typing import Any, Dict


def config_with(**fields: Any) -> Any:
    """A config with these fields, and with addresses and a key that no service has."""
    from horovod.tensorflow.data.compute_service import TfDataServiceConfig

    values: Dict[str, Any] = {
        "dispatchers": 2,
        "workers_per_dispatcher": 3,
        "dispatcher_side": "training",
        "addresses": {"lo": [("127.0.0.1", 1)], "eth0": [("10.0.0.5", 2)]},
        "key": bytes(range(32)),
        "timeout": 7,
    }
    return TfDataServiceConfig(**{**values, **fields})
