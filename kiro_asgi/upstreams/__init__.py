"""The services behind the gateway, one folder a vendor; and the names for adding one from outside."""

from __future__ import annotations

from kiro_asgi.failures.texts import clean
from kiro_asgi.model.embeddings import EmbeddingPrompt, Embeddings, packed
from kiro_asgi.model.notes import Note, Notes
from kiro_asgi.model.rules import Loss, Rule
from kiro_asgi.rendering.names import WireNames
from kiro_asgi.rendering.refusal import refusal
from kiro_asgi.rendering.schemas import schema_instructions
from kiro_asgi.setting import Bounds, Choices, Shape, setting
from kiro_asgi.stages.base import Pipeline, Stage
from kiro_asgi.stages.estimate import Estimator
from kiro_asgi.upstreams.access import Hosts, KeyExchange, Keys, SignIns, TokenPlaces, Vendor
from kiro_asgi.upstreams.base import (
    Credential,
    CredentialKind,
    Embedder,
    EmbeddingReader,
    Forwarding,
    ModelCard,
    ModelPage,
    PausingTurn,
    Rendered,
    ThinkingForm,
    Token,
    TokenKind,
    Traits,
    Upstream,
    UpstreamRequest,
)
from kiro_asgi.upstreams.direct import DirectUpstream, common, direct_setup
from kiro_asgi.upstreams.headers import Headers, require_media_type
from kiro_asgi.upstreams.json_events import JsonEvent, JsonEvents, JsonLines
from kiro_asgi.upstreams.manifest import Configured, Manifest, UpstreamSettings
from kiro_asgi.upstreams.models import listed, read_listing
from kiro_asgi.upstreams.oauth import OAuthVendor, SignInSettings, token_document
from kiro_asgi.upstreams.services import KnownService
from kiro_asgi.upstreams.settings import Adapt, AnswerOptions, DirectSettings, Quota, Search, Setup
from kiro_asgi.upstreams.vectors import VectorReader, vector_of
from kiro_asgi.wire.json import count_of, dumps, loads, object_of, objects_of, text_of

__all__ = [
    "Adapt",
    "AnswerOptions",
    "Bounds",
    "Choices",
    "Configured",
    "Credential",
    "CredentialKind",
    "DirectSettings",
    "DirectUpstream",
    "Embedder",
    "EmbeddingPrompt",
    "EmbeddingReader",
    "Embeddings",
    "Estimator",
    "Forwarding",
    "Headers",
    "Hosts",
    "JsonEvent",
    "JsonEvents",
    "JsonLines",
    "KeyExchange",
    "Keys",
    "KnownService",
    "Loss",
    "Manifest",
    "ModelCard",
    "ModelPage",
    "Note",
    "Notes",
    "OAuthVendor",
    "PausingTurn",
    "Pipeline",
    "Quota",
    "Rendered",
    "Rule",
    "Search",
    "Setup",
    "Shape",
    "SignInSettings",
    "SignIns",
    "Stage",
    "ThinkingForm",
    "Token",
    "TokenKind",
    "TokenPlaces",
    "Traits",
    "Upstream",
    "UpstreamRequest",
    "UpstreamSettings",
    "VectorReader",
    "Vendor",
    "WireNames",
    "clean",
    "common",
    "count_of",
    "direct_setup",
    "dumps",
    "listed",
    "loads",
    "object_of",
    "objects_of",
    "packed",
    "read_listing",
    "refusal",
    "require_media_type",
    "schema_instructions",
    "setting",
    "text_of",
    "token_document",
    "vector_of",
]
