"""Traces of the life of jobs: see README.md."""
