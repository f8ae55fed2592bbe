"""The processes of a hub, and the commands that run them: the part of Fleet that a command line alone does not need."""
