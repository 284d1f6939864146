"""The schema registry of this process: subjects, and the versions of one of them.

A visitor sees what the registry would show it (registry/access.py): subjects of topics with DESCRIBE.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Final

from minibroker.console.pace import paced, sorted_names
from minibroker.console.page import NotFoundError, Page, QueryError, Visit, rows_of
from minibroker.console.pages.topics import quoted
from minibroker.console.values import visible
from minibroker.registry.access import Access, topic_of
from minibroker.registry.subjects import parse_subject, with_parent
from minibroker.security.acl import Operation, ResourceType

if TYPE_CHECKING:
    from minibroker.registry.registry import Registry
    from minibroker.registry.state import RegistryState
    from minibroker.registry.stored_schema import StoredSchema

_VERSIONS_SHOWN: Final = 200
_LETTERS_SHOWN: Final = 20_000  #: of a schema's text on the page; its JSON has all of them
_LIST_SHOWN: Final = 100
_USUAL_URL: Final = "http://localhost:8081"


async def schemas(visit: Visit) -> dict[str, Any]:
    """List subjects whose name contains the parameter `q`, or whose latest schema has this id; `deleted=1` adds deleted ones."""
    registry, state = await _registry_of(visit)
    access, sees_global = _access_of(visit), _access_of(visit).may(Operation.DESCRIBE, None)
    wanted, with_deleted = visit.text("q").strip(), visit.text("deleted") == "1"
    names = []
    async for name in paced(await sorted_names(state.subjects)):
        versions = state.versions(name, with_deleted=with_deleted) if access.may_read(name) else []
        if versions and (wanted.lower() in name.lower() or wanted == str(versions[-1].id)):
            names.append(name)
    rows = rows_of(visit, names)
    return {
        "q": visit.text("q"),
        "deleted": with_deleted,
        **rows.to_json(),
        "registry_url": visit.host.registry_url(),
        "compatibility": registry.settings.in_scope(None)["compatibilityLevel"] if sees_global else None,
        "mode": registry.settings.mode_in_scope(None) if sees_global else None,
        "contexts": (await registry.list_contexts(access=access))[:_LIST_SHOWN],
        "subjects": [_subject_row(registry, state, name, with_deleted=with_deleted) async for name in paced(rows.items, every=1)],
        "command": _command(visit, "list"),
    }


def _subject_row(registry: Registry, state: RegistryState, name: str, *, with_deleted: bool) -> dict[str, Any]:
    versions = state.versions(name, with_deleted=with_deleted)
    latest = versions[-1]
    return {
        "subject": name,
        "shown": visible(name),
        "version": latest.version,
        "version_count": len(versions),
        "id": latest.id,
        "type": latest.content.schema_type,
        "reference_count": len(latest.content.references),
        "is_deleted": latest.is_deleted,
        "compatibility": registry.settings.in_scope(name)["compatibilityLevel"],
        "mode": registry.settings.mode_in_scope(name),
    }


async def schema(visit: Visit) -> dict[str, Any]:
    """Show a version of a subject: the parameters `subject` and `version`, by default the latest; or the parameter `id`."""
    registry, state = await _registry_of(visit)
    access = _access_of(visit)
    found = _version_of(visit, state, access)
    subject, content = found.subject, found.content
    text = await asyncio.to_thread(_indented, content.text)
    metadata = {"metadata": content.metadata, "ruleSet": content.rule_set}
    return {
        "subject": subject,
        "shown": visible(subject),
        "version": found.version,
        "id": found.id,
        "guid": content.guid,
        "type": content.schema_type,
        "is_deleted": found.is_deleted,
        "text": visible(text),
        "cut": _LETTERS_SHOWN,
        "references": [
            {"name": visible(each.name), "subject": with_parent(each.subject, subject), "version": each.version}
            for each in content.references
        ],
        "referenced_by": [
            {"subject": each.subject, "shown": visible(each.subject), "version": each.version}
            for each in [each for each in state.referrers(subject, found.version) if access.may_read(each.subject)][:_LIST_SHOWN]
        ],
        "metadata": {name: value for name, value in metadata.items() if value},
        "compatibility": registry.settings.in_scope(subject)["compatibilityLevel"],
        "has_own_compatibility": "compatibilityLevel" in (state.configs.get(subject) or {}),
        "mode": registry.settings.mode_in_scope(subject),
        "versions": [
            {"version": each.version, "id": each.id, "type": each.content.schema_type, "is_deleted": each.is_deleted}
            for each in reversed(state.versions(subject, with_deleted=True)[-_VERSIONS_SHOWN:])
        ],
        "command": _command(visit, "get", quoted(subject), str(found.version)),
    }


def _version_of(visit: Visit, state: RegistryState, access: Access) -> StoredSchema:
    subject, schema_id = visit.text("subject"), visit.number("id", -1, least=-1)
    version = visit.number("version", 0)
    if schema_id >= 0:
        places = state.ids_in(parse_subject(subject).context).versions.get(schema_id)
        if not places:
            raise NotFoundError(f"there is no schema with the id {schema_id}")
        subject, version = next(((name, places[name]) for name in sorted(places) if access.may_read(name)), min(places.items()))
    elif not subject:
        raise QueryError("subject or id is missing")
    visit.visitor.check(Operation.DESCRIBE, ResourceType.TOPIC, topic_of(subject))
    versions = state.versions(subject, with_deleted=True)
    if not versions:
        raise NotFoundError(f"there is no subject {subject!r}")
    found = versions[-1] if not version else next((each for each in versions if each.version == version), None)
    if found is None:
        raise NotFoundError(f"subject {subject} has no version {version}; its latest is {versions[-1].version}")
    return found


def _indented(text: str) -> str:
    """Return a schema in JSON with indents; one of another language as it is. For a worker thread."""
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


async def _registry_of(visit: Visit) -> tuple[Registry, RegistryState]:
    registry = visit.host.registry
    if registry is None:
        raise NotFoundError("this broker has no schema registry: start it with --registry-port")
    return registry, await registry.catch_up()


def _access_of(visit: Visit) -> Access:
    visitor = visit.visitor
    return Access(visitor.authorizer, visitor.principal, visitor.connection.client_host)


def _command(visit: Visit, *words: str) -> str:
    url = visit.host.registry_url().replace("127.0.0.1", "localhost")
    return " ".join(("minibroker schemas", *words, *([] if url == _USUAL_URL else ["-r", url])))


PAGES = (
    Page("/schemas", "Schemas", "schemas.html", schemas, live=("list",), interval_s=2.0),
    Page("/schema", "Schema", "schema.html", schema, section="/schemas"),
)
