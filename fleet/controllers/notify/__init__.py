"""Tells receivers what happens to jobs."""
