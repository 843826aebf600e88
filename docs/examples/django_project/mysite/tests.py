"""``manage.py test``: the gateway by Django's own `AsyncClient`, with the simulator in the service's place."""

from __future__ import annotations

from io import BytesIO
from typing import Any

from asgiref.testing import ApplicationCommunicator
from django.contrib.auth.models import User
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpResponse
from django.test import AsyncClient, TestCase
from django.test.client import AsyncClientHandler

from kiro_asgi import simulator
from mysite.asgi import with_gateway
from mysite.models import Token


class WholeSite(AsyncClientHandler):
    """Asks the gateway for what is below its prefix, of which Django's own handler knows nothing."""

    def __init__(self, application: Any) -> None:
        super().__init__()
        self.application = application

    async def __call__(self, scope: Any) -> Any:
        if not scope["path"].startswith("/llm/"):
            return await super().__call__(scope)
        body = scope.pop("_body_file", BytesIO()).read()
        asked = ApplicationCommunicator(self.application, scope)
        await asked.send_input({"type": "http.request", "body": body})
        start, part = await asked.receive_output(10), {"more_body": True}
        answer = HttpResponse(status=start["status"])
        for name, value in start["headers"]:
            answer[name.decode()] = value.decode()
        while part.get("more_body"):
            part = await asked.receive_output(10)
            answer.write(part.get("body", b""))
        await asked.wait()
        answer.asgi_request = ASGIRequest(scope, BytesIO())
        return answer


class GatewayTests(TestCase):
    def setUp(self) -> None:
        sim = self.enterContext(simulator.running())
        service = {"endpoint": sim.url, "api_key": "ksk_test"}
        self.client = AsyncClient()
        self.client.handler = WholeSite(with_gateway({"client": {"trust_host": True}, "kiro": service}))

    async def ask(self, *, headers: Any = None, **options: Any) -> Any:
        question = {"model": "claude-sonnet-4.5", "messages": [{"role": "user", "content": "sim:count=3"}]}
        return await self.client.post(
            "/llm/v1/chat/completions", {**question, **options}, content_type="application/json", headers=headers
        )

    async def test_a_stranger_is_turned_away(self) -> None:
        self.assertEqual((await self.ask()).status_code, 401)

    async def test_who_signs_in_is_answered_until_they_sign_out(self) -> None:
        await User.objects.acreate_user("ada", password="lovelace")
        await self.client.alogin(username="ada", password="lovelace")
        answer = await self.ask()
        page = await self.client.get("/")

        self.assertEqual(answer.json()["choices"][0]["message"]["content"], "1 2 3 ")
        self.assertEqual(page.content, b"Hello, ada.")
        await self.client.alogout()
        self.assertEqual((await self.ask()).status_code, 401)

    async def test_a_stream(self) -> None:
        await self.client.aforce_login(await User.objects.acreate_user("ada"))
        answer = await self.ask(stream=True)

        self.assertEqual(answer["content-type"].partition(";")[0], "text/event-stream")
        self.assertTrue(answer.content.endswith(b"data: [DONE]\n\n"))

    async def test_a_token_opens_until_its_owner_is_gone(self) -> None:
        ada = await User.objects.acreate_user("ada")
        await Token.objects.acreate(owner=ada, digest=Token.digest_of("tok_1"))
        shown = {"Authorization": "Bearer tok_1"}

        self.assertEqual((await self.ask(headers=shown)).status_code, 200)
        await User.objects.filter(pk=ada.pk).aupdate(is_active=False)
        self.assertEqual((await self.ask(headers=shown)).status_code, 401)
