from __future__ import annotations

import json

import pytest

from orders_sync.order import Order, OrderError, read_order, shipment_of


def test_a_shipment_has_its_total() -> None:
    found = json.loads(shipment_of(Order("o1", "ada", "pears", 3), {"pears": 300}))
    assert found == {"order_id": "o1", "product": "pears", "quantity": 3, "total_cents": 900}


@pytest.mark.parametrize(
    "value, reason",
    [
        (None, "not an order: JSONDecodeError"),
        (b"{", "not an order: JSONDecodeError"),
        (b"[]", "not an order: TypeError"),
        (b'{"order_id": "o1"}', "not an order: KeyError: 'customer'"),
        (b'{"order_id": "o1", "customer": "ada", "product": "pears", "quantity": 0}', "a quantity of 0 cannot be shipped"),
    ],
)
def test_what_is_no_order_is_told(value: bytes | None, reason: str) -> None:
    with pytest.raises(OrderError, match=reason):
        read_order(value)


def test_what_is_not_sold_is_not_shipped() -> None:
    with pytest.raises(OrderError, match="there is no product 'plums'"):
        shipment_of(Order("o1", "ada", "plums", 3), {"pears": 300})
