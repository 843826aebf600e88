"""Operations on a model, by the verb behind its name."""

from __future__ import annotations

from typing import Final

from kiro_asgi.apis.operations import Operations
from kiro_asgi.asgi.exchange.call import Call
from kiro_asgi.asgi.protocol import Scope, query_values
from kiro_asgi.dialects.gemini import VERBS
from kiro_asgi.dialects.gemini.dialect import GeminiApi, GeminiArray, GeminiStream
from kiro_asgi.dialects.gemini.errors import UNIMPLEMENTED
from kiro_asgi.dialects.unserved import why_no_word
from kiro_asgi.errors import RequestError, RouteNotFound


class GeminiOperations(Operations):
    """The operations of one app."""

    async def call(self, call: Call, argument: str) -> None:
        """Run the operation on a model that stands behind the last colon; names of models may have colons, too.

        Raises:
            RequestError: Code ``unimplemented``: only Google does that.
            RouteNotFound: There is no such operation.
        """
        model, _, verb = argument.rpartition(":")
        match verb:
            case "generateContent":
                await self._for(GeminiApi(model)).answer(call, model)
            case "streamGenerateContent" if _wants_events(call.scope):
                await self._for(GeminiStream(model)).answer(call, model)
            case "streamGenerateContent":
                await self._for(GeminiArray(model)).answer(call, model)
            case "countTokens":
                await self._for(GeminiApi(model)).count(call, model)
            case _:
                raise _refusal(verb)

    async def refuse(self, call: Call, argument: str) -> None:
        """Refuse a resource that is not there, with the reason.

        Raises:
            RequestError: Code ``unimplemented``: only Google has it.
            RouteNotFound: There is no such resource.
        """
        raise _refusal(argument.partition("/")[0].partition(":")[0])

    def _for(self, dialect: GeminiApi) -> Operations:
        return Operations(self._gateway, dialect)


_TAKEN: Final = f"{', '.join(f':{verb}' for verb in VERBS[:-1])} and :{VERBS[-1]}"
_ELSEWHERE: Final = "the OpenAI API is served at /v1: take /v1 for the base URL"


def _refusal(what: str) -> RequestError:
    why = _ELSEWHERE if what == "openai" else why_no_word(what)
    if why:
        return RequestError(f"{what}: {why}", code=UNIMPLEMENTED)
    return RouteNotFound(
        f"there is no {what[:60]!r}; models/MODEL takes {_TAKEN}",
        code="route_not_found",
    )


def _wants_events(scope: Scope) -> bool:
    """Whether ``alt``, or ``$alt``, is ``sse``.

    Raises:
        RequestError: The query has too many parameters.
    """
    query = query_values(scope)
    return "sse" in (*query.get("alt", ()), *query.get("$alt", ()))
