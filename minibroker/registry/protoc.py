"""Compile .proto texts by protoc, in a child process with limits of time and memory.

protoc is that of grpcio-tools, with Google's well-known types; Confluent's own files are here. The child reads and writes only a
temporary folder. It needs about 0.1 s.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

CPU_MAX_S: Final = 5
MEMORY_MAX_BYTES: Final = 1 << 30
_TIMEOUT_S: Final = 30  #: also counts the time in which other processes have the processor
_ERRORS_MAX: Final = 2_000  #: characters
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")
_LOG_LINE: Final = re.compile(r"WARNING: All log messages|[IW]\d{4} ")  #: protoc's own log, which is not about errors
_PROGRAM: Final = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_CPU, ({CPU_MAX_S}, {CPU_MAX_S}))
resource.setrlimit(resource.RLIMIT_AS, ({MEMORY_MAX_BYTES}, {MEMORY_MAX_BYTES}))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
from importlib.resources import files
from grpc_tools import protoc
sys.exit(protoc.main(["protoc", *sys.argv[1:], "-I" + str(files("grpc_tools") / "_proto")]))
"""

_META: Final = """
syntax = "proto3";
package confluent;
import "google/protobuf/descriptor.proto";
message Meta {
  string doc = 1;
  map<string, string> params = 2;
  repeated string tags = 3;
  repeated Rule rules = 4;
}
message Rule { string name = 1; string doc = 2; string expr = 3; string sql = 4; }
extend google.protobuf.FileOptions { Meta file_meta = 1088; }
extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
"""
_DECIMAL: Final = 'syntax = "proto3"; package confluent.type; message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }'
_VARIANT: Final = 'syntax = "proto3"; package confluent.type; message Variant { bytes metadata = 1; bytes value = 2; }'

_CONFLUENTS_FILES: Final = {
    "confluent/meta.proto": _META,
    "confluent/type/decimal.proto": _DECIMAL,
    "confluent/type/variant.proto": _VARIANT,
    "confluent/types/decimal.proto": 'syntax = "proto3"; import public "confluent/type/decimal.proto";',  # the name in older clients
}


class ProtocError(ValueError):
    """protoc refuses a text; the message has its reasons."""


def compile_proto(files: Mapping[str, str], main: str) -> bytes:
    """The descriptors of the file `main` and all that it imports, as an encoded FileDescriptorSet.

    `files` are texts by the names under which they are imported. Raises ProtocError.
    """
    for name in files:
        if not _NAME.fullmatch(name) or len(name) > 200:
            raise ProtocError(f"{name!r} is not a name of a file that can be imported")
    with tempfile.TemporaryDirectory(prefix="minibroker-protoc-") as folder:
        for name, text in files.items():
            path = Path(folder, "in", name)
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            except (FileExistsError, IsADirectoryError, NotADirectoryError):
                raise ProtocError(f"{name!r} cannot be imported: one of two names is the folder of the other") from None
        output = Path(folder, "out")
        arguments = [f"--descriptor_set_out={output}", "--include_imports", f"-I{folder}/in", main]
        try:
            done = subprocess.run(  # noqa: S603  our own program; names are checked
                [sys.executable, "-I", "-c", _PROGRAM, *arguments],
                cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIMEOUT_S, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise ProtocError(f"protoc did not finish within {_TIMEOUT_S} s") from None
        if done.returncode:
            output_lines = done.stderr.decode(errors="replace").replace(f"{folder}/in/", "").splitlines()
            reasons = "\n".join(line for line in output_lines if not _LOG_LINE.match(line)).strip()[:_ERRORS_MAX]
            limits = f"its limits are {CPU_MAX_S} s of CPU and {MEMORY_MAX_BYTES >> 20} MB"
            raise ProtocError(reasons or f"protoc exited with code {done.returncode} ({limits})")
        return output.read_bytes()


def known_files(texts: Iterable[str]) -> dict[str, str]:
    """Return Confluent's own files that texts may import without a reference, by name; none if no text names one."""
    return _CONFLUENTS_FILES if any("confluent/" in text for text in texts) else {}
