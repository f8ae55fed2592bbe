"""Jobs made from what people say of them: an image, a command, so many GPUs. Pure."""

from fleet.submission.build import build
from fleet.submission.request import Code, Interactive, Mount, Request, Wrong
from fleet.submission.series import Series, expanded

__all__ = ["Code", "Interactive", "Mount", "Request", "Series", "Wrong", "build", "expanded"]
