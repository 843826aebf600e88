"""Endpoints of the client APIs that are not served, and why: one table for all of them.

A vendor's API has more than questions to a model: files, batches, agents, accounts.  Who asks for one of these is told
the reason, and what to do in its place, in the form of the API's own errors.  Everywhere but in the Gemini API that is
a 404: the official SDKs of the others send a request again after any status from 500 on.

Sources: the resources of the SDKs of OpenAI (3.57.0), Anthropic (2.14.0) and Google (3.6.1).
"""

from __future__ import annotations

from typing import Final

from attrs import frozen


@frozen
class Unserved:
    """Endpoints that are not served for one reason."""

    why: str
    """What is wrong, and what to do."""

    paths: tuple[str, ...] = ()
    """Beginnings of paths of OpenAI's and Anthropic's APIs, behind ``/v1/``, up to the end of a segment."""

    words: tuple[str, ...] = ()
    """Of the Gemini API: verbs behind the colon, and first segments behind the version."""


UNSERVED: Final[tuple[Unserved, ...]] = (
    Unserved(
        "embeddings have one form here, that of OpenAI's API: ask for them there (embeddings, below /v1), Gemini's too",
        words=("embedContent", "batchEmbedContents", "asyncBatchEmbedContent"),
    ),
    Unserved(
        "images and videos are not made here; ask a service that makes them",
        paths=("images", "videos"),
        words=("predict", "predictLongRunning", "fetchPredictOperation"),
    ),
    Unserved(
        "speech is neither made nor written down here; ask a service that does",
        paths=("audio",),
    ),
    Unserved(
        "live connections for speech are not served; send requests, whose answers are streamed",
        paths=("realtime", "live"),
        words=("bidiGenerateContent", "auth_tokens"),
    ),
    Unserved(
        "batches are not served; send a request for each",
        paths=("batches", "messages/batches"),
        words=("batchGenerateContent", "batches", "batchPredictionJobs"),
    ),
    Unserved(
        "files cannot be uploaded; send their bytes within the request",
        paths=("files", "uploads"),
        words=("files",),
    ),
    Unserved(
        "files are not searched here; offer the model a tool of your own that searches them",
        paths=("vector_stores",),
        words=("fileSearchStores", "corpora"),
    ),
    Unserved(
        "nothing is cached here by name; send the contents with each request",
        words=("cachedContents",),
    ),
    Unserved(
        "texts are not judged here; ask a service that does, or a model with a schema for its verdict",
        paths=("moderations", "safety", "content_provenance_checks"),
    ),
    Unserved(
        "questions with fixed answers are not served; ask a model with a schema for its answer",
        paths=("decisions",),
    ),
    Unserved(
        "chat completions are not stored here; answers of the Responses API are",
        paths=("chat/completions",),
    ),
    Unserved(
        "no agent runs here, and nothing of one is held; run it where the client is, and send its questions",
        paths=(
            "agents", "assistants", "threads", "chatkit", "sessions", "environments", "memory_stores", "vaults",
            "deployments", "deployment_runs", "dreams", "tunnels",
        ),
        words=("interactions",),
    ),
    Unserved(
        "no container runs here; offer the model tools of your own",
        paths=("containers",),
    ),
    Unserved(
        "skills are not held here; send what they say within the request",
        paths=("skills",),
    ),
    Unserved(
        "models cannot be tuned or examined here; name one of the list of models",
        paths=("fine_tuning", "evals"),
        words=("tunedModels", "tuningJobs"),
    ),
    Unserved(
        "tokens are counted, and not shown; use countTokens",
        words=("computeTokens",),
    ),
    Unserved(
        "nothing goes on behind an answer; ask for the answer itself",
        words=("operations",),
    ),
    Unserved(
        "accounts are not managed here; use the service's own console or API",
        paths=(
            "organization", "organizations", "projects", "compliance", "user_profiles", "webhook_endpoints",
            "webhook_event_types",
        ),
    ),
)  # fmt: skip


def why_no_path(path: str) -> str:
    """Why there is nothing at *path*, which begins with ``/v1/``; empty where it is nothing that anybody has."""
    segments = path.removeprefix("/v1/").split("/", 2)
    asked = {segments[0], "/".join(segments[:2])}
    return next((each.why for each in UNSERVED if not asked.isdisjoint(each.paths)), "")


def why_no_word(word: str) -> str:
    """Why the Gemini API has no such verb or resource here; empty where nobody has it."""
    return next((each.why for each in UNSERVED if word in each.words), "")
