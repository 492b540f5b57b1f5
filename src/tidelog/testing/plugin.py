"""The pytest plugin: a real broker for tests, in the test process.

pytest loads this module in every run of every project that has Tidelog installed, so it imports nothing but pytest;
the broker is imported by the first test that asks for a fixture.
"""

from __future__ import annotations
