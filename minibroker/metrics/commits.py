"""Count the offsets that each group commits, for KMinion's `offset_commits_total`. Only brokers that show this metric do."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any, Final

from minibroker.dispatch.delayed import then
from minibroker.dispatch.plan import Plan
from minibroker.schemas import k08_offset_commit, k28_txn_offset_commit

APIS: Final = (k08_offset_commit.API_KEY, k28_txn_offset_commit.API_KEY)
GROUPS_MAX: Final = 65_536  #: that are counted; a scrape forgets those that are gone


class CommitCounts:
    """The number of committed offsets by group: each partition counts, as each is a record of `__consumer_offsets`."""

    def __init__(self) -> None:
        self.by_group: dict[str, int] = {}

    def watch(self, plan: Plan) -> None:
        """Count the commits that a plan of one of `APIS` serves."""
        handle: Callable[[Any, Any], Any] = plan.handle

        def counted(ctx: Any, request: Any) -> Any:
            def count(response: Any) -> Any:
                self._count(request.group_id, response)
                return response

            return then(handle(ctx, request), count)

        plan.handle = counted

    def _count(self, group_id: str, response: Any) -> None:
        committed = sum(not each.error_code for topic in response.topics for each in topic.partitions)
        if committed and (group_id in self.by_group or len(self.by_group) < GROUPS_MAX):
            self.by_group[group_id] = self.by_group.get(group_id, 0) + committed

    def keep(self, group_ids: Container[str]) -> None:
        """Forget all other groups."""
        for group_id in [each for each in self.by_group if each not in group_ids]:
            del self.by_group[group_id]
