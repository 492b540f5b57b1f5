"""What a setting is: Kafka's name, type, default, valid values and a sentence about it; and how text becomes its value.

A class of settings derives from `Settings` and declares one attribute per setting; Kafka's name is the attribute with
dots for underscores. Instances never change. The constructor trusts its caller (tests may ask for tiny segments);
`parse` does not: what it refuses, it refuses with one line that Kafka's users know.
No dataclasses: they compile code per class, and a node that starts in 0.2 s reads two hundred settings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Self, cast, dataclass_transform

INT64_MAX = 2**63 - 1
INT32_MAX = 2**31 - 1

Check = Callable[[Any], str | None]
"""Says what is wrong with a parsed value, or None."""

_UNITS = {"ms": "milliseconds", "seconds": "seconds", "minutes": "minutes", "hours": "hours", "bytes": "bytes"}
_INTEGER_BOUNDS = {"INT": INT32_MAX, "SHORT": 2**15 - 1, "LONG": INT64_MAX}


class ConfigError(ValueError):
    """A setting that cannot be taken; the message is one line for a person."""


class Setting:
    """One setting. `kind` is Kafka's type name; `minimum` and `maximum` are inclusive."""

    __slots__ = (
        "attribute",
        "check",
        "choices",
        "default",
        "doc",
        "dynamic",
        "internal",
        "kind",
        "maximum",
        "minimum",
        "name",
        "section",
        "sensitive",
        "synonyms",
    )

    def __init__(
        self,
        kind: str,
        default: Any,
        doc: str,
        *,
        name: str | None = None,
        minimum: float | None = None,
        maximum: float | None = None,
        choices: tuple[str, ...] = (),
        check: Check | None = None,
        dynamic: bool = False,
        internal: bool = False,
        sensitive: bool = False,
        synonyms: tuple[str, ...] = (),
    ) -> None:
        self.kind = kind
        self.default = default
        self.doc = doc
        self.name = name or ""
        self.minimum = minimum
        self.maximum = maximum
        self.choices = choices
        self.check = check
        self.dynamic = dynamic
        """Whether a running node takes a change; a setting that is not dynamic is read-only to admin clients."""
        self.internal = internal
        """Works, but is not listed: for tests."""
        self.sensitive = sensitive
        self.synonyms = synonyms
        """Topic settings: the broker settings that give the default, most specific first."""
        self.attribute = ""
        self.section = ""

    @property
    def unit(self) -> str:
        """The unit of the value in words, or an empty string."""
        if self.kind not in ("INT", "LONG"):
            return ""
        return _UNITS.get(self.name.rpartition(".")[2], "")

    @property
    def valid_values(self) -> str:
        """What may be given, in words for the documentation."""
        if self.choices:
            return ", ".join(self.choices)
        if self.minimum is not None and self.maximum is not None:
            return f"{self.minimum} to {self.maximum}"
        if self.minimum is not None:
            return f"at least {self.minimum}"
        return ""

    def parse(self, text: str) -> Any:
        """The typed value of `text`, checked; ConfigError says what is wrong with it."""
        value = self._convert(text.strip())
        self._check_value(value)
        return value

    def format(self, value: Any) -> str | None:
        """The text that `parse` takes back; None for a setting without a value."""
        if value is None:
            return None
        if value is True:
            return "true"
        if value is False:
            return "false"
        if isinstance(value, frozenset):
            order = {choice: index for index, choice in enumerate(self.choices)}
            return ",".join(sorted(value, key=lambda item: (order.get(item, len(order)), item)))
        if isinstance(value, tuple):
            return ",".join(value)
        return str(value)

    def normalise(self, text: str) -> str:
        """`text` as an admin client gets it back: parsed and written again, a list in the order it was given."""
        if self.kind == "LIST":
            return ",".join(_split(text))
        return self.format(self.parse(text)) or ""

    def refuse(self, value: object, reason: str) -> ConfigError:
        shown = "[hidden]" if self.sensitive else value
        return ConfigError(f"Invalid value {shown} for configuration {self.name}: {reason}")

    def _convert(self, text: str) -> Any:
        kind = self.kind
        if kind in _INTEGER_BOUNDS:
            bound = _INTEGER_BOUNDS[kind]
            digits = text[1:] if text[:1] in ("-", "+") else text
            if not (digits.isascii() and digits.isdigit()) or len(digits) > 20 or not -bound - 1 <= int(text) <= bound:
                raise self.refuse(text, f"Not a number of type {kind}")
            return int(text)
        if kind == "BOOLEAN":
            lowered = text.lower()
            if lowered not in ("true", "false"):
                raise self.refuse(text, "Expected value to be either true or false")
            return lowered == "true"
        if kind == "DOUBLE":
            try:
                return float(text)
            except ValueError:
                raise self.refuse(text, "Not a number of type DOUBLE") from None
        if kind == "LIST":
            items = _split(text)
            return frozenset(items) if isinstance(self.default, frozenset) else items
        return text

    def _check_value(self, value: Any) -> None:
        if self.minimum is not None and value < self.minimum:
            raise self.refuse(value, f"Value must be at least {self.minimum}")
        if self.maximum is not None and not value <= self.maximum:
            raise self.refuse(value, f"Value must be no more than {self.maximum}")
        if self.choices:
            for item in value if self.kind == "LIST" else (value,):
                if item not in self.choices:
                    raise self.refuse(item, f"String must be one of: {', '.join(self.choices)}")
        if self.check is not None:
            reason = self.check(value)
            if reason is not None:
                raise self.refuse(self.format(value), reason)


def _split(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.split(",") if item.strip())


# One function per type, typed as the value it stands for: a declaration reads `retention_ms: int = int64(...)`.


def boolean(*, default: bool, doc: str, **rest: Any) -> bool:
    return cast(bool, Setting("BOOLEAN", default, doc, **rest))


def int16(*, default: int, doc: str, **rest: Any) -> int:
    return cast(int, Setting("SHORT", default, doc, **rest))


def int32(*, default: int, doc: str, **rest: Any) -> int:
    return cast(int, Setting("INT", default, doc, **rest))


def int64(*, default: int, doc: str, **rest: Any) -> int:
    return cast(int, Setting("LONG", default, doc, **rest))


def optional_int32(*, default: int | None = None, doc: str, **rest: Any) -> int | None:
    return cast("int | None", Setting("INT", default, doc, **rest))


def optional_int64(*, default: int | None = None, doc: str, **rest: Any) -> int | None:
    return cast("int | None", Setting("LONG", default, doc, **rest))


def double(*, default: float, doc: str, **rest: Any) -> float:
    return cast(float, Setting("DOUBLE", default, doc, **rest))


def text(*, default: str, doc: str, **rest: Any) -> str:
    return cast(str, Setting("STRING", default, doc, **rest))


def optional_text(*, default: str | None = None, doc: str, **rest: Any) -> str | None:
    return cast("str | None", Setting("STRING", default, doc, **rest))


def word_set(*, default: frozenset[str], doc: str, **rest: Any) -> frozenset[str]:
    """A list whose order means nothing."""
    return cast("frozenset[str]", Setting("LIST", default, doc, **rest))


def word_list(*, default: tuple[str, ...], doc: str, **rest: Any) -> tuple[str, ...]:
    return cast("tuple[str, ...]", Setting("LIST", default, doc, **rest))


def optional_word_list(*, default: tuple[str, ...] | None = None, doc: str, **rest: Any) -> tuple[str, ...] | None:
    return cast("tuple[str, ...] | None", Setting("LIST", default, doc, **rest))


@dataclass_transform(
    kw_only_default=True,
    frozen_default=True,
    field_specifiers=(
        boolean,
        int16,
        int32,
        int64,
        optional_int32,
        optional_int64,
        double,
        text,
        optional_text,
        word_set,
        word_list,
        optional_word_list,
    ),
)
class Settings:
    """Base of a class of settings: collects its declarations and holds one value for each."""

    SETTINGS: ClassVar[dict[str, Setting]] = {}
    """Every setting of the class by Kafka's name, in the order of declaration."""
    DEFAULTS: ClassVar[dict[str, Any]] = {}
    """Every default by attribute."""

    def __init_subclass__(cls, section: str = "") -> None:
        settings: dict[str, Setting] = {}
        for base in cls.__bases__:
            settings.update(getattr(base, "SETTINGS", {}))
        for attribute, declared in list(vars(cls).items()):
            if isinstance(declared, Setting):
                declared.attribute = attribute
                declared.name = declared.name or attribute.replace("_", ".")
                declared.section = section
                settings[declared.name] = declared
                delattr(cls, attribute)
        cls.SETTINGS = settings
        cls.DEFAULTS = {setting.attribute: setting.default for setting in settings.values()}

    def __init__(self, **values: Any) -> None:
        own = self.__dict__
        own.update(self.DEFAULTS)
        unknown = values.keys() - own.keys()
        if unknown:
            raise TypeError(f"{type(self).__name__} has no setting {', '.join(sorted(unknown))}")
        own.update(values)
        self._derive(values)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} does not change; make another one")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return False
        return all(getattr(self, attribute) == getattr(other, attribute) for attribute in self.DEFAULTS)

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        changed = (f"{a}={getattr(self, a)!r}" for a, default in self.DEFAULTS.items() if getattr(self, a) != default)
        return f"{type(self).__name__}({', '.join(changed)})"

    def _derive(self, given: dict[str, Any]) -> None:
        """What a class keeps beside its values once they stand; `given` is what the constructor was given."""

    def value_text(self, name: str) -> str | None:
        """The value of a setting by Kafka's name, as text."""
        setting = self.SETTINGS[name]
        return setting.format(getattr(self, setting.attribute))

    @classmethod
    def setting_named(cls, name: str, *, what: str = "configuration") -> Setting:
        """The setting, or ConfigError with the nearest name there is."""
        setting = cls.SETTINGS.get(name)
        if setting is None:
            raise ConfigError(f"Unknown {what} name: {name}{did_you_mean(name, cls.SETTINGS)}")
        return setting

    @classmethod
    def parse_values(cls, texts: Mapping[str, str], *, what: str = "configuration") -> dict[str, Any]:
        """Checked values by attribute."""
        values: dict[str, Any] = {}
        for name, given in texts.items():
            setting = cls.setting_named(name, what=what)
            values[setting.attribute] = setting.parse(given)
        return values

    def replaced(self, **values: Any) -> Self:
        """A copy with some values changed."""
        own = {attribute: getattr(self, attribute) for attribute in self.DEFAULTS}
        own.update(values)
        return type(self)(**own)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """` (did you mean x?)` when something close to `name` is known, else nothing."""
    import difflib  # only a wrong name pays for it

    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.75)
    return f" (did you mean {near[0]}?)" if near else ""
