"""The transparent keyword-and-phrase scorer behind the simulated agents. Not a model; not for use on people."""
