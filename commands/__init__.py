"""The command line: each command is a function that calls the layers below and prints."""
