"""Every setting is read somewhere, or listed as one that has no effect."""

import re
from pathlib import Path

import tidelog
from tidelog.config.broker import BrokerConfig
from tidelog.config.group import GroupConfig
from tidelog.config.topic import TopicConfig
from tidelog.config.without_effect import WITHOUT_EFFECT

DERIVED = {
    "internal.segment.bytes",
    "tidelog.lowered.by.drain",
    *(
        name.replace("consumer.", f"group.consumer.{bound}.")
        for name in GroupConfig.SETTINGS
        for bound in ("min", "max")
    ),
}
"""Read by the configuration itself; the last are how far a group may go, and their names are put together."""
NAMESAKES = {"request.timeout.ms"}
"""Read under this name only as a setting of something else: the core of Raft has its own."""


def without_comparisons(source: str) -> str:
    """Settings that are only compared with one another change nothing."""
    source, rules = re.subn(
        r"    def check_together\(self\).*?(?=^    def |^\S)", "", source, flags=re.DOTALL | re.MULTILINE
    )
    source, tables = re.subn(r"^_ORDERED = \(.*?^\)", "", source, flags=re.DOTALL | re.MULTILINE)
    assert (rules, tables) == (1, 1), "the rules are elsewhere now"
    return source


def source_text() -> str:
    root = Path(tidelog.__file__).parent
    files = [
        path
        for path in root.rglob("*.py")
        if not {"generated", "sections"} & set(path.parts) and path.name not in ("topic.py", "without_effect.py")
    ]
    rules = root / "config" / "broker.py"
    return "\n".join(without_comparisons(path.read_text()) if path == rules else path.read_text() for path in files)


def test_a_setting_has_an_effect_or_is_listed() -> None:
    source = source_text()
    synonyms = {name for setting in TopicConfig.SETTINGS.values() for name in setting.synonyms}
    unread = set()
    for setting in (*BrokerConfig.SETTINGS.values(), *TopicConfig.SETTINGS.values()):
        by_attribute = re.search(rf"\b{setting.attribute}\b", source) and setting.name not in NAMESAKES
        is_read = by_attribute or f'"{setting.name}"' in source
        if not is_read and setting.name not in synonyms and setting.name not in DERIVED:
            unread.add(setting.name)
    assert unread == WITHOUT_EFFECT
