"""Pages about a run: its own page beside the JSON, and the parts between two comments in README.md and BENCHMARKS.md."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from reporting import plots, tables
from reporting.results import Run

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "benchmarks" / "pictures"
STEM = "newest"


def page(run: Run, pictures: Sequence[Path] = ()) -> str:
    """Return the page of a run in Markdown; the pictures are beside it."""
    parts = [f"# Figures of {run.about.date}", tables.heading(run)]
    parts += [f"![{path.stem}]({path.name})" for path in pictures if path.stem.endswith("light")]
    parts += _titled("## Targets", tables.verdicts(run))
    parts += _titled("## Acknowledged in the page cache (the default of all)", tables.figures(run))
    parts += _titled("## Synced to the disk before each acknowledgement", tables.figures(run, synced=True))
    parts += _titled("## What it cost the servers", tables.servers(run))
    parts += _titled("## Where another broker is better", tables.losses(run))
    parts += _titled("## How cost grows", tables.growth(run))
    parts += _titled("## Left out", "\n".join(f"- {line}" for line in run.left_out))
    return "\n\n".join(parts) + "\n"


def _titled(title: str, text: str) -> list[str]:
    return [title, text] if text else []


def write(run: Run, path: Path) -> list[Path]:
    """Write the page and the pictures beside a results file; without matplotlib, only the page."""
    try:
        pictures = plots.draw(run, path.with_suffix(""))
    except ImportError:
        pictures = []
    report = path.with_suffix(".md")
    report.write_text(page(run, pictures))
    return [report, *pictures]


def publish(run: Run, results: str) -> list[Path]:
    """Update README.md, BENCHMARKS.md and their pictures to this run. `results`: the path of its figures."""
    drawn = {path.name.removeprefix(f"{STEM}-").removesuffix(".png") for path in plots.draw(run, PICTURES / STEM)}
    parts: dict[str, Callable[[], str]] = {
        "picture": lambda: (
            _picture("ratios", "How many times as good as Apache Kafka minibroker is, load by load") if "ratios-light" in drawn else ""
        ),
        "growth picture": lambda: _picture("growth", "How the cost of a request grows") if "growth-light" in drawn else "",
        "of": lambda: f"{tables.heading(run)}\nKept in [{results}]({results}).",
        "said": lambda: _source(run, results),
        "targets": lambda: tables.verdicts(run) or "Not measured in this run.",
        "figures": lambda: tables.figures(run) or "Not measured in this run.",
        "synced": lambda: tables.figures(run, synced=True) or "Not measured in this run.",
        "servers": lambda: tables.servers(run) or "Not measured in this run.",
        "losses": lambda: tables.losses(run) or "Nowhere in this run.",
        "growth": lambda: tables.growth(run) or "Not measured in this run.",
        "left out": lambda: "\n".join(f"- {line}" for line in run.left_out) or "Nothing.",
    }
    changed = []
    for document in (ROOT / "README.md", ROOT / "BENCHMARKS.md"):
        text = document.read_text()
        for name, made in parts.items():
            text = replaced(text, name, made)
        document.write_text(text)
        changed.append(document)
    return changed


def replaced(text: str, name: str, made: Callable[[], str]) -> str:
    """Return `text` with a new part between `<!-- benchmark: NAME -->` and `<!-- end -->`."""
    pattern = re.compile(rf"(<!-- benchmark: {re.escape(name)} -->\n).*?(<!-- end -->)", re.DOTALL)
    return pattern.sub(lambda found: f"{found[1]}{made()}\n{found[2]}", text)


def _picture(kind: str, words: str) -> str:
    """Return the picture element, with the dark picture on dark pages."""
    folder = PICTURES.relative_to(ROOT)
    return (
        "<picture>\n"
        f'  <source media="(prefers-color-scheme: dark)" srcset="{folder}/{STEM}-{kind}-dark.png">\n'
        f'  <img alt="{words}" src="{folder}/{STEM}-{kind}-light.png">\n'
        "</picture>"
    )


def _source(run: Run, results: str) -> str:
    """Return the line under the picture in the README."""
    least, most = run.rounds()
    rounds = f"{least}" if least == most else f"{least} to {most}"
    return (
        f"Measured on {run.about.date[:10]} by `{run.about.command}` ({rounds} round{'s' * (rounds != '1')}; "
        f"{run.about.machine.get('processor', 'one machine')}), figures in [{Path(results).name}]({results})."
    )
