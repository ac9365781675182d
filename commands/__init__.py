"""The command line's subcommands: each reads its arguments, calls the layers below and prints."""
