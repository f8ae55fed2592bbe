"""Logs, exec, attach and port-forward of the members' pods, by namespace of the hub."""
