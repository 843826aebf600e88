"""Phrases of services' messages that say more than their general words, and what they mean; the same for all services.

Each alternative was seen at a service, or in its documentation.  They are searched in a message of at most
`kiro_asgi.failures.texts.MAX_MESSAGE` characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from kiro_asgi.errors import (
    ContextTooLong,
    KiroAsgiError,
    UnknownModel,
    UpstreamDenied,
    UpstreamModelDenied,
    UpstreamModelQuotaSpent,
    UpstreamOverloaded,
    UpstreamQuotaSpent,
    UpstreamRejected,
    UpstreamRequestTooCostly,
    UpstreamSuspended,
    UpstreamSuspicious,
    UpstreamThrottled,
    UpstreamTimeout,
    UpstreamTokenInvalid,
)

Phrase = tuple[re.Pattern[str], type[KiroAsgiError], str]
"""Words of a message, the class of the error that they mean, and its code."""

SIGNATURE: Final = "thinking_signature_invalid"
"""Code of the refusal of earlier thinking."""

FORM: Final = "output_schema_refused"
"""Code of the refusal of one schema for the answer."""

FORM_UNKNOWN: Final = "output_format_unknown"
"""Code of the refusal of every schema: the model, or the server, knows none."""

UNSTREAMED: Final = "tools_not_streamed"
"""Code of the refusal to stream where tools are offered."""

UNCACHED: Final = "prompt_cache_refused"
"""Code of the refusal of marks for the prompt cache."""

CONTENT: Final = "content_policy_violation"
"""Code of a refusal of what the client wrote."""

MODEL_DENIED: Final = "model_access_denied"
SPENT: Final = "quota_spent"
TOO_LONG: Final = "context_too_long"


def any_of(*alternatives: str) -> re.Pattern[str]:
    """The pattern of any of *alternatives*, in capitals or not."""
    return re.compile("|".join(alternatives), re.I | re.S)


def _phrases(rows: Iterable[tuple[type[KiroAsgiError], str, tuple[str, ...]]]) -> tuple[Phrase, ...]:
    return tuple((any_of(*alternatives), kind, code) for kind, code, alternatives in rows)


BARRING: Final[tuple[Phrase, ...]] = _phrases(
    (
        (UpstreamSuspicious, "suspicious_activity", (r"suspicious activity",)),
        (UpstreamQuotaSpent, SPENT, (r"suspended.{0,80}\b(?:spending|billing|payment|balance)",)),
        (
            UpstreamSuspended,
            "TEMPORARILY_SUSPENDED",
            (
                r"(?:account|user|consumer|organi[sz]ation|project|key)\b.{0,100}\bsuspended\b",
                r"(?:has been|temporarily is) suspended",
                r"account (?:has been |is )?(?:deactivated|disabled|banned|locked)",
                r"organi[sz]ation has been disabled",
            ),
        ),
    )
)
"""Phrases that decide before any word: to ask again makes it worse."""

PHRASES: Final[tuple[Phrase, ...]] = _phrases(
    (
        (
            UpstreamRequestTooCostly,
            "request_too_costly",
            (
                r"\bfewer max_tokens\b",
                r"\bcan only afford \d",
                r"\bprompt tokens limit exceeded\b",
                r"\bremain quota\b.{0,40}\bneed quota\b",
            ),
        ),
        (UpstreamThrottled, "throttled", (r"too many tokens, please wait",)),
        (
            UpstreamRejected,
            CONTENT,
            (
                r"\brequires moderation\b",
                r"content (?:management|filter(?:ing)?) policy",
                r"blocked by (?:our|the|your)?[\w ]{0,30}(?:polic(?:y|ies)|guardrails?|filters?|moderation)",
                r"(?:flagged|violat\w{1,8})\b.{0,60}\b(?:polic(?:y|ies)|guidelines|moderation|safety)",
                r"(?:input|prompt|content|messages?) (?:was|were|has been|is) flagged",
                r"sensitive (?:content|information|words?)",
                r"inappropriate content",
                r"guardrail checks\b.{0,60}\bfailed",
                r"content exists risk",
                r"不安全或敏感",
                r"敏感(?:内容|词|信息)",
            ),
        ),
        (
            UpstreamRejected,
            FORM_UNKNOWN,
            (
                r"output_(?:config(?:\.format)?|format): extra inputs",
                r"not support (?:output.format|structured.output)",
                r"structured outputs? (?:is|are) not (?:supported|available)",
                r"extraneous key \[outputConfig\]",
                r"support the outputConfig",
                r"unknown name \W?response_?json_?schema",
            ),
        ),
        (
            UpstreamRejected,
            FORM,
            (
                r"output_(?:config\.)?format\b",
                r"response_?json_?schema",
                r"outputConfig\.textFormat",
                r"schema is too complex",
                r"compiled grammar is too large",
            ),
        ),
        (
            UpstreamRejected,
            SIGNATURE,
            (
                r"(?:signature|data).{0,20} in .{0,3}(?:redacted_)?thinking",
                r"thinking. blocks.{0,80}cannot be modified",
                r"thought[ _]?signature",
            ),
        ),
        (UpstreamRejected, UNSTREAMED, (r"support tool use in streaming mode",)),
        (
            UpstreamRejected,
            UNCACHED,
            (
                r"did not allow prompt caching",
                r"prompt cach(?:e|ing) (?:is|are) not (?:supported|available|allowed|enabled)",
                r"not support prompt cach",
            ),
        ),
        (UpstreamModelQuotaSpent, "model_quota_spent", (r"free quota tier",)),
        (
            UpstreamQuotaSpent,
            SPENT,
            (
                r"insufficient[ _](?:user[ _]|account[ _])?(?:balance|credits?|quota|funds?)",
                r"(?:balance|credits?|quota|funds?|plan) (?:is |are |was |has been |have been )?"
                r"(?:not enough|insufficient|exhausted|depleted|used up)",
                r"credit balance is too low",
                r"not enough (?:balance|credits?|funds|money)",
                r"(?:out of|no|any) credits?(?: left| remaining| yet)?\b",
                r"used (?:up )?(?:all|your).{0,40}(?:credits|allocation|allowance|quota)",
                r"(?:exceed(?:ed|s)?|reached|hit|over) (?:your|its|the|their)? ?"
                r"(?:current |monthly |daily |weekly |included |free |set |[\w-]+ inference )*"
                r"(?:quota|budget|spend(?:ing)?[ -]?(?:limit|cap)?"
                r"|(?:monthly|daily|weekly|usage|credit|inference) limit)",
                r"(?:quota|budget|spend(?:ing)?(?: limit)?|allowance) (?:has been |is |was )?"
                r"(?:exceeded|exhausted|used up|reached)",
                r"usage limits? (?:reached|exceeded)",
                r"usage limits?\b.{0,80}\bregain access",
                r"(?:reached|hit|exceeded) (?:your|the|its) (?:[\w-]+ ){0,3}(?:usage|spending) limit",
                r"(?:monthly|daily|weekly) (?:[\w-]+ ){0,2}limit",
                r"too many tokens per day",
                r"[0-9] (?:api )?(?:calls|requests) ?(?:/|per|a) ?(?:month|week)\b",
                r"overdue (?:balance|payment|bill)",
                r"account.{0,40}(?:overdue|in arrears|good standing)",
                r"in arrears",
                r"payment required",
                r"requires? (?:a )?(?:payment|paid (?:balance|plan|account))",
                r"\btop[ -]?up\b",
                r"please recharge",
                r"余额不足|欠费|余额已|请充值",
                r"(?:额度|配额)(?:不足|已用)",
                r"资源包|資源包",
                r"残高|クレジットが不足|크레딧|잔액",
            ),
        ),
        (UpstreamThrottled, "throttled", (r"rate limit\b.{0,100}\bper (?:minute|second|hour)", r"tokens per min\b")),
        (UpstreamRejected, "unsupported_value", (r"maximum tokens you requested exceeds",)),
        (UpstreamTimeout, "timeout", (r"deadline expired before",)),
        (
            ContextTooLong,
            TOO_LONG,
            (
                r"(?:prompt|input|request|context|messages?|conversation|query)\b(?: \S{1,40}){0,3} "
                r"(?:is|are|was) too (?:long|large)(?! to)",
                r"(?:prompt|input|context|messages) too long",
                r"too long for (?:the|this|requested) model",
                r"too many (?:input |prompt )?tokens:",
                r"maximum (?:context|prompt|input|sequence|model)[ -]?(?:token )?length",
                r"(?:context|model|token)[ -](?:length|window|limit|size) (?:is |was |has been )?exceed(?:ed|s)",
                r"context window ?exceeded",
                r"exceed(?:s|ed|ing)?(?: the| this| your| model's| its| available| configured| maximum| max| allowed"
                r"| supported| total){0,5} (?:context|model|input|prompt|sequence|message|token)[ _-]?"
                r"(?:context |tokens? |input )?(?:window|length|size|limit|tokens|count|max)",
                r"exceed(?:s|ed)? (?:the )?max(?:imum)?(?: \S+){0,2} (?:length|tokens)",
                r"exceeds? (?:the )?context",
                r"exceeds? (?:the )?limit of [0-9]{4,}",
                r"token count\b.{0,60}\bexceeds",
                r"number of (?:input |prompt )?tokens\b.{0,60}\b(?:exceed|greater|larger|more than)",
                r"(?:longer|larger|greater) than (?:the )?(?:(?:model|maximum|max|context|allowed)\S* ){1,3}"
                r"(?:length|window|size|tokens|context)",
                r"(?:longer|larger|greater) than the (?:model's )?context",
                r"range of input length",
                r"input tokens exceeded",
                r"tokens to keep from the initial prompt",
                r"tokens, but the configured context",
                r"keep the first [0-9]{1,9} tokens when",
                r"tokens exceeds? n_ctx",
                r"body: length limit exceeded",
                r"(?:reduce|shorten) (?:the length of )?(?:your |the )?(?:prompt|messages|input|conversation)",
                r"`?inputs`? (?:tokens )?(?:\+|must have (?:less|fewer) than).{0,60}(?:must be|tokens)",
                r"payload size exceeds",
                r"max(?:imum)? message tokens",
                r"prompt length is [0-9]+",
                r"total number of tokens in the prompt",
                r"prompt has [0-9]+ tokens",
                r"request body too large for",
                r"超出.{0,10}(?:上下文|长度)|上下文(?:长度|过长)|(?:输入|提示词?).{0,6}(?:过长|太长|超)",
            ),
        ),
        (
            UpstreamTokenInvalid,
            "token_invalid",
            (
                r"api[ -]?key\b.{0,40}\b(?:not valid|invalid|expired|incorrect|wrong|revoked|not found)",
                r"(?:incorrect|invalid|wrong|missing|no|expired|revoked) (?:x-)?api[ -]?key",
                r"reported as leaked",
                r"(?:bearer|access|auth(?:entication)?) token\b.{0,200}\b(?:invalid|expired|revoked|malformed)",
                r"invalid (?:bearer |access |authentication |auth )?(?:token|credentials?)\b(?! (?:count|limit|id))",
                r"(?:invalid|bad) x-api-key",
                r"not authenticated",
                r"authentication (?:failed|required|error)",
                r"could not (?:validate|verify) credentials|credentials could not be (?:validated|verified)",
                r"missing authorization|^authorization failed",
                r"login fail",
                r"令牌(?:无效|已过期|状态不可用)|无效的(?:令牌|api ?key)|身份验证失败",
            ),
        ),
        (
            UnknownModel,
            "model_not_found",
            (
                r"\bmodel\b.{0,200}\b(?:not found|does not exist|doesn't exist|not exist)",
                r"\bmodel\b.{0,200}\bhas been (?:deprecated|retired|decommissioned)",
                r"invalid model (?:name|id\b|['`\"])",
                r"^function '.{0,100}': not found for account",
                r"models?/\S{0,200} is not found",
                r"provided model identifier is invalid",
                r"no such model|unknown model",
                r"(?:is|are) not a valid model",
                r"requested model\b.{0,100}\bis not supported",
                r"no endpoints found for",
                r"no available channels?|无可用渠道",
                r"模型不存在",
            ),
        ),
        (
            UpstreamModelDenied,
            MODEL_DENIED,
            (
                r"(?:does|do) not (?:yet )?(?:include|have) access to (?:the )?(?:model|`|[A-Z])",
                r"not allowed to access model",
                r"not supported when using .{0,60}account",
                r"no endpoints (?:available|found) matching your",
                r"(?:do not|don't) have access to this model",
                r"must be verified to (?:use|stream) this model",
                r"requires a subscription",
            ),
        ),
        (
            UpstreamDenied,
            "location",
            (
                r"user location is not supported",
                r"country, region,? or territory",
                r"not available in your (?:country|region)",
            ),
        ),
        (
            UpstreamOverloaded,
            "overloaded",
            (
                r"\boverloaded",
                r"unexpectedly high load",
                r"high (?:traffic|demand)",
                r"model.{0,20} load\b",
                r"at capacity|no capacity|capacity (?:exceeded|constraints)",
                r"server (?:is )?(?:too )?busy",
                r"requires more system memory",
                r"繁忙|负载(?:过高|已饱和)",
            ),
        ),
        (
            UpstreamThrottled,
            "throttled",
            (
                r"rate limit (?:reached|exceeded|triggered)",
                r"too many requests",
                r"(?:qps|requests?) (?:request )?limit (?:reached|exceeded)",
                r"请求过于频繁|频率(?:限制|过高)",
            ),
        ),
        (UpstreamRejected, "unsupported_parameter", (r"unexpected keyword argument",)),
        (UpstreamRejected, "profile_required", (r"profileArn is required",)),
        (UpstreamRejected, "improperly_formed", (r"improperly formed request",)),
    )
)
"""The first that is found decides."""

OF_A_MODEL: Final = any_of(
    r"\bmodels?\b",
    r"foundation-model|inference-profile",
    r"\bdeployment\b",
    r"\bsample from\b",
    r"\binvokemodel",
    r"\b(?:specified|requested|this) resource\b",
    r"模型|モデル|모델",
)
"""Words of a refusal of permission that speak of a model."""

OF_ACCESS: Final = any_of(r"access", r"permission", r"allowed", r"blocked", r"not available to")
"""Words of a model that is there, but not for us."""

_SECRET: Final = r"(?:key|token|credentials?|signature|authori[sz]ation|authentication)"

OF_A_CREDENTIAL: Final = any_of(
    rf"(?:invalid|not valid|incorrect|wrong|bad|unknown|missing|no|without)\b.{{0,30}}\b{_SECRET}\b",
    rf"\b{_SECRET}\b.{{0,60}}\b(?:invalid|not valid|incorrect|wrong|missing|required|expired|revoked|disabled|leaked)",
    rf"\b{_SECRET}\b.{{0,60}}\bnot found",
    r"\bcountry\b|territory|location|ip address",
    r"unauthenticated|not authenticated|unauthori[sz]ed|authentication_error|authentication fails",
    r"\b(?:sign(?:ed)?|log(?:ged)?) ?in\b",
    r"has not been used in|expired|revoked|deactivated|banned",
    r"\b(?:api|service|project|account|billing)\b.{0,60}\bdisabled",
    r"无效|过期|失效",
)
"""Words that speak of the credential, or of its account."""

NOT_HERE: Final = any_of(
    r"^(?:[\w ]{0,20}[:-] ?)?(?:404[ :,-]*)?(?:page |route |path |url |endpoint |resource |file |the requested \w+ )?"
    r"(?:was )?not found\.?$",
    r"invalid url\b",
    r"cannot (?:post|get) /",
    r"no (?:such |matching )?route|no route matched",
    r"unknown (?:path|endpoint|route|url|request url)",
    r"requested url .{0,200}not found",
    r"^method not allowed\.?$",
    r"unexpected endpoint or method",
)
"""Words of a server that does not know the address."""

OF_A_MINUTE: Final = any_of(
    r"per[ _-]?(?:minute|min|second)\b",
    r"\b[rt]pm\b",
    r"rate[ _-]?limit",
    r"quota exceeded for",
    r"requests? too (?:fast|frequent)",
    r"\bqps\b",
)
OF_A_DAY: Final = any_of(
    r"per[ _-]?(?:day|week|month)\b|\b[rt]pd\b|per 86400 ?s|ByDay\b",
    r"\b(?:daily|weekly|monthly)\b.{0,40}\b(?:allocation|limit|quota|request)",
    r"for this (?:month|week|day)\b",
)
ZERO: Final = re.compile(r"\blimit: 0\b(?!\.)")
TOO_LARGE: Final = re.compile(r"\brequest too large for\b", re.I)
"""A request that no minute's limit will ever let through."""

ASKED_OF: Final = re.compile(r"\blimit:? ([0-9]{1,12}),.{0,60}?\brequested:? ~?([0-9]{1,12})", re.I)
"""A limit of a minute, and what one request asks for."""
