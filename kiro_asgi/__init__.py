"""A streaming gateway as a raw ASGI application: APIs of OpenAI, Anthropic and Gemini in front of Kiro and others."""

from __future__ import annotations

import sys
from importlib import import_module
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any, Final

from kiro_asgi._version import __version__

if TYPE_CHECKING:
    from kiro_asgi.asgi.door.app import App
    from kiro_asgi.asgi.door.client_table import Presented
    from kiro_asgi.asgi.door.mount import mount
    from kiro_asgi.asgi.door.readiness import Readiness
    from kiro_asgi.asgi.kept.server_tools import ServerTool
    from kiro_asgi.config import (
        ClientSettings,
        CorsSettings,
        CredentialSettings,
        DirectSettings,
        FetchSettings,
        GroupSettings,
        InspectorSettings,
        KeySettings,
        LimitSettings,
        PriceSettings,
        PromiseSettings,
        QuotaSettings,
        RecoverySettings,
        ResponsesSettings,
        RetrySettings,
        RoutingSettings,
        Settings,
        StateSettings,
        StreamSettings,
        StructuredSettings,
        TapeSettings,
        ToolSettings,
    )
    from kiro_asgi.create import create_app
    from kiro_asgi.dialects.base import Dialect
    from kiro_asgi.dialects.manifest import DialectManifest
    from kiro_asgi.errors import ConfigError, KiroAsgiError, RequestError, StoreUnavailable, UpstreamError
    from kiro_asgi.model.events import Event, SearchHit, ToolOutput
    from kiro_asgi.model.message import Message
    from kiro_asgi.model.prompt import Prompt
    from kiro_asgi.observers.base import Observer, ObserverManifest
    from kiro_asgi.quota.clients import Client, Group
    from kiro_asgi.quota.settings import Allowance
    from kiro_asgi.stages.base import Stage, StageFactory, StageManifest
    from kiro_asgi.stages.estimate import Estimator, TokenEstimator
    from kiro_asgi.state.base import BatchStore, Locks, Store, StoreManifest, WatchedStore
    from kiro_asgi.state.blocking import BlockingStore
    from kiro_asgi.upstreams.base import Upstream
    from kiro_asgi.upstreams.manifest import Manifest

__all__ = [
    "Allowance",
    "App",
    "BatchStore",
    "BlockingStore",
    "Client",
    "ClientSettings",
    "ConfigError",
    "CorsSettings",
    "CredentialSettings",
    "Dialect",
    "DialectManifest",
    "DirectSettings",
    "Estimator",
    "Event",
    "FetchSettings",
    "Group",
    "GroupSettings",
    "InspectorSettings",
    "KeySettings",
    "KiroAsgiError",
    "LimitSettings",
    "Locks",
    "Manifest",
    "Message",
    "Observer",
    "ObserverManifest",
    "Presented",
    "PriceSettings",
    "PromiseSettings",
    "Prompt",
    "QuotaSettings",
    "Readiness",
    "RecoverySettings",
    "RequestError",
    "ResponsesSettings",
    "RetrySettings",
    "RoutingSettings",
    "SearchHit",
    "ServerTool",
    "Settings",
    "Stage",
    "StageFactory",
    "StageManifest",
    "StateSettings",
    "Store",
    "StoreManifest",
    "StoreUnavailable",
    "StreamSettings",
    "StructuredSettings",
    "TapeSettings",
    "TokenEstimator",
    "ToolOutput",
    "ToolSettings",
    "Upstream",
    "UpstreamError",
    "WatchedStore",
    "__version__",
    "create_app",
    "mount",
]

_HOMES: Final = MappingProxyType(
    {
        name: module
        for module, names in {
            "asgi.door.app": "App",
            "asgi.door.client_table": "Presented",
            "asgi.door.mount": "mount",
            "asgi.door.readiness": "Readiness",
            "asgi.kept.server_tools": "ServerTool",
            "create": "create_app",
            "dialects.base": "Dialect",
            "dialects.manifest": "DialectManifest",
            "errors": "ConfigError KiroAsgiError RequestError StoreUnavailable UpstreamError",
            "model.events": "Event SearchHit ToolOutput",
            "model.message": "Message",
            "model.prompt": "Prompt",
            "observers.base": "Observer ObserverManifest",
            "quota.clients": "Client Group",
            "quota.settings": "Allowance",
            "stages.base": "Stage StageFactory StageManifest",
            "stages.estimate": "Estimator TokenEstimator",
            "state.base": "BatchStore Locks Store StoreManifest WatchedStore",
            "state.blocking": "BlockingStore",
            "upstreams.base": "Upstream",
            "upstreams.manifest": "Manifest",
        }.items()
        for name in names.split()
    }
)
"""Name to the module that defines it; all others are settings, of ``config``."""

_MODULES: Final = frozenset(
    {"config", "dialects", "errors", "extension", "observers", "stages", "streaming", "testing", "upstreams"}
)


class _StandIn:
    """A name of the package as long as nobody has asked for it; called, it is what it stands for.

    It stands in the module's dictionary, as some servers look there and nowhere else: ``hypercorn
    'kiro_asgi:create_app()'`` evaluates those words with the dictionary, for which no ``__getattr__`` is asked.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.load()(*args, **kwargs)

    def load(self) -> Any:
        """Import what this stands for, and put it in this one's place."""
        module = import_module(f"kiro_asgi.{_HOMES.get(self._name, 'config')}")
        value = globals()[self._name] = getattr(module, self._name)
        return value


class _Package(ModuleType):
    """Imports what a name stands for when it is first asked for: who needs one module need not wait for all others."""

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        return value.load() if type(value) is _StandIn else value


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"kiro_asgi.{name}")
    raise AttributeError(f"module 'kiro_asgi' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})


globals().update({name: _StandIn(name) for name in __all__ if name not in globals()})
sys.modules[__name__].__class__ = _Package
