"""The command line of the benchmarks, and the processes that each option needs."""

import argparse
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Final

from benchmarks import (
    checkouts,
    chunks,
    comparison,
    console,
    cpu,
    fleet,
    growth,
    hostile,
    memory,
    slow_streams,
    stores,
    workers,
)
from benchmarks.certificate import write_certificate
from benchmarks.gateways import Setup, gateway
from benchmarks.money import run as money
from benchmarks.peers import run as peers
from benchmarks.processes import LoadGenerator, load_generator, stock_mitmdump, upstream
from benchmarks.tables import use_markdown
from benchmarks.traffic import Target


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument(
        "--rounds", type=int, choices=range(1, 101), default=5, metavar="N", help="default: 5"
    )
    parser.add_argument(
        "--against", type=_checkout, metavar="FOLDER", help="another checkout, in alternating rounds"
    )
    parser.add_argument(
        "--otari", type=Path, metavar="COMMAND", help="an installed `otari`, for --peers and --money"
    )
    parser.add_argument(
        "--ledger", type=Path, metavar="FILE", help="a ledger of an earlier run, for --console; it is copied"
    )
    parser.add_argument("--markdown", action="store_true", help="print the tables in Markdown")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="scenarios, or hostile inputs, with TEXT in their name"
    )
    _add_modes(parser.add_mutually_exclusive_group())
    return parser


_MODES: Final = MappingProxyType(
    {
        "cpu": "only where a call's processor time goes",
        "connect": "a new client connection for each call, TLS upstream",
        "memory": "resident memory over 50,000 calls and 5,000 streams",
        "growth": "what two million calls in the ledger and 10,000 keys cost; Linux",
        "stores": "what limits and money cost, on each store",
        "peers": "LiteLLM, Portkey and Otari too; installs the first two; Linux",
        "money": "money lost when calls go wrong; Linux",
        "workers": "what a second worker costs, on each store",
        "chunks": "what it costs to rewrite one streamed chunk",
        "hostile": "what hostile requests and answers cost; Linux",
        "console": "what the console's front page costs on two million calls, and calls next to it; Linux",
        "without-gateway": "only stock mitmdump and the upstream",
    }
)
"""The options that measure something else, or less, and their help. At most one of them is given."""


def _add_modes(modes: argparse._MutuallyExclusiveGroup) -> None:
    for name, description in _MODES.items():
        modes.add_argument(f"--{name}", action="store_true", help=description)
    modes.add_argument(
        "--fleet",
        metavar="URL",
        help="what a hold and its settlement cost four processes on the PostgreSQL at URL: an empty database; Linux",
    )
    modes.add_argument(
        "--slow-streams",
        type=int,
        nargs="?",
        const=slow_streams.AIM_STREAMS,
        metavar="N",
        help="resident memory with N open slow streams; default: 2000",
    )


def _checkout(text: str) -> Path:
    folder = Path(text).resolve()
    if not (folder / "addon" / "cli.py").is_file():
        raise argparse.ArgumentTypeError(f"{text} is not a checkout of the project")
    return folder


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark that the command line selects."""
    options = _parser().parse_args(arguments)
    if options.markdown:
        use_markdown()
    if options.chunks:
        chunks.run(options.rounds)
        return
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tollgate-bench-")))
        if options.hostile:
            hostile.run(folder, options.only)
        elif options.money:
            money.run(folder, options.only, options.otari)
        elif options.fleet:
            fleet.run(folder, options.fleet)
        elif options.growth:
            growth.run(folder)
        elif options.stores:
            stores.run(folder)
        elif options.workers:
            workers.run(folder, options.rounds)
        elif options.slow_streams:
            slow_streams.run(folder, options.slow_streams, options.against)
        else:
            load = stack.enter_context(load_generator())
            _run_calls(options, load, stack.enter_context(upstream()), folder)


def _run_calls(options: argparse.Namespace, load: LoadGenerator, alone: Target, folder: Path) -> None:
    """Run a benchmark that uses the load generator."""
    if options.connect:
        checkouts.run_connect(load, folder, options.rounds, options.against)
    elif options.cpu:
        with checkouts.Checkouts(options.against).sampled(alone.port, folder) as sampled:
            cpu.print_costs(cpu.measure(load, sampled))
    elif options.memory:
        setup = Setup("against", checkout=options.against) if options.against else Setup()
        with gateway(alone.port, folder, setup) as target:
            memory.run(load, target)
    elif options.console:
        console.run(load, alone, folder, options.rounds, options.ledger)
    elif options.peers:
        peers.run(load, alone, folder, options.rounds, options.otari)
    elif options.against:
        chosen = comparison.scenarios(options.only)
        checkouts.run(load, alone, folder, checkouts.Checkouts(options.against), chosen, options.rounds)
    else:
        _compare(load, alone, folder, options)


def _compare(load: LoadGenerator, alone: Target, folder: Path, options: argparse.Namespace) -> None:
    chosen = comparison.scenarios(options.only)
    with ExitStack() as stack:
        plain = tls = None
        if not options.without_gateway:
            plain = stack.enter_context(gateway(alone.port, folder / "plain"))
            setup = Setup(certificate=write_certificate(folder))
            tls = stack.enter_context(gateway(alone.port, folder / "tls", setup))
        stock = stack.enter_context(stock_mitmdump(alone.port, folder))
        streaming = stack.enter_context(stock_mitmdump(alone.port, folder, streaming=True))
        targets = comparison.Targets(plain, tls, stock, streaming, alone)
        results = comparison.measure(load, chosen, targets.of, options.rounds)
    comparison.print_table(results)
    if plain:
        comparison.print_comparison(results, targets)
    if plain:
        with checkouts.Checkouts(None).sampled(alone.port, folder / "sampled") as sampled:
            costs = cpu.measure(load, sampled, {scenario.kind for scenario in chosen})
        cpu.print_costs(costs)


if __name__ == "__main__":
    main()
