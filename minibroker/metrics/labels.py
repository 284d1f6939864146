"""Label sets. Their text is made once, and cached: the labels of a partition are the same in a dozen families."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

LABEL_SETS_MAX: Final = 65_536  #: that are cached
CACHED_LENGTH_MAX: Final = 500  #: letters of the names and values of a set; longer ones are not cached: group ids may have 32 kB
_TEMPLATES_MAX: Final = 1_024
_ESCAPED: Final = re.compile(r'[\\\n"]')
_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


class Labels(NamedTuple):
    """A label set."""

    text: str  #: as in the exposition, with its braces; "" without labels
    names: tuple[str, ...]
    values: tuple[str, ...]

    def as_dict(self) -> dict[str, str]:
        """Return the values by name."""
        return dict(zip(self.names, self.values, strict=True))


@lru_cache(LABEL_SETS_MAX)
def _labels(names: tuple[str, ...], values: tuple[str, ...]) -> Labels:
    escaped = values if _ESCAPED.search(" ".join(values)) is None else [each.translate(_ESCAPES) for each in values]
    return Labels(_template(names).format(*escaped), names, values)


@lru_cache(_TEMPLATES_MAX)
def _template(names: tuple[str, ...]) -> str:
    """Return the text of a label set with a place for each value, in the order of `names`."""
    order = sorted(range(len(names)), key=names.__getitem__)
    pairs = ",".join(f'{names[index]}="{{{index}}}"' for index in order)
    return f"{{{{{pairs}}}}}"


def labels(**values: object) -> Labels:
    """Return a label set: `labels(topic="orders", partition=0)`."""
    texts = tuple(map(str, values.values()))
    if sum(map(len, texts)) + sum(map(len, values)) > CACHED_LENGTH_MAX:
        return _labels.__wrapped__(tuple(values), texts)
    return _labels(tuple(values), texts)


@lru_cache(LABEL_SETS_MAX)
def labels_of_topic(topic: str) -> Labels:
    """Return the label set of a topic, whose name has nothing to escape."""
    return Labels(f'{{topic="{topic}"}}', ("topic",), (topic,))


@lru_cache(LABEL_SETS_MAX)
def labels_of_partition(topic: str, partition: int) -> Labels:
    """Return the label set of a partition."""
    number = str(partition)
    return Labels(f'{{partition="{number}",topic="{topic}"}}', ("partition", "topic"), (number, topic))


def labels_of_offset(group: Labels, topic: str, partition: int) -> Labels:
    """Return the label set of a committed offset. It is made faster than it would be found in a cache."""
    number = str(partition)
    text = f'{group.text[:-1]},partition="{number}",topic="{topic}"}}'
    return Labels(text, ("consumergroup", "partition", "topic"), (*group.values, number, topic))


def labels_of_group_topic(group: Labels, topic: str) -> Labels:
    """Return the label set of a topic that a group has committed offsets of."""
    return Labels(f'{group.text[:-1]},topic="{topic}"}}', ("consumergroup", "topic"), (*group.values, topic))


NO_LABELS: Final = Labels("", (), ())
