"""The Python step of sessions.yaml."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def describe(visits: DataFrame) -> DataFrame:
    """Adds how long a visit took and whether it was more than a glance."""
    from pyspark.sql import functions

    # A session window ends with the pause: the last click came that much earlier.
    seconds = functions.unix_timestamp("ended") - functions.unix_timestamp("started") - 300
    return visits.withColumn("seconds", seconds).withColumn("kind", functions.expr("IF(clicks > 1, 'visit', 'glance')"))
