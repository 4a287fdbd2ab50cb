"""How do an order and its time-out become one transaction in Python? With SQLAlchemy and psycopg.

    pip install -r requirements.txt
    DATABASE_URL=postgresql://user@host/shop python3 shop.py
"""

import json
import os
import re

from sqlalchemy import create_engine, text
from sqlalchemy.exc import IntegrityError

url = re.sub(r"^postgres(ql)?://", "postgresql+psycopg://", os.environ["DATABASE_URL"])
delay = os.environ.get("DELAY", "30 minutes")
engine = create_engine(url)

# A server hands the queue `orders` of the namespace `shop` to workers.
PUSH = text("select duly_push(:queue, cast(:payload as json), cast(:delay as interval))")


def place(order, number):
    """Inserts the order and its event, or neither; returns the id of the event."""
    with engine.begin() as transaction:
        event = {"queue": "shop.orders", "payload": json.dumps({"number": number}), "delay": delay}
        pushed = transaction.execute(PUSH, event).scalar_one()
        transaction.execute(text("insert into orders (number) values (:order)"), {"order": order})
        return pushed


with engine.connect() as connection:
    last = connection.execute(text("select coalesce(max(number), 0) from orders")).scalar_one()
for order in range(last + 1, last + 4):
    print(f"order {order}: event", place(order, order))
try:
    place(order, 1000 + order)  # there is one already: the event is undone with the insert
    raise SystemExit("an order was placed twice")
except IntegrityError:
    print(f"order {order} again: refused, and no event")
