"""Tables and pictures from stored runs: `report.py FILE...`; several files of one machine become one run."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from reporting import pages, terminal
from reporting.results import UnlikeRuns, merge, read, shown


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Keep the runs put together in this JSON file.")
@click.option("--publish", is_flag=True, help="Bring README.md, BENCHMARKS.md and their pictures up to this run.")
def main(files: tuple[Path, ...], output: Path | None, publish: bool) -> None:
    """Show runs, and write their pages and pictures beside them."""
    try:
        run = merge([read(path) for path in files])
    except UnlikeRuns as why:
        raise click.ClickException(str(why)) from why
    if len(files) > 1 and output is None and publish:
        raise click.ClickException("to publish several runs as one, keep them in a file: --output")
    path = output or files[0]
    if output is not None:
        run.write(output)
    made = pages.write(run, path) if output is not None or len(files) == 1 else []
    if publish:
        made += pages.publish(run, shown(path.resolve()) if path.is_absolute() else str(path))
    click.echo(pages.page(run) if not sys.stdout.isatty() else terminal.overview(run))
    for each in made:
        click.echo(f"written: {shown(each)}", err=True)


if __name__ == "__main__":
    main()
