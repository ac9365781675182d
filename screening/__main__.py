"""`python -m screening`: the command line itself is `commands`, above this package."""

from commands.__main__ import main

if __name__ == "__main__":
    raise SystemExit(main())
