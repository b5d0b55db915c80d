"""The settings of an elastic job, for tools that call ``gloo_run_elastic``."""

from __future__ import annotations

from typing import Any, Optional, Sequence

from farandole.runner.common.util.settings import BaseSettings


class ElasticSettings(BaseSettings):
    """Settings of a job whose workers may come and go."""

    def __init__(
        self,
        discovery: Any,
        min_num_proc: Optional[int],
        max_num_proc: Optional[int],
        elastic_timeout: Optional[int],
        reset_limit: Optional[int],
        cooldown_range: Optional[Sequence[int]] = None,
        **kwargs: Any,
    ) -> None:
        """
        :param discovery: finds the present hosts; see ``farandole.runner.elastic.discovery``
        :param elastic_timeout: seconds to wait for enough slots
        """
        kwargs["elastic"] = True
        super().__init__(**kwargs)
        self.discovery = discovery
        self.min_num_proc = min_num_proc
        self.max_num_proc = max_num_proc
        self.elastic_timeout = elastic_timeout
        self.reset_limit = reset_limit
        self.cooldown_range = cooldown_range
