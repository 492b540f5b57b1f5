"""The routes of the proxy that keep nothing between requests."""

from __future__ import annotations

from typing import Final

from tidelog.gateways.http.proxy import producing, records, topics
from tidelog.gateways.http.proxy.v3 import api as v3

ROUTES: Final = (*topics.ROUTES, *producing.ROUTES, *records.ROUTES, *v3.ROUTES)
