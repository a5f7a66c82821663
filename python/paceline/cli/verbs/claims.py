"""``paceline claims``: published | measured | verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from paceline import shipped, store
from paceline.cli import app as shared
from paceline.cli import console
from paceline.cli.app import app, examples
from paceline.cli.failure import Exit, Failure
from paceline.names import nearest
from paceline.reading import read_text, toml
from paceline.study.claims import Campaign, Claim, ClaimError, Result, find, load
from paceline.study.claims.mutants import Mutants
from paceline.study.claims.results import NOT_QUOTED, in_words, tally

#: So many runs take so long that it is said first.
_MANY = 1_000


@Parameter(name="*")
@dataclass(frozen=True)
class Options:
    """The options of the command."""

    list: bool = False
    """List the claims without running them."""
    mutants: bool = False
    """Run each claim and its mutants. A mutant consists of the same runs without the claim's
    subject, and must fail. A mutant that does not fail survives."""
    seeds: shared.Seeds = None
    quick: bool = False
    """Run a shorter form of each claim: fewer seeds and shorter runs."""
    out: Path | None = None
    """Folder for a report: a page, plots and data."""
    claims: Path | None = None
    """File or folder of claims. Default: ./claims, or the shipped claims."""
    backend: shared.Backend = "sim"
    """Which claims to run: simulated claims (sim), or claims that need a kernel's TCP in real time
    (emu) or in virtual time (vm)."""
    jobs: Annotated[int | None, Parameter(validator=shared.positive)] = None
    """Maximum number of threads, and of parallel emulated runs. Default: one thread and four
    emulated runs per core."""
    controllers: shared.Controllers = None
    memory: shared.Memory = None
    json: shared.Json = False
    quiet: shared.Quiet = False


@app.command(
    help_epilogue=examples(
        "claims", "claims B1 startup --seeds 20", "claims --list", "claims --mutants --quick"
    )
)
def claims(
    names: Annotated[
        list[str] | None, Parameter(help="Ids or topics of claims. Default: all.")
    ] = None,
    /,
    *,
    options: Options = Options(),
) -> Exit:
    """Rerun published experiments, and compare each published result with the measured one.

    The verdict of a claim is one of:

    - reproduced;
    - reproduced under a stated assumption, because the source leaves something open (`--json`
      prints "reproduced by choice");
    - not reproduced;
    - finding: the claim answers a question of the Paceline project, for which no result is
      published;
    - error: the claim could not be measured.

    Each measured value has a 95 % interval over the seeds. The runs of all chosen claims execute in
    parallel. Emulated runs come last. The higher their link rates, the fewer emulated runs execute
    in parallel. If an emulated run exceeds the error bounds in `[run.emulation]`, the command
    repeats it up to three times. A claim that you name by its id runs on the backend that it needs,
    whatever `--backend` says. With `--controller bbr3=FILE`, your own controller replaces bbr3 in
    all claims.

    The exit code is 3 if a claim has the verdict "not reproduced" or "error", if a bound of a claim
    with the verdict "finding" fails, or if a mutant survives.
    """
    folder = options.claims or shipped.nearest_folder("claims")
    selected = chosen(names or [], folder, options)
    if options.list:
        list_claims(selected)
        return Exit.OK
    if not selected:
        hint = "`paceline claims --list` shows the backend of each; name one by its id to run it"
        message = f"no claim of these is for the backend {options.backend}"
        raise Failure("no-claims", message, hint=hint)
    if options.mutants:
        return run_mutants(selected, options)
    return run_claims(selected, options)


def chosen(names: Sequence[str], folder: Path, options: Options) -> list[Claim]:
    """Return the claims of a file or folder with these ids or topics: of a backend, or to list."""
    if not folder.exists():
        message = f"{folder} does not exist"
        raise Failure("no-claims", message, hint="name a file or a folder of claims with --claims")
    try:
        claims = load(folder, queries=not options.list)
    except ClaimError as error:
        hint = f"`paceline run {folder}` runs a scenario" if _is_scenario(folder) else None
        file = None if error.file is None else str(error.file)
        raise Failure("bad-claim", str(error), hint, file, error.line) from error
    if not claims:
        hint = "name a file or a folder of claims with --claims"
        raise Failure("no-claims", f"{folder} has no claims", hint=hint)
    try:
        return find(claims, names, None if options.list else options.backend)
    except KeyError as error:
        name = str(error.args[0])
        near = nearest(name, {claim.id for claim in claims} | {claim.topic for claim in claims})
        shown = "`paceline claims --list` shows ids and topics"
        hint = f"did you mean {near}? {shown}" if near else shown
        raise Failure("unknown-name", f"no claim or topic {name!r}", hint=hint) from error


def _is_scenario(place: Path) -> bool:
    try:
        return "flows" in toml(read_text(place))
    except (OSError, ValueError):
        return False


def list_claims(claims: Sequence[Claim]) -> None:
    """Print claims without running them."""
    keys = ("id", "topic", "backend", "source", "published")
    rows = [{key: str(getattr(claim, key)) for key in keys} for claim in claims]
    shown = ("id", "topic", "backend", "published")
    heads = ("Claim", "Topic", "Backend", "Published")
    cells = [[row[key] for key in shown] for row in rows]
    console.answer({"claims": rows}, lambda: console.print_list(heads, cells))


def run_claims(claims: Sequence[Claim], options: Options) -> Exit:
    """Run claims and print a verdict for each; exit code 3 if one is not reproduced."""
    if options.out is not None:
        store.claim_page(options.out, "claims")
    campaign = Campaign(claims, seeds=options.seeds, quick=options.quick)
    if not options.quick and len(campaign) > _MANY:
        console.note(
            f"{len(campaign):,} runs: --quick runs a short form. Ctrl-C stops, and the same "
            "command continues"
        )
    with console.progress("claims", len(campaign)) as watch:
        verdicts = campaign.verify(threads=options.jobs, watch=watch)
    results = verdicts.results
    value: dict[str, Any] = {"claims": [result.as_json() for result in results]}
    value["quick"] = options.quick
    paragraphs = []
    repeats = verdicts.repeats
    if repeats.runs:
        value["emulated"] = asdict(repeats)
        counted = f"{repeats.repeated} of {repeats.runs} emulated runs"
        broken = [f"{name} {count} times" for name, count in repeats.broken.items()]
        beyond = f"; exceeded bounds: {', '.join(broken)}" if broken else ""
        paragraphs.append(f"{counted} were repeated{beyond}")
    # After Ctrl-C nothing is drawn, which takes long: the same command resumes and draws it.
    place = None if verdicts.unfinished else options.out
    if place is not None:
        from paceline.study.claims.page import write_page

        value["report"] = str(write_page(results, value, place))
        paragraphs.append(value["report"])
    console.answer(value, lambda: _show(results, quick=options.quick), *paragraphs)
    if verdicts.unfinished:
        left = ", ".join(claim.id for claim in verdicts.unfinished)
        console.stderr().print(f"interrupted; not finished: {left}. {console.GOES_ON}")
        return Exit.INTERRUPTED
    stands = all(result.stands for result in results)
    return Exit.OK if stands else Exit.EXPECTATION_FAILED


def run_mutants(claims: Sequence[Claim], options: Options) -> Exit:
    """Run claims and their mutants; exit code 3 if a mutant survives."""
    campaign = Mutants(claims, seeds=options.seeds, quick=options.quick)
    if not campaign.count:
        hint = "the long ones run only without --quick; [claims.mutants] of a file declares them"
        raise Failure("no-mutants", "none of these claims has a mutant", hint=hint)
    with console.progress("mutants", len(campaign)) as watch:
        results, unfinished = campaign.run(threads=options.jobs, watch=watch)
    if unfinished:
        console.stderr().print(f"interrupted. {console.GOES_ON}")
        return Exit.INTERRUPTED
    table = console.table("Claim", "Mutant", "Outcome", "Bounds that fail", left=4)
    for mutant in results:
        named = f"{mutant.change.name}: {mutant.change.that}"
        table.add_row(mutant.claim.id, named, mutant.text(), mutant.found)
    counted = Counter(mutant.outcome for mutant in results)
    summary = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counted.items()))
    form = f"; {NOT_QUOTED}" if options.quick else ""
    some = "1 mutant" if len(results) == 1 else f"{len(results)} mutants"
    value = {"mutants": [mutant.as_json() for mutant in results], "quick": options.quick}
    console.answer(value, table, f"{some}: {summary or 'none'} (each must fail){form}")
    bad = any(mutant.outcome in ("survives", "error") for mutant in results)
    return Exit.EXPECTATION_FAILED if bad else Exit.OK


def _show(results: Sequence[Result], *, quick: bool) -> None:
    table = console.table("Claim", "Published", "Measured", "Verdict", left=2)
    for result in results:
        shown, verdict = result.shown().replace(" [", "\n["), in_words(result.verdict)
        table.add_row(result.claim.id, result.claim.published, shown, verdict)
    remarks = [f"{result.claim.id}: {text}" for result in results for text in _remarks(result)]
    form = f"; {NOT_QUOTED}" if quick else ""
    console.show(table, *remarks, f"{tally([result.verdict for result in results])}{form}")


def _remarks(result: Result) -> Iterator[str]:
    """Yield the figure of a claim, and what there is to know of it."""
    if result.measured is not None:
        yield result.figure()
    yield from (condition.text() for condition in result.accept if condition.held)
    for condition in result.accept:
        if condition.corrected:
            yield f"corrected: {condition.that}. {condition.correction()}"
    if result.choices:
        yield f"chosen: {result.claim.choice}"
    yield from (f"other choice: {changed.text()}" for changed in result.choices)
    yield from (f"variant: {changed.text()}" for changed in result.variants)
    yield from (f"{figure.name}: {figure.text()}" for figure in result.beside)
    for filled in result.tables:
        yield f"{filled.title}: {filled.summary() or '--out writes it'}"
    if result.why:
        yield result.why
