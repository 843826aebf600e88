"""Signs of life are nothing to the official clients."""

from __future__ import annotations

from tests.conformance.asking import MODEL, user
from tests.conformance.clients import Clients
from tests.conformance.gateways import Gateway

QUESTION = "sim:count=4 sim:slow=0.35"
"""Long enough between two words for a heartbeat of the impatient gateway."""


def test_f019_chat(clients: Clients, gateway: Gateway, impatient: Gateway) -> None:
    """F019, F027: a stream with comments in it is read to the same chunks as one without."""
    texts = [
        [
            chunk.choices[0].delta.content
            for chunk in clients.openai(place).chat.completions.create(
                model=MODEL, messages=user(QUESTION), stream=True
            )
        ]
        for place in (gateway, impatient)
    ]

    assert texts[0] == texts[1]
    assert len(texts[0]) > 4


def test_f019_messages(clients: Clients, gateway: Gateway, impatient: Gateway) -> None:
    """F019, F292: a ``ping`` changes nothing in the message that a client builds."""
    said = []
    for place in (gateway, impatient):
        with clients.anthropic(place).messages.stream(model=MODEL, max_tokens=99, messages=user(QUESTION)) as stream:
            said.append(stream.get_final_message().content)

    assert said[0] == said[1]


def test_f019_responses(clients: Clients, gateway: Gateway, impatient: Gateway) -> None:
    """F019: an event that Codex counts, and that changes nothing in the response that a client builds."""
    said = []
    for place in (gateway, impatient):
        with clients.openai(place).responses.stream(model=MODEL, input=QUESTION) as stream:
            kinds = [(event.type, getattr(event, "delta", "more")) for event in stream]
            said.append(stream.get_final_response().output_text)

    assert said[0] == said[1]
    assert ("response.output_text.delta", "") in kinds
