"""PTX: parser, decoders one instruction family a file, and the encoder of engine programs."""

from .encode import Encoder as Encoder
from .encode import Kernel as Kernel
from .parse import Module as Module
from .parse import Parameter as Parameter
from .parse import parse_module as parse_module
from .source import SourceLine as SourceLine
from .source import source_chain as source_chain
from .source import source_chains as source_chains

__all__ = ["Encoder", "Kernel", "Module", "Parameter", "SourceLine", "parse_module", "source_chain", "source_chains"]
