"""`anydml`: run, check, describe, picture, ops, compare, record, report, export-kit, export-vectors, info, tune.

Exit status 0: done. 1: ran, but an output could not be written, or a comparison differs. 2: refused (command line, program,
desc, binding, data). 3: a node of a model could not be judged. An unexpected exception keeps its traceback.
"""

from __future__ import annotations

import io
import signal
import sys
from typing import Any, TextIO, cast

import click

import anydml
from anydml import config, operators
from anydml.catalog import NOT_COMPILED
from anydml.cli import compare_models, kit, pictures, report
from anydml.cli.models import check_model, describe_model, is_model
from anydml.cli.output import Prints, as_json, flushed, note, open_streams, result
from anydml.cli.programs import compared, loaded, members, npy
from anydml.cli.run_models import run_model
from anydml.devices.device import NAMES, OPENCL, Device
from anydml.devices.families import kind_of
from anydml.errors import DescError, Error, Fault, ProgramError
from anydml.explain import describe as pages
from anydml.explain.comparison import NEAR
from anydml.explain.precision import PRECISIONS
from anydml.feature_level import FeatureLevel
from anydml.fork_safety import guard
from anydml.kernels.code import tuned
from anydml.kernels.code.llvm import unavailable
from anydml.program.schema import program_schema
from anydml.progress import shown
from anydml.schema.directml import NAMES as DIRECTML
from anydml.spelling import printable

RUNTIMES = ["onnxruntime", "torch", "litert", "litert-reference", OPENCL]  # litert-reference: LiteRT's reference kernels
MOST_RUNS = 10**6  # of one dispatch, timed or warm-up; the time of each is kept


def _parsed(ctx: click.Context, param: click.Parameter, value: str) -> FeatureLevel:
    try:
        return FeatureLevel.parse(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _progress(ctx: click.Context, param: click.Parameter, quiet: bool) -> None:
    ctx.with_resource(shown(not quiet))


_file = click.argument("file", metavar="FILE|-")
_level = click.option(
    "--feature-level", default="6_4", callback=_parsed, metavar="LEVEL", help="The rules to check against, such as 5_0 or 5.0."
)
_json = click.option("--json", "json_wanted", is_flag=True, help="As JSON.")
_input_path = click.option("--input-path", metavar="DIR", help="The folder of the files it reads.  [default: its own folder]")
_output_path = click.option("--output-path", metavar="DIR", default=".", help="The folder of the files it writes.")
_allow_outside = click.option("--allow-outside", is_flag=True, help="Let it read and write files outside of these folders.")
_input = click.option("--input", "given", multiple=True, metavar="NAME=FILE", help="The .npy file of a model's input.")
_inputs = click.option("--inputs", metavar="DIR|FILE", help="A model's inputs: .npy or .pb files in a folder, or an .npz file.")
_random = click.option("--random", metavar="SEED", type=click.IntRange(0), help="Random inputs for a model, but for --input.")
_quiet = click.option(
    "-q", "--quiet", is_flag=True, expose_value=False, callback=_progress, help="Show no progress.",
)  # fmt: skip
_sizes = click.option(
    "--size",
    "sizes",
    multiple=True,
    metavar="NAME=SIZE",
    help="A size that a model leaves open: N=1; all of an input: x=1,3,8.",
)


def _device_name(name: str) -> str:
    """A device's name. BadParameter if there is no such kind of device."""
    if name not in NAMES and kind_of(name) != OPENCL:
        raise click.BadParameter(f"{name!r} is not one of {', '.join((*NAMES, OPENCL))}.")
    return name


class _Runtime(click.Choice[str]):
    """A runtime by name, and OpenCL devices as `--device` takes them."""

    def __init__(self) -> None:
        super().__init__(RUNTIMES)

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return value if kind_of(value) == OPENCL else super().convert(value, param, ctx)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.version_option(
    anydml.__version__, prog_name="anydml", message=f"%(prog)s %(version)s, semantics {anydml.SEMANTICS_VERSION}"
)
def commands() -> None:
    """DirectML's operators, exactly, on any machine."""


@commands.command
@_file
@click.option(
    "--device",
    callback=lambda _, __, name: _device_name(name),
    default="cpu",
    metavar="|".join((*NAMES, OPENCL, f"{OPENCL}:NAME")),
    help="Where to run.",
)
@_level
@_input_path
@_output_path
@click.option("-i", "iterations", type=click.IntRange(1, MOST_RUNS), default=1, help="How many times each dispatch is timed.")
@click.option("-w", "warmup", type=click.IntRange(0, MOST_RUNS), default=0, help="How many times it runs before that.")
@click.option("--profile", is_flag=True, help="Print a table of the dispatches: kernels, least times, bytes.")
@_allow_outside
@_input
@_inputs
@_random
@_sizes
@click.option("--keep", metavar="all|NAME,..", help="Write all tensors of a model, or those of these names, not its outputs.")
@_quiet
@click.option("--turns", type=click.IntRange(1), metavar="N", help="The most iterations of a model's loop.  [default: 10000]")
def run(
    file: str,
    device: str,
    feature_level: FeatureLevel,
    given: tuple[str, ...],
    inputs: str | None,
    random: int | None,
    sizes: tuple[str, ...],
    keep: str | None,
    turns: int | None,
    **options: Any,
) -> int:
    """Run a program or a model.

    A program is a JSON file in the format of DxDispatch. Its prints go to standard output, the names of files that it wrote to
    standard error. A model is an .onnx or a .tflite file; an .npy file is written for each output.
    """
    if is_model(file):
        on = Device(device, feature_level=feature_level)
        source = compare_models.Source(inputs, given, random, sizes, options["input_path"])
        return run_model(file, on, source, options["output_path"], turns, keep)
    for name, value in (("--input", given), ("--inputs", inputs), ("--size", sizes), ("--keep", keep), ("--turns", turns)):
        if value:
            raise click.UsageError(f"{name} is for models; a program says itself what it reads and writes.")
    if random is not None:
        raise click.UsageError("--random is for models; a program says itself what it reads.")
    loaded(file).run(Device(device, feature_level=feature_level), out=cast(TextIO, Prints()), **options)
    return 0


@commands.command
@_file
@_level
@click.option("--strict", is_flag=True, help="Refuse extensions, which anydml allows and the documentation does not.")
@_input_path
@_output_path
@_allow_outside
@_json
@_sizes
@_quiet
def check(file: str, json_wanted: bool, sizes: tuple[str, ...], **options: Any) -> int:
    """Check a program, or a model, which is an .onnx or a .tflite file.

    For a program, prints every fault with its place, the rule it breaks, and what would fit. For a model, prints every node
    that is refused, with the reason; or the feature level and the memory that it needs.
    """
    if is_model(file):
        return check_model(file, sizes, json_wanted)
    if sizes:
        raise click.UsageError("--size is for models; a program gives its sizes itself.")
    faults: tuple[Fault, ...] = ()
    try:
        loaded(file).check(**options)
    except ProgramError as error:
        faults = error.faults
    if json_wanted:
        as_json([members(fault) for fault in faults])
    elif faults:
        result("\n".join(map(str, faults)))
    else:
        result(f"{printable(file)}: no faults at feature level {options['feature_level']}", "green")
    return 2 if faults else 0


@commands.command
@click.argument("operator", metavar="OP")
@_json
@click.option("--markdown", "markdown_wanted", is_flag=True, help="As a reference page.")
@click.option("--html", metavar="FILE", help="Write a page about a model: what flows where, and each operator's picture.")
@_sizes
def describe(operator: str, json_wanted: bool, markdown_wanted: bool, html: str | None, sizes: tuple[str, ...]) -> int:
    """Describe an operator or a model.

    For an operator: fields, supported types, rules with their messages, errata, examples. OP is its name, in any case, with or
    without DML_OPERATOR_. For a model, which is an .onnx or .tflite file: inputs, outputs and operators.
    """
    if is_model(operator):
        return describe_model(operator, json_wanted) if html is None else pictures.model_html(operator, html, sizes)
    if html is not None or sizes:
        raise click.UsageError("--html and --size are for models; `anydml picture` draws operators and programs.")
    if json_wanted and markdown_wanted:
        raise click.UsageError("--json and --markdown exclude one another.")
    if (found := operators.find(operator.upper())) is None:
        raise click.UsageError(operators.why_missing(operator.upper()))
    facts = pages.describe(found)
    if json_wanted:
        as_json(facts)
    elif markdown_wanted:
        print(pages.markdown(facts), end="")
    else:
        for line in pages.text(facts).splitlines():
            result(line, "bold" if line[:1].strip() else None)
    return 0


@commands.command
@click.argument("what", metavar="PROGRAM|OP|-")
@click.option("-o", "output", metavar="FILE", help="The .html file to write; of an operator also .svg.")
def picture(what: str, output: str | None) -> int:
    """Draw a program or an operator.

    A program: its resources and dispatches, what flows where, each operator's picture, and every fault at its place. An
    operator: its first example. Without -o, pictures are printed. The exit status is 2 if the program has faults.
    """
    return pictures.drawn(what, output)


@commands.command
@_json
@click.option("--schema", is_flag=True, help="The JSON Schema of programs instead.")
def ops(json_wanted: bool, schema: bool) -> int:
    """List the operators.

    Each with its first feature level, the kind of kernel that computes it, and what it does; as JSON, with all that `describe`
    says of it.
    """
    if schema:
        as_json(program_schema())
        return 0
    listed = [
        (s.wire_name, s.number, str(s.since), NOT_COMPILED.get(s.name, "compiled"), s.summary.splitlines()[0])
        for s in (d.spec for d in operators.every())
    ]
    if json_wanted:
        names = ("operator", "number", "since", "computed_by", "summary")
        found = zip(operators.every(), listed, strict=True)
        as_json([{**pages.describe(d), **dict(zip(names, row, strict=True))} for d, row in found])
        return 0
    width = max(len(name) for name, *_ in listed)
    for name, _, since, by, summary in listed:
        result(f"{name:{width}}  {since}  {by:9}  {summary}")
    note(f"{len(listed)} of {len(DIRECTML)} operators; each has kernels for OpenCL devices, too")
    if (reason := unavailable()) is not None:
        note(f"nothing is compiled here, since {reason}: NumPy and the reference compute")
    return 0


@commands.command
@_json
def info(json_wanted: bool) -> int:
    """Print versions, processor, instruction set and threads.

    A bug report needs these; `anydml.show_config()` prints the same.
    """
    facts = config.config()
    if json_wanted:
        as_json(facts)
    else:
        result(config.text(facts))
    return 0


@commands.command
@click.option("--dry-run", is_flag=True, help="Measure, and keep nothing.")
@_json
def tune(dry_run: bool, json_wanted: bool) -> int:
    """Measure which thresholds of kernels are fastest on this machine.

    It takes a minute, on one thread. What is faster than the usual thresholds is kept in a file beside the machine code on
    disk, which later processes read. Results never change. A machine that is busy finds little.
    """
    if (reason := unavailable()) is not None:
        raise click.UsageError(f"Nothing is compiled here, since {reason}.")
    with guard:  # imports that other commands do not need
        from anydml.cli import tune as tuning
    rows: list[tuning.Found] = []

    def told(found: tuning.Found) -> None:
        rows.append(found)
        (note if json_wanted else result)(tuning.shown(found))

    won = tuning.tune(told)
    if json_wanted:
        as_json(tuning.as_data(won, rows))
    if not dry_run:
        try:
            note(f"{len(won)} thresholds are kept in {tuned.keep(won)}")
        except OSError as error:
            note(f"nothing is kept: {error}")
            return 1
    return 0


@commands.command
@click.argument("program", metavar="PROGRAM|MODEL|KIT|-")
@click.option("--resource", metavar="NAME", help="A resource that an operator of the program writes.")
@click.option(
    "--actual",
    "actuals",
    multiple=True,
    metavar="FILE.npy|DIR",
    help="Another implementation's output; for a model, tensors by name, several times for several runtimes.",
)
@click.option(
    "--against", "--runtime", "against", type=_Runtime(), help="The runtime, or OpenCL device, that a model is compared with."
)
@_input
@_inputs
@_random
@_sizes
@click.option("--html", metavar="FILE", help="Write a page about a model, with its graph.")
@click.option("--model-explorer", "explorer", metavar="FILE", help="Write a model's errors as node data for Model Explorer.")
@_quiet
@click.option("--seconds", type=click.FloatRange(0), default=60, help="How long to search for fusions that give other numbers.")
@click.option("--provider", metavar="NAME", help="onnxruntime's execution provider, such as Dml, or torch's device; else CPU.")
@click.option("--precision", type=click.Choice([*PRECISIONS]), help="The type that the runtime is said to compute floats in.")
@click.option("--fail-on", metavar="differs|beyond|unjudged|TOLERANCE", help="What of a model gives exit status 1 or 3.")
@_input_path
@_allow_outside
@_json
def compare(
    program: str,
    resource: str | None,
    actuals: tuple[str, ...],
    against: str | None,
    given: tuple[str, ...],
    inputs: str | None,
    random: int | None,
    sizes: tuple[str, ...],
    html: str | None,
    explorer: str | None,
    seconds: float,
    provider: str | None,
    precision: str | None,
    fail_on: str | None,
    json_wanted: bool,
    **options: Any,
) -> int:
    """Compare another output with the exact one.

    For a program in DxDispatch's format: the last operator that writes the resource. For a model, an .onnx or a .tflite file:
    every node, judged on the inputs that it had in the other implementation.

    PROGRAM may also be the folder of a kit that `anydml export-kit` wrote and whose programs were run with DirectML: a table of
    the cases, and a sentence for each that is not as here.

    The exit status of a program is 1 if its output differs. That of a model is 1 if a node is beyond rounding, else 3 if a node
    could not be judged, else 0. What the type of --precision explains counts as rounding. With --fail-on differs, and against
    an OpenCL device, it is 1 for any difference; with beyond, nodes that could not be judged do not count; with a tolerance, it
    is 1 if an output of the model differs by more.
    """
    if kit.is_kit(program):
        rest = (random is not None, sizes, html, explorer, provider, precision, fail_on)
        if any((resource, actuals, against, given, inputs, *rest)):
            raise click.UsageError("All results of a kit are compared; --json is the only option for it.")
        return kit.judged(program, json_wanted)
    if is_model(program):
        if resource is not None or options["input_path"] is not None or options["allow_outside"]:
            raise click.UsageError("--resource, --input-path and --allow-outside are for programs, not for models.")
        return compare_models.compared(
            program,
            against=against,
            actual=actuals,
            source=compare_models.Source(inputs, given, random, sizes),
            html=html,
            explorer=explorer,
            seconds=seconds,
            provider=provider,
            precision=precision,
            fail_on=fail_on,
            json_wanted=json_wanted,
        )
    if resource is None or not actuals:
        raise click.UsageError(f"Missing option '{'--resource' if resource is None else '--actual'}'.")
    others = (against, given, inputs, random is not None, sizes, html, explorer, provider, precision, fail_on)
    if len(actuals) > 1 or any(others):
        raise click.UsageError(
            "--against, --provider, --precision, --input, --inputs, --random, --size, --html, --model-explorer, --fail-on and "
            "several --actual are for models (.onnx, .tflite)."
        )
    comparison = compared(loaded(program), resource, npy(actuals[0]), options)
    if json_wanted:
        as_json(comparison.to_dict())
        return 0 if comparison.equal else 1
    result(str(comparison), "green" if comparison.equal else "red")
    for worst in comparison.worst:
        near = worst.distance_to_tie is not None and worst.distance_to_tie <= NEAR
        tie = f", {worst.distance_to_tie:.2g} from a tie" if near else ""
        result(f"  {list(worst.coordinates)}: {worst.actual}, not {worst.expected} ({worst.exact}{tie})")
    return 0 if comparison.equal else 1


@commands.command
@click.argument("model", metavar="MODEL")
@click.option("--runtime", "--against", "runtime", type=_Runtime(), help="The runtime.  [default: by the file]")
@click.option("--provider", metavar="NAME", default="CPU", help="onnxruntime's execution provider, or torch's device.")
@_input
@_inputs
@_random
@_sizes
@click.option("-o", "folder", metavar="DIR", required=True, help="The folder to write.")
@_quiet
def record(
    model: str,
    runtime: str | None,
    provider: str,
    given: tuple[str, ...],
    inputs: str | None,
    random: int | None,
    sizes: tuple[str, ...],
    folder: str,
) -> int:
    """Record all tensors of a model as a runtime computes them: onnxruntime, or LiteRT for a .tflite file, or another.

    They are written with the inputs, for `anydml compare` on another machine.
    """
    source = compare_models.Source(inputs, given, random, sizes)
    return compare_models.record(model, runtime=runtime, provider=provider, source=source, folder=folder)


@commands.command("report")
@click.argument("model", metavar="QUANTISED.onnx")
@click.option("--float", "floats", metavar="MODEL.onnx", required=True, help="The float model that it was made from.")
@_input
@_inputs
@_random
@_sizes
@click.option("--html", metavar="FILE", help="Write a page.")
@_json
@_quiet
def report_command(
    model: str,
    floats: str,
    given: tuple[str, ...],
    inputs: str | None,
    random: int | None,
    sizes: tuple[str, ...],
    html: str | None,
    json_wanted: bool,
) -> int:
    """Report the accuracy of a quantised ONNX model, layer by layer.

    For each layer: the signal-to-noise ratio (SQNR) of its tensor and of the model's outputs, the share of elements that
    saturate, the range that is used, and what scales for each channel and 16 bits would gain.
    """
    source = compare_models.Source(inputs, given, random, sizes)
    return report.reported(model, floats=floats, source=source, html=html, json_wanted=json_wanted)


@commands.command("export-kit")
@click.argument("folder", metavar="DIR")
@click.option("--operator", "names", multiple=True, metavar="OP", help="An operator of the kit; all if none is given.")
def export_kit(folder: str, names: tuple[str, ...]) -> int:
    """Write programs with exact outputs, to compare DirectML on Windows with anydml.

    DIR gets a program of DxDispatch for every example, layout and kind of data, and for every rule a desc that breaks it;
    the exact contents of all outputs; and run.ps1, which runs the programs with dxdispatch.exe. `anydml compare DIR` then says
    what is equal, what differs and by how much, and which descs are accepted or refused otherwise than here.
    """
    return kit.export(folder, names)


@commands.command("export-vectors")
@click.argument("operator", metavar="OP")
@click.option("-o", "path", metavar="FILE", help="The file to write.  [default: OP.npz in lower case]")
def export_vectors(operator: str, path: str | None) -> int:
    """Write an operator's examples and random cases with exact results, for other projects' tests.

    FILE is an .npz file without pickles: the arrays of case 7 are `7.InputTensor` and so on, and `cases` is a JSON text with
    the desc of each case, and the names of its inputs and outputs.
    """
    return kit.export_vectors(operator, path)


def _complain(error: click.ClickException) -> None:
    """Print the text of click's `show`, with the arguments in it escaped."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):  # its message is the help, which has many lines
        note(error.format_message())
        return
    ctx: click.Context | None = getattr(error, "ctx", None)
    if ctx is not None:
        note(f"{ctx.get_usage()}\nTry '{ctx.command_path} --help' for help.\n")
    note(f"Error: {printable(error.format_message())}")


def _status() -> int:
    try:
        return int(commands(prog_name="anydml", standalone_mode=False))
    except click.ClickException as error:
        _complain(error)
        return 2
    except click.Abort:
        return 130
    except DescError as error:
        note("\n".join(violation.wire_text() for violation in error.violations), "red")
        return 2
    except (Error, MemoryError) as error:
        note(str(error), "red")
        return 2
    except OSError as error:
        unflushed = flushed(sys.stdout)
        # a system error without a file's name comes from the stream, which may fail before it is flushed
        to_stream = unflushed or (error.errno is not None and error.filename is None)
        note(f"{'standard output' if to_stream else 'an output'} could not be written: {unflushed or error}", "red")
        return 1


def main() -> None:
    """The `anydml` script."""
    open_streams()
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # a pipe that closes early ends the process quietly, as in other tools
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal may lack characters of a program's names
    status = _status()
    if error := flushed(sys.stdout):
        note(f"standard output could not be written: {error}", "red")
        status = 1
    flushed(sys.stderr)
    sys.exit(status)


if __name__ == "__main__":
    main()
