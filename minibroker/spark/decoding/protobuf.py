"""Protobuf schemas to what `from_protobuf` needs: descriptors, and the path to a message in each version of a schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import Final, NamedTuple

try:
    from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet
except ImportError:  # optional: the extra `registry`
    FileDescriptorSet = None  # type: ignore[assignment,misc]

from minibroker.extras import install_command
from minibroker.registry.protoc import ProtocError, compile_proto, known_files
from minibroker.spark.failures import SourceError

_MAIN: Final = "minibroker_main.proto"


class ProtobufFile(NamedTuple):
    """A compiled schema."""

    descriptors: bytes  #: an encoded FileDescriptorSet with all imports
    messages: Mapping[str, tuple[int, ...]]  #: the path to each message, by its full name, in the order of the file


def compile_file(text: str, imports: Mapping[str, str]) -> ProtobufFile:
    """Compile a schema and the texts that it imports by name.

    Raises:
        SourceError: grpcio-tools is missing, or protoc refuses a text.
    """
    if find_spec("grpc_tools") is None or FileDescriptorSet is None:
        raise SourceError(f"Protobuf schemas need grpcio-tools: {install_command('registry')}")
    try:
        descriptors = compile_proto({**known_files((text, *imports.values())), **imports, _MAIN: text}, _MAIN)
    except ProtocError as error:
        raise SourceError(f"protoc cannot compile a Protobuf schema of the registry: {' '.join(str(error).split())}") from error
    files = FileDescriptorSet.FromString(descriptors).file
    main = next(each for each in files if each.name == _MAIN)
    return ProtobufFile(descriptors, dict(_messages(main)))


def _messages(file: FileDescriptorProto) -> Iterator[tuple[str, tuple[int, ...]]]:
    def below(messages: Sequence[DescriptorProto], prefix: str, path: tuple[int, ...]) -> Iterator[tuple[str, tuple[int, ...]]]:
        for number, message in enumerate(messages):
            name = f"{prefix}{message.name}"
            yield name, (*path, number)
            yield from below(message.nested_type, f"{name}.", (*path, number))

    yield from below(file.message_type, f"{file.package}." if file.package else "", ())
