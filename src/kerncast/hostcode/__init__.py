"""VERB hostcode: a program becomes the launches that it makes."""

from kerncast.hostcode.nouns import HostLaunch, HostValue
from kerncast.hostcode.request import callers_elsewhere, kernels_elsewhere, read_host_code

__all__ = ["HostLaunch", "HostValue", "callers_elsewhere", "kernels_elsewhere", "read_host_code"]
