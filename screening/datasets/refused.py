"""Why a whole file is not read."""


class FileRefused(Exception):
    """The file cannot be read without risking a wrong row. The sentence is for the person who sent it.

    ``line`` is the physical line (from 1) where there is one. The message never holds text from the file
    other than names of recognised columns.
    """

    def __init__(self, sentence: str, *, line: int | None = None) -> None:
        super().__init__(sentence if line is None else f"Line {line}: {sentence}")
        self.line = line


class ColumnsUnclear(FileRefused):
    """A person must say which column is what, or which are joined; ``columns`` are those of the file."""

    def __init__(self, sentence: str, *, columns: tuple[str, ...]) -> None:
        super().__init__(sentence)
        self.columns = columns
