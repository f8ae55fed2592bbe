"""Jobs made from what people say of them: an image, a command, so many GPUs. Pure."""

from fleet.submission.build import build
from fleet.submission.request import CodeArchive, InteractiveKind, Mount, Request, RequestFault
from fleet.submission.series import Series, expanded

__all__ = ["CodeArchive", "InteractiveKind", "Mount", "Request", "RequestFault", "Series", "build", "expanded"]
