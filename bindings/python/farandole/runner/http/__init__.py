"""The rendezvous and the key-value store of jobs that other tools start: ``http_server`` and ``http_client``."""
