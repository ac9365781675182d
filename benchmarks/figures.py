"""How a figure is printed: its name, its value, its aim, and whether that is met."""


def row(name: str, value: float, unit: str = "", aim: float | None = None, note: str = "") -> str:
    """A row of the table; ``aim`` is the most it may be; ``note`` says what belongs to it.

    >>> row("poll", 2.4, "ms", aim=5)
    '| poll | 2.40 ms | ≤ 5 ms | met |'
    >>> row("of the bare loop", 0.5, aim=0.35, note="2 workers")
    '| of the bare loop | 0.50 (2 workers) | ≤ 0.35 | NOT MET |'
    """
    unit = f" {unit}" if unit else ""
    aimed = "" if aim is None else f"≤ {aim:,g}{unit}"
    met = "" if aim is None else "met" if value <= aim else "NOT MET"
    return f"| {name} | {number(value)}{unit}{f' ({note})' if note else ''} | {aimed} | {met} |"


def number(value: float) -> str:
    """Three digits, or all before the point.

    >>> [number(each) for each in (0.0123, 0.3, 2.4, 45.67, 331.2, 1234567.0)]
    ['0.012', '0.30', '2.40', '45.7', '331', '1,234,567']
    """
    digits = 3 if abs(value) < 0.1 else 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0
    return f"{value:,.{digits}f}"


def tell(name: str, value: float, unit: str = "", aim: float | None = None, note: str = "") -> None:
    """Print it."""
    print(row(name, value, unit, aim, note), flush=True)


def leave_out(name: str, why: str) -> None:
    """Print that it was not measured here."""
    print(f"| {name} | {why} | | not measured |", flush=True)
