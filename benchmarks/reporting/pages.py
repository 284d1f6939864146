"""Where a run is told of: its own page beside the JSON, and the parts between two comments in README.md and BENCHMARKS.md."""

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
    """Everything about a run, in markdown; the pictures are beside it."""
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
    """The page and the pictures beside a results file; says nothing of pictures where matplotlib is not installed."""
    try:
        pictures = plots.draw(run, path.with_suffix(""))
    except ImportError:
        pictures = []
    told = path.with_suffix(".md")
    told.write_text(page(run, pictures))
    return [told, *pictures]


def publish(run: Run, results: str) -> list[Path]:
    """Bring README.md and BENCHMARKS.md up to this run, and the pictures that they show. `results`: where its figures are kept."""
    drawn = {path.name.removeprefix(f"{STEM}-").removesuffix(".png") for path in plots.draw(run, PICTURES / STEM)}
    parts: dict[str, Callable[[], str]] = {
        "picture": lambda: (
            _picture("ratios", "How many times as good as Apache Kafka minibroker is, load by load") if "ratios-light" in drawn else ""
        ),
        "growth picture": lambda: _picture("growth", "How the cost of a request grows") if "growth-light" in drawn else "",
        "of": lambda: f"{tables.heading(run)}\nKept in [{results}]({results}).",
        "said": lambda: _said(run, results),
        "targets": lambda: tables.verdicts(run) or "Not measured in this run.",
        "figures": lambda: tables.figures(run) or "Not measured in this run.",
        "synced": lambda: tables.figures(run, synced=True) or "Not measured in this run.",
        "servers": lambda: tables.servers(run) or "Not measured in this run.",
        "losses": lambda: tables.losses(run) or "Nowhere in this run.",
        "growth": lambda: tables.growth(run) or "Not measured in this run.",
        "left out": lambda: "\n".join(f"- {line}" for line in run.left_out) or "Nothing.",
    }
    changed = []
    for told in (ROOT / "README.md", ROOT / "BENCHMARKS.md"):
        text = told.read_text()
        for name, made in parts.items():
            text = replaced(text, name, made)
        told.write_text(text)
        changed.append(told)
    return changed


def replaced(text: str, name: str, made: Callable[[], str]) -> str:
    """What stands between `<!-- benchmark: NAME -->` and `<!-- end -->`, made anew."""
    pattern = re.compile(rf"(<!-- benchmark: {re.escape(name)} -->\n).*?(<!-- end -->)", re.DOTALL)
    return pattern.sub(lambda found: f"{found[1]}{made()}\n{found[2]}", text)


def _picture(kind: str, words: str) -> str:
    """The dark one where the page is dark."""
    folder = PICTURES.relative_to(ROOT)
    return (
        "<picture>\n"
        f'  <source media="(prefers-color-scheme: dark)" srcset="{folder}/{STEM}-{kind}-dark.png">\n'
        f'  <img alt="{words}" src="{folder}/{STEM}-{kind}-light.png">\n'
        "</picture>"
    )


def _said(run: Run, results: str) -> str:
    """The line under the picture in the README."""
    least, most = run.rounds()
    rounds = f"{least}" if least == most else f"{least} to {most}"
    return (
        f"Measured on {run.about.date[:10]} by `{run.about.command}` ({rounds} round{'s' * (rounds != '1')}; "
        f"{run.about.machine.get('processor', 'one machine')}), figures in [{Path(results).name}]({results})."
    )
