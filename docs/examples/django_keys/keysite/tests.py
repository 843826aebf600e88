"""``manage.py test``: keys made and taken back in the admin site, and what the gateway says to each."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal
from typing import Any

from django.contrib.auth.models import User
from django.test import TestCase
from django.utils import timezone

from keysite.asgi import with_gateway
from keysite.models import Key, Team
from kiro_asgi.testing import ask

QUESTION = {"model": "claude-sonnet-4.5", "messages": [{"role": "user", "content": "sim:count=3"}], "max_tokens": 20}
FORM = {"name": "bot", "allowed": "", "requests_per_minute": 0, "cost_per_month": 0, "_save": "Save"}


class KeyTests(TestCase):
    def setUp(self) -> None:
        self.admin = User.objects.create_superuser("ada", password="lovelace")
        self.client.force_login(self.admin)
        options = {"client": {"trust_host": True, "keys_ttl": 0}, "prices": {"models": ["*=1000000/1000000"]}}
        self.gateway = with_gateway({**options, "simulate": True})

    def make(self, **more: Any) -> str:
        """A key by the form of the admin site, and its text from the page that shows it once."""
        page = self.client.post("/admin/keysite/key/add/", {**FORM, "owner": self.admin.pk, **more}, follow=True)
        return re.search(r"shown only now: (site_[\w-]+)", page.content.decode())[1]

    async def ask(self, key: str = "", **headers: str) -> Any:
        return await ask(self.gateway, "/llm/v1/chat/completions", QUESTION, key=key, headers=headers)

    async def acall(self, work: Any, **more: Any) -> Any:
        from asgiref.sync import sync_to_async

        return await sync_to_async(work)(**more)

    async def test_a_key_of_the_admin_site_opens_until_it_is_switched_off(self) -> None:
        key = await self.acall(self.make)
        self.assertEqual((await self.ask(key)).status, 200)
        await self.acall(self.switch_off)
        refused = await self.ask(key)

        self.assertEqual(refused.status, 401)
        self.assertIn("disabled", refused.json()["error"]["message"])

    def switch_off(self) -> None:
        place = f"/admin/keysite/key/{Key.objects.get().pk}/change/"
        self.client.post(place, {**FORM, "owner": self.admin.pk, "disabled": "on"})

    async def test_the_key_is_in_no_table(self) -> None:
        key = await self.acall(self.make)
        row = await Key.objects.aget()

        self.assertNotIn(key, str(vars(row)))
        self.assertEqual((await self.ask(f"{key}x")).status, 401)

    async def test_another_key_takes_the_place_of_one(self) -> None:
        old = await self.acall(self.make)
        form = {"action": "renew", "_selected_action": [(await Key.objects.aget()).pk]}
        page = await self.acall(self.client.post, path="/admin/keysite/key/", data=form, follow=True)
        new = re.search(r"shown only now: (site_[\w-]+)", page.content.decode())[1]

        self.assertEqual([(await self.ask(key)).status for key in (old, new)], [401, 200])

    async def test_a_key_that_has_expired(self) -> None:
        key = await self.acall(self.make)
        await Key.objects.aupdate(expires=timezone.now() - timedelta(seconds=1))

        self.assertIn("expired", (await self.ask(key)).json()["error"]["message"])

    async def test_models_and_rates_are_the_rows(self) -> None:
        other = await self.acall(self.make, name="other", allowed="gemini/*\nkiro/claude-haiku-*")
        often = await self.acall(self.make, name="often", requests_per_minute=1)

        self.assertEqual((await self.ask(other)).status, 404)
        self.assertEqual([(await self.ask(often)).status for _ in range(2)], [200, 429])

    async def test_a_team_shares_its_money(self) -> None:
        team = await Team.objects.acreate(name="lab", cost_per_month=Decimal("25.00"))
        keys = [await self.acall(self.make, name=name, team=team.pk) for name in ("a", "b")]
        answers = [await self.ask(key) for key in keys * 4]

        self.assertEqual((answers[0].status, answers[-1].status), (200, 402))
        self.assertIn("the group lab is reached: 25 USD a month", answers[-1].json()["error"]["message"])

    async def test_who_is_signed_in_has_the_limits_of_their_key(self) -> None:
        cookie = f"sessionid={self.client.cookies['sessionid'].value}"
        without = await self.ask(cookie=cookie)
        await self.acall(self.make, requests_per_minute=1)
        statuses = [(await self.ask(cookie=cookie)).status for _ in range(2)]

        self.assertEqual((without.status, statuses), (401, [200, 429]))
