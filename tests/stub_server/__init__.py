"""A real HTTP server that speaks the Messages API and misbehaves on request: for tests and for trying the app."""

from tests.stub_server.plan import Fault, RawReply, StubPlan, TextRule
from tests.stub_server.server import StubServer

__all__ = ["Fault", "RawReply", "StubPlan", "StubServer", "TextRule"]
