"""Messages of the launcher about elastic jobs, for tools that search its output."""

from __future__ import annotations

RESET_LIMIT_EXCEEDED_MESSAGE = (
    "The job was ended because its reset limit is exceeded: its workers changed (failed, joined or left) "
    "or started over after an error more often than --reset-limit {} allows. Look for the first failure and the last "
    "error above, or give a higher limit."
)
"""Why a job of too many resets has ended; to be formatted with the limit."""
