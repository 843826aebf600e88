"""A command for a shell is the same request, whatever the client wrote."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kiro_asgi.tapes import Line, Tape
from kiro_asgi.tapes.exports import as_curl

HOSTILE = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=60) | st.sampled_from(
    ["'", 'it\'s $(date) `id` "x"', "a\nb", "--output /etc/passwd", "@/etc/passwd", "\\", "!!", "%0a"]
)


@settings(max_examples=40)
@given(HOSTILE, HOSTILE)
def test_a_shell_reads_it_as_it_was(body, value):
    """Body and headers reach the program as they are, and the key comes from the environment."""
    headers = [["user-agent", value.encode("utf-8").decode("latin-1")]]
    members = {"method": "POST", "path": "/v1/messages", "query": "a=1&b='", "headers": headers}
    tape = Tape((Line("tape", 0.0, {}), Line("client.request", 0.0, members, body.encode())))
    script = f'curl() {{ printf "%s\\0" "$@"; }}; {as_curl(tape, "http://h")}'

    done = subprocess.run(["sh", "-c", script], capture_output=True, env={"KIRO_ASGI_KEY": "k$(x)"}, check=True)

    told = done.stdout.decode().split("\0")
    assert told[3] == "http://h/v1/messages?a=1&b='"
    assert told[5] == f"user-agent: {headers[0][1]}"
    assert told[7] == "authorization: Bearer k$(x)"
    assert told[-3:] == ["--data-raw", body, ""]


def test_a_tape_without_a_request():
    """Says so."""
    with pytest.raises(Exception, match="no client request"):
        as_curl(Tape((Line("tape", 0.0, {}),)))
