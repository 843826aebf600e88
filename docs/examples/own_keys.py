"""A gateway that knows the clients of an application's own table."""

from __future__ import annotations

import sqlite3

from kiro_asgi import Allowance, Client, Group, Presented, create_app

DATABASE = "keys.db"


def find(shown: Presented) -> Client | None:
    with sqlite3.connect(DATABASE) as database:
        query = "SELECT name, team, requests, money FROM keys WHERE hash = ? AND NOT revoked"
        row = database.execute(query, (shown.hash,)).fetchone() if shown.key else None
    database.close()
    if row is None:
        return None
    name, team, requests, money = row
    return Client(
        name=name,
        limits=Allowance(requests_per_minute=requests),
        group=Group(name=team, limits=Allowance(cost_per_month=money)),
    )


app = create_app(keys=find)
