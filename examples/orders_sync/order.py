"""What an order is, and what becomes of it. Knows nothing of Kafka."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

Prices = Mapping[str, int]  #: cents by product


class OrderError(Exception):
    """An order that cannot be shipped; one line says why."""


@dataclass(frozen=True)
class Order:
    """What a customer wants."""

    order_id: str
    customer: str
    product: str
    quantity: int


def read_order(value: bytes | None) -> Order:
    """An order as JSON; OrderError says what is wrong with it."""
    try:
        fields = json.loads(value or b"")
        order = Order(str(fields["order_id"]), str(fields["customer"]), str(fields["product"]), int(fields["quantity"]))
    except (ValueError, KeyError, TypeError) as error:
        raise OrderError(f"not an order: {type(error).__name__}: {error}") from error
    if order.quantity < 1:
        raise OrderError(f"a quantity of {order.quantity} cannot be shipped")
    return order


def shipment_of(order: Order, prices: Prices) -> bytes:
    """The shipment of an order as JSON; OrderError where there is no such product."""
    if order.product not in prices:
        raise OrderError(f"there is no product {order.product!r}")
    total_cents = order.quantity * prices[order.product]
    shipment = {"order_id": order.order_id, "product": order.product, "quantity": order.quantity, "total_cents": total_cents}
    return json.dumps(shipment).encode()
