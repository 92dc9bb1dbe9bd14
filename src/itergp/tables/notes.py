"""What was done to a table on the way to numbers, each thing once: a sentence for who reads the output."""

from collections.abc import Hashable


class Notes:
    """Sentences in the order in which their reasons were met. `{count}` becomes the number of times."""

    def __init__(self) -> None:
        self._said: dict[Hashable, str] = {}
        self._counts: dict[Hashable, int] = {}
        self._met: dict[Hashable, str] = {}

    def add(self, what: Hashable, sentence: str, count: int = 1) -> None:
        """The sentence is that of the first time."""
        self._said.setdefault(what, sentence)
        self._counts[what] = self._counts.get(what, 0) + count

    def met(self, what: Hashable, example: str) -> None:
        """Remember the first example of something, if it is one, and say nothing of it."""
        if example:
            self._met.setdefault(what, example)

    def example(self, what: Hashable) -> str | None:
        return self._met.get(what)

    def count(self, what: Hashable) -> int:
        return self._counts.get(what, 0)

    def sentences(self) -> list[str]:
        return [said.replace("{count}", f"{self._counts[what]:,}") for what, said in self._said.items()]
