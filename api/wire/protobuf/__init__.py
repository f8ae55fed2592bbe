"""The protobuf form of Kubernetes' built-in types: bodies, answers and watches."""

from api.wire.protobuf.reading import MAGIC, decode, decode_message
from api.wire.protobuf.tables import kind_message, kinds
from api.wire.protobuf.writing import UnwritableValue, encode_kind, encode_message

__all__ = [
    "MAGIC",
    "UnwritableValue",
    "decode",
    "decode_message",
    "encode_kind",
    "encode_message",
    "kind_message",
    "kinds",
]
