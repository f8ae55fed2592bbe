"""Controllers and schedulers of other projects, unmodified, for members of the test bed."""
