"""All routes of v3."""

from __future__ import annotations

from typing import Final

from tidelog.gateways.http.proxy.v3 import clusters, configs, groups, lags, partitions, producing, topics

ROUTES: Final = (
    *clusters.ROUTES,
    *topics.ROUTES,
    *partitions.ROUTES,
    *configs.ROUTES,
    *groups.ROUTES,
    *lags.ROUTES,
    *producing.ROUTES,
)
