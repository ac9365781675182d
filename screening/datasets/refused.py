"""Why a whole file is not read."""


class FileRefused(Exception):
    """The file cannot be read without risking a wrong row. The sentence is for the person who sent it.

    ``line`` is the physical line (from 1) where there is one; ``sheets`` are those of a workbook of which another
    one might be read. The message never holds text from the file other than names of recognised columns, or what
    the person asked for by name.
    """

    def __init__(self, sentence: str, *, line: int | None = None, sheets: tuple[str, ...] = ()) -> None:
        super().__init__(sentence if line is None else f"Line {line}: {sentence}")
        self.line = line
        self.sheets = sheets


class ColumnsUnclear(FileRefused):
    """A person must say which column is what, or which are joined; ``columns`` are those of the file."""

    def __init__(self, sentence: str, *, columns: tuple[str, ...], sheets: tuple[str, ...] = ()) -> None:
        super().__init__(sentence, sheets=sheets)
        self.columns = columns
