"""Every fixed cap on what others send, in one place; those that an operator may set are `LimitSettings`.

A cap bounds work or memory that foreign input can cause.  What a service itself limits (lengths of its names, its
largest image) is knowledge about that service and stands with it.  ``docs/explanation/limits.rst`` is made from this
file: each constant has a docstring that says what it bounds, and what happens beyond it.
"""

from __future__ import annotations

from typing import Final

# Requests.

QUERY_FIELDS: Final = 100
"""Parameters in the query of a request; 400 beyond it."""

BETAS: Final = 100
"""Features that the ``anthropic-beta`` headers of a request name; those beyond it are not asked for."""

BETA_CHARACTERS: Final = 200
"""The name of such a feature; a longer one is not asked for."""

API_HEADERS: Final = 32
"""Headers of a client's API (``anthropic-…``) that go on with its bytes; those beyond it stay behind."""

API_HEADER_CHARACTERS: Final = 1_000
"""The value of such a header; a longer one stays behind."""

PACKED_RATIO: Final = 200
"""How many times as long as it came a packed body may be; text of agents is up to some twenty times as long."""

PACKED_FREE_BYTES: Final = 1024 * 1024
"""What a packed body may have, whatever it came as."""

PREFLIGHT_BYTES: Final = 4096
"""Bytes of the names of headers that a page of another origin asks to send; beyond it none of them is allowed."""

PREFLIGHT_NAMES: Final = 64
"""Headers that a page of another origin asks to send; those beyond it are not allowed."""

FETCHES: Final = 20
"""Images and documents of one request that are fetched by their addresses (`fetch.allow`); with more, 400 with the
place of the first one that is too much."""

FETCH_ADDRESS_CHARACTERS: Final = 8_192
"""An address that is fetched; 400 with the place beyond it."""

FETCH_CONNECTIONS: Final = 16
"""Connections to hosts of `fetch.allow` at once, in each event loop; further ones wait, within ``fetch.timeout``."""

FETCHES_AT_ONCE: Final = 4
"""Of these connections, and of `LOOKUP_THREADS`, those that one client can have at once; its further files wait."""

LOOKUP_THREADS: Final = 16
"""Threads that look up names of hosts of `fetch.allow`, in each event loop; the resolver may keep each for 30 seconds,
also when its request has been given up.  Other lookups have threads of their own."""

FETCH_REDIRECTS: Final = 3
"""Redirects, within its host, from one address that is fetched; 400 with the place beyond it."""

KNOWN_BODY: Final = 8 * 1024
"""Bytes of a request's body from which on its tools and messages are remembered for the client's next one
(``limits.known_bytes``); reading a smaller one again takes no time to speak of."""

KNOWN_ELEMENTS: Final = 5_000
"""Tools or messages of one request that are remembered; of a request with more that are new, none is."""

KNOWN_BY: Final = 3
"""Tools or messages at the beginning of a request by which what is remembered is found: a system text, what is said of
the surroundings, and what the user wants.  What begins with the same ones takes the place of what was remembered."""

KNOWN_SHARE: Final = 4
"""The part of ``limits.known_bytes`` that what is remembered of one client may take: a quarter.  Beyond it the client's
request that was used longest ago is forgotten; one that is larger by itself is not remembered."""

KNOWN_SECONDS: Final = 900.0
"""Seconds that it is remembered without being used: longer than most agents work on one turn."""

EMPTY_MESSAGES: Final = 100
"""Messages of one call that say nothing, such as a body that has been read and that a middleware gives again.  After
them the gateway listens to nothing more: a body without its end is 408, and a client that leaves is noticed when it is
sent something."""

WEBSOCKET_WAITING: Final = 16
"""Frames of one WebSocket that wait while an answer is under way; a further one is answered with an error of its own,
status 429."""

WEBSOCKET_BAD_FRAMES: Final = 5
"""Frames of one WebSocket in a row that are no JSON objects with a type; then it is closed with 1007."""

# Names.

MODEL_CHARACTERS: Final = 512
"""The name of a model.  One that a client asks for and is longer is refused with 404 before it is compared with any
other; one that a service lists is left out of its list."""

NAMED_MODELS: Final = 100
"""Models that a request names beside its own (``fallbacks``, ``models``, an advisor's …): 400 beyond it, and 404 for a
name that is longer than that of any model.  A key's ``models`` are matched with each."""

KEY_CHARACTERS: Final = 8_192
"""A key that a client shows; a longer one is none of the gateway's, and the host is not asked about it."""

NAME_CHARACTERS: Final = 4_096
"""Any other name or word of a request that is compared, counted by, repeated in messages or stored under: of a tool, a
session, an end user, a role, an effort, a format.  400 with the place beyond it."""

ID_CHARACTERS: Final = 256 * 1024
"""The id of a call, a response or an item: some gateways put the signature of a call into its id.  400 with the place
beyond it; what is stored is not looked for by a longer one."""

# Documents and schemas.

JSON_DEPTH: Final = 128
"""Arrays and objects open at once in one JSON document, a tool's schema, a call's input or its arguments.  Beyond it a
request is refused with 400 and the place, an answer with an upstream error; the library raises the same."""

REQUEST_DEPTH: Final = JSON_DEPTH + 16
"""Arrays and objects open at once in the body of a request: what may be `JSON_DEPTH` deep stands within others.  Beyond
it 400."""

JSON_VALUES: Final = 100_000
"""Elements of arrays and members of objects in one JSON document; a conversation of a million tokens has half as many.
Beyond it a request is refused with 400, an answer with an upstream error: decoding them, and the garbage collector's
passes over them, hold up the whole process, which long texts hardly do."""

SCHEMA_DEPTH: Final = 32
"""References and combinators followed one within another in a tool's schema; what is further in is left out."""

SCHEMA_COPIES: Final = 4_000
"""Schemas that references put into those of one request, for a service that knows none, in addition to those that the
client wrote down; one with long texts or values counts as several.  Further references are left out."""

EMBEDDING_INPUTS: Final = 2_048
"""Texts of one request for embeddings, as many as OpenAI takes; 400 beyond it.  A service that takes fewer at once is
asked several times."""

EMBEDDING_TOKENS: Final = 300_000
"""Values in the body of a request for embeddings, which may hold tokens in the place of texts: as many tokens as OpenAI
takes in one.  400 beyond it."""

EMBEDDING_DIMENSIONS: Final = 16_384
"""Numbers of one vector; beyond it an upstream error.  The longest that are known have 12,288 (davinci-001)."""

EMBEDDING_TEXT_BYTES: Final = 1024 * 1024
"""One vector as a service writes it, or any text beside it; beyond it an upstream error.  Each number of the longest
vector may have 64 characters."""

EMBEDDING_REST_BYTES: Final = 512 * 1024
"""All but the vectors of one answer with embeddings; beyond it an upstream error.  It is decoded in one go when it is
whole, and may have 256 bytes for each of `EMBEDDING_INPUTS`."""

# Matching.

STOP_CHARACTERS: Final = 8_192
"""All stop sequences of one request together: no service takes as many, and each character costs memory for as long as
the answer lasts.  400 with the place of the first one that is too much."""

DESCRIPTION_CHARACTERS: Final = 10_000
"""Descriptions of a tool's schema that become one, because the schemas do; with more, further ones are left out."""

# Streams.

EVENT_BYTES: Final = 16 * 1024 * 1024
"""One event of a stream: a frame, a server-sent event, an object found in text.  Beyond it the answer ends with an
upstream error.  The SDKs allow 16 MiB (smithy-python, payload) to 24 MiB (aws-c-event-stream)."""

FRAME_HEADERS_BYTES: Final = 128 * 1024
"""The headers section of a frame (botocore, smithy-python); beyond it the answer ends with an upstream error."""

FRAME_HEADERS: Final = 1024
"""Headers in a frame (aws-c-event-stream); beyond it the answer ends with an upstream error."""

REMEMBERED_HEADERS: Final = 128
"""Preludes, and headers sections, that a decoder of frames remembers; with one more it begins anew."""

REMEMBERED_BYTES: Final = 1024
"""The headers section that is worth remembering; a longer one is read each time."""

NOTICES: Final = 32
"""Notices of one answer about oddities in it; further ones are left out."""

USAGE_MEMBERS: Final = 64
"""Members of a report on an answer's tokens, and of each object in it, that are read."""

EARLY_MEMBERS: Final = 256
"""Objects with members that nobody knows, and such events, that wait for the start of an answer; with more it starts
without any content: written all at once they would hold up others."""

REMEMBERED_NOTICES: Final = 1_000
"""Notices, references and cut calls that are kept of one answer, each; the first ones are."""

# Whole answers.

BODY_BYTES: Final = 64 * 1024 * 1024
"""An answer of a model in one document, read or passed on; beyond it an upstream error."""

REFUSAL_BYTES: Final = 64 * 1024
"""The body of a refusal; the rest is not read."""

FETCHED_BYTES: Final = 4 * 1024 * 1024
"""The answer to any other question to a service, such as one page of its models; beyond it an upstream error."""

SEARCH_BYTES: Final = 1024 * 1024
"""The result of a search; beyond it the model is told that the search failed."""

CREDENTIALS_BYTES: Final = 1024 * 1024
"""A token file, or one value of another program's store; a larger one cannot be read."""

TOKEN_BYTES: Final = 64 * 1024
"""The answer to an exchange of a key for a token; beyond it the exchange failed."""

MODEL_PAGES: Final = 20
"""Pages of a service's list of models; further ones are not asked for."""

CONTINUATIONS: Final = 5
"""Times that a service is asked to go on with one answer in which it paused (``pause_turn``); beyond it the client gets
what there is: with ``pause_turn`` in Messages, in the other APIs as an answer that is cut."""

ADAPTATIONS: Final = 32
"""Times that one request is sent in another form to one upstream, because that refused the one before; those of the
package learn from fewer refusals."""

# What is kept until it is whole.

ANSWER_BYTES: Final = 32 * 1024 * 1024
"""Bytes of one answer that the library keeps, and that the reader of a service keeps; the rest of the gateway has
``limits.answer_bytes``.  Counted is the memory that Python takes for texts, calls and blocks together; beyond it the
answer ends with an upstream error, code ``answer_too_large``."""

TOOL_INPUT_BYTES: Final = 16 * 1024 * 1024
"""Arguments of one tool call in the library; the gateway's are ``limits.tool_input_bytes``.  A call with more
is cut."""

ARGUMENT_DEPTH: Final = 16
"""Arrays and objects of a call's arguments that are compared with the tool's schema, one within the other.  What is
deeper goes out as it came."""

ARGUMENT_SCHEMAS: Final = 256
"""Schemas that one member of a call's arguments has to fit all at once; of more, nothing is taken from them."""

ARGUMENT_STEPS: Final = 200_000
"""Parts of a tool's schema that are looked at for the calls of one answer; with more, arguments go out as they came."""

EXCERPT_CHARACTERS: Final = 1024 * 1024
"""Text that may be a tool call; a longer one is text."""

WRITTEN_CALL_FAILURES: Final = 32
"""Excerpts of one answer that look like tool calls and are none; after them, everything is text."""

STRUCTURED_CHARACTERS: Final = 512 * 1024
"""An answer that is to be JSON and is checked; a longer one is an error, or goes out with a notice where it streams."""

HELD_CHARACTERS: Final = 4_096
"""Text of an answer that a `TextStage` of a program holds back until more comes; beyond it what is held goes out,
rewritten as it stands."""

HELD_CHANGES: Final = 256
"""Places of one answer at which such a stage has changed the length of the text; a source that is cited from before the
oldest of them may be off by what changed there."""

VALIDATION_STEPS: Final = 20_000
"""Keywords, and members that they look at, of a check of an answer against its schema; beyond it the answer goes out
unchecked, with a notice.  They take less than 50 ms, in which the event loop serves no other request."""

# Lookups.

CONVERSATION_ITEMS: Final = 2_000
"""Items of a conversation from which on nothing is added, with 400; one request and its answer may go beyond it.  The
same holds for `JSON_VALUES` in its items."""

ADAPTED_MODELS: Final = 256
"""Models of one service whose refusals are remembered; beyond it the oldest is forgotten, and may be refused once
more."""

LOOKUPS: Final = 64
"""Keys that one request may cost in the store, for signatures and for cut answers each; older calls are passed over."""

PREVIOUS_RESPONSES: Final = 1_000
"""Responses that one request may build on; beyond it 400."""

REFERENCES: Final = 1_000
"""Items of one request that only name a stored item; beyond it 400 with the place of the first one that is too much."""

STORED_READS_WAITING: Final = 256
"""Reads of stored responses and conversations that wait for another one of the same client, in each process; a further
one is refused with 503."""

SIGNATURE_BYTES: Final = 64 * 1024
"""Signature of a tool call that is remembered for a client that leaves it out; a longer one is not."""

REFERRED_ITEMS: Final = 200
"""Items of a response that went through as it was, which a later request may name; further ones are only kept."""

RENEWALS_FOLLOWED: Final = 1_000
"""Renewals of one sign-in by other gateways that are followed in the store, one by one: a month of hourly ones.  Beyond
it the last of them counts as the newest, and the sign-in service decides."""

RESTING_MODELS: Final = 256
"""Models of one credential whose own quota is known to be spent; beyond it the oldest is forgotten, and asked for
again."""

USAGE_MODELS: Final = 100
"""Models that no upstream lists, and that one client's usage of one day names, in each process; what it uses with
further ones adds up under the name ``other``."""

KEY_LOOKUPS: Final = 16
"""Keys and users at once, in each event loop, about which the host is asked that are new or were unknown
(`create_app(keys=…)`), and as many that were known before: keys that somebody makes up keep no client waiting."""

KEY_LOOKUPS_WAITING: Final = 1_000
"""Requests that wait for one of these.  Those from one address stand in one line, the lines take turns, and whose turn
it is in a line is left to chance; of more, one of the longest line is answered with 503."""

KNOWN_KEYS: Final = 10_000
"""Keys and users of which the process remembers what the host said; beyond it the one asked about first is forgotten,
and asked about again."""

UNKNOWN_KEYS: Final = 10_000
"""The same for those that the host does not know."""

HOSTED_SECONDS: Final = 0.25
"""Seconds for which a stage, an observer or an estimator of a program may hold the event loop at a time.  Beyond it the
log names it, at most once a minute, and ``/ready`` has its kind: code that blocks cannot be broken off."""

CLOSING_SECONDS: Final = 10.0
"""Seconds that closing an observer may take when an application ends; one that takes longer is left behind."""

STORE_THREADS: Final = 8
"""Threads in which a `BlockingStore` of a program works, in each event loop; further reads and writes wait.  A thread
that hangs keeps its place."""

STORE_LOCK_SECONDS: Final = 60.0
"""Seconds that a request waits for a lock of a program's store, which another request may hold; 503 beyond it."""

OBSERVED_WAITING: Final = 10_000
"""Rows of a `WritingObserver` of a program that wait to be written; further ones are lost, and the log counts them."""

STATE_PENDING_BYTES: Final = 64 * 1024 * 1024
"""Values that wait to be written where ``state.engine`` is ``sqlite``; beyond it the oldest of the owner with most of
them are not kept, and the log says so."""

STATE_PENDING_CHANGES: Final = 10_000
"""The same, counted."""

SETTINGS_BYTES: Final = 64 * 1024 * 1024
"""The file of settings, which may have a hundred thousand keys; a larger one cannot be used."""

PRICE_FILE_BYTES: Final = 16 * 1024 * 1024
"""The file of ``prices.file``, ten times LiteLLM's own; a larger one is refused at the start."""

PRICE_FILE_VALUES: Final = 1_000_000
"""Values in it; with more it is refused."""

# Tapes.

TAPES_PENDING_BYTES: Final = 64 * 1024 * 1024
"""Exchanges that wait to be written to tapes; beyond it one is not recorded, and the log says so."""

TAPE_BYTES: Final = 256 * 1024 * 1024
"""Tape that is read; a larger one is refused."""

TAPE_EXCHANGE_BYTES: Final = 32 * 1024 * 1024
"""Memory for one exchange that is recorded; of a larger one the tape has the beginning, and says that it is cut."""

TAPE_LINES: Final = TAPE_EXCHANGE_BYTES // 256
"""Lines of a tape that is read, more than a recorder writes; a tape with more is refused."""

TAPE_SECONDS: Final = 366 * 86_400.0
"""Seconds that an exchange on a tape may take; a tape with a later line is refused."""

TAPE_SETTINGS: Final = 1_000
"""Settings that a tape names; a tape with more is not replayed."""

TAPE_STEPS: Final = 250_000
"""Steps of one exchange that are shown, of a hundred thousand events a few each; beyond it the rest is only counted."""

TAPE_WAITS: Final = 2 * TAPE_LINES
"""Moments at which something of a replay goes on: a line is one, and so is each sign of life in a silence."""

TAPE_TRIALS: Final = 400
"""Times that an exchange is done again to find what of its tape can go."""

# Numbers.

OWED_COUNTS: Final = 10_000
"""Limits of which a process remembers what is to be taken while the shared counters cannot be reached; of further ones
what was reserved stays."""

CHOICES: Final = 128
"""Answers to one request (``n``, ``candidateCount``, …) that limits reserve for, the most that OpenAI makes.  A request
for more reserves as many, and is charged for all that come."""

LARGEST_COUNT: Final = 2**53
"""Largest number of tokens or bytes that is taken from a service: every JSON reader has it exactly, and no true one is
larger.  A larger one counts as absent."""

LARGEST_INTEGER: Final = 2**63
"""Whole numbers of a request have to be below it, and above its negative: 400 with the place."""
